"""From journals to tables: sorted by key and cut into parts, so memory stays flat and bytes depend on inputs only."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from evalkit.errors import BadInput
from evalkit.files import disk, sync, write_whole
from evalkit.protocol import Lock
from evalkit.rewards import composite, side_metrics, split_reasoning
from evalkit.runs.folder import RunFolder, ScoreFolder, read_parts
from evalkit.runs.journal import Journal, Place
from evalkit.tables import SAMPLES, SCORES, Table, check

PART = 4096
"""Journal records that make one file."""
REWARD = "reward"
"""Name of the composite among the components."""


def write_samples(run: RunFolder, lock: Lock) -> None:
    """Write the samples table from the journal."""
    seen: Counter[tuple[str, bytes]] = Counter()
    index: list[tuple[str, Place]] = []
    repeated = lock.spec.sampling.n > 1
    for place, record in run.journal.records():
        index.append((record["sample_id"], place))
        if repeated and record["completion"]:
            seen[record["item_id"], _mark(record["completion"])] += 1
    start, end = lock.spec.reasoning.start, lock.spec.reasoning.end

    def rows(record: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [_sample_row(run.run_id, record, seen, start, end)]

    _write_parts(run.path / "samples", run.journal, index, SAMPLES, rows)


def _mark(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def _sample_row(
    run_id: str, record: Mapping[str, Any], seen: Mapping[tuple[str, bytes], int], start: str | None, end: str | None
) -> dict[str, Any]:
    text = record["completion"]
    row = {name: record[name] for name in SAMPLES.columns if name in record}
    row["run_id"] = run_id
    if text is None:
        return row
    side = side_metrics(text)
    return row | {
        "characters": side.characters,
        "words": side.words,
        "repeated_ngram_share": side.repeated_ngram_share,
        "compression_ratio": side.compression_ratio,
        "markdown_marks": side.headings + side.bullets + side.bold + side.code_fences + side.tables,
        "duplicate": bool(seen and text) and seen[record["item_id"], _mark(text)] > 1,
        "unterminated_reasoning": split_reasoning(text, start, end).unterminated,
    }


def write_scores(folder: ScoreFolder, lock: Lock) -> None:
    """Write the scores table from the score journal, the composite added."""
    index = [(record["sample_id"], place) for place, record in folder.journal.records()]
    _write_parts(folder.path, folder.journal, index, SCORES, lambda record: list(score_rows(record, lock)))


def score_rows(record: Mapping[str, Any], lock: Lock) -> Iterator[dict[str, Any]]:
    """Rows of one sample: a row a component, then the composite's."""
    components = lock.spec.reward.components
    values: dict[str, float | None] = {}
    for name in sorted(components):
        value, status, answer, evidence = record["scores"][name]
        values[name] = value
        yield {
            "sample_id": record["sample_id"], "scorer": components[name].use, "component": name, "repeat": 0,
            "value": value, "status": status, "answer": answer, "evidence": evidence,
        }  # fmt: skip
    reward = composite(values, {name: component.weight for name, component in components.items()})
    lacking = [name for name in sorted(components) if values[name] is None and components[name].weight != 0]
    why = f"no value of {', '.join(lacking)}" if lacking else "no component has a weight"
    yield {
        "sample_id": record["sample_id"], "scorer": "composite", "component": REWARD, "repeat": 0, "value": reward,
        "status": "ok" if reward is not None else (record["scores"][lacking[0]][1] if lacking else "abstained"),
        "answer": None, "evidence": None if reward is not None else why,
    }  # fmt: skip


def read_scores(folder: ScoreFolder, lock: Lock) -> pl.DataFrame:
    """The scores table, its composite computed again and held against the stored one.

    Raises:
        BadInput: not scored, a sample without its rows, or a composite that is not the sum of its components.
    """
    return pl.concat(list(score_parts(folder, lock)))


def score_parts(folder: ScoreFolder, lock: Lock) -> Iterator[pl.DataFrame]:
    """The scores table file by file, for who need not hold all of it; a sample's rows are in one. Raises as above."""
    if not folder.parts:
        raise BadInput(f"{folder.path}: no scores; `evalkit score RUN --protocol {lock.id}` makes them")
    for part in folder.parts:
        frame = read_parts([part], None, "delete the folder and score the run again")
        if frame.height:
            _check_composite(frame, folder, lock)
        yield frame


def _check_composite(frame: pl.DataFrame, folder: ScoreFolder, lock: Lock) -> None:
    weights = {name: component.weight for name, component in lock.spec.reward.components.items()}
    wide = frame.pivot("component", index="sample_id", values="value")
    missing = [name for name in (*weights, REWARD) if name not in wide.columns]
    if missing or frame.height != wide.height * (len(weights) + 1):
        raise BadInput(f"{folder.path}: scores are not complete ({missing or 'rows'} missing); score the run again")
    for row in wide.iter_rows(named=True):
        again = composite({name: row[name] for name in weights}, weights)
        if again != row[REWARD]:
            raise BadInput(
                f"{folder.path}, sample {row['sample_id']}, field {REWARD}: {row[REWARD]} is stored, its components "
                f"give {again}; the file was changed: delete the folder and score the run again"
            )


def _write_parts(
    folder: Path,
    journal: Journal,
    index: list[tuple[str, Place]],
    table: Table,
    rows: Callable[[Mapping[str, Any]], Sequence[Mapping[str, Any]]],
) -> None:
    """Write `table` in parts of `PART` records, replacing what is there only when all of it stands."""
    index.sort()
    new = folder.with_name(f".{folder.name}.new")
    with disk(folder):
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        for number, start in enumerate(range(0, max(len(index), 1), PART)):
            records = journal.read_at([place for _, place in index[start : start + PART]])
            found = [row for record in records for row in rows(record)]
            frame = pl.DataFrame({name: [row.get(name) for row in found] for name in table.columns}, table.polars())
            content = io.BytesIO()  # on a full disk Polars fails with an error of its own, or not at all
            check(frame.sort(table.key), table, str(journal.path)).write_parquet(
                content, compression="zstd", statistics=False
            )
            write_whole(new / f"{number:05}.parquet", content.getbuffer())
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.parquet"):
            old.unlink()
        for path in sorted(new.iterdir()):
            os.replace(path, folder / path.name)
        new.rmdir()
        sync(folder)
