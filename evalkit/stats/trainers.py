"""What trainers log under names like pass@k and best@N: reproduced, so that their numbers can be told apart.

None of these estimates pass@k without bias for all rewards; use `pass_at_k` or `best_at_k` for that. Each takes the
rewards of one item's completions and returns one number; the trainer then averages over items.

| trainer  | name there           | here             | differs from pass@k                                        |
|----------|----------------------|------------------|------------------------------------------------------------|
| verl     | `best@N/mean`        | `verl_best_at_k` | drawn with replacement: too low (1 of 4 right: .684, not 1)|
| OpenRLHF | `pass{n}`            | `openrlhf_max`   | mean of maximal rewards, no threshold; equal for 0/1       |
| SkyRL    | `pass_at_N`          | `skyrl_any`      | any reward > 0: a format reward of 0.1 is a pass           |
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from evalkit.stats.arrays import check_k, finite_vector


def verl_best_at_k(rewards: ArrayLike, k: int, *, draws: int = 1000, seed: int = 42) -> float:
    """verl's `best@k/mean` of one item, draw for draw: mean over `draws` of the highest of k **with** replacement.

    verl seeds NumPy's legacy generator anew for every prompt and k and draws k indices 1,000 times; a private
    `RandomState` gives the same stream. verl itself logs only k = 2, 4, 8, … below n, and k = n, and nothing for n = 1.
    Source: verl, `verl/trainer/ppo/metric_utils.py`, `bootstrap_metric` and `process_validation_metrics`.

    Args:
        rewards: shape (n,), in the order verl saw them (the draws are of positions), no NaN.
        k: completions drawn, k ≥ 1.
        draws: resamples, ≥ 1.
        seed: as in verl's call; part of what it computes, hence an argument and no generator.

    Returns:
        Between minimum and maximum of `rewards`; NaN where n < k or n = 0.

    Raises:
        ValueError: k < 1, draws < 1, NaN or infinite rewards.
    """
    check_k(k)
    if draws < 1:
        raise ValueError(f"draws: {draws} resamples; at least 1")
    r = finite_vector(rewards, "rewards")
    if r.size < k:
        return math.nan
    chosen = np.random.RandomState(seed).choice(r.size, size=(draws, k), replace=True)
    return float(r[chosen].max(axis=1).mean())


def best_with_replacement(rewards: ArrayLike, k: int) -> float:
    """Expected highest reward of k completions drawn with replacement: `verl_best_at_k` without its noise.

    Σ_i r_(i) · ((i/n)^k − ((i−1)/n)^k) over rewards sorted upwards. For 0/1 rewards 1 − (1 − c/n)^k, which is biased
    low as an estimate of pass@k.

    Args:
        rewards: shape (n,), no NaN.
        k: completions drawn, k ≥ 1.

    Returns:
        Between the mean and the maximum of `rewards`; NaN where n < k or n = 0, as `verl_best_at_k`.

    Raises:
        ValueError: k < 1, NaN or infinite rewards.
    """
    check_k(k)
    ordered = np.sort(finite_vector(rewards, "rewards"))
    if ordered.size < k:
        return math.nan
    all_within = (np.arange(ordered.size + 1) / ordered.size) ** k
    return float(np.diff(all_within) @ ordered)


def openrlhf_max(rewards: ArrayLike) -> float:
    """OpenRLHF's `pass{n}` of one item: its highest reward, without a threshold.

    Equals pass@n only for 0/1 rewards. (OpenRLHF's `pass1` is the mean reward.)

    Args:
        rewards: shape (n,), no NaN.

    Returns:
        The maximum; NaN for no rewards.

    Raises:
        ValueError: NaN or infinite rewards.
    """
    r = finite_vector(rewards, "rewards")
    return float(r.max()) if r.size else math.nan


def skyrl_any(rewards: ArrayLike) -> float:
    """SkyRL's `pass_at_N` of one item: 1.0 when any reward is above 0, else 0.0.

    Args:
        rewards: shape (n,), one per completion, no NaN. Where SkyRL has a reward per token, that is the last token's.

    Returns:
        0.0 or 1.0; NaN for no rewards.

    Raises:
        ValueError: NaN or infinite rewards.
    """
    r = finite_vector(rewards, "rewards")
    return float(np.any(r > 0)) if r.size else math.nan
