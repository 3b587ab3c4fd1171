"""What a comparison could have shown, what choosing the best of several adds by luck, and how much to label.

1. A plan counts clusters, since they are what is drawn independently; items and labels follow from their sizes.
2. What a plan assumes of spread, clusters and labels is measured on earlier data, and stands in `method`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import log_ndtr, stdtrit

from evalkit.stats.arrays import check_fraction
from evalkit.stats.correlation import FEW_CLUSTERS

RankKind = Literal["pearson", "spearman", "kendall_b"]
# Variance of Fisher's z of n independent pairs: factor / (n − lost).
Z_VARIANCE: dict[RankKind, tuple[float, int]] = {"pearson": (1.0, 3), "spearman": (1.06, 3), "kendall_b": (0.437, 4)}
LEAST_CLUSTERS = FEW_CLUSTERS  # below, t intervals of cluster-robust errors fall short of their level
MOST_CLUSTERS = 2**40


def minimum_detectable_effect(standard_error: float, dof: float, alpha: float = 0.05, power: float = 0.8) -> float:
    """Smallest true difference that a two-sided test finds with the given power: se · (t_{1−α/2} + t_{power}).

    Source: Bloom 1995, "Minimum Detectable Effects", Evaluation Review 19(5); both quantiles of t(dof), the usual
    approximation of the non-central t.

    Args:
        standard_error: of the difference, ≥ 0.
        dof: degrees of freedom, clusters − 1.
        alpha: two-sided level, between 0 and 1.
        power: chance to find it, between 0 and 1; below alpha/2 there is nothing to detect.

    Returns:
        > 0, in the unit of the standard error; NaN where the standard error is 0 or NaN, or dof < 1: no variation seen
        does not mean that every effect would be found.

    Raises:
        ValueError: a negative standard error, alpha outside (0, 1), or power outside (alpha/2, 1).
    """
    check_fraction(alpha, "alpha")
    check_fraction(power, "power")
    if power <= alpha / 2:
        raise ValueError(f"power: {power} is not above alpha / 2 = {alpha / 2}")
    if standard_error < 0:
        raise ValueError(f"standard_error: {standard_error} is negative")
    if not (0 < standard_error < math.inf and dof >= 1):
        return math.nan
    return standard_error * float(stdtrit(dof, 1 - alpha / 2) + stdtrit(dof, power))


def expected_maximum(m: int) -> float:
    """Expected largest of m independent standard normals: ∫ x · m φ(x) Φ(x)^(m−1) dx.

    m = 1 gives 0, m = 2 gives 1/√π. The integrand is analytic and dies out on both sides, so the plain sum over a grid
    is accurate to rounding.

    Raises:
        ValueError: m < 1.
    """
    if m < 1:
        raise ValueError(f"m: the largest of {m} is not defined; m ≥ 1")
    if m == 1:
        return 0.0
    step = 0.01
    x = np.arange(-4000, 4001) * step
    log_density = math.log(m) - x**2 / 2 - math.log(2 * math.pi) / 2 + (m - 1) * log_ndtr(x)
    return float(step * np.sum(x * np.exp(log_density)))


def selection_optimism(standard_error_of_difference: float, m: int) -> float:
    """How much the best of m equally good candidates is expected to look better than it is.

    expected_maximum(m) · se / √2: candidates scored on the same items share the items' luck, and only what they do not
    share, se of a paired difference ÷ √2 each, can be selected on.

    Args:
        standard_error_of_difference: of a paired difference of two candidates, ≥ 0. NaN gives NaN.
        m: candidates chosen among, ≥ 1.

    Raises:
        ValueError: m < 1, or a negative standard error.
    """
    if standard_error_of_difference < 0:
        raise ValueError(f"standard_error_of_difference: {standard_error_of_difference} is negative")
    return expected_maximum(m) * standard_error_of_difference / math.sqrt(2)


@dataclass(frozen=True, slots=True)
class LabelPlan:
    """How much to label for an interval, or a difference, of a given size."""

    clusters: int | None
    """`None` where no number of clusters is enough, and `why` says so; then the other counts are too."""
    items: int | None
    labels_per_item: int
    labels: int | None
    """items · labels_per_item."""
    reached: float | None
    """Half-width, or detectable difference, that these counts give: at most what was asked for."""
    expected: float | None
    """The correlation to expect with the mean of so many labels; `None` for a mean, which errors of labels leave."""
    method: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class LabelCost:
    """A plan beside labelling everything."""

    cost: float
    cost_of_all: float
    """Of as many labels for every rollout."""
    share: float
    """cost / cost_of_all; above 1 where there are fewer rollouts than the plan needs."""
    enough_rollouts: bool


def plan_mean(
    sd: float,
    *,
    half_width: float | None = None,
    difference: float | None = None,
    items_per_cluster: float = 1,
    cluster_icc: float = 0.0,
    reliability: float = 1.0,
    labels_per_item: int = 1,
    level: float = 0.95,
    power: float = 0.8,
) -> LabelPlan:
    """Fewest clusters for a mean, or an accuracy, of a wanted precision.

    With G clusters of m items and k labels each, the variance of the mean is
    sd² · [icc/G + (ρ − icc)/(Gm) + (1 − ρ)/(Gmk)], ρ the reliability of one label; the half-width is
    t(G − 1) times its root. For k = 1 this is the design effect 1 + (m − 1) · icc of Kish 1965.

    Args:
        sd: standard deviation of single labels over items, > 0; √(p(1 − p)) for an accuracy p; of the paired difference
            where `difference` is one of two rewards.
        half_width: of the interval wanted, > 0. Give this or `difference`.
        difference: found with chance `power` by a two-sided test of level 1 − `level`, > 0.
        items_per_cluster: m ≥ 1, their mean number.
        cluster_icc: share of the variance of single labels that lies between clusters, 0 to 1; see
            `icc_from_design_effect`.
        reliability: ρ, share of the variance of single labels that is not their error, in (0, 1] and ≥ `cluster_icc`.
        labels_per_item: k ≥ 1, averaged.
        level: coverage, between 0 and 1.
        power: between 0 and 1.

    Returns:
        At least 12 clusters: below, intervals fall short of their level.

    Raises:
        ValueError: an argument outside its range, or not exactly one of `half_width` and `difference`.
    """
    target = _target(half_width, difference)
    _check_design(items_per_cluster, cluster_icc, reliability, labels_per_item, level, power)
    if not 0 < sd < math.inf:
        raise ValueError(f"sd: {sd} is not above 0")
    if cluster_icc > reliability:
        raise ValueError(f"cluster_icc: {cluster_icc} is above the reliability {reliability} that contains it")
    m, k = items_per_cluster, labels_per_item
    per_cluster = sd**2 * (cluster_icc + (reliability - cluster_icc) / m + (1 - reliability) / (m * k))

    def reached(clusters: int) -> float:
        return _reach(math.sqrt(per_cluster / clusters), clusters, half_width is not None, level, power)

    what = "half-width of a mean" if half_width is not None else f"difference of means found with power {power:g}"
    return _plan(reached, target, m, k, None, f"{what}, {_design(m, cluster_icc, reliability, level)}")


def plan_correlation(
    value: float,
    *,
    half_width: float | None = None,
    difference: float | None = None,
    kind: RankKind = "pearson",
    shared_error: float = 0.0,
    items_per_cluster: float = 1,
    cluster_icc: float = 0.0,
    reliability: float = 1.0,
    labels_per_item: int = 1,
    level: float = 0.95,
    power: float = 0.8,
) -> LabelPlan:
    """Fewest clusters for a correlation of reward and labels of a wanted precision, on Fisher's z.

    With the mean of k labels of reliability ρ the correlation is value · √(ρ_k/ρ), ρ_k by `spearman_brown`. Its z has
    variance c/(n/deff − d), deff = 1 + (m − 1) · icc: c = 1, d = 3 for Pearson; 1.06 and 3 for Spearman, .437 and 4 for
    tau-b (Fieller, Hartley & Pearson 1957). Attenuation is exact for Pearson, an approximation for ranks.

    Args:
        value: correlation with single labels, between −1 and 1, as measured or guessed.
        half_width: of the interval wanted, between 0 and 1. Give this or `difference`.
        difference: of the correlations of two rewards with the same labels, between 0 and 1: `value` and the one that
            is `difference` nearer to 0, which is harder to tell from it.
        kind: pearson, spearman or kendall_b.
        shared_error: correlation of the two estimates' errors, 0 to below 1; 0 is the cautious choice.
        cluster_icc: that of what each observation moves the correlation, taken as the same for all k; from a measured
            design effect by `icc_from_design_effect`.
        items_per_cluster, reliability, labels_per_item, level, power: as `plan_mean`; `reliability` may be below
            `cluster_icc` here.

    Returns:
        At least 12 clusters. No counts where value · √(ρ_k/ρ) is 1 or more: value and reliability contradict.

    Raises:
        ValueError: an argument outside its range, or not exactly one of `half_width` and `difference`.
    """
    target = _target(half_width, difference)
    _check_design(items_per_cluster, cluster_icc, reliability, labels_per_item, level, power)
    if not -1 < value < 1:
        raise ValueError(f"value: {value} is not between −1 and 1")
    if target >= 1:
        raise ValueError(f"{'half_width' if difference is None else 'difference'}: {target} is not below 1")
    if kind not in Z_VARIANCE:
        raise ValueError(f"kind: {kind!r} is none of {', '.join(Z_VARIANCE)}")
    if not 0 <= shared_error < 1:
        raise ValueError(f"shared_error: {shared_error} is not within 0 and below 1")
    m, k = items_per_cluster, labels_per_item
    factor, lost = Z_VARIANCE[kind]
    what = "half-width" if half_width is not None else f"difference found with power {power:g}"
    method = f"{what}, {kind}, Fisher z, {_design(m, cluster_icc, reliability, level)}"
    expected = value * math.sqrt(spearman_brown(reliability, k) / reliability)
    if abs(expected) >= 1:
        why = f"{value:g} with labels of reliability {reliability:g} would be {expected:.3f} with {k}: they contradict"
        return LabelPlan(None, None, k, None, None, None, method, why)
    deff, size = 1 + (m - 1) * cluster_icc, abs(expected)

    def reached(clusters: int) -> float:
        left = clusters * m / deff - lost
        if left <= 0:
            return math.inf
        error = math.sqrt(factor / left * (2 * (1 - shared_error) if half_width is None else 1))
        reach = _reach(error, clusters, half_width is not None, level, power)
        centre = math.atanh(size)
        if half_width is None:
            return size - math.tanh(centre - reach)
        return (math.tanh(centre + reach) - math.tanh(centre - reach)) / 2

    return _plan(reached, target, m, k, expected, method)


def spearman_brown(reliability: float, labels_per_item: float) -> float:
    """Reliability of the mean of k labels, each of the given one: kρ/(1 + (k − 1)ρ), between `reliability` and 1.

    Sources: Spearman 1910; Brown 1910.

    Raises:
        ValueError: reliability outside (0, 1], or k < 1.
    """
    if not 0 < reliability <= 1:
        raise ValueError(f"reliability: {reliability} is not above 0 and at most 1")
    if not 1 <= labels_per_item < math.inf:
        raise ValueError(f"labels_per_item: {labels_per_item}; 1 or more")
    return labels_per_item * reliability / (1 + (labels_per_item - 1) * reliability)


def labels_for_reliability(reliability: float, wanted: float) -> int:
    """Fewest labels per item whose mean has the reliability wanted, by `spearman_brown`.

    Raises:
        ValueError: reliability or wanted outside (0, 1).
    """
    check_fraction(reliability, "reliability")
    check_fraction(wanted, "wanted")
    needed = wanted * (1 - reliability) / (reliability * (1 - wanted))
    return max(1, math.ceil(needed - 1e-9))


def icc_from_design_effect(design_effect: float, items_per_cluster: float) -> float:
    """The intraclass correlation (deff − 1)/(m − 1) behind a design effect measured with m items per cluster.

    Returns:
        0 to 1: a design effect below 1 counts as 0, which plans for more items than it would; 0 also where m is 1, for
        nothing was measured.

    Raises:
        ValueError: design_effect negative or not finite, or items_per_cluster < 1.
    """
    if not 0 <= design_effect < math.inf:
        raise ValueError(f"design_effect: {design_effect} is not 0 or above")
    if not 1 <= items_per_cluster < math.inf:
        raise ValueError(f"items_per_cluster: {items_per_cluster}; 1 or more")
    if items_per_cluster == 1:
        return 0.0
    return min(1.0, max(0.0, (design_effect - 1) / (items_per_cluster - 1)))


def beside_all_rollouts(plan: LabelPlan, rollouts: int, cost_per_label: float = 1.0) -> LabelCost | None:
    """What a plan costs beside as many labels for every rollout; `None` for a plan without counts.

    Raises:
        ValueError: rollouts < 1, or a cost that is not above 0.
    """
    if rollouts < 1:
        raise ValueError(f"rollouts: {rollouts}; 1 or more")
    if not 0 < cost_per_label < math.inf:
        raise ValueError(f"cost_per_label: {cost_per_label} is not above 0")
    if plan.labels is None or plan.items is None:
        return None
    everything = rollouts * plan.labels_per_item
    cost, cost_of_all = plan.labels * cost_per_label, everything * cost_per_label
    return LabelCost(cost, cost_of_all, plan.labels / everything, plan.items <= rollouts)


def _plan(
    reached: Callable[[int], float], target: float, m: float, k: int, expected: float | None, method: str
) -> LabelPlan:
    high = LEAST_CLUSTERS
    while reached(high) > target:
        high *= 2
        if high > MOST_CLUSTERS:
            why = f"more than {MOST_CLUSTERS} clusters would be needed"
            return LabelPlan(None, None, k, None, None, expected, method, why)
    low = max(LEAST_CLUSTERS, high // 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) <= target else (middle + 1, high)
    items = math.ceil(high * m)
    return LabelPlan(
        high, items, k, items * k, reached(high), expected, f"{method}; at least {LEAST_CLUSTERS} clusters"
    )


def _reach(error: float, clusters: int, interval: bool, level: float, power: float) -> float:
    if interval:
        return error * float(stdtrit(clusters - 1, (1 + level) / 2))
    return minimum_detectable_effect(error, clusters - 1, 1 - level, power)


def _target(half_width: float | None, difference: float | None) -> float:
    given = [(name, x) for name, x in (("half_width", half_width), ("difference", difference)) if x is not None]
    if len(given) != 1:
        raise ValueError("half_width and difference: give exactly one of the two")
    if not 0 < given[0][1] < math.inf:
        raise ValueError(f"{given[0][0]}: {given[0][1]} is not above 0")
    return given[0][1]


def _check_design(m: float, icc: float, reliability: float, k: int, level: float, power: float) -> None:
    if not 1 <= m < math.inf:
        raise ValueError(f"items_per_cluster: {m}; 1 or more")
    if not 0 <= icc <= 1:
        raise ValueError(f"cluster_icc: {icc} is not within 0 to 1")
    spearman_brown(reliability, k)
    check_fraction(level, "level")
    check_fraction(power, "power")


def _design(m: float, icc: float, reliability: float, level: float) -> str:
    return f"{m:g} items a cluster, ICC {icc:g}, one label's reliability {reliability:g}, t(G − 1), {100 * level:g} %"
