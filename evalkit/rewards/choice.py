"""`choice`: the letter of a multiple-choice answer.

1. What follows the last marker decides (`answer is (B)`, `Answer: B`, `\\boxed{B}`); without a marker, a lone or
   labelled letter (`B`, `(B)`, `B) Paris`).
2. Two different letters there are no answer: the first is never taken in silence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar

from evalkit.rewards.base import Response, Score, Status, no_answer, no_verdict, ok

_EDGE = "A-Za-z0-9\u00c0-\u024f"
"""Characters that make a neighbouring letter part of a word. Scripts without spaces are not among them (`答案是B`)."""
_WORD = re.compile(r"[AI] (?!(?:is|was|and|or|would|because|since|as)\b)[a-z]")
"""An article or a pronoun at the head of a sentence, `A common mistake`, `I think`; but not `A is wrong`."""
_NOT = re.compile(r"\bnot\b|n['’]t\b", re.IGNORECASE)
_WRAPPING = " \t\r\n*_.,:;()[]{}\"'`$\\"


@dataclass(frozen=True, slots=True)
class Choice:
    """1 if the chosen letter is the target's letter, else 0; where no single letter was chosen 0 without an answer.

    A capital letter that stands alone counts; a small one only in brackets (`(b)`), right after a marker at the end of
    its phrase (`answer: b.`), or as the whole completion. `not` between marker and letter takes it back. An `A` or
    `I` that starts a phrase (`A common mistake`) is a word, not a letter, unless it comes right after the marker and
    nothing else does.
    """

    letters: tuple[str, ...] = ("A", "B", "C", "D")
    """Capital letters of the options."""
    markers: tuple[str, ...] = ("answer is", "answer:", "answer :", "\\boxed{")
    """Literal texts, compared without case."""

    _marker: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _alone: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _labelled: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _small: re.Pattern[str] = field(init=False, repr=False, compare=False)

    declared_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __post_init__(self) -> None:
        bad = [letter for letter in self.letters if not re.fullmatch("[A-Z]", letter)]
        if bad or len(set(self.letters)) != len(self.letters) or len(self.letters) < 2:
            raise ValueError("letters: give two or more different capital letters A to Z")
        if "" in self.markers:
            raise ValueError("markers: empty text marks nothing; leave it out")
        big = "".join(self.letters)
        small = big.lower()
        edge = rf"(?![{_EDGE}]|['’-][{_EDGE}])"
        patterns = {
            "_marker": "|".join(re.escape(m) for m in sorted(self.markers, key=len, reverse=True)) or r"(?!)",
            "_alone": rf"(?<![{_EDGE}])(?<![{_EDGE}]['’-])(?:([{big}]){edge}|(?<=\()([{small}])(?=\)))",
            "_labelled": rf"^[ \t*_(\[]*([{big}])[*_]*[).:\]]|\(([{big}{small}])\)",
            "_small": rf"[\s*_(\[\"'`$:-]*([{small}])(?![{_EDGE}]|['’-])(?! [A-Za-z])",
        }
        for name, pattern in patterns.items():
            flags = re.IGNORECASE if name == "_marker" else re.MULTILINE
            object.__setattr__(self, name, re.compile(pattern, flags))

    def score(self, response: Response) -> Score:
        gold = (response.target or "").strip(_WRAPPING).upper()
        if gold not in self.letters:
            return no_verdict(Status.FAILED, f"gold: not one of the letters {' '.join(self.letters)}")
        found = self._chosen(response.completion)
        if not found:
            return no_answer("no letter chosen")
        if len(found) > 1:
            return no_answer(f"ambiguous: {' and '.join(sorted(found))}")
        answer = found.pop()
        return ok(float(answer == gold), answer)

    def _chosen(self, text: str) -> set[str]:
        """All letters that the text can be said to choose."""
        lone = text.strip(_WRAPPING).upper()
        if lone in self.letters:
            return {lone}
        marked = None
        for marked in self._marker.finditer(text):  # noqa: B007 - only the last one is wanted
            pass
        if marked is None:
            return {(m.group(1) or m.group(2)).upper() for m in self._labelled.finditer(text)}
        return self._after_marker(text[marked.end() :])

    def _after_marker(self, rest: str) -> set[str]:
        small = self._small.match(rest)
        matches = list(self._alone.finditer(rest))
        letters = [m for m in matches if not (m.group(1) and _WORD.match(rest, m.start()))]
        if not letters and small is None:
            letters = [m for m in matches[:1] if not rest[: m.start()].strip(_WRAPPING)]
        if letters and _NOT.search(rest, 0, letters[0].start()):
            return set()
        found = {(m.group(1) or m.group(2)).upper() for m in letters}
        return found | {small.group(1).upper()} if small else found
