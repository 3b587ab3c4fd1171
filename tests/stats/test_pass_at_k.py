"""What pass@k, pass^k and best@k promise."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.stats import best_at_k, pass_at_k, pass_hat_k

counts = st.integers(1, 40).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def test_literal_values() -> None:
    # n = 5, c = 2, k = 3: 1 − C(3,3)/C(5,3) = .9; k = 2: C(2,2)/C(5,2) = .1
    assert pass_at_k([2], [5], 3) == pytest.approx([0.9])
    assert pass_hat_k([2], [5], 2) == pytest.approx([0.1])
    assert pass_hat_k([2], [5], 3) == pytest.approx([0.0])


def test_with_k_equal_to_n_they_are_any_and_all() -> None:
    assert pass_at_k([0, 1, 4], [4, 4, 4], 4).tolist() == [0.0, 1.0, 1.0]
    assert pass_hat_k([0, 3, 4], [4, 4, 4], 4).tolist() == [0.0, 0.0, 1.0]


def test_items_with_fewer_than_k_completions_are_nan_and_the_others_are_not() -> None:
    for function in (pass_at_k, pass_hat_k):
        assert np.isnan(function([0, 1, 2, 2], [0, 1, 2, 3], 3)).tolist() == [True, True, True, False]


def test_no_items_and_only_short_items() -> None:
    assert pass_at_k([], [], 2).shape == (0,)
    assert np.isnan(pass_hat_k([1], [1], 2)).all()


def test_large_n_does_not_overflow() -> None:
    # 1 − C(9000, 5000)/C(10000, 5000) is 1 to rounding; C(9999, 1)/C(10000, 1) = .9999
    assert pass_at_k([1000], [10_000], 5000) == pytest.approx([1.0])
    assert pass_hat_k([9999], [10_000], 1) == pytest.approx([0.9999])


@given(counts, st.integers(1, 45))
def test_they_are_the_ratios_of_binomial_coefficients(item: tuple[int, int], k: int) -> None:
    c, n = item
    any_of, all_of = pass_at_k([c], [n], k)[0], pass_hat_k([c], [n], k)[0]
    if n < k:
        assert math.isnan(any_of)
        assert math.isnan(all_of)
    else:
        assert any_of == pytest.approx(1 - math.comb(n - c, k) / math.comb(n, k), abs=1e-12)
        assert all_of == pytest.approx(math.comb(c, k) / math.comb(n, k), rel=1e-10)
        assert 0 <= all_of <= any_of + 1e-12 <= 1 + 1e-12
        assert all_of <= c / n + 1e-12
        assert any_of >= c / n - 1e-12


@given(counts)
def test_more_draws_help_any_and_hurt_all(item: tuple[int, int]) -> None:
    c, n = item
    any_of = [pass_at_k([c], [n], k)[0] for k in range(1, n + 1)]
    all_of = [pass_hat_k([c], [n], k)[0] for k in range(1, n + 1)]
    assert np.all(np.diff(any_of) >= -1e-12)
    assert np.all(np.diff(all_of) <= 1e-12)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=7), st.integers(1, 7))
def test_best_at_k_is_the_mean_maximum_over_all_subsets(rewards: list[float], k: int) -> None:
    value = best_at_k(rewards, k)
    if len(rewards) < k:
        assert math.isnan(value)
    else:
        assert value == pytest.approx(np.mean([max(subset) for subset in combinations(rewards, k)]), abs=1e-9)


@given(counts, st.integers(1, 45))
def test_best_at_k_of_successes_is_pass_at_k(item: tuple[int, int], k: int) -> None:
    c, n = item
    expected = pass_at_k([c], [n], k)[0]
    assert best_at_k([1.0] * c + [0.0] * (n - c), k) == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_best_at_k_of_graded_rewards() -> None:
    # Sorted .1 .2 .3 .7 .9, k = 3 of 5: (1·.3 + 3·.7 + 6·.9) / 10
    assert best_at_k([0.1, 0.7, 0.3, 0.2, 0.9], 3) == pytest.approx(0.78)
    assert math.isnan(best_at_k([], 1))


@pytest.mark.parametrize("function", [pass_at_k, pass_hat_k])
@pytest.mark.parametrize(
    ("successes", "trials", "k", "message"),
    [
        ([1], [2], 0, "k ≥ 1"),
        ([1, 3], [2, 2], 1, "item 1 has more successes than trials"),
        ([-1], [2], 1, "successes: a count is negative"),
        ([0], [-2], 1, "trials: a count is negative"),
        ([0.5], [2], 1, "successes: expected whole numbers"),
        ([1, 1], [2], 1, "2 and 1 items"),
    ],
)
def test_wrong_counts_are_refused(function, successes, trials, k: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        function(successes, trials, k)


def test_best_at_k_refuses_what_is_no_reward() -> None:
    with pytest.raises(ValueError, match="NaN"):
        best_at_k([1.0, math.nan], 1)
    with pytest.raises(ValueError, match="k ≥ 1"):
        best_at_k([1.0], 0)
