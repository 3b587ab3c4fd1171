"""Which fields make two protocols different, and what each difference touches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evalkit.protocol.lock import Lock, content_of, part_of
from evalkit.protocol.spec import Part


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which two protocols differ."""

    field: str
    """Dotted path, such as `sampling.temperature`."""
    part: Part
    """The digest it belongs to; `none` changes no number."""
    left: Any
    """Value in the first; None also where the field is absent."""
    right: Any


def differences(left: Lock, right: Lock) -> list[Difference]:
    """Every field in which two locks differ, in the order of the fields."""
    ours = {**content_of(left.spec), "sources": dict(left.sources)}
    theirs = {**content_of(right.spec), "sources": dict(right.sources)}
    return list(_walk(ours, theirs, ""))


def _walk(left: Any, right: Any, path: str) -> Iterator[Difference]:
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in [*left, *(key for key in right if key not in left)]:
            yield from _walk(left.get(key), right.get(key), f"{path}.{key}" if path else key)
    elif left != right or type(left) is not type(right):
        part: Part = "scoring" if path.startswith("sources") else part_of(path)
        yield Difference(path, part, left, right)


def describe(found: Sequence[Difference], limit: int = 6) -> str:
    """Differences in one line: `sampling.temperature 0.7 → 1, …`."""
    shown = [f"{item.field} {_brief(item.left)} → {_brief(item.right)}" for item in found[:limit]]
    return ", ".join(shown) + (f" and {len(found) - limit} more" if len(found) > limit else "")


def _brief(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 40 else text[:37] + "…"
