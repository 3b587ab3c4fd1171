"""May a reward or judge stand in for annotators? The alternative annotator test of Calderon et al. 2025.

1. Annotator by annotator: on the items of one who is held out, is the judge at least as close to the others as that
   annotator, but for a margin epsilon that is declared beforehand?
2. A draw counts for both sides, so two advantages of one pair may sum to more than 1.
3. Items of one prompt are not independent: the t test takes clusters. Without them it is that of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr

from evalkit.stats.arrays import FloatArray, check_fraction
from evalkit.stats.bootstrap import own_clusters
from evalkit.stats.ceiling import scores_with_missing
from evalkit.stats.clusters import Clusters
from evalkit.stats.estimate import Estimate, undefined
from evalkit.stats.means import ROUNDING, cluster_mean, cluster_standard_error
from evalkit.stats.raters import ratings_matrix

Closeness = Literal["equal", "rmse"]
# The judge passes where it wins over half of the annotators or more (Calderon et al., section 3).
PASSING_RATE = 0.5


@dataclass(frozen=True, slots=True)
class Replaced:
    """The judge in the place of one annotator."""

    annotator: int
    """Column of the ratings."""
    judge_advantage: Estimate
    """Share of items on which the judge is at least as close to the others as the annotator, in [0, 1]."""
    human_advantage: Estimate
    """The same the other way round."""
    p: float | None
    """One-sided, of the hypothesis that the annotator's advantage is epsilon or more above the judge's. `None` where
    the annotator was not tested; `why` then says so."""
    won: bool
    """Whether that hypothesis is rejected with the false discovery rate controlled over annotators."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class AltTest:
    """Result of the alternative annotator test."""

    winning_rate: float | None
    """ω: share of tested annotators over whom the judge won; `None` where nobody could be tested."""
    advantage: Estimate
    """ρ: mean of `judge_advantage` over tested annotators, for comparing judges."""
    passed: bool | None
    """ω ≥ 0.5."""
    annotators: tuple[Replaced, ...]
    epsilon: float
    method: str


def alt_test(
    ratings: ArrayLike,
    judge: ArrayLike,
    *,
    epsilon: float,
    closeness: Closeness = "equal",
    clusters: ArrayLike | None = None,
    q: float = 0.05,
    least_items: int = 30,
    level: float = 0.95,
) -> AltTest:
    """Alternative annotator test.

    Source: Calderon, Reichart & Dror 2025, arXiv 2501.10970. For each annotator j with items i, W_judge = 1 where
    S(judge, others) ≥ S(j, others), W_human = 1 where ≤; a t test of mean(W_human − W_judge) < epsilon, and
    Benjamini–Yekutieli over annotators.

    Args:
        ratings: shape (items, annotators), NaN where missing; items with fewer than two are left out.
        judge: shape (items,), NaN where the judge gave nothing; those items are left out. To count them against the
            judge give them a label no annotator uses.
        epsilon: what an annotator may be better by; the paper suggests .2 for experts, .15 for skilled annotators, .1
            for crowd workers.
        closeness: S is the share of others with the `equal` label, or minus the root mean squared difference (`rmse`).
        clusters: shape (items,), a label per item; None where items are independent.
        q: false discovery rate over annotators.
        least_items: an annotator with fewer is not tested.
        level: coverage of the intervals.

    Raises:
        ValueError: as `ratings_matrix`, a judge that is not one number or NaN per item, an unknown closeness, epsilon
            outside [0, 1), or q or level outside (0, 1).
    """
    matrix, scores = ratings_matrix(ratings), scores_with_missing(judge, "judge")
    items, raters = matrix.shape
    if scores.size != items:
        raise ValueError(f"judge: {scores.size} values for {items} items")
    if closeness not in ("equal", "rmse"):
        raise ValueError(f"closeness: {closeness!r} is neither 'equal' nor 'rmse'")
    if not 0 <= epsilon < 1:
        raise ValueError(f"epsilon: {epsilon} is not in [0, 1)")
    check_fraction(q, "q")
    check_fraction(level, "level")
    groups = own_clusters(clusters, items)
    usable = ~np.isnan(scores) & (np.count_nonzero(~np.isnan(matrix), axis=1) >= 2)
    wins = [_wins(matrix, scores, j, usable, closeness) for j in range(raters)]
    replaced = [_replaced(j, wins[j], groups, epsilon, least_items, level) for j in range(raters)]
    tested = [j for j in range(raters) if replaced[j].p is not None]
    won = _benjamini_yekutieli([replaced[j].p or 0.0 for j in tested], q)
    replaced = [
        replace(result, won=won[tested.index(j)] if j in tested else False) for j, result in enumerate(replaced)
    ]
    rate = sum(won) / len(tested) if tested else None
    return AltTest(
        winning_rate=rate,
        advantage=_mean_advantage([wins[j] for j in tested], groups, level, raters),
        passed=None if rate is None else rate >= PASSING_RATE,
        annotators=tuple(replaced),
        epsilon=epsilon,
        method=f"alternative annotator test, {closeness}, ε = {epsilon:g}, cluster t, Benjamini–Yekutieli q = {q:g}",
    )


@dataclass(frozen=True, slots=True)
class _Wins:
    """Who is at least as close to the others, on the items of one annotator."""

    rows: NDArray[np.intp]
    judge: FloatArray
    human: FloatArray


def _wins(matrix: FloatArray, scores: FloatArray, held_out: int, usable: NDArray[np.bool_], closeness: str) -> _Wins:
    rows = np.flatnonzero(usable & ~np.isnan(matrix[:, held_out]))
    others = np.delete(matrix, held_out, axis=1)[rows]
    apart_judge = _distance(scores[rows], others, closeness)
    apart_human = _distance(matrix[rows, held_out], others, closeness)
    return _Wins(rows, (apart_judge <= apart_human).astype(float), (apart_human <= apart_judge).astype(float))


def _distance(labels: FloatArray, others: FloatArray, closeness: str) -> FloatArray:
    """Sum over the others, which orders as the mean does: both sides have the same others."""
    given = ~np.isnan(others)
    if closeness == "equal":
        return np.asarray(np.count_nonzero(given & (others != labels[:, None]), axis=1), dtype=np.float64)
    squares: FloatArray = np.nansum((others - labels[:, None]) ** 2, axis=1)
    return squares


def _replaced(j: int, wins: _Wins, groups: Clusters, epsilon: float, least_items: int, level: float) -> Replaced:
    codes, n = groups.codes[wins.rows], wins.rows.size
    judge = cluster_mean(wins.judge, codes, level=level, bounds=(0.0, 1.0))
    human = cluster_mean(wins.human, codes, level=level, bounds=(0.0, 1.0))
    if n < max(least_items, 2):
        return Replaced(j, judge, human, None, False, f"{n} items; {max(least_items, 2)} are needed for a test")
    p = _p_value(wins.human - wins.judge, codes, epsilon)
    if p is None:
        return Replaced(j, judge, human, None, False, f"all {n} items are in one cluster")
    return Replaced(j, judge, human, p, False)


def _p_value(differences: FloatArray, codes: NDArray[np.intp], epsilon: float) -> float | None:
    """P(as small a mean or smaller) where the true mean is epsilon; None with one cluster."""
    g = np.unique(codes).size
    if g < 2:
        return None
    mean, error = float(differences.mean()), cluster_standard_error(differences, codes)
    if error > ROUNDING:
        return float(stdtr(g - 1, (mean - epsilon) / error))
    if mean >= epsilon:
        return 1.0
    # No variation, no t. Differences are at most 1, so a mean of epsilon needs a cluster above this one with at least
    # chance (ε − mean)/(1 − mean), and none was drawn in g.
    return float(((1 - epsilon) / (1 - mean)) ** g)


def _benjamini_yekutieli(p_values: list[float], q: float) -> list[bool]:
    """Which hypotheses are rejected with the false discovery rate at q under any dependence."""
    m = len(p_values)
    if m == 0:
        return []
    ordered = np.sort(p_values)
    thresholds = np.arange(1, m + 1) / m * q / np.sum(1 / np.arange(1, m + 1))
    below = np.flatnonzero(ordered <= thresholds)
    return [bool(below.size) and p <= ordered[below[-1]] for p in p_values]


def _mean_advantage(wins: list[_Wins], groups: Clusters, level: float, raters: int) -> Estimate:
    """Mean over annotators of their mean over items, as the mean over items of what each contributes."""
    label = f"mean over {len(wins)} of {raters} annotators"
    if not wins:
        return undefined(0, 0, label, "no annotator could be tested")
    used = np.unique(np.concatenate([win.rows for win in wins]))
    means = [float(win.judge.mean()) for win in wins]
    contribution = np.full(groups.codes.size, float(np.mean(means)))
    for win, mean in zip(wins, means, strict=True):
        contribution[win.rows] += (win.judge - mean) * used.size / (len(wins) * win.rows.size)
    complete = all(win.rows.size == used.size for win in wins)
    estimate = cluster_mean(
        contribution[used], groups.codes[used], level=level, bounds=(0.0, 1.0) if complete else None
    )
    return replace(estimate, method=f"{label}, {estimate.method}")
