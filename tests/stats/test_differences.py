"""Differences of agreement are those of the agreements themselves, and their intervals are paired."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

from evalkit.stats import (
    auc,
    auc_difference,
    correlation_difference,
    grouped_correlation,
    grouped_difference,
    mean_difference,
    ordering_accuracy,
    ordering_difference,
    within_correlation,
    within_difference,
)

RNG = np.random.default_rng(3)
GROUP = np.repeat(np.arange(40), 5)
CLUSTER = GROUP // 2
TASTE = RNG.normal(size=40)[GROUP]
Y = np.round(TASTE + RNG.normal(size=200), 1)
GOOD, BAD = np.round(Y + 0.5 * RNG.normal(size=200), 1), np.round(Y + 2 * RNG.normal(size=200), 1)
KINDS = ["pearson", "spearman", "kendall_b"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weights", ["equal", "size"])
@pytest.mark.parametrize("crossing", [False, True])
def test_a_difference_of_group_means_is_that_of_the_means(kind: str, weights: str, crossing: bool) -> None:
    clusters = np.tile(np.arange(5), 40) if crossing else CLUSTER
    options = {"kind": kind, "weights": weights}
    of = [grouped_correlation(x, Y, GROUP, clusters, **options).estimate for x in (BAD, GOOD)]
    found, by_group = grouped_difference(BAD, GOOD, Y, GROUP, clusters, **options)
    assert found.value == pytest.approx(of[1].value - of[0].value, abs=1e-12)
    assert (found.n, found.n_clusters) == (of[0].n, of[0].n_clusters)
    assert np.nanmean(by_group) == pytest.approx(found.value, abs=1e-12)
    swapped, _ = grouped_difference(GOOD, BAD, Y, GROUP, clusters, **options)
    assert (swapped.low, swapped.high) == pytest.approx((-found.high, -found.low), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_difference_within_groups_is_that_of_the_correlations(kind: str) -> None:
    of = [within_correlation(x, Y, GROUP, CLUSTER, kind=kind).value for x in (BAD, GOOD)]
    found = within_difference(BAD, GOOD, Y, GROUP, CLUSTER, kind=kind)
    assert found.value == pytest.approx(of[1] - of[0], abs=1e-12)
    assert 0 < found.low < found.value < found.high
    nothing = within_difference(GOOD, 2 * GOOD, Y, GROUP, CLUSTER, kind=kind)
    assert nothing.value == pytest.approx(0, abs=1e-12)


def test_one_group_that_is_one_cluster_each_gives_the_plain_difference() -> None:
    plain = correlation_difference(BAD, GOOD, Y, np.arange(200), kind="pearson")
    crossing, _ = grouped_difference(BAD, GOOD, Y, np.zeros(200), np.arange(200), kind="pearson")
    assert (crossing.value, crossing.low, crossing.high) == pytest.approx((plain.value, plain.low, plain.high))


@pytest.mark.parametrize("ties", ["wrong", "half", "excluded", "right"])
def test_a_difference_of_orderings_is_that_of_the_accuracies(ties: str) -> None:
    of = [ordering_accuracy(x, Y, CLUSTER, ties=ties).value for x in (BAD, GOOD)]
    found = ordering_difference(BAD, GOOD, Y, CLUSTER, ties=ties)
    assert found.value == pytest.approx(of[1] - of[0], abs=1e-12)
    assert 0 < found.low < found.value < found.high


def test_a_difference_of_roc_areas_is_delongs() -> None:
    label = (Y > 0).astype(float)
    of = [auc(x, label, np.arange(200)).value for x in (BAD, GOOD)]
    found = auc_difference(BAD, GOOD, label, np.arange(200))
    assert found.value == pytest.approx(of[1] - of[0], abs=1e-12)
    positive, negative = GOOD[label == 1] * 0, GOOD[label == 0] * 0
    kernels = []
    for x in (BAD, GOOD):
        better = np.sign(x[label == 1][:, None] - x[label == 0][None, :]) / 2 + 0.5
        kernels.append((better.mean(axis=1), better.mean(axis=0)))
    of_positive, of_negative = (kernels[1][i] - kernels[0][i] for i in (0, 1))
    delong = np.var(of_positive, ddof=1) / positive.size + np.var(of_negative, ddof=1) / negative.size
    # CR1 over 200 observations divides by 200 and 199 where DeLong divides by each class and one less.
    assert found.half_width / 1.972 == pytest.approx(np.sqrt(delong), rel=0.02)


def test_what_is_undefined_says_why_and_has_no_difference() -> None:
    constant = np.ones(200)
    found, _ = grouped_difference(constant, GOOD, Y, GROUP, CLUSTER, kind="pearson")
    assert (found.value, found.why) == (None, "no group has both correlations")
    as_zero, _ = grouped_difference(constant, GOOD, Y, GROUP, CLUSTER, kind="pearson", without="zero")
    assert as_zero.value == pytest.approx(grouped_correlation(GOOD, Y, GROUP, CLUSTER, kind="pearson").estimate.value)
    assert "constant within" in within_difference(constant, GOOD, Y, GROUP, CLUSTER, kind="spearman").why
    assert ordering_difference(GOOD, BAD, constant, CLUSTER, ties="half").value is None
    with pytest.raises(ValueError, match="two clusters"):
        within_difference(BAD, GOOD, Y, GROUP, np.arange(200), kind="pearson")


def test_a_difference_of_means_is_that_of_a_regression_on_the_choice_with_clusters() -> None:
    chosen = (RNG.random(200) < 0.3) | (np.arange(200) % 10 == 0)  # some of every cluster
    found = mean_difference(Y, chosen, CLUSTER)
    oracle = sm.OLS(Y, np.column_stack([np.ones(200), chosen])).fit(
        cov_type="cluster", cov_kwds={"groups": CLUSTER, "use_correction": False}, use_t=True
    )
    assert found.value == pytest.approx(Y[chosen].mean() - Y[~chosen].mean())
    half = (oracle.conf_int()[1, 1] - oracle.conf_int()[1, 0]) / 2
    assert found.half_width == pytest.approx(half * np.sqrt(20 / 19), rel=1e-6)  # CR1's G/(G − 1) on t(G − 1)
    assert "0 of 200 observations are chosen" in mean_difference(Y, np.zeros(200, dtype=bool), CLUSTER).why


def test_a_difference_of_means_is_as_sure_as_the_part_with_fewer_clusters() -> None:
    alone = mean_difference(Y, np.arange(200) == 7, range(200))
    assert alone.value == pytest.approx(Y[7] - np.delete(Y, 7).mean())
    assert (alone.low, "of one cluster, which shows no error" in alone.why) == (None, True)
    three = mean_difference(Y, np.isin(np.arange(200), (7, 80, 190)), range(200))
    oracle = sm.OLS(Y, np.column_stack([np.ones(200), np.isin(np.arange(200), (7, 80, 190))])).fit(cov_type="HC0")
    assert three.half_width == pytest.approx(oracle.bse[1] * np.sqrt(200 / 199) * 4.302653, rel=1e-6)  # t(2), .975
    assert "t(2)" in three.method
