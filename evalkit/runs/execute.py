"""Executing a plan: completions from the engine into the journal, then scores, then tables.

1. A completion is acknowledged when its journal batch is on disk; scoring starts after that, never before.
2. Everything after the journal is a function of it: a killed run resumes by doing again what does not stand yet.
3. A sample that the infrastructure failed is owed again, not journaled, until all others are done. If what failed fits
   the error budget it is journaled then, with its cause; if not, nothing is, and the same command tries again.
4. Where a component scores whole groups, a completion waits until its group is whole (`groups.py`); what failed for
   good is then journaled first, so that no group can grow once it has scores.
5. If the engine turns into another model, nothing of the run can be used, and the run says so from then on.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalkit.engines import INFRASTRUCTURE, Completion, Engine, Request
from evalkit.errors import DiskRefused, InfrastructureFailed, ModelChanged
from evalkit.runs.folder import RunFolder
from evalkit.runs.groups import Groups
from evalkit.runs.plan import Plan
from evalkit.runs.scoring import (
    Scorer,
    ToScore,
    batches,
    finish_scores,
    group_batches,
    owed_batches,
    score_again,
    score_floor,
    waiting_groups,
    without,
)
from evalkit.runs.tables import write_samples

FLUSH_SIZE = 128
FLUSH_SECONDS = 0.05
VERIFY_SECONDS = 1.0
"""How often, at most, the engine is asked whether it is still the model it was before completions are acknowledged."""
WAITING = 4
"""Batches between journal and scorer; a full queue holds the engine back."""


@dataclass(slots=True)
class Progress:
    """How far a run is; updated in place."""

    planned: int
    done: int = 0
    """Samples journaled, those of earlier attempts included."""
    resumed: int = 0
    """Samples that were there already."""
    truncated: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    """Infrastructure failures by cause."""
    started: float = field(default_factory=time.monotonic)

    @property
    def rate(self) -> float:
        """Samples a second since the start of this attempt."""
        return (self.done - self.resumed) / max(time.monotonic() - self.started, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        """Estimate from the rate; None before there is one."""
        return (self.planned - self.done) / self.rate if self.done > self.resumed else None


OnProgress = Callable[[Progress], None]


async def execute(plan: Plan, engine: Engine, run: RunFolder, root: Path, on_progress: OnProgress) -> None:
    """Bring a run to its end: every planned sample with an outcome, all with a text scored, tables written.

    Raises:
        InfrastructureFailed: the engine failed, turned into another model, or failed too often.
        DiskRefused: the disk is full; what was journaled stays.
    """
    execution = _Execution(plan, engine, run, root, on_progress)
    try:
        await execution.generate_and_score()
    finally:
        execution.close()


class _Execution:
    def __init__(self, plan: Plan, engine: Engine, run: RunFolder, root: Path, on_progress: OnProgress) -> None:
        self.plan, self.engine, self.run, self.root, self.on_progress = plan, engine, run, root, on_progress
        self.journal = run.journal
        self.score_folder = run.scores(plan.lock)
        self.score_journal = self.score_folder.journal
        self.progress = Progress(plan.n_planned)
        self.waiting: dict[str, Request] = {}
        self.pending: list[tuple[Completion, Request]] = []
        self.failed: list[dict[str, Any]] = []
        self.scored: set[str] = set()
        self.groups: Groups | None = None
        self.verified = time.monotonic()
        self.to_score: asyncio.Queue[list[ToScore] | None] = asyncio.Queue(WAITING)
        self.allowed = int(plan.lock.spec.limits.error_budget * plan.n_planned)

    def close(self) -> None:
        self.journal.close()
        self.score_journal.close()

    async def generate_and_score(self) -> None:
        done = self.journal.open()
        self.scored = self.score_journal.open()
        self.groups = waiting_groups(self.plan.lock, self.scored)
        self.progress.done = self.progress.resumed = len(done)
        async with Scorer(self.plan.lock, self.root) as scorer:
            for batch in owed_batches(self.run, self.plan.items, self.scored, self.groups):
                await self._score(scorer, batch)
            scoring = asyncio.create_task(self._score_queue(scorer))
            try:
                await self._generate(done, scoring)
                if self.groups is not None:
                    await self._settle_failures()
                    for batch in group_batches(self.groups, self.failed, self.plan.items):
                        await self._put(batch, scoring)
                await self._put(None, scoring)
                await scoring
            finally:
                scoring.cancel()
                await asyncio.gather(scoring, return_exceptions=True)
            if self.groups is None:
                await self._settle_failures()
            floor = await score_floor(scorer, self.plan.items, self.plan.lock)
            floor |= await score_again(scorer, self.run, self.plan.items, self.plan.lock)
        self.close()
        await asyncio.to_thread(self._finish, floor, scorer.network)

    def _finish(self, floor: dict[str, Any], network: str) -> None:
        write_samples(self.run, self.plan.lock)
        finish_scores(self.run, self.score_folder, self.plan.lock, floor, network)
        self.run.add_protocol(self.plan.lock)
        self.run.write_json("done.json", {"planned": self.plan.n_planned, "journaled": self.progress.done})

    async def _generate(self, done: set[str], scoring: asyncio.Task[None]) -> None:
        """Journal completions in batches by size or time, and pass them on to be scored."""
        ended = asyncio.Event()
        timer = asyncio.create_task(self._flush_regularly(scoring, ended))
        stream = self.engine.generate(self._requests(done))
        try:
            async for completion in stream:
                self._take(completion)
                if len(self.pending) >= FLUSH_SIZE:
                    await self._flush(scoring)
                if timer.done():
                    timer.result()
            ended.set()
            await timer
            await self._flush(scoring)
            if self.progress.done > self.progress.resumed:
                await self.engine.verify()
        except (DiskRefused, ModelChanged):
            raise
        except BaseException:
            self._write_pending()
            raise
        finally:
            timer.cancel()
            await asyncio.gather(timer, return_exceptions=True)
            await stream.aclose()

    async def _flush_regularly(self, scoring: asyncio.Task[None], ended: asyncio.Event) -> None:
        while not ended.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), FLUSH_SECONDS)
            await self._flush(scoring)

    def _requests(self, done: set[str]) -> Any:
        for request in self.plan.requests(done):
            self.waiting[request.sample_id] = request
            yield request

    def _take(self, completion: Completion) -> None:
        request = self.waiting.pop(completion.sample_id)
        if completion.outcome in INFRASTRUCTURE:
            self.progress.failed[str(completion.cause)] += 1
            self.failed.append(_record(completion, request))
            if len(self.failed) > self.allowed:
                raise self._over_budget()
        else:
            self.pending.append((completion, request))

    def _write_pending(self) -> list[tuple[Completion, Request]]:
        """Journal what has come in. Without a pause in between, so that no record is written twice."""
        written, self.pending = self.pending, []
        if written:
            self.journal.append([_record(completion, request) for completion, request in written])
            self.progress.done += len(written)
            self.progress.truncated += sum(completion.outcome == "truncated" for completion, _ in written)
        return written

    async def _flush(self, scoring: asyncio.Task[None]) -> None:
        if self.pending and time.monotonic() - self.verified >= VERIFY_SECONDS:
            await self.engine.verify()
            self.verified = time.monotonic()
        written = self._write_pending()
        if written:
            self.on_progress(self.progress)
        for batch in self._scorable(written):
            await self._put(batch, scoring)

    def _scorable(self, written: Sequence[tuple[Completion, Request]]) -> Iterator[list[ToScore]]:
        """What can be scored now that these are journaled."""
        if self.groups is None:
            return batches(_to_score(written))
        return group_batches(self.groups, [_record(*each) for each in written], self.plan.items)

    async def _put(self, batch: list[ToScore] | None, scoring: asyncio.Task[None]) -> None:
        """Hand a batch over, or raise what the scoring task died of."""
        put = asyncio.create_task(self.to_score.put(batch))
        await asyncio.wait({put, scoring}, return_when=asyncio.FIRST_COMPLETED)
        if not put.done():
            put.cancel()
            scoring.result()

    async def _score_queue(self, scorer: Scorer) -> None:
        while (batch := await self.to_score.get()) is not None:
            await self._score(scorer, batch)

    async def _score(self, scorer: Scorer, batch: list[ToScore]) -> None:
        records = await scorer.score(batch)
        self.score_journal.append(records if self.groups is None else without(self.scored, records))

    async def _settle_failures(self) -> None:
        if self.failed:
            self.journal.append(self.failed)
            self.progress.done += len(self.failed)
            self.on_progress(self.progress)

    def _over_budget(self) -> InfrastructureFailed:
        causes = ", ".join(f"{cause} {n}" for cause, n in self.progress.failed.most_common())
        return InfrastructureFailed(
            f"run {self.run.run_id}: {len(self.failed)} of {self.plan.n_planned} samples failed ({causes}), more than "
            f"the error budget of {self.allowed}; {self.progress.done + len(self.pending)} others are kept: mend the "
            "cause and run the same command again"
        )


def _to_score(written: Sequence[tuple[Completion, Request]]) -> Iterator[ToScore]:
    for completion, request in written:
        if completion.text is not None:
            yield ToScore(completion.sample_id, completion.text, completion.n_completion_tokens, request.fields)


def _record(completion: Completion, request: Request) -> dict[str, Any]:
    return {
        "sample_id": completion.sample_id,
        "item_id": request.item_id,
        "trial": request.trial,
        "seed": request.seed,
        "completion": completion.text,
        "finish_reason": completion.finish_reason,
        "outcome": completion.outcome,
        "cause": completion.cause,
        "n_prompt_tokens": completion.n_prompt_tokens,
        "n_completion_tokens": completion.n_completion_tokens,
        "attempts": completion.attempts,
        "seconds": round(completion.seconds, 4),
    }
