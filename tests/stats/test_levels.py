"""What correlations at different levels promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evalkit.stats import (
    correlation,
    covariance_shares,
    grouped_correlation,
    rank_deviations,
    restricted,
    sign_reversed,
    stratified_correlation,
    system_correlation,
    top_share_correlation,
    within_correlation,
)
from evalkit.stats.correlation import KINDS

RNG = np.random.default_rng(0)


def simpson(seed: int = 0, groups: int = 40, size: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hard prompts get low rewards and low labels; within a prompt the reward prefers what humans do not."""
    rng = np.random.default_rng(seed)
    group = np.repeat(range(groups), size)
    difficulty, taste = 3 * rng.normal(size=groups)[group], rng.normal(size=groups * size)
    return difficulty + taste, difficulty - taste + 0.3 * rng.normal(size=groups * size), group


def test_levels_of_mt_metrics_eval() -> None:
    # mt-metrics-eval, Correlation(2, [1,2,3,4,5,6], [2,1,4,3,3,7]): two systems of three segments each.
    gold, metric = [1, 2, 3, 4, 5, 6], [2, 1, 4, 3, 3, 7]
    by_system, by_segment = [0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]
    expected = {"pearson": (0.776, 0.760, 1.0), "kendall_b": (0.552, 0.575, 1.0)}
    for kind, (none, system, item) in expected.items():
        assert correlation(gold, metric, range(6), kind=kind).value == pytest.approx(none, abs=5e-4)
        for groups, value in ((by_system, system), (by_segment, item)):
            found = grouped_correlation(gold, metric, groups, groups, kind=kind).estimate
            assert found.value == pytest.approx(value, abs=5e-4)


def test_simpsons_paradox_is_seen() -> None:
    x, y, group = simpson()
    pooled = correlation(x, y, group, kind="pearson")
    within = within_correlation(x, y, group, group, kind="pearson")
    assert pooled.low > 0.4
    assert within.high < -0.9
    assert sign_reversed(pooled, within) is True
    assert sign_reversed(pooled, pooled) is False
    shares = covariance_shares(x, y, group)
    assert shares.covariance > 1  # the part within is negative
    assert 0.8 < shares.variance_x < 1


def test_shares_between_and_within_add_up() -> None:
    x, y, group = simpson(1)
    shares = covariance_shares(x, y, group)
    means_x = np.array([x[group == g].mean() for g in group])
    means_y = np.array([y[group == g].mean() for g in group])
    between = np.mean((means_x - x.mean()) * (means_y - y.mean()))
    assert shares.covariance == pytest.approx(between / np.mean((x - x.mean()) * (y - y.mean())), abs=1e-12)
    assert covariance_shares([1, 1], [1, 2], [0, 1]).variance_x is None


@given(st.integers(0, 10_000), st.sampled_from(KINDS))
def test_the_mean_over_groups_is_that_of_each_alone(seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 8, 40)
    x, y = rng.integers(0, 4, 40).astype(float), rng.integers(0, 3, 40).astype(float)
    alone = [
        (correlation(x[group == g], y[group == g], range(sum(group == g)), kind=kind).value, sum(group == g))
        for g in np.unique(group)
    ]
    known = [(v, n) for v, n in alone if v is not None]
    found = grouped_correlation(x, y, group, group, kind=kind)
    assert sum(found.undefined.values()) + len(known) == found.groups
    if known:
        assert found.estimate.n == len(known)
        assert found.estimate.value == pytest.approx(np.mean([v for v, _ in known]), abs=1e-9)
        weighted = grouped_correlation(x, y, group, group, kind=kind, weights="size").estimate.value
        assert weighted == pytest.approx(np.average([v for v, _ in known], weights=[n for _, n in known]), abs=1e-9)


def test_groups_without_a_correlation_are_counted_by_cause() -> None:
    x = [1, 1, 1, 2, 1, 2, 3, 5]
    y = [1, 2, 3, 3, 1, 1, 1, 7]
    groups = ["a", "a", "b", "b", "c", "c", "c", "d"]
    x[6] = 2
    found = grouped_correlation(x, y, groups, groups, kind="pearson")
    assert found.estimate.value is None
    assert found.undefined == {"x is constant": 1, "y is constant": 2, "fewer than two observations": 1}
    x[0] = 0
    zeroed = grouped_correlation(x, y, groups, groups, kind="pearson", without="zero").estimate
    assert (zeroed.value, zeroed.n) == (pytest.approx(1 / 3), 3)  # 1, 0 and 0; the group of one is left out


def test_a_group_mean_over_crossed_clusters_knows_that_prompts_are_shared() -> None:
    # Two systems answer the same prompts; copying each prompt's rows four times brings no new evidence.
    rng = np.random.default_rng(2)
    prompt, system = np.tile(range(80), 2), np.repeat([0, 1], 80)
    hard = rng.normal(size=80)
    x, y = hard[prompt] + rng.normal(size=160), hard[prompt] + rng.normal(size=160)
    once = grouped_correlation(x, y, system, prompt, kind="spearman").estimate
    copied = grouped_correlation(
        np.repeat(x, 4), np.repeat(y, 4), np.repeat(system, 4), np.repeat(prompt, 4), kind="spearman"
    ).estimate
    assert (copied.low, copied.high) == pytest.approx((once.low, once.high), abs=1e-9)
    assert (once.n, once.n_clusters) == (2, 80)


def test_within_groups_pearson_is_the_repeated_measures_correlation_of_pingouin() -> None:
    import pandas
    import pingouin

    x, y, group = simpson(3)
    frame = pandas.DataFrame({"x": x, "y": y, "g": group})
    expected = pingouin.rm_corr(frame, "x", "y", "g")["r"].iloc[0]
    assert within_correlation(x, y, group, group, kind="pearson").value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("unit", [1e-300, 1e300])
def test_within_groups_the_unit_of_a_value_does_not_matter_however_small_or_large(unit: float) -> None:
    x, y, group = simpson(3)
    expected = within_correlation(x, y, group, group, kind="pearson")
    found = within_correlation(unit * x, y, group, group, kind="pearson")
    assert (found.value, found.low) == (pytest.approx(expected.value), pytest.approx(expected.low))


def test_within_groups_tau_b_is_that_of_pooled_pairs() -> None:
    x, y = np.array([1, 2, 3, 1, 2]), np.array([1, 3, 2, 5, 4])
    # Group a: 2 concordant, 1 discordant; group b: 1 discordant. No ties: (2 − 2)/4.
    assert within_correlation(x, y, list("aaabb"), list("aaabb"), kind="kendall_b").value == 0


def test_within_groups_needs_a_group_that_varies_and_lies_in_one_cluster() -> None:
    assert "x constant within every group" in within_correlation([1, 1], [1, 2], [0, 0], [0, 0], kind="pearson").why
    with pytest.raises(ValueError, match="two clusters"):
        within_correlation([1, 2], [1, 2], [0, 0], [0, 1], kind="pearson")


@given(st.integers(0, 1000), st.sampled_from(["pearson", "spearman", "kendall_b"]))
def test_group_offsets_do_not_move_what_is_within(seed: int, kind: str) -> None:
    x, y, group = simpson(seed, 10, 4)
    moved = x + 100 * np.random.default_rng(seed).integers(0, 9, 10)[group]
    before, after = (within_correlation(values, y, group, group, kind=kind) for values in (x, moved))
    assert after.value == pytest.approx(before.value, abs=1e-9)
    assert after.half_width == pytest.approx(before.half_width, abs=1e-9)


def test_systems_are_tested_by_permutation() -> None:
    scores = np.arange(6.0)
    found = system_correlation(
        np.repeat(scores, 10), np.repeat(scores, 10), np.repeat(list("abcdef"), 10), kind="spearman", rng=RNG
    )
    assert found.estimate.value == pytest.approx(1)
    assert found.permutation.p == 2 / 720  # this order and its reverse
    assert found.systems == list("abcdef")


def test_more_than_eight_systems_are_permuted_at_random() -> None:
    x = np.arange(9.0)
    found = system_correlation(x, x, list("abcdefghi"), kind="pearson", rng=RNG, draws=99).permutation
    assert found.p == 1 / 100
    assert "99 draws" in found.method


def test_a_stratum_where_the_reward_fails_is_flagged_and_the_others_are_not() -> None:
    rng = np.random.default_rng(4)
    strata = np.repeat(["math", "chat", "code", "safety"], 150)
    x = rng.normal(size=600)
    y = np.where(strata == "safety", 0.0, 1.0) * x + rng.normal(size=600)
    found = stratified_correlation(x, y, strata, range(600), kind="pearson")
    flagged = [s.label for s in found.strata if s.p_adjusted < 0.01 and s.estimate.value < 0.3]
    assert flagged == ["safety"]
    assert found.q_p < 1e-6
    assert found.i_squared > 0.8


def test_strata_that_differ_by_chance_only_are_homogeneous() -> None:
    rng = np.random.default_rng(5)
    significant = 0
    for _ in range(200):
        x = rng.normal(size=200)
        found = stratified_correlation(x, x + rng.normal(size=200), np.repeat(range(4), 50), range(200), kind="pearson")
        significant += found.q_p < 0.05
    assert significant / 200 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)


def test_agreement_among_the_best_is_shown_beside_the_overall_one() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=2000)
    y = np.minimum(x, 1) + 0.3 * rng.normal(size=2000)  # beyond 1 the reward rises alone
    found = top_share_correlation(x, y, range(2000), kind="spearman")
    assert found.overall.value > 0.8
    assert found.top.high < 0.3
    assert found.top.n == 200
    assert found.spread < 0.5


def test_a_restricted_range_lowers_a_correlation_as_thorndike_says() -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=200_000)
    y = 0.6 * x + 0.8 * rng.normal(size=x.size)
    part = x > 1
    expected = restricted(np.corrcoef(x, y)[0, 1], x[part].std() / x.std())
    assert np.corrcoef(x[part], y[part])[0, 1] == pytest.approx(expected, abs=0.02)
    assert restricted(0.6, 1.0) == pytest.approx(0.6)


def test_one_row_one_group_and_nothing_at_all_are_undefined() -> None:
    for n in (0, 1):
        x = np.ones(n)
        assert grouped_correlation(x, x, x, x, kind="kendall_b").estimate.value is None
        assert within_correlation(x, x, x, x, kind="spearman").value is None
        assert covariance_shares(x, x, x).covariance is None
        assert top_share_correlation(x, x, x, kind="pearson").top.value is None
        assert stratified_correlation(x, x, x, x, kind="pearson").q is None
        assert system_correlation(x, x, x, kind="pearson", rng=RNG).permutation.p is None


def test_spearman_within_one_group_is_scipys() -> None:
    x, y = RNG.integers(0, 5, 30), RNG.integers(0, 5, 30)
    expected = stats.spearmanr(x, y).statistic
    assert grouped_correlation(x, y, [0] * 30, [0] * 30, kind="spearman").estimate.value == pytest.approx(expected)


def test_ranks_less_their_group_mean_give_the_correlation_within_groups() -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 30, 200)
    x, y = rng.integers(0, 6, (2, 200)).astype(float)
    u, v = rank_deviations(x, group), rank_deviations(y, group)
    within = within_correlation(x, y, group, group, kind="spearman")
    assert correlation(u, v, group, kind="pearson").value == pytest.approx(within.value)
    assert not rank_deviations([0.1, 0.1, 0.1], [1, 1, 1]).any()
