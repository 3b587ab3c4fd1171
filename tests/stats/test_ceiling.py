"""What the human ceiling promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.stats import accuracy, aggregate_labels, cluster_mean, leave_one_annotator_out
from tests.stats.shared_data import pandalm

X = np.nan


@pytest.mark.parametrize(
    ("tie", "expected"),
    [
        ("missing", [1, X, 3, X, X]),
        ("lowest", [1, 1, 3, 2, X]),
        ("highest", [1, 2, 3, 6, X]),
        ("mean", [1, 1.5, 3, 4, X]),
    ],
)
def test_labels_that_share_the_majority_follow_the_declared_rule(tie: str, expected: list[float]) -> None:
    ratings = [[1, 1, 2], [1, 2, X], [3, X, X], [2, 4, 6], [X, X, X]]
    result = aggregate_labels(ratings, "majority", tie)
    np.testing.assert_array_equal(result.labels, expected)
    assert result.ratings.tolist() == [3, 2, 1, 3, 0]
    assert result.tied.tolist() == [False, True, False, True, False]


def test_mean_and_median_leave_missing_ratings_out() -> None:
    ratings = [[1, 2, 6], [1, X, 4], [X, X, X]]
    np.testing.assert_array_equal(aggregate_labels(ratings, "mean").labels, [3, 2.5, X])
    np.testing.assert_array_equal(aggregate_labels(ratings, "median").labels, [2, 2.5, X])


def test_no_item_of_pandalm_lacks_a_majority() -> None:
    result = aggregate_labels(pandalm().humans, "majority")
    assert not result.tied.any()
    assert [np.count_nonzero(result.labels == label) for label in (0, 1, 2)] == [105, 422, 472]  # as its README


def test_the_leave_one_out_agreement_of_pandalms_annotators() -> None:
    data = pandalm()
    each = leave_one_annotator_out(data.humans, data.pandalm, against="each")
    assert [a.human.value for a in each.annotators] == pytest.approx([0.9209, 0.9154, 0.9234], abs=5e-5)
    assert each.human.value == pytest.approx((0.912913 + 0.928929 + 0.917918) / 3, abs=1e-6)


def test_the_ceiling_of_pandalm_where_the_others_agree_beside_two_judges() -> None:
    data = pandalm()
    unread = np.where(np.isnan(data.gpt), -1, data.gpt)  # an unread verdict agrees with nobody
    gpt = leave_one_annotator_out(data.humans, unread)
    judge = leave_one_annotator_out(data.humans, data.pandalm)
    assert [a.human.n for a in gpt.annotators] == [917, 928, 912]
    assert [a.human.value for a in gpt.annotators] == pytest.approx([0.9586, 0.9472, 0.9638], abs=5e-5)
    assert [a.reward.value for a in gpt.annotators] == pytest.approx([0.7099, 0.7134, 0.7127], abs=5e-5)
    assert [a.reward.value for a in judge.annotators] == pytest.approx([0.6794, 0.6821, 0.6743], abs=5e-5)


def test_items_without_a_reward_are_left_out_for_both() -> None:
    data = pandalm()
    result = leave_one_annotator_out(data.humans, data.gpt).annotators[0]
    both = ~np.isnan(data.gpt) & (data.humans[:, 1] == data.humans[:, 2])
    assert (result.rated, result.human.n) == (999, np.count_nonzero(both))
    assert result.human.value == accuracy(data.humans[both, 0], data.humans[both, 1])
    assert result.reward.value == accuracy(data.gpt[both], data.humans[both, 1])


def test_the_difference_is_paired_and_its_interval_moves_whole_clusters() -> None:
    data = pandalm()
    rng = np.random.default_rng(1)
    clustered = leave_one_annotator_out(data.humans, data.pandalm, clusters=data.instruction, rng=rng)
    alone = leave_one_annotator_out(data.humans, data.pandalm, rng=np.random.default_rng(1))
    difference = clustered.difference
    assert difference.value == pytest.approx(clustered.reward.value - clustered.human.value)
    assert difference.high < 0  # PandaLM-7B is below its annotators
    assert difference.n_clusters == 170
    assert difference.half_width > 1.3 * alone.difference.half_width  # design effect about 2.4


@given(st.integers(0, 10_000))
def test_a_reward_that_copies_an_annotator_is_as_good_as_that_annotator(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ratings = rng.integers(1, 4, (30, 4)).astype(float)
    ratings[rng.random((30, 4)) < 0.2] = X
    for against in ("majority", "median", "mean", "each"):
        held_out = leave_one_annotator_out(ratings, ratings[:, 2], against=against).annotators[2]
        assert held_out.difference.value in (0.0, None)
        assert held_out.human.value == held_out.reward.value


def test_any_agreement_can_be_given_and_where_it_is_undefined_there_is_no_value() -> None:
    ratings = [[1, 1, 1], [1, 2, 2], [1, 3, 3], [1, 4, 5]]

    def correlation(a: np.ndarray, b: np.ndarray, rows: np.ndarray) -> float:
        return float(np.corrcoef(a, b)[0, 1]) if a.std() > 0 and b.std() > 0 else X

    result = leave_one_annotator_out(ratings, [1, 2, 3, 4], agreement=correlation, against="mean")
    first, second, _ = result.annotators
    assert first.human.value is None  # the first annotator is constant
    assert "undefined on these 4 items" in first.human.why
    # correlation of 1, 2, 3, 4 with the means 1, 1.5, 2, 3: 3.25 / √(5 · 2.1875)
    assert second.human.value == pytest.approx(3.25 / np.sqrt(5 * 2.1875))
    assert "2 of 3 annotators" in result.human.method
    assert "correlation" in result.human.method


def test_two_annotators_have_no_group_of_others_but_each_other() -> None:
    ratings = [[1, 1], [1, 2]]
    assert "no item" in leave_one_annotator_out(ratings, [1, 1]).human.why
    assert leave_one_annotator_out(ratings, [1, 1], against="each").human.value == 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: aggregate_labels([[1, 2]], "mode"), "rule"),
        (lambda: aggregate_labels([[1, 2]], "majority", "random"), "tie"),
        (lambda: leave_one_annotator_out([[1, 2, 3]], [1, 2]), "2 values for 1 items"),
        (lambda: leave_one_annotator_out([[1, 2, 3]], ["a"]), "reward"),
        (lambda: leave_one_annotator_out([[1, 2, 3]], [1], against="mode"), "against"),
    ],
)
def test_wrong_arguments_are_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_the_error_of_an_accuracy_is_that_of_a_clustered_mean() -> None:
    data = pandalm()
    of_mean = cluster_mean((data.pandalm == data.humans[:, 0]).astype(float), data.instruction)
    ratings = np.column_stack([data.humans[:, 0], data.humans[:, 0], data.humans[:, 0]])  # the others are one person
    held_out = leave_one_annotator_out(
        ratings, data.pandalm, clusters=data.instruction, rng=np.random.default_rng(0)
    ).annotators[0]
    assert held_out.reward.value == of_mean.value
    assert held_out.reward.half_width == pytest.approx(of_mean.half_width, rel=0.15)  # 100 blocks of 170 clusters
