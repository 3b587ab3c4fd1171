"""What is promised of the shape of a reward's values."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.stats import (
    Density,
    extreme_share,
    group_shares,
    informative_groups,
    nonfinite_share,
    tied_pairs,
    value_shares,
)


def test_values_that_are_no_numbers_are_counted_and_not_dropped() -> None:
    found = nonfinite_share([1.0, np.nan, np.inf, -np.inf, 0.0, 2.0], range(6))
    assert (found.value, found.n, found.n_clusters) == (0.5, 6, 6)
    assert nonfinite_share([np.nan] * 8, range(8)).value == 1.0
    assert nonfinite_share([], []).value is None


def test_shares_of_values_in_figures() -> None:
    x = [0, 0, 0, 0, 1, 1, 0.5, -1]
    found = value_shares(x, range(8))
    assert (found.distinct, found.lowest, found.highest, found.most_common) == (4, -1, 1, 0)
    assert [e.value for e in (found.zeros, found.ones, found.negative, found.positive)] == [0.5, 0.25, 0.125, 0.375]
    assert (found.at_lowest.value, found.at_highest.value, found.at_most_common.value) == (0.125, 0.25, 0.5)
    declared = value_shares(x, range(8), bounds=(-1, 2))
    assert (declared.highest, declared.at_highest.value, declared.at_lowest.value) == (2, 0.0, 0.125)


def test_the_interval_of_a_share_knows_clusters_and_a_constant_has_an_exact_one() -> None:
    zeros = value_shares(np.repeat([0.0, 1.0], 20), np.repeat(range(10), 4)).zeros
    assert (zeros.n, zeros.n_clusters) == (40, 10)
    assert zeros.half_width > value_shares(np.repeat([0.0, 1.0], 20), range(40)).zeros.half_width
    # Clopper–Pearson with 36 of 36: .025^(1/36).
    assert value_shares([0.0] * 36, range(36)).zeros.low == pytest.approx(0.025 ** (1 / 36))


def test_nothing_one_value_and_constants_raise_nothing() -> None:
    nothing = value_shares([], [])
    assert (nothing.distinct, nothing.lowest, nothing.most_common, nothing.zeros.value) == (0, None, None, None)
    one = value_shares([3.0], ["a"])
    assert (one.distinct, one.at_lowest.value, one.at_lowest.low) == (1, 1.0, None)
    assert value_shares([2.0] * 5, range(5)).distinct == 1


def brute_ties(x: np.ndarray, groups: np.ndarray | None) -> float:
    pairs = [(i, j) for i, j in combinations(range(x.size), 2) if groups is None or groups[i] == groups[j]]
    return sum(x[i] == x[j] for i, j in pairs) / len(pairs)


@given(st.integers(0, 10_000))
def test_tied_pairs_are_those_of_every_pair(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, groups = rng.integers(0, 4, 25) / 3, np.repeat(range(5), 5)
    assert tied_pairs(x, range(25)).value == pytest.approx(brute_ties(x, None))
    within = tied_pairs(x, groups, groups=groups)
    assert within.value == pytest.approx(brute_ties(x, groups))
    assert within.n == 5


def test_tied_pairs_without_pairs_or_ties() -> None:
    assert "no two values" in tied_pairs([1.0], [1]).why
    assert "no group has two" in tied_pairs([1.0, 1.0], [1, 2], groups=["p", "q"]).why
    assert tied_pairs(np.arange(9.0), range(9)).value == 0
    alike = tied_pairs([2.0] * 6, range(6), groups=range(6))
    assert alike.value is None


@pytest.mark.slow
def test_the_intervals_of_ties_and_extremes_nearly_cover() -> None:
    rng, hits, runs = np.random.default_rng(0), np.zeros(3), 1000
    p = np.array([0.1, 0.2, 0.4, 0.3])
    for _ in range(runs):
        x = rng.choice(4, 100, p=p)
        pooled = tied_pairs(x, range(100))
        groups = np.repeat(range(40), 4)
        within = tied_pairs(rng.choice(4, 160, p=p), groups, groups=groups)
        extreme = extreme_share(rng.normal(size=400), range(400))
        hits += [
            pooled.low < p @ p < pooled.high,
            within.low < p @ p < within.high,
            extreme.low < 0.2785 < extreme.high,
        ]
    assert (hits / runs > [0.92, 0.91, 0.9]).all()  # 95 % asked for; skew with few clusters costs the rest


def test_the_share_of_the_extremes_in_figures() -> None:
    # Nineteen values at 0 and one at 20, mean 1: (19²) of 19² + 19 · 1 is the one farthest value's.
    found = extreme_share([0.0] * 19 + [20.0], range(20))
    assert found.value == pytest.approx(361 / 380)
    # About the mean the top 5 % own 2(zφ(z) + 1 − Φ(z)), z = 1.96, of a normal, and 1 − .95³ of a uniform.
    rng = np.random.default_rng(0)
    assert extreme_share(rng.normal(size=50_000), range(50_000)).value == pytest.approx(0.2785, abs=0.01)
    assert extreme_share(rng.random(50_000), range(50_000)).value == pytest.approx(1 - 0.95**3, abs=0.01)


@given(st.integers(0, 1000), st.floats(0.01, 100), st.floats(-50, 50))
def test_a_linear_change_of_values_changes_no_share_of_the_extremes(seed: int, factor: float, shift: float) -> None:
    x = np.random.default_rng(seed).normal(size=60)
    one, other = extreme_share(x, range(60)), extreme_share(shift - factor * x, range(60))
    assert (other.value, other.low) == (pytest.approx(one.value, rel=1e-6), pytest.approx(one.low, abs=1e-6))


def test_extremes_that_say_nothing_have_a_reason() -> None:
    assert "less than one" in extreme_share([1.0, 2.0], range(2)).why
    assert "equal" in extreme_share([1.0] * 40, range(40)).why


def test_informative_groups_in_figures() -> None:
    x = [0, 0, 0, 1, 1, 1, 0.5, 0.5, 1, 0]
    groups = ["a", "a", "b", "b", "c", "c", "d", "d", "e", "f"]
    found = informative_groups(x, groups)
    assert (found.informative.value, found.informative.n, found.single) == (0.25, 4, 2)
    assert (found.all_lowest, found.all_highest, found.all_between) == (0.25, 0.25, 0.25)
    # Of the eight values in groups of two: 3 zeros, 3 ones, 2 halves.
    assert found.if_alike.value == pytest.approx(1 - (9 + 9 + 4) / 64)


@pytest.mark.parametrize(("p", "n"), [(0.5, 2), (0.1, 8), (0.9, 16)])
def test_the_share_if_prompts_were_alike_is_that_of_binomial_groups(p: float, n: int) -> None:
    total = 2000
    x = np.zeros(total)
    x[: int(p * total)] = 1
    found = informative_groups(np.random.default_rng(0).permutation(x), np.repeat(range(total // n), n))
    assert found.if_alike.value == pytest.approx(1 - p**n - (1 - p) ** n)
    assert found.informative.low < found.if_alike.value < found.informative.high


def test_the_formula_for_prompts_that_are_alike_overstates_what_prompts_of_different_difficulty_give() -> None:
    rng = np.random.default_rng(0)
    easy = rng.beta(0.2, 0.2, 400)
    found = informative_groups((rng.random((400, 8)) < easy[:, None]).ravel().astype(float), np.repeat(range(400), 8))
    assert found.if_alike.value > 0.98
    assert found.informative.high < 0.75


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30))
def test_for_right_and_wrong_it_agrees_with_the_shares_of_groups(successes: list[int]) -> None:
    x = np.array([[i < c for i in range(4)] for c in successes], dtype=float).ravel()
    found, shares = (
        informative_groups(x, np.repeat(range(len(successes)), 4)),
        group_shares(successes, [4] * len(successes)),
    )
    assert found.informative.value == pytest.approx(shares.mixed)
    if 0 < x.mean() < 1:
        assert (found.all_lowest, found.all_highest) == (
            pytest.approx(shares.all_wrong),
            pytest.approx(shares.all_right),
        )


def test_groups_of_one_tell_nothing_of_density() -> None:
    found = informative_groups([0.0, 1.0], ["a", "b"])
    assert (found.informative.value, found.all_lowest, found.single) == (None, None, 2)
    assert isinstance(informative_groups([], []), Density)


def test_the_groups_of_a_cluster_count_as_one() -> None:
    x, groups = np.tile([0.0, 1.0, 0.0, 0.0], 20), np.repeat(range(40), 2)
    found = informative_groups(x, groups, clusters=groups // 4)
    assert (found.informative.n, found.informative.n_clusters) == (40, 10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: value_shares([1], [1], bounds=(2, 1)), "bounds"),
        (lambda: value_shares([3], [1], bounds=(1, 2)), "leave the declared"),
        (lambda: value_shares([np.nan], [1]), "NaN"),
        (lambda: tied_pairs([1, 2], [1, 2], groups=["p", "p"]), "two clusters"),
        (lambda: extreme_share([1], [1], share=0.0), "share"),
        (lambda: informative_groups([1, 2], ["p", "p"], clusters=[1, 2]), "two clusters"),
    ],
)
def test_wrong_arguments_are_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
