"""What a paired comparison promises."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.stats import Discordance, cluster_mean, discordant_pairs, paired_difference, sign_flip_test
from evalkit.stats import paired as paired_module


def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def by_enumeration(sums: list[int]) -> float:
    observed = abs(sum(sums))
    flips = [abs(sum(s * t for s, t in zip(signs, sums, strict=True))) for signs in product((1, -1), repeat=len(sums))]
    return float(np.mean([value >= observed for value in flips]))


def test_the_difference_is_b_minus_a_with_the_interval_of_its_mean() -> None:
    a, b, clusters = [0, 0, 1, 1, 0], [1, 0, 1, 1, 1], [1, 1, 2, 3, 4]
    estimate, expected = paired_difference(a, b, clusters), cluster_mean([1, 0, 0, 0, 1], clusters)
    assert estimate.value == pytest.approx(0.4)
    assert (estimate.low, estimate.high, estimate.n_clusters) == (expected.low, expected.high, 4)
    assert estimate.method.startswith("paired difference b − a")
    narrower = paired_difference(a, b, clusters, level=0.5)
    assert narrower.half_width < estimate.half_width


def test_equal_runs_have_a_zero_difference_and_no_interval() -> None:
    estimate = paired_difference([0, 1, 1], [0, 1, 1], [1, 2, 3])
    assert (estimate.value, estimate.half_width) == (0.0, None)
    assert "all 3 values are equal" in estimate.why


def test_unequal_lengths_are_refused() -> None:
    for function in (lambda: paired_difference([1], [1, 0], [1]), lambda: discordant_pairs([1], [1, 0])):
        with pytest.raises(ValueError, match="1 and 2 values"):
            function()


def test_sign_flips_of_three_clusters_by_hand() -> None:
    # Sums 1, 2, 3: |±1±2±3| ≥ 6 only for the two patterns of one sign: 2/8.
    result = sign_flip_test([1, 2, 3], [1, 2, 3], rng=rng())
    assert (result.p, result.smallest_p, result.n_clusters) == (0.25, 0.25, 3)
    assert "exact" in result.method


def test_whole_clusters_are_flipped_not_their_members() -> None:
    result = sign_flip_test([1, 1, 1, 1, 1, 1], [1, 1, 1, 2, 2, 2], rng=rng())
    assert result.p == 0.5  # two clusters, whatever their size
    assert sign_flip_test([1] * 6, range(6), rng=rng()).p == 2 / 64


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9))
def test_the_exact_test_is_the_enumeration_of_all_signs(sums: list[int]) -> None:
    assert sign_flip_test(sums, range(len(sums)), rng=rng()).p == pytest.approx(by_enumeration(sums))


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=12))
def test_rounding_does_not_break_ties(sums: list[int]) -> None:
    whole = sign_flip_test(sums, range(len(sums)), rng=rng())
    tenths = sign_flip_test([s * 0.1 for s in sums], range(len(sums)), rng=rng())
    assert tenths.p == whole.p


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 5)), min_size=1, max_size=20), st.randoms())
def test_order_names_and_direction_do_not_matter(rows: list[tuple[int, int]], random) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    before = sign_flip_test([d for d, _ in rows], [c for _, c in rows], rng=rng())
    after = sign_flip_test([-d for d, _ in shuffled], [f"c{c}" for _, c in shuffled], rng=rng())
    assert after == before


def test_clusters_whose_sum_is_zero_do_not_count_for_enumeration() -> None:
    # 0.1 + 0.2 − 0.3 is 5.6e−17 in floating point, and still zero.
    differences = [0.1, 0.2, -0.3] + [1.0, 1.0] + [0.0] * 40
    clusters = [0, 0, 0, 1, 2, *range(3, 43)]
    result = sign_flip_test(differences, clusters, rng=rng())
    assert (result.p, result.smallest_p, result.n_clusters) == (0.5, 0.5, 43)
    assert "2 of 43 clusters non-zero" in result.method


def test_without_any_difference_p_is_one() -> None:
    for differences in ([], [0.0, 0.0], [1.0, -1.0]):
        result = sign_flip_test(differences, ["x"] * len(differences), rng=rng())
        assert (result.p, result.smallest_p) == (1.0, 1.0)


def test_clusters_that_cancel_give_p_one() -> None:
    assert sign_flip_test([1, -1], [1, 2], rng=rng()).p == 1.0
    assert sign_flip_test([1, -1] * 20, range(40), rng=rng()).p == 1.0


def test_monte_carlo_agrees_with_enumeration() -> None:
    differences = [1, 1, 1, 1, 1, 1, 1, 1, -1, -1, 0.5, 2]
    exact = sign_flip_test(differences, range(12), rng=rng())
    sampled = sign_flip_test(differences, range(12), rng=rng(), exact_up_to=0, draws=40_000)
    assert "Monte Carlo, 40000 draws" in sampled.method
    assert sampled.p == pytest.approx(exact.p, abs=0.008)  # over 4 standard errors


def test_enumeration_ends_where_it_is_told_to() -> None:
    assert "exact" in sign_flip_test([1] * 16, range(16), rng=rng()).method
    assert "Monte Carlo" in sign_flip_test([1] * 17, range(17), rng=rng()).method


def test_a_sampled_p_is_never_zero() -> None:
    result = sign_flip_test(np.ones(300), range(300), rng=rng(), draws=99)
    assert result.p == result.smallest_p == pytest.approx(0.01)


def test_sampling_in_chunks_counts_every_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    # Sums of +1 and −1 alone: an even number of them is 0 or ±2 …, so every draw reaches a threshold of 0.
    monkeypatch.setattr(paired_module, "SIGNS_AT_ONCE", 64)
    result = sign_flip_test([1, -1] * 10, range(20), rng=rng(), draws=1001)
    assert result.p == 1.0
    odd = sign_flip_test([1.0] * 3 + [1e-3] * 17, range(20), rng=rng(), draws=2001)
    assert odd.p == pytest.approx(2 * 0.5**3 * (2 * 0.5**17), abs=0.01)


def test_the_same_generator_gives_the_same_p() -> None:
    differences = np.random.default_rng(2).normal(size=50)
    assert sign_flip_test(differences, range(50), rng=rng()) == sign_flip_test(differences, range(50), rng=rng())


@pytest.mark.parametrize("options", [{"draws": 0}, {"exact_up_to": 25}, {"exact_up_to": -1}])
def test_impossible_settings_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        sign_flip_test([1.0], [1], rng=rng(), **options)


def test_a_missing_difference_is_refused() -> None:
    with pytest.raises(ValueError, match="NaN"):
        sign_flip_test([math.nan], [1], rng=rng())


def test_discordant_pairs_are_counted_by_side() -> None:
    a = [True, True, True, False, False, True, False]
    b = [True, False, False, True, False, True, False]
    assert discordant_pairs(a, b) == Discordance(a_only=2, b_only=1, both=2, neither=2)
    assert discordant_pairs([], []) == Discordance(0, 0, 0, 0)
    with pytest.raises(ValueError, match="b: expected successes"):
        discordant_pairs([1, 0], [1, 0.5])


@pytest.mark.slow
@pytest.mark.parametrize("n_clusters", [10, 40])
def test_the_sign_flip_rejects_a_true_null_as_often_as_it_says(n_clusters: int) -> None:
    generator = np.random.default_rng(31)
    clusters = np.repeat(np.arange(n_clusters), 3)
    rejected = 0
    for _ in range(1000):
        differences = generator.normal(size=n_clusters)[clusters] + generator.normal(size=3 * n_clusters)
        rejected += sign_flip_test(differences, clusters, rng=generator, draws=999).p <= 0.05
    assert 29 <= rejected <= 71  # 50 ± 3 binomial standard errors


def test_as_many_clusters_as_a_benchmark_can_have_fit_in_bounded_memory() -> None:
    differences = np.random.default_rng(3).normal(0.02, 1, size=100_000)
    result = sign_flip_test(differences, range(100_000), rng=rng(), draws=200)
    assert result.p == pytest.approx(1 / 201)  # z = 6.3
