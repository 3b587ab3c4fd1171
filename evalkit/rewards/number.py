"""`number`: the completion's number is the target's number.

1. Completion and gold are read by one parser, so a spelling that is read is read on both sides.
2. After a marker the first number counts; without a marker the last number of the text.
3. Where a text could be two different numbers (`1,5`, `1.234,56`, `1 000`) there is no answer, not a guess.
4. Values are exact decimals or fractions. A binary float is never made, so 0.1 + tolerance means what it says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import ClassVar

from evalkit.rewards.base import Response, Score, Status, no_answer, no_verdict, ok

LONGEST_NUMBER = 1000
"""Characters of one number. Longer digit strings are no answer (Python itself stops at 4,300)."""
LARGEST_EXPONENT = 400
"""Of scientific notation, both ways; larger ones are no answer, so that no answer expands to gigabytes."""

Exactly = Decimal | Fraction

_GROUP = ",'’_\u00a0\u2009\u202f"
_TOKEN = re.compile(rf"\d(?<![A-Za-z\d].)[\d.{_GROUP}]*(?:(?<=[\d.])[eE][-+−]?\d+)?(?:/\d[\d{_GROUP}]*)*")
_PLAIN = re.compile(r"\d+(?:\.\d+)?|\.\d+")
_GROUPED = re.compile(rf"(?!0)\d{{1,3}}(?P<sep>[{_GROUP}])\d{{3}}(?:(?P=sep)\d{{3}})*(?:\.\d+)?")
_INDIAN = re.compile(r"(?!0)\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?")
_FRAC = re.compile(r"\\[dt]?frac\{(\d{1,400})\}\{(\d{1,400})\}")
_SPACED_AFTER = re.compile(r" \d{3}(?!\d)")
_SPACED_BEFORE = re.compile(r"(?:^|[^\d.,])\d{1,3} $")
_MIXED_AFTER = re.compile(r" \d+/\d")
_ROOT_OR_POWER_BEFORE = re.compile(r"(?:\^\{?|√|sqrt\{)[-−]?$")
_INSIDE = frozenset(_GROUP + ".eE/-+−")
_SIGNS = "-+−－﹣–"
_CURRENCIES = "$€£¥₹\\"
_CLOSING = ")]}%" + _SIGNS
_TO_ASCII = str.maketrans({"٫": ".", "٬": ",", "．": ".", "，": ",", "／": "/"})


class Unreadable(ValueError):
    """The text holds no number, or none that can be told; the message says which."""


@dataclass(frozen=True, slots=True)
class Number:
    """1 if the number of the completion is within `tolerance` of the number of the target, else 0.

    Read: `18`, `-18`, `−18`, `+18`, `18.`, `.5`, `1,234.5`, `12,34,567`, `1'000`, thousands by no-break or thin space,
    `$3`, `-$3`, `\\$3`, `3 €`, `3%` (= 3: the percent sign is a unit), `1e5`, `1.5E-3`, `7/14` and `\\frac{7}{14}`
    (exact fractions), and the decimal digits of every script with their value (`٣` = 3, `１２` = 12). A minus sign
    counts only right before the number and not after a letter, digit or closing bracket: `10-5` holds 10 and 5, `- 5`
    is 5. A number glued to a Latin letter before it (`H2O`, `x1`) is not a number.

    No answer, and so 0: no number or no marker, malformed groups (`1,234,56`, `1,5`, `0,500`, `1.234,56`, `1.2.3`),
    `3/4/2024`, `1 000` and `1 1/2` with an ordinary space, powers and roots (`10^5`, `√2`), division by zero, more than
    1,000 characters, exponents beyond ±400.
    """

    marker: str | None = None
    """Literal text, case kept; what follows its last occurrence counts. `None` = the last number of the completion."""
    target_marker: str | None = None
    """The same for the gold. `None` = the gold holds exactly one number."""
    tolerance: Decimal = Decimal(0)
    """Largest absolute difference that still counts as equal."""

    declared_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if self.marker == "" or self.target_marker == "":
            raise ValueError("marker: empty text marks nothing; give a text or leave it out")
        if not self.tolerance.is_finite() or self.tolerance < 0:
            raise ValueError(f"tolerance: {self.tolerance} is not a number ≥ 0")

    def score(self, response: Response) -> Score:
        try:
            gold = _gold(response.target, self.target_marker)
        except Unreadable as why:
            return no_verdict(Status.FAILED, f"gold: {why}")
        try:
            found = read_number(response.completion, self.marker)
        except Unreadable as why:
            return no_answer(str(why))
        return ok(float(_within(found, gold, self.tolerance)), plain(found))


def read_number(text: str, marker: str | None) -> Exactly:
    """The first number after the last `marker`, or without a marker the last number of `text`.

    Raises:
        Unreadable: there is no marker, no number, or none that can be told.
    """
    text = _after(text, marker)
    token = _last_token(text) if marker is None else _TOKEN.search(text)
    if token is None:
        raise Unreadable("no number")
    return _value(text, token)


def _last_token(text: str) -> re.Match[str] | None:
    """The last token, looked for in ever larger tails that begin where no token can cross."""
    width = 64
    while True:
        start = max(0, len(text) - width)
        while start and (text[start - 1].isdecimal() or text[start - 1] in _INSIDE):
            start -= 1
        last = None
        for last in _TOKEN.finditer(text, start):  # noqa: B007 - only the last one is wanted
            pass
        if last is not None or start == 0:
            return last
        width *= 4


def plain(number: Exactly) -> str:
    """Normal form: plain decimal digits without needless zeros, or `a/b` in lowest terms where it does not end."""
    if isinstance(number, Fraction):
        return str(number)
    text = format(number, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _after(text: str, marker: str | None) -> str:
    """What follows the last marker, with decimal signs of other scripts and LaTeX spellings made plain."""
    if marker is not None:
        at = text.rfind(marker)
        if at < 0:
            raise Unreadable("no marker")
        text = text[at + len(marker) :]
    if "\\" in text:
        text = _FRAC.sub(r"\1/\2", text.replace(",\\!", ","))
    if "{,}" in text:
        text = text.replace("{,}", ",")
    return text if text.isascii() else text.translate(_TO_ASCII)


def _gold(target: str | None, marker: str | None) -> Exactly:
    if target is None:
        raise Unreadable("the item has no target")
    if marker is None and sum(1 for _ in _TOKEN.finditer(_after(target, None))) > 1:
        raise Unreadable("more than one number; set target_marker")
    return read_number(target, marker)


def _value(text: str, token: re.Match[str]) -> Exactly:
    """The signed value of one token, or `Unreadable` where its surroundings make it something else."""
    found, start, end = token.group(), token.start(), token.end()
    if start and text[start - 1] == "." and not (start > 1 and (text[start - 2].isalnum() or text[start - 2] == ".")):
        found, start = "." + found, start - 1
    if len(found) > LONGEST_NUMBER:
        raise Unreadable(f"a number of {len(found)} characters")
    before = text[max(0, start - 7) : start]
    if text.startswith("^", end) or _ROOT_OR_POWER_BEFORE.search(before):
        raise Unreadable("a power or a root")
    if found.isdecimal():
        follows = len(found) <= 3 and _SPACED_AFTER.match(text, end)
        if follows or (len(found) == 3 and _SPACED_BEFORE.search(before)):
            raise Unreadable("thousands by an ordinary space, or two numbers")
        if _MIXED_AFTER.match(text, end):
            raise Unreadable("a mixed number")
        value: Exactly = Decimal(found)
    else:
        if "/" in found and before[-1:] == " " and before[-2:-1].isdecimal():
            raise Unreadable("a mixed number")
        value = _magnitude(found)
    return -value if _is_negative(text, start) else value


def _magnitude(found: str) -> Exactly:
    parts = found.split("/")
    if len(parts) == 1:
        return _decimal(found)
    if len(parts) > 2:
        raise Unreadable("a date or a chain of fractions")
    top, bottom = (Fraction(_decimal(part)) for part in parts)
    if bottom == 0:
        raise Unreadable("a division by zero")
    ratio = top / bottom
    return Decimal(ratio.numerator) if ratio.denominator == 1 else ratio


def _decimal(spelling: str) -> Decimal:
    mantissa, mark, exponent = spelling.replace("E", "e").partition("e")
    mantissa = mantissa.rstrip("." + _GROUP)
    if not _PLAIN.fullmatch(mantissa):
        if not (_GROUPED.fullmatch(mantissa) or _INDIAN.fullmatch(mantissa)):
            raise Unreadable("separators that do not group thousands")
        mantissa = mantissa.translate(_NO_GROUPS)
    if not mark:
        return Decimal(mantissa)
    exponent = exponent.replace("−", "-")
    if len(exponent) > 5 or abs(int(exponent)) > LARGEST_EXPONENT:
        raise Unreadable(f"an exponent beyond ±{LARGEST_EXPONENT}")
    return Decimal(f"{mantissa}e{exponent}")


_NO_GROUPS = {ord(mark): None for mark in _GROUP}


def _is_negative(text: str, start: int) -> bool:
    """Is there a minus right before the number, a currency sign between them allowed, that is not a subtraction?"""
    at = start - 1
    while at >= 0 and text[at] in _CURRENCIES:
        at -= 1
    if at < 0 or text[at] not in _SIGNS or text[at] == "+":
        return False
    return at == 0 or not (text[at - 1].isalnum() or text[at - 1] in _CLOSING)


def _within(found: Exactly, gold: Exactly, tolerance: Decimal) -> bool:
    if type(found) is type(gold) and found == gold:
        return True
    return abs(Fraction(found) - Fraction(gold)) <= Fraction(tolerance)
