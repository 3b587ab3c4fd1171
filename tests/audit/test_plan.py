"""What `evalkit audit plan` promises: the numbers an audit measured, said so, and the labels that a wish costs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalkit.api import audit_plan
from evalkit.audit import AuditPlan, Wish
from evalkit.errors import BadInput
from evalkit.workspace import Workspace
from tests.audit.support import Desk

RNG = np.random.default_rng(11)
G, M = 150, 4
CLUSTER = np.repeat(np.arange(G), M)
TRUTH = RNG.normal(size=G)[CLUSTER] * 0.5 + RNG.normal(size=G * M)
REWARD = TRUTH + RNG.normal(size=G * M)
LABELS = np.round(TRUTH[:, None] + RNG.normal(size=(G * M, 3)), 1)
"""Three annotators whose error has variance 1 where the truth has 1.25: one label's reliability is .556."""


def audited(desk: Desk, annotators: int = 3, extra: int = 0, **spec: Any) -> Path:
    scored = [*zip(range(G * M), CLUSTER, REWARD, REWARD + 2 * RNG.normal(size=G * M), strict=True)]
    scored += [(f"more{i}", f"m{i}", 0.0, 0.0) for i in range(extra)]
    scores = desk.table("scores.csv", ["sample_id", "item_id", "reward", "other"], scored)
    names = [f"ann{i}" for i in range(annotators)]
    labels = desk.table(
        "labels.csv", ["sample_id", *names], [(i, *row[:annotators]) for i, row in enumerate(LABELS)]
    )  # fmt: skip
    spec = {"cluster_by": "item_id", "statistic": "pearson", **spec}
    done = desk.audit(scores, labels, desk.spec(**spec), "--annotators", ",".join(names), "--json")
    assert done.code in (0, 1), done.err
    return desk.root / ".evalkit" / "audits" / done.json["digest"].rpartition(":")[2][:12]


def half_width(folder: Path) -> float:
    found = json.loads((folder / "audit.json").read_text())["registered"]["estimate"]
    return float((found["high"] - found["low"]) / 2)


def with_labels(found: AuditPlan, k: int) -> Any:
    return next(row for row in found.rows if row.plan.labels_per_item == k)


def test_a_plan_for_what_an_audit_reached_asks_for_what_it_had(desk: Desk) -> None:
    folder = audited(desk)
    found = audit_plan(Wish(half_width=half_width(folder)), folder)
    assert with_labels(found, 3).plan.clusters == pytest.approx(G, rel=0.15)
    finer = audit_plan(Wish(half_width=half_width(folder) / 2), folder)
    assert with_labels(finer, 3).plan.clusters == pytest.approx(4 * G, rel=0.17)
    assert {name: one.origin for name, one in found.assumptions.items()} == dict.fromkeys(
        ("reliability", "value", "items per cluster", "design effect", "rollouts"), "measured"
    )


@pytest.mark.parametrize(
    "spec", [{"level": "group"}, {"level": "within"}, {"statistic": "ordering_accuracy"}], ids=lambda spec: str(spec)
)
def test_any_other_statistic_is_planned_from_the_spread_of_its_clusters(desk: Desk, spec: dict[str, Any]) -> None:
    folder = audited(desk, **spec)
    (row,) = audit_plan(Wish(half_width=half_width(folder)), folder).rows
    assert row.plan.clusters == pytest.approx(G, abs=2)
    assert row.plan.items == pytest.approx(row.plan.clusters * M)
    assert row.plan.labels == row.plan.items * 3


def test_reliability_is_that_of_one_label_and_more_labels_raise_what_to_expect(desk: Desk) -> None:
    found = audit_plan(Wish(half_width=0.05), audited(desk))
    assert found.assumptions["reliability"].value == pytest.approx(1.25 / 2.25, abs=0.04)
    one_label = np.corrcoef(REWARD, LABELS[:, 0])[0, 1]
    assert found.assumptions["value"].value == pytest.approx(one_label, abs=0.04)
    assert [row.plan.labels_per_item for row in found.rows] == [1, 2, 3, 5]
    expected = [row.plan.expected for row in found.rows]
    assert expected == sorted(expected)
    assert expected[2] == pytest.approx(np.corrcoef(REWARD, LABELS.mean(axis=1))[0, 1], abs=0.005)
    counts = [row.plan.labels for row in found.rows]
    assert found.cheapest == counts.index(min(counts))


def test_one_annotator_cannot_say_what_more_would_bring(desk: Desk) -> None:
    found = audit_plan(Wish(half_width=0.1), audited(desk, annotators=1))
    assert [row.plan.labels_per_item for row in found.rows] == [1]
    assert found.assumptions["reliability"].origin == "assumed"
    assert "more labels per item cannot be planned" in found.notes[0]


def test_the_cost_stands_beside_that_of_labelling_every_rollout(desk: Desk) -> None:
    folder = audited(desk, extra=5400)
    row = audit_plan(Wish(half_width=0.1, labels_per_item=(2,), cost_per_label=0.5), folder).rows[0]
    assert row.cost.cost_of_all == 6000 * 2 * 0.5
    assert row.cost.cost == row.plan.labels * 0.5
    assert row.cost.share == row.plan.labels / 12000 < 1
    few = audit_plan(Wish(half_width=0.01, labels_per_item=(1,), rollouts=100), folder)
    assert not few.rows[0].cost.enough_rollouts


def test_a_difference_is_planned_from_the_measured_one_where_there_is_one(desk: Desk) -> None:
    paired = audit_plan(Wish(difference=0.1), audited(desk, against="other", draws=100))
    assert "spread of a cluster" in paired.assumptions
    blind = audit_plan(Wish(difference=0.1, labels_per_item=(3,)), audited(desk))
    assert "taken as independent" in blind.notes[-1]
    assert blind.rows[0].plan.clusters > paired.rows[0].plan.clusters


def test_given_numbers_need_no_audit_and_are_marked_so(desk: Desk) -> None:
    # ± .1 around p = .5 at 95 %: n = 1.96² · .25 / .01 = 96.04 for the normal, two more for t.
    found = audit_plan(Wish(half_width=0.1, statistic="accuracy", value=0.5))
    assert (found.rows[0].plan.items, found.assumptions["design effect"].origin) == (99, "assumed")
    wide = audit_plan(
        Wish(half_width=0.1, statistic="accuracy", value=0.5, items_per_cluster=5, design_effect=3)
    )  # fmt: skip
    assert wide.rows[0].plan.items == pytest.approx(3 * 97, rel=0.05)
    assert wide.assumptions["design effect"].origin == "given"
    # tanh(artanh(.3) ± 1.96/√(n − 3)) is .2 wide from n = 320 on; t asks for two more.
    pearson = audit_plan(Wish(half_width=0.1, statistic="pearson", value=0.3))
    assert 320 <= pearson.rows[0].plan.items <= 324


def test_the_command_prints_the_plan_and_finds_audits_by_their_digest(desk: Desk) -> None:
    folder = audited(desk)
    done = desk.evalkit("audit", "plan", folder.name[:6], "--half-width", "0.05", "--rollouts", "100000")
    assert done.code == 0, done.err
    assert "for an interval of ± 0.05: pearson" in done.out
    assert "rollouts 1e+05 (given)" in done.out
    assert len([line for line in done.out.splitlines() if line.strip().startswith("*")]) == 1
    assert desk.evalkit("audit", "plan", str(folder), "--difference", "0.1", "--json").json["rows"]
    never = desk.evalkit("audit", "plan", "--statistic", "pearson", "--value", "0.9", "--reliability", "0.3",
                         "--labels-per-item", "5", "--half-width", "0.1")  # fmt: skip
    assert never.code == 3
    assert "they contradict" in never.out


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({}, "give one of --half-width .* and --difference"),
    ({"half_width": 0.1, "difference": 0.1}, "give one of --half-width"),
    ({"half_width": 0.1}, "--statistic: name one"),
    ({"half_width": 0.1, "statistic": "pearson"}, "--value: neither given nor measured; give it"),
    ({"half_width": 0.1, "statistic": "auc", "value": 0.7}, "--statistic auc: planned from an audit of it only"),
    ({"half_width": 0.1, "statistic": "accuracy", "value": 1.0}, "at the ends nothing varies"),
    ({"half_width": 0.1, "statistic": "pearson", "value": 0.5, "reliability": 2.0}, "plan: reliability: 2.0 is not"),
    ({"half_width": -0.1, "statistic": "pearson", "value": 0.5}, "plan: half_width: -0.1 is not above 0"),
    ({"half_width": math.inf, "statistic": "accuracy", "value": 0.5}, "plan: half_width"),
    ({"half_width": 0.1, "statistic": "pearson", "value": 0.5, "rollouts": 0}, "plan: rollouts: 0; 1 or more"),
    ({"half_width": 0.1, "statistic": "pearson", "value": 0.5, "labels_per_item": (0,)}, "plan: labels_per_item: 0"),
]


@pytest.mark.parametrize(("wish", "message"), MISTAKES)
def test_a_mistake_is_one_line_with_its_mend(wish: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        audit_plan(Wish(**wish))


def test_an_audit_that_is_not_there_or_measured_nothing_is_said_in_one_line(desk: Desk) -> None:
    home = Workspace(desk.root)
    with pytest.raises(BadInput, match=r"audit abc: none in .*audits; `evalkit audit reward` makes one"):
        audit_plan(Wish(half_width=0.1), "abc", home)
    folder = audited(desk)
    with pytest.raises(BadInput, match=r"--statistic spearman: the audit is of pearson"):
        audit_plan(Wish(half_width=0.1, statistic="spearman"), folder)
    content = json.loads((folder / "audit.json").read_text())
    del content["measured"]
    (folder / "audit.json").write_text(json.dumps(content))
    with pytest.raises(BadInput, match=r"audit.json, field measured: not there; audit again"):
        audit_plan(Wish(half_width=0.1), folder.name, home)
