"""How completions of an item, and items of a cluster, hang together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.stats import GroupShares, design_effect, group_shares


def test_groups_by_outcome() -> None:
    assert group_shares([0, 0, 1, 3, 4], [4, 2, 4, 4, 4]) == GroupShares(0.4, 0.4, 0.2, 5)


def test_items_without_completions_are_left_out() -> None:
    assert group_shares([0, 0, 1, 2], [0, 2, 1, 2]) == GroupShares(1 / 3, 0.0, 2 / 3, 3)
    assert group_shares([0], [0]) == GroupShares(None, None, None, 0)


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="item 0 has more successes than trials"):
        group_shares([2], [1])


def test_copies_multiply_the_variance_by_their_number() -> None:
    # Every value four times: 4 · (1 − 1/(4·G)) / (1 − 1/G) with both variances CR1, here G = 5 → 4.75.
    values = np.repeat([1.0, 2.0, 4.0, 7.0, 11.0], 4)
    assert design_effect(values, np.repeat(np.arange(5), 4)) == pytest.approx(4.75)


@given(st.lists(st.integers(-5, 5), min_size=2, max_size=30).filter(lambda values: len(set(values)) > 1))
def test_clusters_of_one_have_a_design_effect_of_one(values: list[int]) -> None:
    assert design_effect(values, range(len(values))) == pytest.approx(1.0)


def test_values_that_balance_within_clusters_have_less_variance() -> None:
    assert design_effect([0, 1, 0, 1], [0, 0, 1, 1]) == 0.0


def test_it_is_undefined_with_one_cluster_or_no_variation() -> None:
    assert design_effect([], []) is None
    assert design_effect([0, 1], [3, 3]) is None
    assert design_effect([0.1, 0.1, 0.1], [1, 2, 3]) is None
    assert design_effect([0, 0, 0], [1, 2, 3]) is None
