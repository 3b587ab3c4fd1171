"""Whether a scorer has moved: the same fixed items scored twice.

The items must be the same texts. Rewards of what a policy writes at two of its steps differ because the policy
does, and say nothing of the scorer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from evalkit.stats.arrays import FloatArray, exponent_of, finite_vector
from evalkit.stats.clusters import Clusters, clusters_of
from evalkit.stats.comparing import Test
from evalkit.stats.estimate import Estimate
from evalkit.stats.means import cluster_mean
from evalkit.stats.paired import TIE, SignFlip, paired_difference, sign_flip_test

# Cells held at once by the permutation test: bounds memory at about 30 bytes each.
CELLS_AT_ONCE = 2_000_000


@dataclass(frozen=True, slots=True)
class Drift:
    """How scores of the same items moved from one scoring to another."""

    shift: Estimate
    """Mean of after − before over items."""
    shift_test: SignFlip
    """Whether chance could make that mean, exchanging the scorings of whole clusters."""
    changed: Estimate
    """Share of items whose score is not exactly the same, in [0, 1]; 0 for a fixed, deterministic scorer."""
    distributions: Test
    """`statistic` is the distance of Kolmogorov and Smirnov, the largest gap between the two distribution
    functions, in [0, 1]. It sees a spread that changed about an equal mean."""


def drift(
    before: ArrayLike,
    after: ArrayLike,
    clusters: ArrayLike,
    *,
    rng: np.random.Generator,
    draws: int = 1000,
    level: float = 0.95,
) -> Drift:
    """Compare two scorings of the same items.

    Both tests take the scorings of a cluster as exchangeable where the scorer did not move, which its noise
    allows: p = (b + 1)/(B + 1) over random exchanges, of the mean exact where few clusters moved.

    Args:
        before: shape (n,), no NaN.
        after: shape (n,), of the same items in the same order.
        clusters: shape (n,), a label per item.
        rng: of the tests.
        draws: random exchanges B, ≥ 1.
        level: coverage, between 0 and 1.

    Raises:
        ValueError: lengths differ, NaN or infinite values, a missing label, draws < 1, or level outside (0, 1).
    """
    a, b = finite_vector(before, "before"), finite_vector(after, "after")
    if a.size != b.size:
        raise ValueError(f"before and after: {a.size} and {b.size} scores; pair them first")
    units = clusters_of(clusters, a.size)
    unit = exponent_of(np.concatenate([a, b]))
    a, b = np.ldexp(a, -unit), np.ldexp(b, -unit)  # differences of large scores would overflow
    shift = paired_difference(a, b, units.codes, level=level)
    value, low, high = (
        None if end is None else float(np.ldexp(end, unit)) for end in (shift.value, shift.low, shift.high)
    )
    return Drift(
        replace(shift, value=value, low=low, high=high),
        sign_flip_test(b - a, units.codes, rng=rng, draws=draws),
        cluster_mean(a != b, units.codes, level=level, bounds=(0.0, 1.0)),
        _kolmogorov_smirnov(a, b, units, rng, draws),
    )


def _kolmogorov_smirnov(a: FloatArray, b: FloatArray, units: Clusters, rng: np.random.Generator, draws: int) -> Test:
    method = f"Kolmogorov–Smirnov, {draws} exchanges of whole clusters"
    n = a.size
    if n == 0:
        return Test(None, None, 0, 0, method, "no items")
    values = np.concatenate([a, b])
    order = np.argsort(values, kind="stable")
    steps = np.repeat([1.0, -1.0], n)[order]
    owner = np.tile(units.codes, 2)[order]
    last = np.flatnonzero(np.append(np.diff(values[order]) > 0, True))
    found = float(np.abs(np.cumsum(steps)[last]).max()) / n
    at_once, as_large = max(1, CELLS_AT_ONCE // (2 * n)), 0
    for start in range(0, draws, at_once):
        signs = rng.choice([-1.0, 1.0], size=(min(at_once, draws - start), units.count))
        gaps = np.abs(np.cumsum(signs[:, owner] * steps, axis=1)[:, last]).max(axis=1) / n
        as_large += int(np.count_nonzero(gaps >= found - TIE))
    return Test((as_large + 1) / (draws + 1), found, n, units.count, method)
