"""Two models on the same items: the difference, and whether chance could make it.

1. Always by item: a and b are aligned, and the difference is b − a.
2. Chance is judged by flipping whole clusters, since that is what was drawn independently.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalkit.stats.arrays import FloatArray, finite_vector
from evalkit.stats.clusters import clusters_of
from evalkit.stats.estimate import Estimate
from evalkit.stats.means import ROUNDING, cluster_mean

# Sums that agree to this share of Σ|cluster sum| are one value: the order of an addition must not decide a tie.
TIE = 1e-10
# Signs held at once in the Monte Carlo test: bounds memory at about 9 bytes each.
SIGNS_AT_ONCE = 4_000_000
MOST_EXACT = 24


@dataclass(frozen=True, slots=True)
class SignFlip:
    """Result of a two-sided sign-flip test."""

    p: float
    """In (0, 1]. 1 where every difference is zero, or there is none."""
    n_clusters: int
    """All clusters given; those whose sum is zero carry no evidence, and `method` counts the others."""
    method: str
    """`exact` or `Monte Carlo`, with the numbers it rests on, for people to read."""
    smallest_p: float
    """The least p this test could have given with these clusters and draws. Above alpha, it could not have rejected."""


@dataclass(frozen=True, slots=True)
class Discordance:
    """How many pairs succeeded where."""

    a_only: int
    b_only: int
    both: int
    neither: int


def paired_difference(a: ArrayLike, b: ArrayLike, clusters: ArrayLike, level: float = 0.95) -> Estimate:
    """Mean of b − a over pairs, with a cluster-robust t interval.

    Args:
        a: shape (n,), values of the first model, no NaN.
        b: shape (n,), values of the second on the same items in the same order.
        clusters: shape (n,), a label per pair.
        level: coverage, between 0 and 1.

    Returns:
        As `cluster_mean` of b − a without bounds: no interval where all differences are equal, zero included.

    Raises:
        ValueError: lengths differ, and as `cluster_mean`.
    """
    first, second = _pairs(a, b)
    estimate = cluster_mean(second - first, clusters, level=level)
    return replace(estimate, method=f"paired difference b − a, {estimate.method}")


def sign_flip_test(
    differences: ArrayLike,
    clusters: ArrayLike,
    *,
    rng: np.random.Generator,
    draws: int = 10_000,
    exact_up_to: int = 16,
) -> SignFlip:
    """Two-sided test that a and b are exchangeable within each cluster, by flipping the sign of whole clusters.

    The statistic is |Σ_g s_g T_g|, T_g the sum of differences in cluster g and s_g = ±1. Exact over all 2^G sign
    patterns when at most `exact_up_to` clusters have T_g ≠ 0, else from `draws` random patterns with
    p = (b + 1) / (B + 1), b of B as large as observed, which is valid and never 0.
    Sources: Fisher 1935; Phipson & Smyth 2010 for the + 1; Canay, Romano & Shaikh 2017 for whole clusters.

    Args:
        differences: shape (n,), b − a per pair, no NaN.
        clusters: shape (n,), a label per pair.
        rng: used only by the Monte Carlo test.
        draws: random patterns B, ≥ 1.
        exact_up_to: most non-zero clusters for enumeration, 0 to 24.

    Raises:
        ValueError: NaN or infinite differences, a missing label, draws < 1, or exact_up_to outside 0 to 24.
    """
    d = finite_vector(differences, "differences")
    groups = clusters_of(clusters, d.size)
    if draws < 1:
        raise ValueError(f"draws: {draws} random patterns; at least 1")
    if not 0 <= exact_up_to <= MOST_EXACT:
        raise ValueError(f"exact_up_to: {exact_up_to} is not within 0 to {MOST_EXACT}")
    sums = groups.sums(d)
    moving = sums[np.abs(sums) > ROUNDING * np.abs(d).max(initial=0.0)]
    if moving.size == 0:
        return SignFlip(1.0, groups.count, "cluster sign-flip: no cluster differs", 1.0)
    of_clusters = f"{moving.size} of {groups.count} clusters non-zero"
    threshold = abs(moving.sum()) - TIE * np.abs(moving).sum()
    if moving.size <= exact_up_to:
        flipped = _all_flips(moving)
        p = float(np.mean(np.abs(flipped) >= threshold))
        return SignFlip(p, groups.count, f"cluster sign-flip: exact, {of_clusters}", 2.0 ** (1 - moving.size))
    as_large = _count_random_flips(moving, float(threshold), rng, draws)
    method = f"cluster sign-flip: Monte Carlo, {draws} draws, {of_clusters}"
    return SignFlip((as_large + 1) / (draws + 1), groups.count, method, 1 / (draws + 1))


def discordant_pairs(a: ArrayLike, b: ArrayLike) -> Discordance:
    """Pairs by who succeeded.

    Args:
        a: shape (n,), success of the first model as true/false or 0/1.
        b: shape (n,), success of the second on the same items in the same order.

    Raises:
        ValueError: lengths differ, or a value that is neither 0 nor 1.
    """
    first, second = _pairs(a, b)
    for values, name in ((first, "a"), (second, "b")):
        if not np.isin(values, (0.0, 1.0)).all():
            raise ValueError(f"{name}: expected successes as true/false or 0/1")
    won_a, won_b = first == 1, second == 1
    return Discordance(
        a_only=_count(won_a & ~won_b),
        b_only=_count(~won_a & won_b),
        both=_count(won_a & won_b),
        neither=_count(~won_a & ~won_b),
    )


def _pairs(a: ArrayLike, b: ArrayLike) -> tuple[FloatArray, FloatArray]:
    first, second = finite_vector(a, "a"), finite_vector(b, "b")
    if first.size != second.size:
        raise ValueError(f"a and b: {first.size} and {second.size} values; pair them first")
    return first, second


def _all_flips(sums: FloatArray) -> FloatArray:
    """Σ s_g T_g for all sign patterns with the first sign fixed (the others mirror them): shape (2^(G−1),)."""
    totals = sums[:1]
    for cluster in sums[1:]:
        totals = np.concatenate([totals + cluster, totals - cluster])
    return totals


def _count_random_flips(sums: FloatArray, threshold: float, rng: np.random.Generator, draws: int) -> int:
    """How many of `draws` random sign patterns reach the threshold. One random bit per sign."""
    rows, width = max(1, SIGNS_AT_ONCE // sums.size), -(-sums.size // 8)
    total, as_large = float(sums.sum()), 0
    for start in range(0, draws, rows):
        packed = rng.integers(0, 256, size=(min(rows, draws - start), width), dtype=np.uint8)
        kept = np.unpackbits(packed, axis=1, count=sums.size)
        flipped = 2.0 * (kept.astype(np.float64) @ sums) - total
        as_large += _count(np.abs(flipped) >= threshold)
    return as_large


def _count(mask: NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(mask))
