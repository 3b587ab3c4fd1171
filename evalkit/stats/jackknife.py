"""The delete-a-group jackknife: leave clusters out, block by block, and see how far a statistic moves.

1. It works for any statistic that is smooth in the data, however rows hang together, for no row is ever there twice.
2. With more clusters than blocks, clusters are dealt to blocks at random; the degrees of freedom are blocks − 1.
3. An interval of width zero is never given.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import stdtrit

from evalkit.stats.arrays import FloatArray, check_fraction
from evalkit.stats.bootstrap import NO_RNG, Rows
from evalkit.stats.clusters import Clusters
from evalkit.stats.estimate import Estimate
from evalkit.stats.means import ROUNDING

MOST_BLOCKS = 100


def without_each_block(
    statistic: Callable[[Rows], FloatArray], groups: Clusters, rng: np.random.Generator | None
) -> FloatArray | None:
    """The statistic without each block of clusters: shape (blocks, …); None without rng or with one cluster."""
    if rng is None or groups.count < 2:
        return None
    block_of = (rng.permutation(groups.count) % min(groups.count, MOST_BLOCKS))[groups.codes]
    return np.array([statistic(np.flatnonzero(block_of != block)) for block in range(int(block_of.max()) + 1)])


def jackknife_interval(
    value: float,
    without: FloatArray | None,
    *,
    n: int,
    n_clusters: int,
    method: str,
    level: float,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Estimate:
    """`value` ± t(K − 1) · √((K − 1)/K · Σ (θ₍ₖ₎ − θ̄)²), K the blocks.

    Source: Kott 2001, "The delete-a-group jackknife".

    Args:
        value: the statistic of all rows, defined.
        without: shape (K,), from `without_each_block`; None where none were asked for.
        n: observations behind the value.
        n_clusters: clusters behind the interval.
        method: the estimator, to which the jackknife is added.
        level: coverage, between 0 and 1.
        bounds: to which the interval is clipped.
    """
    check_fraction(level, "level")
    if n_clusters < 2:
        return Estimate(value, None, None, n, n_clusters, method, "one cluster; an interval needs two or more")
    if without is None:
        return Estimate(value, None, None, n, n_clusters, method, NO_RNG)
    k = without.size
    method = f"{method}; jackknife over {k} blocks of clusters, t({k - 1}), {100 * level:g} %"
    lost = int(np.count_nonzero(~np.isfinite(without)))
    if lost:
        return Estimate(value, None, None, n, n_clusters, method, f"undefined without {lost} of {k} blocks")
    error = math.sqrt((k - 1) / k * float(np.sum((without - without.mean()) ** 2)))
    if error <= ROUNDING * max(1.0, abs(value)):
        return Estimate(value, None, None, n, n_clusters, method, f"all {k} blocks move it equally; no variation")
    margin = float(stdtrit(k - 1, (1 + level) / 2)) * error
    return Estimate(value, max(value - margin, bounds[0]), min(value + margin, bounds[1]), n, n_clusters, method)
