"""Content of an item: the source row as one JSON text that depends on its values alone.

1. Keys are sorted by code point at every level, no spaces, UTF-8 as it is: formatting and key order are gone.
2. A number is written as its shortest plain decimal literal, exactly: 0.70, 0.7 and 7e-1 are one value, and so are 1.0
   and 1. A number and a text that looks like one stay different.
3. JSON numbers are taken from their literal text. A binary float (Parquet, Hugging Face) is the decimal that its
   shortest representation as a double spells; a 32-bit float is widened to a double first.
4. Not content: NaN, infinities, bytes, whole numbers beyond 64 bits, numbers beyond 1e±300, half surrogate pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any

import orjson

from evalkit.canonical import digest_bytes, short
from evalkit.errors import kind_of

MAX_EXPONENT = 300
SMALLEST, LARGEST = -(2**63), 2**64 - 1
ID_LENGTH = 32


class NotContent(ValueError):
    """A value that no item can hold: what it is, and the mend. The reader adds file, row and field."""


def decimal(text: str) -> Decimal:
    """The exact decimal that a number's literal spells.

    Raises:
        NotContent: out of range.
    """
    number = Decimal(text)
    if number and abs(number.adjusted()) > MAX_EXPONENT:
        raise NotContent(f"a number beyond 1e±{MAX_EXPONENT}; write it as text")
    return number


def whole(text: str) -> int:
    """The whole number that a literal spells.

    Raises:
        NotContent: more than 64 bits, which readers of JSON round in silence.
    """
    number = int(text) if len(text) <= 20 else LARGEST + 1
    if not SMALLEST <= number <= LARGEST:
        raise NotContent("a whole number beyond 64 bits; write it as text")
    return number


def plain(value: Any, path: str = "") -> Any:
    """A value from a columnar file as null, true/false, text, whole numbers, decimals, lists and objects.

    Args:
        value: what the reader of the file hands out.
        path: field it stands in, for the message.

    Raises:
        NotContent: a kind or a number that no item can hold.
    """
    if value is None or isinstance(value, bool | str):
        return value
    try:
        if isinstance(value, int):
            return whole(str(value))
        if isinstance(value, float):
            if not math.isfinite(value):
                raise NotContent("NaN or infinity; use null where there is no value")
            return decimal(repr(value))
        if isinstance(value, Decimal):
            return decimal(str(value))
    except NotContent as error:
        raise NotContent(f"field {path}: {error}") from None
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): plain(item, f"{path}.{key}" if path else str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{path}[{index}]") for index, item in enumerate(value)]
    raise NotContent(f"field {path}: {kind_of(value)} where text, numbers, lists or objects belong; convert it to text")


def row_text(fields: Mapping[str, Any]) -> str:
    """The JSON text of a row (see the module's rules).

    Raises:
        NotContent: a half surrogate pair, or too many levels.
    """
    try:
        return orjson.dumps(fields, default=_literal, option=orjson.OPT_SORT_KEYS).decode()
    except orjson.JSONEncodeError as error:
        if "surrogate" in str(error):
            raise NotContent("half of a surrogate pair (such as \\ud800) in a text; correct the encoding") from None
        raise NotContent("more than 250 levels; flatten it") from None


def _literal(value: object) -> orjson.Fragment:
    if not isinstance(value, Decimal):
        raise TypeError(type(value).__name__)
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return orjson.Fragment("0" if text in ("-0", "") else text)


def content_id(text: str) -> str:
    """The id of an item that has no id field: 32 hex characters of the digest of its content."""
    return short(digest_bytes("item-content", text.encode()), ID_LENGTH)
