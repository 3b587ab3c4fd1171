"""What the sections calibration and human scale promise."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from ppi_py import ppi_mean_ci
from scipy.special import expit, stdtrit

from evalkit.api import audit_reward
from evalkit.audit import Audit, Finding, Line
from evalkit.errors import BadInput
from tests.audit.support import Desk

GROUPS = 120
PROBABILITY = {"scales": {"reward": {"low": 0, "high": 1}}, "reward_means": "probability"}


def paired(scale: float, seed: int = 2) -> list[list[Any]]:
    """Two answers to each of many prompts; the chance that one is preferred is σ(its reward − the other's)."""
    rng = np.random.default_rng(seed)
    reward = 1.5 * rng.normal(size=(GROUPS, 2))
    first = rng.random(GROUPS) < expit(reward[:, 0] - reward[:, 1])
    human = np.column_stack([first, ~first]).astype(float)
    return [
        [f"{g}-{k}", f"p{g:03}", scale * reward[g, k], human[g, k] + 3]  # labels of 3 and 4: ratings, not shares
        for g in range(GROUPS)
        for k in (0, 1)
    ]


def held(desk: Desk, header: list[str], rows: list[list[Any]], **spec: Any) -> Audit:
    table = desk.table("t.csv", header, rows)
    return audit_reward(table, table, desk.spec(**{"cluster_by": "none", **spec}))


def of_pairs(desk: Desk, rows: list[list[Any]], **spec: Any) -> Audit:
    fields = {"level": "within", "statistic": "ordering_accuracy", "cluster_by": "item_id", **spec}
    return held(desk, ["sample_id", "item_id", "reward", "label"], rows, **fields)


def line(result: Audit, name: str, level: str = "", section: str = "calibration") -> Line:
    return next(one for one in result.sections[section] if one.name == name and level in one.level)


def found(result: Audit, code: str) -> Finding | None:
    return next((finding for finding in result.findings if finding.code == code), None)


@pytest.mark.parametrize(("scale", "code"), [(5, "CALIB.OVERCONFIDENT"), (0.2, "CALIB.UNDERCONFIDENT"), (1, None)])
def test_margins_that_promise_more_or_less_than_humans_keep_are_found(
    desk: Desk, scale: float, code: str | None
) -> None:
    result = of_pairs(desk, paired(scale))
    codes = [finding.code for finding in result.findings if finding.code.startswith("CALIB")]
    assert codes == ([code] if code else [])
    temperature = line(result, "temperature T*").estimate
    assert temperature.low < scale < temperature.high
    assert line(result, "slope on margin").estimate.value == pytest.approx(1 / temperature.value)
    assert line(result, "Brier score").estimate.n == GROUPS


def test_a_claim_of_log_odds_that_fails_warns_and_none_only_informs(desk: Desk) -> None:
    informed = of_pairs(desk, paired(5))
    assert found(informed, "CALIB.OVERCONFIDENT").severity == "info"
    warned = of_pairs(desk, paired(5), reward_means="log_odds")
    assert found(warned, "CALIB.OVERCONFIDENT").severity == "warning"
    assert (informed.verdict.word, warned.verdict.word) == ("trustworthy", "usable with limits")
    assert of_pairs(desk, paired(1), reward_means="log_odds").verdict.word == "trustworthy"


def test_no_number_of_pairs_depends_on_the_order_of_rows(desk: Desk) -> None:
    rows = paired(2)
    before, after = of_pairs(desk, rows), of_pairs(desk, rows[::-1])
    for one, other in zip(before.sections["calibration"], after.sections["calibration"], strict=True):
        assert one.estimate.value == pytest.approx(other.estimate.value), one.name


def test_division_by_the_temperature_of_other_folds_mends_the_log_loss_and_bins_hold_the_pairs(desk: Desk) -> None:
    result = of_pairs(desk, paired(8))
    plain, mended = line(result, "log loss").estimate.value, line(result, "log loss at T*").estimate.value
    assert mended < np.log(2) < plain
    error = line(result, "calibration error")
    assert sum(one["accuracy"]["n"] for one in error.details["bins"]) == GROUPS
    assert error.details["error"] > 2 * error.details["if_calibrated"]


def test_pairs_that_humans_tie_are_left_out_and_counted(desk: Desk) -> None:
    rows = [[*row[:3], 3.5] if row[1] == "p000" else row for row in paired(1)]
    result = of_pairs(desk, rows)
    assert line(result, "log loss").rules.startswith("left out as ties of humans: 1;")
    assert line(result, "log loss").estimate.n == GROUPS - 1


def test_a_pooled_level_says_nothing_of_pairs(desk: Desk) -> None:
    result = of_pairs(desk, paired(5), level="pooled", statistic="spearman")
    assert not [one for one in result.sections["calibration"] if "pairs" in one.level]
    assert found(result, "CALIB.OVERCONFIDENT") is None


def probabilities(stretch: float, shift: float = 0.0, n: int = 600) -> list[list[Any]]:
    """Rewards in (0, 1) whose log odds are `stretch` times the true ones, plus `shift`."""
    rng = np.random.default_rng(3)
    z = 1.5 * rng.normal(size=n)
    return [
        [i, p, y] for i, (p, y) in enumerate(zip(expit(stretch * z + shift), rng.random(n) < expit(z), strict=True))
    ]


@pytest.mark.parametrize(
    ("stretch", "shift", "codes"),
    [
        (3.0, 0.0, {"CALIB.OVERCONFIDENT"}),
        (0.4, 0.0, {"CALIB.UNDERCONFIDENT"}),
        (1.0, 1.0, {"CALIB.BIASED"}),
        (1.0, 0.0, set()),
    ],
)
def test_a_reward_from_0_to_1_is_held_as_a_probability(
    desk: Desk, stretch: float, shift: float, codes: set[str]
) -> None:
    rows = probabilities(stretch, shift)
    result = held(desk, ["sample_id", "reward", "label"], rows, **PROBABILITY)
    mine = {one.code: one.severity for one in result.findings if one.code.startswith("CALIB")}
    assert mine == dict.fromkeys(codes, "warning")
    assert line(result, "slope on log odds").estimate.value == pytest.approx(1 / stretch, rel=0.2)
    p, y = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
    assert line(result, "Brier score").estimate.value == pytest.approx(np.mean((p - y) ** 2))
    assert line(result, "mean reward − mean label").estimate.value == pytest.approx(p.mean() - y.mean())


def test_certain_rewards_that_are_wrong_are_overconfident_where_log_odds_are_infinite(desk: Desk) -> None:
    rows = [
        [*row[:1], np.round(row[1]) if row[1] < 0.1 or row[1] > 0.9 else row[1], row[2]] for row in probabilities(2)
    ]
    result = held(desk, ["sample_id", "reward", "label"], rows)
    assert "log odds are infinite" in line(result, "slope on log odds").estimate.why
    assert "loss is infinite" in line(result, "log loss").estimate.why
    assert "are wrong" in found(result, "CALIB.OVERCONFIDENT").statement
    right = [[i, p if 0 < p < 1 else float(y), y] for i, p, y in rows]
    assert found(held(desk, ["sample_id", "reward", "label"], right), "CALIB.OVERCONFIDENT") is None


def test_a_verifier_of_0_and_1_is_no_probability(desk: Desk) -> None:
    rows = [[i, i % 2, i % 3 == 0] for i in range(60)]
    assert "calibration" not in held(desk, ["sample_id", "reward", "label"], rows).sections


def test_few_clusters_raise_no_finding_of_calibration(desk: Desk) -> None:
    rows = [[row[0], f"p{int(row[1][1:]) % 8}{row[1]}", *row[2:]] for row in paired(5)]
    header = ["sample_id", "item_id", "reward", "label", "cluster_id"]
    few = held(
        desk, header, [[*row, row[1][:2]] for row in rows],
        level="within", statistic="ordering_accuracy", cluster_by="cluster_id",
    )  # fmt: skip
    assert line(few, "slope on margin").estimate.high < 1
    assert found(few, "CALIB.OVERCONFIDENT") is None


def test_a_curve_out_of_fold_stands_beside_the_raw_error_and_the_mean_label(desk: Desk) -> None:
    rng = np.random.default_rng(0)
    human = rng.normal(3, 1, 200)
    rows = [[i, 10 * h + 3 * e, h] for i, (h, e) in enumerate(zip(human, rng.normal(size=200), strict=True))]
    errors = [
        one
        for one in held(desk, ["sample_id", "reward", "label"], rows).sections["calibration"]
        if "squared" in one.name
    ]
    raw, curve, mean = (one.estimate.value for one in errors)
    assert raw > 500
    assert mean == pytest.approx(human.var())
    assert 0.09 / (1 + 0.09) * human.var() < curve < 0.4 * human.var()  # of labels given the reward, and of the fit
    drawn = errors[1].details["curve"]
    assert [point["label"] for point in drawn] == sorted(point["label"] for point in drawn)


def test_turned_scales_are_told_on_the_scales_of_the_files(desk: Desk) -> None:
    rng = np.random.default_rng(0)
    human = rng.uniform(1, 5, 100)
    scales = {"reward": {"low": 0, "high": 6, "higher_is_better": False}, "label": {"low": 1, "high": 5}}
    rows = [[i, 6 - h, h] for i, h in enumerate(human)]
    rows += [[100 + i, 6 - h, ""] for i, h in enumerate(rng.uniform(1, 5, 100))]
    result = held(desk, ["sample_id", "reward", "label"], rows, scales=scales)
    drawn = [one for one in result.sections["calibration"] if "squared" in one.name][1].details["curve"]
    assert drawn[0]["reward"] > drawn[-1]["reward"] > 0
    own = line(result, "mean reward reward, as it is", section="human scale").estimate
    assert own.value == pytest.approx(np.mean([row[1] for row in rows]))
    assert line(result, "mean label label, PPI++", section="human scale").estimate.value > 2


def test_rewards_beyond_the_labelled_range_are_a_finding(desk: Desk) -> None:
    rng = np.random.default_rng(0)
    labelled = [[i, x, x + e] for i, (x, e) in enumerate(rng.normal(size=(200, 2)))]
    near = [[1000 + i, x, ""] for i, x in enumerate(rng.normal(size=200))]
    assert found(held(desk, ["sample_id", "reward", "label"], [*labelled, *near]), "CALIB.OUT_OF_RANGE") is None
    far = [[*row[:1], row[1] + 4, ""] for row in near]
    result = held(desk, ["sample_id", "reward", "label"], [*labelled, *far])
    assert found(result, "CALIB.OUT_OF_RANGE").severity == "warning"
    assert line(result, "within the labelled range").estimate.value < 0.5


# The human scale.

N, M = 60, 240
HEADER = ["sample_id", "policy", "reward", "label"]
TRUE = {"a": 3.0, "b": 3.5}


def systems(of: dict[str, float], n: int = N, seed: int = 1) -> list[list[Any]]:
    """Samples of systems with a mean label each; the reward flatters b by 2. The first n of each are labelled."""
    rng = np.random.default_rng(seed)
    rows = []
    for name, mean in of.items():
        human = rng.normal(mean, 1, n + M)
        reward = human + 0.5 * rng.normal(size=n + M) + (2 if name == "b" else 0)
        rows += [
            [f"{name}{i}", name, r, h if i < n else ""] for i, (r, h) in enumerate(zip(reward, human, strict=True))
        ]
    return rows


def test_few_labels_and_many_scores_give_what_humans_would_say_of_each_system(desk: Desk) -> None:
    rows = systems(TRUE)
    result = held(desk, HEADER, rows)
    for name, mean in TRUE.items():
        level = f"policy = {name}"
        powered, labels, alone = (
            line(result, f"mean {what}", level, "human scale").estimate
            for what in ("label label, PPI++", "label label, labels only", "reward reward, as it is")
        )
        assert powered.low < mean < powered.high
        assert powered.half_width < 0.8 * labels.half_width
        assert (labels.n, alone.n) == (N, N + M)
        of = [row for row in rows if row[1] == name]
        assert labels.value == pytest.approx(np.mean([row[3] for row in of[:N]]))
        assert alone.value == pytest.approx(np.mean([row[2] for row in of]))
    b = line(result, "mean label label, PPI++", "policy = b", "human scale")
    assert line(result, "mean reward reward, as it is", "policy = b", "human scale").estimate.low > b.estimate.high
    assert f"{N} labels alone" in b.rules
    assert f"{M} without label; holds if labels fell at random" in b.rules


def test_ppi_is_that_of_ppi_python_at_the_same_weight(desk: Desk) -> None:
    rows = systems({"a": 3.0})
    mine = line(held(desk, HEADER, rows), "mean label label, PPI++", section="human scale")
    y, f = (np.array([row[k] for row in rows[:N]], dtype=float) for k in (3, 2))
    u = np.array([row[2] for row in rows[N:]])
    low, high = ppi_mean_ci(y, f, u, alpha=0.05, lam=mine.details["lambda"])
    # λ without the own cluster differs a little from label to label; the oracle: normal quantile, no factor for few.
    assert mine.estimate.value == pytest.approx((low[0] + high[0]) / 2, abs=2e-3)
    factor = stdtrit(N - 1, 0.975) / 1.959964 * np.sqrt(N / (N - 1))
    assert mine.estimate.half_width == pytest.approx((high[0] - low[0]) / 2 * factor, rel=0.02)


def test_where_every_scored_sample_is_labelled_there_is_no_human_scale(desk: Desk) -> None:
    assert "human scale" not in held(desk, HEADER, [row for row in systems(TRUE) if row[3] != ""]).sections


def test_a_table_of_labels_without_the_other_samples_is_read_alike(desk: Desk) -> None:
    rows = systems(TRUE)
    blank = held(desk, HEADER, rows)
    scores = desk.table("s.csv", HEADER[:3], [row[:3] for row in rows])
    labels = desk.table("l.csv", ["sample_id", "label"], [[row[0], row[3]] for row in rows if row[3] != ""])
    apart = audit_reward(scores, labels, desk.spec(cluster_by="none"))
    assert [one.estimate for one in apart.sections["human scale"]] == [
        one.estimate for one in blank.sections["human scale"]
    ]
    assert (blank.ledger.no_gold, apart.ledger.unlabelled) == (2 * M, 2 * M)


def test_refuses_too_few_labels_of_a_system_and_says_what_is_missing(desk: Desk) -> None:
    few = held(desk, HEADER, [*systems({"a": 3.0}), *systems({"b": 3.5}, n=19)])
    refused = line(few, "mean label label, PPI++", "policy = b", "human scale").estimate
    assert (refused.value, refused.why) == (None, "19 labels in 19 clusters; 20 clusters are needed")
    assert "policy = b: 19" in found(few, "CALIB.TOO_FEW_LABELS").statement
    assert line(few, "mean label label, labels only", "policy = b", "human scale").estimate.n == 19
    enough = held(desk, HEADER, [*systems({"a": 3.0}), *systems({"b": 3.5}, n=20)])
    assert line(enough, "mean label label, PPI++", "policy = b", "human scale").estimate.value is not None
    assert found(enough, "CALIB.TOO_FEW_LABELS") is None


def test_a_system_that_nobody_labelled_is_named(desk: Desk) -> None:
    result = held(desk, HEADER, [*systems({"a": 3.0}), *([*row[:3], ""] for row in systems({"c": 3.0}))])
    assert "policy = c: 0" in found(result, "CALIB.TOO_FEW_LABELS").statement
    assert line(result, "mean label label, PPI++", "policy = c", "human scale").estimate.value is None


@pytest.mark.parametrize("choice", ["highest", "extreme"])
def test_labels_that_went_by_the_reward_are_not_random_and_correct_nothing(desk: Desk, choice: str) -> None:
    rows = systems({"a": 3.0}, n=N + M)  # all labelled
    middle = np.median([row[2] for row in rows[: N + M]])
    rows.sort(key=lambda row: -row[2] if choice == "highest" else -abs(row[2] - middle))
    chosen = [row if i < N else [*row[:3], ""] for i, row in enumerate(rows)]
    result = held(desk, HEADER, chosen)
    assert found(result, "CALIB.LABELS_NOT_RANDOM").severity == "warning"
    assert "did not fall at random" in line(result, "mean label label, PPI++", section="human scale").estimate.why
    rng = np.random.default_rng(0)
    drawn = set(rng.permutation(len(rows))[:N].tolist())
    fair = held(desk, HEADER, [row if i in drawn else [*row[:3], ""] for i, row in enumerate(rows)])
    assert found(fair, "CALIB.LABELS_NOT_RANDOM") is None


def judged(se: float, sp: float, share: float = 0.4, words: tuple[str, str] = ("fail", "pass")) -> list[list[Any]]:
    """A judge of known sensitivity and specificity; N of N + M human verdicts known."""
    rng = np.random.default_rng(5)
    rows = []
    for i in range(4 * N + 4 * M):
        good = rng.random() < share
        said = rng.random() < (se if good else 1 - sp)
        rows.append([i, words[said], words[good] if i < 4 * N else ""])
    return rows


def test_the_share_by_a_binary_judge_is_corrected_for_its_errors(desk: Desk) -> None:
    header = ["sample_id", "reward", "label"]
    result = held(desk, header, judged(0.9, 0.7), statistic="accuracy", labels=["fail", "pass"])
    corrected, powered, labels, alone = (
        line(result, f"share of pass, {what}", section="human scale")
        for what in ("Rogan–Gladen", "PPI++", "labels only", "judge alone")
    )
    assert corrected.estimate.low < 0.4 < corrected.estimate.high
    assert powered.estimate.low < 0.4 < powered.estimate.high
    assert alone.estimate.low > 0.45  # .4 · .9 + .6 · .3 = .54
    assert labels.estimate.n == 4 * N
    assert corrected.details["sensitivity"].value == pytest.approx(0.9, abs=0.07)
    assert found(result, "CALIB.JUDGE_TOO_WEAK") is None


def test_refuses_a_judge_whose_sensitivity_and_specificity_tell_little(desk: Desk) -> None:
    header = ["sample_id", "reward", "label"]
    rows = judged(0.55, 0.5, words=("0", "1"))
    result = held(desk, header, rows, statistic="accuracy")
    assert line(result, "share of 1, Rogan–Gladen", section="human scale").estimate.value is None
    assert "below 0.2" in found(result, "CALIB.JUDGE_TOO_WEAK").statement
    assert line(result, "share of 1, PPI++", section="human scale").estimate.value is not None
    # The same as numbers: a reward of 0 and 1.
    numbers = held(desk, header, rows)
    assert "below 0.2" in line(numbers, "mean label label, Rogan–Gladen", section="human scale").estimate.why


def test_an_unread_verdict_is_not_the_word_that_is_counted(desk: Desk) -> None:
    header = ["sample_id", "reward", "label"]
    rows = [[row[0], "no idea" if i % 20 == 0 else row[1], row[2]] for i, row in enumerate(judged(0.9, 0.9))]
    result = held(desk, header, rows, statistic="accuracy", labels=["fail", "pass"])
    alone = line(result, "share of pass, judge alone", section="human scale").estimate
    assert (alone.n, alone.value) == (len(rows), pytest.approx(np.mean([row[1] == "pass" for row in rows])))


def test_verdicts_of_three_kinds_have_no_human_scale(desk: Desk) -> None:
    rows = [[i, "ab="[i % 3], "ab="[i % 3] if i < 60 else ""] for i in range(300)]
    assert "human scale" not in held(desk, ["sample_id", "reward", "label"], rows, statistic="accuracy").sections


def test_samples_without_label_that_cannot_be_used_are_counted_by_cause(desk: Desk) -> None:
    rows: list[list[Any]] = [*systems({"a": 3.0}), ["x1", "", 1.0, ""], ["x2", "a", "", ""], ["x3", "a", 1e6, ""]]
    scales = {"reward": {"low": -100, "high": 100}}
    result = held(desk, HEADER, rows, scales=scales)
    said = result.sections["human scale"][0].rules
    for part in ("3 left out: ", "no policy 1", "missing 1", "out of scale 1"):
        assert part in said


def test_a_system_that_only_the_labels_name_is_said(desk: Desk) -> None:
    rows = systems(TRUE)
    scores = desk.table("s.csv", ["sample_id", "reward"], [[row[0], row[2]] for row in rows])
    labels = desk.table("l.csv", ["sample_id", "policy", "label"], [[r[0], r[1], r[3]] for r in rows if r[3] != ""])
    only = audit_reward(scores, labels, desk.spec(cluster_by="none")).sections["human scale"]
    assert [one.estimate.why for one in only] == [f"no sample without a label can be used: no policy {2 * M}"]


def test_tied_annotators_have_labelled_their_sample(desk: Desk) -> None:
    rows = [[f"s{i}", "pass", "pass", "pass"] for i in range(30)]
    rows += [[f"f{i}", "fail", "fail", "fail"] for i in range(30)]
    rows += [[f"t{i}", "pass", "pass", "fail"] for i in range(30)]  # tied
    table = desk.table("t.csv", ["sample_id", "reward", "ann", "bob"], rows)
    spec = desk.spec(statistic="accuracy", cluster_by="none", annotators="majority")
    result = audit_reward(table, table, spec, annotators=["ann", "bob"])
    assert result.ledger.no_gold == 30
    assert "human scale" not in result.sections


SPECS = [
    ({"reward_means": "log_odds"}, "level group or within"),
    ({"reward_means": "probability"}, "needs scales"),
    ({"reward_means": "probability", "scales": {"reward": {"low": 0, "high": 2}}}, "needs scales"),
    ({"reward_means": "log_odds", "statistic": "accuracy"}, "for numbers"),
]


@pytest.mark.parametrize(("fields", "message"), SPECS)
def test_a_claim_that_cannot_be_held_is_refused(desk: Desk, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        held(desk, ["sample_id", "reward", "label"], [[0, 1, 1]], **{"frozen": False, **fields})


def test_the_command_prints_corrected_figures_and_keeps_bins_and_rates(desk: Desk) -> None:
    table = desk.table("t.csv", HEADER, systems(TRUE))
    spec = desk.spec(cluster_by="none")
    short = desk.audit(table, table, spec)
    assert short.err == ""
    assert short.out.count("PPI++") == 2
    assert "labels only" not in short.out
    kept = json.loads(desk.audit(table, table, spec, "--json").out)
    assert len(kept["sections"]["human scale"]) == 6
    assert kept["sections"]["human scale"][0]["details"]["variance_ratio"] < 0.7
