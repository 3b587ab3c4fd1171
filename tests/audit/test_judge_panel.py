"""What an audit says of a judge of pairs as a judge."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evalkit.api import audit_reward
from evalkit.audit import Audit
from tests.audit.support import Desk

RNG = np.random.default_rng(1)
N = 120
HUMAN = np.where(RNG.random(N) < 0.5, "A", "B")
WRONG = np.where(HUMAN == "A", "B", "A")
ORDERS = {"ab": ["A", "B"], "ba": ["B", "A"]}


def judged(desk: Desk, ab: Any, ba: Any | None, lengths: Any = None, **spec: Any) -> Audit:
    said = {"ab": ab} | ({} if ba is None else {"ba": ba})
    extra = [] if lengths is None else ["length_a", "length_b"]
    rows = [
        (i, order, verdicts[i], *([] if lengths is None else lengths[i]))
        for order, verdicts in said.items()
        for i in range(N)
    ]
    verdicts = desk.table("v.csv", ["sample_id", "order", "reward", *extra], rows)
    labels = desk.table("l.csv", ["sample_id", "label"], enumerate(HUMAN))
    fields = {"orders": ORDERS, "combine_orders": "average", "verdict_names": "answer", "labels": ["A", "B"], **spec}
    return audit_reward(verdicts, labels, desk.spec(False, statistic="accuracy", **fields))


def figures(result: Audit) -> dict[tuple[str, str], float | None]:
    return {(line.name, line.level): line.estimate.value for line in result.sections["judge"]}


def codes(result: Audit) -> set[str]:
    return {finding.code for finding in result.findings}


def test_a_fair_judge_has_its_figures_and_no_finding(desk: Desk) -> None:
    often = RNG.random(N) < 0.8
    said = np.where(often, HUMAN, WRONG)
    result = judged(desk, said, said)
    found = figures(result)
    assert found["positional agreement", "both orders"] == 1
    assert found["flip rate", "both orders"] == 0
    assert found["first-pick rate", "both orders"] == 0.5
    assert found["accuracy", "right in both orders"] == pytest.approx(often.mean())
    assert codes(result) == set()


def test_a_judge_that_leans_to_the_first_place_is_a_finding_with_its_interval(desk: Desk) -> None:
    leans = RNG.random(N) < 0.4
    result = judged(desk, np.where(leans, "A", HUMAN), np.where(leans, "B", HUMAN))
    assert figures(result)["first-pick rate", "both orders"] == pytest.approx(0.5 + leans.mean() / 2)
    finding = next(f for f in result.findings if f.code == "BIAS.POSITION")
    assert finding.estimate is not None
    assert finding.estimate.low is not None
    assert finding.estimate.low > 0.5
    assert "leans to the first" in finding.statement


def test_an_order_that_was_never_shown_is_said(desk: Desk) -> None:
    assert "BIAS.ORDER_MISSING" in codes(judged(desk, HUMAN, None))
    assert "BIAS.POSITION" not in codes(judged(desk, np.full(N, "A"), None))


def test_a_judge_that_says_one_thing_whatever_it_is_shown_is_blocking(desk: Desk) -> None:
    result = judged(desk, np.full(N, "A"), np.full(N, "B"))
    assert {"PARSE.CONSTANT", "BIAS.POSITION"} <= codes(result)
    assert next(f for f in result.findings if f.code == "PARSE.CONSTANT").severity == "blocking"


def test_verdicts_unread_in_one_order_only_are_a_finding(desk: Desk) -> None:
    garbage = np.where(np.arange(N) < 20, "?", HUMAN)
    result = judged(desk, HUMAN, garbage)
    assert "PARSE.BY_ORDER" in codes(result)
    assert figures(result)["unparsed", "order ba"] == pytest.approx(20 / N)
    both = judged(desk, garbage, garbage)
    assert "PARSE.BY_ORDER" not in codes(both)
    assert figures(both)["positional agreement", "both orders"] == 1


def test_a_taste_for_length_is_held_against_that_of_humans(desk: Desk) -> None:
    fond = RNG.random(N) < 0.5
    longer_wrong = [(1, 2) if h == "A" else (2, 1) for h in HUMAN]
    said = np.where(fond, WRONG, HUMAN)
    result = judged(desk, said, said, longer_wrong)
    found = figures(result)
    assert found["humans prefer the longer", "pairs"] == 0
    assert found["judge prefers the longer", "pairs"] == pytest.approx(fond.mean())
    assert "BIAS.VERBOSITY" in codes(result)
    longer_right = [(2, 1) if h == "A" else (1, 2) for h in HUMAN]
    assert "BIAS.VERBOSITY" not in codes(judged(desk, said, said, longer_right))


def test_a_judge_below_chance_is_said(desk: Desk) -> None:
    said = np.where(RNG.random(N) < 0.9, WRONG, HUMAN)
    assert "KAPPA.BELOW_CHANCE" in codes(judged(desk, said, said))


def test_a_sample_without_a_verdict_is_not_filled_in_for_the_panel(desk: Desk) -> None:
    gaps = np.where(np.arange(N) < 20, "", HUMAN)
    result = judged(desk, HUMAN, gaps, missing="worst")
    assert result.registered.estimate.value == pytest.approx(1 - 20 / N)
    assert figures(result)["accuracy", "average of orders"] == 1
    assert figures(result)["unparsed", "order ba"] == 0
    assert result.ledger.unscored == {"missing": 20}


def test_words_that_are_no_label_are_found_in_either_order(desk: Desk) -> None:
    result = judged(desk, HUMAN, np.where(HUMAN == "A", "1", "2"))
    assert "KAPPA.LABEL_VOCAB" in codes(result)
