"""What the correction for attenuation promises."""

from __future__ import annotations

import numpy as np
import pytest

from evalkit.stats import corrected_for_attenuation, icc

X = np.nan


def planted(n: int, true: float, rng: np.random.Generator, *, repeats: int = 1, raters: int = 3):
    """Standard normal truth of reward and people correlated `true`; ratings and repeated draws with normal errors."""
    human = rng.normal(size=n)
    reward = true * human + np.sqrt(1 - true**2) * rng.normal(size=n)
    noise = 1.0 if repeats > 1 else 0.0
    return reward[:, None] + noise * rng.normal(size=(n, repeats)), human[:, None] + rng.normal(size=(n, raters))


def test_the_planted_correlation_comes_back() -> None:
    reward, ratings = planted(40_000, 0.6, np.random.default_rng(3), repeats=2)
    result = corrected_for_attenuation(reward, ratings)
    # Reliability of a mean of three with error variance 1: 1 / (1 + 1/3); of two: 1 / (1 + 1/2).
    assert result.human_reliability.value == pytest.approx(3 / 4, abs=0.01)
    assert result.reward_reliability.value == pytest.approx(2 / 3, abs=0.01)
    assert result.ceiling.value == pytest.approx(np.sqrt(3 / 4), abs=0.01)
    assert result.observed.value == pytest.approx(0.6 * np.sqrt(3 / 4 * 2 / 3), abs=0.01)
    assert result.corrected.value == pytest.approx(0.6, abs=0.015)


def test_in_figures() -> None:
    ratings = [[1, 3], [2, 2], [5, 3], [6, 6]]
    result = corrected_for_attenuation([1, 2, 3, 4], ratings)
    # Means 2, 2, 4, 6: covariance with 1..4 sums to 7, squares 5 and 11.
    observed = 7 / np.sqrt(5 * 11)
    assert result.observed.value == pytest.approx(observed)
    # Between items 2·11/3 = 22/3; residual: differences −2, 0, 2, 0 around their mean 0 → 8/2/3 = 4/3; 1 − (4/3)/(22/3).
    assert result.human_reliability.value == pytest.approx(9 / 11)
    assert result.reward_reliability is None
    assert result.ceiling.value == pytest.approx(np.sqrt(9 / 11))
    assert result.corrected.value is None  # .9439 / .9045 > 1
    assert "1.043" in result.corrected.why


def test_a_value_above_one_is_no_value_and_its_number_is_told() -> None:
    rng = np.random.default_rng(0)
    ratings = planted(60, 1.0, rng, raters=2)[1]
    # The reward knows the raters' errors: more correlated with their mean than any truth could be.
    result = corrected_for_attenuation(ratings.mean(axis=1), ratings, rng=rng, draws=200)
    assert result.observed.value == pytest.approx(1.0)
    assert (result.corrected.value, result.corrected.low, result.corrected.high) == (None, None, None)
    assert "share errors" in result.corrected.why
    assert "interval" in result.corrected.why


def test_the_interval_ends_at_one() -> None:
    reward, ratings = planted(60, 0.9, np.random.default_rng(3), raters=2)
    result = corrected_for_attenuation(reward, ratings, rng=np.random.default_rng(1), draws=500)
    assert result.corrected.low < result.corrected.value < 1
    assert result.corrected.high == 1.0
    assert result.ceiling.low < result.ceiling.value < result.ceiling.high


def test_a_strict_rater_weakens_nothing_in_form_three() -> None:
    rng = np.random.default_rng(4)
    reward, ratings = planted(300, 0.5, rng)
    shifted = ratings + np.array([0, -2, 5])
    plain, strict = corrected_for_attenuation(reward, ratings), corrected_for_attenuation(reward, shifted)
    assert strict.corrected.value == pytest.approx(plain.corrected.value)
    other = corrected_for_attenuation(reward, shifted, form="1,k")
    assert other.human_reliability.value == pytest.approx(icc(shifted, form="1,k").value)
    assert other.human_reliability.value < strict.human_reliability.value


def test_repeats_of_whole_clusters_narrow_nothing() -> None:
    reward, ratings = planted(60, 0.6, np.random.default_rng(2))
    copies = {"clusters": np.repeat(range(60), 5), "draws": 400}
    alone = corrected_for_attenuation(reward, ratings, rng=np.random.default_rng(1), draws=400)
    repeated = corrected_for_attenuation(
        np.repeat(reward, 5, axis=0), np.repeat(ratings, 5, axis=0), rng=np.random.default_rng(1), **copies
    )
    assert repeated.corrected.n_clusters == 60
    assert repeated.corrected.half_width == pytest.approx(alone.corrected.half_width, rel=0.05)


def test_incomplete_items_are_left_out_and_counted() -> None:
    reward, ratings = planted(20, 0.6, np.random.default_rng(2))
    more = corrected_for_attenuation([*reward[:, 0], 1.0, X], [*ratings, [1, X, 1], [1, 1, 1]])
    assert more.corrected.value == corrected_for_attenuation(reward, ratings).corrected.value
    assert "20 of 22 items complete" in more.corrected.method


def test_labels_without_reliability_correct_nothing() -> None:
    opposed = [[1, 4], [2, 3], [3, 2], [4.5, 1]]
    result = corrected_for_attenuation([1, 2, 3, 4], opposed)
    assert result.corrected.value is None
    assert "not above 0" in result.corrected.why
    constant = corrected_for_attenuation([1, 1, 1], [[1, 2], [2, 2], [3, 4]])
    assert constant.observed.value is None
    assert constant.corrected.why == "the correlation is undefined"
    nothing = corrected_for_attenuation([X, X], [[1, 2], [2, 2]])
    assert (nothing.observed.value, nothing.corrected.n) == (None, 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: corrected_for_attenuation([1, 2], [[1, 2]]), "2 and 1 items"),
        (lambda: corrected_for_attenuation([1], [[1, 2]], form="2,1"), "form"),
        (lambda: corrected_for_attenuation([[[1]]], [[1, 2]]), "reward"),
        (lambda: corrected_for_attenuation([np.inf], [[1, 2]]), "infinite"),
    ],
)
def test_wrong_arguments_are_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
