"""A finding: what an audit saw, how bad it is, on what evidence, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from evalkit.rewards.findings import Finding as ScorerFinding
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


def in_percent(share: Estimate) -> str:
    """A share and its interval for a statement: `12.3 % [8.1, 16.5]`."""
    if share.value is None:
        return "an unknown share"
    if share.low is None or share.high is None:
        return f"{100 * share.value:.1f} %"
    return f"{100 * share.value:.1f} % [{100 * share.low:.1f}, {100 * share.high:.1f}]"


def in_figures(estimate: Estimate) -> str:
    """A number and its interval for a statement: `0.12 [0.08, 0.17]`."""
    if estimate.value is None:
        return "an unknown value"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3g}"
    return f"{estimate.value:.3g} [{estimate.low:.3g}, {estimate.high:.3g}]"


def rows_named(source: str, rows: list[int]) -> tuple[str, ...]:
    """The first few rows of a file as evidence."""
    return tuple(f"{source}:{row}" for row in rows[:MOST_EVIDENCE])


WITHOUT_SCORE = frozenset(
    {
        "SCORE.DOUBLE_BOS", "SCORE.TEMPLATE_TWICE", "SCORE.TEMPLATE_FAILS", "SCORE.OVERFLOW", "SCORE.EMPTY",
        "SCORE.OUT_OF_MEMORY", "SCORE.NONFINITE", "JUDGE.UNPARSED", "JUDGE.AMBIGUOUS", "JUDGE.CUT", "JUDGE.OFF_SCALE",
        "JUDGE.UNREACHED",
    }
)  # fmt: skip
"""Rows without a score, which the ledger counts and worst cases bound: they alone do not make the others wrong."""


def of_scorer(found: ScorerFinding) -> Finding:
    """What a reward model or a judge showed of itself, as a finding of the audit.

    `no-go` blocks where it makes scores wrong; where it leaves rows without one, and what nobody can tell, warns.
    """
    blocks = found.level == "no-go" and found.code not in WITHOUT_SCORE
    mend = found.mend or "keep it in mind when reading the numbers"
    return Finding(found.code, "blocking" if blocks else "warning", found.statement, mend, evidence=found.rows)
