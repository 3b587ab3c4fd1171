"""Plain text for terminals and JSON for programs: numbers, tables, and text that cannot harm the reader's screen."""

from __future__ import annotations

import dataclasses
import math
import unicodedata
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson

from evalkit.stats import Estimate

BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
NONE = "–"
MOST_DIGITS = 9


def number(value: float | None, digits: int = 3) -> str:
    """A number with `digits` decimals, `.574` below one; a dash where there is none."""
    if value is None or math.isnan(value):
        return NONE
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{abs(value):.{digits}f}"
    text = text[1:] if text.startswith("0.") else text
    return ("−" if value < 0 and text.strip(".0") else "") + text


def interval(estimate: Estimate, digits: int = 3) -> str:
    """`.574 [.541, .607]`; without an interval the value and `[no interval]`."""
    if estimate.value is None:
        return "undefined"
    if estimate.low is None or estimate.high is None:
        return f"{number(estimate.value, digits)} [no interval]"
    while digits < MOST_DIGITS and number(estimate.low, digits) == number(estimate.high, digits):
        digits += 1  # an interval that rounds to a point would read as ±0
    return f"{number(estimate.value, digits)} [{number(estimate.low, digits)}, {number(estimate.high, digits)}]"


def percent(share: float | None) -> str:
    """`3.2 %`."""
    return NONE if share is None or math.isnan(share) else f"{100 * share:.1f} %"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "  ") -> str:
    """Columns aligned by their widest cell; the first to the left, the others to the right where all are numbers."""
    cells = [[cell.replace("\n", "\\n").replace("\t", "\\t") for cell in row] for row in (header, *rows)]
    widths = [max(_width(row[i]) for row in cells) for i in range(len(header))]
    lines = []
    for row in cells:
        padded = [cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)]
        lines.append((indent + "  ".join(padded)).rstrip())
    return "\n".join(lines)


def _width(text: str) -> int:
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def visible(text: str) -> str:
    """Text with control, bidi and unassignable characters spelled out, so that model output cannot drive a terminal."""
    return "".join(char if char in "\n\t" or not _hidden(char) else _spelled(char) for char in text)


def _hidden(char: str) -> bool:
    return char in BIDI or unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _spelled(char: str) -> str:
    return (
        f"\\x{ord(char):02x}"
        if ord(char) < 256
        else f"\\u{ord(char):04x}"
        if ord(char) < 65536
        else f"\\U{ord(char):08x}"
    )


def to_json(content: Any) -> str:
    """Dataclasses, decimals and paths as indented JSON; NaN and infinity as null."""
    return orjson.dumps(_plain(content), option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY).decode()


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_utf8(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return _utf8(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Decimal | Path):
        return str(value)
    return value


def _utf8(text: str) -> str:
    """Text with half characters, which JSON files can hold and UTF-8 cannot, spelled out."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
