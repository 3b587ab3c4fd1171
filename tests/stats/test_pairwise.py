"""What agreement on pairs promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from evalkit.stats import (
    acc_eq,
    auc,
    best_epsilon,
    ordering_accuracy,
    pairs_within,
    preference_accuracy,
    tie_calibration,
)
from tests.stats.shared_data import load

# RewardBench's own grouping of its subsets, and the counts of prompts that weigh them.
SECTIONS = {
    "Chat": ["alpacaeval-easy", "alpacaeval-length", "alpacaeval-hard", "mt-bench-easy", "mt-bench-med"],
    "Chat Hard": [
        "mt-bench-hard",
        "llmbar-natural",
        "llmbar-adver-neighbor",
        "llmbar-adver-GPTInst",
        "llmbar-adver-GPTOut",
        "llmbar-adver-manual",
    ],
    "Safety": [
        "refusals-dangerous",
        "refusals-offensive",
        "xstest-should-refuse",
        "xstest-should-respond",
        "donotanswer",
    ],
    "Reasoning": ["math-prm", "hep-cpp", "hep-go", "hep-java", "hep-js", "hep-python", "hep-rust"],
}


def test_four_tie_rules_give_four_accuracies() -> None:
    # JudgeBench with a 27B reward model: 225 of 350 right, 3 ties from bfloat16 (64.29, 64.71, 64.84 and 65.14 %).
    rejected = np.zeros(350)
    chosen = np.concatenate([np.ones(225), np.zeros(3), -np.ones(122)])
    expected = {"wrong": 225 / 350, "half": 226.5 / 350, "excluded": 225 / 347, "right": 228 / 350}
    for ties, value in expected.items():
        estimate = preference_accuracy(chosen, rejected, range(350), ties=ties)
        assert estimate.value == pytest.approx(value, abs=1e-12)
        assert f"3 reward ties {ties}" in estimate.method
    assert preference_accuracy(chosen, rejected, range(350), ties="excluded").n == 347
    assert [round(100 * expected[ties], 2) for ties in ("wrong", "half", "excluded")] == [64.29, 64.71, 64.84]


def test_a_tie_threshold_is_chosen_as_by_mt_metrics_eval() -> None:
    # mt-metrics-eval, tau_optimization_test.py: accuracies 3/6, 3/6, 4/6, 4/6, 3/6 at 0, 2, 4, 6, 8; the first best is 4.
    pairs = pairs_within([0, 2, 6, 8], [1, 1, 1, 4], [0, 0, 0, 0])
    found = [acc_eq(pairs.human, pairs.reward, range(6), epsilon=e).value for e in (0, 2, 4, 6, 8)]
    assert found == pytest.approx([3 / 6, 3 / 6, 4 / 6, 4 / 6, 3 / 6])
    assert best_epsilon(pairs.human, pairs.reward) == (4.0, pytest.approx(4 / 6))


def test_acc23_of_mt_metrics_eval() -> None:
    # mt-metrics-eval, stats_test.py
    pairs = pairs_within([2, 1, 1.5, 5, 3], [1, 2, 2, 3, 4], [0] * 5)
    assert acc_eq(pairs.human, pairs.reward, range(10), epsilon=0).value == pytest.approx(0.6)
    assert 2 * acc_eq(pairs.human, pairs.reward, range(10), epsilon=0).value - 1 == pytest.approx(0.2)  # their "23"
    assert acc_eq(pairs.human, pairs.reward, range(10), epsilon=2).value == pytest.approx(0.4)
    assert best_epsilon(pairs.human, pairs.reward) == (0.5, pytest.approx(0.7))


def test_kendall_like_of_mt_metrics_eval() -> None:
    # Pairs whose human scores differ by less than 25 are dropped, ties of the metric are discordant: 3/5.
    pairs = pairs_within([2, 1, 4, 3], [10, 11, 100, 150], [0] * 4)
    kept = np.abs(pairs.human) >= 25
    better = np.sign(pairs.human[kept]) * pairs.reward[kept]
    accuracy = preference_accuracy(better, np.zeros(kept.sum()), range(kept.sum()), ties="wrong").value
    assert 2 * accuracy - 1 == pytest.approx(3 / 5)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-6, 6)), min_size=1, max_size=30))
def test_the_best_threshold_is_that_of_trying_all(rows: list[tuple[int, int]]) -> None:
    human, reward = np.array(rows, dtype=float).T
    tried = {e: np.mean(np.where(np.abs(reward) <= e, 0, np.sign(reward)) == np.sign(human)) for e in range(7)}
    epsilon, accuracy = best_epsilon(human, reward)
    assert accuracy == pytest.approx(max(tried.values()))
    assert tried[int(epsilon)] == pytest.approx(accuracy)


def test_a_threshold_tuned_in_sample_flatters_noise_and_cross_fitting_does_not() -> None:
    rng = np.random.default_rng(0)
    tuned, fitted = [], []
    for _ in range(200):
        human = rng.choice([-1.0, 0.0, 1.0], 60)
        calibration = tie_calibration(human, rng.normal(size=60), range(60), rng=rng)
        tuned.append(calibration.in_sample)
        fitted.append(calibration.cross_fitted.value)
    assert np.mean(tuned) > 1 / 3 + 0.03  # noise agrees by chance on a third
    assert np.mean(fitted) == pytest.approx(1 / 3, abs=0.012)


@given(st.integers(0, 10_000))
def test_auc_is_sklearns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    label = np.append([0, 1], rng.integers(0, 2, 40))
    scores = np.round(rng.normal(size=42) + label, 1)
    assert auc(scores, label, range(42)).value == pytest.approx(roc_auc_score(label, scores), abs=1e-12)


def test_the_interval_of_auc_is_delongs_for_independent_observations() -> None:
    rng = np.random.default_rng(1)
    label = rng.integers(0, 2, 300)
    scores = rng.normal(size=300) + label
    high, low = scores[label == 1], scores[label == 0]
    wins = (high[:, None] > low).astype(float)
    variance = wins.mean(axis=1).var(ddof=1) / high.size + wins.mean(axis=0).var(ddof=1) / low.size
    estimate = auc(scores, label, range(300))
    assert estimate.half_width / 1.968 == pytest.approx(np.sqrt(variance), rel=0.01)


def test_auc_needs_both_classes_and_equal_scores_are_chance() -> None:
    assert "both classes" in auc([1, 2], [1, 1], [0, 1]).why
    assert (auc([1, 1], [0, 1], [0, 1]).value, auc([1, 1], [0, 1], [0, 1]).low) == (0.5, None)


def test_pairs_never_cross_groups() -> None:
    pairs = pairs_within(range(6), range(6), ["a", "b", "a", "b", "a", "c"])
    assert sorted(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)) == [(0, 2), (0, 4), (1, 3), (2, 4)]


@given(st.integers(0, 1000))
def test_ordering_accuracy_is_that_of_all_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    reward, human = rng.integers(0, 5, 30), np.append([0, 1], rng.integers(0, 4, 28))
    pairs = pairs_within(reward, human, np.zeros(30, dtype=int))
    differ = pairs.human != 0
    better = np.sign(pairs.human[differ]) * pairs.reward[differ]
    for ties in ("wrong", "half", "excluded", "right"):
        expected = preference_accuracy(better, np.zeros(better.size), range(better.size), ties=ties).value
        assert ordering_accuracy(reward, human, range(30), ties=ties).value == pytest.approx(expected, abs=1e-12)


def test_no_difference_among_humans_is_undefined() -> None:
    assert "no two observations differ" in ordering_accuracy([1, 2], [3, 3], [0, 1], ties="half").why


def test_rewardbench_sections_are_the_published_ones() -> None:
    sizes = {k: n for k, (_, n) in load("rewardbench", "pr206_Lenovo-Reward-Gemma-2-27B_counts.json").items()}
    sizes["math-prm"] = 984  # RewardBench weighs its 447 pairs as many as the code subsets have
    shipped = load("rewardbench", "pr215_LDL-Reward-Gemma-2-27B.json")
    for section, subsets in SECTIONS.items():
        total = sum(sizes[name] for name in subsets)
        right = sum(round(shipped["rewardbench_output"][name] * sizes[name]) for name in subsets)
        margin = np.concatenate([np.ones(right), -np.ones(total - right)])
        accuracy = preference_accuracy(margin, np.zeros(total), range(total), ties="wrong").value
        assert accuracy == pytest.approx(shipped["published_sections"][section], abs=1e-12)
