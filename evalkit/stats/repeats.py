"""One model, one protocol, two runs: how much the result moves when nothing was changed (A/A).

1. Two repeats are exchangeable, so the true difference is zero and what is seen of it is noise: of the engine where
   decoding is greedy, of sampling elsewhere.
2. The items are held fixed. This is the noise of running again, not that of other items, which intervals cover.
3. Noise is added up by cluster, since that is what is independent of the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from evalkit.stats.arrays import FloatArray, finite_vector
from evalkit.stats.clusters import clusters_of
from evalkit.stats.estimate import Estimate
from evalkit.stats.means import cluster_mean


@dataclass(frozen=True, slots=True)
class Retest:
    """What two repeats say of the noise of one."""

    flip_rate: Estimate
    """Share of pairs that succeeded in one repeat only."""
    difference: Estimate
    """Mean success of the second minus that of the first."""
    run_sd: float | None
    """Standard deviation of one run's mean success over repeats; None where it cannot be estimated, `why` then says
    so."""
    item_sd: float | None
    """Root mean square of the items' differences, second minus first mean over trials; None without items."""
    items: int
    method: str
    """How `run_sd` was made, for people to read."""
    why: str = ""


def retest(first: ArrayLike, second: ArrayLike, items: ArrayLike, clusters: ArrayLike) -> Retest:
    """Flip rate and retest deviation of two repeats, paired by sample.

    Args:
        first: shape (n,), success of each sample in the first repeat as true/false or 0/1.
        second: shape (n,), of the same samples in the second.
        items: shape (n,), the item of each sample.
        clusters: shape (n,), its cluster; all samples of an item are in one.

    Returns:
        `run_sd` is `retest_sd`. It is None with fewer than two clusters, whose spread is not known, and where no
        cluster moved: no noise was seen, which is not a deviation of zero.

    Raises:
        ValueError: lengths differ, a missing label, or a value that is neither 0 nor 1.
    """
    a, b = finite_vector(first, "first"), finite_vector(second, "second")
    for values, name in ((a, "first"), (b, "second")):
        if not np.isin(values, (0.0, 1.0)).all():
            raise ValueError(f"{name}: expected successes as true/false or 0/1")
    if a.size != b.size:
        raise ValueError(f"first and second: {a.size} and {b.size} values; pair them first")
    difference = cluster_mean(b - a, clusters, bounds=(-1.0, 1.0))
    flips = cluster_mean(a != b, clusters, bounds=(0.0, 1.0))
    by_item = _item_differences(b - a, items)
    deviation, g = retest_sd(b - a, clusters), difference.n_clusters
    why = ""
    if a.size == 0:
        why = "no sample was judged in both repeats"
    elif g == 1:
        why = f"all {a.size} pairs are in one cluster; a spread needs two or more"
    elif deviation == 0:
        why = f"the mean of none of {g} clusters moved, which is not to say that there is no noise"
    return Retest(
        flip_rate=replace(flips, method=f"share of pairs that flip, {flips.method}"),
        difference=replace(difference, method=f"second − first, {difference.method}"),
        run_sd=None if why else deviation,
        item_sd=float(np.sqrt(np.mean(by_item**2))) if by_item.size else None,
        items=by_item.size,
        method=f"√(Σ D² / 2) / n, D the sum of differences in each of {g} clusters, n = {a.size} pairs",
        why=why,
    )


def retest_sd(differences: ArrayLike, clusters: ArrayLike) -> float:
    """Standard deviation of the mean of one run over repeats, from two of them: √(Σ_g D_g² / 2) / n.

    D_g is the sum over cluster g of second minus first. Given the items, the means of the two runs are independent
    with one variance v, so the difference of the means Δ = Σ_g D_g / n has variance 2v. Its expectation is zero, as
    is that of each D_g, and clusters are independent: Σ_g D_g² / n² estimates 2v without bias, and about zero, not
    about a mean that would cost a degree of freedom and hide a shift of all. With one observation a cluster this is
    s_w / √n for the within-subject deviation s_w = √(Σ d² / 2n), and sd(d) / √(2n) for a mean difference of zero.
    Sources: Dahlberg 1940; Bland & Altman 1986 (repeatability) and 1996, "Measurement error", BMJ 313:744; clusters
    as in Liang & Zeger 1986.

    Args:
        differences: shape (n,), no NaN.
        clusters: shape (n,), a label per difference.

    Returns:
        ≥ 0; NaN without differences.

    Raises:
        ValueError: NaN or infinite values, or a missing label.
    """
    d = finite_vector(differences, "differences")
    sums = clusters_of(clusters, d.size).sums(d)
    return math.sqrt(float(sums @ sums) / 2) / d.size if d.size else math.nan


def _item_differences(differences: FloatArray, items: ArrayLike) -> FloatArray:
    """Mean difference of each item."""
    groups = clusters_of(items, differences.size)
    return groups.sums(differences) / groups.sums(np.ones_like(differences))
