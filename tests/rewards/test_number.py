"""What `number` reads, what it refuses to guess, and that nothing hostile gets past it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from evalkit.errors import BadInput
from evalkit.rewards import Response, Score, Status, build, evaluate


def score(completion: str, target: str | None = "5", **params: object) -> Score:
    return evaluate(build("number", params, Path()), Response(completion, target, {}, None))


@pytest.mark.parametrize(
    ("spelling", "answer"),
    [
        ("18", "18"),
        ("-5", "-5"),
        ("−5", "-5"),
        ("+5", "5"),
        ("5.", "5"),
        ("12.", "12"),
        (".5", "0.5"),
        ("-.5", "-0.5"),
        ("007", "7"),
        ("0", "0"),
        ("-0", "0"),
        ("3.50", "3.5"),
        ("1,234.5", "1234.5"),
        ("1,234,567", "1234567"),
        ("12,34,567", "1234567"),
        ("1'000", "1000"),
        ("1\u202f000", "1000"),
        ("1_000", "1000"),
        ("1{,}000", "1000"),
        ("$3", "3"),
        ("-$3", "-3"),
        ("$-3", "-3"),
        ("\\$3", "3"),
        ("3 €", "3"),
        ("3%", "3"),
        ("3\\%", "3"),
        ("1e5", "100000"),
        ("1.5E-3", "0.0015"),
        ("1e−2", "0.01"),
        ("7/14", "1/2"),
        ("8/4", "2"),
        ("-1/3", "-1/3"),
        ("\\frac{1}{3}", "1/3"),
        ("**18**", "18"),
        ("\\boxed{18}", "18"),
        ("(18)", "18"),
        ("٣", "3"),
        ("١٢٫٥", "12.5"),
        ("１２", "12"),
        ("答案是18", "18"),
        ("5kg", "5"),
        ("3rd", "3"),
        ("18,", "18"),
        ("x = -4", "-4"),
        ("10-5", "5"),
        ("5 - 3", "3"),
        ("is...5", "5"),
        ("H2O holds 7", "7"),
        ("first 3, then 1,000", "1000"),
        ("In 2020 100", "100"),
        ("\u202b٣\u202c", "3"),
        ("5\x00", "5"),
    ],
)
def test_spellings_that_are_read(spelling: str, answer: str) -> None:
    found = score(spelling, answer)
    assert (found.answer, found.value, found.status) == (answer, 1.0, Status.OK)


@pytest.mark.parametrize(
    "completion",
    [
        "",
        "  \n",
        "five",
        "1,234,56",
        "1,5",
        "0,500",
        "1.234,56",
        "1.2.3",
        "3/4/2024",
        "1 000",
        "1 1/2",
        "10^5",
        "2^10",
        "√2",
        "\\sqrt{2}",
        "1/0",
        "H2O",
        "x1",
        "1" * 5000,
        "1," * 400_000,
        "1e500",
        "1e99999999999999999999",
        "²",
        "½",
        "\ud800",
    ],
)
def test_what_cannot_be_told_is_no_answer_and_wrong_never_a_guess(completion: str) -> None:
    found = score(completion)
    assert (found.value, found.status, found.answer) == (0.0, Status.OK, None)


def test_after_the_marker_the_first_number_counts_and_of_markers_the_last() -> None:
    assert score("A: 3\nno, A: 5 (not 7)", marker="A:").answer == "5"


def test_the_marker_turns_an_answer_before_it_into_none() -> None:
    assert score("5 A:", marker="A:").evidence == "no number"
    assert score("5", marker="A:").evidence == "no marker"


@pytest.mark.parametrize("completion", ["A: 1 000", "A: 1 1/2", "A: 10^5"])
def test_after_a_marker_the_head_of_a_longer_number_is_not_the_number(completion: str) -> None:
    assert score(completion, "1", marker="A:").answer is None


def test_the_last_number_is_found_however_far_from_the_end() -> None:
    assert score("7 is it" + " and so on" * 100_000, "7").value == 1.0
    for spaces in range(55, 70):
        assert score("1,234" + " " * spaces, "1234").value == 1.0
    assert score("1" * 300 + "." + "0" * 700, "7").answer is None


def test_gold_is_read_by_the_same_parser_after_its_own_marker() -> None:
    assert score("A: 1,000", "It is 3.\n#### 1000.0", marker="A:", target_marker="####").value == 1.0


@pytest.mark.parametrize(
    ("target", "evidence"),
    [
        (None, "gold: the item has no target"),
        ("", "gold: no number"),
        ("five", "gold: no number"),
        ("3 or 4", "gold: more than one number; set target_marker"),
        ("1,5", "gold: separators that do not group thousands"),
    ],
)
def test_a_gold_that_cannot_be_read_fails_and_says_so(target: str | None, evidence: str) -> None:
    found = score("5", target)
    assert (found.value, found.status, found.evidence) == (None, Status.FAILED, evidence)


def test_tolerance_is_absolute_inclusive_and_exact() -> None:
    assert score("0.3", "0.2", tolerance="0.1").value == 1.0
    assert score("0.30000000000000000000000000000001", "0.2", tolerance="0.1").value == 0.0
    assert score("1/3", "0.333", tolerance=Decimal("0.001")).value == 1.0
    assert score("1/3", "0.333").value == 0.0


def test_numbers_that_differ_beyond_the_28th_digit_differ() -> None:
    digits = "1" * 40
    assert score(digits + "2", digits + "1").value == 0.0
    assert score(digits + "1", digits + "1").value == 1.0


def test_a_fraction_equals_the_decimal_it_is() -> None:
    assert score("7/14", "0.5").value == 1.0


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"marker": ""}, "component number: marker: empty text marks nothing; give a text or leave it out"),
        ({"tolerance": "-1"}, "component number: tolerance: -1 is not a number ≥ 0"),
        ({"tolerance": "lots"}, "component number: tolerance: text found; give a number"),
        ({"toleranse": 1}, "component number: no parameter 'toleranse'; did you mean 'tolerance'?"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(params: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput) as error:
        build("number", params, Path())
    assert str(error.value) == message
