"""What the alternative annotator test promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from evalkit.stats import alt_test
from tests.stats.shared_data import pandalm

X = np.nan


def reference(ratings: np.ndarray, judge: np.ndarray, epsilon: float, score) -> tuple[float, float]:
    """ω and ρ item by item, after the text of Calderon et al. 2025, sections 3 and 4, for the independent case."""
    p_values, advantages = [], []
    for j in range(ratings.shape[1]):
        judges, humans = [], []
        for row, label in zip(ratings, judge, strict=True):
            others = [v for k, v in enumerate(row) if k != j and not np.isnan(v)]
            if np.isnan(row[j]) or np.isnan(label) or not others:
                continue
            judges.append(score(label, others) >= score(row[j], others))
            humans.append(score(row[j], others) >= score(label, others))
        if len(judges) < 30:
            continue
        d = np.array(humans, float) - np.array(judges, float)
        p_values.append(ttest_1samp(d, epsilon, alternative="less").pvalue)
        advantages.append(np.mean(judges))
    m = len(p_values)
    harmonic = sum(1 / i for i in range(1, m + 1))
    passing = [i for i, p in enumerate(sorted(p_values), 1) if p <= i / m * 0.05 / harmonic]
    return max(passing, default=0) / m, float(np.mean(advantages))


def equal(label: float, others: list[float]) -> float:
    return float(np.mean([label == other for other in others]))


def rmse(label: float, others: list[float]) -> float:
    return -float(np.sqrt(np.mean([(label - other) ** 2 for other in others])))


@given(st.integers(0, 10_000), st.sampled_from(["equal", "rmse"]), st.sampled_from([0.1, 0.2]))
def test_independent_items_give_the_test_of_the_paper(seed: int, closeness: str, epsilon: float) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.integers(1, 6, 60)
    ratings = np.where(rng.random((60, 4)) < 0.6, truth[:, None], rng.integers(1, 6, (60, 4))).astype(float)
    ratings[rng.random((60, 4)) < 0.2] = X
    judge = np.where(rng.random(60) < 0.6, truth, rng.integers(1, 6, 60)).astype(float)
    judge[0] = X
    result = alt_test(ratings, judge, epsilon=epsilon, closeness=closeness)
    omega, rho = reference(ratings, judge, epsilon, {"equal": equal, "rmse": rmse}[closeness])
    assert (result.winning_rate, result.advantage.value) == (pytest.approx(omega), pytest.approx(rho))
    assert result.passed == (omega >= 0.5)


def test_both_judges_of_pandalm_fail_although_they_are_right_seven_times_in_ten() -> None:
    data = pandalm()
    unread = np.where(np.isnan(data.gpt), -1, data.gpt)
    for judge, rho in ((unread, 0.7411), (data.pandalm, 0.7147)):
        for epsilon in (0.1, 0.15, 0.2):
            result = alt_test(data.humans, judge, epsilon=epsilon, clusters=data.instruction)
            assert (result.winning_rate, result.passed) == (0.0, False)
            assert result.advantage.value == pytest.approx(rho, abs=5e-5)
            assert result.advantage.n_clusters == 170


def test_rows_repeated_within_their_clusters_are_no_new_evidence() -> None:
    rng = np.random.default_rng(6)
    truth = rng.integers(0, 2, 40)
    ratings = np.where(rng.random((40, 3)) < 0.8, truth[:, None], 1 - truth[:, None])
    judge = np.where(rng.random(40) < 0.8, truth, 1 - truth)
    once = alt_test(ratings, judge, epsilon=0.2)
    copies = np.repeat(range(40), 4)
    again = alt_test(ratings[copies], judge[copies], epsilon=0.2, clusters=copies)
    naive = alt_test(ratings[copies], judge[copies], epsilon=0.2)
    for first, second, third in zip(once.annotators, again.annotators, naive.annotators, strict=True):
        assert second.p == pytest.approx(first.p)
        assert third.p < first.p or first.p > 0.5
    assert again.advantage.half_width == pytest.approx(once.advantage.half_width)


def test_a_judge_that_never_loses_wins_by_an_exact_bound_and_only_with_enough_clusters() -> None:
    labels = np.tile([1, 2, 3], 20)
    same = np.stack([labels] * 3, axis=1)
    result = alt_test(same, labels, epsilon=0.2)
    assert (result.winning_rate, result.advantage.value) == (1.0, 1.0)
    assert result.annotators[0].p == pytest.approx(0.8**60)
    few = alt_test(same, labels, epsilon=0.2, clusters=np.arange(60) % 4)
    assert few.winning_rate == 0.0
    assert few.annotators[0].p == pytest.approx(0.8**4)
    assert alt_test(same, labels, epsilon=0.0).annotators[0].p == 1.0


def test_an_annotator_with_too_few_items_is_not_tested_and_says_why() -> None:
    ratings = np.tile([[1.0, 1.0, X], [2.0, 1.0, X]], (20, 1))
    ratings[:10, 2] = 1
    result = alt_test(ratings, np.tile([1.0, 2.0], 20), epsilon=0.2)
    assert (result.annotators[2].p, result.annotators[2].why) == (None, "10 items; 30 are needed for a test")
    assert "2 of 3 annotators" in result.advantage.method
    nobody = alt_test(ratings[:4], [1, 2, 1, 2], epsilon=0.2)
    assert (nobody.winning_rate, nobody.passed, nobody.advantage.value) == (None, None, None)


def test_one_cluster_cannot_be_tested() -> None:
    result = alt_test(np.ones((40, 2)), np.ones(40), epsilon=0.2, clusters=np.zeros(40))
    assert result.annotators[0].p is None
    assert "one cluster" in result.annotators[0].why


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: alt_test([[1, 2]], [1, 2], epsilon=0.2), "2 values for 1 items"),
        (lambda: alt_test([[1, 2]], [1], epsilon=1.0), "epsilon"),
        (lambda: alt_test([[1, 2]], [1], epsilon=0.2, closeness="cosine"), "closeness"),
        (lambda: alt_test([[1, 2]], ["x"], epsilon=0.2), "judge"),
    ],
)
def test_wrong_arguments_are_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
