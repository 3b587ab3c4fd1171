"""A judge behind an OpenAI-compatible server: pairs in both orders, or single answers on a declared scale.

1. The server is asked through the engine `openai:NAME@URL` at temperature 0: bounded retries, its identity, no server
   default. A server that turns into another model ends it.
2. Every reply is journaled before it counts, and before that the server is asked whether it is still the same, so that
   no reply of another model is kept. A call that is in the journal is not made again. A call is identified by
   judge, row and order (`judge_text.call_id`), so a changed judge, rubric or text is asked anew.
3. A call that the infrastructure failed is not journaled: its row has no verdict now, and is owed to the next try.
4. A pair has a verdict only where both orders agree. Where they do not, the order decided: no verdict, and no tie.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, Self

from evalkit.canonical import digest
from evalkit.engines import INFRASTRUCTURE, Completion, EngineOptions, Fingerprint, Gold, Request
from evalkit.engines.openai import OpenAIEngine
from evalkit.errors import BadInput
from evalkit.protocol import ComponentSpec, Limits, Lock, Sampling, digests_of, request_seed
from evalkit.protocol import Protocol as Spec
from evalkit.protocol.spec import Message, Prompt, Reward, Success
from evalkit.rewards.base import Score, Status, no_verdict, ok
from evalkit.rewards.judge_text import (
    FORMAT,
    JudgeSpec,
    Order,
    PairRow,
    PointRow,
    Reading,
    call_id,
    mark_of,
    messages_of,
    read_reply,
)

PREFIX = "openai:"
Row = PairRow | PointRow
Choice = Literal["a", "b", "tie"]
UNREACHED = "JUDGE.UNREACHED"
SOON = 0.5
"""Seconds that a reply waits at most until it is journaled, so that the server is not asked who it is for each one."""
_CHOICES: Mapping[Order, Mapping[str, Choice]] = {
    "ab": {"A": "a", "B": "b", "TIE": "tie"},
    "ba": {"A": "b", "B": "a", "TIE": "tie"},
}


class Calls(Protocol):
    """Where replies are kept: an append-only journal of records with a `sample_id` each (`runs.journal.Journal`)."""

    def open(self) -> set[str]:
        """Open for appending; the ids that are in it."""
        ...

    def append(self, records: Sequence[dict[str, Any]]) -> None:
        """Add records and make them durable."""
        ...

    def records(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Place and content of every record."""
        ...

    def close(self) -> None:
        """Close."""
        ...


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """How the server is asked; none of it can change a verdict."""

    concurrency: int | None = None
    """Requests in flight; None for the engine's own default."""
    retries: int = 5
    """Attempts after the first."""
    timeout: float = 600.0
    """Seconds for one attempt."""


@dataclass(frozen=True, slots=True)
class JudgeIdentity:
    """Who judges."""

    reference: str
    name: str
    judge_digest: str
    """Of the model as the server names it, and of all that it is asked: what verdicts are comparable under."""
    model_digest: str
    assurance: str
    """`provider-asserted`: the server's word."""
    greedy_repeats: bool | None
    """Whether two equal requests got equal answers; None where the server did not answer them."""
    declared_range: tuple[float, float] | None
    """The scale; None for pairs."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Recorded, no identity."""


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """What the judge says of a pair."""

    row_id: str
    verdict: Choice | None
    """None where the orders disagree or a reply could not be had or read."""
    ab: Choice | None
    """What it chose when `a` was shown first; None where that reply could not be had or read."""
    ba: Choice | None
    """What it chose when `b` was shown first."""
    codes: tuple[str, ...]
    """`JUDGE.…` of the replies that could not be had or read."""
    why: str
    """Why there is no verdict; empty where there is one."""

    @property
    def flipped(self) -> bool:
        """Both replies were read, and the order of the answers changed what was chosen."""
        return self.ab is not None and self.ba is not None and self.ab != self.ba


@dataclass(frozen=True, slots=True)
class PointScore:
    """What the judge says of an answer."""

    row_id: str
    score: Score
    codes: tuple[str, ...]
    """`JUDGE.…` where there is no value."""


class Judge:
    """A judge, open while it is entered (`async with`). One user at a time.

    Args:
        reference: `openai:NAME@URL`.
        spec: what it is asked.
        calls: its journal, closed; opened and closed here.

    Raises:
        BadInput: a reference of another form.
    """

    def __init__(self, reference: str, spec: JudgeSpec, calls: Calls, options: JudgeOptions | None = None) -> None:
        options = options or JudgeOptions()
        if not reference.startswith(PREFIX):
            raise BadInput(
                f"--judge {reference}: not openai:NAME@URL; such as openai:my-judge@http://127.0.0.1:8000/v1"
            )
        self._reference, self.spec, self._calls = reference, spec, calls
        engine_options = EngineOptions(Path(), concurrency=options.concurrency)
        self._engine = OpenAIEngine(
            reference.removeprefix(PREFIX), _lock(spec, options), Gold((), dict), engine_options
        )
        self._identity: JudgeIdentity | None = None
        self._done: dict[str, dict[str, Any]] = {}

    async def __aenter__(self) -> Self:
        """Ask the server who it is, and read the journal.

        Raises:
            InfrastructureFailed: no server answers.
            BadInput: it does not serve NAME, or the journal is not one.
        """
        try:
            self._identity = _identity(self._reference, self.spec, await self._engine.open())
            self._calls.open()
            self._done = {record["sample_id"]: record for _, record in self._calls.records()}
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of server and journal."""
        await self._engine.close()
        self._calls.close()

    @property
    def identity(self) -> JudgeIdentity:
        """Who judges; known once entered."""
        assert self._identity is not None, "enter the judge first"
        return self._identity

    async def verdicts(self, rows: Iterable[PairRow]) -> AsyncGenerator[PairVerdict, None]:
        """A verdict for every pair, in the order they become known. Both orders are always asked.

        Raises:
            BadInput: an id stands twice.
            ModelChanged: the server turned into another model.
        """
        if self.spec.kind != "pairwise":
            raise BadInput("judge kind: pointwise, and pairs are given; give kind pairwise, or single answers")
        waiting: dict[str, dict[Order, Reading]] = defaultdict(dict)
        async for row, order, reading in self._readings(rows, ("ab", "ba")):
            waiting[row.row_id][order] = reading
            if len(waiting[row.row_id]) == 2:
                yield _verdict(row.row_id, waiting.pop(row.row_id))

    async def scores(self, rows: Iterable[PointRow]) -> AsyncGenerator[PointScore, None]:
        """A score for every answer, in the order they become known.

        Raises:
            BadInput: an id stands twice.
            ModelChanged: the server turned into another model.
        """
        if self.spec.kind != "pointwise":
            raise BadInput("judge kind: pairwise, and single answers are given; give kind pointwise, or pairs")
        async for row, _, reading in self._readings(rows, ("ab",)):
            yield _score(row.row_id, reading)

    async def _readings(
        self, rows: Iterable[PairRow] | Iterable[PointRow], orders: tuple[Order, ...]
    ) -> AsyncGenerator[tuple[Row, Order, Reading], None]:
        """What each call says: from the journal first, then from the server."""
        owed: dict[str, tuple[Row, Order, str]] = {}
        for row in _unique(rows):
            for order in orders:
                call = call_id(self.identity.judge_digest, row, order)
                mark = mark_of(self.spec.seed, call, _texts(row))
                if call in self._done:
                    yield row, order, self._read(self._done[call], mark)
                else:
                    owed[call] = (row, order, mark)
        if not owed:
            return
        requests = (self._request(call, *what) for call, what in list(owed.items()))
        async for batch in _batches(self._engine.generate(requests)):
            await self._engine.verify()
            self._keep([(owed[completion.sample_id], completion) for completion in batch])
            for completion in batch:
                row, order, mark = owed.pop(completion.sample_id)
                record = self._done.get(completion.sample_id)
                why = f"{completion.cause} after {completion.attempts} attempts"
                yield row, order, self._read(record, mark) if record else Reading(None, UNREACHED, why)

    def _keep(self, batch: Sequence[tuple[tuple[Row, Order, str], Completion]]) -> None:
        """Journal the replies of a batch; what the infrastructure failed is none."""
        records = [
            _record(row.row_id, order, completion)
            for (row, order, _), completion in batch
            if completion.outcome not in INFRASTRUCTURE
        ]
        if records:
            self._calls.append(records)
            self._done |= {record["sample_id"]: record for record in records}

    def _request(self, call: str, row: Row, order: Order, mark: str) -> Request:
        seed = request_seed(self.spec.seed, 0, row.row_id, int(order == "ba"))
        return Request(call, row.row_id, int(order == "ba"), seed, None, messages_of(self.spec, row, order, mark), {})

    def _read(self, record: Mapping[str, Any], mark: str) -> Reading:
        if record["text"] is None:
            return Reading(None, "JUDGE.UNPARSED", f"no reply: {record['cause']}")
        return read_reply(self.spec, record["text"], mark, record["outcome"] == "truncated")


async def _batches(stream: AsyncGenerator[Completion, None]) -> AsyncGenerator[list[Completion], None]:
    """Completions as they come; none waits longer than `SOON`."""
    batch: list[Completion] = []
    due = 0.0
    pending = asyncio.ensure_future(anext(stream, None))
    try:
        while True:
            left = max(0.0, due - time.monotonic()) if batch else None
            done, _ = await asyncio.wait({pending}, timeout=left)
            if done:
                completion = pending.result()
                if completion is None:
                    break
                due = due if batch else time.monotonic() + SOON
                batch.append(completion)
                pending = asyncio.ensure_future(anext(stream, None))
            if batch and time.monotonic() >= due:
                yield batch
                batch = []
        if batch:
            yield batch
    finally:
        pending.cancel()
        await asyncio.gather(pending, return_exceptions=True)
        await stream.aclose()


def _unique(rows: Iterable[PairRow] | Iterable[PointRow]) -> Iterator[Row]:
    seen = set()
    for row in rows:
        if row.row_id in seen:
            raise BadInput(f"row {row.row_id}: this id stands twice; verdicts are joined by it: make it unique")
        seen.add(row.row_id)
        yield row


def _texts(row: Row) -> list[str]:
    answers = [row.a, row.b] if isinstance(row, PairRow) else [row.answer]
    return [row.task, row.reference or "", *answers]


def _record(row_id: str, order: Order, completion: Completion) -> dict[str, Any]:
    return {
        "sample_id": completion.sample_id,
        "row_id": row_id,
        "order": order,
        "outcome": completion.outcome,
        "cause": completion.cause,
        "text": completion.text,
        "finish_reason": completion.finish_reason,
        "n_prompt_tokens": completion.n_prompt_tokens,
        "n_completion_tokens": completion.n_completion_tokens,
        "attempts": completion.attempts,
        "seconds": completion.seconds,
    }


def _verdict(row_id: str, said: Mapping[Order, Reading]) -> PairVerdict:
    chosen = {order: _CHOICES[order].get(str(reading.value)) for order, reading in said.items()}
    ab, ba = chosen["ab"], chosen["ba"]
    codes = tuple(dict.fromkeys(reading.code for reading in said.values() if reading.code))
    if codes:
        why = "; ".join(f"{order}: {said[order].why}" for order in ("ab", "ba") if said[order].code)
        return PairVerdict(row_id, None, ab, ba, codes, why)
    if ab != ba:
        return PairVerdict(row_id, None, ab, ba, (), f"the order decides: {ab} when a is first, {ba} when b is first")
    return PairVerdict(row_id, ab, ab, ba, (), "")


def _score(row_id: str, reading: Reading) -> PointScore:
    if isinstance(reading.value, float):
        return PointScore(row_id, ok(reading.value), ())
    failed = reading.code in (UNREACHED, "JUDGE.OFF_SCALE")
    return PointScore(row_id, no_verdict(Status.FAILED if failed else Status.UNPARSED, reading.why), (reading.code,))


def _lock(spec: JudgeSpec, options: JudgeOptions) -> Lock:
    """What the engine needs to know of sampling and limits. Turns are given with each request."""
    protocol = Spec(
        name="judge",
        version=1,
        prompt=Prompt(messages=(Message(role="user", content="-"),), chat_template="server"),
        sampling=Sampling(max_tokens=spec.max_tokens, seed=spec.seed),
        limits=Limits(request_timeout=Decimal(str(options.timeout)), retries=options.retries, overflow="skip"),
        reward=Reward(components={"verdict": ComponentSpec(use="judge", role="preference")}),
        success=Success(component="verdict"),
    )
    return Lock(protocol, {}, digests_of(protocol, {}))


def _identity(reference: str, spec: JudgeSpec, mark: Fingerprint) -> JudgeIdentity:
    asked = {
        "format": FORMAT,
        "model": mark.model_digest,
        "kind": spec.kind,
        "criteria": spec.criteria,
        "scale": [Decimal(str(end)) for end in spec.scale] if spec.kind == "pointwise" else None,
        "max_tokens": spec.max_tokens,
        "seed": spec.seed,
    }
    return JudgeIdentity(
        reference=mark.reference,
        name=mark.name,
        judge_digest=digest("judge", asked),
        model_digest=mark.model_digest,
        assurance=mark.assurance,
        greedy_repeats=mark.details.get("greedy_repeats"),
        declared_range=spec.scale if spec.kind == "pointwise" else None,
        details=mark.details,
    )
