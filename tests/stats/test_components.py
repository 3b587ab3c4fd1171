"""What the audit of a total's components promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.stats import group_ownership, missing_shifts, shapley, variance_shares, weighted_total
from tests.stats.shared_data import load

X = np.nan


def planted(seed: int, n: int = 200) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"right": rng.integers(0, 2, n), "format": rng.normal(size=n), "length": rng.exponential(size=n)}


WEIGHTS = {"right": 1.0, "format": 0.5, "length": -0.2}


def values(estimates: dict) -> list[float]:
    return [estimate.value for estimate in estimates.values()]


@given(st.integers(0, 10_000))
def test_shares_of_the_variance_sum_to_one(seed: int) -> None:
    parts = planted(seed)
    groups = np.repeat(range(40), 5)
    assert sum(values(variance_shares(parts, WEIGHTS))) == pytest.approx(1)
    assert sum(values(variance_shares(parts, WEIGHTS, groups=groups))) == pytest.approx(1)
    r = weighted_total(parts, WEIGHTS)
    expected = -0.2 * np.cov(parts["length"], r)[0, 1] / r.var(ddof=1)
    assert variance_shares(parts, WEIGHTS)["length"].value == pytest.approx(expected)


def test_a_component_that_cancels_has_a_negative_share() -> None:
    a = np.arange(10.0)
    shares = variance_shares({"a": a, "b": a}, {"a": 2, "b": -1})
    assert values(shares) == pytest.approx([2, -1])


def test_who_owns_the_variance_between_prompts_may_own_none_within() -> None:
    groups = np.repeat(range(50), 4)
    parts = {"difficulty": 10.0 * groups, "right": np.tile([0, 1, 0, 1], 50)}
    ones = {"difficulty": 1, "right": 1}
    assert variance_shares(parts, ones)["difficulty"].value > 0.99
    within = variance_shares(parts, ones, groups=groups)
    assert values(within) == pytest.approx([0, 1])
    assert "within groups" in within["right"].method
    assert within["right"].n_clusters == 50


def test_the_interval_of_a_share_moves_whole_clusters() -> None:
    parts = planted(1, 60)
    copies = np.repeat(range(60), 4)
    alone = variance_shares(parts, WEIGHTS)["format"]
    again = variance_shares({k: v[copies] for k, v in parts.items()}, WEIGHTS, clusters=copies)["format"]
    assert alone.low < alone.value < alone.high
    assert (again.low, again.high) == pytest.approx((alone.low, alone.high))


def test_the_interval_of_a_share_is_about_that_of_the_cluster_bootstrap() -> None:
    parts, groups, rng = planted(2, 600), np.repeat(range(150), 4), np.random.default_rng(0)
    for within in (None, groups):
        shares = variance_shares(parts, WEIGHTS, groups=within, clusters=groups)
        drawn = []
        for _ in range(400):
            chosen = rng.integers(0, 150, 150)
            rows = (4 * chosen[:, None] + np.arange(4)).ravel()
            new = None if within is None else np.repeat(range(150), 4)
            drawn.append(values(variance_shares({k: v[rows] for k, v in parts.items()}, WEIGHTS, groups=new)))
        low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
        assert [e.half_width for e in shares.values()] == pytest.approx(list((high - low) / 2), rel=0.2)


def test_every_prompt_owns_alike_however_far_its_answers_differ() -> None:
    # In prompt a all variance is that of x, in b that of y, and b's is a hundred times as large.
    groups = ["a", "a", "b", "b", "flat", "flat", "alone"]
    parts = {"x": [0, 1, 3, 3, 0, 0, 7], "y": [2, 2, 0, 10, 1, 1, 1]}
    ones = {"x": 1, "y": 1}
    found = group_ownership(parts, ones, groups, groups)
    assert values(found.shares) == [0.5, 0.5]
    assert (found.shares["x"].n, found.flat.value, found.flat.n) == (2, pytest.approx(1 / 3), 3)
    assert found.cancelled.value == 0
    opposed = group_ownership({"x": [0.1, 0.2, 1, 1, 1], "y": [0.2, 0.1, 2, 2, 0]}, ones, list("ccffs"), list("ccffs"))
    assert (opposed.flat.value, opposed.cancelled.value, opposed.cancelled.n) == (1.0, 0.5, 2)
    assert variance_shares(parts, ones, groups=groups)["y"].value == pytest.approx(100 / 101)
    nowhere = group_ownership({"x": [0.1, 0.1, 0.1]}, {"x": 0.3}, ["a", "a", "a"], [1, 1, 1])
    assert "varies within none" in nowhere.shares["x"].why


@pytest.mark.parametrize("unit", [1e-300, 1e200])
def test_prompts_are_owned_alike_in_any_unit(unit: float) -> None:
    parts = {"x": unit * np.array([0, 1, 3, 3]), "y": unit * np.array([2, 2, 0, 10])}
    assert values(group_ownership(parts, {"x": 1, "y": 1}, [1, 1, 2, 2], [1, 1, 2, 2]).shares) == [0.5, 0.5]


@given(st.integers(0, 10_000))
def test_what_prompts_are_owned_by_sums_to_one(seed: int) -> None:
    found = group_ownership(planted(seed), WEIGHTS, np.repeat(range(40), 5), np.repeat(range(20), 10))
    assert sum(values(found.shares)) == pytest.approx(1)


def test_a_total_that_does_not_vary_has_no_shares() -> None:
    constant = variance_shares({"a": [1, 2], "b": [2, 1]}, {"a": 1, "b": 1})
    assert "does not vary" in constant["a"].why
    within = variance_shares({"a": [1, 1, 2, 2]}, {"a": 1}, groups=[1, 1, 2, 2])
    assert "within groups" in within["a"].why


def test_shapley_in_figures() -> None:
    # The glove game: one left glove, two right ones, worth 1 as a pair.
    def pairs(of: frozenset[str]) -> float:
        return float("left" in of and len(of) > 1)

    assert shapley(["left", "r1", "r2"], pairs) == pytest.approx({"left": 2 / 3, "r1": 1 / 6, "r2": 1 / 6})


@given(st.integers(0, 10_000), st.integers(1, 6))
def test_shapley_values_share_out_the_whole_and_of_a_sum_each_its_own(seed: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    names = [f"c{k}" for k in range(m)]
    worth = dict(zip(names, rng.normal(size=m), strict=True))
    assert shapley(names, lambda of: sum(worth[c] for c in of)) == pytest.approx(worth)
    table = {}

    def anything(of: frozenset[str]) -> float:
        return table.setdefault(of, float(rng.normal()))

    result = shapley(names, anything)
    assert sum(result.values()) == pytest.approx(table[frozenset(names)] - table[frozenset()])


def test_shapley_with_an_undefined_set_gives_no_values() -> None:
    assert shapley(["a", "b"], lambda of: X if not of else 1.0) == {"a": None, "b": None}


def test_the_five_predicted_dimensions_of_topical_chat_share_out_the_explained_variance() -> None:
    rows = load("unieval", "topical_chat_result.json")
    names = ["naturalness", "coherence", "engagingness", "groundedness", "understandability"]
    x = {name: np.array([row["predict_scores"][name] for row in rows]) for name in names}
    human = np.array([row["scores"]["overall"] for row in rows])

    def r_squared(of: frozenset[str]) -> float:
        design = np.column_stack([np.ones(360), *(x[name] for name in sorted(of))])
        fitted = design @ np.linalg.lstsq(design, human, rcond=None)[0]
        return float(np.var(fitted) / np.var(human))

    shares = shapley(names, r_squared)
    assert sum(shares.values()) == pytest.approx(r_squared(frozenset(names)))
    assert all(share > 0 for share in shares.values())
    overall = np.array([row["predict_scores"]["overall"] for row in rows])
    fifth = dict.fromkeys(names, 0.2)
    np.testing.assert_allclose(weighted_total(x, fifth), overall, atol=1e-9)  # its overall is their mean
    assert sum(values(variance_shares(x, fifth))) == pytest.approx(1)


def test_a_component_left_out_of_the_sum_shifts_it() -> None:
    parts = {"right": [1, 0, 1, X, X, X], "format": [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]}
    groups = ["a", "a", "b", "b", "c", "c"]
    result = missing_shifts(parts, {"right": 2, "format": 1}, groups, groups=groups)
    assert result["right"].missing.value == 0.5
    # Complete: totals 3, 1, 3, so s = 1.1547; mean of 2 · right is 4/3.
    assert result["right"].shift.value == pytest.approx(-(4 / 3) / 1.154701, rel=1e-6)
    assert result["right"].mixed_groups == pytest.approx(1 / 3)
    assert (result["format"].missing.value, result["format"].mixed_groups) == (0.0, 0.0)
    nowhere = missing_shifts({"a": [X, X]}, {"a": 1}, [1, 2])["a"]
    assert (nowhere.shift.value, nowhere.mixed_groups, nowhere.missing.value) == (None, None, 1.0)
    assert "0 items with every component" in nowhere.shift.why


def test_the_interval_of_a_shift_covers_what_the_bootstrap_does() -> None:
    parts, rng = planted(3, 400), np.random.default_rng(0)
    shift = missing_shifts(parts, WEIGHTS, range(400))["right"].shift
    drawn = []
    for _ in range(400):
        rows = rng.integers(0, 400, 400)
        drawn.append(missing_shifts({k: v[rows] for k, v in parts.items()}, WEIGHTS, range(400))["right"].shift.value)
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert shift.half_width == pytest.approx((high - low) / 2, rel=0.15)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: variance_shares({}, {}), "none given"),
        (lambda: variance_shares({"a": [1]}, {"b": 1}), "for b; expected a"),
        (lambda: variance_shares({"a": [1], "b": [1, 2]}, {"a": 1, "b": 1}), "1 a, 2 b"),
        (lambda: variance_shares({"a": [X]}, {"a": 1}), "NaN"),
        (lambda: variance_shares({"a": [1, 2]}, {"a": 1}, groups=[1, 1], clusters=[1, 2]), "two clusters"),
        (lambda: shapley([], len), "0; expected 1 to 6"),
        (lambda: shapley(["a", "a"], len), "distinct"),
    ],
)
def test_wrong_arguments_are_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
