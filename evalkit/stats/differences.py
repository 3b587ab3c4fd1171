"""How much better one reward agrees than another on the same observations, where the agreement is more than one
correlation: means over groups, within groups, orderings, ROC areas.

1. Always b − a, on the same rows; the error is that of the difference of influence functions, summed within clusters.
2. Where one of the two is undefined so is the difference; of groups, those count in which both are defined.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from evalkit.stats.arrays import FloatArray, finite_vector
from evalkit.stats.clusters import Clusters, clusters_of, nested
from evalkit.stats.concordance import mid_ranks, pair_counts
from evalkit.stats.correlation import NAMES, Kind, from_moments, influence, linear_interval, tau_b_of_pairs, two
from evalkit.stats.estimate import Estimate, undefined
from evalkit.stats.levels import by_group
from evalkit.stats.pairwise import CREDIT, Ties, pairs_within

BOUNDS = (-2.0, 2.0)


def grouped_difference(
    a: ArrayLike,
    b: ArrayLike,
    y: ArrayLike,
    groups: ArrayLike,
    clusters: ArrayLike,
    *,
    kind: Kind,
    weights: Literal["equal", "size"] = "equal",
    without: Literal["exclude", "zero"] = "exclude",
    level: float = 0.95,
) -> tuple[Estimate, FloatArray]:
    """Mean over groups of corr(b, y) − corr(a, y) within each, as `grouped_correlation` takes it.

    Args:
        a, b, y: shape (n,), no NaN.
        groups, clusters, kind, weights, without, level: as `grouped_correlation`; a group counts where it has both
            correlations.

    Returns:
        The estimate, whose `n` counts groups, and the difference of each group, shape (groups,) by first appearance of
        their sorted labels, NaN where it does not count.

    Raises:
        ValueError: as `grouped_correlation`.
    """
    (first, target), (second, _) = two(a, y), two(b, y)
    cells, units = clusters_of(groups, first.size), clusters_of(clusters, first.size)
    method = f"difference of mean {NAMES[kind]} over groups, b − a, weights {weights}"
    sizes = np.bincount(cells.codes, minlength=cells.count).astype(np.float64)
    of_a, of_b = (by_group(x, target, cells, kind)[0] for x in (first, second))
    if without == "zero":
        of_a, of_b = (np.where(np.isnan(values) & (sizes > 1), 0.0, values) for values in (of_a, of_b))
    differences = of_b - of_a
    defined = np.flatnonzero(~np.isnan(differences))
    if defined.size == 0:
        return undefined(0, 0, method, "no group has both correlations"), differences
    share = sizes[defined] / sizes[defined].sum() if weights == "size" else np.full(defined.size, 1 / defined.size)
    value = float(share @ differences[defined])
    members = _members(cells)
    owners = [np.unique(units.codes[members[code]]) for code in defined]
    if all(owner.size == 1 for owner in owners):
        moves = (differences[defined] - value) * share * defined.size
        found = clusters_of(np.array([owner[0] for owner in owners]), defined.size)
        return linear_interval(value, moves, found, method, level, bounds=BOUNDS), differences
    moved = np.zeros(first.size)
    for code in defined:
        inside = members[code]
        moved[inside] = _moves(second[inside], target[inside], kind) - _moves(first[inside], target[inside], kind)
    rows = np.concatenate([members[code] for code in defined])
    scale = np.concatenate([np.full(members[code].size, part / members[code].size)
                            for code, part in zip(defined, share, strict=True)])  # fmt: skip
    moves = moved[rows] * scale * rows.size
    found = clusters_of(units.codes[rows], rows.size)
    estimate = linear_interval(value, moves, found, method, level, bounds=BOUNDS)
    return Estimate(estimate.value, estimate.low, estimate.high, defined.size, found.count, estimate.method,
                    estimate.why), differences  # fmt: skip


def within_difference(
    a: ArrayLike,
    b: ArrayLike,
    y: ArrayLike,
    groups: ArrayLike,
    clusters: ArrayLike,
    *,
    kind: Literal["pearson", "spearman", "kendall_b"],
    level: float = 0.95,
) -> Estimate:
    """The difference of two `within_correlation`s on the same observations.

    Raises:
        ValueError: as `within_correlation`.
    """
    (first, target), (second, _) = two(a, y), two(b, y)
    cells, units = clusters_of(groups, first.size), clusters_of(clusters, first.size)
    if not nested(cells, units):
        raise ValueError("groups: a group lies in two clusters")
    method = f"difference of {NAMES[kind]} within {cells.count} groups, b − a"
    if kind == "kendall_b":
        of_a, of_b = (pairs_within(x, target, cells.codes) for x in (first, second))
        value_a, moves_a, why_a = tau_b_of_pairs(of_a.reward, of_a.human)
        value_b, moves_b, why_b = tau_b_of_pairs(of_b.reward, of_b.human)
        owners = clusters_of(units.codes[of_a.first], of_a.first.size)
    else:
        (value_a, moves_a, why_a), (value_b, moves_b, why_b) = (
            _of_deviations(x, target, cells, kind) for x in (first, second)
        )
        owners = units
    if value_a is None or value_b is None:
        return undefined(first.size, units.count, method, why_a or why_b)
    return linear_interval(value_b - value_a, moves_b - moves_a, owners, method, level, bounds=BOUNDS)


def ordering_difference(
    a: ArrayLike, b: ArrayLike, y: ArrayLike, clusters: ArrayLike, *, ties: Ties, level: float = 0.95
) -> Estimate:
    """The difference of two `ordering_accuracy`s over all pairs of the same observations.

    Raises:
        ValueError: as `ordering_accuracy`.
    """
    (first, target), (second, _) = two(a, y), two(b, y)
    groups, credit = clusters_of(clusters, first.size), CREDIT[ties]
    method = f"difference of ordering accuracy over all pairs, b − a, reward ties {ties}"
    found = []
    for x in (first, second):
        if x.size < 2 or target.min() == target.max():
            return undefined(x.size, groups.count, method, "no two observations differ in their human rating")
        c, d, tied, _, _ = pair_counts(x, target).shares()
        right, counted = (c, c + d) if math.isnan(credit) else (c + credit * tied, c + d + tied)
        if not counted.mean() > 0:
            return undefined(x.size, groups.count, method, "one of the two ties every pair that humans rate apart")
        value = float(right.mean() / counted.mean())
        found.append((value, 2 * (right - value * counted) / counted.mean()))
    (value_a, moves_a), (value_b, moves_b) = found
    return linear_interval(value_b - value_a, moves_b - moves_a, groups, method, level, bounds=(-1.0, 1.0))


def auc_difference(
    a: ArrayLike, b: ArrayLike, positive: ArrayLike, clusters: ArrayLike, *, level: float = 0.95
) -> Estimate:
    """AUC of b less that of a for the same labels: the test of DeLong, DeLong & Clarke-Pearson 1988, with clusters.

    Raises:
        ValueError: as `auc`.
    """
    (first, label), (second, _) = two(a, positive), two(b, positive)
    if not np.isin(label, (0.0, 1.0)).all():
        raise ValueError("positive: expected true/false or 0/1")
    groups, method = clusters_of(clusters, first.size), "difference of AUC, b − a, ties half"
    value_a, moves_a, why_a = influence(label, first, kind="somers_d")
    value_b, moves_b, why_b = influence(label, second, kind="somers_d")
    if value_a is None or value_b is None:
        return undefined(first.size, groups.count, method, why_a or why_b)
    return linear_interval((value_b - value_a) / 2, (moves_b - moves_a) / 2, groups, method, level, bounds=(-1.0, 1.0))


def mean_difference(values: ArrayLike, chosen: ArrayLike, clusters: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Mean of the chosen observations less that of the others, which may share clusters.

    Args:
        values: shape (n,), no NaN.
        chosen: shape (n,), true or false.
        clusters: shape (n,), a label per observation.
        level: coverage, between 0 and 1.

    Returns:
        With the CR1 interval of influence functions on t(G − 1), G the clusters of the part that has fewer, and without
        one where that is a single cluster; undefined where all are chosen, or none.

    Raises:
        ValueError: lengths differ, NaN or infinite values, or a missing label.
    """
    y, chosen_too = two(values, chosen)
    first, groups = chosen_too.astype(bool), clusters_of(clusters, y.size)
    n_first, method = int(np.count_nonzero(first)), "difference of means, chosen − others"
    if n_first in (0, y.size):
        return undefined(y.size, groups.count, method, f"{n_first} of {y.size} observations are chosen")
    above, below = float(y[first].mean()), float(y[~first].mean())
    fewest = min(np.unique(groups.codes[part]).size for part in (first, ~first))
    if fewest < 2:
        why = "the chosen or the others are of one cluster, which shows no error"
        return Estimate(above - below, None, None, y.size, groups.count, method, why)
    moves = np.where(first, (y - above) * y.size / n_first, -(y - below) * y.size / (y.size - n_first))
    found = linear_interval(above - below, moves, groups, method, level, bounds=(-math.inf, math.inf))
    return found if fewest == groups.count else _widened(found, groups.count, fewest, level)


def _widened(found: Estimate, clusters: int, fewest: int, level: float) -> Estimate:
    """The interval on t(fewest − 1) instead of t(clusters − 1)."""
    if found.value is None or found.half_width is None:
        return found
    wider = float(stdtrit(fewest - 1, (1 + level) / 2) / stdtrit(clusters - 1, (1 + level) / 2))
    margin = wider * found.half_width
    method = found.method.replace(f"t({clusters - 1})", f"t({fewest - 1})")
    return replace(found, low=found.value - margin, high=found.value + margin, method=method)


def _moves(x: FloatArray, y: FloatArray, kind: Kind) -> FloatArray:
    """Influence within one group; 0 where the correlation is undefined."""
    return np.nan_to_num(influence(x, y, kind=kind)[1])


def _of_deviations(
    x: FloatArray, y: FloatArray, cells: Clusters, kind: str
) -> tuple[float | None, FloatArray, str]:  # fmt: skip
    u, v = finite_vector(x, "x").copy(), finite_vector(y, "y").copy()
    for rows in _members(cells):
        for values in (u, v):
            part = mid_ranks(values[rows]) / rows.size if kind == "spearman" else values[rows]
            values[rows] = 0.0 if part.min() == part.max() else part - part.mean()
    constant = [name for name, rest in (("x", u), ("y", v)) if not rest.any()]
    if constant:
        return None, np.zeros(u.size), f"{' and '.join(constant)} constant within every group"
    return *from_moments(u, v), ""


def _members(cells: Clusters) -> list[np.ndarray]:
    order = np.argsort(cells.codes, kind="stable")
    return np.split(order, np.cumsum(np.bincount(cells.codes, minlength=cells.count))[:-1])
