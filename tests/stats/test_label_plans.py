"""How much to label: what a plan promises."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.stats import (
    beside_all_rollouts,
    cluster_mean,
    correlation,
    icc_from_design_effect,
    labels_for_reliability,
    plan_correlation,
    plan_mean,
    spearman_brown,
)

designs = st.fixed_dictionaries(
    {
        "items_per_cluster": st.integers(1, 20),
        "cluster_icc": st.floats(0, 0.5),
        "reliability": st.floats(0.5, 1),
        "labels_per_item": st.integers(1, 5),
    }
)


def test_an_accuracy_of_independent_items_needs_the_textbook_number() -> None:
    # z² p(1 − p)/h² = 1.96² · .25/.05² = 384.1 items; Student's t at 386 degrees of freedom needs 387.
    plan = plan_mean(0.5, half_width=0.05)
    assert (plan.clusters, plan.items, plan.labels) == (387, 387, 387)
    assert plan.reached == pytest.approx(1.96614 * 0.5 / math.sqrt(387), abs=1e-6)


def test_the_design_effect_multiplies_items() -> None:
    # 1 + (5 − 1) · .25 = 2: 2 · 384 items in clusters of 5 are 154, a few more for t.
    plan = plan_mean(0.5, half_width=0.05, items_per_cluster=5, cluster_icc=icc_from_design_effect(2.0, 5))
    assert plan.clusters == 157
    assert plan.items == 785


def test_a_correlation_of_zero_needs_the_textbook_number() -> None:
    # tanh(1.96/√(n − 3)) = .1 at n = 385 for the normal quantile; t takes two or three more.
    plan = plan_correlation(0.0, half_width=0.1)
    assert 385 <= plan.clusters <= 390
    assert plan_correlation(0.0, half_width=0.1, kind="kendall_b").clusters < 0.45 * plan.clusters


def test_labels_raise_reliability_as_spearman_and_brown_say() -> None:
    assert spearman_brown(0.5, 3) == pytest.approx(0.75)
    assert labels_for_reliability(0.5, 0.75) == 3
    assert labels_for_reliability(0.5, 0.76) == 4
    assert labels_for_reliability(0.9, 0.5) == 1
    # A correlation of .3 with labels of reliability .5 is .3 · √(.75/.5) with the mean of three.
    assert plan_correlation(0.3, half_width=0.05, reliability=0.5, labels_per_item=3).expected == pytest.approx(
        0.3674, abs=1e-4
    )


def test_more_labels_cannot_mend_too_few_clusters() -> None:
    # Everything lies between clusters: labels and items within them add nothing.
    one = plan_mean(1.0, half_width=0.1, items_per_cluster=8, cluster_icc=1.0, reliability=1.0)
    more = plan_mean(1.0, half_width=0.1, items_per_cluster=8, cluster_icc=1.0, reliability=1.0, labels_per_item=5)
    assert one.clusters == more.clusters == plan_mean(1.0, half_width=0.1).clusters


@given(designs, st.floats(0.02, 0.3), st.booleans())
def test_a_plan_is_enough_and_one_cluster_less_is_not(design: dict, target: float, interval: bool) -> None:
    design["cluster_icc"] = min(design["cluster_icc"], design["reliability"])
    goal = {"half_width": target} if interval else {"difference": target}
    for plan in (plan_mean(0.5, **goal, **design), plan_correlation(0.4, **goal, **design)):
        assert plan.reached <= target
        assert plan.labels == plan.items * design["labels_per_item"]
        assert plan.items >= plan.clusters >= 12
        tighter = dict.fromkeys(goal, plan.reached * (1 - 1e-09))
        if plan.clusters > 12:
            again = plan_mean if plan.expected is None else plan_correlation
            assert again(0.5 if plan.expected is None else 0.4, **tighter, **design).clusters == plan.clusters + 1


@given(designs, st.floats(0.02, 0.3))
def test_a_harder_wish_never_costs_less(design: dict, target: float) -> None:
    design["cluster_icc"] = min(design["cluster_icc"], design["reliability"])
    for plan, start in ((plan_mean, 0.5), (plan_correlation, 0.4)):
        assert (
            plan(start, half_width=target / 2, **design).clusters >= plan(start, half_width=target, **design).clusters
        )
        assert (
            plan(start, difference=target, power=0.9, **design).clusters
            >= plan(start, difference=target, **design).clusters
        )


@pytest.mark.slow
def test_data_of_the_planned_size_give_the_planned_interval() -> None:
    rng, m, icc, reliability, k = np.random.default_rng(0), 4, 0.3, 0.6, 2
    plan = plan_mean(
        1.0, half_width=0.1, items_per_cluster=m, cluster_icc=icc, reliability=reliability, labels_per_item=k
    )
    clusters = np.repeat(np.arange(plan.clusters), m)
    widths = []
    for _ in range(200):
        items = math.sqrt(icc) * rng.normal(size=plan.clusters)[clusters] + math.sqrt(reliability - icc) * rng.normal(
            size=clusters.size
        )
        labels = items[:, None] + math.sqrt(1 - reliability) * rng.normal(size=(clusters.size, k))
        widths.append(cluster_mean(labels.mean(axis=1), clusters).half_width)
    assert np.mean(widths) == pytest.approx(0.1, rel=0.02)

    plan = plan_correlation(0.4, half_width=0.08, reliability=reliability, labels_per_item=k)
    widths = []
    for _ in range(200):
        true = rng.normal(size=plan.clusters)
        share = 0.4 / math.sqrt(reliability)
        reward = share * true + math.sqrt(1 - share**2) * rng.normal(size=true.size)
        errors = math.sqrt((1 - reliability) / reliability) * rng.normal(size=(true.size, k))
        widths.append(
            correlation(reward, (true[:, None] + errors).mean(axis=1), np.arange(true.size), kind="pearson").half_width
        )
    assert np.mean(widths) == pytest.approx(0.08, rel=0.03)


def test_the_cost_stands_beside_labelling_every_rollout() -> None:
    plan = plan_mean(0.5, half_width=0.05, labels_per_item=2)
    beside = beside_all_rollouts(plan, 100_000, cost_per_label=0.5)
    assert (beside.cost, beside.cost_of_all) == (387.0, 100_000.0)
    assert beside.share == pytest.approx(0.00387)
    assert beside.enough_rollouts
    assert not beside_all_rollouts(plan, 100).enough_rollouts


def test_a_correlation_that_its_reliability_rules_out_has_no_plan() -> None:
    plan = plan_correlation(0.8, half_width=0.1, reliability=0.3, labels_per_item=5)
    assert plan.clusters is plan.labels is None
    assert "contradict" in plan.why
    assert beside_all_rollouts(plan, 100) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plan_mean(0.5), "exactly one"),
        (lambda: plan_mean(0.5, half_width=0.1, difference=0.1), "exactly one"),
        (lambda: plan_mean(0.5, half_width=0.0), "half_width"),
        (lambda: plan_mean(0.0, half_width=0.1), "sd"),
        (lambda: plan_mean(0.5, half_width=0.1, cluster_icc=0.6, reliability=0.5), "above the reliability"),
        (lambda: plan_mean(0.5, half_width=0.1, items_per_cluster=0.5), "items_per_cluster"),
        (lambda: plan_mean(0.5, half_width=0.1, labels_per_item=0), "labels_per_item"),
        (lambda: plan_mean(0.5, half_width=0.1, level=1.0), "level"),
        (lambda: plan_correlation(1.0, half_width=0.1), "value"),
        (lambda: plan_correlation(0.5, half_width=1.0), "half_width"),
        (lambda: plan_correlation(0.5, half_width=0.1, kind="phi"), "kind"),
        (lambda: plan_correlation(0.5, difference=0.1, shared_error=1.0), "shared_error"),
        (lambda: plan_correlation(0.5, half_width=0.1, cluster_icc=2), "cluster_icc"),
        (lambda: spearman_brown(0.0, 2), "reliability"),
        (lambda: labels_for_reliability(0.5, 1.0), "wanted"),
        (lambda: icc_from_design_effect(-1, 2), "design_effect"),
        (lambda: beside_all_rollouts(plan_mean(0.5, half_width=0.1), 0), "rollouts"),
        (lambda: beside_all_rollouts(plan_mean(0.5, half_width=0.1), 9, 0.0), "cost_per_label"),
    ],
)
def test_wrong_arguments_are_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
