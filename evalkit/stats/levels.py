"""The same correlation at different levels, which answer different questions and may differ in sign.

1. Pooled asks whether rewards can be compared between prompts, the mean per group whether the responses to one prompt
   are ranked rightly, within the same after group means are removed, and system whether systems' means are ordered.
2. A group without a correlation is counted by its cause. It is never 0 and never dropped in silence.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, stdtr, stdtrit

from evalkit.stats.arrays import FloatArray, check_fraction, finite_vector
from evalkit.stats.clusters import Clusters, clusters_of, nested
from evalkit.stats.comparing import Test, adjust
from evalkit.stats.concordance import mid_ranks
from evalkit.stats.correlation import (
    NAMES,
    Kind,
    correlation,
    from_moments,
    influence,
    interval_of,
    tau_b_of_pairs,
    two,
)
from evalkit.stats.estimate import Estimate, undefined
from evalkit.stats.means import cluster_mean
from evalkit.stats.pairwise import pairs_within

Weights = Literal["equal", "size"]
# 8! orders are enumerated; more systems are permuted at random.
MOST_EXACT = 8
MOST_SIGNS = 4_000_000
"""Pairs of systems times orders that are held in memory at once."""


@dataclass(frozen=True, slots=True)
class GroupedCorrelation:
    """A mean of correlations, one per group."""

    estimate: Estimate
    """`n` counts groups with a correlation."""
    groups: int
    undefined: dict[str, int]
    """Groups without a correlation, by cause."""


@dataclass(frozen=True, slots=True)
class SystemCorrelation:
    """A correlation of system means."""

    estimate: Estimate
    """`n` and `n_clusters` count systems: the interval is that of systems drawn anew."""
    permutation: Test
    """Could systems be in this order by chance?"""
    systems: list[Hashable]
    x: FloatArray
    """Mean of x by system."""
    y: FloatArray


@dataclass(frozen=True, slots=True)
class Shares:
    """How much of a moment lies between groups: Σ_g n_g (x̄_g − x̄)(ȳ_g − ȳ) over the whole sum; the rest lies within."""

    covariance: float | None
    """May lie outside 0 to 1: with a negative share the two parts have opposite signs. None where the sum is 0."""
    variance_x: float | None
    variance_y: float | None
    groups: int


@dataclass(frozen=True, slots=True)
class Stratum:
    """One stratum beside all others."""

    label: Hashable
    estimate: Estimate
    p: float | None
    """Two-sided, of this stratum's correlation against that of all others, on Fisher's z; None where either has no
    interval."""
    p_adjusted: float | None
    """`p`, adjusted over all strata."""


@dataclass(frozen=True, slots=True)
class Stratified:
    """A correlation by stratum, with its heterogeneity."""

    strata: list[Stratum]
    q: float | None
    """Cochran's Q of Fisher's z; None with fewer than two strata that have an interval."""
    q_p: float | None
    i_squared: float | None
    """(Q − df) / Q, 0 to 1: the share of variation between strata that is more than sampling error."""


@dataclass(frozen=True, slots=True)
class TopShare:
    """Agreement among the largest rewards beside that among all."""

    overall: Estimate
    top: Estimate
    threshold: float
    """Rewards from here on are in the top."""
    spread: float | None
    """Standard deviation of the reward in the top over that of all: below 1 the range is restricted, and a smaller
    correlation is expected even of an equally good reward."""


def grouped_correlation(
    x: ArrayLike,
    y: ArrayLike,
    groups: ArrayLike,
    clusters: ArrayLike,
    *,
    kind: Kind,
    weights: Weights = "equal",
    without: Literal["exclude", "zero"] = "exclude",
    level: float = 0.95,
) -> GroupedCorrelation:
    """Mean over groups of the correlation within each.

    Where every group lies in one cluster, the groups' values are the observations, with CR1 and t over clusters. Where
    clusters cross groups (prompts, of groups that are systems), influence functions are summed over clusters.

    Args:
        x, y: shape (n,), no NaN.
        groups: shape (n,), a label per observation: the prompt, as a rule.
        clusters: shape (n,), a label per observation.
        kind: the statistic.
        weights: every group alike, or by its number of observations.
        without: groups without a correlation are left out, or, where x or y is constant, counted as 0: a reward that
            does not tell a prompt's responses apart agrees with nobody about them. Groups of one are always left out.
        level: coverage, between 0 and 1.

    Raises:
        ValueError: as `correlation`, or unknown weights.
    """
    first, second = two(x, y)
    if weights not in ("equal", "size"):
        raise ValueError(f"weights: {weights!r} is neither equal nor size")
    cells, units = clusters_of(groups, first.size), clusters_of(clusters, first.size)
    method = f"mean over groups of {NAMES[kind]}, {'equal weights' if weights == 'equal' else 'weights by group size'}"
    values, causes = by_group(first, second, cells, kind)
    sizes = np.bincount(cells.codes, minlength=cells.count).astype(np.float64)
    if without == "zero":
        method = f"{method}, constant groups as 0"
        values = np.where(np.isnan(values) & (sizes > 1), 0.0, values)
    defined = ~np.isnan(values)
    if not defined.any():
        return GroupedCorrelation(undefined(0, 0, method, "no group has a correlation"), cells.count, causes)
    share = np.where(defined, 1.0 if weights == "equal" else sizes, 0.0)
    share /= share.sum()
    lowest, highest = (_extreme(units.codes, cells, of) for of in (np.minimum, np.maximum))
    if (lowest == highest)[defined].all():
        estimate = _weighted_mean(values[defined], share[defined], lowest[defined].astype(np.intp), method, level)
        return GroupedCorrelation(estimate, cells.count, causes)
    used = defined[cells.codes]
    moves = np.zeros(first.size)
    for code, rows in enumerate(_members(cells)):
        if defined[code]:
            moved = influence(first[rows], second[rows], kind=kind)[1]
            moves[rows] = np.nan_to_num(moved) * share[code] / rows.size
    moves = moves[used] * np.count_nonzero(used)
    mean, crossing = float(share @ np.nan_to_num(values)), clusters_of(units.codes[used], moves.size)
    estimate = replace(interval_of(mean, moves, crossing, method, level), n=int(np.count_nonzero(defined)))
    return GroupedCorrelation(estimate, cells.count, causes)


def within_correlation(
    x: ArrayLike, y: ArrayLike, groups: ArrayLike, clusters: ArrayLike, *, kind: Kind, level: float = 0.95
) -> Estimate:
    """One correlation of what differs within groups; a group counts by its spread, and constant groups do no harm.

    Pearson: of deviations from group means, the repeated-measures correlation of Bakdash & Marusich 2017. Spearman: the
    same of ranks taken within groups. Kendall tau-b: of all pairs within groups, pooled.

    Args:
        x, y: shape (n,), no NaN.
        groups: shape (n,), a label per observation. Every group must lie in one cluster.
        clusters: shape (n,), a label per observation.
        kind: pearson, spearman or kendall_b.
        level: coverage, between 0 and 1.

    Returns:
        −1 to 1; undefined where x or y is constant within every group.

    Raises:
        ValueError: as `correlation`; another kind; a group in two clusters.
    """
    first, second = two(x, y)
    cells, units = clusters_of(groups, first.size), clusters_of(clusters, first.size)
    if kind not in ("pearson", "spearman", "kendall_b"):
        raise ValueError(f"kind: {kind!r} is none of pearson, spearman, kendall_b")
    method = f"{NAMES[kind]} within {cells.count} groups"
    if not nested(cells, units):
        raise ValueError("groups: a group lies in two clusters")
    if kind == "kendall_b":
        pairs = pairs_within(first, second, cells.codes)
        value, moves, why = tau_b_of_pairs(pairs.reward, pairs.human)
        if value is None:
            return undefined(first.size, units.count, method, why)
        pooled = clusters_of(units.codes[pairs.first], pairs.first.size)
        return replace(interval_of(value, moves, pooled, method, level), n=first.size)
    if kind == "spearman":
        first, second = _ranks_within(first, cells), _ranks_within(second, cells)
    u, v = (_deviations(values, cells) for values in (first, second))
    constant = [name for name, rest in (("x", u), ("y", v)) if not rest.any()]
    if constant:
        return undefined(first.size, units.count, method, f"{' and '.join(constant)} constant within every group")
    value, moves = from_moments(u, v)
    return interval_of(value, moves, units, method, level)


def rank_deviations(values: ArrayLike, groups: ArrayLike) -> FloatArray:
    """Mid-ranks within each group over its size, less the group's mean; 0 where the group is constant.

    Pearson's r of two of these is the Spearman correlation of `within_correlation`.

    Raises:
        ValueError: NaN or infinite values, or a missing label.
    """
    vector = finite_vector(values, "values")
    cells = clusters_of(groups, vector.size)
    return _deviations(_ranks_within(vector, cells), cells)


def system_correlation(
    x: ArrayLike,
    y: ArrayLike,
    systems: ArrayLike,
    *,
    kind: Kind,
    rng: np.random.Generator,
    draws: int = 10_000,
    level: float = 0.95,
) -> SystemCorrelation:
    """Correlation of the systems' mean x with their mean y, and a permutation test over systems.

    Systems are few, so trust the test before the interval; and a few systems of similar quality may well be ordered
    otherwise than all are.

    Args:
        x, y: shape (n,), no NaN.
        systems: n labels: the policy or checkpoint.
        kind: the statistic.
        rng: draws permutations where systems are more than 8.
        draws: random permutations, ≥ 1.
        level: coverage, between 0 and 1.

    Raises:
        ValueError: as `correlation`, or draws < 1.
    """
    first, second = two(x, y)
    if draws < 1:
        raise ValueError(f"draws: {draws} permutations; at least 1")
    cells = clusters_of(systems, first.size)
    labels = _labels(cells, systems)
    sizes = np.bincount(cells.codes, minlength=cells.count)
    means_x, means_y = cells.sums(first) / sizes, cells.sums(second) / sizes
    estimate = correlation(means_x, means_y, np.arange(cells.count), kind=kind, level=level)
    estimate = replace(estimate, method=f"of {cells.count} system means: {estimate.method}")
    test = _permutation(means_x, means_y, kind, rng, draws, estimate)
    return SystemCorrelation(estimate, test, labels, means_x, means_y)


def covariance_shares(x: ArrayLike, y: ArrayLike, groups: ArrayLike) -> Shares:
    """Share of covariance and variances that lies between groups.

    Raises:
        ValueError: lengths differ, NaN or infinite values, or a missing label.
    """
    first, second = two(x, y)
    cells = clusters_of(groups, first.size)
    u, v = _centred(first), _centred(second)
    inside_u, inside_v = _deviations(first, cells), _deviations(second, cells)

    def between(whole: float, within: float, scale: float) -> float | None:
        return None if abs(whole) <= 1e-12 * scale else 1 - within / whole

    size_u, size_v = float(u @ u), float(v @ v)
    return Shares(
        between(float(u @ v), float(inside_u @ inside_v), math.sqrt(size_u * size_v)),
        between(size_u, float(inside_u @ inside_u), size_u) if size_u > 0 else None,
        between(size_v, float(inside_v @ inside_v), size_v) if size_v > 0 else None,
        cells.count,
    )


def sign_reversed(pooled: Estimate, within: Estimate) -> bool | None:
    """Do the two levels have opposite signs, beyond their intervals? Simpson's paradox. None without both intervals."""
    first, second = _ends(pooled), _ends(within)
    if first is None or second is None:
        return None
    return (first[0] > 0 and second[1] < 0) or (first[1] < 0 and second[0] > 0)


def restricted(r: float, spread: float) -> float:
    """The correlation to expect where x keeps only `spread` of its standard deviation, if y is linear in x with equal
    noise everywhere: r·u / √(1 − r² + r²u²). Source: Thorndike 1949, case 2.

    Args:
        r: −1 to 1, over all observations.
        spread: u, standard deviation in the part over that of the whole, ≥ 0.
    """
    below = 1 - r**2 + (r * spread) ** 2
    return r * spread / math.sqrt(below) if below > 0 else r


def stratified_correlation(
    x: ArrayLike,
    y: ArrayLike,
    strata: ArrayLike,
    clusters: ArrayLike,
    *,
    kind: Kind,
    adjustment: Literal["bh", "by"] = "bh",
    level: float = 0.95,
) -> Stratified:
    """The pooled correlation of each stratum, and whether strata differ more than by chance.

    Each is compared with all others together on Fisher's z. Q takes strata as independent; where clusters cross strata
    it is too sure when they agree, and the comparisons lean the same way.

    Args:
        x, y: shape (n,), no NaN.
        strata: n labels.
        clusters: shape (n,), a label per observation.
        kind: the statistic.
        adjustment: over the strata's p-values.
        level: coverage, between 0 and 1.

    Raises:
        ValueError: as `correlation`.

    Sources: Cochran 1954 (Q); Higgins & Thompson 2002 (I²).
    """
    first, second = two(x, y)
    check_fraction(level, "level")
    cells, units = clusters_of(strata, first.size), clusters_of(clusters, first.size)
    labels = _labels(cells, strata)
    members = _members(cells)
    found: list[tuple[Hashable, Estimate, float | None]] = []
    for code, rows in enumerate(members):
        rest = np.setdiff1d(np.arange(first.size), rows, assume_unique=True)
        here = correlation(first[rows], second[rows], units.codes[rows], kind=kind, level=level)
        others = correlation(first[rest], second[rest], units.codes[rest], kind=kind, level=level)
        found.append((labels[code], here, _difference_p(here, others, level)))
    tested = [p for _, _, p in found if p is not None]
    adjusted = iter(adjust(tested, method=adjustment).tolist())
    rows_out = [Stratum(label, e, p, None if p is None else next(adjusted)) for label, e, p in found]
    return Stratified(rows_out, *_heterogeneity([e for _, e, _ in found], level))


def top_share_correlation(
    x: ArrayLike, y: ArrayLike, clusters: ArrayLike, *, kind: Kind, share: float = 0.1, level: float = 0.95
) -> TopShare:
    """The correlation among the largest `share` of x, where optimisation will press, beside the overall one.

    Observations tied at the threshold are all in.

    Raises:
        ValueError: as `correlation`, or share outside (0, 1).
    """
    first, second = two(x, y)
    check_fraction(share, "share")
    units = clusters_of(clusters, first.size)
    overall = correlation(first, second, units.codes, kind=kind, level=level)
    if first.size == 0:
        return TopShare(overall, overall, math.nan, None)
    threshold = float(np.sort(first)[first.size - max(1, round(share * first.size))])
    top = first >= threshold
    estimate = correlation(first[top], second[top], units.codes[top], kind=kind, level=level)
    spread = float(first[top].std() / first.std()) if first.std() > 0 else None
    return TopShare(overall, estimate, threshold, spread)


def _ends(estimate: Estimate) -> tuple[float, float] | None:
    """The interval; ±1 is its own."""
    if estimate.value is not None and abs(estimate.value) == 1:
        return estimate.value, estimate.value
    return None if estimate.low is None or estimate.high is None else (estimate.low, estimate.high)


def _labels(cells: Clusters, labels: ArrayLike) -> list[Hashable]:
    """The label of each code."""
    of_code = dict(zip(cells.codes.tolist(), np.asarray(labels, dtype=object).tolist(), strict=True))
    return [of_code[code] for code in range(cells.count)]


def _members(cells: Clusters) -> list[NDArray[np.intp]]:
    order = np.argsort(cells.codes, kind="stable")
    if cells.count == 0:
        return []
    return np.split(order, np.cumsum(np.bincount(cells.codes, minlength=cells.count))[:-1])


def by_group(x: FloatArray, y: FloatArray, cells: Clusters, kind: Kind) -> tuple[FloatArray, dict[str, int]]:
    """The correlation within each group, NaN where it has none, and how many have none by cause."""
    single = np.bincount(cells.codes, minlength=cells.count) < 2
    flat_x, flat_y = (_extreme(v, cells, np.maximum) == _extreme(v, cells, np.minimum) for v in (x, y))
    why = np.select(
        [single, flat_x & flat_y, flat_x, flat_y],
        ["fewer than two observations", "x and y are constant", "x is constant", "y is constant"],
        "",
    ).astype(object)
    values = np.full(cells.count, math.nan)
    known = why == ""
    if kind in ("pearson", "spearman"):
        u, v = (_ranks_within(x, cells), _ranks_within(y, cells)) if kind == "spearman" else (x, y)
        u, v = _deviations(u, cells), _deviations(v, cells)
        # Scaled per group, lest a square vanish or overflow.
        u, v = (d / np.maximum(_extreme(np.abs(d), cells, np.maximum), 1e-300)[cells.codes] for d in (u, v))
        below = np.sqrt(cells.sums(u * u) * cells.sums(v * v))
        np.divide(cells.sums(u * v), below, out=values, where=known)
    elif kind == "kendall_b":
        pairs = pairs_within(x, y, cells.codes)
        of_pairs = Clusters(pairs.groups, cells.count)
        dx, dy = np.sign(pairs.reward), np.sign(pairs.human)
        below = np.sqrt(of_pairs.sums(dx * dx) * of_pairs.sums(dy * dy))
        np.divide(of_pairs.sums(dx * dy), below, out=values, where=known)
    else:
        for code, rows in enumerate(_members(cells)):
            value, _, cause = influence(x[rows], y[rows], kind=kind) if known[code] else (None, None, why[code])
            values[code], why[code] = (math.nan if value is None else value), cause
    return values, dict(Counter(str(cause) for cause in why if cause))


def _weighted_mean(
    values: FloatArray, share: FloatArray, clusters: NDArray[np.intp], method: str, level: float
) -> Estimate:
    """Σ w v with the error of a ratio: equal weights give `cluster_mean` itself."""
    if np.all(share == share[0]):
        estimate = cluster_mean(values, clusters, level=level, bounds=(-1.0, 1.0))
        return replace(estimate, method=f"{method}; {estimate.method}")
    mean = float(share @ values)
    moves = (values - mean) * share * values.size
    units = clusters_of(clusters, values.size)
    if units.count < 2 or not moves.any():
        why = "one cluster; an interval needs two or more" if units.count < 2 else "all groups have one value"
        return Estimate(mean, None, None, values.size, units.count, method, why)
    error = cluster_mean(moves, units.codes, level=level)
    half = error.half_width
    if half is None:
        return Estimate(mean, None, None, values.size, units.count, method, error.why)
    low, high = max(mean - half, -1.0), min(mean + half, 1.0)
    return Estimate(mean, low, high, values.size, units.count, f"{method}; {error.method}")


def _centred(values: FloatArray) -> FloatArray:
    return values - values.mean() if values.size else values


def _deviations(values: FloatArray, cells: Clusters) -> FloatArray:
    """From the group mean, exactly 0 where the group is constant."""
    means = cells.sums(values) / np.maximum(np.bincount(cells.codes, minlength=cells.count), 1)
    constant = _extreme(values, cells, np.maximum) == _extreme(values, cells, np.minimum)
    return np.where(constant[cells.codes], 0.0, values - means[cells.codes])


def _extreme(values: NDArray[np.generic], cells: Clusters, of: np.ufunc) -> FloatArray:
    found = np.full(cells.count, -math.inf if of is np.maximum else math.inf)
    of.at(found, cells.codes, values)
    return found


def _ranks_within(values: FloatArray, cells: Clusters) -> FloatArray:
    """Mid-ranks within each group, divided by its size, so that a large group does not outweigh by longer ranks."""
    order = np.lexsort((values, cells.codes))
    at, group = values[order], cells.codes[order]
    sizes = np.bincount(cells.codes, minlength=cells.count)
    begins = np.flatnonzero(np.append(True, (at[1:] != at[:-1]) | (group[1:] != group[:-1])))
    lengths = np.diff(np.append(begins, at.size))
    middle = np.repeat(begins + (lengths + 1) / 2, lengths)
    ranks = np.empty_like(values)
    ranks[order] = (middle - (np.cumsum(sizes) - sizes)[group]) / sizes[group]
    return ranks


def _permutation(
    x: FloatArray, y: FloatArray, kind: Kind, rng: np.random.Generator, draws: int, observed: Estimate
) -> Test:
    n = x.size
    if observed.value is None:
        return Test(None, None, n, n, "permutation of systems", observed.why)
    exact = n <= MOST_EXACT
    orders = np.array(list(permutations(range(n))) if exact else [rng.permutation(n) for _ in range(draws)])
    found = _sizes(x, y, kind, orders)
    threshold = _sizes(x, y, kind, np.arange(n)[None])[0] - 1e-12 * found.max()
    as_large = int(np.count_nonzero(found >= threshold))
    if exact:
        return Test(as_large / len(orders), observed.value, n, n, f"permutation of {n} systems, exact")
    method = f"permutation of {n} systems, {draws} draws, (b + 1)/(B + 1)"
    return Test((as_large + 1) / (len(orders) + 1), observed.value, n, n, method)


def _sizes(x: FloatArray, y: FloatArray, kind: Kind, orders: NDArray[np.intp]) -> FloatArray:
    """The size of the correlation of x in each order with y, but for factors that no order changes: shape (orders,)."""
    if kind in ("pearson", "spearman"):
        u, v = (mid_ranks(values) if kind == "spearman" else values for values in (x, y))
        return np.asarray(np.abs((u - u.mean())[orders] @ (v - v.mean())))
    of_x, of_y = (np.sign(np.subtract.outer(values, values)) for values in (x, y))
    sizes = []
    for part in np.array_split(orders, len(orders) * x.size**2 // MOST_SIGNS + 1):
        signs = of_x[part[:, :, None], part[:, None, :]]
        above = np.abs(np.einsum("kij,ij->k", signs, of_y))
        untied = np.einsum("kij,ij->k", np.abs(signs), np.abs(of_y)) if kind == "gamma" else np.ones(len(part))
        sizes.append(np.divide(above, untied, out=np.zeros(len(part)), where=untied > 0))
    return np.concatenate(sizes)


def _z(estimate: Estimate, level: float) -> tuple[float, float] | None:
    """Fisher's z and its standard error, from the interval."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return None
    reach = (math.atanh(estimate.high) - math.atanh(estimate.low)) / 2
    return math.atanh(estimate.value), reach / float(stdtrit(estimate.n_clusters - 1, (1 + level) / 2))


def _difference_p(a: Estimate, b: Estimate, level: float) -> float | None:
    first, second = _z(a, level), _z(b, level)
    if first is None or second is None:
        return None
    t = (first[0] - second[0]) / math.hypot(first[1], second[1])
    return float(2 * stdtr(min(a.n_clusters, b.n_clusters) - 1, -abs(t)))


def _heterogeneity(estimates: list[Estimate], level: float) -> tuple[float | None, float | None, float | None]:
    known = [z for z in (_z(e, level) for e in estimates) if z is not None]
    if len(known) < 2:
        return None, None, None
    values, weights = np.array([z for z, _ in known]), np.array([1 / se**2 for _, se in known])
    q = float(weights @ (values - weights @ values / weights.sum()) ** 2)
    df = len(known) - 1
    return q, float(chdtrc(df, q)), max(0.0, (q - df) / q) if q > 0 else 0.0
