"""Reading a source: JSONL, CSV, Parquet, or a Hugging Face data set, row by row, every fault with its file and row.

1. JSONL is split on `\\n` only (a `\\r` before it is dropped): U+2028 and other line separators inside a line are data.
   Lines without anything on them are passed over, and still counted. A row's number is its line.
2. CSV has a header; every cell is text exactly as written, `007` and `0.70` included; no kind is guessed. A row's
   number is that of a spreadsheet: the header is row 1.
3. Parquet and Hugging Face data sets keep their kinds; rows are numbered from 1.
4. Faults name the kind of what was found, never the value: the row may be a private item.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from evalkit.errors import BadInput, kind_of
from evalkit.splits.content import NotContent, decimal, plain, whole

MAX_LINE = 64 * 2**20
"""Longest line of a JSONL file, in bytes."""
BOM = b"\xef\xbb\xbf"
KINDS = ".jsonl, .ndjson, .csv or .parquet"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a source."""

    number: int
    fields: dict[str, Any]


def read_rows(source: Path | str) -> Iterator[Row]:
    """The rows of a source, in its order.

    Args:
        source: a file, or with the extra `hf` a data set's folder (`FOLDER` or `FOLDER:SPLIT`) or a pinned hub id
            (`ID@REVISION:SPLIT`).

    Raises:
        BadInput: not there, of no known kind, or a fault in a row.
        Refused: a hub id that is not pinned to a revision.
    """
    path = Path(source)
    if path.is_file():
        reader = {".jsonl": _jsonl, ".ndjson": _jsonl, ".csv": _csv, ".parquet": _parquet}.get(path.suffix.lower())
        if reader is None:
            raise BadInput(f"{path}: a file of unknown kind; name a {KINDS} file")
        yield from reader(path)
        return
    from evalkit.splits.hf import is_dataset, read_dataset

    if not is_dataset(str(source)):
        raise BadInput(f"{source}: no such file; name a {KINDS} file, or a Hugging Face data set as ID@REVISION:SPLIT")
    yield from read_dataset(str(source))


def read_measurements(path: Path) -> Iterator[Row]:
    """The rows of a file of scores or labels: as `read_rows`, but numbers are floats, may be NaN or infinite, and a
    byte-order mark, which spreadsheets write, is passed over.

    Raises:
        BadInput: not there, of no known kind, or a fault in a row.
    """
    if not path.is_file():
        raise BadInput(f"{path}: no such file; name a {KINDS} file")
    kind = path.suffix.lower()
    if kind in (".jsonl", ".ndjson"):
        decoder = json.JSONDecoder(object_pairs_hook=_object)
        yield from _jsonl(path, decoder, marked=True)
    elif kind == ".csv":
        yield from _csv(path, marked=True)
    elif kind == ".parquet":
        for number, fields in enumerate(_read_parquet(path).iter_rows(named=True), start=1):
            yield Row(number, fields)
    else:
        raise BadInput(f"{path}: a file of unknown kind; name a {KINDS} file")


def plain_row(source: object, number: int, fields: dict[str, Any]) -> Row:
    """A row of a columnar source with its values as content."""
    try:
        return Row(number, plain(fields))
    except NotContent as error:
        raise BadInput(f"{source}, row {number}, {error}") from None


def _open(path: Path, *, marked: bool = False) -> BinaryIO:
    try:
        file = path.open("rb")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}; name a file that can be read") from None
    if file.read(3) == BOM:
        if marked:
            return file
        file.close()
        raise BadInput(f"{path}, row 1: begins with a byte-order mark; save it as UTF-8 without one")
    file.seek(0)
    return file


def _lines(path: Path, file: BinaryIO) -> Iterator[tuple[int, str]]:
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise BadInput(f"{path}, row {number}: longer than {MAX_LINE // 2**20} MiB; an item this long is no prompt")
        try:
            yield number, line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadInput(f"{path}, row {number}: not UTF-8 at byte {error.start + 1}; save it as UTF-8") from None


def _jsonl(path: Path, decoder: json.JSONDecoder | None = None, *, marked: bool = False) -> Iterator[Row]:
    decoder = decoder or json.JSONDecoder(
        object_pairs_hook=_object, parse_float=decimal, parse_int=whole, parse_constant=_constant
    )
    with _open(path, marked=marked) as file:
        for number, line in _lines(path, file):
            line = line.removesuffix("\n").removesuffix("\r")
            if line:
                yield Row(number, _decode(decoder, line, f"{path}, row {number}"))


def _decode(decoder: json.JSONDecoder, line: str, place: str) -> dict[str, Any]:
    try:
        value = decoder.decode(line)
    except json.JSONDecodeError as error:
        raise BadInput(
            f"{place}: not JSON at character {error.pos + 1} ({error.msg}); write one object to a line"
        ) from None
    except NotContent as error:
        raise BadInput(f"{place}: {error}") from None
    except RecursionError:
        raise BadInput(f"{place}: more than 250 levels; flatten it") from None
    if not isinstance(value, dict):
        raise BadInput(f"{place}: {kind_of(value)} where an object belongs; write one object to a line")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise NotContent(f"field {twice} stands twice in one object; keep one")
    return found


def _constant(word: str) -> None:
    raise NotContent(f"{word} is not JSON; use null where there is no value")


def _csv(path: Path, *, marked: bool = False) -> Iterator[Row]:
    with _open(path, marked=marked) as file:
        reader = csv.reader((line for _, line in _lines(path, file)), strict=True)
        number = 1
        try:
            header = next(reader, None)
            if header is None:
                return
            _check_header(path, header)
            for cells in reader:
                number += 1
                if not cells:
                    continue
                if len(cells) != len(header):
                    raise BadInput(
                        f"{path}, row {number}: {len(cells)} cells under {len(header)} headings; quote commas"
                    )
                yield Row(number, dict(zip(header, cells, strict=True)))
        except csv.Error as error:
            raise BadInput(f"{path}, row {number + 1}: not CSV ({error}); correct its quotes, or use JSONL") from None


def _check_header(path: Path, header: list[str]) -> None:
    if len(header) == 1 and (other := next((mark for mark in ";\t|" if mark in header[0]), None)):
        raise BadInput(f"{path}, row 1: one heading, parted by {other!r}; save the table with commas")
    for index, name in enumerate(header):
        if not name:
            raise BadInput(f"{path}, row 1: column {index + 1} has no heading; name it")
        if name in header[:index]:
            raise BadInput(f"{path}, row 1: heading {name} stands twice; keep one")


def _parquet(path: Path) -> Iterator[Row]:
    for number, fields in enumerate(_read_parquet(path).iter_rows(named=True), start=1):
        yield plain_row(path, number, fields)


def _read_parquet(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError):
        raise BadInput(f"{path}: not readable as Parquet; write it again") from None
