"""Scoring in child processes that can be killed: model text can hang a regex, and a scorer can take its process down.

1. One call of `score` is one batch in one child. Calls from many tasks wait for a free child; frames never mix.
2. A batch that passes the deadline, or whose child dies, is run again one (sample, component) at a time, each with the
   deadline of its own in a child that works. So the culprit alone has no verdict, all others have their real scores.
   For a component that scores whole groups it is one (group, component) at a time.
3. A culprit is data: status `timeout` or `failed`. Only a child that cannot start is an error: infrastructure.
4. Completions and items go through pipes, never through arguments, environment or files.
5. No child outlives the pool or its process.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from evalkit.errors import BadInput, InfrastructureFailed
from evalkit.frames import HEAD, pack, unpack
from evalkit.rewards.adapters import takes_groups
from evalkit.rewards.base import Response, Score, Status
from evalkit.rewards.network import OPEN
from evalkit.rewards.parameters import canonical_kinds

START_DEADLINE = 120.0
"""Seconds for a child to import its scorers; a project's may import large libraries."""
_STATUS = {status.value: status for status in Status}
Batch = Sequence[tuple[str, Response]]
Scores = dict[str, dict[str, Score]]


class ScoringPool:
    """Children that score batches: `async with ScoringPool(components, root) as pool: await pool.score(batch)`."""

    def __init__(
        self,
        components: Mapping[str, tuple[str, Mapping[str, Any]]],
        root: Path,
        deadline: float = 10.0,
        workers: int = 1,
    ) -> None:
        """Nothing is started yet.

        Args:
            components: name → (`use`, parameters) as in a protocol or a lock.
            root: the workspace, for the project's own functions.
            deadline: seconds for a batch, and again for each (sample or group, component) of a batch that passed it.
            workers: children, and so batches at a time.
        """
        if workers < 1 or deadline <= 0:
            raise BadInput(f"scoring: {workers} workers and a deadline of {deadline} s; both must be more than 0")
        self._names = list(components)
        self._grouped = {name for name, (use, _) in components.items() if takes_groups(use)}
        spec = {
            "root": str(root.resolve()),
            "components": [[name, use, _sendable(params)] for name, (use, params) in components.items()],
        }
        self._deadline = deadline
        try:
            first = pack(spec)
        except TypeError as error:
            raise BadInput(f"scoring: parameters of a kind that no protocol holds: {error}") from error
        self._children = [_Child(first) for _ in range(workers)]
        self._free: asyncio.LifoQueue[_Child] = asyncio.LifoQueue()

    async def __aenter__(self) -> Self:
        """Start the children.

        Raises:
            BadInput, InfrastructureFailed: a component cannot be built; a child cannot start.
        """
        try:
            await asyncio.gather(*(child.start() for child in self._children))
        except BaseException:
            await self._stop()
            raise
        for child in self._children:
            self._free.put_nowait(child)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    @property
    def network(self) -> str:
        """What the children have of the network (`network.py`); known once they are started."""
        return self._children[0].network

    async def score(
        self, batch: Batch, groups: Sequence[int] | None = None, only: Sequence[str] | None = None
    ) -> Scores:
        """Scores of a batch: sample id → component → score. Every sample and every component is there.

        Args:
            batch: sample ids with what is scored.
            groups: sizes of the groups that the batch is made of, one after the other; needed where a component scores
                whole groups.
            only: components to run; `None` for all.

        Raises:
            BadInput: a sample id stands twice, or an item holds something that JSON does not have.
            InfrastructureFailed: a child could not be started again.
            ValueError: groups that are needed and not given, or do not add up to the batch.
        """
        names = self._names if only is None else list(only)
        if not self._grouped.isdisjoint(names) and groups is None:
            raise ValueError("a component scores whole groups; say which they are")
        if groups is not None and (sum(groups) != len(batch) or min(groups, default=1) < 1):
            raise ValueError(f"groups of {list(groups)} are no batch of {len(batch)}")
        if len({sample_id for sample_id, _ in batch}) != len(batch):
            raise BadInput("scoring: a sample id stands twice in one batch; sample ids are unique in a run")
        if not batch or not names:
            return {sample_id: {} for sample_id, _ in batch}
        frame = _frame(batch, only, groups)
        child = await self._free.get()
        try:
            reply = await child.ask(frame, self._deadline)
            if isinstance(reply, _Broken):
                return await self._one_by_one(child, batch, groups, names)
        finally:
            self._free.put_nowait(child)
        return {
            sample_id: dict(zip(names, map(_score, row), strict=True))
            for (sample_id, _), row in zip(batch, reply, strict=True)
        }

    async def _one_by_one(
        self, child: _Child, batch: Batch, groups: Sequence[int] | None, names: Sequence[str]
    ) -> Scores:
        found: Scores = {sample_id: {} for sample_id, _ in batch}
        for name in names:
            for part in _cut(batch, groups if name in self._grouped else None):
                reply = await child.ask(_frame(part, [name], [len(part)]), self._deadline)
                for at, (sample_id, _) in enumerate(part):
                    found[sample_id][name] = reply.score if isinstance(reply, _Broken) else _score(reply[at][0])
        return found

    async def _stop(self) -> None:
        await asyncio.gather(*(child.stop() for child in self._children))


class _Broken:
    """A child that gave no answer: too late, or dead."""

    def __init__(self, status: Status, evidence: str) -> None:
        self.score = Score(None, status, None, evidence)


class _Child:
    """One child process, started again whenever it was killed or died. One user at a time."""

    def __init__(self, spec: bytes) -> None:
        self._spec = spec
        self._process: asyncio.subprocess.Process | None = None
        self._drain: asyncio.Task[None] | None = None
        self._stderr = b""
        self.network = OPEN

    async def start(self) -> None:
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                "evalkit.rewards.worker",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=2**22,
            )
        except OSError as error:
            raise InfrastructureFailed(f"scorer process: cannot start: {error}; try again") from error
        self._process, self._stderr = process, b""
        self._drain = asyncio.create_task(self._keep_stderr(process))
        ready = await self._exchange(self._spec, START_DEADLINE)
        if isinstance(ready, _Broken):
            last = self._stderr.decode("utf-8", "replace").strip().split("\n")[-1]
            raise InfrastructureFailed(f"scorer process: cannot start: {ready.score.evidence}; last words: {last!r}")
        if "refused" in ready:
            await self.stop()
            raise BadInput(str(ready["refused"]))
        self.network = ready["network"]

    async def ask(self, frame: bytes, deadline: float) -> Any:
        """The reply to a frame, or `_Broken`; then the child is gone and the next call starts another."""
        if self._process is not None and self._process.returncode is not None:
            await self.stop()
        if self._process is None:
            await self.start()
        return await self._exchange(frame, deadline)

    async def stop(self) -> None:
        """Kill the child, wait for it, and forget it."""
        process, drain = self._process, self._drain
        self._process = self._drain = None
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await process.wait()
        if process.stdin is not None:
            process.stdin.close()
        if drain is not None:
            drain.cancel()
            await asyncio.gather(drain, return_exceptions=True)

    async def _exchange(self, frame: bytes, deadline: float) -> Any:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(deadline):
                process.stdin.write(frame)
                await process.stdin.drain()
                length, codec = HEAD.unpack(await process.stdout.readexactly(HEAD.size))
                return unpack(codec, await process.stdout.readexactly(length))
        except TimeoutError:
            await self.stop()
            return _Broken(Status.TIMEOUT, f"no answer within {deadline:g} s")
        except (asyncio.IncompleteReadError, ConnectionError):
            code = await self._last_breath(process)
            return _Broken(Status.FAILED, f"the scorer process died ({_cause(code)})")
        except BaseException:
            await self.stop()
            raise

    async def _last_breath(self, process: asyncio.subprocess.Process) -> int:
        """Exit code of a child that closed its pipe; one that still lives a second later is killed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await process.wait()
                if self._drain is not None:
                    await asyncio.wait([self._drain], timeout=0.2)
        await self.stop()
        return process.returncode or 0

    async def _keep_stderr(self, process: asyncio.subprocess.Process) -> None:
        """Keep the pipe empty and the last lines for a message."""
        assert process.stderr is not None
        while chunk := await process.stderr.read(2**16):
            self._stderr = (self._stderr + chunk)[-4000:]


def _cause(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _score(row: Sequence[Any]) -> Score:
    value, status, answer, evidence = row
    return Score(value, _STATUS[status], answer, evidence)


def _cut(batch: Batch, groups: Sequence[int] | None) -> Iterator[Batch]:
    """The groups of a batch; its samples one by one where there are none."""
    start = 0
    for size in [1] * len(batch) if groups is None else groups:
        yield batch[start : start + size]
        start += size


def _frame(batch: Batch, only: Sequence[str] | None, groups: Sequence[int] | None) -> bytes:
    samples = [[r.completion, r.target, _object(r.item), r.n_completion_tokens] for _, r in batch]
    try:
        return pack({"only": only, "samples": samples, "groups": groups})
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"scoring: a batch cannot be sent: {error}; items hold JSON values only") from error


def _object(item: Mapping[str, Any]) -> dict[str, Any]:
    return item if isinstance(item, dict) else dict(item)


def _sendable(params: Any) -> Any:
    """Parameters as a lock writes them: decimals as text."""
    params = canonical_kinds(params)
    if isinstance(params, Decimal):
        return str(params)
    if isinstance(params, dict):
        return {key: _sendable(value) for key, value in params.items()}
    return [_sendable(value) for value in params] if isinstance(params, list) else params
