"""Sentences and words, counted by hand.

NLTK counts the same, but for two: Punkt ends a sentence at `U.S.` before `team`, and none at `...` before `Maybe`.
"""

from __future__ import annotations

import pytest

from evalkit.rewards.segments import count_capital_words, count_sentences, count_words


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("", 0),
        (" \n ", 0),
        ("no stop at all", 1),
        ("One. Two! Three? Four", 4),
        ('He asked: "Why?" She said (quietly): "No." Then she left.', 3),
        ("**Bold.** *Next one.* Last.", 3),
        ("A heading\n\nA sentence under it.", 1),
        ("Mr. Smith met Dr. J. Brown vs. the U.S. team.", 1),
        ("We left at 5 p.m., then slept.", 1),
        ("It costs 3.50 dollars. Visit www.example.org now.", 2),
        ("1. First thing\n2. Second thing", 3),
        ("So did I. Then it ended.", 2),
        ("Well... maybe. Well... Maybe.", 3),
        ("Hello.World", 1),
    ],
)
def test_sentences_end_at_white_space_after_a_stop_that_is_no_abbreviation(text: str, n: int) -> None:
    assert count_sentences(text) == n


def test_words_are_runs_of_letters_digits_and_underscores() -> None:
    assert count_words("It isn't a well-known snake_case, 42 times!") == 9


@pytest.mark.parametrize(
    ("text", "n"),
    [
        ("NASA and ESA", 2),
        ("WELL-KNOWN A/B", 2),
        ('**BOLD** (PAREN) "QUOTE" #TAG', 4),
        ("IT'S DON'T CANNOT", 6),
        ("ONE,TWO...THREE--FOUR", 4),
        ("The U.S. ended at 3PM. I agree", 3),
        ("iPhone McDonald 123", 0),
        ("ÄÖÜ", 1),
    ],
)
def test_capital_words_are_treebank_tokens(text: str, n: int) -> None:
    assert count_capital_words(text) == n
