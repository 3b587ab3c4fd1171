"""Means whose standard errors know the clusters.

1. The mean weighs observations equally; its error is measured between clusters, because trials of one item and items of
   one template rise and fall together.
2. The interval is Student's t on clusters − 1 degrees of freedom with the CR1 standard error.
3. An interval of width zero is never given. Where the clusters show no variation there is an exact interval (all values
   at an end of the declared range) or none at all, with the reason.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from evalkit.stats.arrays import FloatArray, check_fraction, finite_vector
from evalkit.stats.clusters import Clusters, clusters_of
from evalkit.stats.estimate import Estimate, undefined

# A standard error below this share of the largest value is rounding noise of a sum that should be zero.
ROUNDING = 1e-12


def cluster_mean(
    values: ArrayLike, clusters: ArrayLike, *, level: float = 0.95, bounds: tuple[float, float] | None = None
) -> Estimate:
    """Mean with a cluster-robust t interval.

    Args:
        values: shape (n,), no NaN.
        clusters: shape (n,), a label per value; equal labels are one cluster.
        level: coverage of the interval, between 0 and 1.
        bounds: the range the values are declared to lie in; an end may be infinite. The interval is clipped to it. A
            value that misses an end by rounding alone, as a weighted sum may, is taken to be at the end.

    Returns:
        - no values: value and interval `None`;
        - one cluster: value without interval, whatever the values are;
        - all values equal to an end of finite `bounds`: the exact interval of Clopper and Pearson with n = clusters and
          no (or only) successes, scaled to `bounds`. A cluster counts as one observation, and one that leaves the end
          at all counts as if it went to the other end, so the interval is wide enough for graded values too;
        - all values equal elsewhere, or all cluster means equal: value without interval;
        - otherwise mean ± t(G − 1) · CR1 standard error, G the number of clusters.

    Raises:
        ValueError: NaN or infinite values, a missing label, level outside (0, 1), low ≥ high in `bounds`, or a value
            outside `bounds`.

    Sources: Liang & Zeger 1986 (sandwich estimator); CR1 with t(G − 1) as in Cameron & Miller 2015, "A Practitioner's
    Guide to Cluster-Robust Inference", §II–III; Clopper & Pearson 1934.
    """
    y = _within(finite_vector(values, "values"), bounds)
    groups = clusters_of(clusters, y.size)
    check_fraction(level, "level")
    n, g = y.size, groups.count
    method = f"mean; CR1 standard error over clusters, t({g - 1}), {100 * level:g} %"
    if n == 0:
        return undefined(0, 0, "mean; CR1 standard error over clusters", "no values")
    if g == 1:
        return _without_interval(y, g, method, f"all {n} values are in one cluster; an interval needs two or more")
    if y.min() == y.max():
        return _constant(y, g, method, level, bounds)
    error = _standard_error(y, groups, "CR1")
    if error <= ROUNDING * np.abs(y).max():
        return _without_interval(y, g, method, f"the means of all {g} clusters are equal; they show no variation")
    mean, margin = float(y.mean()), float(stdtrit(g - 1, (1 + level) / 2)) * error
    floor, ceiling = bounds or (-math.inf, math.inf)
    return Estimate(mean, float(max(mean - margin, floor)), float(min(mean + margin, ceiling)), n, g, method)


def cluster_standard_error(values: ArrayLike, clusters: ArrayLike, kind: Literal["CR0", "CR1"] = "CR1") -> float:
    """Cluster-robust standard error of the mean.

    CR0² = Σ_g (Σ_{i in g} (y_i − ȳ))² / n², CR1² = CR0² · G / (G − 1). For a mean this CR1 is what statsmodels gives
    for a constant with `cov_type="cluster"` and `use_correction=True`.

    Args:
        values: shape (n,), no NaN.
        clusters: shape (n,), a label per value.
        kind: CR1, or CR0 without the factor for few clusters.

    Returns:
        ≥ 0; NaN with fewer than two clusters. With clusters of one value each, CR1 is s / √n, s with divisor n − 1.

    Raises:
        ValueError: NaN or infinite values, or a missing label.
    """
    y = finite_vector(values, "values")
    return _standard_error(y, clusters_of(clusters, y.size), kind)


def independent_standard_error(values: ArrayLike) -> float:
    """Standard error of the mean if all values were independent: √(Σ (y_i − ȳ)²) / n.

    For 0/1 values √(p(1 − p)/n), the figure most tools print; too small as soon as values come in clusters. It is CR0
    with every value its own cluster.

    Returns:
        ≥ 0; NaN with fewer than two values.

    Raises:
        ValueError: NaN or infinite values.
    """
    y = finite_vector(values, "values")
    return _standard_error(y, Clusters(np.arange(y.size), y.size), "CR0")


def _standard_error(y: FloatArray, groups: Clusters, kind: Literal["CR0", "CR1"]) -> float:
    if kind not in ("CR0", "CR1"):
        raise ValueError(f"kind: {kind!r} is neither 'CR0' nor 'CR1'")
    g = groups.count
    if g < 2:
        return math.nan
    deviations = groups.sums(y - y.mean())
    factor = g / (g - 1) if kind == "CR1" else 1.0
    return math.sqrt(factor * float(deviations @ deviations)) / y.size


def _constant(y: FloatArray, g: int, method: str, level: float, bounds: tuple[float, float] | None) -> Estimate:
    value = float(y[0])
    if bounds is None or value not in bounds or math.isinf(bounds[1] - bounds[0]):
        return _without_interval(y, g, method, f"all {y.size} values are equal; their spread says nothing of the error")
    floor, ceiling = float(bounds[0]), float(bounds[1])
    # Clopper–Pearson with 0 of g: upper end 1 − (α/2)^(1/g); with g of g it is mirrored.
    reach = (ceiling - floor) * -math.expm1(math.log((1 - level) / 2) / g)
    exact = (
        f"mean; all {y.size} values at an end of the range: exact (Clopper–Pearson) with n = {g} clusters, "
        f"{100 * level:g} %"
    )
    if value == floor:
        return Estimate(value, floor, floor + reach, y.size, g, exact)
    return Estimate(value, ceiling - reach, ceiling, y.size, g, exact)


def _without_interval(y: FloatArray, g: int, method: str, why: str) -> Estimate:
    constant = y.min() == y.max()
    return Estimate(float(y[0] if constant else y.mean()), None, None, y.size, g, method, why)


def _within(y: FloatArray, bounds: tuple[float, float] | None) -> FloatArray:
    """`y`, checked against its declared range, with values that miss an end by rounding put there."""
    if bounds is None:
        return y
    floor, ceiling = bounds
    if not floor < ceiling:
        raise ValueError(f"bounds: {floor} is not below {ceiling}")
    for end in bounds:
        y = np.where(np.isclose(y, end, rtol=ROUNDING, atol=ROUNDING), end, y)
    if y.size and (y.min() < floor or y.max() > ceiling):
        raise ValueError(f"values: {y.min():g} to {y.max():g} leave the declared range {floor:g} to {ceiling:g}")
    return y
