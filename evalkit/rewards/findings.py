"""What a look at a scorer, or at a whole protocol before a run, found: each as one line with its mend.

1. `no-go` makes the numbers wrong or missing; a `warning` is what a reader must know; what cannot be told is said so.
2. A finding names a few of the rows that it rests on, so that one can look.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["no-go", "warning", "cannot tell"]
ORDER: tuple[Level, ...] = ("no-go", "warning", "cannot tell")
SHOWN = 5
"""Ids of rows that a finding names."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know before its numbers are used."""

    level: Level
    code: str
    """`SCORE.…`, `JUDGE.…`, or a preflight's."""
    statement: str
    mend: str
    """Empty where there is nothing to do about it."""
    rows: tuple[str, ...] = ()
    """Ids of the first `SHOWN` rows that it rests on; empty where it rests on no single row."""


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings with what stops first, then by code."""
    return tuple(sorted(findings, key=lambda finding: (ORDER.index(finding.level), finding.code)))
