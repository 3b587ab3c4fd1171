"""Best of n: what picking the answer of the highest proxy reward, among n to one prompt, gives by any other score.

From N ≥ n answers every choice of n is weighed at once; nothing is drawn.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from evalkit.stats.arrays import finite_vector


def best_of_n(proxy: ArrayLike, score: ArrayLike, n: int) -> float:
    """Mean score of the answer with the highest proxy among n drawn without replacement from the answers to a prompt.

    With proxies ascending, the i-th of N is the best of n in C(i − 1, n − 1) of C(N, n) choices. Answers of equal proxy
    count as their mean: either could be picked. `score` may be the proxy itself.

    Args:
        proxy: shape (N,), what is maximised, no NaN.
        score: shape (N,), what is wanted of the pick, no NaN.
        n: from 1 to N. 1 gives the mean score, N the score at the highest proxy.

    Raises:
        ValueError: lengths differ, NaN or infinite values, or n outside 1 to N.

    Source: the estimator of Gao, Schulman & Hilton 2023, "Scaling laws for reward model overoptimization", after
    Nakano et al. 2021.
    """
    x, y = finite_vector(proxy, "proxy"), finite_vector(score, "score")
    if x.size != y.size:
        raise ValueError(f"score: {y.size} values for {x.size} of proxy")
    if not 1 <= n <= x.size:
        raise ValueError(f"n: {n} is not from 1 to {x.size}, the number of answers")
    codes = np.unique(x, return_inverse=True)[1]
    sizes = np.bincount(codes)
    means = np.bincount(codes, weights=y) / sizes
    up_to = np.cumsum(sizes)
    whole = math.comb(x.size, n)
    shares = np.diff([0.0, *(math.comb(int(count), n) / whole for count in up_to)])
    return float(shares @ means)


def best_of_n_kl(n: int) -> float:
    """Upper bound of the KL divergence of the best of n from the policy it is drawn from: log n − (n − 1)/n, in nats.

    Exact where no two answers are alike (Beirami et al. 2024).

    Raises:
        ValueError: n < 1.
    """
    if n < 1:
        raise ValueError(f"n: {n}; at least 1")
    return math.log(n) - (n - 1) / n
