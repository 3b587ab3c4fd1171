"""A figure on the human scale from many judgements and few labels: Rogan–Gladen and prediction-powered inference.

1. Labelled and unlabelled items come from the same population, and which were labelled was left to chance. A correction
   learnt on other items corrects nothing. `chosen_by_value` sees it where the choice shows in the judge's values;
   nothing here can see it where it does not.
2. Errors are added up by cluster over both parts, with as many degrees of freedom as the part with fewer clusters has.
3. A correction that the judge is too weak for is refused with the reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

from evalkit.stats.arrays import FloatArray, check_fraction, finite_vector
from evalkit.stats.clusters import Clusters, clusters_of
from evalkit.stats.comparing import Test
from evalkit.stats.estimate import Estimate, undefined
from evalkit.stats.means import ROUNDING, cluster_mean

# Below this the correction divides by so little that a small error of the judge's rates decides the result.
LEAST_YOUDEN = 0.2


@dataclass(frozen=True, slots=True)
class RoganGladen:
    """A rate of passes, corrected for the errors of a pass/fail judge."""

    rate: Estimate
    """In [0, 1]; undefined where the judge is too weak or one of the two labels does not occur."""
    apparent: Estimate
    """Rate of passes by the judge on the unlabelled items."""
    sensitivity: Estimate
    """Share of labelled passes that the judge passes."""
    specificity: Estimate
    """Share of labelled failures that the judge fails."""


@dataclass(frozen=True, slots=True)
class PredictionPowered:
    """A mean of human labels, sharpened by predictions for items without labels."""

    mean: Estimate
    """`n` counts labels."""
    classical: Estimate
    """Mean of the labels alone."""
    power: float
    """λ, the weight of the predictions in units of label per prediction; neither clipped nor bounded. 0 where all
    labelled predictions are equal: then the mean is the classical one."""
    n_unlabelled: int
    variance_ratio: float | None
    """Squared standard error of `mean` over that of `classical`: .5 says that the predictions were worth as many labels
    again. `None` where an interval is missing."""


def rogan_gladen(
    labels: ArrayLike,
    judged: ArrayLike,
    unlabelled_judged: ArrayLike,
    clusters: ArrayLike,
    unlabelled_clusters: ArrayLike,
    *,
    level: float = 0.95,
    least_youden: float = LEAST_YOUDEN,
) -> RoganGladen:
    """True rate of passes: (p + sp − 1) / (se + sp − 1), p the rate by a judge of sensitivity se and specificity sp.

    Source: Rogan & Gladen 1978, "Estimating prevalence from the results of a screening test". The interval is by the
    delta method over clusters; a rate of the judge that is exactly 0 or 1 enters the error with one success and one
    failure added to its clusters, after Lang & Reiczigel 2014, since no error seen is not no error.

    Args:
        labels: shape (n,), human passes as true/false or 0/1.
        judged: shape (n,), the judge's on the same items.
        unlabelled_judged: shape (m,), the judge's on items without label, for which the rate is wanted.
        clusters: shape (n,), a label per item. A cluster may have items in both parts.
        unlabelled_clusters: shape (m,).
        level: coverage, between 0 and 1.
        least_youden: se + sp − 1 below which there is no correction.

    Returns:
        `rate.n` counts unlabelled items, `rate.n_clusters` the clusters of the part with fewer. A value outside [0, 1]
        is put at the end, and `method` gives it.

    Raises:
        ValueError: lengths differ, a value that is neither 0 nor 1, a missing cluster, or level or least_youden outside
            (0, 1).
    """
    y, f = _binary(labels, "labels"), _binary(judged, "judged")
    u = _binary(unlabelled_judged, "unlabelled_judged")
    parts = _Parts.of(y, f, u, clusters, unlabelled_clusters)
    check_fraction(level, "level")
    check_fraction(least_youden, "least_youden")
    passed = y == 1
    bounds = (0.0, 1.0)
    labelled, unlabelled = parts.labelled.codes, parts.unlabelled.codes
    apparent = cluster_mean(u, unlabelled, level=level, bounds=bounds)
    sensitivity = cluster_mean(f[passed], labelled[passed], level=level, bounds=bounds)
    specificity = cluster_mean(1 - f[~passed], labelled[~passed], level=level, bounds=bounds)
    rate = _rogan_gladen(y, f, u, parts, level, least_youden)
    return RoganGladen(rate, apparent, sensitivity, specificity)


def prediction_powered_mean(
    labels: ArrayLike,
    predicted: ArrayLike,
    unlabelled_predicted: ArrayLike,
    clusters: ArrayLike,
    unlabelled_clusters: ArrayLike,
    *,
    power: float | None = None,
    level: float = 0.95,
) -> PredictionPowered:
    """Mean of human labels: mean(y) + λ (mean(f̃) − mean(f)), f the predictions with labels y and f̃ those without.

    Source: Angelopoulos, Duchi & Zrnic 2023, "PPI++", arXiv 2311.01453. λ = Cov(y, f) / ((1 + n/m) Var f) is estimated
    for each labelled cluster from all others, so that no label helps to choose the weight it is corrected with; it has
    the units of y over f and is not clipped, so the scale of the predictions does not matter.

    Args:
        labels: shape (n,), no NaN.
        predicted: shape (n,), of the same items.
        unlabelled_predicted: shape (m,), of items without label.
        clusters: shape (n,), a label per item. A cluster may have items in both parts.
        unlabelled_clusters: shape (m,).
        power: λ; None to estimate it. 0 is the classical mean, 1 that of the first PPI.
        level: coverage, between 0 and 1.

    Returns:
        undefined without labels; classical without predictions beyond them. Estimates not within a declared range: the
        correction may leave it.

    Raises:
        ValueError: lengths differ, NaN or infinite values, a missing cluster, or level outside (0, 1).
    """
    y, f = finite_vector(labels, "labels"), finite_vector(predicted, "predicted")
    u = finite_vector(unlabelled_predicted, "unlabelled_predicted")
    parts = _Parts.of(y, f, u, clusters, unlabelled_clusters)
    check_fraction(level, "level")
    classical = cluster_mean(y, parts.labelled.codes, level=level)
    n, m = y.size, u.size
    if n == 0 or m == 0:
        why = "no labels" if n == 0 else "no predictions beyond the labelled items"
        mean = replace(classical, method=f"prediction-powered mean; {why}: {classical.method}")
        return PredictionPowered(mean, classical, 0.0, m, None)
    weights = _power_without_own_cluster(y, f, parts, n / m) if power is None else np.full(n, float(power))
    weight = float(weights.mean())
    centre = float(u.mean())
    corrected = y - weights * (f - centre)
    value = float(corrected.mean())
    variance = parts.variance((corrected - value) / n, weight * (u - centre) / m)
    chosen = "estimated without the own cluster" if power is None else "given"
    method = f"prediction-powered mean, λ = {weight:.4g} {chosen}, {m} predictions without label"
    mean = _with_t_interval(value, variance, parts, n, method, level, scale=float(np.abs(y).max()))
    return PredictionPowered(mean, classical, weight, m, _ratio(mean, classical, parts, level))


def chosen_by_value(
    values: ArrayLike, unlabelled_values: ArrayLike, clusters: ArrayLike, unlabelled_clusters: ArrayLike
) -> Test:
    """Do labelled and unlabelled items differ in the judge's values by more than chance, in mean or in spread?

    Two t tests over clusters, of the values and of their distance from the median of all, the smaller p doubled
    (Bonferroni). They see labels that went to high, to low or to extreme values.

    Args:
        values: shape (n,), of labelled items.
        unlabelled_values: shape (m,).
        clusters: shape (n,), a label per item. A cluster may have items in both parts.
        unlabelled_clusters: shape (m,).

    Returns:
        `statistic` is the larger t, positive where labelled items have more. p is None where a part has fewer than two
        clusters or the values show no variation.

    Raises:
        ValueError: lengths differ, NaN or infinite values, or a missing cluster.
    """
    f, u = finite_vector(values, "values"), finite_vector(unlabelled_values, "unlabelled_values")
    parts = _Parts.of(f, f, u, clusters, unlabelled_clusters)
    n, g = f.size, parts.fewest
    method = f"labelled against {u.size} unlabelled, mean and spread, t({g - 1}) over clusters"
    if g < 2:
        return Test(None, None, n, g, method, "a part has fewer than two clusters")
    middle = float(np.median(np.concatenate([f, u])))
    scale = float(np.abs(np.concatenate([f, u])).max())
    found = []
    sides = [(f, u), (np.abs(f - middle), np.abs(u - middle))]
    for a, b in sides[: 1 if np.unique(np.concatenate([f, u])).size <= 2 else 2]:  # of two values the mean says all
        error = math.sqrt(parts.variance((a - a.mean()) / n, -(b - b.mean()) / u.size))
        if error > ROUNDING * scale:
            found.append((float(a.mean()) - float(b.mean())) / error)
    if not found:
        return Test(None, None, n, g, method, "the values show no variation")
    t = max(found, key=abs)
    return Test(min(1.0, len(found) * float(2 * stdtr(g - 1, -abs(t)))), t, n, g, method)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Clusters of the labelled and the unlabelled part, numbered together."""

    labelled: Clusters
    unlabelled: Clusters

    @classmethod
    def of(
        cls, y: FloatArray, f: FloatArray, u: FloatArray, clusters: ArrayLike, unlabelled_clusters: ArrayLike
    ) -> _Parts:
        if y.size != f.size:
            raise ValueError(f"labels and the judge's values for them: {y.size} and {f.size}; pair them first")
        clusters_of(clusters, y.size)
        clusters_of(unlabelled_clusters, u.size)
        both = clusters_of([*np.asarray(clusters).tolist(), *np.asarray(unlabelled_clusters).tolist()], y.size + u.size)
        return cls(Clusters(both.codes[: y.size], both.count), Clusters(both.codes[y.size :], both.count))

    @property
    def fewest(self) -> int:
        """Clusters of the part with fewer."""
        return min(np.unique(self.labelled.codes).size, np.unique(self.unlabelled.codes).size)

    def variance(self, labelled: FloatArray, unlabelled: FloatArray) -> float:
        """Of a sum of influences, with the factor for few clusters; NaN with fewer than two clusters in a part."""
        if self.fewest < 2:
            return math.nan
        sums = self.labelled.sums(labelled) + self.unlabelled.sums(unlabelled)
        return float(sums @ sums) * self.fewest / (self.fewest - 1)


def _rogan_gladen(
    y: FloatArray, f: FloatArray, u: FloatArray, parts: _Parts, level: float, least_youden: float
) -> Estimate:
    method = "Rogan–Gladen, delta method over clusters"
    passed = y == 1
    positives, negatives = int(np.count_nonzero(passed)), int(np.count_nonzero(~passed))
    n, g = u.size, parts.fewest
    if n == 0:
        return undefined(0, g, method, "no unlabelled items")
    if positives == 0 or negatives == 0:
        missing = "pass" if positives == 0 else "failure"
        return undefined(n, g, method, f"no labelled {missing}; the judge's errors on it are unknown")
    se, sp, p = float(f[passed].mean()), 1 - float(f[~passed].mean()), float(u.mean())
    youden = se + sp - 1
    if youden < least_youden:
        why = f"sensitivity + specificity − 1 = {youden:.3f}, below {least_youden:g}: the judge is too weak to correct"
        return undefined(n, g, method, why)
    raw = (p + sp - 1) / youden
    of_labels = np.where(passed, -raw * (f - se) / positives, (1 - raw) * ((1 - f) - sp) / negatives) / youden
    variance = parts.variance(of_labels, (u - p) / n / youden)
    labelled = parts.labelled.codes
    for rate, codes, slope in (
        (se, labelled[passed], raw),
        (sp, labelled[~passed], 1 - raw),
        (p, parts.unlabelled.codes, 1.0),
    ):
        if rate in (0.0, 1.0):
            variance += (slope / youden) ** 2 * _variance_at_an_end(np.unique(codes).size)
    value = min(max(raw, 0.0), 1.0)
    if value != raw:
        method = f"{method}; {raw:.4g} put at {value:g}"
    estimate = _with_t_interval(value, variance, parts, n, method, level, scale=1.0)
    if estimate.low is None or estimate.high is None:
        return estimate
    return replace(estimate, low=max(estimate.low, 0.0), high=min(estimate.high, 1.0))


def _variance_at_an_end(clusters: int) -> float:
    """Of a rate seen as 0 or 1 in every cluster: that of (G + 1) / (G + 2)."""
    rate = (clusters + 1) / (clusters + 2)
    return rate * (1 - rate) / (clusters + 2)


def _power_without_own_cluster(y: FloatArray, f: FloatArray, parts: _Parts, ratio: float) -> FloatArray:
    """λ of each labelled item from the items of all other clusters: shape (n,)."""
    a, b = y - y.mean(), f - f.mean()
    codes = parts.labelled.codes

    def others(values: FloatArray) -> FloatArray:
        return np.asarray(values.sum() - parts.labelled.sums(values)[codes])

    left = np.maximum(others(np.ones_like(y)), 1.0)
    covariance = others(a * b) - others(a) * others(b) / left
    variance = others(b * b) - others(b) ** 2 / left
    seen = variance > ROUNDING * max(float(b @ b), np.finfo(float).tiny)
    slope = np.divide(covariance, variance, out=np.zeros_like(y), where=seen)
    return np.asarray(slope / (1 + ratio))


def _with_t_interval(
    value: float, variance: float, parts: _Parts, n: int, method: str, level: float, scale: float
) -> Estimate:
    g = parts.fewest
    if g < 2:
        return Estimate(value, None, None, n, g, method, "one cluster in a part; an interval needs two or more")
    error = math.sqrt(variance)
    if error <= ROUNDING * scale:
        return Estimate(value, None, None, n, g, method, "the clusters show no variation")
    margin = float(stdtrit(g - 1, (1 + level) / 2)) * error
    return Estimate(value, value - margin, value + margin, n, g, f"{method}; t({g - 1}), {100 * level:g} %")


def _ratio(mean: Estimate, classical: Estimate, parts: _Parts, level: float) -> float | None:
    if mean.half_width is None or classical.half_width is None:
        return None
    quantile = {g: float(stdtrit(g - 1, (1 + level) / 2)) for g in (parts.fewest, classical.n_clusters)}
    own = mean.half_width / quantile[parts.fewest]
    return (own / (classical.half_width / quantile[classical.n_clusters])) ** 2


def _binary(values: ArrayLike, name: str) -> FloatArray:
    vector = finite_vector(values, name)
    allowed: NDArray[np.bool_] = np.isin(vector, (0.0, 1.0))
    if not allowed.all():
        raise ValueError(f"{name}: expected true/false or 0/1")
    return vector
