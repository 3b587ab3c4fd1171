"""What a component is, what it is given, what it answers, and the one place where it is run.

1. A component is a frozen dataclass whose fields are its parameters, and which is pure: same response, same score.
2. A score is a value or no value with a status. A value of 0 is a judgement; no verdict is never a zero. A completion
   in which no answer can be read is judged: it is wrong, with `answer` null. A gold that cannot be read is no verdict.
3. `evaluate` is the one place that runs a component. An exception becomes `failed`, NaN and infinity become `nan`, a
   value outside the declared range becomes `failed`. Nothing a model or a scorer writes gets past it as an exception.
4. This file imports the standard library only: its bytes, and those of all it imports, enter the source digest of
   every component (`sources.py`).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from numbers import Real
from typing import Any, Protocol

LONGEST_TEXT = 1000
"""Characters of an answer or a piece of evidence that are kept. A longer answer ends in a digest of the whole, so that
two different long answers stay different when answers are counted (maj@k)."""


class Status(StrEnum):
    """How a score came about."""

    OK = "ok"
    """There is a value."""
    FAILED = "failed"
    """The scorer or the item is at fault: an exception, a gold that cannot be read, a value outside its range."""
    UNPARSED = "unparsed"
    """The completion is nothing that can be judged, or a rater's reply could not be read."""
    ABSTAINED = "abstained"
    """The component does not apply to this sample."""
    TIMEOUT = "timeout"
    """The component passed its deadline and was killed."""
    NAN = "nan"
    """The component answered NaN or infinity."""


@dataclass(frozen=True, slots=True)
class Score:
    """A component's value for one sample, or why there is none."""

    value: float | None
    """`None` exactly when `status` is not `ok`."""
    status: Status
    answer: str | None = None
    """What was read from the completion, in a normal form; `None` where nothing could be, or nothing is read."""
    evidence: str | None = None
    """One line on why, for a person."""

    def __post_init__(self) -> None:
        if (self.value is None) is (self.status is Status.OK):
            raise ValueError(f"a score has a value exactly when its status is ok; status {self.status}")


@dataclass(frozen=True, slots=True)
class Response:
    """One completion and what it answers."""

    completion: str
    """The text that is judged: without reasoning, where the protocol splits it off."""
    target: str | None
    """The gold answer; `None` where the item has none."""
    item: Mapping[str, Any]
    n_completion_tokens: int | None
    """`None` where the engine did not say."""


class Component(Protocol):
    """One named part of a reward. Implementations are frozen dataclasses; their fields are their parameters.

    Parameters are of the kinds true/false, whole number, Decimal, text, and lists and objects of these. `__post_init__`
    raises `ValueError` with a message for the user when they do not make sense together.
    """

    @property
    def declared_range(self) -> tuple[float, float] | None:
        """Lowest and highest possible value; `None` = unbounded."""
        ...

    def score(self, response: Response) -> Score:
        """The score of one response."""
        ...


def ok(value: float, answer: str | None = None, evidence: str | None = None) -> Score:
    """A score with a value."""
    return Score(value, Status.OK, answer, evidence)


def no_answer(evidence: str) -> Score:
    """The verdict on a completion in which no answer can be read: 0, and why."""
    return ok(0.0, None, evidence)


def no_verdict(status: Status, evidence: str, answer: str | None = None) -> Score:
    """A score without a value."""
    return Score(None, status, answer, evidence)


def as_score(result: object) -> Score:
    """The score that a plain result stands for: `None` abstains, a number or true/false is a value, all else failed."""
    if result is None:
        return no_verdict(Status.ABSTAINED, "the scorer returned None")
    if not isinstance(result, Real | Decimal):
        return no_verdict(Status.FAILED, f"the scorer returned {type(result).__name__}, not a number")
    try:
        return ok(float(result))
    except OverflowError:
        return no_verdict(Status.NAN, "the scorer returned a number too large for a float")


def evaluate(component: Component, response: Response) -> Score:
    """The score of `response`, whatever the component does. Never raises."""
    try:
        return _checked(component.score(response), component.declared_range)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the one boundary to scorers: a bad scorer is data
        return no_verdict(Status.FAILED, _kept(describe(error)))


def describe(error: BaseException) -> str:
    """Type and first line of the message of an exception."""
    try:
        lines = str(error).splitlines()
    except Exception:  # noqa: BLE001 - the message itself is a scorer's code
        lines = []
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _checked(score: Score, declared_range: tuple[float, float] | None) -> Score:
    """`score` with texts that can be stored, and without a value that is not finite or not in range."""
    if score.answer is not None or score.evidence is not None:
        answer = None if score.answer is None else _kept(score.answer)
        evidence = None if score.evidence is None else _kept(score.evidence)
        if answer is not score.answer or evidence is not score.evidence:
            score = replace(score, answer=answer, evidence=evidence)
    if score.value is None:
        return score
    if not math.isfinite(score.value):
        return no_verdict(Status.NAN, f"the scorer returned {score.value}", score.answer)
    if declared_range is not None and not declared_range[0] <= score.value <= declared_range[1]:
        low, high = declared_range
        evidence = f"value {score.value} is outside the declared range [{low}, {high}]"
        return no_verdict(Status.FAILED, evidence, score.answer)
    return score


def _kept(text: str) -> str:
    """`text` as it can be stored: at most `LONGEST_TEXT` characters, lone surrogates replaced by U+FFFD."""
    if len(text) > LONGEST_TEXT:
        name = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        text = f"{text[: LONGEST_TEXT - 40]}… sha256:{name}"
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    return text
