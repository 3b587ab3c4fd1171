"""Two rewards on the same items: who agrees better, on what both scored, and with the tests that hold there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalkit.api import audit_reward
from evalkit.audit import Audit, Line
from evalkit.errors import BadInput
from tests.audit.support import Desk
from tests.stats.shared_data import pandalm

RNG = np.random.default_rng(5)
N = 200
ITEM = np.repeat(np.arange(50), 4)
POLICY = np.tile(np.arange(4), 50)
HUMAN = np.round(RNG.normal(size=N) + 0.3 * POLICY, 1)
GOOD = HUMAN + 0.5 * RNG.normal(size=N)
BAD = HUMAN + 2 * RNG.normal(size=N)


def run(desk: Desk, reward: Any, other: Any, human: Any = HUMAN, **spec: Any) -> Audit:
    scores = desk.table(
        "scores.csv", ["sample_id", "item_id", "policy", "reward", "other"],
        zip(range(N), ITEM, POLICY, reward, other, strict=True),
    )  # fmt: skip
    labels = desk.table("labels.csv", ["sample_id", "label"], enumerate(human))
    return audit_reward(scores, labels, desk.spec(**{"against": "other", "draws": 200, **spec}))


def difference(result: Audit) -> Line:
    return result.sections["against"][-1]


def codes(result: Audit) -> list[str]:
    return [finding.code for finding in result.findings]


LEVELS = [
    {"statistic": "pearson"},
    {"statistic": "spearman", "cluster_by": "item_id"},
    {"statistic": "kendall_b", "level": "group", "cluster_by": "item_id"},
    {"statistic": "pearson", "level": "group", "cluster_by": "item_id", "weights": "size"},
    {"statistic": "spearman", "level": "within", "cluster_by": "item_id"},
    {"statistic": "pearson", "level": "system"},
    {"statistic": "ordering_accuracy", "cluster_by": "item_id"},
    {"statistic": "ordering_accuracy", "level": "within", "cluster_by": "item_id", "ties": "half"},
    {"statistic": "acc_eq", "level": "within", "cluster_by": "item_id"},
    {"statistic": "auc"},
]


@pytest.mark.parametrize("spec", LEVELS, ids=lambda spec: " ".join(spec.values()))
def test_the_difference_is_that_of_the_two_lines_above_it_and_turns_with_them(desk: Desk, spec: dict[str, Any]) -> None:
    human = (HUMAN > 0).astype(int) if spec["statistic"] == "auc" else HUMAN
    better, worse, found = run(desk, GOOD, BAD, human, **spec).sections["against"]
    expected = better.estimate.value - worse.estimate.value
    assert found.estimate.value == pytest.approx(expected, abs=1e-12)
    turned = difference(run(desk, BAD, GOOD, human, **spec))
    assert turned.estimate.value == pytest.approx(-expected, abs=1e-12)
    for before, after in zip(found.details["tests"], turned.details["tests"], strict=True):
        assert after.p == pytest.approx(before.p, abs=0.1), "swaps are drawn again, tests are two-sided"


def test_a_worse_reward_is_a_warning_with_its_interval_and_a_better_one_none(desk: Desk) -> None:
    worse = run(desk, BAD, GOOD)
    finding = next(finding for finding in worse.findings if finding.code == "AGAINST.WORSE")
    assert finding.severity == "warning"
    assert finding.estimate.high < 0
    assert difference(worse).details["tests"][0].p == 1 / 201, "(b + 1) / (B + 1)"
    assert not [code for code in codes(run(desk, GOOD, BAD)) if code.startswith("AGAINST")]


def test_what_cannot_be_told_apart_is_said(desk: Desk) -> None:
    twin = HUMAN + 0.5 * RNG.normal(size=N)
    assert "AGAINST.UNDECIDED" in codes(run(desk, GOOD, twin))


def test_only_what_both_scored_counts_and_the_counts_stand_beside(desk: Desk) -> None:
    reward, other = GOOD.tolist(), BAD.tolist()
    reward[0], reward[1], other[1], other[2], other[3] = "", "", "", "nan", "n/a"
    found = run(desk, reward, other, statistic="pearson")
    line = difference(found)
    assert line.estimate.n == N - 4
    assert line.details["n"] == {"reward": N - 2, "other": N - 3, "common": N - 4}
    assert line.rules.startswith("196 common samples of 198 and 197 scored; PERM-BOTH on pearson: p ")
    assert "Williams t(193): p " in line.rules
    nothing = difference(run(desk, [*GOOD[:100], *[""] * 100], [*[""] * 100, *BAD[100:]]))
    assert (nothing.estimate.value, nothing.estimate.why) == (None, "no labelled sample is scored by both")


def test_williams_is_made_only_of_independent_samples(desk: Desk) -> None:
    tests = difference(run(desk, GOOD, BAD, statistic="pearson", cluster_by="item_id")).details["tests"]
    assert [test.method.split(" ")[0] for test in tests] == ["PERM-BOTH"]


def test_the_other_rewards_scale_is_its_own(desk: Desk) -> None:
    scales = {"other": {"low": -3, "high": 3, "higher_is_better": False}}
    found = run(desk, GOOD, np.clip(-BAD, -3, 3), scales=scales)
    assert found.sections["against"][1].estimate.value > 0.3
    assert "UNIT.OUT_OF_RANGE" in codes(run(desk, GOOD, -BAD, scales=scales))


def test_pandalms_two_judges_are_not_told_apart(desk: Desk) -> None:
    # PandaLM, own computation: 145 / 115 discordant of 999, exact p .0719 (unparsed = wrong).
    data = pandalm()
    words = np.array(["tie", "1", "2", "unparsed"])
    gpt = words[np.where(np.isin(data.gpt, (0, 1, 2)), data.gpt, 3).astype(int)]
    own = words[np.where(np.isin(data.pandalm, (0, 1, 2)), data.pandalm, 3).astype(int)]
    n = len(gpt)
    scores = desk.table("v.csv", ["sample_id", "gpt", "own"], zip(range(n), gpt, own, strict=True))
    people = [[f"h{i}" for i in range(3)], words[data.humans.astype(int)]]
    labels = desk.table("l.csv", ["sample_id", *people[0]], [(i, *row) for i, row in enumerate(people[1])])
    spec = desk.spec(reward="gpt", against="own", statistic="accuracy", annotators="majority",
                     labels=["tie", "1", "2"])  # fmt: skip
    result = audit_reward(scores, labels, spec, annotators=people[0])
    flip, exact, mid = difference(result).details["tests"]
    assert exact.p == pytest.approx(0.0719, abs=5e-5)
    assert mid.p < exact.p
    assert flip.p == pytest.approx(mid.p, abs=0.03)
    assert "AGAINST.UNDECIDED" in codes(result)
    for statistic in ("kappa", "macro_f1"):
        spec = desk.spec(reward="gpt", against="own", statistic=statistic, annotators="majority", draws=100,
                         labels=["tie", "1", "2"])  # fmt: skip
        first, second, line = audit_reward(scores, labels, spec, annotators=people[0]).sections["against"]
        assert line.estimate.value == pytest.approx(first.estimate.value - second.estimate.value, abs=1e-12)
        assert line.estimate.low < line.estimate.value < line.estimate.high


def test_against_itself_or_what_is_not_there_is_refused(desk: Desk) -> None:
    with pytest.raises(BadInput, match="against reward is the reward itself"):
        run(desk, GOOD, BAD, against="reward", frozen=False)
    with pytest.raises(BadInput, match=r"no column othre; did you mean other\?"):
        run(desk, GOOD, BAD, against="othre")


def test_the_command_prints_the_two_rewards_side_by_side(desk: Desk) -> None:
    run(desk, GOOD, BAD)
    done = desk.audit(Path("scores.csv"), Path("labels.csv"), desk.root / "protocols" / "audit.yaml")
    assert "reward − other" in done.out
    assert "200 common samples of 200 and 200 scored" in done.out
