"""What corrected human-scale figures promise."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtr, stdtrit
from scipy.stats import ttest_ind

from evalkit.stats import chosen_by_value, cluster_mean, prediction_powered_mean, rogan_gladen
from tests.stats.shared_data import load

with warnings.catch_warnings():  # ppi_py silences all warnings of the process when imported
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate


def own(n: int) -> np.ndarray:
    return np.arange(n)


def apart(n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    return own(n), n + own(m)


def correlated(seed: int, n: int = 40, m: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n + m)
    predicted = truth + rng.normal(size=n + m)
    return truth[:n], predicted[:n], predicted[n:]


def topical_chat() -> tuple[np.ndarray, np.ndarray]:
    rows = load("unieval", "topical_chat_result.json")
    human = np.array([row["scores"]["overall"] for row in rows])
    return human, np.array([row["predict_scores"]["overall"] for row in rows])


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.3, 1.0, -2.0]))
def test_a_given_power_gives_the_value_and_error_of_ppi_python(seed: int, power: float) -> None:
    y, f, u = correlated(seed)
    result = prediction_powered_mean(y, f, u, *apart(40, 200), power=power).mean
    assert result.value == pytest.approx(ppi_mean_pointestimate(y, f, u, lam=power)[0])
    low, high = ppi_mean_ci(y, f, u, alpha=0.05, lam=power)
    error = (high[0] - low[0]) / 2 / 1.959964
    # The oracle: normal quantile, no factor for few clusters.
    assert result.half_width == pytest.approx(error * np.sqrt(40 / 39) * stdtrit(39, 0.975), rel=1e-6)


def test_topical_chat_with_eighty_labels_as_recomputed() -> None:
    human, predicted = topical_chat()
    order = np.random.default_rng(1).permutation(360)
    few, rest = order[:80], order[80:]
    assert human.mean() == pytest.approx(3.1444, abs=5e-5)

    def run(power: float | None, values: np.ndarray):
        return prediction_powered_mean(human[few], values[few], values[rest], few, rest, power=power)

    def error(estimate) -> float:
        return estimate.half_width / stdtrit(79, 0.975)

    classical = run(None, predicted).classical
    assert (classical.value, error(classical)) == pytest.approx((2.9917, 0.1378), abs=5e-5)
    # Raw scores of 0 to 1.6 against labels of 1 to 5: ppi-python clips λ to 1 and gains less than it could.
    clipped = run(1.0, predicted).mean
    assert (clipped.value, error(clipped)) == pytest.approx((3.0259, 0.1211), abs=5e-5)
    # With the labels' spread its λ is .474. Our factor for few clusters is that of the labels for both parts.
    rescaled = run(0.474, predicted * human.std() / predicted.std()).mean
    assert (rescaled.value, error(rescaled)) == pytest.approx((3.0602, 0.1153), abs=1e-4)
    free = run(None, predicted)  # λ without the own cluster, so slightly wider
    assert (free.mean.value, error(free.mean)) == pytest.approx((3.0602, 0.1153), abs=0.0015)
    assert free.power == pytest.approx(0.474 * human.std() / predicted.std(), rel=0.03)
    assert free.variance_ratio == pytest.approx((0.1162 / 0.1378) ** 2, abs=0.002)


@given(st.integers(0, 10_000), st.floats(0.01, 100), st.floats(-50, 50))
def test_the_scale_of_the_predictions_does_not_matter(seed: int, factor: float, shift: float) -> None:
    y, f, u = correlated(seed)
    plain = prediction_powered_mean(y, f, u, *apart(40, 200))
    moved = prediction_powered_mean(y, factor * f + shift, factor * u + shift, *apart(40, 200))
    assert (moved.mean.value, moved.mean.high) == pytest.approx((plain.mean.value, plain.mean.high), abs=1e-9)
    assert moved.power == pytest.approx(plain.power / factor, rel=1e-6)


def test_power_zero_is_the_classical_mean() -> None:
    y, f, u = correlated(3)
    result = prediction_powered_mean(y, f, u, *apart(40, 200), power=0)
    assert (result.mean.value, result.mean.low) == pytest.approx((y.mean(), cluster_mean(y, own(40)).low))
    assert result.variance_ratio == pytest.approx(1)


def test_perfect_predictions_give_the_mean_of_all_items() -> None:
    y, _, u = correlated(4)
    result = prediction_powered_mean(y, y, u, *apart(40, 200))
    assert result.mean.value == pytest.approx(np.concatenate([y, u]).mean())
    assert result.power == pytest.approx(200 / 240)


def test_constant_predictions_leave_the_classical_mean() -> None:
    y, _, _ = correlated(4)
    result = prediction_powered_mean(y, np.ones(40), np.ones(200), *apart(40, 200))
    assert (result.power, result.mean.value) == (0.0, pytest.approx(y.mean()))


def test_no_labels_or_no_predictions_are_said() -> None:
    assert prediction_powered_mean([], [], [1, 2], [], [1, 2]).mean.value is None
    alone = prediction_powered_mean([1, 2], [1, 2], [], [1, 2], [])
    assert alone.mean.value == 1.5
    assert "no predictions beyond" in alone.mean.method


def test_repeated_rows_of_a_cluster_narrow_nothing_and_shared_clusters_are_seen() -> None:
    y, f, u = correlated(5)
    once = prediction_powered_mean(y, f, u, *apart(40, 200))
    labelled, rest = np.repeat(own(40), 3), np.repeat(40 + own(200), 3)
    again = prediction_powered_mean(np.repeat(y, 3), np.repeat(f, 3), np.repeat(u, 3), labelled, rest)
    assert (again.mean.value, again.mean.half_width) == pytest.approx((once.mean.value, once.mean.half_width))
    # The same 40 clusters in both parts, their luck shared: predictions then cannot cancel what is common to both.
    shared = prediction_powered_mean(y, f, np.tile(f, 5), own(40), np.tile(own(40), 5))
    ignored = prediction_powered_mean(y, f, np.tile(f, 5), *apart(40, 200))
    assert shared.mean.value == pytest.approx(y.mean(), abs=0.05)
    assert shared.mean.half_width > 1.1 * ignored.mean.half_width


@pytest.mark.slow
def test_the_interval_covers_in_nineteen_of_twenty_samples_with_clusters() -> None:
    rng, hits, runs = np.random.default_rng(2), 0, 2000
    for _ in range(runs):
        cluster = rng.normal(size=80)
        codes = np.repeat(range(80), 5)
        truth = cluster[codes] + rng.normal(size=400)
        predicted = 2 * truth + rng.normal(size=400) + 1
        few = codes < 20
        result = prediction_powered_mean(truth[few], predicted[few], predicted[~few], codes[few], codes[~few]).mean
        hits += result.low < 0 < result.high
    assert 0.935 < hits / runs < 0.97


def test_rogan_gladen_in_figures() -> None:
    labels = np.repeat([1, 0], [50, 100])
    judged = np.concatenate([np.repeat([1, 0], [40, 10]), np.repeat([1, 0], [10, 90])])
    result = rogan_gladen(labels, judged, np.repeat([1, 0], [300, 700]), *apart(150, 1000))
    assert (result.sensitivity.value, result.specificity.value, result.apparent.value) == pytest.approx((0.8, 0.9, 0.3))
    assert result.rate.value == pytest.approx(0.2 / 0.7)
    # Delta method: (p q / m + θ² se(1 − se) / n1 + (1 − θ)² sp(1 − sp) / n0) / J².
    theta = 0.2 / 0.7
    variance = (0.3 * 0.7 / 1000 + theta**2 * 0.8 * 0.2 / 50 + (1 - theta) ** 2 * 0.9 * 0.1 / 100) / 0.7**2
    assert result.rate.half_width == pytest.approx(np.sqrt(variance * 150 / 149) * stdtrit(149, 0.975))
    assert (result.rate.n, result.rate.n_clusters) == (1000, 150)


def test_a_perfect_judge_corrects_nothing_yet_its_unseen_errors_widen_the_interval() -> None:
    labels, unlabelled = np.tile([1, 0], 15), np.tile([1, 0, 0, 0], 250)
    result = rogan_gladen(labels, labels, unlabelled, *apart(30, 1000))
    assert result.rate.value == pytest.approx(0.25)
    naive = cluster_mean(unlabelled, own(1000))
    assert result.rate.half_width > 2 * naive.half_width


def test_a_weak_judge_is_refused() -> None:
    labels = np.tile([1, 0], 50)
    judged = np.concatenate([np.tile([1, 1], 21), np.tile([0, 0], 21), np.tile([1, 0], 8)])
    result = rogan_gladen(labels, judged, judged, *apart(100, 100))
    assert result.rate.value is None
    assert "0.160, below 0.2" in result.rate.why
    assert result.sensitivity.value == pytest.approx(0.58)


def test_a_label_that_does_not_occur_is_refused() -> None:
    result = rogan_gladen([1, 1], [1, 0], [1, 0], *apart(2, 2))
    assert "no labelled failure" in result.rate.why
    assert result.specificity.value is None


def test_a_rate_beyond_the_range_is_put_at_its_end_and_told() -> None:
    labels = np.repeat([1, 0], [50, 50])
    judged = np.concatenate([np.repeat([1, 0], [45, 5]), np.repeat([1, 0], [10, 40])])
    rate = rogan_gladen(labels, judged, np.repeat([1, 0], [10, 90]), *apart(100, 100)).rate
    assert (rate.value, rate.low) == (0.0, 0.0)
    assert "-0.1429 put at 0" in rate.method
    assert rate.high > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rogan_gladen([1, 2], [1, 0], [1], [1, 2], [1]), "labels: expected true/false"),
        (lambda: rogan_gladen([1, 0], [1], [1], [1, 2], [1]), "2 and 1"),
        (lambda: prediction_powered_mean([1, 0], [1, 0], [1], [1, 2], [None]), "a label is None"),
        (lambda: prediction_powered_mean([1, 0], [1, 0], [np.nan], [1, 2], [1]), "unlabelled_predicted"),
        (lambda: prediction_powered_mean([1, 0], [1, 0], [1], [1, 2], [1], level=95), "level"),
    ],
)
def test_wrong_arguments_are_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_a_choice_by_value_is_an_ordinary_t_test_where_every_item_is_a_cluster() -> None:
    rng = np.random.default_rng(0)
    f, u = rng.normal(size=200), rng.normal(size=200)
    found = chosen_by_value(f, u, *apart(200, 200))
    middle = np.median(np.concatenate([f, u]))
    tests = [ttest_ind(f, u), ttest_ind(np.abs(f - middle), np.abs(u - middle))]
    assert abs(found.statistic) == pytest.approx(max(abs(t.statistic) for t in tests), rel=1e-2)
    assert found.p == pytest.approx(min(1, 2 * min(t.pvalue for t in tests)), rel=0.05)


@pytest.mark.parametrize(
    ("pick", "rises"),
    [(lambda x: -x, True), (lambda x: x, False), (lambda x: -np.abs(x), True)],
    ids=["highest", "lowest", "extremes"],
)
def test_labels_that_went_by_value_are_seen(pick, rises: bool) -> None:
    values = np.random.default_rng(1).normal(size=300)
    few, rest = np.split(np.argsort(pick(values)), [60])
    found = chosen_by_value(values[few], values[rest], few, rest)
    assert found.p < 1e-6
    assert (found.statistic > 0) == rises


def test_a_random_choice_is_suspected_once_in_twenty() -> None:
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(1000):
        codes = np.repeat(np.arange(120), 2)
        values = rng.normal(size=120)[codes] + rng.normal(size=240)
        few = np.isin(codes, rng.permutation(120)[:40])
        hits += chosen_by_value(values[few], values[~few], codes[few], codes[~few]).p < 0.05
    assert 0.02 < hits / 1000 < 0.075


def test_two_values_are_tested_once_and_equal_ones_not_at_all() -> None:
    few, rest = np.repeat([1, 0], [20, 20]), np.repeat([1, 0], [30, 70])
    share = chosen_by_value(few, rest, *apart(40, 100))
    error = np.sqrt((few.var() / 40 + rest.var() / 100) * 40 / 39)
    assert share.statistic == pytest.approx(0.2 / error)
    assert share.p == pytest.approx(2 * stdtr(39, -share.statistic))
    same = chosen_by_value(np.ones(5), np.ones(9), *apart(5, 9))
    assert (same.p, same.why) == (None, "the values show no variation")
    assert chosen_by_value([1], [2, 3], [1], [2, 3]).p is None


@pytest.mark.slow
def test_twenty_labels_with_a_skewed_spread_are_covered_in_nineteen_of_twenty_samples_or_nearly() -> None:
    rng, runs = np.random.default_rng(7), 2000

    def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
        tail = rng.exponential(size=n)
        return np.clip(np.round(1 + 1.2 * tail), 1, 5), tail + 0.9 * rng.exponential(size=n)

    truth = draw(1_000_000)[0].mean()
    hits = 0
    for _ in range(runs):
        (y, f), (_, u) = draw(20), draw(200)
        mean = prediction_powered_mean(y, f, u, *apart(20, 200)).mean
        hits += mean.low < truth < mean.high
    assert hits / runs > 0.925


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.3])
def test_a_judge_corrected_by_twenty_labels_covers_at_least_as_often_as_it_says(share: float) -> None:
    rng, hits, given = np.random.default_rng(8), 0, 0

    def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
        good = rng.random(n) < share
        return good, np.where(good, rng.random(n) < 0.85, rng.random(n) < 0.2)

    for _ in range(1000):
        (y, f), (_, u) = draw(20), draw(200)
        rate = rogan_gladen(y, f, u, *apart(20, 200)).rate
        if rate.low is not None:
            given += 1
            hits += rate.low <= share <= rate.high
    assert given > 900
    assert hits / given > 0.95
