"""Parameters as they stand in a protocol, made into the kinds that a component declares, and back.

1. A protocol's numbers are exact: whole numbers, or decimals that a lock writes as text. So `0.1`, `Decimal("0.1")` and
   `"0.1"` are one value where a number is declared, and text stays text where text is.
2. The declared kinds are bool, int, float, Decimal, str, list or tuple of one kind, dict, and these or None.
3. Nothing is guessed: a true/false is no number, a number is no text, one text is no list.
"""

from __future__ import annotations

import difflib
import math
import types
import typing
from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any

from evalkit.errors import BadInput, kind_of

WORDS = {bool: "true/false", int: "a whole number", float: "a number", Decimal: "a number", str: "text"}

LARGEST_POWER = 400
"""Of ten, in a parameter, both ways: enough for any float, too little to fill the memory with zeros."""


def nearest(name: str, known: Collection[str]) -> str:
    """`did you mean 'x'?`, or the list of what there is."""
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are {', '.join(sorted(known))}" if known else "there are none"


def coerce(value: object, kind: Any, where: str) -> Any:
    """`value` as the declared kind.

    Raises:
        BadInput: another kind was found; the message begins with `where`.
    """
    if kind is Any:
        return value
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _coerce_union(value, inner, where)
    if origin in (list, tuple):
        if isinstance(value, str | bytes) or not isinstance(value, list | tuple):
            raise _wrong(value, "a list", where)
        return origin(coerce(item, inner[0], f"{where}[{at}]") for at, item in enumerate(value))
    if origin is dict or kind is dict:
        if not isinstance(value, Mapping):
            raise _wrong(value, "an object", where)
        return {str(key): item for key, item in value.items()}
    if kind in (bool, str):
        if not isinstance(value, kind):
            raise _wrong(value, WORDS[kind], where)
        return value
    return _coerce_number(value, kind, where)


def is_supported(kind: Any) -> bool:
    """Can a project scorer's parameter be annotated so? bool, int, float, Decimal, str, lists of one, each or None."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        rest = [member for member in inner if member is not type(None)]
        return len(rest) == 1 and is_supported(rest[0])
    if origin is list:
        return len(inner) == 1 and is_supported(inner[0])
    if origin is tuple:
        return len(inner) == 2 and inner[1] is Ellipsis and is_supported(inner[0])
    return kind in (bool, int, float, Decimal, str)


def canonical_kinds(value: Any) -> Any:
    """`value` in the kinds of a lock: floats and whole decimals as exact decimals and ints, tuples as lists."""
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, Decimal):
        if not value.is_finite() or value.adjusted() > LARGEST_POWER:
            return value
        return int(value) if value == value.to_integral_value() else value
    if isinstance(value, Mapping):
        return {str(key): canonical_kinds(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [canonical_kinds(item) for item in value]
    return value


def _coerce_union(value: object, members: tuple[Any, ...], where: str) -> Any:
    if value is None and type(None) in members:
        return None
    rest = [member for member in members if member is not type(None)]
    if len(rest) > 1 and isinstance(value, str) and str in rest:
        return value
    return coerce(value, rest[0], where)


def _coerce_number(value: object, kind: type, where: str) -> Any:
    if kind not in (int, float, Decimal):
        raise TypeError(f"{kind} is not a kind of parameter")
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise _wrong(value, WORDS[kind], where)
    try:
        number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    except ArithmeticError:
        raise _wrong(value, WORDS[kind], where) from None
    if not number.is_finite() or abs(number.adjusted()) > LARGEST_POWER:
        raise BadInput(f"{where}: not a finite number of sensible size; give {WORDS[kind]}")
    if kind is int:
        if number != number.to_integral_value():
            raise BadInput(f"{where}: {number} is not whole; give {WORDS[kind]}")
        return int(number)
    if kind is Decimal:
        return number
    nearest_float = float(number)
    if not math.isfinite(nearest_float):
        raise BadInput(f"{where}: beyond the range of floats; give a smaller number")
    return nearest_float


def _wrong(value: object, wanted: str, where: str) -> BadInput:
    return BadInput(f"{where}: {kind_of(value)} found; give {wanted}")
