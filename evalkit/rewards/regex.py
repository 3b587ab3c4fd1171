"""`regex`: a pattern of the user's, found in the completion."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar

from evalkit.rewards.base import Response, Score, Status, no_answer, no_verdict, ok


@dataclass(frozen=True, slots=True)
class Regex:
    """1 if the completion shows what the pattern asks for, else 0. Python's `re`, searched anywhere, flags inline.

    `match_target`: the text of the last match equals the target, white space at both ends of each dropped; no match is
    no answer, and so 0. `present`: there is a match; the target is not looked at. A pattern that hangs is `timeout`.
    """

    pattern: str
    mode: str = "match_target"
    """`match_target` or `present`."""
    group: str = "first"
    """`first` or `last` of the match's groups that took part; without any, the whole match."""

    _compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)

    declared_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if self.mode not in ("match_target", "present"):
            raise ValueError(f"mode: {self.mode!r} is neither match_target nor present")
        if self.group not in ("first", "last"):
            raise ValueError(f"group: {self.group!r} is neither first nor last")
        try:
            compiled = re.compile(self.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"pattern: not a regular expression: {error}") from error
        object.__setattr__(self, "_compiled", compiled)

    def score(self, response: Response) -> Score:
        if self.mode == "present":
            found = self._compiled.search(response.completion)
            return ok(0.0) if found is None else ok(1.0, found.group())
        if response.target is None:
            return no_verdict(Status.FAILED, "gold: the item has no target")
        last = None
        for last in self._compiled.finditer(response.completion):  # noqa: B007 - only the last one is wanted
            pass
        if last is None:
            return no_answer("no match")
        taken = [text for text in last.groups() if text is not None] or [last.group()]
        answer = taken[0 if self.group == "first" else -1].strip()
        return ok(float(answer == response.target.strip()), answer)
