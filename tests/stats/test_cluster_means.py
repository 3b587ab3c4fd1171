"""What a mean and its interval promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from evalkit.stats import (
    Estimate,
    cluster_mean,
    cluster_standard_error,
    independent_standard_error,
    undefined,
)
from evalkit.stats.clusters import clusters_of, joined

numbers = st.floats(-100, 100).map(lambda x: round(x, 3))
observations = st.lists(st.tuples(numbers, st.integers(0, 6)), min_size=1, max_size=40)


def test_a_small_case_by_hand() -> None:
    # ȳ = 2.5; cluster sums of deviations −2, 0, 2 → CR0² = 8/36; CR1² = 8/36 · 3/2 = 1/3; t(2) at 95 % = 4.302653.
    estimate = cluster_mean([1, 2, 2, 3, 3, 4], ["a", "a", "b", "b", "c", "c"])
    assert cluster_standard_error([1, 2, 2, 3, 3, 4], [1, 1, 2, 2, 3, 3], "CR0") == pytest.approx(math.sqrt(8) / 6)
    assert cluster_standard_error([1, 2, 2, 3, 3, 4], [1, 1, 2, 2, 3, 3], "CR1") == pytest.approx(math.sqrt(1 / 3))
    assert estimate.value == 2.5
    assert estimate.low == pytest.approx(2.5 - 4.302653 * math.sqrt(1 / 3), abs=1e-6)
    assert estimate.high == pytest.approx(2.5 + 4.302653 * math.sqrt(1 / 3), abs=1e-6)


def test_the_level_sets_the_width() -> None:
    # t(2) at 90 % = 2.919986
    estimate = cluster_mean([1, 2, 2, 3, 3, 4], [0, 0, 1, 1, 2, 2], level=0.9)
    assert estimate.half_width == pytest.approx(2.919986 * math.sqrt(1 / 3), abs=1e-6)
    assert "90 %" in estimate.method


def test_standard_errors_are_those_of_statsmodels() -> None:
    rng = np.random.default_rng(5)
    clusters = rng.integers(0, 12, 90)
    values = rng.normal(size=90) + rng.normal(size=12)[clusters]
    for correction, kind in ((True, "CR1"), (False, "CR0")):
        fit = sm.OLS(values, np.ones(90)).fit(
            cov_type="cluster", cov_kwds={"groups": clusters, "use_correction": correction, "df_correction": True}
        )
        assert cluster_standard_error(values, clusters, kind) == pytest.approx(fit.bse[0], rel=1e-10)
    low, high = (
        sm.OLS(values, np.ones(90)).fit(cov_type="cluster", cov_kwds={"groups": clusters}, use_t=True).conf_int()[0]
    )
    estimate = cluster_mean(values, clusters)
    assert (estimate.low, estimate.high) == (pytest.approx(low), pytest.approx(high))


@given(st.lists(numbers, min_size=2, max_size=30).filter(lambda values: max(values) - min(values) > 0.01))
def test_clusters_of_one_give_the_t_interval(values: list[float]) -> None:
    interval = ttest_1samp(values, 0).confidence_interval(0.95)
    estimate = cluster_mean(values, range(len(values)))
    assert estimate.low == pytest.approx(interval.low, abs=1e-6)
    assert estimate.high == pytest.approx(interval.high, abs=1e-6)


@given(observations, st.randoms(use_true_random=False))
def test_neither_order_nor_names_of_clusters_matter(rows: list[tuple[float, int]], random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    before = cluster_mean([v for v, _ in rows], [c for _, c in rows])
    after = cluster_mean([v for v, _ in shuffled], [f"cluster {9 - c}" for _, c in shuffled])
    assert after.value == pytest.approx(before.value, abs=1e-9)
    assert (after.low is None) == (before.low is None)
    if before.low is not None:
        assert (after.low, after.high) == (pytest.approx(before.low, abs=1e-6), pytest.approx(before.high, abs=1e-6))


@given(observations)
def test_an_interval_is_never_empty_and_without_one_there_is_a_reason(rows: list[tuple[float, int]]) -> None:
    estimate = cluster_mean([v for v, _ in rows], [c for _, c in rows], bounds=(-100, 100))
    assert (estimate.half_width is None) == bool(estimate.why)
    if estimate.low is not None and estimate.high is not None:
        assert -100 <= estimate.low < estimate.high <= 100
        assert estimate.low <= estimate.value <= estimate.high


def test_all_wrong_gives_the_exact_interval_with_n_clusters() -> None:
    # Clopper–Pearson, 0 of 20: upper end 1 − .025^(1/20) = .1684; the 80 values are 20 observations.
    estimate = cluster_mean([0] * 80, np.repeat(np.arange(20), 4), bounds=(0, 1))
    assert (estimate.value, estimate.low) == (0.0, 0.0)
    assert estimate.high == pytest.approx(0.16843, abs=5e-6)
    assert "Clopper–Pearson" in estimate.method
    assert "n = 20 clusters" in estimate.method
    assert estimate.why == ""


def test_all_right_mirrors_it_and_is_scaled_to_the_range() -> None:
    estimate = cluster_mean([3.0] * 20, range(20), bounds=(-1, 3))
    assert (estimate.value, estimate.high) == (3.0, 3.0)
    assert estimate.low == pytest.approx(3 - 4 * 0.16843, abs=2e-5)


def test_a_weighted_sum_that_misses_the_end_by_rounding_is_at_the_end() -> None:
    just_below, just_above = 0.7 + 0.2 + 0.1, 0.1 + 0.2
    assert just_below < 1.0
    assert just_above > 0.3
    assert cluster_mean([just_below] * 20, range(20), bounds=(0, 1)).high == 1.0
    assert cluster_mean([just_above, 0.0, just_above], range(3), bounds=(0, 0.3)).high == 0.3


def test_a_range_may_be_open() -> None:
    open_above = cluster_mean([0, 0, 0, 0, 1], range(5), bounds=(0, math.inf))
    assert (open_above.low, open_above.high) == (0.0, cluster_mean([0, 0, 0, 0, 1], range(5)).high)
    for constant in (0, 2):
        assert cluster_mean([constant] * 3, [1, 2, 3], bounds=(0, math.inf)).half_width is None


def test_a_constant_inside_the_range_or_without_one_has_no_interval() -> None:
    for bounds in ((0.0, 1.0), None):
        estimate = cluster_mean([0.1, 0.1, 0.1], [1, 2, 3], bounds=bounds)
        assert (estimate.value, estimate.low, estimate.high, estimate.half_width) == (0.1, None, None, None)
        assert "all 3 values are equal" in estimate.why


def test_equal_cluster_means_have_no_interval_even_when_rounding_differs() -> None:
    estimate = cluster_mean([0.1, 0.2, 0.3, 0.3, 0.2, 0.1], [0, 0, 0, 1, 1, 1])
    assert estimate.value == pytest.approx(0.2)
    assert estimate.half_width is None
    assert "means of all 2 clusters are equal" in estimate.why


def test_one_cluster_has_a_value_and_no_interval() -> None:
    for values in ([0, 1, 1], [1, 1, 1]):
        estimate = cluster_mean(values, ["same"] * 3, bounds=(0, 1))
        assert estimate.value == pytest.approx(sum(values) / 3)
        assert estimate.half_width is None
        assert "one cluster" in estimate.why


def test_no_values_have_no_mean() -> None:
    estimate = cluster_mean([], [], bounds=(0, 1))
    assert (estimate.value, estimate.low, estimate.high, estimate.n, estimate.n_clusters) == (None, None, None, 0, 0)
    assert estimate.why == "no values"


def test_the_interval_is_clipped_to_the_range() -> None:
    values = [0, 0, 0, 0, 1]
    unclipped, clipped = cluster_mean(values, range(5)), cluster_mean(values, range(5), bounds=(0, 1))
    assert unclipped.low is not None
    assert unclipped.low < 0
    assert (clipped.low, clipped.high) == (0.0, unclipped.high)
    top = cluster_mean([1, 1, 1, 1, 0], range(5), bounds=(0, 1))
    assert top.high == 1.0


def test_standard_errors_need_two_clusters() -> None:
    assert math.isnan(cluster_standard_error([], [], "CR1"))
    assert math.isnan(cluster_standard_error([0, 1], [7, 7], "CR0"))
    assert math.isnan(independent_standard_error([1.0]))


def test_the_independent_standard_error_of_successes_is_the_binomial_one() -> None:
    assert independent_standard_error([1] * 3 + [0] * 7) == pytest.approx(math.sqrt(0.3 * 0.7 / 10))


def test_a_missing_value_is_an_error_that_counts() -> None:
    with pytest.raises(ValueError, match="1 of 3 values are NaN"):
        cluster_mean([1.0, math.nan, 0.0], [1, 2, 3])


@pytest.mark.parametrize("labels", [[1, 2, None], ["a", None, "b"], [1.0, math.nan, 2.0], ["a", math.nan, "b"]])
def test_a_missing_label_is_not_a_cluster(labels: list[object]) -> None:
    with pytest.raises(ValueError, match="a label is"):
        cluster_mean([1, 0, 1], labels)


def test_objects_may_be_labels_and_equal_ones_are_one_cluster() -> None:
    labels = np.empty(4, dtype=object)
    labels[:] = [("3", 5), ("3", 5), 7, "x"]
    assert cluster_mean([0, 1, 1, 0], labels).n_clusters == 3


@pytest.mark.parametrize(
    ("values", "clusters", "options", "message"),
    [
        ([1, 0], [1], {}, "clusters: expected shape"),
        ([[1, 0]], [1, 2], {}, "values: expected one dimension"),
        (["1", "0"], [1, 2], {}, "values: expected numbers"),
        ([1, 0], [1, 2], {"level": 1.0}, "level"),
        ([1, 0], [1, 2], {"bounds": (1, 1)}, "bounds"),
        ([1, 2], [1, 2], {"bounds": (0, 1)}, "leave the declared range"),
        ([1, -1], [1, 2], {"bounds": (0, 1)}, "leave the declared range"),
    ],
)
def test_wrong_arguments_are_named(values: list[object], clusters: list[int], options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cluster_mean(values, clusters, **options)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="CR2"):
        cluster_standard_error([1, 0], [1, 2], "CR2")  # type: ignore[arg-type]


def test_half_width_is_half_the_interval_or_none() -> None:
    assert Estimate(0.5, 0.25, 1.0, 4, 4, "m").half_width == 0.375
    assert undefined(3, 1, "m", "because") == Estimate(None, None, None, 3, 1, "m", "because")


@pytest.mark.slow
def test_the_interval_covers_the_mean_of_clustered_data() -> None:
    rng = np.random.default_rng(20)
    covered = 0
    clusters = np.repeat(np.arange(25), 4)
    for _ in range(1000):
        estimate = cluster_mean(rng.normal(size=25)[clusters] + rng.normal(size=100), clusters)
        assert estimate.low is not None
        assert estimate.high is not None
        covered += estimate.low <= 0 <= estimate.high
    assert 930 <= covered <= 970  # 950 ± 3 binomial standard errors


def test_joined_clusters_keep_both_whole_and_no_more() -> None:
    prompts = clusters_of(["a", "a", "b", "b", "c", "c"], 6)
    assert joined(clusters_of(range(6), 6), prompts).codes.tolist() == [0, 0, 1, 1, 2, 2]  # every sample its own
    assert joined(clusters_of([1, 1, 1, 1, 2, 2], 6), prompts).codes.tolist() == [0, 0, 0, 0, 1, 1]  # nested
    assert joined(clusters_of([1, 2, 2, 3, 4, 4], 6), prompts).codes.tolist() == [0, 0, 0, 0, 1, 1]  # a chain
    chain = joined(clusters_of(np.arange(100) // 2, 100), clusters_of((np.arange(100) + 1) // 2, 100))
    assert chain.count == 1
