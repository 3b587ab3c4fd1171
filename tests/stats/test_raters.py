"""What the agreement of raters promises."""

from __future__ import annotations

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.stats import fleiss_kappa, icc, krippendorff_alpha
from tests.stats.shared_data import load, pandalm

X = np.nan
# Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section C: four observers, twelve units.
KRIPPENDORFF = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, X, X, X],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, X, 3],
        [X, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, X],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, X],
    ]
).T
# Fleiss 1971 as in Wikipedia, "Fleiss' kappa": ten items, fourteen raters, five categories.
FLEISS = [
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
]
# Shrout & Fleiss 1979, table 2: six targets, four judges.
SHROUT_FLEISS = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]


@pytest.mark.parametrize(
    ("scale", "expected"),
    [("nominal", 904 / 1216), ("ordinal", 0.815388), ("interval", 0.849107), ("ratio", 0.797403)],
)
def test_alpha_is_krippendorffs_own_example(scale: str, expected: float) -> None:
    estimate = krippendorff_alpha(KRIPPENDORFF, scale=scale)
    assert estimate.value == pytest.approx(expected, abs=1e-6)
    assert (estimate.n, estimate.n_clusters) == (40, 11)  # the twelfth unit has one rating


@given(st.integers(0, 10_000), st.sampled_from(["nominal", "ordinal", "interval", "ratio"]))
def test_alpha_is_that_of_the_krippendorff_package(seed: int, scale: str) -> None:
    rng = np.random.default_rng(seed)
    ratings = rng.integers(1, 5, size=(12, 3)).astype(float)
    ratings[rng.random(ratings.shape) < 0.2] = np.nan
    ratings[0], ratings[1] = 1, 2
    expected = krippendorff.alpha(reliability_data=ratings.T, level_of_measurement=scale)
    assert krippendorff_alpha(ratings, scale=scale).value == pytest.approx(expected, abs=1e-9)


def test_an_annotator_who_rated_nothing_changes_nothing() -> None:
    wider = np.column_stack([KRIPPENDORFF, np.full(12, np.nan)])
    for scale in ("nominal", "ordinal", "interval", "ratio"):
        assert krippendorff_alpha(wider, scale=scale).value == krippendorff_alpha(KRIPPENDORFF, scale=scale).value


def test_alpha_of_one_value_or_of_single_ratings_is_undefined_not_one() -> None:
    one = krippendorff_alpha([[3, 3], [3, 3]], scale="nominal")
    assert one.value is None
    assert "all 4 pairable ratings are 3" in one.why
    single = krippendorff_alpha([[3, np.nan], [np.nan, 4]], scale="interval")
    assert (single.value, single.why) == (None, "no item has two ratings")


def test_the_interval_of_alpha_moves_whole_clusters() -> None:
    rng = np.random.default_rng(5)
    truth = rng.integers(0, 3, 60)
    ratings = np.where(rng.random((60, 3)) < 0.8, truth[:, None], rng.integers(0, 3, (60, 3)))
    alone = krippendorff_alpha(ratings, scale="nominal", rng=np.random.default_rng(1))
    # Every item six times in its own cluster: no new evidence, so the same interval up to Monte Carlo error.
    copies = np.repeat(ratings, 6, axis=0)
    repeated = krippendorff_alpha(
        copies, scale="nominal", clusters=np.repeat(range(60), 6), rng=np.random.default_rng(1)
    )
    naive = krippendorff_alpha(copies, scale="nominal", rng=np.random.default_rng(1))
    assert repeated.half_width == pytest.approx(alone.half_width, rel=0.02)
    assert naive.half_width < 0.6 * alone.half_width
    assert alone.low < alone.value < alone.high


def test_fleiss_kappa_is_the_textbook_example() -> None:
    estimate = fleiss_kappa(FLEISS)
    assert (estimate.value, estimate.n) == (pytest.approx(0.2099307, abs=1e-7), 140)


def test_fleiss_kappa_of_one_category_is_undefined_and_unequal_raters_are_refused() -> None:
    assert "one category" in fleiss_kappa([[3, 0], [3, 0]]).why
    with pytest.raises(ValueError, match="2 to 3 ratings"):
        fleiss_kappa([[3, 0], [1, 1]])


@pytest.mark.parametrize(
    ("form", "expected"),
    [("1,1", 0.165742), ("2,1", 0.289764), ("3,1", 0.714841), ("1,k", 0.442797), ("2,k", 0.620051), ("3,k", 0.909316)],
)
def test_icc_is_shrout_and_fleiss_example_and_its_interval_pingouins(form: str, expected: float) -> None:
    estimate = icc(SHROUT_FLEISS, form=form)
    assert (estimate.value, estimate.n_clusters) == (pytest.approx(expected, abs=1e-6), 6)
    # Intervals as given by pingouin 0.7 for these data, to two decimals.
    ends = {
        "1,1": (-0.13, 0.72),
        "2,1": (0.02, 0.76),
        "3,1": (0.34, 0.95),
        "1,k": (-0.88, 0.91),
        "2,k": (0.07, 0.93),
        "3,k": (0.68, 0.99),
    }[form]
    assert (estimate.low, estimate.high) == pytest.approx(ends, abs=0.0051)


def test_icc_leaves_out_incomplete_items_and_says_so() -> None:
    estimate = icc([*SHROUT_FLEISS, [1, np.nan, 1, 1]], form="2,1")
    assert estimate.value == pytest.approx(0.289764, abs=1e-6)
    assert "6 of 7 items complete" in estimate.method


def test_icc_of_constant_ratings_is_undefined_and_of_perfect_ones_has_no_interval() -> None:
    assert icc([[2, 2], [2, 2]], form="1,1").value is None
    perfect = icc([[1, 1], [2, 2], [3, 3]], form="2,1")
    assert (perfect.value, perfect.low) == (1.0, None)
    assert "error mean square is 0" in perfect.why


@pytest.mark.parametrize(("benchmark", "expected"), [("mt_bench_eval", 0.851), ("vicuna_eval", 0.808)])
def test_three_gpt4_scores_of_prometheus_have_the_recomputed_reliability(benchmark: str, expected: float) -> None:
    scores = [row["gpt4_score"] for row in load("prometheus_repeats", "gpt4_three_scores.json")[benchmark]]
    assert icc(scores, form="1,1").value == pytest.approx(expected, abs=5e-4)


def test_the_annotators_of_pandalm_agree_as_recomputed() -> None:
    humans = pandalm().humans
    order = np.where(humans == 0, 1.5, humans)  # first better < tie < second better
    assert krippendorff_alpha(humans, scale="nominal").value == pytest.approx(0.864221, abs=1e-6)
    assert krippendorff_alpha(order, scale="ordinal").value == pytest.approx(0.877464, abs=1e-6)
    assert krippendorff_alpha(order, scale="interval").value == pytest.approx(0.877217, abs=1e-6)
    counts = np.stack([(humans == label).sum(axis=1) for label in (0, 1, 2)], axis=1)
    assert fleiss_kappa(counts).value == pytest.approx(0.864175, abs=1e-6)
