"""What an audit says of calibration: margins as log odds, a rising curve, and means on the human scale."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from evalkit.api import audit_reward
from evalkit.audit import Audit, Line
from tests.audit.support import Desk

with warnings.catch_warnings():  # ppi_py silences all warnings of the process when imported
    from ppi_py import ppi_mean_pointestimate

PROMPTS = 300


def preferred(temperature: float, prompts: int = PROMPTS) -> tuple[np.ndarray, np.ndarray]:
    """Rewards of two answers a prompt and labels 1 for the preferred, 0 for the other, drawn with σ(margin / T)."""
    rng = np.random.default_rng(7)
    rewards = 2 * rng.normal(size=(prompts, 2))
    first = rng.random(prompts) < expit((rewards[:, 0] - rewards[:, 1]) / temperature)
    return rewards.ravel(), np.column_stack([first, ~first]).astype(float).ravel()


def paired(desk: Desk, reward: np.ndarray, human: np.ndarray, **spec: Any) -> Audit:
    rows = [(i, i // 2, value) for i, value in enumerate(reward)]
    scores = desk.table("s.csv", ["sample_id", "item_id", "reward"], rows)
    labels = desk.table("l.csv", ["sample_id", "label"], enumerate(human))
    return audit_reward(scores, labels, desk.spec(cluster_by="item_id", **spec))


def found(result: Audit, name: str, level: str | None = None, rules: str = "") -> Line:
    lines = [
        line
        for line in result.sections["calibration"]
        if line.name == name and level in (None, line.level) and line.rules.startswith(rules)
    ]
    assert len(lines) == 1, [(line.name, line.level, line.rules) for line in result.sections["calibration"]]
    return lines[0]


def finding(result: Audit, code: str = "CALIB.OVERCONFIDENT") -> Any:
    return next((one for one in result.findings if one.code == code), None)


def test_margins_that_claim_more_than_they_hold_are_found_and_true_log_odds_are_not(desk: Desk) -> None:
    over = paired(desk, *preferred(3.0))
    temperature = found(over, "temperature T*").estimate
    assert temperature.low < 3.0 < temperature.high
    said = finding(over)
    assert said.severity == "info"
    assert said.statement.startswith("read as log odds, margins of reward claim more than they hold: T* = ")
    assert finding(paired(desk, *preferred(1.0))) is None
    assert finding(paired(desk, *preferred(0.5))) is None


def test_an_overconfident_reward_is_no_worse_at_ranking_and_keeps_its_verdict(desk: Desk) -> None:
    reward, human = preferred(0.3)
    limits = {"usable": 0.2, "trustworthy": 0.4}
    fair = paired(desk, reward, human, thresholds=limits)
    loud = paired(desk, 40 * reward, human, thresholds=limits)
    assert (finding(fair), finding(loud).severity) == (None, "info")
    assert fair.registered.estimate.value == pytest.approx(loud.registered.estimate.value)
    assert fair.verdict.word == loud.verdict.word == "trustworthy"


def test_the_temperature_scales_with_the_reward_and_the_loss_at_it_does_not(desk: Desk) -> None:
    reward, human = preferred(1.0)
    one, ten = paired(desk, reward, human), paired(desk, 10 * reward, human)
    t = found(one, "temperature T*").estimate.value
    assert found(ten, "temperature T*").estimate.value == pytest.approx(10 * t)
    assert found(ten, "log odds per unit of margin").estimate.value == pytest.approx(1 / (10 * t))
    loss = found(one, "log loss at T*").estimate.value
    assert found(ten, "log loss at T*").estimate.value == pytest.approx(loss)
    assert loss < math.log(2) < found(ten, "log loss").estimate.value


def test_known_margins_have_known_losses(desk: Desk) -> None:
    """Margins log 3 (P = ¾), three of four people agreeing: Brier ¾·1/16 + ¼·9/16 = .1875, loss = entropy of ¾."""
    reward = np.tile([math.log(3), 0.0], 80)
    human = np.tile([1, 0, 1, 0, 1, 0, 0, 1], 20).astype(float)
    result = paired(desk, reward, human)
    assert found(result, "Brier score").estimate.value == pytest.approx(0.1875)
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert found(result, "log loss").estimate.value == pytest.approx(entropy)
    assert found(result, "temperature T*").estimate.value == pytest.approx(1.0)
    error = found(result, "calibration error, debiased")
    assert error.estimate.value == pytest.approx(0, abs=1e-12)
    assert [(b.confidence, b.accuracy.value) for b in error.details["bins"]] == [pytest.approx((0.75, 0.75))]
    assert finding(result) is None


def test_the_base_rate_of_a_table_that_lists_the_better_answer_first_makes_no_calibration(desk: Desk) -> None:
    """Pitfall: pairs all given chosen first make the base rate 1 and the calibration error trivially one-sided."""
    reward, human = preferred(3.0)
    order = np.argsort(-human.reshape(-1, 2), axis=1)
    sorted_pairs = [np.take_along_axis(v.reshape(-1, 2), order, axis=1).ravel() for v in (reward, human)]
    mixed, chosen_first = paired(desk, reward, human), paired(desk, *sorted_pairs)
    for name in ("temperature T*", "log loss", "Brier score", "calibration error, debiased"):
        here, there = found(mixed, name).estimate, found(chosen_first, name).estimate
        assert (here.value, here.low) == (pytest.approx(there.value), pytest.approx(there.low)), name


def test_a_calibration_error_stands_beside_its_bins_and_what_noise_alone_would_give(desk: Desk) -> None:
    """Pitfall: a plain calibration error is biased up at small n."""
    line = found(paired(desk, *preferred(1.0, 100)), "calibration error, debiased")
    assert line.rules.endswith("is noise's alone")
    assert line.estimate.value < line.details["error"] < 2 * line.details["error_if_calibrated"]
    assert len(line.details["bins"]) == 10


def test_pairs_that_people_tie_are_left_out_and_counted(desk: Desk) -> None:
    reward, human = preferred(1.0)
    human[:20] = 0.5
    line = found(paired(desk, reward, human), "Brier score")
    assert (line.estimate.n, "10 pairs that people tie left out" in line.rules) == (PROMPTS - 10, True)


def test_one_sample_a_prompt_has_no_margins(desk: Desk) -> None:
    reward, human = preferred(3.0)
    scores = desk.table("s.csv", ["sample_id", "item_id", "reward"], [(i, i, r) for i, r in enumerate(reward)])
    labels = desk.table("l.csv", ["sample_id", "label"], enumerate(human))
    result = audit_reward(scores, labels, desk.spec(cluster_by="item_id"))
    assert finding(result) is None
    assert {line.name for line in result.sections["calibration"]} == {"error of the label"}


def curved(desk: Desk, n: int = 400, scale: bool = False) -> Audit:
    """Labels of 1 to 5 that rise with the square root of a reward of 1 to 5."""
    rng = np.random.default_rng(8)
    reward = rng.uniform(1, 5, n)
    human = np.clip(5 * np.sqrt(reward / 5) + rng.normal(0, 0.3, n), 1, 5)
    scores = desk.table("s.csv", ["sample_id", "source", "reward"], [(i, i // 4, r) for i, r in enumerate(reward)])
    labels = desk.table("l.csv", ["sample_id", "label"], enumerate(human))
    scales = {name: {"low": 1, "high": 5} for name in ("reward", "label")} if scale else {}
    return audit_reward(scores, labels, desk.spec(cluster_by="source", scales=scales))


def test_a_curve_is_judged_out_of_fold_beside_the_reward_as_it_is_and_the_mean_label(desk: Desk) -> None:
    result = curved(desk, scale=True)
    alone, raw, inside, outside = (
        found(result, "error of the label", level).estimate
        for level in ("mean label alone", "reward as it is", "rising curve, in sample", "rising curve, out of fold")
    )
    assert inside.value < outside.value < alone.value < raw.value
    assert outside.value == pytest.approx(0.3, abs=0.03)
    assert outside.n_clusters == 100
    details = found(result, "error of the label", "rising curve, out of fold").details
    labels = [point["label"] for point in details["curve"]]
    assert labels == sorted(labels)
    assert details["monotone_violation"] < 0.01


def test_a_reward_on_another_scale_is_not_subtracted_from_the_label(desk: Desk) -> None:
    levels = {line.level for line in curved(desk).sections["calibration"] if line.name == "error of the label"}
    assert levels == {"mean label alone", "rising curve, in sample", "rising curve, out of fold"}


def test_a_reward_without_signal_has_a_curve_that_is_no_better_than_the_mean(desk: Desk) -> None:
    rng = np.random.default_rng(1)
    scores = desk.table("s.csv", ["sample_id", "reward"], enumerate(rng.normal(size=300)))
    labels = desk.table("l.csv", ["sample_id", "label"], enumerate(rng.normal(size=300)))
    result = audit_reward(scores, labels, desk.spec())
    alone, inside, outside = (
        found(result, "error of the label", level).estimate.value
        for level in ("mean label alone", "rising curve, in sample", "rising curve, out of fold")
    )
    assert inside < alone < outside


Rows = Iterable[tuple[Any, ...]]
SIZE, LABELLED = 600, 120


def systems(desk: Desk, labelled: dict[str, np.ndarray], **spec: Any) -> tuple[Audit, dict[str, np.ndarray]]:
    """Two policies, 600 samples each; `labelled` says which have a label. Returns what people would say of all."""
    rng = np.random.default_rng(12)
    rows, labels, truth = [], [], {}
    for policy, shift in (("a", 0.0), ("b", 0.6)):
        human = 3 + shift + rng.normal(size=SIZE)
        reward = 10 * human + rng.normal(0, 4, SIZE)
        truth[policy] = human
        rows += [(f"{policy}{i}", policy, r) for i, r in enumerate(reward)]
        labels += [(f"{policy}{i}", human[i]) for i in labelled[policy]]
    scores = desk.table("s.csv", ["sample_id", "policy", "reward"], rows)
    result = audit_reward(scores, desk.table("l.csv", ["sample_id", "label"], labels), desk.spec(**spec))
    return result, truth


def by_chance(n: int = LABELLED) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(4)
    return {policy: rng.choice(SIZE, n, replace=False) for policy in "ab"}


def test_a_mean_on_the_human_scale_by_system_is_sharper_than_that_of_the_labels_and_holds_the_truth(desk: Desk) -> None:
    picked = by_chance()
    result, truth = systems(desk, picked)
    for policy in "ab":
        alone = found(result, "mean label", f"policy {policy}", "labels alone").estimate
        powered = found(result, "mean label", f"policy {policy}", "PPI++")
        proxy = found(result, "mean reward", f"policy {policy}").estimate
        assert alone.n == powered.estimate.n == LABELLED
        assert alone.value == pytest.approx(truth[policy][picked[policy]].mean())
        assert powered.estimate.low < truth[policy].mean() < powered.estimate.high
        assert powered.estimate.half_width < 0.7 * alone.half_width
        assert powered.details["variance_ratio"] < 0.5
        assert proxy.n == SIZE
        assert proxy.value == pytest.approx(10 * truth[policy].mean(), abs=0.5)


def test_the_mean_is_that_of_ppi_python_at_the_same_weight(desk: Desk) -> None:
    picked = by_chance()
    result, truth = systems(desk, picked)
    line = found(result, "mean label", "policy a", "PPI++")
    frame = {row[0]: float(row[2]) for row in (text.split(",") for text in read(desk.root / "s.csv"))}
    reward = np.array([frame[f"a{i}"] for i in range(SIZE)])
    few = picked["a"]
    rest = np.setdiff1d(np.arange(SIZE), few)
    oracle = ppi_mean_pointestimate(truth["a"][few], reward[few], reward[rest], lam=line.details["power"])[0]
    # λ is estimated without each label's own cluster, so it differs a little from label to label.
    assert line.estimate.value == pytest.approx(oracle, abs=1e-3)


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()[1:]


def test_rewards_beyond_all_labelled_ones_refuse_the_correction_and_labels_left_to_chance_do_not(desk: Desk) -> None:
    """The reward of the unlabelled samples ran away: what a label is worth there nobody has seen."""
    _, truth = systems(desk, by_chance())
    low = {policy: np.argsort(truth[policy])[:LABELLED] for policy in "ab"}
    result, _ = systems(desk, low)
    refused = found(result, "mean label", "policy a", "PPI++").estimate
    assert (refused.value, refused.low) == (None, None)
    assert "of rewards without label lie beyond those with one; label some of these too" in refused.why
    assert found(result, "mean label", "policy a", "labels alone").estimate.value is not None
    # With few labels some rewards lie beyond them by chance alone: no reason to refuse.
    few, _ = systems(desk, by_chance(15))
    line = found(few, "mean label", "policy a", "PPI++")
    assert line.details["beyond_labelled"] > 0.05
    assert line.estimate.value is not None


def test_a_system_without_labels_borrows_none_from_another(desk: Desk) -> None:
    result, _ = systems(desk, {**by_chance(), "b": np.empty(0, dtype=int)})
    refused = found(result, "mean label", "policy b", "PPI++").estimate
    assert (refused.value, refused.why) == (
        None,
        "no labels of its own; a correction learnt elsewhere corrects nothing",
    )
    assert found(result, "mean reward", "policy b").estimate.n == SIZE


def test_without_systems_and_with_nothing_unlabelled_there_are_no_means(desk: Desk) -> None:
    assert not [line for line in curved(desk).sections["calibration"] if line.name.startswith("mean ")]


def test_a_scale_where_less_is_better_keeps_its_own_units(desk: Desk) -> None:
    turned = {
        "reward": {"low": -40, "high": 120, "higher_is_better": False},
        "label": {"low": -9, "high": 9, "higher_is_better": False},
    }
    picked = by_chance()
    plain, turned_ = systems(desk, picked)[0], systems(desk, picked, scales=turned)[0]
    for rules in ("labels alone", "PPI++"):
        here, there = (found(one, "mean label", "policy a", rules).estimate for one in (plain, turned_))
        assert (here.value, here.low) == (pytest.approx(there.value), pytest.approx(there.low))


def test_a_sample_that_was_asked_about_in_vain_is_not_one_left_unlabelled_by_chance(desk: Desk) -> None:
    rows = [(i, i / 10) for i in range(60)]
    scores = desk.table("s.csv", ["sample_id", "reward"], rows)
    cells = ["" if 20 <= i < 40 else "unsure" if i == 45 else i % 7 for i in range(50)]
    labels = desk.table("l.csv", ["sample_id", "label"], enumerate(cells))
    unlabelled = audit_reward(scores, labels, desk.spec()).evidence.unlabelled
    # 20 with an empty cell, 10 that are not in the labels; the unreadable one was asked about.
    assert unlabelled.reward.size == 30
    assert 4.5 not in unlabelled.reward


def test_unlabelled_samples_whose_cluster_nobody_names_are_left_out(desk: Desk) -> None:
    scores = desk.table("s.csv", ["sample_id", "reward"], [(i, i % 13) for i in range(80)])
    labels = desk.table("l.csv", ["sample_id", "source", "label"], [(i, i // 2, i % 7) for i in range(50)])
    unlabelled = audit_reward(scores, labels, desk.spec(cluster_by="source")).evidence.unlabelled
    assert (unlabelled.reward.size, unlabelled.left_out) == (0, 30)


def verdicts(desk: Desk, sensitivity: float, specificity: float, **spec: Any) -> Audit:
    """Of 1000 answers 70 % pass; a judge with these rates; people said of 400, left to chance, what they are."""
    rng = np.random.default_rng(6)
    passed = rng.random(1000) < 0.7
    judged = np.where(passed, rng.random(1000) < sensitivity, rng.random(1000) > specificity)
    words = np.array(["fail", "pass"])
    table = desk.table("v.csv", ["sample_id", "reward"], enumerate(words[judged.astype(int)]))
    labels = desk.table("l.csv", ["sample_id", "label"], [(i, words[int(passed[i])]) for i in range(400)])
    return audit_reward(table, labels, desk.spec(statistic="accuracy", labels=["fail", "pass"], **spec))


def test_a_rate_of_verdicts_is_corrected_for_the_judges_errors(desk: Desk) -> None:
    result = verdicts(desk, 0.8, 0.6)
    proxy = found(result, "rate of pass by reward").estimate
    line = found(result, "rate of pass", "all samples", "Rogan–Gladen")
    rate, se, sp = line.estimate, line.details["sensitivity"].value, line.details["specificity"].value
    assert proxy.n == 1000
    apparent = float(np.mean([row.endswith("pass") for row in read(desk.root / "v.csv")[400:]]))
    assert rate.value == pytest.approx((apparent + sp - 1) / (se + sp - 1))
    assert rate.low < 0.7 < rate.high
    assert found(result, "rate of pass", "all samples", "labels alone").estimate.n == 400


def test_a_judge_that_is_hardly_better_than_a_coin_corrects_nothing(desk: Desk) -> None:
    refused = found(verdicts(desk, 0.55, 0.55), "rate of pass", "all samples", "Rogan–Gladen").estimate
    assert refused.value is None
    assert "below 0.2: the judge is too weak to correct" in refused.why
    accepted = found(verdicts(desk, 0.7, 0.7), "rate of pass", "all samples", "Rogan–Gladen").estimate
    assert accepted.value is not None


def test_three_labels_have_no_rate(desk: Desk) -> None:
    words = ["a", "b", "tie"]
    table = desk.table("v.csv", ["sample_id", "reward"], [(i, words[i % 3]) for i in range(90)])
    labels = desk.table("l.csv", ["sample_id", "label"], [(i, words[i % 3]) for i in range(60)])
    result = audit_reward(table, labels, desk.spec(statistic="accuracy", labels=words))
    assert "calibration" not in result.sections


def test_the_section_does_not_depend_on_the_order_of_rows(desk: Desk) -> None:
    reward, human = preferred(2.0, 60)
    rows = [(f"s{i}", i // 2, "ab"[i % 2], r) for i, r in enumerate(reward)]
    labels = desk.table("l.csv", ["sample_id", "label"], [(f"s{i}", h) for i, h in enumerate(human[:100])])
    results = []
    for turn in (1, -1):
        scores = desk.table("s.csv", ["sample_id", "item_id", "policy", "reward"], rows[::turn])
        results.append(audit_reward(scores, labels, desk.spec(cluster_by="item_id")))
        labels = desk.table("l.csv", ["sample_id", "label"], [(f"s{i}", h) for i, h in enumerate(human[:100])][::-1])
    one, two = (
        {(line.name, line.level, line.rules): line.estimate for line in r.sections["calibration"]} for r in results
    )
    assert one.keys() == two.keys()
    for key, estimate in one.items():
        assert estimate.value == pytest.approx(two[key].value), key
        assert estimate.low == pytest.approx(two[key].low), key
