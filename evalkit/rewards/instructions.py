"""The 25 instruction types of IFEval, each a plain function of a text and the arguments of its instruction.

Source: Zhou et al. 2023, arXiv 2311.07911, and its reference implementation (google-research,
instruction_following_eval). Names of instructions and of arguments are those of its data.

1. A check asks what its instruction says, of the whole text. Who calls it has seen that the arguments are all there and
   of their kinds (`INSTRUCTIONS`), and that the text is not white space alone.
2. Where the reference reads an instruction in its own way, so do we, and a comment says so: figures are comparable only
   then. It differs in two points, on which no verdict recorded for GPT-4 depends: its keywords and markers are
   patterns, here they are literal texts; it passes a text in no language that can be told, such as `123`, as any
   language, here that is not followed.
3. Every check is linear in its text: a model writes the text, and may write a megabyte of `[`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

from evalkit.rewards.language import codes, detect
from evalkit.rewards.segments import count_capital_words, count_sentences, count_words

_OPTIONS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


class Kind(Enum):
    """Kind of an argument; the value is what to give, for a message."""

    COUNT = "a whole number ≥ 0"
    POSITION = "a whole number ≥ 1"
    RELATION = "'at least' or 'less than'"
    TEXT = "text that is not empty"
    TEXTS = "a list of texts that are not empty"
    CHARACTER = "one character"
    LANGUAGE = "the code of a language that langdetect knows"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One type of instruction."""

    is_followed: Callable[..., bool]
    """(text, **arguments): is the instruction followed?"""
    arguments: Mapping[str, Kind]
    """Name → kind; each is required."""


def existence(text: str, keywords: list[str]) -> bool:
    """Every keyword occurs, without case; inside a longer word too, as in the reference."""
    return all(re.search(re.escape(keyword), text, re.IGNORECASE) for keyword in keywords)


def frequency(text: str, keyword: str, frequency: int, relation: str) -> bool:
    """The keyword occurs so often, without case; inside a longer word too, as in the reference."""
    found = sum(1 for _ in re.finditer(re.escape(keyword.strip()), text, re.IGNORECASE))
    return _compares(found, relation, frequency)


def forbidden_words(text: str, forbidden_words: list[str]) -> bool:
    """No such word occurs as a word of its own, without case."""
    return not any(re.search(rf"\b{re.escape(word)}\b", text, re.IGNORECASE) for word in forbidden_words)


def letter_frequency(text: str, letter: str, let_frequency: int, let_relation: str) -> bool:
    """The character occurs so often, without case. IFEval has items whose letter is `#` or `!`."""
    return _compares(text.lower().count(letter.lower()), let_relation, let_frequency)


def response_language(text: str, language: str) -> bool:
    """The text is in this language, most probably."""
    return detect(text) == language


def number_sentences(text: str, num_sentences: int, relation: str) -> bool:
    """So many sentences (`segments.py`)."""
    return _compares(count_sentences(text), relation, num_sentences)


def number_paragraphs(text: str, num_paragraphs: int) -> bool:
    """Exactly so many paragraphs with `***` between them; none is empty, but a divider may come first or last."""
    paragraphs = [paragraph.strip() for paragraph in text.split("***")]
    filled = sum(map(bool, paragraphs))
    return all(paragraphs[1:-1]) and filled == num_paragraphs


def number_words(text: str, num_words: int, relation: str) -> bool:
    """So many words: runs of letters, digits and underscores."""
    return _compares(count_words(text), relation, num_words)


def nth_paragraph_first_word(text: str, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    """Exactly so many paragraphs with a blank line between them, and the n-th begins with the word, without case.

    As in the reference, empty paragraphs are not counted but keep their place, and the word ends at `. , ? ! ' "`.
    """
    paragraphs = [paragraph.strip() for paragraph in text.split("\n\n")]
    if sum(map(bool, paragraphs)) != num_paragraphs or nth_paragraph > num_paragraphs:
        return False
    words = paragraphs[nth_paragraph - 1].split(maxsplit=1)
    if not words:
        return False
    found = re.split(r"[.,?!'\"]", words[0].lstrip("'").lstrip('"'), maxsplit=1)[0]
    return found.lower() == first_word.lower()


def number_placeholders(text: str, num_placeholders: int) -> bool:
    """At least so many `[placeholders]`, each on one line; `[]` counts, as in the reference."""
    found = 0
    for line in text.split("\n"):
        start = line.find("[")
        while start >= 0 and (end := line.find("]", start)) >= 0:
            found += 1
            start = line.find("[", end)
    return found >= num_placeholders


def postscript(text: str, postscript_marker: str) -> bool:
    """The marker occurs, without case. As in the reference it may stand anywhere, also inside a word or a line."""
    marker = postscript_marker.strip()
    pattern = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}.get(marker, re.escape(marker.lower()))
    return re.search(pattern, text.lower()) is not None


def number_bullet_lists(text: str, num_bullets: int) -> bool:
    """Exactly so many lines that begin with `*` (not `**`) or `-`; the reference asks for no space after it."""
    lines = (line.lstrip() for line in text.split("\n"))
    return sum(line.startswith("-") or (line[:1] == "*" and line[1:2] != "*") for line in lines) == num_bullets


def constrained_response(text: str) -> bool:
    """One of IFEval's three options occurs; as in the reference, other text around it is no fault."""
    return any(option in text for option in _OPTIONS)


def number_highlighted_sections(text: str, num_highlights: int) -> bool:
    """At least so many `*highlights*` on one line each; as in the reference, `**bold**` ones count on their own too."""
    single = sum(bool(found.strip("*").strip()) for found in re.findall(r"\*[^\n*]*\*", text))
    double = sum(bool(found[2:-2].strip()) for found in re.findall(r"\*\*[^\n*]*\*\*", text))
    return single + double >= num_highlights


def multiple_sections(text: str, section_spliter: str, num_sections: int) -> bool:
    """At least so many marks of a section, `Section 1`; as in the reference, anywhere in a line."""
    return sum(1 for _ in re.finditer(re.escape(section_spliter.strip()) + r"\s?\d+", text)) >= num_sections


def json_format(text: str) -> bool:
    """The text is JSON, alone or in one code fence; as in the reference, NaN and keys that stand twice pass."""
    text = text.strip()
    for fence in ("```json", "```Json", "```JSON", "```"):
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


def title(text: str) -> bool:
    """There is a `<<title>>` on one line that is not empty."""
    for line in text.split("\n"):
        start, end = line.find("<<"), line.rfind(">>")
        if start >= 0 and line[start : end + 2].lstrip("<").rstrip(">").strip() and end > start + 2:
            return True
    return False


def two_responses(text: str) -> bool:
    """Two different responses with `******` between them; a divider may come first or last."""
    responses = [response.strip() for response in text.split("******")]
    filled = [response for response in responses if response]
    return all(responses[1:-1]) and len(filled) == 2 and filled[0] != filled[1]


def repeat_prompt(text: str, prompt_to_repeat: str) -> bool:
    """The text begins with the prompt, without case."""
    return text.strip().lower().startswith(prompt_to_repeat.strip().lower())


def end_checker(text: str, end_phrase: str) -> bool:
    """The text ends with the phrase, without case; quotation marks may close after it."""
    return text.strip().strip('"').lower().endswith(end_phrase.strip().lower())


def capital_word_frequency(text: str, capital_frequency: int, capital_relation: str) -> bool:
    """So many words in capital letters (`segments.py`)."""
    return _compares(count_capital_words(text), capital_relation, capital_frequency)


def english_capital(text: str) -> bool:
    """English, most probably, and no letter that is not a capital.

    As in the reference the text is told as it stands, though langdetect sees little of words in capitals: short English
    ones are often Welsh or Vietnamese to it. Recorded verdicts depend on that.
    """
    return text.isupper() and detect(text) == "en"


def english_lowercase(text: str) -> bool:
    """English, most probably, and no capital letter."""
    return text.islower() and detect(text) == "en"


def no_comma(text: str) -> bool:
    """No comma; those of other scripts are no fault, as in the reference."""
    return "," not in text


def quotation(text: str) -> bool:
    """The first and the last character are double quotation marks, straight ones as in the reference."""
    text = text.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'


def _compares(found: int, relation: str, wanted: int) -> bool:
    return found < wanted if relation == "less than" else found >= wanted


def _instruction(is_followed: Callable[..., bool], **arguments: Kind) -> Instruction:
    return Instruction(is_followed, MappingProxyType(arguments))


INSTRUCTIONS: Mapping[str, Instruction] = MappingProxyType(
    {
        "change_case:capital_word_frequency": _instruction(
            capital_word_frequency, capital_frequency=Kind.COUNT, capital_relation=Kind.RELATION
        ),
        "change_case:english_capital": _instruction(english_capital),
        "change_case:english_lowercase": _instruction(english_lowercase),
        "combination:repeat_prompt": _instruction(repeat_prompt, prompt_to_repeat=Kind.TEXT),
        "combination:two_responses": _instruction(two_responses),
        "detectable_content:number_placeholders": _instruction(number_placeholders, num_placeholders=Kind.COUNT),
        "detectable_content:postscript": _instruction(postscript, postscript_marker=Kind.TEXT),
        "detectable_format:constrained_response": _instruction(constrained_response),
        "detectable_format:json_format": _instruction(json_format),
        "detectable_format:multiple_sections": _instruction(
            multiple_sections, section_spliter=Kind.TEXT, num_sections=Kind.COUNT
        ),
        "detectable_format:number_bullet_lists": _instruction(number_bullet_lists, num_bullets=Kind.COUNT),
        "detectable_format:number_highlighted_sections": _instruction(
            number_highlighted_sections, num_highlights=Kind.COUNT
        ),
        "detectable_format:title": _instruction(title),
        "keywords:existence": _instruction(existence, keywords=Kind.TEXTS),
        "keywords:forbidden_words": _instruction(forbidden_words, forbidden_words=Kind.TEXTS),
        "keywords:frequency": _instruction(frequency, keyword=Kind.TEXT, frequency=Kind.COUNT, relation=Kind.RELATION),
        "keywords:letter_frequency": _instruction(
            letter_frequency, letter=Kind.CHARACTER, let_frequency=Kind.COUNT, let_relation=Kind.RELATION
        ),
        "language:response_language": _instruction(response_language, language=Kind.LANGUAGE),
        "length_constraints:nth_paragraph_first_word": _instruction(
            nth_paragraph_first_word,
            num_paragraphs=Kind.COUNT,
            nth_paragraph=Kind.POSITION,
            first_word=Kind.TEXT,
        ),
        "length_constraints:number_paragraphs": _instruction(number_paragraphs, num_paragraphs=Kind.COUNT),
        "length_constraints:number_sentences": _instruction(
            number_sentences, num_sentences=Kind.COUNT, relation=Kind.RELATION
        ),
        "length_constraints:number_words": _instruction(number_words, num_words=Kind.COUNT, relation=Kind.RELATION),
        "punctuation:no_comma": _instruction(no_comma),
        "startend:end_checker": _instruction(end_checker, end_phrase=Kind.TEXT),
        "startend:quotation": _instruction(quotation),
    }
)
"""Instruction id → type."""


def kind_holds(kind: Kind, value: Any) -> bool:
    """Is `value` of this kind? A whole number may come as a float, as tables with empty cells hold it."""
    if kind in (Kind.COUNT, Kind.POSITION):
        is_whole = not isinstance(value, bool) and isinstance(value, int | float) and value == value // 1
        return is_whole and value >= (kind is Kind.POSITION)
    if kind is Kind.TEXTS:
        return isinstance(value, list | tuple) and bool(value) and all(_is_text(item) for item in value)
    if not _is_text(value):
        return False
    if kind is Kind.RELATION:
        return value in ("at least", "less than")
    if kind is Kind.LANGUAGE:
        return value in codes()
    return kind is Kind.TEXT or len(value) == 1


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
