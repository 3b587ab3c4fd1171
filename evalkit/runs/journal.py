"""Journal: one JSON object a line, appended and fsynced in batches.

1. A line is written whole or it does not count: a torn last line is cut off on the next opening, and owed again.
2. A line is never rewritten. Its `sample_id` is derived from (run, item, trial); a second line for it is an error.
3. A record is acknowledged when `append` has returned: from then on it survives a kill and a power cut.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from evalkit.errors import BadInput
from evalkit.files import disk, sync

BLOCK = 1 << 20
Place: TypeAlias = tuple[int, int]
"""Where a line stands: its offset and its length in bytes."""


class Journal:
    """An append-only file of records with a `sample_id` each. One writer at a time."""

    def __init__(self, path: Path, fsync: bool = True) -> None:
        """A journal at `path`; without `fsync` for what can be computed again: it survives a kill, not a power cut."""
        self.path = path
        self._fsync = fsync
        self._file: int | None = None

    def open(self) -> set[str]:
        """Open for appending; the ids that are in it.

        Raises:
            BadInput: a line in the middle is not a record, or an id stands twice.
            DiskRefused: the file cannot be opened for writing.
        """
        with disk(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = not self.path.exists()
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            _cut_torn_line(self._file)
            if new:
                sync(self.path.parent)
        seen: set[str] = set()
        for number, (_, record) in enumerate(self.records(), 1):
            if record["sample_id"] in seen:
                raise BadInput(
                    f"{self.path}, row {number}, field sample_id: {record['sample_id']} stands twice; "
                    "the file was written to by something else: move the run's folder away and run again"
                )
            seen.add(record["sample_id"])
        return seen

    def append(self, records: Sequence[dict[str, Any]]) -> None:
        """Add records and make them durable.

        Raises:
            DiskRefused: the disk is full or failing; what was acknowledged before is still there.
        """
        assert self._file is not None, "open the journal first"
        data = b"".join(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in records)
        with disk(self.path):
            end = os.fstat(self._file).st_size
            try:
                _write_all(self._file, data)
                if self._fsync:
                    os.fsync(self._file)
            except OSError:
                os.ftruncate(self._file, end)
                raise

    def records(self) -> Iterator[tuple[Place, dict[str, Any]]]:
        """Place and content of every whole line, in the order of writing.

        Raises:
            BadInput: a line is not a record.
        """
        if not self.path.exists():
            return
        offset = 0
        with disk(self.path), open(self.path, "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    return
                yield (offset, len(line)), _record(line, f"{self.path}, row {number}")
                offset += len(line)

    def read_at(self, places: Sequence[Place]) -> list[dict[str, Any]]:
        """The records at these places, in this order."""
        if not places:
            return []
        with disk(self.path), open(self.path, "rb") as file:
            handle = file.fileno()
            return [_record(os.pread(handle, length, at), f"{self.path}, byte {at}") for at, length in places]

    def close(self) -> None:
        """Close the file. Safe to call twice."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _record(line: bytes, place: str) -> dict[str, Any]:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        record = None
    if not isinstance(record, dict) or not isinstance(record.get("sample_id"), str):
        raise BadInput(f"{place}: not a record; the file was changed from outside: restore it, or move the run away")
    return record


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _cut_torn_line(file: int) -> None:
    """Cut what follows the last newline."""
    size = os.fstat(file).st_size
    end = size
    while end > 0:
        start = max(0, end - BLOCK)
        found = os.pread(file, end - start, start).rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end != size:
        os.ftruncate(file, end)
        os.fsync(file)
