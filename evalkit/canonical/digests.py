"""Canonical bytes and digests: equal content has one digest on every machine and in every year.

1. Content is JSON: null, true/false, whole numbers, text, lists, objects. Its bytes are RFC 8785 (JCS).
2. A number that is not whole is written as its shortest plain decimal text, so 0.70, 0.7 and 7e-1 are one value.
   Binary floats are refused: their text depends on who prints them.
3. A digest is SHA-256 over a domain tag, a zero byte and the content, so two kinds of content never share a digest.
   It is written `ek1:sha256:…`; `ek1` names this scheme and changes if the scheme does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import orjson
import rfc8785

SCHEME = "ek1"
LARGEST_INTEGER = 2**53 - 1
"""RFC 8785 numbers are IEEE doubles; a whole number beyond this is written as text."""

Canonical = Any
"""None, bool, int, Decimal, str, lists and str-keyed mappings of these; anything else is refused when it is met."""


def plain_decimal(number: Decimal) -> int | str:
    """A whole number as `int`, any other as its shortest plain decimal text: `Decimal("7e-1")` → `"0.7"`.

    Raises:
        ValueError: NaN or infinite.
    """
    if not number.is_finite():
        raise ValueError(f"{number} is not a finite number")
    if number == number.to_integral_value():
        return int(number)
    return format(number, "f").rstrip("0")


def canonical_form(value: Canonical) -> object:
    """`value` with decimals as plain text and mappings as dicts, ready for `rfc8785.dumps` or a JSON file.

    Raises:
        TypeError: a float, bytes, or any kind that JSON does not have.
    """
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, Decimal):
        return canonical_form(plain_decimal(value))
    if isinstance(value, int):
        return value if abs(value) <= LARGEST_INTEGER else str(value)
    if isinstance(value, Mapping):
        return {str(key): canonical_form(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [canonical_form(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no canonical form; use Decimal for numbers, text for bytes")


def canonical_bytes(value: Canonical) -> bytes:
    """RFC 8785 bytes of `value`.

    orjson is ten times as fast and writes the same bytes as long as they are ASCII: without floats the two differ only
    in the order of keys beyond the Basic Multilingual Plane. A test holds it against `rfc8785`.
    """
    form = canonical_form(value)
    try:
        quick = orjson.dumps(form, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # a lone surrogate, on which rfc8785 has the last word
        return rfc8785.dumps(form)  # type: ignore[arg-type]
    return quick if quick.isascii() else rfc8785.dumps(form)  # type: ignore[arg-type]


def digest_bytes(domain: str, data: bytes) -> str:
    """`ek1:sha256:HEX` of raw bytes under a domain tag such as `protocol` or `item`."""
    return f"{SCHEME}:sha256:" + hashlib.sha256(f"evalkit/{domain}".encode() + b"\x00" + data).hexdigest()


def digest(domain: str, value: Canonical) -> str:
    """`ek1:sha256:HEX` of the canonical bytes of `value` under a domain tag."""
    return digest_bytes(domain, canonical_bytes(value))


def short(digest_text: str, length: int = 12) -> str:
    """The first hex characters of a digest, for ids and for reading. Not for comparing."""
    return digest_text.rsplit(":", 1)[-1][:length]
