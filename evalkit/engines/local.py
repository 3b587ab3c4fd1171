"""`vllm:PATH` and `hf:PATH`: a checkpoint on this machine, run in a child process that is watched.

1. The folder is checked and hashed first; the weights are loaded when there is something to answer, so a run that is
   finished costs no loading.
2. Prompts are tokens before they reach the engine, so both engines see the same, and a served model should.
3. A child that dies or hangs is started again and asked again for what it owes; what it gave stays. Deaths without a
   finished completion between them end the run after `RESTARTS` restarts: infrastructure, exit code 75.
4. A folder that changed between hashing and loading is another model: it is not asked, and the run ends.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from itertools import islice
from typing import Any, ClassVar

from evalkit.engines.base import Completion, EngineOptions, Fingerprint, Gold, ModelTemplate, Outcome, Request
from evalkit.engines.checkpoint import Checkpoint, read_checkpoint
from evalkit.engines.child import ChildDied, EngineChild
from evalkit.engines.knobs import knobs_of
from evalkit.engines.prompting import PromptEncoder, stop_rules
from evalkit.errors import BadInput, InfrastructureFailed, Refused
from evalkit.protocol import Lock

RESTARTS = 2
"""Restarts in a row in which no completion was finished."""
FIRST_IDS = 16
"""Token ids of the first prompt that are recorded."""
OPERATIONAL = frozenset(
    {
        "disable_log_stats",
        "distributed_executor_backend",
        "download_dir",
        "gpu_memory_utilization",
        "kv_cache_memory_bytes",
        "max_parallel_loading_workers",
        "num_gpu_blocks_override",
        "safetensors_load_strategy",
        "swap_space",
        "uvicorn_log_level",
    }
)
"""Engine arguments that change where and how fast, not what; every other one enters the run's address."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """A request in the hands of the engine."""

    request: Request
    token_ids: list[int]
    sent: float
    attempts: int


class LocalEngine:
    """What both engines share. See the module's rules."""

    name: ClassVar[str]
    module: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]
    """Imported by the child; their versions are the engine's version."""
    concurrency: ClassVar[int]
    """Requests in flight where the user says nothing; for an engine that works in batches, their size."""
    in_batches: ClassVar[bool]

    def __init__(self, locator: str, lock: Lock, gold: Gold, options: EngineOptions) -> None:
        self._reference = f"{self.name}:{locator}"
        for package in self.packages:
            if importlib.util.find_spec(package) is None:
                raise BadInput(
                    f"--model {self._reference}: {package} is not installed; pip install 'evalkit-rl[{self.name}]'"
                )
        if options.tokenizer is not None:
            raise BadInput(f"--tokenizer: {self.name}: uses the tokenizer in the checkpoint's folder; leave it out")
        self._spec = lock.spec
        self._options = options
        self._checkpoint: Checkpoint = read_checkpoint(locator, options.root, f"--model {self._reference}")
        self._encoder = PromptEncoder(lock.spec, self._checkpoint.tokenizer)
        self._rules = stop_rules(lock.spec, self._checkpoint.tokenizer, self._checkpoint.eos_token_ids)
        log = options.root / ".evalkit" / "logs" / f"{self.name}-{os.getpid()}.log"
        self._child = EngineChild(self.module, log)
        self._batch = options.concurrency or self.concurrency
        self._room: int | None = None
        self._restarts = 0
        self._restarts_in_a_row = 0
        self._log_is_named = False
        self._observed: dict[str, Any] = {}

    @property
    def renders(self) -> bool:
        """Prompts or turns are needed."""
        return True

    def model_template(self) -> ModelTemplate:
        """The template and the BOS of the checkpoint's tokenizer."""
        tokenizer = self._checkpoint.tokenizer
        return ModelTemplate(tokenizer.chat_template(), tokenizer.bos_token)

    async def open(self) -> Fingerprint:
        """What was hashed, and what will run it. Nothing is loaded yet."""
        checkpoint, options = self._checkpoint, self._options
        by_model = self._spec.prompt.chat_template in ("model", "server")
        template = checkpoint.tokenizer.chat_template() if by_model else None
        arguments = {key: value for key, value in options.engine_args.items() if key not in OPERATIONAL}
        return Fingerprint(
            reference=self._reference,
            name=checkpoint.name,
            engine=self.name,
            engine_version="/".join(f"{package}-{_version(package)}" for package in self.packages),
            dtype=str(options.engine_args.get("dtype") or checkpoint.dtype),
            model_digest=checkpoint.digest,
            assurance="artifact",
            chat_template_digest=template.digest if template else None,
            step=checkpoint.step if options.step is None else options.step,
            train_seed=options.train_seed,
            lineage=checkpoint.lineage,
            engine_args={key: value for key, value in arguments.items() if key != "dtype"},
            details={
                "files": checkpoint.parts,
                "tokenizer": checkpoint.tokenizer.digest,
                "eos_token_ids": checkpoint.eos_token_ids,
                "stop_token_ids": self._rules.token_ids,
                "engine_args": dict(options.engine_args),
            },
        )

    async def start(self, first: Request) -> None:
        """Load the weights; the first prompt is made into tokens before that, so that a wrong one costs no loading.

        Raises:
            BadInput: the library refuses the model or an engine argument, or the prompt has a BOS too many or few.
            InfrastructureFailed: it fails to load, such as out of memory, or a file changed since it was hashed.
        """
        ids = self._encoder.encode(first)
        if "device" in self._observed:
            return
        self._observed["first_token_ids"] = ids[:FIRST_IDS]
        try:
            await self._load()
        except ChildDied as death:
            raise self._failed(f"the engine died while it loaded: {death}") from None

    async def _load(self) -> None:
        checkpoint, rules = self._checkpoint, self._rules
        reply = await self._child.start(
            {
                "model": str((checkpoint.base or checkpoint.folder).resolve()),
                "adapter": str(checkpoint.folder.resolve()) if checkpoint.base else None,
                "rank": checkpoint.lora_rank,
                "tokenizer": str(checkpoint.tokenizer.folder.resolve()),
                "dtype": checkpoint.dtype,
                "args": dict(self._options.engine_args),
                "knobs": knobs_of(self._spec.sampling),
                "stop": rules.strings,
                "stop_token_ids": rules.token_ids,
                "skip_special": rules.skip_special,
            }
        )
        if "refused" in reply:
            raise BadInput(f"--model {self._reference}: {self.name} refuses it: {reply['refused']}{self._log_says()}")
        if "failed" in reply:
            raise self._failed(f"the engine does not start: {reply['failed']}")
        if checkpoint.changed():
            raise InfrastructureFailed(
                f"{checkpoint.folder}: a file changed while the model was loaded; run again when it is written"
            )
        self._observed |= reply["ready"]
        self._room = reply["ready"]["room"]

    def _log_says(self) -> str:
        said = self._child.last_words()
        return f" ({said})" if said else ""

    def _failed(self, what: str) -> InfrastructureFailed:
        self._log_is_named = True
        return InfrastructureFailed(
            f"{self._reference}: {what}{self._log_says()}; see {self._child.log}, then run the same command again"
        )

    def prompt_tokens(self, request: Request) -> list[tuple[int, str]]:
        """Id and token of the prompt as it is sent; before the weights are loaded, as it is before any cut."""
        ids = self._encoder.encode(request)
        return [(number, self._checkpoint.tokenizer.token(number)) for number in self._fit(ids) or ids]

    async def generate(self, requests: Iterator[Request]) -> AsyncGenerator[Completion, None]:
        """Complete all requests, at most two batches or `concurrency` at a time."""
        chunks = self._chunks(requests)
        capacity = 2 * self._batch if self.in_batches else self._batch
        owed: dict[str, _Sent] = {}
        chunk = next(chunks, None)
        while chunk is not None or owed:
            while chunk is not None and (not owed or len(owed) + len(chunk) <= capacity):
                fitting = []
                for request, ids in chunk:
                    fitted = self._fit(ids)
                    if fitted is None:
                        yield self._overflows(request, len(ids))
                    else:
                        fitting.append(_Sent(request, fitted, time.monotonic(), 1))
                owed |= {sent.request.sample_id: sent for sent in fitting}
                await self._send(fitting)
                chunk = next(chunks, None)
            if owed:
                for completion in await self._receive(owed):
                    yield completion

    def _chunks(self, requests: Iterator[Request]) -> Iterator[list[tuple[Request, list[int]]]]:
        """Requests with their token ids: batches of similar length, or handfuls as they come."""
        size = self._batch if self.in_batches else min(self._batch, 64)
        window = 32 * size if self.in_batches else size
        while ahead := [(request, self._encoder.encode(request)) for request in islice(requests, window)]:
            if self.in_batches:
                ahead.sort(key=lambda pair: len(pair[1]))
            for start in range(0, len(ahead), size):
                yield ahead[start : start + size]

    def _fit(self, ids: list[int]) -> list[int] | None:
        """The prompt as the protocol's overflow rule leaves it; None where it does not fit."""
        if self._room is None or len(ids) + self._spec.sampling.max_tokens <= self._room:
            return ids
        keep = self._room - self._spec.sampling.max_tokens
        if keep < 2:
            raise Refused(
                f"max_tokens {self._spec.sampling.max_tokens} leaves no room in the model's {self._room} tokens; "
                "freeze a lower one"
            )
        return self._encoder.cut_left(ids, keep) if self._spec.limits.overflow == "truncate_left" else None

    def _overflows(self, request: Request, n_tokens: int) -> Completion:
        outcome: Outcome = "skipped" if self._spec.limits.overflow == "skip" else "errored"
        return Completion(request.sample_id, outcome, None, n_prompt_tokens=n_tokens, cause="overflow")

    async def _send(self, batch: list[_Sent]) -> None:
        if batch:
            rows = [[sent.request.sample_id, sent.token_ids, sent.request.seed] for sent in batch]
            await self._child.send({"requests": rows})

    async def _receive(self, owed: dict[str, _Sent]) -> list[Completion]:
        """What the engine says next, as completions; after a death the engine is started again."""
        try:
            message = await self._child.receive(float(self._spec.limits.request_timeout))
            if "dead" in message:
                await self._child.stop()
                raise ChildDied(message["dead"])
        except ChildDied as death:
            await self._restart(str(death), owed)
            return []
        if "batch_effect" in message:
            self._observed["batch_effect"] = message["batch_effect"]
        done = [self._completion(owed.pop(row[0]), row) for row in message.get("done", ())]
        if done:
            self._restarts_in_a_row = 0
        return done

    async def _restart(self, why: str, owed: dict[str, _Sent]) -> None:
        while True:
            if self._restarts_in_a_row == RESTARTS:
                raise self._failed(
                    f"the engine died {RESTARTS + 1} times without finishing a completion, at last: {why}"
                )
            self._restarts_in_a_row += 1
            self._restarts += 1
            try:
                await self._load()
                break
            except ChildDied as death:
                why = str(death)
        for key, sent in owed.items():
            owed[key] = _Sent(sent.request, sent.token_ids, sent.sent, sent.attempts + 1)
        again = list(owed.values())
        for start in range(0, len(again), self._batch):
            await self._send(again[start : start + self._batch])

    def _completion(self, sent: _Sent, row: list[Any]) -> Completion:
        _, text, reason, n_tokens, cause = row
        seconds = time.monotonic() - sent.sent
        sample_id = sent.request.sample_id
        if cause is not None:
            return Completion(sample_id, "errored", None, cause=cause, attempts=sent.attempts, seconds=seconds)
        outcome: Outcome = "truncated" if reason == "length" else "completed"
        return Completion(sample_id, outcome, text, reason, len(sent.token_ids), n_tokens, None, sent.attempts, seconds)

    async def verify(self) -> None:
        """What was loaded stays in memory."""

    def observed(self) -> Mapping[str, Any]:
        """Device, versions, first token ids, restarts, and for batches how far they move the numbers."""
        return {**self._observed, "restarts": self._restarts}

    async def close(self) -> None:
        """End the child; its log stays where it failed or was started again."""
        await self._child.stop()
        if not self._restarts and not self._log_is_named:
            self._child.log.unlink(missing_ok=True)


class VllmEngine(LocalEngine):
    """`vllm:PATH`."""

    name = "vllm"
    module = "evalkit.engines.vllm_worker"
    packages = ("vllm", "torch")
    concurrency = 2048
    in_batches = False


class HfEngine(LocalEngine):
    """`hf:PATH`."""

    name = "hf"
    module = "evalkit.engines.hf_worker"
    packages = ("transformers", "torch")
    concurrency = 32
    in_batches = True


def _version(package: str) -> str:
    """Version of the distribution that brings `package`."""
    for name in (package, *packages_distributions().get(package, ())):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "unknown"
