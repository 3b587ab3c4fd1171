"""What tails and modes promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from evalkit.stats import dip, tail, unimodality


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
    assert two.p == pytest.approx(1 / 201)
    for one in (rng.normal(size=400), rng.exponential(size=400), rng.standard_cauchy(400)):
        assert unimodality(one, rng=rng).p > 0.3


# Sixty-two whole numbers with ties; the dip as the package diptest 0.12.0 gives it.
TIED = [
    30, 33, 35, 36, 37, 37, 39, 39, 39, 39, 39, 40, 40, 40, 40, 41, 42, 43, 43, 43, 44, 44, 45, 45, 46, 47, 47, 48, 48, 48, 49,
    50, 50, 51, 52, 52, 53, 53, 53, 53, 53, 54, 54, 57, 57, 59, 60, 60, 60, 61, 61, 61, 61, 62, 62, 62, 62, 63, 66, 70, 72, 72,
]  # fmt: skip


def test_the_dip_in_figures() -> None:
    assert dip(TIED) == pytest.approx(3.75 / 62)
    assert dip([0.0] * 9 + [1.0] * 9) == pytest.approx(1 / 4)  # the most there can be
    assert dip(range(40)) == pytest.approx(1 / 80)  # the least
    assert dip([7.0]) == 1 / 2


def least_distance(x: np.ndarray) -> float:
    """The definition: over every place of the mode, the nearest function that is convex before it and concave after."""
    at, counts = np.unique(x, return_counts=True)
    above = np.cumsum(counts) / x.size
    below, k, best = above - counts / x.size, at.size, 1.0
    for mode in range(k):
        # Unknowns: the function before the mode and just before it, from it on, and the distance.
        place = {("before", i): i for i in range(mode + 1)} | {("after", i): i + 1 for i in range(mode, k)}
        rows, limits = [], []

        def limit(terms, most, rows=rows, limits=limits, place=place) -> None:
            row = np.zeros(k + 2)
            for name, factor in terms:
                row[-1 if name == "distance" else place[name]] += factor
            rows.append(row)
            limits.append(most)

        for part, i in place:
            high = below[i] if part == "before" or i > mode else above[i]
            low = above[i] if part == "after" or i < mode else below[i]
            limit([((part, i), 1), ("distance", -1)], high)
            limit([((part, i), -1), ("distance", -1)], -low)
        limit([(("before", mode), 1), (("after", mode), -1)], 0)
        for part, inner, sign in (("before", range(1, mode), 1), ("after", range(mode + 1, k - 1), -1)):
            for i in inner:
                a, b = 1 / (at[i] - at[i - 1]), 1 / (at[i + 1] - at[i])
                limit([((part, i), sign * (a + b)), ((part, i - 1), -sign * a), ((part, i + 1), -sign * b)], 0)
        for part, ends in (("before", range(mode)), ("after", range(mode, k - 1))):
            for i in ends:
                limit([((part, i), 1), ((part, i + 1), -1)], 0)
        found = linprog(np.eye(k + 2)[-1], A_ub=np.array(rows), b_ub=limits, bounds=[(0, 1)] * (k + 2))
        best = min(best, found.fun) if found.success else best
    return best


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(2, 14), st.sampled_from([0, 1, 6]))
def test_the_dip_is_the_distance_to_the_nearest_distribution_with_one_mode(seed: int, n: int, digits: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(size=n) + rng.choice([0, 4], n), digits)
    x = np.append(x, x[0] + 9.5)
    assert dip(x) == pytest.approx(least_distance(x), abs=1e-9)


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


@given(st.integers(0, 1000), st.sampled_from([1, 7.5, -3, 1e200, 1e-200]))
def test_a_linear_change_of_values_changes_no_dip(seed: int, factor: float) -> None:
    x = np.random.default_rng(seed).normal(size=60)
    assert dip(factor * (x + 2)) == pytest.approx(dip(x), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["uniform", "normal", "exponential", "logistic", "standard_cauchy"])
def test_one_mode_is_rarely_rejected_whatever_its_shape(shape: str) -> None:
    rng = np.random.default_rng(4)
    rejected = [unimodality(getattr(rng, shape)(size=60), rng=rng).p <= 0.05 for _ in range(300)]
    assert np.mean(rejected) < 0.085


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
        (lambda: dip([]), "none"),
        (lambda: unimodality([1], rng=np.random.default_rng(0), draws=0), "draws"),
    ],
)
def test_wrong_arguments_are_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
