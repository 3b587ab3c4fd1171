"""Scoring data with a reward model, `hf-rm:PATH`, for an audit: once, kept, and taken up again after a kill."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import polars as pl

from evalkit.audit.inputs import Columns
from evalkit.audit.scored import OnScored, Scored, distinct_rows, folder_of, keep_scored, read_scored, text_of
from evalkit.errors import BadInput, kind_of
from evalkit.protocol import Messages
from evalkit.rewards.base import Score, Status
from evalkit.rewards.reward_model import RewardModel, RewardModelOptions, RewardRow, RewardScore
from evalkit.runs.folder import RunFolder
from evalkit.runs.journal import Journal

SCHEMA: dict[str, Any] = {
    "sample_id": pl.String,
    "value": pl.Float64,
    "status": pl.String,
    "why": pl.String,
    "n_tokens": pl.Int64,
    "truncated": pl.Boolean,
    "tail": pl.List(pl.Int64),
}
OPERATIONAL = ("batch", "device")
"""Options that change where and how fast, not what."""


@dataclass(frozen=True, slots=True)
class ModelScorer:
    """A reward model that is to score data."""

    reference: str
    """`hf-rm:PATH`."""
    data: Path
    """CSV, JSONL or Parquet with `prompt` and `text`."""
    options: RewardModelOptions = field(default_factory=RewardModelOptions)
    as_turn: bool = False
    """A prompt that is text is one turn of a user, to be rendered with the model's template."""


def model_options(given: dict[str, Any]) -> RewardModelOptions:
    """Options from `NAME=VALUE`.

    Raises:
        BadInput: no such option, or a value it does not take.
    """
    kinds = {"dtype": str, "device": str, "batch": int, "max_length": int, "overflow": str, "eos": bool}
    assert set(kinds) == {item.name for item in fields(RewardModelOptions)}
    for name, value in given.items():
        if name not in kinds:
            raise BadInput(f"--engine-arg {name}: no option of a reward model; they are {', '.join(kinds)}")
        if value is not None and type(value) is not kinds[name]:
            raise BadInput(f"--engine-arg {name}: {value!r} is not {kinds[name].__name__}")
    if given.get("overflow", "skip") not in ("skip", "truncate_left"):
        raise BadInput(f"--engine-arg overflow: {given['overflow']}; give skip or truncate_left")
    return RewardModelOptions(**given)


def reward_rows(columns: Columns, *, as_turn: bool) -> list[RewardRow]:
    """The rows that a reward model is to score; a row without a response is none.

    Raises:
        BadInput: no prompt or text, a prompt that is neither text nor turns, or one id with two texts.
    """
    found = []
    for key, i in distinct_rows(columns, ("prompt", "text")).items():
        completion = text_of(columns, "text", i)
        if completion is not None:
            found.append(RewardRow(key, _prompt(columns, i, as_turn), completion))
    return found


def score_with_model(scorer: ModelScorer, columns: Columns, root: Path, on_scored: OnScored) -> Scored:
    """Scores of the data by the reward model; those that are kept already are read.

    Raises:
        BadInput, Refused: the model or the data cannot be used.
        InfrastructureFailed: the model's process keeps dying; the same call goes on where it stopped.
    """
    model = RewardModel(scorer.reference, root, scorer.options)
    rows = reward_rows(columns, as_turn=scorer.as_turn)
    if not rows:
        raise BadInput(f"{columns.source}: no row has a text to score")
    who = {name: value for name, value in asdict(model.identity).items() if name in IDENTITY}
    folder = folder_of(root / ".evalkit", "reward-model", who, [[r.row_id, r.prompt, r.completion] for r in rows])
    return read_scored(folder) or asyncio.run(_score(model, rows, folder, on_scored))


IDENTITY = (
    "model_digest", "tokenizer_digest", "chat_template_digest", "dtype", "padding_side", "max_length", "overflow",
    "eos",
)  # fmt: skip
"""Fields of a reward model's identity that can change a score."""


async def _score(model: RewardModel, rows: Sequence[RewardRow], folder: Path, on_scored: OnScored) -> Scored:
    journal = Journal(folder / "journal.jsonl", fsync=False)
    with RunFolder(folder).writing():
        journal.open()
        try:
            done = {record["sample_id"]: record for _, record in journal.records()}
            owed = [row for row in rows if row.row_id not in done]
            again = [] if owed else rows  # all were scored, and the model was not looked at
            async with model:
                for row in rows:
                    if row.row_id in done and not again:
                        model.resume(row, _of_record(done[row.row_id]))
                async for score in model.scores(owed or again):
                    if score.row_id not in done:
                        done[score.row_id] = _record(score)
                        journal.append([done[score.row_id]])
                    on_scored(len(done), len(rows))
                findings, identity = model.findings(), model.identity
        finally:
            journal.close()
        frame = pl.DataFrame([done[row.row_id] for row in rows], schema=SCHEMA)
        return keep_scored(folder, frame, findings, replace(identity, files={}))


def _record(score: RewardScore) -> dict[str, Any]:
    return {
        "sample_id": score.row_id,
        "value": score.score.value,
        "status": str(score.score.status),
        "why": score.score.evidence,
        "n_tokens": score.n_tokens,
        "truncated": score.truncated,
        "tail": list(score.tail),
    }


def _of_record(record: dict[str, Any]) -> RewardScore:
    score = Score(record["value"], Status(record["status"]), evidence=record["why"])
    return RewardScore(record["sample_id"], score, record["n_tokens"], record["truncated"], tuple(record["tail"]))


def _prompt(columns: Columns, i: int, as_turn: bool) -> str | Messages:
    cell, place = columns.get("prompt")[i], f"{columns.source}, row {columns.rows[i]}, field prompt"
    if isinstance(cell, str):
        return [{"role": "user", "content": cell}] if as_turn else cell
    turns = isinstance(cell, list) and cell and all(
        isinstance(turn, dict) and isinstance(turn.get("role"), str) and isinstance(turn.get("content"), str)
        for turn in cell
    )  # fmt: skip
    if not turns:
        raise BadInput(f"{place}: {kind_of(cell)}; give text, or turns with role and content")
    return [{"role": turn["role"], "content": turn["content"]} for turn in cell]
