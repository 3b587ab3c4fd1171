"""`constraints`: strict and loose, both aggregates, malformed items, hostile completions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import BadInput
from evalkit.rewards import Response, Score, ScoringPool, Status, build, evaluate
from evalkit.rewards.instructions import INSTRUCTIONS, Kind

NO_COMMA, QUOTATION, TITLE = "punctuation:no_comma", "startend:quotation", "detectable_format:title"
WORDS, END = "length_constraints:number_words", "startend:end_checker"


def asked(*pairs: tuple[Any, Any]) -> dict[str, Any]:
    return {"instruction_id_list": [name for name, _ in pairs], "kwargs": [kwargs for _, kwargs in pairs]}


def score(completion: str, item: dict[str, Any], **params: Any) -> Score:
    return evaluate(build("constraints", params, Path()), Response(completion, None, item, None))


def test_all_is_one_only_if_every_instruction_is_followed_and_mean_is_the_share() -> None:
    item = asked((NO_COMMA, {}), (TITLE, {}), (QUOTATION, {}), (WORDS, {"num_words": 3, "relation": "at least"}))
    text = "<<A day>> one, two"
    assert score(text, item) == Score(0.0, Status.OK, None, f"not followed: {NO_COMMA}, {QUOTATION}")
    assert score(text, item, aggregate="mean").value == 0.5
    assert score('"<<A day>> one two"', item) == Score(1.0, Status.OK)


@pytest.mark.parametrize(
    ("completion", "pair"),
    [
        ('**"all of it"**', (QUOTATION, {})),
        ('Sure, here it is:\n"all of it"', (QUOTATION, {})),
        ('"all of it"\nAnything else?', (QUOTATION, {})),
        ('Sure:\n"all of it"\nAnything else?', (QUOTATION, {})),
        ('Sure:\n*"all of it"*', (QUOTATION, {})),
        ('*"all of it"*\nAnything else?', (QUOTATION, {})),
        ('Sure:\n*"all of it"*\nAnything else?', (QUOTATION, {})),
        ("Sure, here:\none; two", (NO_COMMA, {})),
        ("The end.*\n\nBye", (END, {"end_phrase": "the end."})),
    ],
)
def test_loose_forgives_a_first_line_a_last_line_and_asterisks_and_strict_does_not(
    completion: str, pair: tuple[str, dict[str, Any]]
) -> None:
    assert score(completion, asked(pair)).value == 0.0
    assert score(completion, asked(pair), mode="loose").value == 1.0


def test_loose_takes_what_strict_takes_and_lets_each_instruction_have_its_own_variant() -> None:
    bold = ("detectable_format:number_highlighted_sections", {"num_highlights": 1})
    text = 'Sure, here:\n"some *bold* words"'
    assert score(text, asked(bold), mode="loose").value == 1.0
    assert score(text, asked(bold, (QUOTATION, {}), (NO_COMMA, {})), mode="loose").value == 1.0
    assert score('a\nSure:\n"all"', asked((QUOTATION, {})), mode="loose").value == 0.0


@pytest.mark.parametrize("mode", ["strict", "loose"])
@pytest.mark.parametrize("completion", ["", " \n\t\n ", "***"])
def test_nothing_follows_nothing(mode: str, completion: str) -> None:
    item = asked((NO_COMMA, {}), (WORDS, {"num_words": 5, "relation": "less than"}))
    expected = 1.0 if completion == "***" else 0.0
    assert score(completion, item, mode=mode).value == expected


def test_an_argument_that_is_null_counts_as_not_there() -> None:
    every = {name: None for kind in INSTRUCTIONS.values() for name in kind.arguments}
    assert score("one two", asked((WORDS, {**every, "num_words": 2.0, "relation": "at least"}))).value == 1.0
    assert score("one", asked((NO_COMMA, every))).value == 1.0


IDS, KWARGS = "item field 'instruction_id_list'", "item field 'kwargs'"


@pytest.mark.parametrize(
    ("item", "evidence"),
    [
        ({}, f"{IDS}: missing, or no list; give a list of IFEval's instruction ids"),
        (
            {"instruction_id_list": [], "kwargs": []},
            f"{IDS}: missing, or no list; give a list of IFEval's instruction ids",
        ),
        (
            {"instruction_id_list": NO_COMMA, "kwargs": [{}]},
            f"{IDS}: missing, or no list; give a list of IFEval's instruction ids",
        ),
        ({"instruction_id_list": [NO_COMMA]}, f"{KWARGS}: give a list of 1 objects, one per instruction"),
        (
            {"instruction_id_list": [NO_COMMA], "kwargs": [{}, {}]},
            f"{KWARGS}: give a list of 1 objects, one per instruction",
        ),
        (asked((NO_COMMA, None)), f"{KWARGS}[0]: no object; give the arguments of {NO_COMMA}, {{}} for none"),
        (
            asked((NO_COMMA, {}), ("no:such", {})),
            f"{IDS}[1]: 'no:such' is no instruction of IFEval's; give one of its 25 ids",
        ),
        (asked((7, {})), f"{IDS}[0]: 7 is no instruction of IFEval's; give one of its 25 ids"),
        (asked((WORDS, {"num_words": 3})), f"{KWARGS}[0]: {WORDS} needs relation; give 'at least' or 'less than'"),
        (
            asked((WORDS, {"num_words": 3, "relation": "at most"})),
            f"{KWARGS}[0]: relation of {WORDS} is something else; give 'at least' or 'less than'",
        ),
        (asked((NO_COMMA, {"num_words": 3})), f"{KWARGS}[0]: {NO_COMMA} has no argument 'num_words'; leave it out"),
    ],
)
def test_an_item_that_cannot_be_read_is_no_verdict_and_says_what_to_give(item: dict[str, Any], evidence: str) -> None:
    for aggregate in ("all", "mean"):
        assert score("one two three", item, aggregate=aggregate) == Score(None, Status.FAILED, None, evidence)


WRONG: dict[Kind, list[Any]] = {
    Kind.COUNT: [True, "3", -1, 1.5, float("nan"), float("inf"), [3]],
    Kind.POSITION: [0, "1", True],
    Kind.RELATION: ["at most", 1, ["at least"]],
    Kind.TEXT: ["", " ", 3, ["a"]],
    Kind.TEXTS: ["a", [], [""], [1], {"a": 1}],
    Kind.CHARACTER: ["ab", "", " ", 1],
    Kind.LANGUAGE: ["xx", "Finnish", 1, ["fi"]],
}
RIGHT: dict[Kind, Any] = {
    Kind.COUNT: 1,
    Kind.POSITION: 1,
    Kind.RELATION: "at least",
    Kind.TEXT: "[(*",
    Kind.TEXTS: ["[(*", "a"],
    Kind.CHARACTER: "[",
    Kind.LANGUAGE: "fi",
}


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_an_argument_of_another_kind_or_missing_is_no_verdict(name: str) -> None:
    right = {key: RIGHT[kind] for key, kind in INSTRUCTIONS[name].arguments.items()}
    assert score("a b c", asked((name, right))).status is Status.OK
    for key, kind in INSTRUCTIONS[name].arguments.items():
        for wrong in (*WRONG[kind], None):
            found = score("a b c", asked((name, {**right, key: wrong})))
            assert (found.value, found.status) == (None, Status.FAILED)


def test_fields_of_another_name_are_read_when_asked() -> None:
    item = {"ids": [NO_COMMA], "args": [{}]}
    assert score("a b", item, ids_field="ids", kwargs_field="args").value == 1.0
    assert score("a b", item).status is Status.FAILED


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"mode": "lose"}, "component constraints: mode: 'lose' is neither strict nor loose"),
        ({"aggregate": "any"}, "component constraints: aggregate: 'any' is neither all nor mean"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as error:
        build("constraints", params, Path())
    assert str(error.value) == message


HOSTILE = [
    "[",
    "\n",
    " ",
    "*",
    "<<",
    "[\n",
    "\n * ",
    "'",
    "p. ",
    "a@",
    "http://",
    '{"a":',
    "Section ",
    "-",
    "A",
    "中",
    "\x00",
]


async def test_a_hundred_thousand_characters_of_anything_are_judged_within_the_deadline(tmp_path: Path) -> None:
    item = asked(
        *((name, {key: RIGHT[kind] for key, kind in it.arguments.items()}) for name, it in INSTRUCTIONS.items())
    )
    batch = [(str(at), Response(mark * (100_000 // len(mark)), None, item, None)) for at, mark in enumerate(HOSTILE)]
    async with ScoringPool({"c": ("constraints", {})}, tmp_path) as pool:
        found = [scores["c"] for key in batch for scores in (await pool.score([key])).values()]
    assert [each.status for each in found] == [Status.OK] * len(HOSTILE)
