"""Data that a reward model or a judge scored for an audit, and where the scores lie: `.evalkit/scores/DIGEST/`.

    journal.jsonl   a reward model's scores as they came; a judge's replies are in calls.jsonl
    scores.parquet  a row per sample: value, status, why, and what the scorer says of it
    scorer.json     who scored, with its findings; written last: without it the scoring is not finished

1. The address covers who scores, how, and every text: the same question is not scored twice, and another one never
   finds these scores.
2. A scoring that was killed goes on where it stopped.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from evalkit.audit.inputs import Columns, keys_of
from evalkit.canonical import digest, digest_bytes, short
from evalkit.errors import BadInput, kind_of
from evalkit.files import disk, read_json, write_whole
from evalkit.rewards.findings import Finding

FORMAT = "evalkit-scores/1"
OnScored = Callable[[int, int], None]
"""Called with how many rows are scored, of how many."""


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of data, kept."""

    folder: Path
    rows: Mapping[str, Mapping[str, Any]]
    """Sample id → its row of scores.parquet."""
    findings: tuple[Finding, ...]
    identity: Mapping[str, Any]
    again: bool
    """Whether they were there before."""
    repeats: Sequence[Sequence[Any]] = field(default_factory=tuple)
    """Values of the rows that were scored repeatedly, shape (rows, repeats); None where there was none."""

    def digest(self) -> str:
        """Of all values with their reasons, and of who gave them."""
        content = json.dumps([list(self.rows.items()), self.identity], sort_keys=True, default=str)
        return digest_bytes("audit-scored", content.encode())


def text_of(columns: Columns, name: str, i: int) -> str | None:
    """A cell that is to be read as text; None where it is null.

    Raises:
        BadInput: something else than text.
    """
    cell = columns.get(name)[i]
    if cell is None or isinstance(cell, str):
        return cell
    raise BadInput(f"{columns.source}, row {columns.rows[i]}, field {name}: {kind_of(cell)} where text belongs")


def distinct_rows(columns: Columns, names: Sequence[str]) -> dict[str, int]:
    """Sample id → its row; rows that repeat another word for word are passed over.

    Raises:
        BadInput: one id with two texts, or a text of several columns.
    """
    for name in names:
        if columns.roles.get(name, name) not in columns.cells and "+" in columns.roles.get(name, ""):
            raise BadInput(f"--map {name}={columns.roles[name]}: a text is one column; join them in the data")
    found: dict[str, int] = {}
    texts = {name: columns.get(name) for name in names}
    for i, key in enumerate(keys_of(columns)):
        first = found.setdefault(key, i)
        for name, cells in texts.items():
            if cells[first] != cells[i]:
                raise BadInput(
                    f"{columns.source}, rows {columns.rows[first]} and {columns.rows[i]}, field {name}: two texts for "
                    f"sample {key}; give each row an id of its own (--map sample_id=COLUMN+COLUMN)"
                )
    return found


def folder_of(state: Path, kind: str, scorer: Mapping[str, Any], texts: Sequence[Any]) -> Path:
    """Where the scores of these texts by this scorer lie."""
    content = json.dumps(texts, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass")
    address = {"kind": kind, "scorer": dict(scorer), "texts": digest_bytes("audit-texts", content)}
    return state / "scores" / short(digest("audit-scores", address))


def read_scored(folder: Path) -> Scored | None:
    """What a finished scoring left; None where there is none.

    Raises:
        BadInput: its files are damaged.
    """
    stamp = folder / "scorer.json"
    if not stamp.is_file():
        return None
    mend = f"delete {folder} and score again"
    kept = read_json(stamp, FORMAT, mend)
    try:
        frame = pl.read_parquet(folder / "scores.parquet")
    except (pl.exceptions.PolarsError, OSError):
        raise BadInput(f"{folder / 'scores.parquet'}: damaged; {mend}") from None
    rows = {row["sample_id"]: row for row in frame.iter_rows(named=True)}
    findings = tuple(Finding(**{**found, "rows": tuple(found["rows"])}) for found in kept["findings"])
    return Scored(folder, rows, findings, kept["identity"], True, kept["repeats"])


def keep_scored(
    folder: Path, frame: pl.DataFrame, findings: Sequence[Finding], identity: Any, repeats: Sequence[Sequence[Any]] = ()
) -> Scored:
    """Write a finished scoring, its stamp last.

    Raises:
        DiskRefused: the disk said no.
    """
    with disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    frame.write_parquet(content)
    write_whole(folder / "scores.parquet", content.getbuffer())
    stamp = {
        "format": FORMAT,
        "scored": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": frame.height,
        "identity": asdict(identity),
        "findings": [asdict(finding) for finding in findings],
        "repeats": [list(row) for row in repeats],
    }
    write_whole(folder / "scorer.json", json.dumps(stamp, indent=2, ensure_ascii=False, default=str) + "\n")
    kept = read_scored(folder)
    assert kept is not None
    return Scored(folder, kept.rows, kept.findings, kept.identity, False, kept.repeats)
