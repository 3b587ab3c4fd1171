"""What the control of length promises."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from evalkit.stats import (
    aggregate_labels,
    controlled_preference,
    controlled_win_rate,
    length_explains,
    length_preference,
    matched_by_length,
)
from tests.stats.shared_data import load, pandalm


def outcome(labels: np.ndarray) -> np.ndarray:
    """0 tie, 1 the first, 2 the second → ½, 1, 0; an unread verdict prefers neither."""
    return np.select([labels == 1, labels == 2], [1.0, 0.0], 0.5)


def pandalm_lengths() -> tuple[np.ndarray, np.ndarray]:
    rows = load("pandalm", "testset-v1.json")
    return tuple(np.array([len(str(row[key])) for row in rows]) for key in ("response1", "response2"))


def planted(seed: int, n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """People care for quality alone; the reward sees quality and length; longer answers are better ones."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=n)
    length = 100 * (0.6 * quality + rng.normal(size=n))
    people = (rng.random(n) < expit(quality)).astype(float)
    return people, quality + 0.02 * length, length, rng.integers(0, 60, n)


def test_the_length_preference_of_people_and_judges_in_pandalm() -> None:
    data, (a, b) = pandalm(), pandalm_lengths()
    people = outcome(aggregate_labels(data.humans, "majority").labels)
    gpt = length_preference(people, outcome(data.gpt), a, b, data.instruction)
    judge = length_preference(people, outcome(data.pandalm), a, b, data.instruction)
    assert (gpt.human.value, gpt.human.n) == (pytest.approx(0.675, abs=5e-4), 887)
    assert gpt.reward.value == pytest.approx(0.619, abs=5e-4)
    assert judge.reward.value == pytest.approx(0.655, abs=5e-4)
    assert gpt.difference.high < 0  # a judge far above one half, yet less fond of length than its annotators
    assert gpt.difference.n < 887


def test_more_than_half_of_an_agreement_that_is_length_goes_with_it() -> None:
    rng = np.random.default_rng(0)
    length, quality = rng.normal(size=(2, 600))
    human = length + 0.3 * quality + 0.3 * rng.normal(size=600)
    padded = length_explains(length + 0.3 * rng.normal(size=600), human, length, range(600), kind="spearman")
    assert padded.alone.low > 0.5
    assert padded.past_half.low > 0
    assert padded.past_half.value == pytest.approx(padded.alone.value / 2 - padded.held.value)
    sound = length_explains(quality, human, length, range(600), kind="spearman")
    assert sound.past_half.high < 0
    same = length_explains(length, human, length, range(600), kind="spearman")
    assert "determine x" in same.past_half.why


def test_half_of_an_agreement_past_length_has_the_interval_of_the_cluster_bootstrap() -> None:
    rng = np.random.default_rng(4)
    clusters = np.repeat(range(100), 4)
    length = np.repeat(rng.normal(size=100), 4) + rng.normal(size=400)
    reward, human = length + rng.normal(size=400), length + rng.normal(size=400)
    for kind in ("pearson", "spearman"):
        found = length_explains(reward, human, length, clusters, kind=kind)
        drawn = []
        for _ in range(300):
            rows = (4 * rng.integers(0, 100, 100)[:, None] + np.arange(4)).ravel()
            drawn.append(
                length_explains(reward[rows], human[rows], length[rows], range(400), kind=kind).past_half.value
            )
        low, high = np.quantile(drawn, [0.025, 0.975])
        assert found.past_half.half_width == pytest.approx((high - low) / 2, rel=0.2)


@given(st.integers(0, 10_000))
def test_coefficients_are_those_of_statsmodels(seed: int) -> None:
    people, margin, length, clusters = planted(seed)
    result = controlled_preference(people, margin, {"length": length, "place": np.ones(300)}, clusters)
    x = np.column_stack([margin, length, np.ones(300)])
    x = x / np.sqrt((x**2).mean(axis=0))
    oracle = sm.Logit(people, x).fit(disp=0, cov_type="cluster", cov_kwds={"groups": clusters}, use_t=True)
    low, high = oracle.conf_int().T
    found = [result.controlled, *result.covariates.values()]
    assert [e.value for e in found] == pytest.approx(list(oracle.params), abs=1e-6)
    assert [e.low for e in found] == pytest.approx(list(low), rel=0.02, abs=0.02)  # its t has n − k degrees of freedom
    assert [e.high for e in found] == pytest.approx(list(high), rel=0.02, abs=0.02)


def test_what_length_lent_to_the_reward_goes_when_length_is_held_fixed() -> None:
    rng = np.random.default_rng(0)
    length = rng.normal(size=4000)
    people = (rng.random(4000) < expit(length)).astype(float)
    result = controlled_preference(people, length + rng.normal(size=4000), {"length": length}, range(4000))
    assert result.alone.low > 0.4
    assert result.controlled.low < 0 < result.controlled.high
    assert result.covariates["length"].value == pytest.approx(1.0, abs=0.15)


@given(st.integers(0, 10_000))
def test_which_answer_is_called_a_does_not_matter(seed: int) -> None:
    people, margin, length, clusters = planted(seed)
    turned = np.where(np.random.default_rng(seed).random(300) < 0.5, -1, 1)
    one = controlled_preference(people, margin, {"length": length}, clusters)
    two = controlled_preference(
        np.where(turned < 0, 1 - people, people), turned * margin, {"length": turned * length}, clusters
    )
    assert (one.controlled.value, one.controlled.low) == pytest.approx((two.controlled.value, two.controlled.low))


def test_a_covariate_that_follows_from_the_others_is_refused() -> None:
    people, margin, length, clusters = planted(1)
    result = controlled_preference(people, margin, {"length": length, "words": length / 5}, clusters)
    assert "determined by the others" in result.controlled.why
    assert result.alone.value is not None
    assert "0 everywhere" in controlled_preference(people, margin, {"headers": np.zeros(300)}, clusters).controlled.why


def test_a_win_rate_without_covariates_is_the_share_of_wins() -> None:
    wins = np.repeat([1.0, 0.5, 0.0], [60, 20, 20])
    assert controlled_win_rate(wins, {}, range(100)).value == pytest.approx(0.7)


def test_a_model_that_wins_by_length_alone_wins_half_at_equal_length() -> None:
    rng = np.random.default_rng(3)
    longer = rng.normal(1.0, 1.0, 5000)
    wins = (rng.random(5000) < expit(longer)).astype(float)
    assert wins.mean() > 0.65
    rate = controlled_win_rate(wins, {"length": longer}, range(5000))
    assert rate.low < 0.5 < rate.high
    assert "equal length" in rate.method
    assert controlled_win_rate(np.ones(50), {}, range(50)).value is None


def test_pairs_match_within_the_tolerance_and_the_rest_is_beside_them() -> None:
    result = matched_by_length([1, 0, 1, 1, 0], [100, 100, 100, 0, 50], [90, 110, 80, 0, 100], range(5))
    assert (result.matched.value, result.matched.n) == (pytest.approx(2 / 3), 3)  # 10 %, 9.1 %, and two empty answers
    assert (result.apart.value, result.coverage) == (0.5, 0.6)
    nothing = matched_by_length([1, 0], [1, 1], [2, 2], range(2))
    assert (nothing.matched.value, nothing.coverage) == (None, 0.0)
    assert "within 10%" in nothing.matched.why


def test_agreement_of_pandalm_where_lengths_match() -> None:
    data, (a, b) = pandalm(), pandalm_lengths()
    right = data.pandalm == aggregate_labels(data.humans, "majority").labels
    result = matched_by_length(right, a, b, data.instruction)
    assert result.matched.n + result.apart.n == 999
    share = result.coverage
    assert share * result.matched.value + (1 - share) * result.apart.value == pytest.approx(0.6677, abs=5e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: length_preference([1], [1], [1, 2], [1], [1]), "pair them first"),
        (lambda: length_preference([2], [1], [1], [1], [1]), "human: 2 to 2 leave 0 to 1"),
        (lambda: controlled_preference([1], [1], {"length": [1, 2]}, [1]), "2 length"),
        (lambda: matched_by_length([1], [-1], [1], [1]), "negative"),
        (lambda: matched_by_length([1], [1], [1], [1], tolerance=-1), "tolerance"),
    ],
)
def test_wrong_arguments_are_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
