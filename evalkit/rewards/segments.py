"""Sentences and words of a text, as IFEval's reference implementation counts them, without its trained model.

1. The reference counts sentences with NLTK's Punkt model for English and splits words with its Treebank tokenizer. The
   first needs a download, so its rules are restated here with a short list of abbreviations; both are plain Python.
2. A sentence ends at white space after `.`, `?` or `!`, closing marks between them allowed. A line break ends none.
3. Every function is linear in its text, whatever the text.
"""

from __future__ import annotations

import itertools
import re

_CLOSING = "\"'”’»)]}*_`:;,"
_OPENING = "\"'“‘«([{*_`#-"
_ABBREVIATION = re.compile(
    r"adm|al|approx|apr|aug|ave|blvd|bros|capt|cf|co|col|corp|d\.c|dec|dept|dr|e\.g|eq|esp|est|etc|feb|fig|gen|gov|hon|"
    r"i\.e|inc|jan|jr|jul|jun|l\.a|lt|ltd|maj|mar|messrs|mr|mrs|ms|mt|nov|oct|ph\.d|prof|rep|rev|sec|sen|sep|sept|sgt|"
    r"sr|st|u\.k|u\.n|u\.s|viz|vol|vs",
    re.IGNORECASE,
)
"""Without the last period. Those that often end a sentence (`no.`, `in.`) are not among them."""

_GLUED = re.compile(r"[;@#$%&?!*\[\](){}<>\"“”„«»‘’`‒–—―]|--+|\.{2,}|[:,](?=\D|$)")
_CLITIC = re.compile(r"(?<=[^'\s])('s|'m|'d|'ll|'re|'ve|n't|')(?=\s|$)", re.IGNORECASE)
_JOINED = re.compile(
    r"\b(can)(not)\b|\b(d)('ye)\b|\b(gim)(me)\b|\b(gon)(na)\b|\b(got)(ta)\b|\b(lem)(me)\b|\b(more)('n)\b|\b(wan)(na)\b|"
    r"(?<=\s)('t)(is|was)\b",
    re.IGNORECASE,
)


def count_sentences(text: str) -> int:
    """Sentences of a text; a last one without a full stop counts, white space alone holds none.

    As for Punkt, the number of a list (`1.`) before a word that is not lower case is a sentence of its own.
    """
    tokens = text.split()
    return sum(itertools.starmap(_ends_sentence, itertools.pairwise(tokens))) + bool(tokens)


def _ends_sentence(token: str, following: str) -> bool:
    bare = token.rstrip(_CLOSING)
    if token.startswith(",", len(bare)):
        return False
    if bare.endswith(("?", "!")):
        return True
    if not bare.endswith("."):
        return False
    first = following.lstrip(_OPENING)[:1]
    if bare.endswith(".."):
        return first.isupper()
    word = bare[:-1].lstrip(_OPENING)
    if word.isdecimal():
        return not first.islower()
    is_initial = len(word) == 1 and word.isupper() and word != "I"
    return not is_initial and not _ABBREVIATION.fullmatch(word)


def count_words(text: str) -> int:
    """Runs of letters, digits and underscores: `don't` is two words."""
    return sum(1 for _ in re.finditer(r"\w+", text))


def count_capital_words(text: str) -> int:
    """Treebank tokens with a letter and no letter that is not a capital.

    A word with hyphens or slashes is one token; `IT'S`, `DON'T` and `CANNOT` are two, `U.S.` is one.
    """
    text = _GLUED.sub(r" \g<0> ", text)
    text = _CLITIC.sub(r" \1", text)
    text = _JOINED.sub(lambda match: " ".join(part for part in match.groups() if part), text)
    return sum(token.isupper() for token in text.split())
