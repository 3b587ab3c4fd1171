"""Which letter was chosen, and when none was."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalkit.errors import BadInput
from evalkit.rewards import Response, Score, Status, build, evaluate


def score(completion: str, target: str | None = "B", **params: object) -> Score:
    return evaluate(build("choice", params, Path()), Response(completion, target, {}, None))


@pytest.mark.parametrize(
    "completion",
    [
        "B",
        "b",
        "(B)",
        "B.",
        "**B**",
        "B) Paris",
        "The answer is (B)",
        "the answer is B.",
        "Answer: B",
        "answer: b",
        "**Answer:** B",
        "The answer is option B",
        "The answer is (b).",
        "\\boxed{B}",
        "答案 answer is:B",
        "The answer is A. Wait. The answer is B",
        "The answer is B. A common mistake is to add.",
        "Answer:\n\n(B)",
        "I think the final answer is: (B) 42",
        "Options (A) or (C)? The answer is B",
        "answer is B because I checked",
    ],
)
def test_one_chosen_letter_counts(completion: str) -> None:
    found = score(completion)
    assert (found.answer, found.value) == ("B", 1.0)


def test_another_letter_than_the_gold_is_zero() -> None:
    assert score("The answer is C").value == 0.0


@pytest.mark.parametrize(
    ("completion", "evidence"),
    [
        ("The answer is B because A is wrong", "ambiguous: A and B"),
        ("The answer is A or B", "ambiguous: A and B"),
        ("Answer: A/B", "ambiguous: A and B"),
        ("answer: b, or rather (c)", "ambiguous: B and C"),
        ("(A) is red, (B) is blue", "ambiguous: A and B"),
        ("The answer is not B", "no letter chosen"),
        ("The answer isn't here. The answer is unknown", "no letter chosen"),
        ("The answer is a dog", "no letter chosen"),
        ("Because of it", "no letter chosen"),
        ("ABBA", "no letter chosen"),
        ("", "no letter chosen"),
        ("The answer is E", "no letter chosen"),
    ],
)
def test_two_letters_or_none_are_no_answer_and_wrong_never_the_first(completion: str, evidence: str) -> None:
    found = score(completion)
    assert (found.value, found.answer, found.evidence) == (0.0, None, evidence)


def test_an_a_right_after_the_marker_is_the_letter() -> None:
    assert score("The answer is A", "A").value == 1.0
    assert score("The answer is A by elimination", "A").value == 1.0
    assert score("The answer is **A** since it fits", "A").value == 1.0


@pytest.mark.parametrize("target", [None, "", "E", "AB", "1"])
def test_a_gold_that_is_no_option_fails(target: str | None) -> None:
    found = score("B", target)
    assert (found.status, found.evidence) == (Status.FAILED, "gold: not one of the letters A B C D")


def test_letters_and_markers_are_parameters() -> None:
    assert score("Ergebnis: E", "(e)", letters=["D", "E"], markers=["Ergebnis:"]).value == 1.0


@pytest.mark.parametrize("letters", [["a", "b"], ["A"], ["A", "A"], ["AB", "C"], ["A", ""]])
def test_letters_that_are_none_are_refused(letters: list[str]) -> None:
    with pytest.raises(BadInput, match="letters: give two or more different capital letters A to Z"):
        score("B", letters=letters)
