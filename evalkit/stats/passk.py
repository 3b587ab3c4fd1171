"""Any of k, all of k, best of k: unbiased estimates from n ≥ k recorded completions of an item.

1. k completions are drawn from the n **without** replacement, in every way at once: the results are exact, not sampled.
2. pass@k (any of k succeeds) and pass^k (all k succeed) are different questions; on one data set at k = 4 they can be
   .72 and .20.
3. With fewer than k completions an item says nothing about k: NaN, for the caller to count.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from evalkit.stats.arrays import FloatArray, IntArray, check_k, finite_vector, successes_of_trials


def pass_at_k(successes: ArrayLike, trials: ArrayLike, k: int) -> FloatArray:
    """Chance that at least one of k completions drawn without replacement succeeds, per item.

    Unbiased: 1 − C(n−c, k) / C(n, k), computed as a product so that large n does not overflow.
    Source: Chen et al. 2021, arXiv 2107.03374, eq. 1.

    Args:
        successes: shape (items,), correct completions c of each item.
        trials: shape (items,), completions n of each item, n ≥ c.
        k: completions drawn, k ≥ 1.

    Returns:
        shape (items,), in [0, 1]; NaN where n < k (too few completions to say).

    Raises:
        ValueError: k < 1, an item with c > n, a negative or broken count, or lengths that differ.
    """
    check_k(k)
    c, n = successes_of_trials(successes, trials)
    return 1.0 - _all_of_k(n - c, n, k)


def pass_hat_k(successes: ArrayLike, trials: ArrayLike, k: int) -> FloatArray:
    """Chance that all of k completions drawn without replacement succeed, per item: C(c, k) / C(n, k).

    Source: Yao et al. 2024 (τ-bench), arXiv 2406.12045, written pass^k.

    Args:
        successes: shape (items,), correct completions c of each item.
        trials: shape (items,), completions n of each item, n ≥ c.
        k: completions drawn, k ≥ 1.

    Returns:
        shape (items,), in [0, 1]; NaN where n < k.

    Raises:
        ValueError: as `pass_at_k`.
    """
    check_k(k)
    c, n = successes_of_trials(successes, trials)
    return _all_of_k(c, n, k)


def best_at_k(rewards: ArrayLike, k: int) -> float:
    """Expected highest reward among k completions of one item drawn without replacement.

    Unbiased for real rewards; for 0/1 rewards it is pass@k. With rewards sorted upwards the i-th (from 1) is the
    highest of k with chance C(i−1, k−1) / C(n, k).

    Args:
        rewards: shape (n,), the rewards of one item's completions, no NaN.
        k: completions drawn, k ≥ 1.

    Returns:
        Between the mean and the maximum of `rewards`; NaN where n < k.

    Raises:
        ValueError: k < 1, NaN or infinite rewards.
    """
    check_k(k)
    ordered = np.sort(finite_vector(rewards, "rewards"))
    n = ordered.size
    if n < k:
        return math.nan
    rank = np.arange(n, 0, -1, dtype=np.float64)
    # C(i, k) / C(n, k) for i = n, n−1, …, each from the one above it: · (i − k) / i, which is 0 from i = k − 1 on.
    all_within = np.cumprod(np.concatenate([[1.0], np.maximum(rank[:-1] - k, 0.0) / rank[:-1]]))
    is_highest = all_within * k / rank
    return float(is_highest @ ordered[::-1])


def _all_of_k(marked: IntArray, n: IntArray, k: int) -> FloatArray:
    """C(marked, k) / C(n, k) per item: chance that k drawn without replacement are all marked. NaN where n < k."""
    enough = n >= k
    chance = np.full(n.size, np.nan)
    product = np.ones(int(enough.sum()))
    left, total = marked[enough], n[enough]
    for drawn in range(k if product.size else 0):
        product *= np.maximum(left - drawn, 0) / (total - drawn)
    chance[enough] = product
    return chance
