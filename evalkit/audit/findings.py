"""A finding: what an audit saw, how bad it is, on what evidence, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from evalkit.stats import Estimate

Severity = Literal["info", "warning", "blocking"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "blocking")


@dataclass(frozen=True, slots=True)
class Finding:
    """One coded result."""

    code: str
    """`FAMILY.NAME`; stable, for programs."""
    severity: Severity
    """`blocking`: the reward must not be trusted, or nothing can be said, until this is mended."""
    statement: str
    """One sentence with its numbers."""
    next_step: str
    estimate: Estimate | None = None
    """The number behind the statement, where it is one."""
    evidence: tuple[str, ...] = field(default_factory=tuple)
    """Sample ids, or FILE:ROW, to look at; the first few."""


MOST_EVIDENCE = 10


def rows_named(source: str, rows: list[int]) -> tuple[str, ...]:
    """The first few rows of a file as evidence."""
    return tuple(f"{source}:{row}" for row in rows[:MOST_EVIDENCE])
