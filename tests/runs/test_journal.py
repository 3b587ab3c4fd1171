"""The journal: whole lines, once each, durable when acknowledged."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.errors import BadInput, DiskRefused
from evalkit.runs.journal import Journal

RECORDS = [{"sample_id": f"s{i}", "completion": "é\n\u2028" * i} for i in range(5)]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path / "run" / "journal.jsonl")
    assert journal.open() == set()
    return journal


def test_records_come_back_as_they_were(journal: Journal) -> None:
    journal.append(RECORDS[:2])
    journal.append(RECORDS[2:])
    assert [record for _, record in journal.records()] == RECORDS
    assert journal.read_at([offset for offset, _ in journal.records()][::-1]) == RECORDS[::-1]


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 400))
def test_a_torn_last_line_is_cut_and_owed_again(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("j") / "journal.jsonl"
    journal = Journal(path)
    journal.open()
    journal.append(RECORDS)
    journal.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    kept = whole[:cut].count(b"\n")
    again = Journal(path)
    assert again.open() == {f"s{i}" for i in range(kept)}
    again.append(RECORDS[kept:])
    again.close()
    assert path.read_bytes() == whole


def test_a_second_line_for_a_sample_is_an_error(journal: Journal) -> None:
    journal.append([RECORDS[0], RECORDS[1], RECORDS[0]])
    journal.close()
    with pytest.raises(BadInput, match=r"journal\.jsonl, row 3, field sample_id: s0 stands twice"):
        Journal(journal.path).open()


def test_a_broken_line_in_the_middle_is_an_error(journal: Journal) -> None:
    journal.append(RECORDS[:1])
    journal.close()
    with open(journal.path, "ab") as file:
        file.write(b"\x00\x00\n" + b'{"sample_id": "s9"}\n')
    with pytest.raises(BadInput, match=r"journal\.jsonl, row 2: not a record; the file was changed from outside"):
        Journal(journal.path).open()


def test_a_full_disk_keeps_what_was_acknowledged_and_nothing_else(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append(RECORDS[:2])
    before = journal.path.read_bytes()
    write = os.write

    def half(file: int, data: bytes) -> int:
        if len(data) > 4:
            return write(file, bytes(data[:4]))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(DiskRefused) as error:
        journal.append(RECORDS[2:])
    monkeypatch.undo()
    assert error.value.exit_code == 74
    assert str(error.value) == (
        f"{journal.path}: No space left on device; free or unlock the disk, then run the same command again"
    )
    assert journal.path.read_bytes() == before
    journal.append(RECORDS[2:])
    assert [record for _, record in journal.records()] == RECORDS
