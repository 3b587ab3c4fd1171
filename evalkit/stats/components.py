"""What the components of a weighted sum contribute: to its variance, to any statistic of it, and by being there.

1. The total is R = Σ w_k c_k, over items in which every component has a value.
2. Shares of a variance add up to 1 and may be negative: such a component takes away what others bring.
3. A trainer that normalises within a prompt sees only the variance within prompts. A component may own all of that and
   nothing of the variance between them, or the reverse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from evalkit.stats.arrays import FloatArray, check_fraction, finite_vector
from evalkit.stats.bootstrap import own_clusters
from evalkit.stats.ceiling import scores_with_missing
from evalkit.stats.clusters import Clusters, clusters_of, clusters_of_groups
from evalkit.stats.correlation import linear_interval
from evalkit.stats.estimate import Estimate, undefined
from evalkit.stats.means import ROUNDING, cluster_mean

MOST_SHAPLEY = 6


@dataclass(frozen=True, slots=True)
class Ownership:
    """Who owns the variance within prompts, every prompt alike."""

    shares: dict[str, Estimate]
    """By component, summing to 1. `n` counts prompts whose total varies."""
    flat: Estimate
    """Share of prompts with several items whose total is the same for all of them, in [0, 1]."""
    cancelled: Estimate
    """Share of them whose total is the same though a component differs: there components cancel to the last."""


@dataclass(frozen=True, slots=True)
class MissingShift:
    """What a missing component does to a total that is summed without it."""

    missing: Estimate
    """Share of items without this component, in [0, 1]."""
    shift: Estimate
    """−w · mean component in standard deviations of the total, both over complete items; undefined where that deviation
    is 0 or fewer than two items are complete."""
    mixed_groups: float | None
    """Share of groups in which some items have it and some do not: there the shift is mistaken for a difference in
    quality. `None` without groups."""


def weighted_total(components: Mapping[str, ArrayLike], weights: Mapping[str, float]) -> FloatArray:
    """Σ w_k c_k over the components that have a weight: shape (n,).

    Raises:
        ValueError: as `variance_shares`.
    """
    return np.asarray(_weighted(components, weights).sum(axis=1))


def variance_shares(
    components: Mapping[str, ArrayLike],
    weights: Mapping[str, float],
    *,
    groups: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
) -> dict[str, Estimate]:
    """Share of each component in the variance of the total: w_k Cov(c_k, R) / Var R, exact, summing to 1.

    The interval is that of a ratio of moments: CR1 of influence functions over clusters with t(G − 1).

    Args:
        components: by name, shape (n,) each, no NaN.
        weights: by name, one for each component.
        groups: shape (n,), the prompt of each item, for shares of the variance within prompts; None for the whole.
        clusters: shape (n,), a label per item, in which prompts stay whole; None for the groups, or for items where
            there are none.
        level: coverage, between 0 and 1.

    Returns:
        undefined where the total does not vary.

    Raises:
        ValueError: no components, arrays of different lengths, a weight without component or the reverse, NaN or
            infinite values, a group in two clusters, or level outside (0, 1).
    """
    parts = _weighted(components, weights)
    n = parts.shape[0]
    check_fraction(level, "level")
    method = "share of the variance of the total"
    scale = float(np.abs(parts).max(initial=0.0))
    if groups is not None:
        method += " within groups"
        of_groups = clusters_of(groups, n)
        parts = _within(parts, of_groups)
        units = of_groups if clusters is None else clusters_of(clusters, n)
        clusters_of_groups(of_groups, units)
    else:
        units = own_clusters(clusters, n)
    if n == 0 or parts.sum(axis=1).std() <= ROUNDING * scale:
        where = " within groups" if groups is not None else ""
        nothing = undefined(n, units.count, method, f"the total of {n} items does not vary{where}")
        return dict.fromkeys(components, nothing)
    centred = parts - parts.mean(axis=0)
    total = centred.sum(axis=1)
    variance = float(total @ total) / n
    results = {}
    for part, name in zip(centred.T, components, strict=True):
        share = float(part @ total) / n / variance
        moves = (part - share * total) * total / variance
        results[name] = linear_interval(share, moves, units, method, level, bounds=(-math.inf, math.inf))
    return results


def group_ownership(
    components: Mapping[str, ArrayLike],
    weights: Mapping[str, float],
    groups: ArrayLike,
    clusters: ArrayLike,
    *,
    level: float = 0.95,
) -> Ownership:
    """Mean over prompts of each component's share in the prompt's own variance of the total.

    A trainer that divides by the standard deviation of a prompt's rewards (GRPO) gives every prompt whose total varies
    the same weight, and so does this mean; `variance_shares` with groups weighs prompts by their variance, as one does
    that only subtracts the mean.

    Args:
        components: by name, shape (n,) each, no NaN.
        weights: by name, one for each component.
        groups: shape (n,), the prompt of each item.
        clusters: shape (n,), a label per item, in which prompts stay whole.
        level: coverage, between 0 and 1.

    Returns:
        undefined where the total varies in no prompt. Shares of one prompt sum to 1 and are unbounded where components
        cancel, which the interval then shows.

    Raises:
        ValueError: as `variance_shares`.
    """
    parts = _weighted(components, weights)
    of_groups = clusters_of(groups, parts.shape[0])
    units = clusters_of_groups(of_groups, clusters_of(clusters, parts.shape[0]))
    several = of_groups.sums(np.ones(parts.shape[0])) > 1
    inside = _within(parts, of_groups)
    total = inside.sum(axis=1)
    largest, differs, size = np.zeros((3, of_groups.count))
    np.maximum.at(largest, of_groups.codes, np.abs(total))
    np.maximum.at(differs, of_groups.codes, np.abs(inside).max(axis=1, initial=0.0))
    np.maximum.at(size, of_groups.codes, np.abs(parts).max(axis=1, initial=0.0))
    moves = several & (largest > ROUNDING * size)
    cancels = ~moves & (differs > ROUNDING * size)
    inside = inside / np.where(largest > 0, largest, 1.0)[of_groups.codes, None]  # lest a square overflow or vanish
    total = inside.sum(axis=1)
    method = "mean over groups of the share of the total's variance"
    shares = {}
    for part, name in zip(inside.T, components, strict=True):
        if not moves.any():
            shares[name] = undefined(0, 0, method, f"the total varies within none of {of_groups.count} groups")
            continue
        of_group = of_groups.sums(part * total)[moves] / of_groups.sums(total * total)[moves]
        estimate = cluster_mean(of_group, units[moves], level=level)
        shares[name] = replace(estimate, method=f"{method}; {estimate.method}")
    flat, cancelled = (
        cluster_mean(which[several].astype(float), units[several], level=level, bounds=(0.0, 1.0))
        for which in (~moves, cancels)
    )
    return Ownership(
        shares,
        replace(flat, method=f"share of groups, {flat.method}"),
        replace(cancelled, method=f"share of groups, {cancelled.method}"),
    )


def shapley(names: Sequence[str], value: Callable[[frozenset[str]], float]) -> dict[str, float | None]:
    """Shapley value of each name in any function of sets of names, exact over all sets.

    φ_k = Σ_S |S|! (m − |S| − 1)! / m! · (v(S ∪ k) − v(S)); their sum is v(all) − v(none). Source: Shapley 1953; for R²
    these are the LMG shares.

    Args:
        names: 1 to 6, distinct.
        value: of a set of them, for example how the sum of these components agrees with people; NaN where undefined. It
            is asked for each set once.

    Returns:
        `None` for all where the value of any set is undefined.

    Raises:
        ValueError: no names, more than 6, or one twice.
    """
    m = len(names)
    if not 1 <= m <= MOST_SHAPLEY or len(set(names)) != m:
        raise ValueError(f"names: {m}; expected 1 to {MOST_SHAPLEY} distinct ones for {2**m} sets")
    sets = [frozenset(chosen) for size in range(m + 1) for chosen in combinations(names, size)]
    worth = {of: float(value(of)) for of in sets}
    if not all(math.isfinite(v) for v in worth.values()):
        return dict.fromkeys(names, None)

    def weight(size: int) -> float:
        return math.factorial(size) * math.factorial(m - size - 1) / math.factorial(m)

    return {
        name: sum(weight(len(of)) * (worth[of | {name}] - worth[of]) for of in sets if name not in of) for name in names
    }


def missing_shifts(
    components: Mapping[str, ArrayLike],
    weights: Mapping[str, float],
    clusters: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    level: float = 0.95,
) -> dict[str, MissingShift]:
    """How often each component is missing, and how far the total moves where it is left out of the sum.

    Args:
        components: by name, shape (n,) each, NaN where missing.
        weights: by name, one for each component.
        clusters: shape (n,), a label per item.
        groups: shape (n,), the prompt of each item; None where there are none.
        level: coverage, between 0 and 1.

    Raises:
        ValueError: as `variance_shares`, NaN allowed.
    """
    parts = _weighted(components, weights, missing=True)
    n = parts.shape[0]
    units = clusters_of(clusters, n)
    absent = np.isnan(parts)
    whole = ~absent.any(axis=1)
    shares = {}
    for k, name in enumerate(components):
        mixed = None
        if groups is not None and n:
            of_groups = clusters_of(groups, n)
            share = of_groups.sums(absent[:, k].astype(float)) / of_groups.sums(np.ones(n))
            mixed = float(np.mean((share > 0) & (share < 1)))
        shares[name] = MissingShift(
            cluster_mean(absent[:, k].astype(float), units.codes, level=level, bounds=(0.0, 1.0)),
            _shift(parts[whole], k, clusters_of(units.codes[whole], int(np.count_nonzero(whole))), level),
            mixed,
        )
    return shares


def _weighted(
    components: Mapping[str, ArrayLike], weights: Mapping[str, float], *, missing: bool = False
) -> FloatArray:
    """w_k c_k: shape (n, components)."""
    if not components:
        raise ValueError("components: none given")
    if set(components) != set(weights):
        raise ValueError(f"weights: for {', '.join(sorted(weights))}; expected {', '.join(sorted(components))}")
    check = scores_with_missing if missing else finite_vector
    columns = {name: check(values, name) for name, values in components.items()}
    if len({column.size for column in columns.values()}) > 1:
        sizes = ", ".join(f"{column.size} {name}" for name, column in columns.items())
        raise ValueError(f"components: {sizes}; expected as many values of each")
    factors = finite_vector([weights[name] for name in components], "weights")
    return np.column_stack(list(columns.values())) * factors


def _within(parts: FloatArray, groups: Clusters) -> FloatArray:
    sizes = groups.sums(np.ones(parts.shape[0]))
    means = np.stack([groups.sums(parts[:, k]) / sizes for k in range(parts.shape[1])], axis=1)
    return np.asarray(parts - means[groups.codes])


def _shift(parts: FloatArray, k: int, units: Clusters, level: float) -> Estimate:
    n, method = parts.shape[0], "−mean of the weighted component in standard deviations of the total"
    if n < 2:
        return undefined(n, units.count, method, f"{n} item{'s' if n != 1 else ''} with every component")
    part, total = parts[:, k], parts.sum(axis=1) - parts.sum(axis=1).mean()
    spread = float(total.std(ddof=1))
    if spread <= ROUNDING * float(np.abs(parts).max()):
        return undefined(n, units.count, method, f"the total of {n} items does not vary")
    mean = float(part.mean())
    moves = -(part - mean) / spread + mean / 2 * (total**2 - np.mean(total**2)) / spread**3
    return linear_interval(-mean / spread, moves, units, method, level, bounds=(-math.inf, math.inf))
