"""Judging a list of rows in one call: verdicts or scores, what they are worth, and what the judge gives to floors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass

from evalkit.rewards.findings import Finding, ranked
from evalkit.rewards.judge import Calls, Judge, JudgeIdentity, JudgeOptions, PairVerdict, PointScore
from evalkit.rewards.judge_findings import judge_findings
from evalkit.rewards.judge_floors import FloorTest, floor_test
from evalkit.rewards.judge_text import JudgeSpec, PairRow, PointRow

Result = PairVerdict | PointScore


__all__ = [
    "FloorTest", "Judge", "JudgeIdentity", "JudgeOptions", "JudgeSpec", "Judged", "PairRow", "PairVerdict", "PointRow",
    "PointScore", "judge_rows", "judge_rows_async",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judged:
    """All rows of one judging."""

    verdicts: tuple[PairVerdict, ...]
    """In the order of the rows; empty for single answers."""
    scores: tuple[PointScore, ...]
    """In the order of the rows; empty for pairs."""
    floors: FloorTest | None
    """None where no row was to be probed."""
    findings: tuple[Finding, ...]
    """Of verdicts and floors, what stops first."""
    identity: JudgeIdentity


async def judge_rows_async(
    reference: str,
    spec: JudgeSpec,
    rows: Sequence[PairRow] | Sequence[PointRow],
    calls: Calls,
    options: JudgeOptions | None = None,
    floors: int = 20,
    on_result: Callable[[Result], None] | None = None,
) -> Judged:
    """As `judge_rows`, within a running event loop."""
    found: dict[str, Result] = {}
    stream: AsyncGenerator[Result, None]
    async with Judge(reference, spec, calls, options) as judge:
        pairs = [row for row in rows if isinstance(row, PairRow)]
        points = [row for row in rows if isinstance(row, PointRow)]
        single = bool(points) or (not pairs and spec.kind == "pointwise")
        stream = judge.scores(points) if single else judge.verdicts(pairs)
        async for result in stream:
            found[result.row_id] = result
            if on_result is not None:
                on_result(result)
        probed = await floor_test(judge, rows, floors) if floors and rows else None
        ordered = [found[row.row_id] for row in rows]
        verdicts = tuple(one for one in ordered if isinstance(one, PairVerdict))
        scores = tuple(one for one in ordered if isinstance(one, PointScore))
        said = judge_findings(verdicts or scores, judge.identity)
        every = ranked([*said, *(probed.findings if probed else ())])
        return Judged(verdicts, scores, probed, every, judge.identity)


def judge_rows(
    reference: str,
    spec: JudgeSpec,
    rows: Sequence[PairRow] | Sequence[PointRow],
    calls: Calls,
    options: JudgeOptions | None = None,
    floors: int = 20,
    on_result: Callable[[Result], None] | None = None,
) -> Judged:
    """Have rows judged; what is in the journal is not asked again.

    Args:
        reference: `openai:NAME@URL`.
        spec: what the judge is asked.
        rows: pairs for `pairwise`, single answers for `pointwise`; ids are unique.
        calls: the journal of replies, such as `runs.journal.Journal(path)`, closed.
        options: how the server is asked.
        floors: rows that the judge is probed with (`judge_floors.py`); 0 for none.
        on_result: called with each verdict or score as it becomes known.

    Returns:
        One verdict or score a row, in the order of the rows, and findings `JUDGE.…` and `SCORE.FLOOR_…`.

    Raises:
        BadInput: the reference, a row or the journal cannot be used.
        InfrastructureFailed: no server answers at the start, or it turns into another model.
    """
    return asyncio.run(judge_rows_async(reference, spec, rows, calls, options, floors, on_result))
