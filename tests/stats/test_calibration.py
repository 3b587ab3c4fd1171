"""What the calibration of rewards promises."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.calibration import calibration_curve
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss

from evalkit.stats import (
    cross_fitted_isotonic,
    cross_fitted_log_loss,
    fit_isotonic,
    fit_temperature,
    monotone_violation,
    prediction_powered_mean,
    preference_calibration,
    probability_calibration,
)
from tests.stats.shared_data import load


def planted(temperature: float, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Margins, and outcomes drawn with probability σ(margin / temperature)."""
    rng = np.random.default_rng(seed)
    margins = 3 * rng.normal(size=n)
    return margins, (rng.random(n) < expit(margins / temperature)).astype(float)


def judge(margins, outcomes, **kw):
    return preference_calibration(margins, outcomes, np.arange(len(margins)), **kw)


def test_scores_of_a_planted_model_and_their_oracles() -> None:
    m, y = planted(2.0, 500)
    result = judge(m, y)
    assert result.brier.value == pytest.approx(brier_score_loss(y, expit(m)))
    assert result.log_loss.value == pytest.approx(log_loss(y, expit(m)))
    oracle = sm.Logit(y, sm.add_constant(m)).fit(disp=0)
    assert (result.intercept.value, result.slope.value) == pytest.approx(tuple(oracle.params), rel=1e-5)


def test_knowing_nothing_is_a_quarter_and_log_two() -> None:
    result = judge(np.zeros(4), [0, 1, 1, 0])
    assert (result.brier.value, result.log_loss.value) == pytest.approx((0.25, np.log(2)))
    assert result.reliability.bins[0].accuracy.value == 0.5


def test_the_planted_temperature_lies_in_its_interval_and_mends_the_calibration() -> None:
    m, y = planted(2.0, 4000)
    t = fit_temperature(m, y, np.arange(4000))
    assert t.low < 2.0 < t.high
    assert t.value / t.low == pytest.approx(t.high / t.value)
    fresh, chosen = planted(2.0, 4000, seed=1)
    before, after = judge(fresh, chosen), judge(fresh, chosen, temperature=t.value)
    assert after.log_loss.value < before.log_loss.value
    assert before.slope.high < 1  # overconfident at T = 1
    assert after.slope.low < 1 < after.slope.high
    assert before.reliability.debiased_error > 0.05
    assert after.reliability.error < 1.5 * after.reliability.error_if_calibrated


@given(st.integers(0, 10_000), st.floats(0.01, 100))
def test_the_temperature_scales_with_the_reward(seed: int, factor: float) -> None:
    m, y = planted(2.0, 150, seed)
    t, scaled = fit_temperature(m, y, np.arange(150)), fit_temperature(factor * m, y, np.arange(150))
    assert (scaled.value, scaled.high) == pytest.approx((factor * t.value, factor * t.high), rel=1e-6)


@given(st.integers(0, 10_000))
def test_which_answer_is_called_a_does_not_matter(seed: int) -> None:
    m, y = planted(2.0, 150, seed)
    turned = np.random.default_rng(seed + 1).random(150) < 0.5
    m2, y2 = np.where(turned, -m, m), np.where(turned, 1 - y, y)
    one, two = judge(m, y), judge(m2, y2)
    assert (one.brier.value, one.log_loss.value) == pytest.approx((two.brier.value, two.log_loss.value))
    assert one.reliability.error == pytest.approx(two.reliability.error)
    assert one.reliability.debiased_error == pytest.approx(two.reliability.debiased_error)
    assert fit_temperature(m, y, np.arange(150)).value == pytest.approx(fit_temperature(m2, y2, np.arange(150)).value)


def test_pairs_written_chosen_first_have_a_slope_but_no_intercept() -> None:
    m, y = planted(2.0, 200)
    first = np.where(y == 1, m, -m)
    result = judge(first, np.ones(200))
    assert "same place" in result.intercept.why
    assert result.slope.value == pytest.approx(1 / fit_temperature(m, y, np.arange(200)).value)


def test_a_reward_that_is_always_right_or_mostly_wrong_has_no_temperature() -> None:
    right = fit_temperature([1, 2, 3, 1], np.ones(4), range(4))
    assert (right.value, "separated" in right.why) == (None, True)
    wrong = fit_temperature([-1, -2, 3, -1], np.ones(4), range(4))
    assert (wrong.value, "do not point" in wrong.why) == (None, True)


def test_bins_hold_equal_mass_and_never_part_equal_margins() -> None:
    m, y = planted(1.0, 1000)
    bins = judge(m, y, bins=4).reliability.bins
    assert [b.accuracy.n for b in bins] == [250] * 4
    assert all(b.low <= b.confidence <= b.high for b in bins)
    assert all(left.high < right.low for left, right in itertools.pairwise(bins))
    assert [b.accuracy.n for b in judge([1, 1, 1, 1, 2, 2], np.ones(6), bins=3).reliability.bins] == [4, 2]


def test_the_error_of_calibration_in_figures() -> None:
    # Confidence σ(log 4) = .8 with 6 of 10 right, and σ(log 9) = .9 with 9 of 10: .5 · .2 + .5 · 0.
    m = np.log(np.repeat([4.0, 9.0], 10))
    y = np.concatenate([np.repeat([1.0, 0.0], [6, 4]), np.repeat([1.0, 0.0], [9, 1])])
    table = judge(m, y, bins=2).reliability
    assert [(b.confidence, b.accuracy.value) for b in table.bins] == [
        pytest.approx((0.8, 0.6)),
        pytest.approx((0.9, 0.9)),
    ]
    assert table.error == pytest.approx(0.1)
    # √(2/π) · mean standard error, √(.24/9) and √(.09/9).
    assert table.error_if_calibrated == pytest.approx(np.sqrt(2 / np.pi) * (np.sqrt(0.24 / 9) + 0.1) / 2)
    assert table.debiased_error < 0.1


@pytest.mark.slow
def test_a_calibrated_reward_shows_the_error_expected_of_it_and_half_of_it_debiased() -> None:
    plain, debiased, expected = [], [], []
    for seed in range(300):
        m, y = planted(1.0, 200, seed)
        table = judge(m, y).reliability
        plain.append(table.error)
        debiased.append(table.debiased_error)
        expected.append(table.error_if_calibrated)
    assert np.mean(plain) > 0.05
    assert np.mean(debiased) < 0.6 * np.mean(plain)
    assert np.mean(expected) == pytest.approx(np.mean(plain), rel=0.1)


def test_clusters_repeated_add_no_certainty() -> None:
    m, y = planted(2.0, 60)
    one = preference_calibration(m, y, np.arange(60))
    copies = np.repeat(np.arange(60), 5)
    many = preference_calibration(m[copies], y[copies], copies)
    assert many.brier.half_width == pytest.approx(one.brier.half_width)
    assert many.reliability.error_if_calibrated == pytest.approx(one.reliability.error_if_calibrated, rel=0.1)


@given(st.integers(0, 10_000))
def test_isotonic_is_that_of_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 12, 40) / 4, rng.normal(size=40)
    oracle = IsotonicRegression(out_of_bounds="clip").fit(x, y)
    wanted = np.linspace(-1, 4, 50)
    np.testing.assert_allclose(fit_isotonic(x, y).at(wanted), oracle.predict(wanted), atol=1e-9)


def test_a_cluster_does_not_shape_its_own_calibrated_values() -> None:
    rng = np.random.default_rng(0)
    x, clusters = rng.normal(size=60), np.repeat(range(20), 3)
    y = x + rng.normal(size=60)
    plain = cross_fitted_isotonic(x, y, clusters, rng=np.random.default_rng(1))
    of = clusters == 7
    spoilt = cross_fitted_isotonic(x, np.where(of, 100.0, y), clusters, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(plain.labelled[of], spoilt.labelled[of])
    assert not np.array_equal(plain.curve.labels, spoilt.curve.labels)


def test_coverage_says_how_many_scores_lie_where_labels_are() -> None:
    result = cross_fitted_isotonic([1, 2, 3, 4], [1, 2, 3, 4], range(4), [0, 2, 4, 9], rng=np.random.default_rng(0))
    assert result.coverage == 0.5
    assert result.unlabelled[0] == pytest.approx(np.mean([1, 1, 1, 2]))
    assert cross_fitted_isotonic([1, 2], [1, 2], [1, 2], rng=np.random.default_rng(0)).coverage is None


def test_calibrated_scores_of_topical_chat_sharpen_the_mean_of_eighty_labels() -> None:
    rows = load("unieval", "topical_chat_result.json")
    human = np.array([row["scores"]["overall"] for row in rows])
    score = np.array([row["predict_scores"]["overall"] for row in rows])
    order = np.random.default_rng(1).permutation(360)
    few, rest = order[:80], order[80:]
    calibrated = cross_fitted_isotonic(score[few], human[few], few, score[rest], rng=np.random.default_rng(0))
    result = prediction_powered_mean(human[few], calibrated.labelled, calibrated.unlabelled, few, rest)
    assert calibrated.coverage > 0.95
    assert result.mean.low < 3.1444 < result.mean.high
    assert result.variance_ratio < 0.85


def test_monotone_violation_from_none_to_all() -> None:
    x = np.arange(100.0)
    assert monotone_violation(x, x) == 0.0
    assert monotone_violation(x, -x) == pytest.approx(1.0)
    assert 0 < monotone_violation(x, -((x - 70) ** 2)) < 0.5
    assert monotone_violation(x, np.ones(100)) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: judge([1, 2], [1]), "2 and 1"),
        (lambda: judge([1, 2], [1, 2]), "leave 0 to 1"),
        (lambda: judge([1], [1], temperature=0), "temperature"),
        (lambda: judge([1], [1], bins=0), "bins"),
        (lambda: fit_isotonic([], []), "at least 1"),
        (lambda: cross_fitted_isotonic([1, 2], [1, 2], [1, 1], rng=np.random.default_rng(0)), "two or more"),
        (lambda: cross_fitted_isotonic([1, 2], [1, 2], [1, 2], folds=1, rng=np.random.default_rng(0)), "folds"),
    ],
)
def test_wrong_arguments_are_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def held_out_losses(m, y, clusters, folds, rng):
    """The same folds by hand, T from scikit-learn's unpenalised regression without intercept."""
    fold_of = (rng.permutation(len(set(clusters))) % folds)[clusters]
    losses = np.empty(len(m))
    for fold in range(folds):
        here = fold_of == fold
        fit = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-10).fit(m[~here, None], y[~here])
        losses[here] = -fit.predict_log_proba(m[here, None])[np.arange(here.sum()), y[here].astype(int)]
    return losses


def test_the_temperature_of_other_folds_has_the_loss_of_a_fit_by_hand() -> None:
    m, y = planted(3.0, 300)
    clusters = np.repeat(np.arange(100), 3)
    result = cross_fitted_log_loss(m, y, clusters, rng=np.random.default_rng(4))
    by_hand = held_out_losses(m, y, clusters, 5, np.random.default_rng(4))
    assert result.value == pytest.approx(by_hand.mean(), rel=1e-5)
    assert result.n_clusters == 100
    in_sample = judge(m, y, temperature=fit_temperature(m, y, clusters).value).log_loss.value
    assert in_sample < result.value < judge(m, y).log_loss.value


def test_one_cluster_or_a_fold_without_exception_has_no_loss_of_other_folds() -> None:
    one = cross_fitted_log_loss([1, 2], [1, 0], ["a", "a"], rng=np.random.default_rng(0))
    assert (one.value, "two clusters" in one.why) == (None, True)
    apart = cross_fitted_log_loss([1, 2, 1, 2], np.ones(4), range(4), rng=np.random.default_rng(0))
    assert (apart.value, "separated" in apart.why) == (None, True)


def test_probabilities_and_their_oracles() -> None:
    z, y = planted(0.5, 500)
    p = expit(z)
    result = probability_calibration(p, y, np.arange(500))
    assert result.brier.value == pytest.approx(brier_score_loss(y, p))
    assert result.log_loss.value == pytest.approx(log_loss(y, p))
    assert result.bias.value == pytest.approx(p.mean() - y.mean())
    oracle = sm.Logit(y, sm.add_constant(z)).fit(disp=0)
    assert (result.intercept.value, result.slope.value) == pytest.approx(tuple(oracle.params), rel=1e-5)
    assert result.certain_wrong.value is None
    shares, means = calibration_curve(y, p, n_bins=10, strategy="quantile")
    bins = result.reliability.bins
    assert [b.confidence for b in bins] == pytest.approx(means)
    assert [b.accuracy.value for b in bins] == pytest.approx(shares)


def test_certain_probabilities_in_figures() -> None:
    # Ten said to be sure, two of them wrong; ten at one half.
    p, y = np.repeat([1.0, 0.5], 10), np.concatenate([np.repeat([1.0, 0.0], [8, 2]), np.tile([1.0, 0.0], 5)])
    result = probability_calibration(p, y, np.arange(20), bins=2)
    assert (result.brier.value, result.bias.value) == pytest.approx(((2 + 2.5) / 20, 0.1))
    assert result.certain_wrong.value == 0.2
    assert (result.log_loss.value, result.log_loss.why) == (
        None,
        "2 of 20 probabilities are 0 or 1 and wrong: the loss is infinite",
    )
    assert result.slope.why == "10 of 20 probabilities are 0 or 1; their log odds are infinite"
    assert result.reliability.error == pytest.approx(0.1)  # half the items at .2, half at 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: probability_calibration([0.5], [1, 0], [1]), "1 and 2"),
        (lambda: probability_calibration([1.5], [1], [1]), "leave 0 to 1"),
        (lambda: probability_calibration([0.5], [0.5], [1]), "expected 0 and 1"),
        (lambda: probability_calibration([0.5], [1], [1], bins=0), "bins"),
        (lambda: cross_fitted_log_loss([1], [1], [1], folds=1, rng=np.random.default_rng(0)), "folds"),
    ],
)
def test_wrong_probabilities_are_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
