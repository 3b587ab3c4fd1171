"""Where components work against people, against each other, or not at all, prompt by prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from evalkit.stats.arrays import FloatArray, check_fraction, finite_vector, within_one
from evalkit.stats.clusters import Clusters, clusters_of, clusters_of_groups
from evalkit.stats.estimate import Estimate
from evalkit.stats.means import ROUNDING, cluster_mean


@dataclass(frozen=True, slots=True)
class SignConsistency:
    """In how many prompts a component points against people."""

    negative: Estimate
    """Share of prompts with a correlation below 0, of those in which it is defined. `n` counts prompts."""
    positive: Estimate
    """Share above 0. What is missing to 1 are correlations of exactly 0."""
    constant_component: int
    """Prompts left out because the component is the same for all their answers, single answers included."""
    constant_human: int
    """Prompts left out because people are, and the component is not."""


@dataclass(frozen=True, slots=True)
class Conflicts:
    """How often two components disagree on which of two answers to the same prompt is better."""

    names: tuple[str, ...]
    opposed: FloatArray
    """Shape (k, k), symmetric: share of pairs that one component raises and the other lowers, in [0, 1]; NaN without
    pairs. The diagonal is 0."""
    together: FloatArray
    """Shape (k, k): share of pairs that both raise or both lower. Its diagonal is the share that a component tells
    apart at all; what is missing to 1 are ties of either."""
    pairs: int
    """Pairs of answers to one prompt, each once."""


@dataclass(frozen=True, slots=True)
class Saturation:
    """How much of its range a component uses."""

    at_highest: float | None
    """Share of values at the upper end: of the declared range, or else the largest value seen. `None` without values,
    as below."""
    at_lowest: float | None
    effective_levels: float | None
    """exp of the entropy of the values, in [1, n]: 1 for a constant, 2 for a fair coin."""
    constant_groups: float | None
    """Share of prompts with several answers in which all get the same value; `None` without such prompts."""
    n: int


def sign_consistency(
    component: ArrayLike,
    human: ArrayLike,
    groups: ArrayLike,
    clusters: ArrayLike | None = None,
    *,
    level: float = 0.95,
) -> SignConsistency:
    """Share of prompts in which a component falls where people's ratings rise.

    Args:
        component: shape (n,), no NaN.
        human: shape (n,), of the same answers.
        groups: shape (n,), the prompt of each answer.
        clusters: shape (n,), a label per answer, in which prompts stay whole; None for the prompts.
        level: coverage, between 0 and 1.

    Raises:
        ValueError: lengths differ, NaN or infinite values, a missing label, or a prompt in two clusters.
    """
    c, h = finite_vector(component, "component"), finite_vector(human, "human")
    if c.size != h.size:
        raise ValueError(f"component and human: {c.size} and {h.size} values; pair them first")
    check_fraction(level, "level")
    of = clusters_of(groups, c.size)
    unit_of_group = clusters_of_groups(of, of if clusters is None else clusters_of(clusters, c.size))
    c, h = (_over_largest(_centred(within_one(values), of), of) for values in (c, h))
    c_moves, h_moves = _moves(c, of), _moves(h, of)
    defined = c_moves & h_moves
    norms = np.sqrt(of.sums(c * c) * of.sums(h * h))
    correlation = np.divide(of.sums(c * h), norms, out=np.zeros(of.count), where=defined)
    sign = np.where(np.abs(correlation) > ROUNDING, np.sign(correlation), 0.0)[defined]

    def share(hits: np.ndarray) -> Estimate:
        estimate = cluster_mean(hits.astype(float), unit_of_group[defined], level=level, bounds=(0.0, 1.0))
        return replace(estimate, method=f"share of prompts, {estimate.method}")

    return SignConsistency(
        share(sign < 0), share(sign > 0), int(np.count_nonzero(~c_moves)), int(np.count_nonzero(c_moves & ~h_moves))
    )


def conflict_matrix(components: Mapping[str, ArrayLike], groups: ArrayLike) -> Conflicts:
    """How often components oppose each other on pairs of answers to one prompt.

    Args:
        components: by name, shape (n,) each, no NaN. A component of negative weight should be given negated.
        groups: shape (n,), the prompt of each answer.

    Raises:
        ValueError: no components, different lengths, NaN or infinite values, or a missing label.
    """
    if not components:
        raise ValueError("components: none given")
    columns = {name: finite_vector(values, name) for name, values in components.items()}
    if len({column.size for column in columns.values()}) > 1:
        sizes = ", ".join(f"{column.size} {name}" for name, column in columns.items())
        raise ValueError(f"components: {sizes}; expected as many values of each")
    values = np.column_stack(list(columns.values()))
    of = clusters_of(groups, values.shape[0])
    k = values.shape[1]
    product, told_apart, pairs = np.zeros((k, k)), np.zeros((k, k)), 0
    for rows in np.split(np.argsort(of.codes, kind="stable"), np.cumsum(np.bincount(of.codes))[:-1]):
        left, right = np.triu_indices(rows.size, 1)
        signs = np.sign(values[rows[left]] - values[rows[right]])
        product += signs.T @ signs
        told_apart += np.abs(signs).T @ np.abs(signs)
        pairs += left.size
    if pairs == 0:
        nothing = np.full((k, k), np.nan)
        return Conflicts(tuple(columns), nothing, nothing.copy(), 0)
    # Of pairs that both tell apart, together − opposed is `product` and together + opposed is `told_apart`.
    return Conflicts(tuple(columns), (told_apart - product) / 2 / pairs, (told_apart + product) / 2 / pairs, pairs)


def saturation(component: ArrayLike, groups: ArrayLike, *, bounds: tuple[float, float] | None = None) -> Saturation:
    """Share of values at the ends, effective number of levels, and prompts without any difference.

    Args:
        component: shape (n,), no NaN.
        groups: shape (n,), the prompt of each answer.
        bounds: the declared range; None for the range seen.

    Raises:
        ValueError: NaN or infinite values, a missing label, or low ≥ high in `bounds`.
    """
    c = finite_vector(component, "component")
    of = clusters_of(groups, c.size)
    if bounds is not None and not bounds[0] < bounds[1]:
        raise ValueError(f"bounds: {bounds[0]} is not below {bounds[1]}")
    if c.size == 0:
        return Saturation(None, None, None, None, 0)
    low, high = bounds if bounds is not None else (float(c.min()), float(c.max()))
    shares = np.unique(c, return_counts=True)[1] / c.size
    several = of.sums(np.ones(c.size)) > 1
    still = ~_moves(_centred(c, of), of)
    return Saturation(
        at_highest=float(np.mean(c >= high)),
        at_lowest=float(np.mean(c <= low)),
        effective_levels=float(np.exp(-shares @ np.log(shares))),
        constant_groups=float(np.mean(still[several])) if several.any() else None,
        n=c.size,
    )


def _centred(values: FloatArray, groups: Clusters) -> FloatArray:
    """Less each group's mean, and exactly 0 where a group is constant."""
    if values.size == 0:
        return values
    low, high = np.full(groups.count, np.inf), np.full(groups.count, -np.inf)
    np.minimum.at(low, groups.codes, values)
    np.maximum.at(high, groups.codes, values)
    means = groups.sums(values) / groups.sums(np.ones(values.size))
    return np.where((low == high)[groups.codes], 0.0, values - means[groups.codes])


def _over_largest(centred: FloatArray, groups: Clusters) -> FloatArray:
    """Each group over its largest deviation, so that no square overflows or vanishes."""
    largest = np.zeros(groups.count)
    np.maximum.at(largest, groups.codes, np.abs(centred))
    return np.asarray(centred / np.where(largest > 0, largest, 1.0)[groups.codes])


def _moves(centred: FloatArray, groups: Clusters) -> np.ndarray:
    return groups.sums((centred != 0).astype(float)) > 0
