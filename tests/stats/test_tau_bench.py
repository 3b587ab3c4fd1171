"""The figures of a real recording: gpt-4o on τ-bench airline, 50 tasks × 4 trials.

NOTICE: the counts below are derived from github.com/sierra-research/tau-bench @ 59a200c,
historical_trajectories/gpt-4o-airline.json, MIT licence, Copyright (c) 2024 Sierra. Numbers only.

They are tested twice: on the counts, which stand alone, and on the recording in $EVALKIT_SHARED.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from evalkit.stats import (
    best_at_k,
    best_with_replacement,
    cluster_mean,
    cluster_standard_error,
    design_effect,
    group_shares,
    independent_standard_error,
    informative_groups,
    openrlhf_max,
    pass_at_k,
    pass_hat_k,
    skyrl_any,
    verl_best_at_k,
)

# Successes of 4 trials, by task 0 to 49.
SUCCESSES = [
    0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 4, 2, 0, 2, 1, 1, 4, 0, 4, 3, 0, 0, 4,
    0, 2, 2, 0, 1, 2, 2, 0, 0, 3, 4, 4, 3, 4, 1, 3, 2, 4, 1, 2, 2, 2, 1, 4, 4,
]  # fmt: skip
# Trials without a verdict, by task. τ-bench counts them as 0.
WITHOUT_VERDICT = {2: 1, 9: 2, 33: 1, 46: 1}
Z = float(norm.ppf(0.975))


@dataclass(frozen=True)
class Recording:
    task: np.ndarray
    reward: np.ndarray
    has_verdict: np.ndarray

    def groups(self) -> Sequence[np.ndarray]:
        return [self.reward[self.task == task] for task in np.unique(self.task)]

    def successes(self) -> list[int]:
        return [int(group.sum()) for group in self.groups()]


def from_counts() -> Recording:
    rewards = [[1.0] * c + [0.0] * (4 - c) for c in SUCCESSES]
    verdicts = [
        [True] * (4 - missing) + [False] * missing for missing in (WITHOUT_VERDICT.get(task, 0) for task in range(50))
    ]
    return Recording(np.repeat(np.arange(50), 4), np.concatenate(rewards), np.concatenate(verdicts))


def from_shared() -> Recording:
    shared = os.environ.get("EVALKIT_SHARED")
    if not shared:
        pytest.skip("EVALKIT_SHARED is not set")
    path = Path(shared) / "data" / "tau_bench_rewards" / "airline.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"]  # fails, not skips, where the data are missing
    return Recording(*(np.array([row[key] for row in rows]) for key in ("task_id", "reward", "has_verdict")))


@pytest.fixture(params=[from_counts, from_shared], ids=["counts", "recording"])
def tau(request: pytest.FixtureRequest) -> Recording:
    return request.param()


def test_the_counts_are_those_of_the_recording() -> None:
    recording = from_shared()
    assert recording.successes() == SUCCESSES
    missing = {int(t): int(np.sum(~recording.has_verdict[recording.task == t])) for t in range(50)}
    assert {task: count for task, count in missing.items() if count} == WITHOUT_VERDICT
    assert not recording.reward[~recording.has_verdict].any()


@pytest.mark.parametrize(("k", "expected"), [(1, 0.42), (2, 0.56667), (3, 0.66), (4, 0.72)])
def test_pass_at_k(tau: Recording, k: int, expected: float) -> None:
    assert pass_at_k(tau.successes(), [4] * 50, k).mean() == pytest.approx(expected, abs=5e-6)
    assert np.mean([best_at_k(group, k) for group in tau.groups()]) == pytest.approx(expected, abs=5e-6)


@pytest.mark.parametrize(("k", "expected"), [(1, 0.42), (2, 0.27333), (3, 0.22), (4, 0.20)])
def test_pass_hat_k(tau: Recording, k: int, expected: float) -> None:
    assert pass_hat_k(tau.successes(), [4] * 50, k).mean() == pytest.approx(expected, abs=5e-6)


@pytest.mark.parametrize(("k", "expected"), [(2, 0.53), (3, 0.5925), (4, 0.63125)])
def test_best_with_replacement_is_far_below_pass_at_k(tau: Recording, k: int, expected: float) -> None:
    assert np.mean([best_with_replacement(group, k) for group in tau.groups()]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("k", "expected"), [(2, 0.53), (4, 0.63125)])
def test_verl_resamples_around_the_expectation_with_replacement(tau: Recording, k: int, expected: float) -> None:
    assert np.mean([verl_best_at_k(group, k) for group in tau.groups()]) == pytest.approx(expected, abs=0.015)


def test_with_all_trials_of_0_or_1_other_trainers_give_pass_at_n(tau: Recording) -> None:
    assert np.mean([openrlhf_max(group) for group in tau.groups()]) == pytest.approx(0.72)
    assert np.mean([skyrl_any(group) for group in tau.groups()]) == pytest.approx(0.72)


def test_half_widths_independent_clustered_and_clustered_with_t(tau: Recording) -> None:
    assert Z * independent_standard_error(tau.reward) == pytest.approx(0.0684, abs=5e-5)
    assert Z * cluster_standard_error(tau.reward, tau.task, "CR0") == pytest.approx(0.1013, abs=5e-5)
    assert Z * cluster_standard_error(tau.reward, tau.task, "CR1") == pytest.approx(0.1023, abs=5e-5)
    estimate = cluster_mean(tau.reward, tau.task, bounds=(0, 1))
    assert estimate.value == pytest.approx(0.42)
    assert estimate.half_width == pytest.approx(0.1049, abs=5e-5)
    assert (estimate.n, estimate.n_clusters, estimate.why) == (200, 50, "")
    assert "t(49)" in estimate.method


def test_trials_that_have_a_verdict(tau: Recording) -> None:
    reward, task = tau.reward[tau.has_verdict], tau.task[tau.has_verdict]
    estimate = cluster_mean(reward, task, bounds=(0, 1))
    assert estimate.value == pytest.approx(84 / 195)
    assert round(84 / 195, 3) == 0.431
    assert estimate.n == 195


def test_clusters_more_than_double_the_variance(tau: Recording) -> None:
    assert design_effect(tau.reward, tau.task) == pytest.approx(2.2273, abs=5e-5)


def test_tasks_never_sometimes_and_always_solved(tau: Recording) -> None:
    shares = group_shares(tau.successes(), [4] * 50)
    assert (shares.all_wrong, shares.mixed, shares.all_right, shares.n) == (14 / 50, 26 / 50, 10 / 50, 50)


def test_tasks_that_differ_give_fewer_informative_groups_than_the_formula_says(tau: Recording) -> None:
    found = informative_groups(np.concatenate(tau.groups()), np.repeat(range(50), 4))
    assert found.informative.value == pytest.approx(0.52)
    assert (found.all_lowest, found.all_highest) == (pytest.approx(0.28), pytest.approx(0.20))
    assert found.if_alike.value == pytest.approx(1 - 0.42**4 - 0.58**4)  # .856
    assert found.informative.high < 0.7
