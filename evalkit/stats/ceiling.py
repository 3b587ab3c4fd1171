"""How well a reward could agree with people: as well as a person who is held out agrees with the others.

1. The held-out annotator and the reward are compared with the same labels of the others on the same items. Comparing a
   reward with all k annotators and a person with k − 1 of them would favour the reward.
2. An item counts only where the reward, the held-out annotator and the reference of the others all have a value.
3. The ceiling is that of these items. Where items were filtered by how well people agree, it is too high for others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalkit.stats.arrays import FloatArray, check_fraction
from evalkit.stats.bootstrap import Rows, own_clusters
from evalkit.stats.clusters import Clusters
from evalkit.stats.estimate import Estimate, undefined
from evalkit.stats.jackknife import jackknife_interval, without_each_block
from evalkit.stats.raters import ratings_matrix

Agreement = Callable[[FloatArray, FloatArray, Rows], float]
"""Of two label vectors of the same items and these items' row numbers; NaN where it is undefined."""
Rule = Literal["mean", "median", "majority"]
Tie = Literal["missing", "lowest", "highest", "mean"]
Against = Literal["mean", "median", "majority", "each"]
RULES = ("mean", "median", "majority")
TIES = ("missing", "lowest", "highest", "mean")
# One other annotator is no aggregate: its agreement would be that of two people, not of a person with a group.
LEAST_OTHERS = 2


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One label per item out of several."""

    labels: FloatArray
    """Shape (items,); NaN without ratings, or for a tie under the rule `missing`."""
    ratings: NDArray[np.intp]
    """Shape (items,), ratings behind each label."""
    tied: NDArray[np.bool_]
    """Shape (items,), true where two or more labels share the majority; all false for mean and median."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """One annotator, and the reward in that annotator's place."""

    annotator: int
    """Column of the ratings."""
    rated: int
    """Items this annotator rated; the estimates say how many of them could be used."""
    human: Estimate
    """Agreement of this annotator with the others."""
    reward: Estimate
    """Agreement of the reward with the same others on the same items."""
    difference: Estimate
    """`reward` − `human`; above 0 the reward agrees better than this annotator does."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Every annotator held out once, and their plain mean."""

    annotators: tuple[HeldOut, ...]
    human: Estimate
    """Mean over the annotators for whom both agreements are defined. `n` counts items used by any of them."""
    reward: Estimate
    difference: Estimate


def scores_with_missing(scores: ArrayLike, name: str) -> FloatArray:
    """`scores` as float64, shape (items,), NaN where missing.

    Raises:
        ValueError: not one-dimensional, not numbers, or an infinity.
    """
    array: np.ndarray = np.asarray(scores)
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise ValueError(f"{name}: expected numbers of shape (items,), found shape {array.shape} of {array.dtype}")
    vector = array.astype(np.float64)
    if np.isinf(vector).any():
        raise ValueError(f"{name}: a value is infinite")
    return vector


def accuracy(first: FloatArray, second: FloatArray, rows: Rows | None = None) -> float:
    """Share of equal labels; NaN without labels."""
    return float(np.mean(first == second)) if first.size else math.nan


def aggregate_labels(ratings: ArrayLike, rule: Rule, tie: Tie = "missing") -> Aggregate:
    """One label per item.

    Args:
        ratings: shape (items, raters), NaN where missing.
        rule: mean, median (of an even number: the mean of the middle two), or majority (the most frequent label).
        tie: what labels sharing the majority become: NaN, the lowest, the highest, or their mean.

    Raises:
        ValueError: as `ratings_matrix`, or an unknown rule.
    """
    matrix = ratings_matrix(ratings)
    if rule not in RULES:
        raise ValueError(f"rule: {rule!r} is none of {', '.join(RULES)}")
    if tie not in TIES:
        raise ValueError(f"tie: {tie!r} is none of {', '.join(TIES)}")
    return _aggregate(matrix, rule, tie)


def leave_one_annotator_out(
    ratings: ArrayLike,
    reward: ArrayLike,
    *,
    agreement: Agreement = accuracy,
    against: Against = "majority",
    tie: Tie = "missing",
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    rng: np.random.Generator | None = None,
) -> Ceiling:
    """Agreement of each annotator with the others, beside that of the reward with the same others.

    Args:
        ratings: shape (items, raters), NaN where missing.
        reward: shape (items,), NaN where the reward gave none; those items are left out for both. To count them as
            disagreement instead, give them a label no annotator uses.
        agreement: of two label vectors of the same items, given with their row numbers, by which a prompt or system can
            be looked up; NaN where it is undefined.
        against: the aggregate of the others, of which an item needs two or more; or `each`: the mean of the agreements
            with each other annotator, one by one. With accuracy `each` is what a tie broken at random is expected to
            give when all rated all.
        tie: as `aggregate_labels`.
        clusters: shape (items,), a label per item; None where items are independent.
        level: coverage of the jackknife interval, between 0 and 1.
        rng: deals clusters to blocks; None for values without intervals.

    Raises:
        ValueError: as `aggregate_labels`, or a reward that is not one number or NaN per item.
    """
    matrix, scores = ratings_matrix(ratings), scores_with_missing(reward, "reward")
    items, raters = matrix.shape
    if scores.size != items:
        raise ValueError(f"reward: {scores.size} values for {items} items")
    if against not in (*RULES, "each"):
        raise ValueError(f"against: {against!r} is none of {', '.join(RULES)}, each")
    if tie not in TIES:
        raise ValueError(f"tie: {tie!r} is none of {', '.join(TIES)}")
    check_fraction(level, "level")
    groups = own_clusters(clusters, items)
    comparisons = [_Comparison(matrix[:, j], scores, _references(matrix, j, against, tie)) for j in range(raters)]
    method = f"{getattr(agreement, '__name__', 'agreement')} with " + (
        "each of the others" if against == "each" else f"the {against} of the others"
    )
    full = np.arange(items)
    values = np.array([comparison.agreements(full, agreement) for comparison in comparisons])
    drawn = without_each_block(
        lambda rows: np.array([comparison.agreements(rows, agreement) for comparison in comparisons]), groups, rng
    )
    used = np.array([comparison.used for comparison in comparisons])
    defined = np.isfinite(values).all(axis=1)
    annotators = tuple(
        HeldOut(
            j,
            int(np.count_nonzero(~np.isnan(matrix[:, j]))),
            *_three(values[j], None if drawn is None else drawn[:, j], used[j], groups, method, level),
        )
        for j in range(raters)
    )
    overall = values[defined].mean(axis=0) if defined.any() else np.full(2, math.nan)
    of_all = None if drawn is None or not defined.any() else drawn[:, defined].mean(axis=1)
    any_used = used[defined].any(axis=0)
    method = f"mean over {np.count_nonzero(defined)} of {raters} annotators; {method}"
    return Ceiling(annotators, *_three(overall, of_all, any_used, groups, method, level))


@dataclass(frozen=True, slots=True)
class _Comparison:
    """One held-out annotator, the reward, and the references both are compared with."""

    held_out: FloatArray
    reward: FloatArray
    references: FloatArray
    """Shape (references, items)."""

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Shape (references, items)."""
        return ~(np.isnan(self.references) | np.isnan(self.held_out) | np.isnan(self.reward))

    @property
    def used(self) -> NDArray[np.bool_]:
        return np.asarray(self.usable.any(axis=0))

    def agreements(self, rows: NDArray[np.intp], agreement: Agreement) -> tuple[float, float]:
        """Of the annotator and of the reward, each the mean over the references that share an item with both."""
        human, reward = [], []
        for reference, usable in zip(self.references, self.usable, strict=True):
            if not usable.any():
                continue
            kept = rows[usable[rows]]
            if kept.size == 0:
                return math.nan, math.nan
            human.append(agreement(self.held_out[kept], reference[kept], kept))
            reward.append(agreement(self.reward[kept], reference[kept], kept))
        if not human:
            return math.nan, math.nan
        return float(np.mean(human)), float(np.mean(reward))


def _references(matrix: FloatArray, held_out: int, against: Against, tie: Tie) -> FloatArray:
    others = np.delete(matrix, held_out, axis=1)
    if against == "each":
        return others.T
    aggregate = _aggregate(others, against, tie)
    return np.where(aggregate.ratings >= LEAST_OTHERS, aggregate.labels, np.nan)[None, :]


def _aggregate(matrix: FloatArray, rule: Rule, tie: Tie) -> Aggregate:
    rated = np.count_nonzero(~np.isnan(matrix), axis=1)
    labels = np.full(matrix.shape[0], np.nan)
    tied = np.zeros(matrix.shape[0], dtype=bool)
    some = rated > 0
    if not some.any():
        return Aggregate(labels, rated, tied)
    if rule == "mean":
        labels[some] = np.nanmean(matrix[some], axis=1)
    elif rule == "median":
        labels[some] = np.nanmedian(matrix[some], axis=1)
    else:
        labels[some], tied[some] = _majority(matrix[some], tie)
    return Aggregate(labels, rated, tied)


def _majority(matrix: FloatArray, tie: Tie) -> tuple[FloatArray, NDArray[np.bool_]]:
    values = np.unique(matrix[~np.isnan(matrix)])
    counts = np.stack([np.count_nonzero(matrix == value, axis=1) for value in values], axis=1)
    best = counts == counts.max(axis=1, keepdims=True)
    tied = np.count_nonzero(best, axis=1) > 1
    lowest = values[np.argmax(best, axis=1)]
    if tie == "lowest":
        return lowest, tied
    if tie == "highest":
        return values[::-1][np.argmax(best[:, ::-1], axis=1)], tied
    shared = np.nan if tie == "missing" else np.where(best, values, 0.0).sum(axis=1) / np.count_nonzero(best, axis=1)
    return np.where(tied, shared, lowest), tied


def _three(
    values: FloatArray,
    without: FloatArray | None,
    used: NDArray[np.bool_],
    groups: Clusters,
    method: str,
    level: float,
) -> tuple[Estimate, Estimate, Estimate]:
    """Human, reward, and reward − human, from shape (2,) and blocks left out of shape (blocks, 2)."""
    n, g = int(np.count_nonzero(used)), int(np.unique(groups.codes[used]).size)

    def estimate(value: float, of_blocks: FloatArray | None, method: str, reach: float) -> Estimate:
        if n == 0:
            return undefined(0, 0, method, "no item has the reward, a held-out annotator and a reference of the others")
        if not math.isfinite(value):
            return undefined(n, g, method, f"the agreement is undefined on these {n} items")
        return jackknife_interval(
            value, of_blocks, n=n, n_clusters=g, method=method, level=level, bounds=(-reach, reach)
        )

    human, reward = float(values[0]), float(values[1])
    paired = f"reward − human, paired; {method}"
    if without is None:
        return (
            estimate(human, None, method, 1),
            estimate(reward, None, method, 1),
            estimate(reward - human, None, paired, 2),
        )
    return (
        estimate(human, without[:, 0], method, 1),
        estimate(reward, without[:, 1], method, 1),
        estimate(reward - human, without[:, 1] - without[:, 0], paired, 2),
    )
