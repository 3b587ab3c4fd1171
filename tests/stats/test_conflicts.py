"""What is promised of components that oppose people, each other, or nothing."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.stats import conflict_matrix, saturation, sign_consistency
from tests.stats.shared_data import load


def test_prompts_are_counted_by_the_sign_of_their_correlation() -> None:
    groups = np.repeat(["up", "down", "flat", "deaf", "zero"], 3)
    component = [1, 2, 3, 3, 2, 1, 5, 5, 5, 1, 2, 3, 1, 2, 1]
    human = [1, 1, 2, 1, 2, 3, 1, 2, 3, 4, 4, 4, 1, 1.5, 2]
    result = sign_consistency(component, human, groups)
    assert (result.negative.value, result.positive.value) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert (result.negative.n, result.constant_component, result.constant_human) == (3, 1, 1)


@pytest.mark.parametrize("unit", [1e-300, 1e-9, 1e200])
def test_the_sign_is_read_in_any_unit(unit: float) -> None:
    result = sign_consistency(unit * np.array([1, 2, 3, 3, 2, 1]), [1, 2, 4, 1, 2, 4], [0, 0, 0, 1, 1, 1])
    assert (result.negative.value, result.positive.value, result.negative.n) == (0.5, 0.5, 2)


@given(st.integers(0, 10_000))
def test_turning_the_component_round_swaps_the_shares(seed: int) -> None:
    rng = np.random.default_rng(seed)
    c, h, groups = rng.integers(0, 3, 80), rng.integers(1, 6, 80), rng.integers(0, 20, 80)
    one, other = sign_consistency(c, h, groups), sign_consistency(-c, h, groups)
    assert (one.negative.value, one.positive.value) == (other.positive.value, other.negative.value)
    moved = sign_consistency(3.7 * c + 0.1, h, groups)
    assert (moved.negative.value, moved.constant_component) == (one.negative.value, one.constant_component)


def test_the_interval_counts_clusters_of_prompts() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(range(40), 4)
    result = sign_consistency(rng.normal(size=160), rng.normal(size=160), groups, groups // 4)
    assert (result.negative.n, result.negative.n_clusters) == (40, 10)
    with pytest.raises(ValueError, match="two clusters"):
        sign_consistency([1, 2], [1, 2], [1, 1], [1, 2])


def test_the_predicted_dimensions_of_topical_chat_point_the_right_way_in_most_contexts() -> None:
    rows = load("unieval", "topical_chat_result.json")
    context = [row["source"] for row in rows]
    predicted = [row["predict_scores"]["engagingness"] for row in rows]
    human = [row["scores"]["engagingness"] for row in rows]
    result = sign_consistency(predicted, human, context)
    assert result.negative.n + result.constant_component + result.constant_human == 60
    assert result.negative.high < 0.3
    assert result.positive.value > 0.8


def brute(c: dict[str, np.ndarray], groups: np.ndarray, a: str, b: str) -> tuple[float, float]:
    opposed = together = pairs = 0
    for i, j in combinations(range(groups.size), 2):
        if groups[i] != groups[j]:
            continue
        pairs += 1
        product = (c[a][i] - c[a][j]) * (c[b][i] - c[b][j])
        opposed += product < 0
        together += product > 0
    return opposed / pairs, together / pairs


@given(st.integers(0, 10_000))
def test_conflicts_are_those_of_every_pair_within_a_prompt(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 6, 30)
    c = {name: rng.integers(0, 4, 30).astype(float) for name in "abc"}
    result = conflict_matrix(c, groups)
    for i, a in enumerate("abc"):
        for j, b in enumerate("abc"):
            assert (result.opposed[i, j], result.together[i, j]) == pytest.approx(brute(c, groups, a, b))
    assert np.all(np.diag(result.opposed) == 0)


def test_opposed_components_and_prompts_with_single_answers() -> None:
    result = conflict_matrix({"short": [3, 2, 1], "long": [1, 2, 3]}, ["p", "p", "p"])
    assert (result.names, result.pairs) == (("short", "long"), 3)
    assert result.opposed.tolist() == [[0, 1], [1, 0]]
    assert np.isnan(conflict_matrix({"a": [1, 2]}, ["p", "q"]).opposed).all()


def test_saturation_in_figures() -> None:
    result = saturation([1, 1, 1, 0, 0.5, 0.5, 1, 1], ["a", "a", "a", "a", "b", "b", "c", "d"])
    assert (result.at_highest, result.at_lowest, result.n) == (5 / 8, 1 / 8, 8)
    assert result.constant_groups == 0.5  # b, of a and b; single answers say nothing
    assert result.effective_levels == pytest.approx(8 / (5**5 * 2**2) ** (1 / 8))
    declared = saturation([1, 1, 1, 0.2], ["a", "a", "b", "b"], bounds=(0, 2))
    assert (declared.at_highest, declared.at_lowest) == (0.0, 0.0)


def test_a_fair_coin_has_two_levels_and_a_constant_one() -> None:
    assert saturation([0, 1] * 10, range(20)).effective_levels == pytest.approx(2)
    constant = saturation([0.1] * 9, [1] * 9)
    assert (constant.effective_levels, constant.constant_groups) == (pytest.approx(1), 1.0)
    assert saturation([], []).at_highest is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: conflict_matrix({}, []), "none given"),
        (lambda: conflict_matrix({"a": [1], "b": [1, 2]}, [1]), "1 a, 2 b"),
        (lambda: sign_consistency([1], [1, 2], [1]), "1 and 2"),
        (lambda: saturation([1], [1], bounds=(1, 1)), "bounds"),
    ],
)
def test_wrong_arguments_are_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
