"""`formatting`: the share of a list of plain layout checks that the completion passes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from evalkit.rewards.base import Response, Score, ok

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r" {0,3}#{1,6}[ \t](.*)")


@dataclass(frozen=True, slots=True)
class Formatting:
    """Passed checks ÷ all checks. Every heading, every text, and each other check that is set counts once.

    A completion of nothing but white space is 0: it would pass every check of what must not be there. Headings are
    Markdown's (`## Title`), outside code fences, compared without case.
    """

    required_headings: tuple[str, ...] = ()
    forbidden_headings: tuple[str, ...] = ()
    required_text: tuple[str, ...] = ()
    """Literal texts, case kept, that must occur."""
    forbidden_text: tuple[str, ...] = ()
    """Literal texts, case kept, that must not occur: `</think>`, `As an AI`."""
    max_lines: int | None = None
    """Most lines allowed, blank ones at the end not counted."""
    fences_closed: bool = False
    """Every code fence that opens also closes."""

    declared_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __post_init__(self) -> None:
        lists = (self.required_headings, self.forbidden_headings, self.required_text, self.forbidden_text)
        if not any(lists) and self.max_lines is None and not self.fences_closed:
            raise ValueError("no check is set; set at least one parameter")
        if any(not text.strip() for texts in lists for text in texts):
            raise ValueError("an empty heading or text; leave it out")
        if self.max_lines is not None and self.max_lines < 1:
            raise ValueError("max_lines: give a whole number ≥ 1")

    def score(self, response: Response) -> Score:
        if not response.completion.strip():
            return ok(0.0, evidence="empty completion")
        checks = list(self._checks(response.completion))
        failed = [name for name, passed in checks if not passed]
        return ok(1.0 - len(failed) / len(checks), evidence=f"failed: {', '.join(failed)}" if failed else None)

    def _checks(self, text: str) -> Iterator[tuple[str, bool]]:
        lines = text.rstrip().split("\n")
        headings, is_closed = _outline(lines)
        for title in self.required_headings:
            yield f"heading {title!r} required", title.strip().casefold() in headings
        for title in self.forbidden_headings:
            yield f"heading {title!r} forbidden", title.strip().casefold() not in headings
        for wanted in self.required_text:
            yield f"text {wanted!r} required", wanted in text
        for unwanted in self.forbidden_text:
            yield f"text {unwanted!r} forbidden", unwanted not in text
        if self.max_lines is not None:
            yield f"at most {self.max_lines} lines", len(lines) <= self.max_lines
        if self.fences_closed:
            yield "code fences closed", is_closed


def _outline(lines: list[str]) -> tuple[set[str], bool]:
    """Headings outside code fences, and whether the last code fence is closed (CommonMark: same mark, as long)."""
    headings: set[str] = set()
    fence = ""
    for line in lines:
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
        elif mark and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
        elif heading := _HEADING.match(line):
            headings.add(_title(heading[1]).casefold())
    return headings, not fence


def _title(rest: str) -> str:
    """Text of a heading without the closing `##` that Markdown allows."""
    title = rest.strip()
    bare = title.rstrip("#")
    return bare.rstrip() if bare != title and bare[-1:] in ("", " ", "\t") else title
