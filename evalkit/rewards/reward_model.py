"""`hf-rm:PATH`: a reward model on this machine, a transformers sequence classifier with one logit, in a child process.

1. The folder is checked and hashed as a model's is (`engines/checkpoint.py`); rows become tokens here
   (`reward_rows.py`). The child has no network, and is ended as a whole with evalkit.
2. Every row gets one score: a value, or none with a status and a reason. NaN and infinity are no values. Scores carry
   their row's id; they come in the order they are made, which is by length within a window.
3. Before the first score the model is looked at: the same rows alone, together, padded at the other side, read at the
   last token, and with the other ending. What moves scores is a finding, in standard deviations of these rows' scores.
4. A child that dies is started again and asked again; `RESTARTS` deaths in a row end it: exit code 75.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from evalkit.engines.checkpoint import Checkpoint, read_checkpoint, read_object
from evalkit.engines.child import ChildDied, EngineChild
from evalkit.errors import BadInput, InfrastructureFailed
from evalkit.rewards.base import Score, Status, no_verdict, ok
from evalkit.rewards.findings import Finding, ranked
from evalkit.rewards.reward_findings import Tally, Value, moved
from evalkit.rewards.reward_rows import Overflow, RewardRow, RowEncoder, RowTokens

__all__ = [
    "RewardModel", "RewardModelIdentity", "RewardModelOptions", "RewardRow", "RewardScore", "Scored", "score_rows",
    "score_rows_async",
]  # fmt: skip

PREFIX = "hf-rm:"
RESTARTS = 2
"""Restarts in a row without a finished batch."""
DEADLINE = 600.0
"""Seconds for one batch."""
WINDOW = 32
"""Batches that are sorted by length together."""
PROBED = 8
"""Rows that the model is looked at with, before it scores."""
TAIL = 8
"""Last token ids that are kept of each row."""


@dataclass(frozen=True, slots=True)
class RewardScore:
    """What came of one row."""

    row_id: str
    score: Score
    n_tokens: int
    """Tokens that were scored; 0 where none were."""
    truncated: bool
    """Whether the text was cut: the score is then that of its end only."""
    tail: tuple[int, ...]
    """Last token ids as scored, to tell EOS and template apart between two scorings."""


@dataclass(frozen=True, slots=True)
class RewardModelOptions:
    """How a reward model is run. What is None is as the checkpoint says."""

    dtype: str | None = None
    """Numbers to compute in: `float32`, `bfloat16`, `float16`; None as the weights are stored."""
    device: str | None = None
    batch: int = 32
    max_length: int | None = None
    """Most tokens of a row; None for what the configuration states, if it does."""
    overflow: Overflow = "skip"
    """A longer row is not scored, or cut at its left and marked."""
    eos: bool | None = None
    """True: every row ends in EOS. False: none is appended. None: text does, turns end as the template ends."""

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise BadInput(f"batch: {self.batch}; give 1 or more")
        if self.max_length is not None and self.max_length < 2:
            raise BadInput(f"max_length: {self.max_length}; give 2 or more")


@dataclass(frozen=True, slots=True)
class RewardModelIdentity:
    """What scores. Digest, template and the named settings can change a score; scores with others do not mix."""

    reference: str
    name: str
    model_digest: str
    """Of configuration, weights and tokenizer."""
    files: Mapping[str, str]
    """File → SHA-256."""
    tokenizer_digest: str
    chat_template_digest: str | None
    """None where the model has no template."""
    dtype: str
    stored_dtype: str
    padding_side: str
    max_length: int | None
    overflow: Overflow
    eos: bool | None
    step: int | None
    declared_range: None = None
    """Unbounded: a logit."""
    observed: Mapping[str, Any] = field(default_factory=dict)
    """Recorded, no identity: device, versions, padding token, network."""


@dataclass(frozen=True, slots=True)
class Scored:
    """All rows of one scoring."""

    scores: tuple[RewardScore, ...]
    """In the order of the rows."""
    findings: tuple[Finding, ...]
    identity: RewardModelIdentity


class RewardModel:
    """A reward model, open while it is entered (`async with`). One user at a time.

    Args:
        reference: `hf-rm:PATH`.
        root: the workspace; a relative PATH starts here or at the current folder, the log lies within it.

    Raises:
        BadInput: no such folder, files missing, or no sequence classifier.
        Refused: code in the folder, or weights that are not safetensors.
    """

    module: ClassVar[str] = "evalkit.rewards.reward_model_worker"
    packages: ClassVar[tuple[str, ...]] = ("transformers", "torch")

    def __init__(self, reference: str, root: Path, options: RewardModelOptions | None = None) -> None:
        options = options or RewardModelOptions()
        if not reference.removeprefix(PREFIX) or not reference.startswith(PREFIX):
            raise BadInput(f"--reward-model {reference}: not hf-rm:PATH; give the folder of a reward model")
        for package in self.packages:
            if importlib.util.find_spec(package) is None:
                raise BadInput(f"--reward-model {reference}: {package} is not installed; pip install 'evalkit-rl[hf]'")
        checkpoint = read_checkpoint(reference.removeprefix(PREFIX), root, f"--reward-model {reference}")
        _check_kind(checkpoint)
        room, longest = checkpoint.room, options.max_length
        if room is not None and longest is not None and longest > room:
            raise BadInput(f"max_length: {longest}, and the model takes {room}; give at most that")
        self._checkpoint, self._options = checkpoint, options
        template = checkpoint.tokenizer.chat_template()
        self._identity = RewardModelIdentity(
            reference=reference,
            name=checkpoint.name,
            model_digest=checkpoint.digest,
            files=checkpoint.parts["model"],
            tokenizer_digest=checkpoint.tokenizer.digest,
            chat_template_digest=template.digest if template else None,
            dtype=options.dtype or checkpoint.dtype,
            stored_dtype=checkpoint.dtype,
            padding_side="right",
            max_length=room if longest is None else longest,
            overflow=options.overflow,
            eos=options.eos,
            step=checkpoint.step,
        )
        self._encoder = RowEncoder(
            checkpoint.tokenizer, checkpoint.eos_token_ids, self._identity.max_length, options.overflow, options.eos
        )
        self._child = EngineChild(self.module, root / ".evalkit" / "logs" / f"hf-rm-{os.getpid()}.log")
        self._keep_log = False
        self._seen: set[str] = set()
        self._tally = Tally()
        self._ending_is_assumed = False
        self._probes: list[Finding] = []
        self._probed = False

    async def __aenter__(self) -> Self:
        """Load the weights.

        Raises:
            BadInput: the library refuses the model, or it is not a trained one with one logit.
            InfrastructureFailed: it does not load, such as out of memory, or a file changed since it was hashed.
        """
        try:
            await self._load()
        except BaseException as error:
            await self._child.stop()
            if isinstance(error, ChildDied):
                raise self._failed(f"the process died while it loaded: {error}") from None
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the child; its log stays where it failed."""
        await self._child.stop()
        if not self._keep_log:
            self._child.log.unlink(missing_ok=True)

    @property
    def identity(self) -> RewardModelIdentity:
        """What scores."""
        return self._identity

    async def scores(self, rows: Iterable[RewardRow]) -> AsyncGenerator[RewardScore, None]:
        """One score for every row, in the order they are made. May be called again; ids stay unique.

        Raises:
            BadInput: an id twice, or turns and the model has no chat template.
            InfrastructureFailed: the child died `RESTARTS` + 1 times in a row.
        """
        batch, stream = self._options.batch, iter(rows)
        while window := [self._encode(row) for row in islice(stream, WINDOW * batch)]:
            for tokens in window:
                if tokens.why:
                    yield RewardScore(tokens.row_id, no_verdict(Status.FAILED, tokens.why), 0, False, ())
            ready = sorted((tokens for tokens in window if not tokens.why), key=lambda tokens: len(tokens.ids))
            if ready and not self._probed:
                await self._probe(ready)
            for start in range(0, len(ready), batch):
                part = ready[start : start + batch]
                values = await self._ask([tokens.ids for tokens in part])
                for tokens, value in zip(part, values, strict=True):
                    yield self._scored(tokens, value)

    def resume(self, row: RewardRow, known: RewardScore) -> None:
        """Count a row that was scored before, with the same model and options, without scoring it again."""
        tokens, status = self._encode(row), known.score.status
        if not tokens.why:
            self._scored(tokens, known.score.value if status == Status.OK else "nan" if status == Status.NAN else None)

    def findings(self) -> tuple[Finding, ...]:
        """What the rows so far and the look at the model showed, what stops first."""
        return ranked([*self._tally.findings(self._identity.dtype), *self._probes])

    def _encode(self, row: RewardRow) -> RowTokens:
        if row.row_id in self._seen:
            raise BadInput(f"row {row.row_id}: this id stands twice; scores are joined by it: make it unique")
        self._seen.add(row.row_id)
        tokens = self._encoder.encode(row)
        self._tally.n += 1
        for code in tokens.codes:
            self._tally.note(code, row.row_id)
        self._ending_is_assumed |= self._options.eos is None and isinstance(row.prompt, str)
        return tokens

    def _scored(self, tokens: RowTokens, value: Value) -> RewardScore:
        if isinstance(value, str):
            self._tally.note("SCORE.NONFINITE", tokens.row_id)
            score = no_verdict(Status.NAN, f"the model returned {value}")
        elif value is None:
            self._tally.note("SCORE.OUT_OF_MEMORY", tokens.row_id)
            score = no_verdict(Status.FAILED, f"{len(tokens.ids)} tokens do not fit into the device's memory")
        else:
            score = ok(value)
            self._tally.scored(tokens.ids, value)
        if tokens.ids[-1] == self._pad:
            self._tally.note("SCORE.PAD_AT_END", tokens.row_id)
        return RewardScore(tokens.row_id, score, len(tokens.ids), tokens.truncated, tokens.ids[-TAIL:])

    @property
    def _pad(self) -> int | None:
        found: int | None = self._identity.observed["pad_token_id"]
        return found

    async def _load(self) -> None:
        reply = await self._child.start(
            {
                "model": str(self._checkpoint.folder.resolve()),
                "dtype": self._identity.dtype,
                "device": self._options.device,
            }
        )
        if "refused" in reply:
            raise BadInput(f"--reward-model {self._identity.reference}: {reply['refused']}")
        if "failed" in reply:
            raise self._failed(f"the model does not load: {reply['failed']}")
        if self._checkpoint.changed():
            raise InfrastructureFailed(
                f"{self._checkpoint.folder}: a file changed while the model was loaded; run again when it is written"
            )
        self._identity = replace(self._identity, observed=reply["ready"])

    async def _ask(self, rows: Sequence[tuple[int, ...]], side: str = "right", at_end: bool = False) -> list[Value]:
        """Scores of one batch; after a death the child is started again and asked again."""
        for death in range(RESTARTS + 1):
            try:
                if death:
                    await self._load()
                await self._child.send({"rows": rows, "side": side, "at_end": at_end})
                values: list[Value] = (await self._child.receive(DEADLINE))["scores"]
                return values
            except ChildDied as error:
                self._keep_log, why = True, str(error)
        raise self._failed(f"the process died {RESTARTS + 1} times without finishing a batch, at last: {why}")

    def _failed(self, what: str) -> InfrastructureFailed:
        self._keep_log = True
        said = self._child.last_words()
        said = f" ({said})" if said else ""
        return InfrastructureFailed(
            f"{self._identity.reference}: {what}{said}; see {self._child.log}, then run the same command again"
        )

    async def _probe(self, ready: Sequence[RowTokens]) -> None:
        """Rule 3, with rows spread over the lengths of the first window."""
        self._probed = True
        places = {round(i * (len(ready) - 1) / (PROBED - 1)) for i in range(PROBED)}
        rows = [ready[place].ids for place in sorted(places)]
        ids = tuple(ready[place].row_id for place in sorted(places))
        alone = [value for row in rows for value in await self._ask([row])]
        if len(rows) > 1:
            together, left = await self._ask(rows), await self._ask(rows, side="left")
            self._probes += moved(alone, together, ids, "SCORE.BATCH_VARIANT")
            self._probes += moved(together, left, ids, "SCORE.PADDING_VARIANT")
        if self._pad in self._checkpoint.eos_token_ids:
            self._probes += moved(alone, await self._ask(rows, at_end=True), ids, "SCORE.PAD_IS_EOS")
        if self._pad is None:
            what = "the configuration names no padding token: rows are scored one by one"
            self._probes.append(Finding("warning", "SCORE.PAD_MISSING", what, "set pad_token_id as in training"))
        if self._ending_is_assumed:
            room = self._identity.max_length
            ended, other = [], []
            for row, value in zip(rows, alone, strict=True):
                changed = self._encoder.other_ending(row)
                if changed and (room is None or len(changed) <= room):
                    ended.append(value)
                    other += await self._ask([changed])
            self._probes += moved(ended, other, ids, "SCORE.EOS_ASSUMED")


def _check_kind(checkpoint: Checkpoint) -> None:
    if checkpoint.base is not None:
        raise BadInput(f"{checkpoint.folder}: an adapter; merge it into its base and save the whole reward model")
    path = checkpoint.folder / "config.json"
    named = read_object(path).get("architectures")
    if not (isinstance(named, list) and any(str(name).endswith("ForSequenceClassification") for name in named)):
        said = ", ".join(map(str, named)) if isinstance(named, list) else "nothing"
        raise BadInput(
            f"{path}, field architectures: {said}, no …ForSequenceClassification; give a reward model with one logit"
        )


async def score_rows_async(
    reference: str,
    rows: Iterable[RewardRow],
    root: Path,
    options: RewardModelOptions | None = None,
    on_score: Callable[[RewardScore], None] | None = None,
) -> Scored:
    """As `score_rows`, within a running event loop."""
    every = list(rows)
    async with RewardModel(reference, root, options) as model:
        found = {}
        async for score in model.scores(every):
            found[score.row_id] = score
            if on_score is not None:
                on_score(score)
        return Scored(tuple(found[row.row_id] for row in every), model.findings(), model.identity)


def score_rows(
    reference: str,
    rows: Iterable[RewardRow],
    root: Path,
    options: RewardModelOptions | None = None,
    on_score: Callable[[RewardScore], None] | None = None,
) -> Scored:
    """Score rows with a reward model, `hf-rm:PATH`.

    Args:
        reference: `hf-rm:PATH`.
        rows: prompts and completions; ids are unique.
        root: the workspace, for relative paths and the child's log.
        options: how it is run.
        on_score: called with each score as it comes, such as for progress.

    Returns:
        One score a row, in the order of the rows, findings `SCORE.…`, and what scored.

    Raises:
        BadInput, Refused: the model or a row cannot be used; see `RewardModel`.
        InfrastructureFailed: the model's process keeps dying.
    """
    return asyncio.run(score_rows_async(reference, rows, root, options, on_score))
