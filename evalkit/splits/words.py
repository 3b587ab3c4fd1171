"""Small pieces of the messages of this room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

MOST_NAMED = 3
"""Items, pairs or clusters that one message names; the rest are counted."""


def nearest(word: str, known: Iterable[str]) -> str:
    """` (did you mean X?)`, or nothing where no known word is near."""
    close = get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def several(names: Sequence[str], joiner: str = ", ", total: int | None = None) -> str:
    """The first few names, and how many more there are (of `total`, where `names` holds only the first)."""
    more = (len(names) if total is None else total) - MOST_NAMED
    return joiner.join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
