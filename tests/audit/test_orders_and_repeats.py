"""Several rows of one sample: orders of a pair and repeated scorings, by declared rules only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evalkit.api import audit_reward
from evalkit.audit import Audit, evidence_frame
from evalkit.errors import BadInput
from tests.audit.support import Desk

HUMAN = ["A", "A", "B", "B"]
ORDERS = {"ab": ["A", "B"], "ba": ["B", "A"]}
SAID = [("A", "A"), ("A", "B"), ("A", "B"), ("B", "?")]
"""Answers named in order ab, then ba: right twice, once, once, once and unreadable."""


def judged(desk: Desk, said: Any = SAID, **spec: Any) -> Audit:
    rows = [(i, order, verdict) for i, pair in enumerate(said) for order, verdict in zip(ORDERS, pair, strict=True)]
    verdicts = desk.table("v.csv", ["sample_id", "order", "reward"], rows)
    labels = desk.table("l.csv", ["sample_id", "label"], enumerate(HUMAN))
    fields = {"statistic": "accuracy", "orders": ORDERS, "verdict_names": "answer", **spec}
    return audit_reward(verdicts, labels, desk.spec(False, **fields))


@pytest.mark.parametrize(("rule", "accuracy", "n"), [("both", 1 / 4, 4), ("average", 5 / 8, 8), ("first", 3 / 4, 4)])
def test_two_orders_become_one_by_the_declared_rule(desk: Desk, rule: str, accuracy: float, n: int) -> None:
    result = judged(desk, combine_orders=rule)
    assert (result.registered.estimate.value, result.registered.estimate.n) == (accuracy, n)
    assert result.registered.estimate.n_clusters == 4
    assert f"orders {rule}" in result.registered.rules
    assert result.evidence.by_order["ba"].tolist() == ["A", "B", "B", "?"]
    assert result.evidence.only(np.array([True, False, False, True])).by_order["ba"].tolist() == ["A", "?"]


def test_a_judge_that_names_places_is_turned_into_answers(desk: Desk) -> None:
    places = [("1", "2"), ("1", "1"), ("1", "1"), ("2", "A")]
    found = judged(desk, places, combine_orders="average", verdict_names="position", positions=["1", "2"])
    assert found.registered.estimate.value == 5 / 8
    # A label where a place belongs is not read as that answer.
    assert "unparsed wrong (1)" in found.registered.rules


def test_orders_that_disagree_are_wrong_even_where_unparsed_is_a_label(desk: Desk) -> None:
    said = [("A", "B"), ("A", "B"), ("A", "B"), ("?", "?")]
    assert judged(desk, said, combine_orders="both", unparsed="B").registered.estimate.value == 1 / 4


def test_repeated_numbers_become_their_mean_and_are_kept(desk: Desk) -> None:
    rows = [(i, r, i + d) for i in range(6) for r, d in ((1, -0.5), (2, 0.0), (3, 0.5))]
    scores = desk.table("s.csv", ["sample_id", "trial", "reward"], rows)
    labels = desk.table("l.csv", ["sample_id", "label"], [(i, i) for i in range(6)])
    spec = desk.spec(False, repeats="mean")
    result = audit_reward(scores, labels, spec, columns={"repeat": "trial"})
    assert result.evidence.reward.tolist() == [0, 1, 2, 3, 4, 5]
    assert result.evidence.repeats is not None
    assert result.evidence.repeats[2].tolist() == [1.5, 2.0, 2.5]
    with pytest.raises(BadInput, match=r"--map repeat=COLUMN or --map order=COLUMN"):
        audit_reward(scores, labels, spec)
    with pytest.raises(BadInput, match=r"no rule for it; declare repeats: mean"):
        audit_reward(scores, labels, desk.spec(False), columns={"repeat": "trial"})


def test_repeated_verdicts_become_their_majority_and_a_tie_is_no_verdict(desk: Desk) -> None:
    said = {0: "AAB", 1: "AB", 2: "BBB", 3: "BAB"}
    rows = [(i, r, v) for i, verdicts in said.items() for r, v in enumerate(verdicts)]
    verdicts = desk.table("v.csv", ["sample_id", "repeat", "reward"], rows)
    labels = desk.table("l.csv", ["sample_id", "label"], enumerate(HUMAN))
    result = audit_reward(verdicts, labels, desk.spec(False, statistic="accuracy", repeats="majority"))
    assert result.evidence.reward.tolist() == ["A", None, "B", "B"]
    assert result.ledger.unscored == {"repeats tied": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "orders and combine_orders go together"),
        ({"combine_orders": "both", "verdict_names": None}, "orders need verdict_names"),
        ({"combine_orders": "both", "verdict_names": "position"}, "positions .two words. go together"),
        ({"combine_orders": "both", "orders": {"ab": ["A", "B"], "ba": ["A", "B"]}}, "same label first in both"),
        ({"combine_orders": "both", "orders": {"xy": ["A", "B"]}}, "'ab' is none of the spec's orders"),
    ],
)
def test_orders_without_a_rule_are_refused(desk: Desk, change: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        judged(desk, **change)


def test_scorings_that_never_differ_are_no_finding_and_incomplete_ones_are_counted(desk: Desk) -> None:
    rows = [(i, r, i) for i in range(8) for r in range(2)]
    labels = desk.table("l.csv", ["sample_id", "label"], [(i, i) for i in range(8)])
    spec = desk.spec(False, repeats="mean")
    steady = audit_reward(desk.table("s.csv", ["sample_id", "repeat", "reward"], rows), labels, spec)
    assert "SCORE.NONDETERMINISTIC" not in [finding.code for finding in steady.findings]
    rows[0], rows[2] = (0, 0, 9), (1, 0, "")  # type: ignore[assignment]
    noisy = audit_reward(desk.table("n.csv", ["sample_id", "repeat", "reward"], rows), labels, spec)
    lines = {line.name: line for line in noisy.sections["repeats"]}
    share = lines["samples whose scorings differ"]
    assert (share.estimate.value, share.estimate.n) == (pytest.approx(1 / 7), 7)
    assert share.rules == "2 scorings; 1 samples without all of them left out"
    assert noisy.evidence.reward[1] == 1
    finding = next(finding for finding in noisy.findings if finding.code == "SCORE.NONDETERMINISTIC")
    assert finding.evidence == ("0",)


def test_the_kept_evidence_has_what_was_said_in_each_order_and_repeat(desk: Desk) -> None:
    frame = evidence_frame(judged(desk, combine_orders="both"))
    assert frame["order.ab"].to_list() == ["A", "A", "A", "B"]
    assert frame["reward"].to_list() == ["A", "orders disagree", "orders disagree", "orders disagree"]


def test_a_column_of_that_name_that_tells_no_rows_apart_is_no_hindrance(desk: Desk) -> None:
    scores = desk.table("s.csv", ["sample_id", "order", "repeat", "reward"], [(i, i % 3, i, i) for i in range(6)])
    labels = desk.table("l.csv", ["sample_id", "label"], [(i, i) for i in range(6)])
    result = audit_reward(scores, labels, desk.spec(False))
    assert result.registered.estimate.value == 1
    assert (result.evidence.by_order, result.evidence.repeats) == ({}, None)


def test_order_and_repeat_together_are_combined_repeats_first(desk: Desk) -> None:
    said = {("ab", 0): "A", ("ab", 1): "A", ("ab", 2): "B", ("ba", 0): "A", ("ba", 1): "B", ("ba", 2): "B"}
    rows = [(i, order, r, v) for i in range(4) for (order, r), v in said.items()]
    verdicts = desk.table("v.csv", ["sample_id", "order", "repeat", "reward"], rows)
    labels = desk.table("l.csv", ["sample_id", "label"], enumerate(HUMAN))
    fields = {"orders": ORDERS, "combine_orders": "average", "verdict_names": "answer"}
    result = audit_reward(verdicts, labels, desk.spec(False, statistic="accuracy", repeats="majority", **fields))
    assert result.evidence.by_order["ab"].tolist() == ["A"] * 4
    assert result.evidence.by_order["ba"].tolist() == ["B"] * 4
    with pytest.raises(BadInput, match="declare repeats: majority"):
        audit_reward(verdicts, labels, desk.spec(False, statistic="accuracy", **fields))
