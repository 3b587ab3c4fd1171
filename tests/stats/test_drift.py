"""What two scorings of the same items promise to say of the scorer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from evalkit.stats import drift


def seeded() -> np.random.Generator:
    return np.random.default_rng(0)


def test_a_scorer_that_did_not_move_shows_nothing() -> None:
    x = seeded().normal(size=50)
    found = drift(x, x, range(50), rng=seeded())
    assert (found.shift.value, found.changed.value, found.shift_test.p) == (0.0, 0.0, 1.0)
    assert (found.distributions.statistic, found.distributions.p) == (0.0, 1.0)


def test_a_shift_of_every_item_is_found_though_it_has_no_interval() -> None:
    x = seeded().normal(size=50)
    found = drift(x, x + 0.25, range(50), rng=seeded())
    assert found.shift.value == pytest.approx(0.25)
    assert (found.changed.value, found.shift_test.p) == (1.0, pytest.approx(1 / 1001))


def test_a_spread_that_changed_about_an_equal_mean_is_found_by_the_distributions_alone() -> None:
    x = seeded().normal(size=400)
    found = drift(x, 3 * x, range(400), rng=seeded())
    assert found.shift_test.p > 0.05
    assert found.distributions.p < 0.01


@given(st.integers(0, 10_000))
def test_the_distance_is_that_of_scipy_with_ties_and_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 5, 30), rng.integers(1, 6, 30)
    found = drift(a, b, range(30), rng=rng, draws=1).distributions
    assert found.statistic == pytest.approx(ks_2samp(a, b).statistic)


@given(st.integers(0, 1000))
def test_exchanging_the_scorings_turns_the_shift_and_nothing_else(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=20), rng.normal(size=20)
    one, other = (drift(x, y, range(20), rng=np.random.default_rng(1), draws=20) for x, y in ((a, b), (b, a)))
    assert other.shift.value == pytest.approx(-one.shift.value)
    assert (other.shift_test.p, other.distributions.p, other.changed.value) == (
        one.shift_test.p, one.distributions.p, one.changed.value,
    )  # fmt: skip


@pytest.mark.slow
def test_noise_of_a_scorer_is_rarely_called_drift_even_where_clusters_move_together() -> None:
    rng, runs = np.random.default_rng(2), 300
    clusters, called = np.repeat(range(30), 5), np.zeros(2)
    for _ in range(runs):
        a, b = (rng.normal(size=30)[clusters] + 0.3 * rng.normal(size=150) for _ in range(2))
        found = drift(a, b, clusters, rng=rng, draws=199)
        called += [found.shift_test.p <= 0.05, found.distributions.p <= 0.05]
    assert (called / runs < 0.085).all()


def test_one_item_or_none_say_nothing() -> None:
    none = drift([], [], [], rng=seeded())
    assert (none.shift.value, none.distributions.p) == (None, None)
    one = drift([1.0], [2.0], ["a"], rng=seeded())
    assert (one.shift.value, one.shift.low, one.shift_test.p) == (1.0, None, 1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], [1, 2], [1]), "1 and 2"),
        (([np.nan], [1], [1]), "before"),
        (([1], [1], [None]), "None"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        drift(*arguments, rng=seeded())
