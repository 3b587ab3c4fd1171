"""What maj@k promises."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.stats import maj_at_k

small_items = st.tuples(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.integers(0, 3)).filter(
    lambda item: 0 < sum(item[0]) + item[1] <= 10
)


def by_enumeration(counts: list[int], correct: int, k: int, n_abstained: int) -> float:
    """Every subset of k completions, voted on one by one."""
    completions = [answer for answer, count in enumerate(counts) for _ in range(count)] + [None] * n_abstained
    chances = []
    for subset in combinations(completions, k):
        votes = Counter(answer for answer in subset if answer is not None)
        most = max(votes.values(), default=0)
        winners = [answer for answer, count in votes.items() if count == most]
        chances.append(1 / len(winners) if correct in winners else 0.0)
    return float(np.mean(chances))


@given(small_items, st.data())
def test_it_is_the_mean_over_all_subsets(item: tuple[list[int], int], data: st.DataObject) -> None:
    counts, abstained = item
    correct = data.draw(st.integers(0, len(counts) - 1))
    k = data.draw(st.integers(1, sum(counts) + abstained))
    expected = by_enumeration(counts, correct, k, abstained)
    assert maj_at_k(counts, correct, k, n_abstained=abstained) == pytest.approx(expected, abs=1e-10)


def test_literal_values() -> None:
    assert maj_at_k([2, 2], 0, 4) == pytest.approx(0.5)  # a tie of two
    assert maj_at_k([1, 1, 1], 1, 3) == pytest.approx(1 / 3)  # a tie of three
    assert maj_at_k([3, 1], 0, 3) == pytest.approx(1.0)  # at least two of three are right
    assert maj_at_k([3, 2], 0, 5) == pytest.approx(1.0)
    assert maj_at_k([2, 3], 0, 5) == pytest.approx(0.0)


def test_with_one_draw_it_is_the_share_of_right_completions() -> None:
    assert maj_at_k([3, 4, 2], 0, 1, n_abstained=1) == pytest.approx(0.3)


def test_an_abstention_takes_a_draw_and_has_no_vote() -> None:
    # One right, one abstained: of two draws the one vote decides; of one draw it is there half the time.
    assert maj_at_k([1], 0, 2, n_abstained=1) == pytest.approx(1.0)
    assert maj_at_k([1], 0, 1, n_abstained=1) == pytest.approx(0.5)
    assert maj_at_k([], None, 2, n_abstained=2) == 0.0


def test_an_answer_nobody_gave_never_wins() -> None:
    assert maj_at_k([3, 2], None, 2) == 0.0
    assert maj_at_k([3, 0], 1, 2) == 0.0


def test_fewer_than_k_completions_are_nan_abstentions_included() -> None:
    assert math.isnan(maj_at_k([2, 1], 0, 4))
    assert math.isnan(maj_at_k([2, 1], None, 4))
    assert maj_at_k([2, 1], 0, 4, n_abstained=1) == pytest.approx(1.0)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6), st.integers(0, 6), st.integers(1, 40))
def test_the_answers_and_no_vote_at_all_share_out_all_chance(counts: list[int], abstained: int, k: int) -> None:
    n = sum(counts) + abstained
    if n < k:
        return
    total = sum(maj_at_k(counts, answer, k, n_abstained=abstained) for answer in range(len(counts)))
    no_vote = math.comb(abstained, k) / math.comb(n, k)
    assert total + no_vote == pytest.approx(1.0, abs=1e-9)


@given(st.permutations([5, 3, 3, 1, 1]))
def test_the_order_of_the_answers_does_not_matter(counts: list[int]) -> None:
    assert maj_at_k(counts, counts.index(5), 6) == pytest.approx(maj_at_k([5, 3, 3, 1, 1], 0, 6), abs=1e-12)


def test_thousands_of_completions_neither_overflow_nor_vanish() -> None:
    # Two answers and an odd k: the majority is the larger half, a hypergeometric tail; by symmetry .5 for equal counts.
    assert maj_at_k([2000, 2000], 0, 101) == pytest.approx(0.5, abs=1e-9)
    assert maj_at_k([1] * 64, 0, 64) == pytest.approx(1 / 64, abs=1e-12)


@pytest.mark.parametrize(
    ("counts", "correct", "k", "abstained", "message"),
    [
        ([1, 2], 0, 0, 0, "k ≥ 1"),
        ([1, -2], 0, 1, 0, "negative"),
        ([1, 2], 2, 1, 0, "not an index"),
        ([1, 2], -1, 1, 0, "not an index"),
        ([1, 2], 0, 1, -1, "n_abstained"),
        ([1.5], 0, 1, 0, "whole"),
    ],
)
def test_wrong_counts_are_refused(counts, correct, k, abstained, message) -> None:
    with pytest.raises(ValueError, match=message):
        maj_at_k(counts, correct, k, n_abstained=abstained)
