"""The tables between rooms: their columns, kinds and keys, checked at every border.

Tables are long, Polars in memory and Parquet at rest. A check names the table, the row (from 1), the column and the
kind of the value found. pandera checks kinds, ranges and nulls of collected frames; keys are checked here, since a
duplicate is worth naming with both of its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import polars as pl

from evalkit.errors import BadInput

OUTCOMES = ("completed", "truncated", "filtered", "skipped", "timed_out", "errored")
STATUSES = ("ok", "failed", "unparsed", "abstained", "timeout", "nan")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    dtype: type[pl.DataType]
    nullable: bool = False
    allowed: tuple[str, ...] = ()
    """The only values it may hold; empty for any."""
    at_least: float | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table's columns, in their order at rest, and the columns that identify a row."""

    name: str
    key: tuple[str, ...]
    columns: Mapping[str, Column] = field(default_factory=dict)

    def polars(self) -> dict[str, type[pl.DataType]]:
        """Column names and kinds for constructing a frame."""
        return {name: column.dtype for name, column in self.columns.items()}


ITEMS = Table(
    "items",
    ("item_id",),
    {
        "item_id": Column(pl.String),
        "cluster_id": Column(pl.String),
        "stratum": Column(pl.String, nullable=True),
        "fields": Column(pl.String),  # the source row as a JSON object: its fields differ from source to source
    },
)

SAMPLES = Table(
    "samples",
    ("sample_id",),
    {
        "sample_id": Column(pl.String),
        "run_id": Column(pl.String),
        "item_id": Column(pl.String),
        "trial": Column(pl.Int32, at_least=0),
        "seed": Column(pl.Int64, at_least=0),
        "completion": Column(pl.String, nullable=True),
        "finish_reason": Column(pl.String, nullable=True),
        "outcome": Column(pl.String, allowed=OUTCOMES),
        "cause": Column(pl.String, nullable=True),
        "n_prompt_tokens": Column(pl.Int32, nullable=True, at_least=0),
        "n_completion_tokens": Column(pl.Int32, nullable=True, at_least=0),
        "characters": Column(pl.Int32, nullable=True, at_least=0),
        "words": Column(pl.Int32, nullable=True, at_least=0),
        "repeated_ngram_share": Column(pl.Float64, nullable=True, at_least=0),
        "compression_ratio": Column(pl.Float64, nullable=True, at_least=0),
        "markdown_marks": Column(pl.Int32, nullable=True, at_least=0),
        "duplicate": Column(pl.Boolean, nullable=True),
        "unterminated_reasoning": Column(pl.Boolean, nullable=True),
    },
)

SCORES = Table(
    "scores",
    ("sample_id", "scorer", "component", "repeat"),
    {
        "sample_id": Column(pl.String),
        "scorer": Column(pl.String),
        "component": Column(pl.String),
        "repeat": Column(pl.Int32, at_least=0),
        "value": Column(pl.Float64, nullable=True),
        "status": Column(pl.String, allowed=STATUSES),
        "answer": Column(pl.String, nullable=True),
        "evidence": Column(pl.String, nullable=True),
    },
)


def check(frame: pl.DataFrame, table: Table, source: str) -> pl.DataFrame:
    """`frame` with exactly the table's columns in their order, or one line on the first fault.

    Args:
        frame: a collected frame; extra columns are refused, not dropped.
        table: what it must be.
        source: file or place named in the message.

    Raises:
        BadInput: a column is missing, unknown, of another kind, null, out of range, or the key repeats.
    """
    missing = [name for name in table.columns if name not in frame.columns]
    unknown = [name for name in frame.columns if name not in table.columns]
    if missing or unknown:
        what = f"no column {missing[0]}" if missing else f"unknown column {unknown[0]}"
        raise BadInput(f"{source}: {what} in table {table.name}; its columns are {', '.join(table.columns)}")
    frame = frame.select(list(table.columns))
    _check_values(frame, table, source)
    _check_key(frame, table, source)
    return frame


def _check_values(frame: pl.DataFrame, table: Table, source: str) -> None:
    from pandera.errors import SchemaErrors

    try:
        _pandera(table.name).validate(frame, lazy=True)
    except SchemaErrors as error:
        first = error.failure_cases.sort("index", nulls_last=True).row(0, named=True)
        name = first["column"] if first["column"] in table.columns else first["failure_case"]
        row = "" if first["index"] is None else f", row {first['index'] + 1}"
        found = "" if first["index"] is None else f" {frame[name][first['index']]!r}"
        raise BadInput(
            f"{source}{row}, field {name}: {frame.schema[name]}{found} where {_wanted(table.columns[name])} belongs; "
            f"correct table {table.name}"
        ) from None


def _wanted(column: Column) -> str:
    words = [str(column.dtype())]
    if column.allowed:
        words.append("one of " + ", ".join(column.allowed))
    if column.at_least is not None:
        words.append(f"at least {column.at_least:g}")
    return ", ".join(words) + (" or null" if column.nullable else "")


@cache
def _pandera(name: str) -> Any:
    import pandera.polars as pa

    table = next(table for table in (ITEMS, SAMPLES, SCORES) if table.name == name)
    columns = {}
    for column, rule in table.columns.items():
        checks = [pa.Check.isin(rule.allowed)] if rule.allowed else []
        if rule.at_least is not None:
            checks.append(pa.Check.ge(rule.at_least))
        if rule.dtype is pl.Float64:
            checks.append(pa.Check(_finite, name="finite"))
        columns[column] = pa.Column(rule.dtype, nullable=rule.nullable, checks=checks)
    return pa.DataFrameSchema(columns, strict=True, name=name)


def _finite(data: Any) -> pl.LazyFrame:
    frame: pl.LazyFrame = data.lazyframe
    return frame.select(pl.col(data.key).is_finite())


def _check_key(frame: pl.DataFrame, table: Table, source: str) -> None:
    repeated = frame.select(pl.struct(table.key).is_duplicated().arg_true()).to_series()
    if repeated.len():
        first = frame.row(repeated[0], named=True)
        same = [row for row in repeated if all(frame.row(row, named=True)[name] == first[name] for name in table.key)]
        value = ", ".join(str(first[name]) for name in table.key)
        raise BadInput(
            f"{source}, row {same[1] + 1}, field {' + '.join(table.key)}: {value} stands at row {same[0] + 1} already; "
            f"keep one row of table {table.name} for it"
        )
