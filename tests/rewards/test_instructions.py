"""The 25 instruction types of IFEval, one by one, on texts of our own."""

from __future__ import annotations

from typing import Any

import pytest

from evalkit.rewards.instructions import INSTRUCTIONS

ENGLISH = "the harbour is quiet in the morning and the boats come home before noon"
LOUD = "HELLO THERE MY FRIEND, THIS IS WHAT WE SHOUT WHEN THE HARBOUR AWAKES AND THE FOG LIFTS OFF THE WATER"
FINNISH = "Satama on aamulla hiljainen, ja veneet palaavat kotiin ennen puoltapäivää."
HINDI = "सुबह बंदरगाह शांत रहता है और नावें दोपहर से पहले घर लौट आती हैं।"

CASES: dict[str, list[tuple[dict[str, Any], str, bool]]] = {
    "keywords:existence": [
        ({"keywords": ["sea", "Boat"]}, "SEASIDE boats", True),
        ({"keywords": ["sea", "boat"]}, "the sea", False),
        ({"keywords": ["a.c"]}, "abc", False),
    ],
    "keywords:frequency": [
        ({"keyword": "oar", "frequency": 2, "relation": "at least"}, "Oar and board", True),
        ({"keyword": "oar", "frequency": 3, "relation": "at least"}, "Oar and board", False),
        ({"keyword": " oar ", "frequency": 2, "relation": "less than"}, "one oar", True),
        ({"keyword": "oar", "frequency": 1, "relation": "less than"}, "one oar", False),
        ({"keyword": "oar", "frequency": 2.0, "relation": "at least"}, "oar oar", True),
    ],
    "keywords:forbidden_words": [
        ({"forbidden_words": ["sea"]}, "the Sea.", False),
        ({"forbidden_words": ["sea"]}, "the seaside", True),
        ({"forbidden_words": ["(", "sea"]}, "a lake", True),
    ],
    "keywords:letter_frequency": [
        ({"letter": "O", "let_frequency": 3, "let_relation": "at least"}, "Oslo fjord", True),
        ({"letter": "o", "let_frequency": 3, "let_relation": "less than"}, "Oslo fjord", False),
        ({"letter": "#", "let_frequency": 2, "let_relation": "at least"}, "# a #b", True),
    ],
    "language:response_language": [
        ({"language": "fi"}, FINNISH, True),
        ({"language": "hi"}, HINDI, True),
        ({"language": "fi"}, ENGLISH, False),
        ({"language": "fi"}, "12345 !!!", False),
    ],
    "length_constraints:number_sentences": [
        ({"num_sentences": 2, "relation": "at least"}, "One. Two.", True),
        ({"num_sentences": 3, "relation": "at least"}, "One. Two.", False),
        ({"num_sentences": 2, "relation": "less than"}, "One, and Mr. Two.", True),
        ({"num_sentences": 2, "relation": "less than"}, "One. Two.", False),
    ],
    "length_constraints:number_paragraphs": [
        ({"num_paragraphs": 2}, "one\n***\ntwo", True),
        ({"num_paragraphs": 2}, "***\none\n***\ntwo\n***", True),
        ({"num_paragraphs": 2}, "one\n\ntwo", False),
        ({"num_paragraphs": 2}, "one *** *** two", False),
        ({"num_paragraphs": 1}, "one", True),
    ],
    "length_constraints:number_words": [
        ({"num_words": 4, "relation": "at least"}, "it isn't late", True),
        ({"num_words": 4, "relation": "less than"}, "it is late", True),
        ({"num_words": 3, "relation": "less than"}, "it is late", False),
    ],
    "length_constraints:nth_paragraph_first_word": [
        ({"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Then"}, 'one\n\n"then, we', True),
        ({"num_paragraphs": 2, "nth_paragraph": 1, "first_word": "Then"}, "one\n\nthen we", False),
        ({"num_paragraphs": 3, "nth_paragraph": 2, "first_word": "then"}, "one\n\nthen we", False),
        ({"num_paragraphs": 2, "nth_paragraph": 3, "first_word": "then"}, "one\n\nthen we", False),
        ({"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "then"}, "one\n\n\n\nthen we", False),
        ({"num_paragraphs": 1, "nth_paragraph": 1, "first_word": "one"}, "one-two", False),
    ],
    "detectable_content:number_placeholders": [
        ({"num_placeholders": 2}, "[name] of [town]", True),
        ({"num_placeholders": 2}, "[name of [town]", False),
        ({"num_placeholders": 1}, "[name\n]", False),
        ({"num_placeholders": 0}, "none", True),
    ],
    "detectable_content:postscript": [
        ({"postscript_marker": "P.S."}, "Bye\np. s. one more", True),
        ({"postscript_marker": "P.S."}, "Bye\nPS one more", False),
        ({"postscript_marker": "P.P.S"}, "Bye\nP. P. S one more", True),
        ({"postscript_marker": "P.P.S"}, "Bye\nP.S. one more", False),
        ({"postscript_marker": "N.B."}, "n.b. one more", True),
        ({"postscript_marker": "N.B."}, "nobs", False),
    ],
    "detectable_format:number_bullet_lists": [
        ({"num_bullets": 2}, "* one\n  - two\ntext", True),
        ({"num_bullets": 1}, "* one\n- two", False),
        ({"num_bullets": 1}, "* one\n**bold**\n1. two", True),
        ({"num_bullets": 0}, "none", True),
    ],
    "detectable_format:constrained_response": [
        ({}, "My answer is maybe.", True),
        ({}, "I say: My answer is no. Truly.", True),
        ({}, "my answer is no.", False),
    ],
    "detectable_format:number_highlighted_sections": [
        ({"num_highlights": 2}, "*one* and *two*", True),
        ({"num_highlights": 2}, "*one* and * *", False),
        ({"num_highlights": 1}, "**one**", True),
        ({"num_highlights": 1}, "*one\ntwo*", False),
        ({"num_highlights": 1}, "** **", False),
    ],
    "detectable_format:multiple_sections": [
        ({"section_spliter": "Section", "num_sections": 2}, "Section 1\na\nSection 2\nb", True),
        ({"section_spliter": "Section", "num_sections": 3}, "Section 1\na\nSection 2\nb", False),
        ({"section_spliter": "SECTION", "num_sections": 1}, "Section 1", False),
        ({"section_spliter": "Section", "num_sections": 1}, "Section one", False),
    ],
    "detectable_format:json_format": [
        ({}, '{"a": [1, 2]}', True),
        ({}, '```json\n{"a": 1}\n```', True),
        ({}, 'Here: {"a": 1}', False),
        ({}, "[" * 100_000, False),
    ],
    "detectable_format:title": [
        ({}, "<<A day>>\ntext", True),
        ({}, "text <<<A day>>> text", True),
        ({}, "<< >>", False),
        ({}, "<<>>", False),
        ({}, "<<A\nday>>", False),
        ({}, ">>A day<<", False),
    ],
    "combination:two_responses": [
        ({}, "one\n******\ntwo", True),
        ({}, "******\none\n******\ntwo\n******", True),
        ({}, "one\n******\none", False),
        ({}, "one\n******\ntwo\n******\nthree", False),
        ({}, "one ************ two", False),
        ({}, "one", False),
    ],
    "combination:repeat_prompt": [
        ({"prompt_to_repeat": "Say hi. "}, "\nSAY HI. Hello!", True),
        ({"prompt_to_repeat": "Say hi."}, "Sure: Say hi.", False),
    ],
    "startend:end_checker": [
        ({"end_phrase": "That is all."}, 'Done. "that is all."\n', True),
        ({"end_phrase": "That is all."}, "That is all. Bye", False),
    ],
    "startend:quotation": [
        ({}, ' "all of it"\n', True),
        ({}, '"', False),
        ({}, '"all" of it', False),
        ({}, "“all of it”", False),
    ],
    "change_case:capital_word_frequency": [
        ({"capital_frequency": 2, "capital_relation": "at least"}, "NASA-ESA and ÄÖ", True),
        ({"capital_frequency": 2, "capital_relation": "less than"}, "NASA and Esa", True),
        ({"capital_frequency": 1, "capital_relation": "less than"}, "NASA", False),
    ],
    "change_case:english_capital": [
        ({}, LOUD, True),
        ({}, ENGLISH.upper(), False),  # langdetect takes it for Vietnamese, as it does in the reference
        ({}, ENGLISH, False),
        ({}, LOUD + " x", False),
        ({}, FINNISH.upper(), False),
    ],
    "change_case:english_lowercase": [
        ({}, ENGLISH, True),
        ({}, ENGLISH + " I", False),
        ({}, FINNISH.lower(), False),
    ],
    "punctuation:no_comma": [({}, "one; two", True), ({}, "one, two", False)],
}


def test_there_are_25_types_and_each_has_cases_both_ways() -> None:
    assert len(INSTRUCTIONS) == 25
    assert CASES.keys() == INSTRUCTIONS.keys()
    assert all({verdict for _, _, verdict in cases} == {True, False} for cases in CASES.values())


@pytest.mark.parametrize(
    ("name", "arguments", "text", "expected"),
    [(name, *case) for name, cases in CASES.items() for case in cases],
)
def test_an_instruction_is_followed_as_it_says(name: str, arguments: dict[str, Any], text: str, expected: bool) -> None:
    assert INSTRUCTIONS[name].is_followed(text, **arguments) is expected
    assert arguments.keys() == INSTRUCTIONS[name].arguments.keys()
