"""That a trainer's number can be reproduced, and told apart from pass@k."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.stats import best_with_replacement, openrlhf_max, pass_at_k, skyrl_any, verl_best_at_k


def as_verl_loops(rewards: list[float], k: int, draws: int, seed: int) -> float:
    """verl's `bootstrap_metric` in its own order: one draw of k indices at a time from the legacy generator."""
    legacy = np.random.RandomState(seed)
    return float(np.mean([max(rewards[i] for i in legacy.choice(len(rewards), size=k)) for _ in range(draws)]))


@pytest.mark.parametrize("rewards", [[1, 0, 0, 0], [0.1, 0.7, 0.3, 0.2, 0.9], [0.5] * 3, list(range(17))])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_verl_best_is_verls_loop_draw_for_draw(rewards: list[float], k: int) -> None:
    assert verl_best_at_k(rewards, k) == pytest.approx(as_verl_loops(rewards, k, 1000, 42), rel=1e-12)
    assert verl_best_at_k(rewards, k, draws=7, seed=3) == pytest.approx(as_verl_loops(rewards, k, 7, 3), rel=1e-12)


def test_verl_best_with_seed_42_in_figures() -> None:
    # NumPy's legacy stream is frozen, so these do not change with NumPy.
    assert [verl_best_at_k([1, 0, 0, 0], k) for k in (2, 3, 4)] == [0.453, 0.589, 0.687]


def test_one_right_of_four_is_684_with_replacement_and_1_without() -> None:
    assert best_with_replacement([1, 0, 0, 0], 4) == pytest.approx(0.68359375)  # 1 − (3/4)^4
    assert pass_at_k([1], [4], 4).tolist() == [1.0]


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=4), st.integers(1, 4))
def test_best_with_replacement_is_the_mean_maximum_over_all_tuples(rewards: list[float], k: int) -> None:
    value = best_with_replacement(rewards, k)
    if len(rewards) < k:
        assert math.isnan(value)
    else:
        assert value == pytest.approx(np.mean([max(t) for t in product(rewards, repeat=k)]), abs=1e-9)


def test_verl_best_approaches_the_expectation_with_replacement() -> None:
    rewards = [0.1, 0.7, 0.3, 0.2, 0.9]
    assert best_with_replacement(rewards, 3) == pytest.approx(0.704)
    assert verl_best_at_k(rewards, 3, draws=200_000) == pytest.approx(0.704, abs=0.003)


def test_neither_global_state_nor_earlier_calls_change_a_draw() -> None:
    np.random.seed(1)
    expected = np.random.random()
    np.random.seed(1)
    first = verl_best_at_k([1, 0, 0, 0], 2)
    assert np.random.random() == expected
    assert verl_best_at_k([1, 0, 0, 0], 2) == first


def test_openrlhf_takes_the_highest_reward_without_a_threshold() -> None:
    assert openrlhf_max([0.1, 0.6, -1.0]) == 0.6
    assert openrlhf_max([-0.5, -1.0]) == -0.5


def test_skyrl_passes_any_positive_reward() -> None:
    assert skyrl_any([0.0, 0.1]) == 1.0
    assert skyrl_any([0.0, 0.0]) == 0.0
    assert skyrl_any([-1.0, 0.0]) == 0.0


def test_too_few_rewards_are_nan() -> None:
    assert math.isnan(verl_best_at_k([1.0], 2))
    assert math.isnan(verl_best_at_k([], 1))
    assert math.isnan(best_with_replacement([], 1))
    assert math.isnan(openrlhf_max([]))
    assert math.isnan(skyrl_any([]))


@pytest.mark.parametrize(
    "call",
    [
        lambda: verl_best_at_k([1.0], 0),
        lambda: verl_best_at_k([1.0], 1, draws=0),
        lambda: best_with_replacement([1.0], 0),
        lambda: verl_best_at_k([math.nan], 1),
        lambda: best_with_replacement([math.nan], 1),
        lambda: openrlhf_max([math.nan]),
        lambda: skyrl_any([math.inf]),
    ],
)
def test_wrong_arguments_are_refused(call) -> None:
    with pytest.raises(ValueError, match=r"k:|draws:|rewards:"):
        call()
