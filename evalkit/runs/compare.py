"""Comparing two runs: first whether they may be compared, then the paired difference by item."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from evalkit.errors import BadInput
from evalkit.protocol import Lock
from evalkit.runs.comparable import Comparability, Rescore, Side, comparability
from evalkit.runs.evidence import SUCCESS, Evidence, load_evidence
from evalkit.runs.folder import RunFolder
from evalkit.runs.stability import Stability, differ_by_repeat_only, stability
from evalkit.runs.tables import REWARD
from evalkit.stats import (
    Estimate,
    SignFlip,
    cluster_standard_error,
    minimum_detectable_effect,
    paired_difference,
    sign_flip_test,
)

SEED = 0
"""Of the Monte Carlo sign-flip test, so that the same runs give the same p."""


@dataclass(frozen=True, slots=True)
class PairedResult:
    """One quantity in two runs, paired by item."""

    name: str
    left: float | None
    right: float | None
    """Mean over the items that have a value in both runs."""
    difference: Estimate
    """Right minus left."""
    test: SignFlip
    items: int
    """Items with a value in both."""
    items_dropped: int
    """Items without a value in one or both."""
    better: int
    worse: int
    equal: int
    """Items whose mean is higher, lower or the same in the right run. With one trial an item, the discordant pairs."""
    detectable: float
    """Smallest true difference found with 80 % power at α = .05, two-sided; NaN where the items show no variation."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs held against each other."""

    left: str
    right: str
    """Run ids."""
    left_model: str
    right_model: str
    protocol: str
    comparability: Comparability
    forced: bool
    """Whether `--force` overrode `not_comparable`."""
    results: tuple[PairedResult, ...]
    """Success, the reward and every component; empty where the comparison was refused."""
    training_seeds: int | None
    """Training seeds that the two models come from; None where a model does not say."""
    stability: Stability | None
    """Noise between repeats, where the runs differ by their repeat alone (A/A); None for all others."""


def compare_runs(left: Side, right: Side, items: pl.DataFrame, rescore: Rescore, force: bool = False) -> Comparison:
    """Compare two finished runs.

    Args:
        left: the reference.
        right: what is held against it.
        items: the items table of their split.
        rescore: makes sure that a run is scored under a lock.
        force: compare what is not comparable, and say so in the result.
    """
    standing = comparability(left, right, rescore)
    refused = standing.standing == "not_comparable"
    forced = force and refused
    results: tuple[PairedResult, ...] = ()
    again: Stability | None = None
    if forced or not refused:
        one, two = load_evidence(left.run, left.lock, items), load_evidence(right.run, right.lock, items)
        names = [SUCCESS, REWARD, *(name for name in _components(left.lock) if name in _components(right.lock))]
        results = tuple(_paired(one, two, name) for name in names)
        again = stability(left, right, one, two) if differ_by_repeat_only(left, right) else None
    seeds = {side.header["fingerprint"]["train_seed"] for side in (left, right)}
    return Comparison(
        left.run.run_id,
        right.run.run_id,
        left.header["fingerprint"]["name"],
        right.header["fingerprint"]["name"],
        left.lock.id if left.lock.id == right.lock.id else f"{left.lock.id} and {right.lock.id}",
        standing,
        forced,
        results,
        None if seeds == {None} else len(seeds - {None}),
        again,
    )


def _components(lock: Lock) -> list[str]:
    return list(lock.spec.reward.components)


def _paired(left: Evidence, right: Evidence, name: str) -> PairedResult:
    column = name if name in (SUCCESS, REWARD) else f"value.{name}"
    one, two = (_item_means(evidence.frame, column) for evidence in (left, right))
    both = one.join(two, on="item_id", how="inner", suffix="_right", maintain_order="left")
    if both.height != one.height or both.height != two.height:
        raise BadInput(
            f"runs of other items cannot be paired ({one.height} and {two.height} items, {both.height} shared)"
        )
    known = both.filter(pl.col("mean").is_not_null() & pl.col("mean_right").is_not_null())
    a, b, clusters = known["mean"].to_numpy(), known["mean_right"].to_numpy(), known["cluster"].to_numpy()
    difference = paired_difference(a, b, clusters)
    error = cluster_standard_error(b - a, clusters)
    test = sign_flip_test(b - a, clusters, rng=np.random.default_rng(SEED))
    detectable = math.nan if math.isnan(error) else minimum_detectable_effect(error, difference.n_clusters - 1)
    return PairedResult(
        name,
        float(a.mean()) if a.size else None,
        float(b.mean()) if b.size else None,
        difference,
        test,
        known.height,
        both.height - known.height,
        int((b > a).sum()),
        int((b < a).sum()),
        int((b == a).sum()),
        detectable,
    )


def _item_means(frame: pl.DataFrame, column: str) -> pl.DataFrame:
    grouped = frame.group_by("item_id", maintain_order=True)
    return grouped.agg(pl.col("cluster").first(), pl.col(column).mean().alias("mean"))


def side_of(run: RunFolder, protocol: str | None) -> Side:
    """A run with the protocol named, or its only one."""
    return Side(run, run.protocol(protocol), run.header())
