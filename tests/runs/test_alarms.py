"""Alarms: signs that a number measures something else than the model."""

import polars as pl

from evalkit.runs.alarms import alarms_of
from evalkit.runs.evidence import Evidence
from tests.protocol.specs import FULL, lock_of

N = 40


def evidence(failures: dict[str, str] | None = None, control: bool = False, **columns: object) -> Evidence:
    calm = {
        "item_id": [str(i // 4) for i in range(N)], "has_text": [True] * N, "empty": [False] * N,
        "outcome": ["completed"] * N, "unterminated_reasoning": [False] * N, "answer": ["1"] * N,
        "text_hash": list(range(N)), "status.correct": ["ok"] * N, "value.correct": [1.0] * N,
    }  # fmt: skip
    return Evidence(lock_of(FULL), control, failures or {}, pl.DataFrame({**calm, **columns}, strict=False))


def codes(found: Evidence) -> list[str]:
    return [alarm.code for alarm in alarms_of(found)]


def test_a_calm_run_has_no_alarm() -> None:
    assert codes(evidence()) == []


def test_each_sign_has_its_alarm() -> None:
    assert codes(evidence(empty=[True, *[False] * 39])) == ["EMPTY"]
    assert codes(evidence(outcome=["truncated", *["completed"] * 39])) == ["TRUNCATED"]
    assert codes(evidence(unterminated_reasoning=[True, *[False] * 39])) == ["UNTERMINATED_REASONING"]
    assert codes(evidence(answer=[None, None, None, *["1"] * 37])) == ["EXTRACTION"]
    assert codes(evidence(text_hash=[i // 4 for i in range(N)])) == ["SAME_TRIALS"]
    assert codes(evidence(has_text=[False] * N)) == ["NO_COMPLETIONS"]


def test_answers_missing_in_every_completion_are_an_alarm_too() -> None:
    assert codes(evidence(answer=[None] * N)) == ["EXTRACTION"]


def test_a_scorer_that_fails_says_why_and_one_that_abstains_does_not_count() -> None:
    failing = evidence(
        {"correct": "ZeroDivisionError: division by zero"}, **{"status.correct": ["failed"] * 3 + ["ok"] * 37}
    )
    [alarm] = alarms_of(failing)
    assert (alarm.code, alarm.n) == ("SCORER", N)
    assert alarm.statement == "correct failed on 3 of 40 completions, first so: ZeroDivisionError: division by zero"
    assert codes(evidence(**{"status.correct": ["abstained"] * N})) == []


def test_a_control_that_repeats_itself_is_no_alarm() -> None:
    assert codes(evidence(control=True, text_hash=[0] * N)) == []
