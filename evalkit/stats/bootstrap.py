"""The cluster bootstrap: draw whole clusters, compute the statistic again, take percentiles, plain or BCa.

1. A resample is an array of row numbers, so a statistic sees the rows of all its arguments move together.
2. A resample in which the statistic is undefined is counted. With more than 5 % of them there is no interval: what is
   left would be the interval of another statistic.
3. An interval of width zero is never given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from evalkit.stats.arrays import check_fraction
from evalkit.stats.clusters import Clusters, clusters_of
from evalkit.stats.estimate import Estimate

Rows = NDArray[np.intp]
MOST_UNDEFINED = 0.05
NO_RNG = "no interval asked for: give rng"


def cluster_resamples(groups: Clusters, draws: int, rng: np.random.Generator) -> Iterator[Rows]:
    """`draws` times the rows of as many clusters, drawn with replacement, as there are."""
    if draws < 1:
        raise ValueError(f"draws: {draws} resamples; at least 1")
    order = np.argsort(groups.codes, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(groups.codes, minlength=groups.count))[:-1])
    for _ in range(draws):
        yield np.concatenate([members[g] for g in rng.integers(0, groups.count, groups.count)])


def own_clusters(clusters: ArrayLike | None, n: int) -> Clusters:
    """The clusters of n rows; every row its own where `clusters` is None."""
    return Clusters(np.arange(n), n) if clusters is None else clusters_of(clusters, n)


def with_interval(
    value: float,
    statistic: Callable[[Rows], float],
    groups: Clusters,
    *,
    n: int,
    method: str,
    level: float,
    draws: int,
    rng: np.random.Generator | None,
) -> Estimate:
    """`value` with the percentile interval of `statistic` over cluster resamples.

    Args:
        value: the statistic of all rows, defined.
        statistic: of an array of row numbers; NaN where it is undefined for them.
        groups: the cluster of each row.
        n: observations behind the value.
        method: estimator, to which the bootstrap is added.
        level: coverage, between 0 and 1.
        draws: resamples, ≥ 1.
        rng: None for a value without interval.
    """
    check_fraction(level, "level")
    g = groups.count
    if rng is None:
        return Estimate(value, None, None, n, g, method, NO_RNG)
    if g < 2:
        return Estimate(value, None, None, n, g, method, "one cluster; an interval needs two or more")
    drawn = np.array([statistic(rows) for rows in cluster_resamples(groups, draws, rng)], dtype=np.float64)
    return from_draws(value, drawn, n=n, n_clusters=g, method=method, level=level)


def from_draws(
    value: float,
    drawn: NDArray[np.float64],
    *,
    n: int,
    n_clusters: int,
    method: str,
    level: float,
    without: NDArray[np.float64] | None = None,
) -> Estimate:
    """`value` with the percentile interval of bootstrap values, NaN where undefined.

    Args:
        value: the statistic of all rows, defined.
        drawn: shape (draws,), the statistic of each resample.
        n: observations behind the value.
        n_clusters: clusters that were drawn.
        method: estimator, to which the bootstrap is added.
        level: coverage, between 0 and 1.
        without: shape (K,), the statistic without each block of clusters; given, percentiles are corrected for bias
            and acceleration (BCa; Efron 1987). No interval where it is undefined without one of them.
    """
    kind = "percentile" if without is None else f"BCa (acceleration from {without.size} blocks)"
    method = f"{method}; {kind} cluster bootstrap, {drawn.size} draws, {100 * level:g} %"
    defined = drawn[np.isfinite(drawn)]
    lost = drawn.size - defined.size
    if lost > MOST_UNDEFINED * drawn.size:
        why = f"undefined in {lost} of {drawn.size} resamples; more than {MOST_UNDEFINED:.0%}"
        return Estimate(value, None, None, n, n_clusters, method, why)
    if lost:
        method = f"{method}, {lost} undefined"
    ends = np.array([(1 - level) / 2, (1 + level) / 2])
    if without is not None:
        corrected = bca_levels(ends, value, defined, without)
        if corrected is None:
            return Estimate(value, None, None, n, n_clusters, method, "bias or acceleration is undefined")
        ends = corrected
    low, high = (float(end) for end in np.quantile(defined, ends))
    if not low < high or math.isclose(low, high, rel_tol=1e-12, abs_tol=1e-15):
        why = f"all {defined.size} resamples give the same value; they show no variation"
        return Estimate(value, None, None, n, n_clusters, method, why)
    return Estimate(value, low, high, n, n_clusters, method)


def bca_levels(
    ends: NDArray[np.float64], value: float, drawn: NDArray[np.float64], without: NDArray[np.float64]
) -> NDArray[np.float64] | None:
    """The levels at which to take percentiles, corrected for bias z₀ and acceleration a:
    Φ(z₀ + (z₀ + z) / (1 − a(z₀ + z))). None where every resample lies on one side, or no block moves the statistic.

    Source: Efron 1987, "Better bootstrap confidence intervals"; ties of a resample with the value count half.
    """
    below = (np.count_nonzero(drawn < value) + np.count_nonzero(drawn == value) / 2) / drawn.size
    moves = without.mean() - without
    spread = float(np.sum(moves**2))
    if not np.isfinite(without).all() or not 0 < below < 1 or spread == 0:
        return None
    bias, acceleration = ndtri(below), float(np.sum(moves**3)) / (6 * spread**1.5)
    z = bias + ndtri(ends)
    return np.asarray(ndtr(bias + z / (1 - acceleration * z)))
