"""The one boundary: whatever a model writes and a component does, the outcome is a score that keeps the contract."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.rewards import NAMES, Response, Score, Status, build, evaluate
from evalkit.rewards.base import as_score

PARAMS: dict[str, dict[str, Any]] = {
    "conciseness": {"budget": 2, "limit": 9, "unit": "characters"},
    "formatting": {"required_headings": ["A"], "fences_closed": True, "max_lines": 3},
    "json_schema": {"schema": {"type": ["object", "number"], "multipleOf": "0.5"}},
    "number": {"marker": ":"},
    "regex": {"pattern": r"(\d+)|(\w)"},
}
ASKED = {"instruction_id_list": ["punctuation:no_comma", "startend:quotation"], "kwargs": [{}, {}]}
HOSTILE = [
    "",
    "\x00",
    "\ud800",
    "a\udfffb: 5",
    "\u202e٣ :٣",
    "²:½",
    "9" * 5000,
    ": " + "9" * 1_000_000,
    "word " * 200_000,
    "\n" * 1_000_000,
    "1," * 100_000,
    "[" * 100_000,
    "# " * 100_000,
    "```" * 50_000,
    "(A" * 50_000,
    "answer is " * 20_000,
    "# " + " #" * 50_000 + "x",
    "# " + " " * 100_000 + "x",
    "1 " * 50_000,
    "-" * 100_000,
    '{"a":' * 50_000,
    "1e" * 50_000,
    "1/" * 50_000,
    "**" * 50_000,
    " |-" * 50_000,
    "e.e." * 50_000,
    "\u00a0" * 100_000,
]
pieces = st.sampled_from(
    [
        "answer is ",
        "(B)",
        "A",
        "1,234",
        "−5",
        ".",
        ":",
        "e",
        "/",
        "1/0",
        "{",
        "]",
        "```\n",
        "# A\n",
        "٣",
        "½",
        "\ud800",
        "\x00",
        "9" * 4500,
        "^",
        " ",
        "\\frac{1}{0}",
        "$",
        "%",
        "Infinity",
        "1e401",
    ]
)
texts = st.one_of(st.text(st.characters(), max_size=60), st.lists(pieces, max_size=8).map("".join))


@dataclass(frozen=True)
class Returning:
    """A component that answers `result`, or raises it."""

    result: object
    declared_range: ClassVar[tuple[float, float] | None] = None

    def score(self, response: Response) -> Score:
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result if isinstance(self.result, Score) else as_score(self.result)


class Bounded(Returning):
    declared_range = (0.0, 1.0)


def outcome(component: Any) -> tuple[float | None, Status, str | None]:
    score = evaluate(component, Response("x", None, {}, None))
    return score.value, score.status, score.evidence


def keeps_the_contract(score: Score, declared: tuple[float, float] | None) -> bool:
    for text in (score.answer, score.evidence):
        assert text is None or (len(text) <= 1000 and text.encode() is not None)
    if score.value is None:
        return score.status is not Status.OK
    return (
        score.status is Status.OK
        and math.isfinite(score.value)
        and (declared is None or declared[0] <= score.value <= declared[1])
    )


@pytest.mark.parametrize("name", NAMES)
@given(
    completion=texts,
    target=st.none() | texts,
    harmful=st.none() | st.booleans() | texts,
    tokens=st.none() | st.integers(),
)
@settings(max_examples=60, deadline=None)
def test_no_input_gets_past_a_component(
    name: str, completion: str, target: str | None, harmful: object, tokens: int | None
) -> None:
    component = build(name, PARAMS.get(name, {}), Path())
    response = Response(completion, target, {"harmful": harmful, **ASKED}, tokens)
    score = evaluate(component, response)
    assert keeps_the_contract(score, component.declared_range)
    assert score == evaluate(component, response)


@pytest.mark.parametrize("name", NAMES)
def test_a_megabyte_of_anything_is_scored(name: str) -> None:
    component = build(name, PARAMS.get(name, {}), Path())
    for text in HOSTILE:
        for target in (None, "5", text[:2000]):
            score = evaluate(component, Response(text, target, {"harmful": True, **ASKED}, None))
            assert keeps_the_contract(score, component.declared_range)


@pytest.mark.parametrize("result", [math.nan, math.inf, -math.inf, 10**400, Decimal("NaN"), Decimal("1e999")])
def test_a_value_that_is_not_finite_is_nan_and_not_a_number(result: object) -> None:
    assert outcome(Returning(result))[:2] == (None, Status.NAN)


@pytest.mark.parametrize(
    ("error", "evidence"),
    [
        (ValueError("first\nsecond"), "ValueError: first"),
        (KeyError(), "KeyError"),
        (MemoryError(), "MemoryError"),
        (RecursionError("deep"), "RecursionError: deep"),
        (SystemExit(3), "SystemExit: 3"),
    ],
)
def test_an_exception_is_a_failed_score_with_type_and_first_line(error: BaseException, evidence: str) -> None:
    assert outcome(Returning(error)) == (None, Status.FAILED, evidence)


def test_an_exception_whose_message_raises_is_still_a_failed_score() -> None:
    class Nasty(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert outcome(Returning(Nasty())) == (None, Status.FAILED, "Nasty")


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (None, (None, Status.ABSTAINED, "the scorer returned None")),
        (True, (1.0, Status.OK, None)),
        (2, (2.0, Status.OK, None)),
        (Decimal("0.5"), (0.5, Status.OK, None)),
        ("1", (None, Status.FAILED, "the scorer returned str, not a number")),
        ([1], (None, Status.FAILED, "the scorer returned list, not a number")),
    ],
)
def test_a_plain_result_is_a_value_or_no_verdict(result: object, expected: object) -> None:
    assert outcome(Returning(result)) == expected


def test_a_value_outside_the_declared_range_is_no_verdict() -> None:
    assert outcome(Bounded(1.5)) == (None, Status.FAILED, "value 1.5 is outside the declared range [0.0, 1.0]")


def test_a_score_has_a_value_exactly_when_it_is_ok() -> None:
    with pytest.raises(ValueError, match="exactly when its status is ok"):
        Score(0.0, Status.FAILED)
    with pytest.raises(ValueError, match="exactly when its status is ok"):
        Score(None, Status.OK)


def test_texts_are_kept_storable_and_long_answers_stay_different() -> None:
    scores = [
        evaluate(Returning(Score(1.0, Status.OK, "x" * 5000 + end)), Response("", None, {}, None)) for end in "ab"
    ]
    assert scores[0].answer != scores[1].answer
    assert [len(score.answer or "") for score in scores] == [985, 985]
    assert evaluate(Returning(Score(1.0, Status.OK, "a\ud800")), Response("", None, {}, None)).answer == "a���"
