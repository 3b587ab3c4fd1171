"""What the missing could have been."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.stats import Bounds, mean_bounds


def test_missing_ones_take_the_ends_of_the_range() -> None:
    # τ-bench airline: 84 successes on 195 verdicts of 200.
    bounds = mean_bounds(84, 195, 200, 0, 1)
    assert bounds == Bounds(pytest.approx(0.42), pytest.approx(0.445))
    assert mean_bounds(1.0, 2, 4, -1, 3) == Bounds(-0.25, 1.75)


def test_nothing_missing_leaves_the_mean_and_all_missing_the_range() -> None:
    assert mean_bounds(3, 4, 4, 0, 1) == Bounds(0.75, 0.75)
    assert mean_bounds(0, 0, 4, -1, 2) == Bounds(-1, 2)


def test_a_sum_that_passes_the_end_by_rounding_is_a_sum_within_the_range() -> None:
    total = 0.1 + 0.2
    assert total > 0.3
    assert mean_bounds(total, 1, 2, 0, 0.3) == Bounds(pytest.approx(0.15), pytest.approx(0.3))


def test_an_open_range_gives_an_open_bound_only_when_something_is_missing() -> None:
    assert mean_bounds(6, 3, 4, 0, math.inf) == Bounds(1.5, math.inf)
    assert mean_bounds(6, 3, 3, -math.inf, math.inf) == Bounds(2.0, 2.0)


@given(st.lists(st.floats(0, 1), max_size=20), st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_whatever_the_missing_were_the_mean_lies_within(seen: list[float], missing: list[float]) -> None:
    n = len(seen) + len(missing)
    bounds = mean_bounds(sum(seen), len(seen), n, 0, 1)
    assert bounds.low - 1e-9 <= (sum(seen) + sum(missing)) / n <= bounds.high + 1e-9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0, 0, 0, 1), "n_planned"),
        ((1, 5, 4, 0, 1), "n_scored"),
        ((0, -1, 4, 0, 1), "n_scored"),
        ((0, 1, 2, 1, 0), "low and high"),
        ((0, 1, 2, math.nan, 1), "low and high"),
        ((3, 2, 4, 0, 1), "total"),
        ((-0.5, 2, 4, 0, 1), "total"),
        ((math.nan, 2, 4, 0, 1), "total"),
        ((0.5, 0, 4, 0, 1), "total"),
    ],
)
def test_impossible_counts_are_refused(arguments: tuple[float, int, int, float, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mean_bounds(*arguments)
