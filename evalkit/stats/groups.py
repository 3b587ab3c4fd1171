"""How completions of one item, or items of one cluster, hang together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evalkit.stats.arrays import finite_vector, successes_of_trials
from evalkit.stats.clusters import clusters_of
from evalkit.stats.means import ROUNDING, cluster_standard_error


@dataclass(frozen=True, slots=True)
class GroupShares:
    """Shares of prompt groups by outcome; the first three add up to 1.

    Only mixed groups carry a gradient under group-normalised advantages (GRPO).
    """

    all_wrong: float | None
    """`None`, as the other two, where no item has a completion."""
    mixed: float | None
    """Some right, some wrong. Always 0 with one completion per item."""
    all_right: float | None
    n: int
    """Groups counted: items with at least one completion."""


def group_shares(successes: ArrayLike, trials: ArrayLike) -> GroupShares:
    """Shares of items whose completions are all wrong, mixed, and all right.

    Args:
        successes: shape (items,), correct completions of each item.
        trials: shape (items,), completions of each item; items with 0 are left out.

    Raises:
        ValueError: lengths differ, a negative or broken count, or more successes than trials.
    """
    c, n = successes_of_trials(successes, trials)
    c, n = c[n > 0], n[n > 0]
    if n.size == 0:
        return GroupShares(None, None, None, 0)
    wrong, right = float(np.mean(c == 0)), float(np.mean(c == n))
    return GroupShares(wrong, float(np.mean((c > 0) & (c < n))), right, n.size)


def design_effect(values: ArrayLike, clusters: ArrayLike) -> float | None:
    """How many times larger the variance of the mean is than if every value were independent.

    Squared ratio of the CR1 standard error with these clusters to that with every value its own cluster: exactly 1 for
    clusters of one. n / design effect is the effective sample size. Source: Kish 1965, "Survey Sampling", §8.2.

    Args:
        values: shape (n,), no NaN.
        clusters: shape (n,), a label per value.

    Returns:
        ≥ 0; below 1 where values within a cluster balance each other. `None` with fewer than two clusters or where all
        values are equal.

    Raises:
        ValueError: NaN or infinite values, or a missing label.
    """
    y = finite_vector(values, "values")
    if clusters_of(clusters, y.size).count < 2:
        return None
    independent = cluster_standard_error(y, np.arange(y.size), "CR1")
    if independent <= ROUNDING * np.abs(y).max():
        return None
    return (cluster_standard_error(y, clusters, "CR1") / independent) ** 2
