"""The shape of a reward: what lies at one value, ties, or hangs on a few samples, and which prompts differ.

1. A shape is described; whether it is a fault depends on what the reward is for, and is not said here.
2. Shares and their intervals know the clusters. How heavy a tail is and how many modes there are is in `tails`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from evalkit.stats.arrays import FloatArray, check_fraction, finite_vector, within_one
from evalkit.stats.clusters import clusters_of, clusters_of_groups
from evalkit.stats.correlation import linear_interval
from evalkit.stats.estimate import Estimate, undefined
from evalkit.stats.means import cluster_mean

SHARE = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class ValueShares:
    """Where values pile up. Shares are of all values, in [0, 1]; undefined without values."""

    distinct: int
    """Number of different values, compared exactly."""
    lowest: float | None
    """Lower end: of the declared range, or else the smallest value seen. `None` without values."""
    highest: float | None
    most_common: float | None
    """The value that occurs most; the smallest of them where several do."""
    at_lowest: Estimate
    at_highest: Estimate
    at_most_common: Estimate
    zeros: Estimate
    ones: Estimate
    negative: Estimate
    positive: Estimate


@dataclass(frozen=True, slots=True)
class Density:
    """How many groups of answers to one prompt differ in reward: only these carry an advantage in GRPO."""

    informative: Estimate
    """Observed share of groups whose values are not all equal, in [0, 1]. `n` counts groups of two or more."""
    if_alike: Estimate
    """What the share would be if all answers of all prompts were drawn independently from the pooled values: the
    mean of 1 − Σ_v p_v^n over groups of n, which for two values is 1 − p^n − (1 − p)^n. It overstates the share
    wherever prompts differ, for Σ_v p_v^n is convex in p. No interval."""
    all_lowest: float | None
    """Share of groups with every value at the smallest one seen, as the two below; with `informative` they add up
    to 1."""
    all_highest: float | None
    all_between: float | None
    single: int
    """Groups of one value, which are left out: one answer has nothing to differ from."""


def nonfinite_share(values: ArrayLike, clusters: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Share of values that are NaN or infinite.

    Args:
        values: shape (n,), numbers; NaN and infinities are what is counted.
        clusters: shape (n,), a label per value.
        level: coverage, between 0 and 1.

    Raises:
        ValueError: no numbers, a missing label, or level outside (0, 1).
    """
    array = np.asarray(values, dtype=np.float64)
    return cluster_mean(~np.isfinite(array), clusters, level=level, bounds=SHARE)


def value_shares(
    values: ArrayLike, clusters: ArrayLike, *, bounds: tuple[float, float] | None = None, level: float = 0.95
) -> ValueShares:
    """Shares of values at the ends, at the most common value, at 0 and at 1, below 0 and above it.

    Args:
        values: shape (n,), no NaN.
        clusters: shape (n,), a label per value.
        bounds: the declared range; None for the range seen.
        level: coverage, between 0 and 1.

    Raises:
        ValueError: NaN or infinite values, a missing label, low ≥ high in `bounds`, or a value outside them.
    """
    x = finite_vector(values, "values")
    groups = clusters_of(clusters, x.size)
    if bounds is not None and not bounds[0] < bounds[1]:
        raise ValueError(f"bounds: {bounds[0]} is not below {bounds[1]}")
    if bounds is not None and x.size and (x.min() < bounds[0] or x.max() > bounds[1]):
        raise ValueError(f"values: {x.min():g} to {x.max():g} leave the declared {bounds[0]:g} to {bounds[1]:g}")
    found, counts = np.unique(x, return_counts=True)
    low, high, common = math.nan, math.nan, math.nan
    if x.size:
        low, high = bounds or (float(found[0]), float(found[-1]))
        common = float(found[np.argmax(counts)])
    known = x.size > 0

    def share(hits: np.ndarray) -> Estimate:
        return cluster_mean(hits, groups.codes, level=level, bounds=SHARE)

    return ValueShares(
        distinct=found.size,
        lowest=low if known else None,
        highest=high if known else None,
        most_common=common if known else None,
        at_lowest=share(x == low),
        at_highest=share(x == high),
        at_most_common=share(x == common),
        zeros=share(x == 0),
        ones=share(x == 1),
        negative=share(x < 0),
        positive=share(x > 0),
    )


def tied_pairs(
    values: ArrayLike, clusters: ArrayLike, *, groups: ArrayLike | None = None, level: float = 0.95
) -> Estimate:
    """Share of pairs with exactly equal values.

    Args:
        values: shape (n,), no NaN.
        clusters: shape (n,), a label per value, in which groups stay whole.
        groups: shape (n,), for pairs of one group only, each pair counting alike; None for all pairs.
        level: coverage, between 0 and 1.

    Returns:
        In [0, 1]. `n` counts values, or groups with a pair; undefined without any pair. The interval is CR1 with
        t(G − 1) of the influence functions: of a U-statistic for all pairs, of a ratio for pairs within groups.

    Raises:
        ValueError: NaN or infinite values, a missing label, a group in two clusters, or level outside (0, 1).
    """
    x = finite_vector(values, "values")
    units = clusters_of(clusters, x.size)
    check_fraction(level, "level")
    if groups is None:
        method = "tied pairs of all pairs"
        if x.size < 2:
            return undefined(x.size, units.count, method, "no two values")
        codes, counts = np.unique(x, return_inverse=True, return_counts=True)[1:]
        tied = (counts[codes] - 1) / (x.size - 1)
        share = float(tied.mean())
        return linear_interval(share, 2 * (tied - share), units, method, level, bounds=SHARE)
    of = clusters_of(groups, x.size)
    unit_of = clusters_of_groups(of, units)
    pairs, equal = _pairs(of.codes, of.count), np.zeros(of.count)
    cells, cell_of = np.unique(np.column_stack([of.codes, _ranks(x)]), axis=0, return_inverse=True)
    np.add.at(equal, cells[:, 0], _pairs(cell_of.ravel(), cells.shape[0]))
    kept = pairs > 0
    method = "tied pairs of pairs within groups"
    if not kept.any():
        return undefined(0, 0, method, "no group has two values")
    share = float(equal.sum() / pairs.sum())
    moves = (equal[kept] - share * pairs[kept]) / pairs[kept].mean()
    owners = clusters_of(unit_of[kept], int(np.count_nonzero(kept)))
    return linear_interval(share, moves, owners, method, level, bounds=SHARE)


def extreme_share(values: ArrayLike, clusters: ArrayLike, *, share: float = 0.05, level: float = 0.95) -> Estimate:
    """Share of the sum of squares about the mean that the values farthest from the mean own.

    Near 1 a few values make the variance, and with it a correlation, a normalisation or a gradient. The top 5 %
    own .28 of a normal, .5 of an exponential and .14 of a uniform distribution.

    Args:
        values: shape (n,), no NaN.
        clusters: shape (n,), a label per value.
        share: of the values that count as extreme, between 0 and 1, rounded down to whole values.
        level: coverage, between 0 and 1.

    Returns:
        In [0, 1], with the interval of the ordinate of a Lorenz curve (Beach & Davidson 1983), here CR1 with
        t(G − 1): at 95 % it covered 91 % of normal samples of 400, and less of heavy tails. Undefined where no value is
        extreme, or all are equal.

    Raises:
        ValueError: NaN or infinite values, a missing label, or share or level outside (0, 1).
    """
    x = within_one(finite_vector(values, "values"))
    units = clusters_of(clusters, x.size)
    check_fraction(share, "share")
    check_fraction(level, "level")
    k = math.floor(share * x.size)
    method = f"share of the variance in the {k} of {x.size} values farthest from the mean"
    if k < 1:
        return undefined(x.size, units.count, method, f"{x.size} values; {share:g} of them is less than one")
    if x.min() == x.max():
        return undefined(x.size, units.count, method, "all values are equal")
    away = x - x.mean()
    squares = away**2
    order = np.argsort(squares, kind="stable")
    top = order[-k:]
    least, owned, mean = squares[top[0]], float(squares[top].sum()) / x.size, float(squares.mean())
    value = owned / mean
    beyond = np.maximum(squares - least, 0.0) + least * k / x.size - owned
    moves = (beyond - value * (squares - mean) - 2 * float(away[top].sum()) / x.size * away) / mean
    return linear_interval(value, moves, units, method, level, bounds=SHARE)


def informative_groups(
    values: ArrayLike, groups: ArrayLike, *, clusters: ArrayLike | None = None, level: float = 0.95
) -> Density:
    """Share of groups whose values differ, observed and as if all prompts were alike.

    Args:
        values: shape (n,), no NaN.
        groups: shape (n,), the prompt of each answer (and who answered, where several did).
        clusters: shape (n,), a label per answer, in which groups stay whole; None where groups are independent.
        level: coverage, between 0 and 1.

    Raises:
        ValueError: NaN or infinite values, a missing label, a group in two clusters, or level outside (0, 1).
    """
    x = finite_vector(values, "values")
    of = clusters_of(groups, x.size)
    unit_of = clusters_of_groups(of, of if clusters is None else clusters_of(clusters, x.size))
    sizes = np.bincount(of.codes, minlength=of.count)
    several = sizes > 1
    low, high = np.full(of.count, np.inf), np.full(of.count, -np.inf)
    np.minimum.at(low, of.codes, x)
    np.maximum.at(high, of.codes, x)
    informative = cluster_mean((low < high)[several], unit_of[several], level=level, bounds=SHARE)
    informative = replace(informative, method=f"share of groups, {informative.method}")
    n, g = int(np.count_nonzero(several)), informative.n_clusters
    method = "mean of 1 − Σ p^n over groups, answers and prompts alike"
    if n == 0:
        nothing = undefined(0, 0, method, "no group has two values")
        return Density(replace(nothing, method="share of groups"), nothing, None, None, None, int(sizes.size))
    pooled = x[several[of.codes]]
    shares = np.unique(pooled, return_counts=True)[1] / pooled.size
    found, counts = np.unique(sizes[several], return_counts=True)
    alike = sum(count * (1 - float(np.sum(shares**size))) for size, count in zip(found, counts, strict=True)) / n
    still = several & (low == high)
    at_low, at_high = still & (low == pooled.min()), still & (low == pooled.max())
    return Density(
        informative,
        Estimate(float(alike), None, None, n, g, method, "no interval: it is exact for the pooled values"),
        float(np.count_nonzero(at_low)) / n,
        float(np.count_nonzero(at_high & ~at_low)) / n,
        float(np.count_nonzero(still & ~at_low & ~at_high)) / n,
        int(np.count_nonzero(~several)),
    )


def _pairs(codes: np.ndarray, count: int) -> FloatArray:
    """Pairs within each code: shape (count,)."""
    sizes = np.bincount(codes, minlength=count).astype(np.float64)
    return np.asarray(sizes * (sizes - 1) / 2)


def _ranks(x: FloatArray) -> np.ndarray:
    return np.unique(x, return_inverse=True)[1]
