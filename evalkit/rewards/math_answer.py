"""`math`: the mathematical answer of the completion equals the target's, by math-verify.

1. Both sides are read by one reader. The last `\\boxed{…}` counts, together with boxes joined to it by a comma, `and`
   or `or`; else, where there is `$…$`, `\\(…\\)` or `\\[…\\]` or there are words, what math-verify picks: a phrase like
   `final answer is`, then `answer`, then the last formula or number; else the whole text is LaTeX.
2. math-verify is given a bounded text: a box of 1,000 characters, or the last 2,000 of prose, brackets nested 12 deep.
   More than that is no answer.
3. What math-verify does with it: LaTeX goes through a grammar (ANTLR, latex2sympy2_extended), which calls no `eval`. A
   plain expression like `3*(4+5)/2` goes to SymPy's `parse_expr`, which does; math-verify's pattern lets only digits,
   white space and `+ - * / ^ ( ) . × ÷` through to it, so no name and no call can be in it. We evaluate no text.
4. Comparing may take for ever (`9^{9^{9^9}}`). math-verify's own timeouts are alarms that a C loop does not hear; they
   are off, and the deadline of the scoring pool kills the process: status `timeout`.
5. A target that cannot be read, or does not even equal itself (`1/0`), is no verdict. A completion that cannot be read
   is wrong.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from evalkit.rewards.base import Response, Score, Status, no_answer, no_verdict, ok

try:
    import latex2sympy2_extended  # noqa: F401 - its version enters the source digest, for it reads the LaTeX
    import math_verify
    import sympy
except ImportError:
    math_verify = None

LONGEST_BOX = 1000
"""Characters of a box, or of a target or completion that is read whole."""
LONGEST_PROSE = 2000
"""Characters at the end of a text with words that are searched for an answer."""
DEEPEST = 12
"""Nested brackets of any kind: the time of the grammar doubles with every bare brace, 7 s at 16 of them."""
LONGEST_JOINT = 20
"""Characters between two boxes that are one answer."""
MOST_BOXES = 6
"""That are one answer; math-verify reads no more."""

_BRACE = re.compile(r"(\\(?:boxed|fbox)\s*\{)|(\{)|(\})|\\.", re.DOTALL)
_JOINT = re.compile(r"[\s$]*(?:,|,?\s*(?:and|or))[\s$]*")
_MATH = re.compile(r"(?<!\\)\$|\\\(|\\\[")
_WORD = re.compile(r"[^\W\d_]{2}")
_NO_WORD = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|operatorname|begin|end)\s*\{[^{}]*\}|\\[A-Za-z]+")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:(?: |~|\\,|\\ |\{,\}|\\!|[\u00a0\u2009\u202f])\d{3})+(?![\d])")
_SCIENTIFIC = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)[eE]([+-]?\d{1,3})(?![\w.])")
"""Else `1e5` is 1 · e · 5."""


class Unreadable(ValueError):
    """The text holds no mathematical answer; the message says why."""


@dataclass(frozen=True, slots=True)
class Math:
    """1 if the completion's answer equals the target's, as numbers, expressions, sets, intervals or equations; else 0.

    As math-verify compares: `1/2` = `0.5` = `\\frac{1}{2}`, `2^{10}` = 1024, `x^2-1` = `(x-1)(x+1)`, `50\\%` = 0.5 and
    = 50, `x=5` = `5`, `\\{1,2\\}` = `2,1`, `(1,2)` = `1,2`; but `[1,2)` ≠ `[1,2]`, `x=5` ≠ `y=5`. Units are dropped:
    `5\\text{ cm}` = `5`. Words are `\\text{…}`, without case. A target says the answer and no more: one with words
    outside of formulas and `\\text{…}` is read only if it has a box or a formula.
    """

    precision: int = 6
    """Decimal places that must agree where either side has a decimal point; 0 to 15."""

    declared_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if not 0 <= self.precision <= 15:
            raise ValueError(f"precision: {self.precision} decimal places; give a whole number from 0 to 15")
        if math_verify is None:
            raise ValueError("needs the package math-verify; pip install 'evalkit-rl[math]'")

    def score(self, response: Response) -> Score:
        try:
            gold = _gold(response.target)
        except Unreadable as why:
            evidence = f"target: {why}; give the answer alone, in LaTeX or in \\boxed{{…}}"
            return no_verdict(Status.FAILED, evidence)
        try:
            found = _read(response.completion)
            answer = _plain(found)
        except Unreadable as why:
            return no_answer(str(why))
        is_equal = math_verify.verify(gold, found, float_rounding=self.precision, timeout_seconds=None)
        return ok(float(is_equal), answer)


@lru_cache(maxsize=64)
def _gold(target: str | None) -> Any:
    """The answer that a target holds; kept, as all completions of an item share it.

    Raises:
        Unreadable: none, or one that does not equal itself.
    """
    if target is None:
        raise Unreadable("missing")
    if not (_last_boxes(target) or _MATH.search(target) or _is_bare(target)):
        raise Unreadable("words outside of a formula")
    found = _read(target)
    if not math_verify.verify(found, found, timeout_seconds=None):
        raise Unreadable("a value that equals nothing, itself included")
    return found


def _read(text: str) -> Any:
    """The answer of a text as a SymPy object.

    Raises:
        Unreadable: there is none, or it is too long.
    """
    boxes = _last_boxes(text)
    if boxes:
        source = " and ".join(f"$\\boxed{{{_tidy(box)}}}$" for box in boxes)
    elif _is_bare(text):
        source = f"$\\boxed{{{_tidy(text)}}}$"
    else:
        source = text[-LONGEST_PROSE:].replace("\\$", " ")
    if _depth(source) > DEEPEST:
        raise Unreadable(f"brackets nested more than {DEEPEST} deep")
    found = math_verify.parse(source, fallback_mode="no_fallback", parsing_timeout=None)
    if not found:
        raise Unreadable("no mathematical answer")
    return found[0]


def _is_bare(text: str) -> bool:
    """Is the text LaTeX without marks of a formula, and without words?"""
    return not _MATH.search(text) and not _WORD.search(_NO_WORD.sub(" ", text))


def _tidy(latex: str) -> str:
    """LaTeX of one formula: on one line, without a full stop, `1 000` as 1000 and `1e5` as 1 · 10⁵.

    Raises:
        Unreadable: it is empty or too long.
    """
    if len(latex) > LONGEST_BOX:
        raise Unreadable(f"an answer of more than {LONGEST_BOX} characters")
    latex = re.sub(r"(?<!\\)\$", " ", latex).replace("\n", " ").strip().removesuffix(".")
    if not latex:
        raise Unreadable("an empty answer")
    latex = _THOUSANDS.sub(lambda match: re.sub(r"\D", "", match[0]), latex)
    return _SCIENTIFIC.sub(r"\1 \\times 10^{\2}", latex)


def _last_boxes(text: str) -> list[str]:
    """Content of the last box that closes, after those of the boxes joined to it; empty where none closes."""
    closed: list[tuple[int, int, int]] = []  # where it opens, where its content begins, where it ends
    opened: list[tuple[int, int] | None] = []  # `None` for a brace that opens no box
    for mark in _BRACE.finditer(text):
        if mark[1] or mark[2]:
            opened.append(mark.span() if mark[1] else None)
        elif mark[3] and opened and (box := opened.pop()) is not None:
            closed.append((*box, mark.end()))
    contents: list[str] = []
    begins = len(text)
    while closed:
        opens, content, end = closed.pop()
        if contents and end > begins:
            continue  # inside the box that was taken before
        if contents and (begins - end > LONGEST_JOINT or not _JOINT.fullmatch(text, end, begins)):
            break
        contents.insert(0, text[content : end - 1])
        begins = opens
        if len(contents) == MOST_BOXES:
            break
    return contents


def _depth(text: str) -> int:
    """How deeply brackets are nested, whatever their kinds."""
    steps = (1 if mark in "([{" else -1 for mark in text if mark in "()[]{}")
    return max(itertools.accumulate(steps, lambda depth, step: max(0, depth + step)), default=0)


def _plain(found: Any) -> str:
    """A normal form of what was read: SymPy's text, numbers without trailing zeros.

    Raises:
        Unreadable: a number of more digits than Python writes, or an expression too deep.
    """
    try:
        return " ".join(sympy.sstr(found, full_prec=False).split())
    except (ValueError, RecursionError):
        raise Unreadable("an answer too large to write down") from None
