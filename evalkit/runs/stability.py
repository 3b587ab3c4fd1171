"""A/A: two runs that differ by their repeat alone, and how much the result moved between them.

1. At temperature 0 the repeats should be the same, and what flips is noise of the engine. Above it, each repeat draws
   with seeds of its own, and what flips is noise of sampling.
2. Two readings of one recording, or of one baseline, are the same by construction and say nothing of noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from evalkit.engines import generates
from evalkit.runs.comparable import Side
from evalkit.runs.evidence import SUCCESS, Evidence
from evalkit.stats import Retest, retest

KEY = ["item_id", "trial"]


@dataclass(frozen=True, slots=True)
class Stability:
    """What two repeats of one model under one protocol say."""

    first: str
    second: str
    """Run ids."""
    repeats: tuple[int, int]
    greedy: bool
    """Whether the temperature is 0."""
    trials: int
    """Samples of an item."""
    retest: Retest | None
    """Paired by sample; None where the repeats say nothing of noise."""
    dropped: int
    """Samples without a verdict on success in one or both."""
    same_texts: int
    """Samples whose completion is the same text in both."""
    texts: int
    """Samples with a completion in both."""
    why: str = ""
    """Why the repeats say nothing; empty where they do."""


def differ_by_repeat_only(left: Side, right: Side) -> bool:
    """Whether two runs are the same model under the same protocol, and another repeat of it."""
    ours, theirs = left.header["address"], right.header["address"]
    same = {**ours, "repeat": None} == {**theirs, "repeat": None}
    return same and ours["repeat"] != theirs["repeat"] and left.lock.digests.protocol == right.lock.digests.protocol


def stability(left: Side, right: Side, one: Evidence, two: Evidence) -> Stability:
    """How much two repeats differ, `one` and `two` being their evidence."""
    names = [*KEY, "cluster", SUCCESS, "has_text", "text_hash"]
    both = one.frame.select(names).join(two.frame.select(names), on=KEY, suffix="_right", maintain_order="left")
    texts = both.filter(pl.col("has_text") & pl.col("has_text_right"))
    judged = both.filter(pl.col(SUCCESS).is_not_null() & pl.col(f"{SUCCESS}_right").is_not_null())
    why = _same_by_construction(left, right)
    return Stability(
        first=left.run.run_id,
        second=right.run.run_id,
        repeats=(left.header["repeat"], right.header["repeat"]),
        greedy=left.lock.spec.sampling.temperature == 0,
        trials=left.lock.spec.sampling.n,
        retest=None
        if why
        else retest(
            judged[SUCCESS].to_numpy(),
            judged[f"{SUCCESS}_right"].to_numpy(),
            judged["item_id"].to_numpy(),
            judged["cluster"].to_numpy(),
        ),
        dropped=both.height - judged.height,
        same_texts=texts.filter(pl.col("text_hash") == pl.col("text_hash_right")).height,
        texts=texts.height,
        why=why,
    )


def _same_by_construction(left: Side, right: Side) -> str:
    """Why two repeats cannot differ; empty where they can."""
    ours, theirs = (side.header["fingerprint"]["reference"] for side in (left, right))
    if ours != theirs or generates(ours):
        return ""
    return f"both repeats read {ours}, which answers every repeat alike; record the model twice to know its noise"
