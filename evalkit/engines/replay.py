"""`replay:FILE`: completions that were recorded, by evalkit or by anything else.

1. A recording is a Parquet or JSONL file with the columns of `COLUMNS`, or the folder of a run. `item_id` and `trial`
   say which request a row answers.
2. Its header names the model (digest, training step and seed, lineage) and the generation digest it was made under.
   Another generation is refused: its completions answer other prompts or were sampled otherwise.
3. Without a header the file itself is the model, and everything about it is its provider's word.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from evalkit.canonical import digest_bytes, short
from evalkit.engines.base import Completion, EngineOptions, Fingerprint, Gold, ModelTemplate, Request
from evalkit.errors import BadInput, Refused, kind_of
from evalkit.protocol import Lock
from evalkit.tables import OUTCOMES

HEADER_KEY = "evalkit"
"""Key of the header, one JSON object, in a Parquet file's metadata; in JSONL it is the first line, under this key."""
COLUMNS: dict[str, type[pl.DataType]] = {
    "item_id": pl.String,
    "trial": pl.Int32,
    "completion": pl.String,
    "finish_reason": pl.String,
    "n_prompt_tokens": pl.Int32,
    "n_completion_tokens": pl.Int32,
    "outcome": pl.String,
    "cause": pl.String,
}
REQUIRED = ("item_id", "trial", "completion")
DIGEST = re.compile(r"ek1:sha256:[0-9a-f]{64}")


class ReplayEngine:
    """Engine over a recording."""

    def __init__(self, locator: str, lock: Lock, gold: Gold, options: EngineOptions) -> None:
        if options.engine_args:
            raise BadInput("--engine-arg: replay: takes none; they are for vllm: and hf:")
        path = Path(locator)
        self._path = path if path.exists() else options.root / locator
        self._reference = f"replay:{locator}"
        self._lock = lock
        self._items = gold.item_ids
        self._options = options
        self._rows: dict[tuple[str, int], dict[str, Any]] = {}

    @property
    def renders(self) -> bool:
        """Nothing is rendered for a recording."""
        return False

    def model_template(self) -> ModelTemplate:
        """No tokenizer: nothing is rendered for a recording."""
        return ModelTemplate()

    def prompt_tokens(self, request: Request) -> None:
        """Nothing is sent."""

    async def open(self) -> Fingerprint:
        """Read the recording and check that it answers every planned request.

        Raises:
            BadInput: not a recording, a faulty row, or planned samples that it lacks.
            Refused: recorded under another generation digest.
        """
        header, frame = read_recording(self._path)
        recorded = header.get("generation_digest")
        if recorded is not None and recorded != self._lock.digests.generation:
            raise Refused(
                f"{self._path}: recorded under generation {short(recorded)}, protocol {self._lock.id} has "
                f"{short(self._lock.digests.generation)}; replay it under the protocol it was recorded with"
            )
        self._load(frame)
        asserted = not (header.get("model_digest") and recorded)
        return Fingerprint(
            reference=self._reference,
            name=str(header.get("name") or self._path.stem),
            engine=str(header.get("engine") or "replay"),
            engine_version=str(header.get("engine_version") or "recorded"),
            dtype=header.get("dtype"),
            model_digest=header.get("model_digest") or digest_bytes("recording", _bytes_of(self._path)),
            assurance="provider-asserted" if asserted else "recorded",
            chat_template_digest=header.get("chat_template_digest"),
            step=self._agreed("step", header, self._options.step),
            train_seed=self._agreed("train_seed", header, self._options.train_seed),
            lineage=header.get("arm") or header.get("lineage"),
            details={"header": header},
        )

    def _agreed(self, name: str, header: Mapping[str, Any], said: int | None) -> int | None:
        """What the header says, or the user where it says nothing.

        Raises:
            BadInput: they say different things.
        """
        recorded: int | None = header.get(name)
        if said is not None and recorded is not None and said != recorded:
            flag = "--" + name.replace("_", "-")
            raise BadInput(f"{self._path}, header field {name}: {recorded}, but {flag} says {said}; leave the flag out")
        return said if recorded is None else recorded

    def _load(self, frame: pl.DataFrame) -> None:
        trials = self._lock.spec.sampling.n
        wanted = frame.filter(pl.col("item_id").is_in(list(self._items)) & (pl.col("trial") < trials))
        for row in wanted.iter_rows(named=True):
            self._rows[row["item_id"], row["trial"]] = row
        missing = [(item, trial) for item in self._items for trial in range(trials) if (item, trial) not in self._rows]
        if missing:
            item, trial = missing[0]
            raise BadInput(
                f"{self._path}: lacks {len(missing)} of {len(self._items) * trials} planned samples, the first item "
                f"{item} trial {trial}; record all of the split, or replay on the split that was recorded"
            )

    async def start(self, first: Request) -> None:
        """Ready as it is."""

    async def generate(self, requests: Iterator[Request]) -> AsyncGenerator[Completion, None]:
        """The recorded completion of every request."""
        for request in requests:
            row = self._rows[request.item_id, request.trial]
            yield Completion(
                request.sample_id,
                row["outcome"],
                row["completion"],
                row["finish_reason"],
                row["n_prompt_tokens"],
                row["n_completion_tokens"],
                row["cause"],
            )

    async def verify(self) -> None:
        """A file that was read is what it was."""

    def observed(self) -> Mapping[str, Any]:
        """Nothing."""
        return {}

    async def close(self) -> None:
        """Let go of the rows."""
        self._rows = {}


def read_recording(path: Path) -> tuple[Mapping[str, Any], pl.DataFrame]:
    """Header (empty where there is none) and rows of a recording, with all columns of `COLUMNS` and outcomes filled.

    Raises:
        BadInput: unreadable, a column missing or of another kind, a null key, a row twice.
    """
    if path.is_dir():
        return _read_run(path)
    if not path.is_file():
        raise BadInput(f"{path}: no such file; replay takes Parquet, JSONL or the folder of a run")
    header, frame = _read_jsonl(path) if path.suffix in (".jsonl", ".ndjson") else _read_parquet(path)
    return _checked_header(header, path), _checked_rows(frame, path)


def _read_parquet(path: Path) -> tuple[dict[str, Any], pl.DataFrame]:
    try:
        text = pl.read_parquet_metadata(path).get(HEADER_KEY)
        frame = pl.read_parquet(path, columns=None)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise BadInput(f"{path}: not Parquet: {str(error).splitlines()[0]}; replay takes Parquet or JSONL") from None
    try:
        return (json.loads(text) if text else {}), frame
    except ValueError:
        raise BadInput(f"{path}, metadata {HEADER_KEY}: not JSON; write the header as one JSON object") from None


def _read_jsonl(path: Path) -> tuple[dict[str, Any], pl.DataFrame]:
    header: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
            except ValueError as error:
                raise BadInput(f"{path}, row {number}: not JSON: {error}; write one object a line") from None
            if not isinstance(row, dict):
                raise BadInput(f"{path}, row {number}: {kind_of(row)} where an object belongs; write one object a line")
            if b"\\ud" in line.lower() and (field := _half_character(row)) is not None:
                raise BadInput(
                    f"{path}, row {number}, field {field}: half a character (a lone surrogate); write it as UTF-8 text"
                )
            if number == 1 and HEADER_KEY in row and "item_id" not in row:
                header = row[HEADER_KEY]
            else:
                rows.append(row)
    try:
        return header, pl.DataFrame(rows, infer_schema_length=None, strict=True)
    except (pl.exceptions.PolarsError, TypeError) as error:
        raise BadInput(f"{path}: {str(error).splitlines()[0]}; give a column one kind") from None


def _half_character(row: Mapping[str, Any]) -> str | None:
    """The field of a row that holds text which UTF-8 cannot spell; None where all can be."""
    for name, value in row.items():
        try:
            json.dumps([name, value], ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return name
    return None


def _read_run(folder: Path) -> tuple[Mapping[str, Any], pl.DataFrame]:
    path = folder / "run.json"
    parts = sorted((folder / "samples").glob("*.parquet"))
    if not path.is_file() or not parts:
        raise BadInput(f"{folder}: not the folder of a finished run; replay takes one with run.json and samples/")
    run = json.loads(path.read_text(encoding="utf-8"))
    header = {**run["fingerprint"], "generation_digest": run["address"]["generation"]}
    return _checked_header(header, path), _checked_rows(pl.read_parquet(parts), folder)


def _checked_header(header: Any, path: Path) -> Mapping[str, Any]:
    if not isinstance(header, dict):
        raise BadInput(f"{path}, header: {kind_of(header)} where an object belongs; write it as one JSON object")
    for name in ("model_digest", "generation_digest"):
        value = header.get(name)
        if value is not None and not (isinstance(value, str) and DIGEST.fullmatch(value)):
            raise BadInput(
                f"{path}, header field {name}: {kind_of(value)} where ek1:sha256:… belongs; correct or drop it"
            )
    for name in ("step", "train_seed"):
        value = header.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise BadInput(f"{path}, header field {name}: {kind_of(value)} where a whole number belongs; correct it")
    return header


def _checked_rows(frame: pl.DataFrame, path: Path) -> pl.DataFrame:
    missing = [name for name in REQUIRED if name not in frame.columns]
    if missing:
        raise BadInput(
            f"{path}: no column {missing[0]}; a recording has {', '.join(REQUIRED)} and may have the others of "
            f"{', '.join(COLUMNS)}"
        )
    frame = frame.select(name for name in COLUMNS if name in frame.columns)
    for name, dtype in COLUMNS.items():
        if name not in frame.columns:
            frame = frame.with_columns(pl.lit(None, dtype).alias(name))
            continue
        nested = frame.schema[name].is_nested()
        cast = pl.Series(name, [None] * frame.height, dtype) if nested else frame[name].cast(dtype, strict=False)
        bad = (cast.is_null() & frame[name].is_not_null()).arg_true()
        if bad.len() or (dtype is pl.String and frame.schema[name] not in (pl.String, pl.Null, pl.Categorical)):
            row, found = (bad[0] + 1, frame[name][bad[0]]) if bad.len() else (1, frame[name][0])
            raise BadInput(f"{path}, row {row}, field {name}: {kind_of(found)} where {dtype()} belongs; correct it")
        frame = frame.with_columns(cast)
    frame = frame.with_columns(outcome=_outcome())
    _check_rows(frame, path)
    return frame


def _outcome() -> pl.Expr:
    return (
        pl.when(pl.col("outcome").is_not_null())
        .then(pl.col("outcome"))
        .when(pl.col("finish_reason") == "length")
        .then(pl.lit("truncated"))
        .when(pl.col("finish_reason") == "content_filter")
        .then(pl.lit("filtered"))
        .otherwise(pl.lit("completed"))
    )


def _check_rows(frame: pl.DataFrame, path: Path) -> None:
    judged = pl.col("outcome").is_in(["completed", "truncated"])
    faults = [
        ("item_id", pl.col("item_id").is_null(), "null where an item id belongs"),
        ("trial", pl.col("trial").is_null() | (pl.col("trial") < 0), "not a trial from 0"),
        ("outcome", ~pl.col("outcome").is_in(list(OUTCOMES)), "not one of " + ", ".join(OUTCOMES)),
        ("completion", judged & pl.col("completion").is_null(), "null where the outcome says there is a completion"),
        ("item_id + trial", pl.struct("item_id", "trial").is_duplicated(), "the same sample twice"),
    ]
    for field, expression, what in faults:
        rows = frame.select(expression.arg_true()).to_series()
        if rows.len():
            raise BadInput(f"{path}, row {rows[0] + 1}, field {field}: {what}; correct the recording")


def _bytes_of(path: Path) -> bytes:
    if path.is_dir():
        return b"".join(part.read_bytes() for part in sorted((path / "samples").glob("*.parquet")))
    return path.read_bytes()
