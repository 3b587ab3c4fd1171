"""Side metrics of one completion: what length, repetition and layout look like, whatever the reward says. Pure."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

_NGRAM = 4
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]", re.MULTILINE)
_BULLET = re.compile(r"^[ \t]*(?:[-*+•]|\d{1,9}[.)])[ \t]", re.MULTILINE)
_BOLD = re.compile(r"\*\*(?=[^\s*])[^*\n]{1,500}\*\*")
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_TABLE = re.compile(r"^[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+\r?$", re.MULTILINE)
"""A delimiter row. Possessive, so that no text takes more than linear time: this runs outside the killable workers."""


@dataclass(frozen=True, slots=True)
class SideMetrics:
    """Numbers about one completion. None of them is a reward."""

    characters: int
    """Unicode code points."""
    words: int
    """Separated by white space."""
    repeated_ngram_share: float
    """Share of the 4-grams of words that occurred before in the text; 0 where there are fewer than 4 words."""
    compression_ratio: float | None
    """UTF-8 bytes ÷ bytes after zlib (level 1, memory level 4): high = repetitive. `None` for an empty completion."""
    headings: int
    bullets: int
    """Lines that open a list item, numbered ones too."""
    bold: int
    """Spans between double asterisks."""
    code_fences: int
    """Fence lines; a closed block has two."""
    tables: int
    """Delimiter rows, one per Markdown table."""
    empty: bool
    """Nothing but white space."""


def side_metrics(text: str) -> SideMetrics:
    """The side metrics of one completion."""
    words = text.split()
    raw = text.encode("utf-8", "surrogatepass")
    return SideMetrics(
        characters=len(text),
        words=len(words),
        repeated_ngram_share=_repeated_share(words),
        compression_ratio=len(raw) / _compressed(raw) if raw else None,
        headings=_count(_HEADING, text) if "#" in text else 0,
        bullets=_count(_BULLET, text),
        bold=_count(_BOLD, text) if "**" in text else 0,
        code_fences=_count(_FENCE, text) if "```" in text or "~~~" in text else 0,
        tables=sum("|" in row.group() for row in _TABLE.finditer(text)) if "|" in text else 0,
        empty=not words,
    )


def _compressed(raw: bytes) -> int:
    """Bytes after zlib at level 1 with a small hash table: clearing the usual one costs more than packing a text."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 15, 4)
    return len(packer.compress(raw)) + len(packer.flush())


def _count(pattern: re.Pattern[str], text: str) -> int:
    return sum(1 for _ in pattern.finditer(text))


def _repeated_share(words: list[str]) -> float:
    total = len(words) - _NGRAM + 1
    if total < 1:
        return 0.0
    return 1.0 - len(set(zip(words, words[1:], words[2:], words[3:], strict=False))) / total
