"""The refusal of overlaps: which items, and in which way. Never their text."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from evalkit.splits.items import Naming
from evalkit.splits.overlap import WORDS, Pair, same_before_normalising
from evalkit.splits.words import MOST_NAMED, several


def overlap_refusal(
    name: str, items: pl.DataFrame, roles: Sequence[str | None], pairs: Sequence[Pair], naming: Naming
) -> str:
    """One line on pairs of items that overlap across roles."""
    named = [_pair(items, roles, pair, naming) for pair in pairs[:MOST_NAMED]]
    shown = several(named, "; ", len(pairs))
    count = f"{len(pairs)} pairs of items overlap" if len(pairs) > 1 else "a pair of items overlaps"
    return (
        f"{name}: {count} across roles: {shown}; join such pairs into one cluster with --merge-overlaps, "
        "remove one of each, or name the fields to compare with --text"
    )


def _pair(items: pl.DataFrame, roles: Sequence[str | None], pair: Pair, naming: Naming) -> str:
    left, right = (f"{items['item_id'][row]} ({roles[row]})" for row in (pair.first, pair.second))
    return f"{left} and {right} {how(items, pair, naming)}"


def how(items: pl.DataFrame, pair: Pair, naming: Naming) -> str:
    """In which way two items overlap."""
    if pair.kind == "words":
        return f"share {WORDS} words in a row"
    same = same_before_normalising(items["fields"][pair.first], items["fields"][pair.second], naming)
    return "have the same text" if same else "have the same text but for case, width or spaces"
