"""What tails and modes promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.stats import tail, unimodality


def test_hill_in_figures() -> None:
    # Median 0; ten of 200 values beyond 1 at e^(1/4): every log spacing is 1/4, so α = 4.
    values = np.concatenate([-np.ones(100), np.ones(90), np.full(10, np.exp(0.25))])
    values = values - np.median(values)
    result = tail(values, side="upper", share=0.05).hill
    assert result.value == pytest.approx(4)
    assert (result.low, result.high) == pytest.approx((4 * 9.591 / 20, 4 * 34.170 / 20), abs=1e-3)  # χ²(20) / 20
    assert result.n == 10


@given(st.integers(0, 10_000), st.floats(0.01, 100), st.floats(-100, 100))
def test_a_change_of_scale_or_place_changes_no_tail(seed: int, factor: float, shift: float) -> None:
    x = np.random.default_rng(seed).standard_t(3, 400)
    one, other = tail(x), tail(factor * x + shift)
    assert other.hill.value == pytest.approx(one.hill.value, rel=1e-6)
    assert other.index.value == pytest.approx(one.index.value, abs=1e-6)


def test_upper_and_lower_tails_are_mirrored() -> None:
    x = np.random.default_rng(0).exponential(size=500)
    assert tail(x, side="upper").hill.value == pytest.approx(tail(-x, side="lower").hill.value)
    assert tail(x, side="upper").hill.value < tail(x, side="lower").hill.value


def test_power_laws_are_heavy_and_normal_exponential_and_bounded_values_are_not() -> None:
    rng = np.random.default_rng(1)
    assert tail(rng.pareto(1.5, 4000), side="upper").heavy
    assert tail(rng.standard_t(2, 4000)).heavy
    assert not tail(rng.normal(size=4000)).heavy
    assert not tail(rng.exponential(size=4000), side="upper").heavy
    assert tail(rng.random(4000)).index.high < 0


@pytest.mark.slow
def test_the_intervals_of_a_pareto_tail_cover() -> None:
    rng, hits, runs = np.random.default_rng(2), np.zeros(2), 1000
    for _ in range(runs):
        # As many below as above a median of 0, and Pareto with α = 2: the tail is exactly a power law.
        x = np.repeat([-1, 1], 1000) * (1 + rng.pareto(2.0, 2000))
        result = tail([*x, 0.0])
        hits += [result.hill.low < 2 < result.hill.high, result.index.low < 0.5 < result.index.high]
    assert (np.abs(hits / runs - 0.95) < 0.035).all()


def test_a_tail_that_says_nothing_has_a_reason() -> None:
    assert "at least 10" in tail(range(100)).hill.why
    assert "begins at the median" in tail(np.ones(400)).hill.why
    assert tail(np.ones(400)).excess_kurtosis is None
    assert "lies at one value" in tail(np.repeat([0.0, 1.0], [300, 100])).hill.why
    assert tail(np.ones(400)).heavy is None


def test_copies_of_a_cluster_in_the_tail_count_once() -> None:
    x = np.random.default_rng(5).pareto(1.5, 400)
    one, copies = tail(x), tail(np.repeat(x, 3), np.repeat(range(400), 3))
    assert (copies.hill.n, copies.hill.n_clusters) == (60, 20)
    assert copies.hill.half_width == pytest.approx(one.hill.half_width, rel=0.05)
    few = tail(np.repeat(x[:100], 12), np.repeat(range(100), 12))
    assert few.hill.value is None
    assert "5 clusters in the tail" in few.hill.why


def test_a_grid_in_the_tail_has_no_index() -> None:
    penalties = np.concatenate([np.tile([0.0, 1.0], 194), np.full(12, -10.0)])
    assert "a grid has no index" in tail(penalties).index.why
    assert tail(penalties).heavy is None


def test_excess_kurtosis_in_figures() -> None:
    assert tail([-1, 1]).excess_kurtosis == pytest.approx(-2)


def test_two_clear_modes_are_found_and_one_is_not_doubted() -> None:
    rng = np.random.default_rng(3)
    two = unimodality(np.concatenate([rng.normal(-3, 1, 200), rng.normal(3, 1, 200)]), rng=rng)
    assert two.p < 0.02
    assert two.critical_bandwidth > 0.5
    for one in (rng.normal(size=400), rng.exponential(size=400), rng.random(400)):
        assert unimodality(one, rng=rng).p > 0.05


def test_modes_that_a_few_prompts_make_are_not_modes_of_independent_values() -> None:
    rng = np.random.default_rng(6)
    prompts = np.repeat(rng.normal(size=30), 10)
    values, clusters = prompts + 0.05 * rng.normal(size=300), np.repeat(range(30), 10)
    assert unimodality(values, rng=rng).p < 0.05
    found = unimodality(values, clusters, rng=rng)
    assert (found.n, found.p > 0.05) == (30, True)
    assert "1 values; at least 20" in unimodality(values, np.zeros(300), rng=rng).why


def test_of_many_values_two_thousand_are_tested() -> None:
    rng = np.random.default_rng(7)
    assert unimodality(rng.normal(size=5000), rng=rng, draws=5).n == 2000


@given(st.integers(0, 1000))
def test_a_linear_change_of_values_changes_no_modality(seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=60)
    one = unimodality(x, rng=np.random.default_rng(0), draws=20)
    other = unimodality(7 - 3 * x, rng=np.random.default_rng(0), draws=20)
    assert other.critical_bandwidth == pytest.approx(one.critical_bandwidth, rel=0.05)


@pytest.mark.slow
def test_one_mode_is_rarely_rejected() -> None:
    rng = np.random.default_rng(4)
    rejected = [unimodality(rng.normal(size=100), rng=rng, draws=60).p <= 0.05 for _ in range(100)]
    assert np.mean(rejected) < 0.09


def test_a_grid_of_values_or_a_handful_is_not_tested() -> None:
    rng = np.random.default_rng(0)
    assert "3 distinct of 60" in unimodality(np.repeat([1, 2, 3], 20), rng=rng).why
    assert "at least 20" in unimodality([1, 2, 3], rng=rng).why


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tail([1], side="left"), "side"),
        (lambda: tail([1], share=1.0), "share"),
        (lambda: tail([np.nan]), "NaN"),
        (lambda: unimodality([1], rng=np.random.default_rng(0), draws=0), "draws"),
    ],
)
def test_wrong_arguments_are_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
