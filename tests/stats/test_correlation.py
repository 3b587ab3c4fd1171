"""What the correlations promise: published values, scipy's values, and errors that a jackknife confirms."""

from __future__ import annotations

import numpy as np
import pandas
import pingouin
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evalkit.stats import correlation, correlation_difference, influence, partial_correlation
from evalkit.stats.concordance import pair_counts
from evalkit.stats.correlation import KINDS

Arrays = tuple[np.ndarray, np.ndarray]


def tied(seed: int, n: int = 200) -> Arrays:
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(size=n), 1)
    return x, np.clip(np.round(x + rng.normal(size=n)), -2, 2)


def jackknife(statistic, n: int) -> np.ndarray:
    whole = statistic(np.arange(n))
    return (n - 1) * (whole - np.array([statistic(np.delete(np.arange(n), i)) for i in range(n)]))


@given(
    st.lists(st.tuples(st.integers(-4, 4), st.integers(-40, 40)), min_size=2, max_size=40),
    st.booleans(),
)
def test_pairs_are_counted_as_by_comparing_all_of_them(rows: list[tuple[int, int]], swap: bool) -> None:
    x, y = np.array(rows, dtype=float).T[:: -1 if swap else 1]
    dx, dy = np.sign(x[:, None] - x), np.sign(y[:, None] - y)
    others = ~np.eye(x.size, dtype=bool)
    kinds = [dx * dy > 0, dx * dy < 0, (dx == 0) & (dy != 0), (dx != 0) & (dy == 0), (dx == 0) & (dy == 0)]
    expected = np.stack([(kind & others).sum(axis=1) for kind in kinds])
    np.testing.assert_allclose(pair_counts(x, y).shares() * (x.size - 1), expected, atol=1e-9)


def test_kendall_variants_of_mt_metrics_eval() -> None:
    # mt-metrics-eval, stats_test.py
    gold, metric = [1, 2, 2, 3, 4], [2, 1, 1.5, 5, 3]
    assert correlation(gold, metric, range(5), kind="kendall_b").value == pytest.approx(0.316227766, abs=1e-9)
    assert correlation(gold, metric, range(5), kind="kendall_c").value == pytest.approx(0.32, abs=1e-12)
    assert correlation(gold, metric, range(5), kind="kendall_a").value == pytest.approx(0.3, abs=1e-12)


@given(st.integers(0, 10_000))
def test_values_are_scipys(seed: int) -> None:
    x, y = tied(seed, 60)
    alone = np.arange(60)
    expected = {
        "pearson": stats.pearsonr(x, y).statistic,
        "spearman": stats.spearmanr(x, y).statistic,
        "kendall_b": stats.kendalltau(x, y).statistic,
        "kendall_c": stats.kendalltau(x, y, variant="c").statistic,
        "somers_d": stats.somersd(x, y).statistic,
    }
    for kind, value in expected.items():
        assert correlation(x, y, alone, kind=kind).value == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_error_is_that_of_the_jackknife(kind: str) -> None:
    x, y = tied(3)
    moves = influence(x, y, kind=kind)[1]
    left_out = jackknife(lambda rows: correlation(x[rows], y[rows], rows, kind=kind).value, x.size)
    assert moves.mean() == pytest.approx(0, abs=1e-12)
    assert np.corrcoef(moves, left_out)[0, 1] > 0.9999
    assert moves.std() == pytest.approx(left_out.std(), rel=0.03)


@pytest.mark.parametrize("kind", ["pearson", "spearman"])
def test_the_error_of_a_partial_correlation_is_that_of_the_jackknife(kind: str) -> None:
    x, y = tied(4)
    rng = np.random.default_rng(1)
    z = np.column_stack([np.round(x + rng.normal(size=x.size), 1), rng.integers(0, 2, x.size)])
    estimate = partial_correlation(x, y, z, np.arange(x.size), kind=kind)
    left_out = jackknife(lambda rows: partial_correlation(x[rows], y[rows], z[rows], rows, kind=kind).value, x.size)
    error = np.sqrt(np.sum(left_out**2)) / x.size
    by_z = (np.arctanh(estimate.high) - np.arctanh(estimate.low)) / 2 / stats.t.ppf(0.975, x.size - 1)
    assert by_z * (1 - estimate.value**2) == pytest.approx(error, rel=0.02)


def test_partial_correlation_is_pingouins() -> None:
    x, y = tied(5)
    z = np.round(x + np.random.default_rng(2).normal(size=x.size), 1)
    frame = pandas.DataFrame({"x": x, "y": y, "z": z})
    for kind in ("pearson", "spearman"):
        expected = pingouin.partial_corr(frame, "x", "y", "z", method=kind)["r"].iloc[0]
        # pingouin rounds to 8 digits and, for Spearman, inverts the matrix of rank correlations.
        assert partial_correlation(x, y, z, range(x.size), kind=kind).value == pytest.approx(expected, abs=1e-6)


def test_a_control_that_determines_x_leaves_no_partial_correlation() -> None:
    x, y = tied(6)
    assert partial_correlation(x, y, 3 * x + 1, range(x.size), kind="pearson").why == (
        "the controls determine x; nothing of it is left"
    )


def test_a_redundant_control_changes_nothing() -> None:
    x, y = tied(7)
    z = np.random.default_rng(3).normal(size=x.size)
    once = partial_correlation(x, y, z, range(x.size), kind="pearson")
    twice = partial_correlation(x, y, np.column_stack([z, 2 * z]), range(x.size), kind="pearson")
    assert twice.value == pytest.approx(once.value, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_constant_variable_has_no_correlation(kind: str) -> None:
    for x, y, why in (([1, 1, 1], [1, 2, 3], "x is constant"), ([2, 2], [3, 3], "x and y are constant")):
        estimate = correlation(x, y, range(len(x)), kind=kind)
        assert (estimate.value, estimate.low, estimate.why) == (None, None, why)


@pytest.mark.parametrize("kind", KINDS)
def test_perfect_agreement_is_one_without_an_interval(kind: str) -> None:
    estimate = correlation([1, 2, 3, 4], [10, 20, 30, 40], range(4), kind=kind)
    assert estimate.value == pytest.approx(1.0, abs=1e-12)
    assert estimate.low is None
    assert "±1" in estimate.why


def test_copies_of_a_cluster_are_no_new_evidence() -> None:
    x, y = tied(8)
    for kind in ("pearson", "spearman"):
        once = correlation(x, y, range(200), kind=kind)
        copied = correlation(np.repeat(x, 5), np.repeat(y, 5), np.repeat(range(200), 5), kind=kind)
        assert (copied.low, copied.high) == pytest.approx((once.low, once.high), abs=1e-9)
        assert copied.n_clusters == 200


def test_few_clusters_are_said() -> None:
    x, y = tied(9)
    assert "fewer than 12 clusters" in correlation(x, y, np.arange(200) % 11, kind="pearson").method
    assert "fewer than" not in correlation(x, y, np.arange(200) % 12, kind="pearson").method
    assert "three or more" in correlation(x, y, np.arange(200) % 2, kind="pearson").why


@given(st.integers(0, 1000), st.sampled_from(KINDS))
def test_neither_order_of_rows_nor_scale_of_x_matters_and_reversing_x_negates(seed: int, kind: str) -> None:
    x, y = tied(seed, 50)
    groups = np.arange(50) // 3
    order = np.random.default_rng(seed).permutation(50)
    whole = correlation(x, y, groups, kind=kind)
    moved = correlation(x[order], y[order], groups[order], kind=kind)
    scaled = correlation(7 * x + 3, y, groups, kind=kind)
    negated = correlation(-x, y, groups, kind=kind)
    for other in (moved, scaled):
        assert (other.value, other.low, other.high) == pytest.approx((whole.value, whole.low, whole.high), abs=1e-9)
    assert (-negated.value, -negated.high, -negated.low) == pytest.approx(
        (whole.value, whole.low, whole.high), abs=1e-9
    )


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_extreme_scales_neither_overflow_nor_vanish(scale: float) -> None:
    x, y = tied(10)
    expected = correlation(x, y, range(200), kind="pearson").value
    assert correlation(x * scale, y * scale, range(200), kind="pearson").value == pytest.approx(expected, abs=1e-12)


def test_two_rewards_of_the_same_items_are_compared_in_pairs() -> None:
    rng = np.random.default_rng(11)
    y = rng.normal(size=400)
    noise = rng.normal(size=400)
    a, b = y + 1.2 * noise, y + noise  # nearly the same reward, so the difference is far surer than either
    difference = correlation_difference(a, b, y, range(400), kind="spearman")
    alone = correlation(b, y, range(400), kind="spearman")
    assert difference.low > 0
    assert difference.half_width < alone.half_width / 2
    assert correlation_difference(a, a, y, range(400), kind="spearman").low is None


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="pair them first"):
        correlation([1, 2], [1, 2, 3], [0, 0], kind="pearson")
    with pytest.raises(ValueError, match="none of pearson"):
        correlation([1, 2], [1, 2], [0, 1], kind="tau")
    with pytest.raises(ValueError, match="NaN or infinite"):
        correlation([1, np.nan], [1, 2], [0, 1], kind="pearson")
    with pytest.raises(ValueError, match="controls"):
        partial_correlation([1, 2, 3], [1, 2, 4], [1, 2], range(3), kind="pearson")
