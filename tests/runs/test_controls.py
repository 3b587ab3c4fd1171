"""Floors and controls, and what preflight makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evalkit import api
from evalkit.runs import Preflight
from tests.runs.support import Lab, lab

SPLIT_TARGETS = "{{ 'yes' if item_id in 'abc' else 'no' }}"


@pytest.fixture
def four(tmp_path: Path) -> Lab:
    return lab(tmp_path / "ws", "wxyz")


def preflight(lab: Lab, correct: str, **changes: str) -> Preflight:
    reference = lab.protocol(correct=correct)
    path = lab.workspace.protocols / "p.yaml"
    text = path.read_text().replace("version: 1", "version: 2")
    for before, after in changes.items():
        text = text.replace(f'{before}: "1"', f"{before}: {after}")
    path.write_text(text)
    lock = api.freeze(path, lab.workspace).lock
    assert reference == "p@1"
    return api.preflight(lock, "baseline:gold", split="s/dev", workspace=lab.workspace)


def passed(found: Preflight) -> dict[str, int]:
    return {control.kind: control.successes for control in found.controls}


def levels(found: Preflight) -> Mapping[str, Any]:
    return {
        finding.code: finding.level for finding in found.findings if finding.code in ("CONSTANT", "SHUFFLED", "ECHO")
    }


def test_a_constant_that_is_often_right_is_a_warning_and_shuffled_luck_is_none(four: Lab) -> None:
    """Of four items three say yes: shuffled is right by luck twice, never where the lender's target is another."""
    found = preflight(four, "{use: exact, role: correctness}", target=f'"{SPLIT_TARGETS}"')
    assert passed(found) == {"null": 0, "echo": 0, "constant": 3, "shuffled": 2, "gold": 4}
    assert levels(found) == {"CONSTANT": "warning"}
    shuffled = found.controls[3]
    assert (shuffled.others, shuffled.others_passed) == (2, 0)


def test_one_target_for_all_is_a_no_go(four: Lab) -> None:
    found = preflight(four, "{use: exact, role: correctness}")
    assert passed(found)["shuffled"] == passed(found)["constant"] == 4
    assert levels(found) == {"SHUFFLED": "no-go", "CONSTANT": "warning"}
    [line] = [finding for finding in found.findings if finding.code == "SHUFFLED"]
    assert line.mend == "use items with different targets"


def test_a_scorer_that_does_not_compare_is_a_no_go(four: Lab) -> None:
    (four.workspace.root / "any.py").write_text(
        "def f(completion, target, item):\n    return float('es' in completion or 'no' in completion)\n"
    )
    found = preflight(four, "{use: 'python:any.py:f', role: correctness, range: [0, 1]}", target=f'"{SPLIT_TARGETS}"')
    assert levels(found) == {"SHUFFLED": "no-go", "CONSTANT": "warning"}
    [line] = [finding for finding in found.findings if finding.code == "SHUFFLED"]
    assert line.statement == "gold of other items succeeds on 4 of 4 items, 2 of the 2 with another target"


def test_success_that_never_looks_at_the_target_is_said_not_stopped(four: Lab) -> None:
    found = preflight(four, "{use: json_schema, role: formatting, params: {schema: {type: integer}}}")
    assert levels(found) == {"SHUFFLED": "warning", "CONSTANT": "warning"}
    assert found.verdict == "go"


def test_an_echo_that_passes_half_is_a_no_go(four: Lab) -> None:
    """The last number of `number 1` is a right answer where targets are the items' own numbers."""
    found = preflight(four, "{use: number, role: correctness}", target='"{{ question[-1] }}"')
    assert passed(found)["echo"] == 4
    assert levels(found) == {"ECHO": "no-go"}
    assert found.verdict == "no-go"


def test_a_reward_that_needs_tokens_has_none_on_controls_and_says_so(four: Lab) -> None:
    gold = preflight(four, "{use: exact, role: correctness}").controls[4]
    assert (gold.reward, gold.rewarded) == (None, 0)
    assert gold.reward_why == "brief abstained: the number of completion tokens is unknown"
