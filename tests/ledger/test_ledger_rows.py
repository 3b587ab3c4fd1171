"""Rows of the ledger: what is written, what cannot be changed, and what verification finds."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.canonical import canonical_bytes, leaf_hash, tree_root
from evalkit.errors import BadInput, DiskRefused, InfrastructureFailed, Refused
from evalkit.ledger import Event, Ledger
from evalkit.ledger import place as place_module
from evalkit.ledger.place import filesystem_of
from evalkit.ledger.store import TRIGGERS
from evalkit.ledger.tree import push, root_of

LOOK = {
    "protocol_digest": "ek1:sha256:aa",
    "protocol_id": "arithmetic@1",
    "split_name": "arithmetic/dev",
    "split_root": "ek1:sha256:bb",
    "model_digest": "ek1:sha256:cc",
    "model_name": "vllm:ckpt-300",
    "repeat": 0,
    "purpose": "checkpoint",
    "run_id": "abc",
}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "state" / "ledger.sqlite")


def fill(ledger: Ledger, n: int = 5) -> None:
    for number in range(n):
        ledger.append(Event.now("freeze", protocol=f"p@{number}", details={"digest": f"ek1:{number}"}))


def tamper(ledger: Ledger, *statements: str, keep_guards: bool = False) -> None:
    db = sqlite3.connect(ledger.path, isolation_level=None)
    for name in TRIGGERS:
        db.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        db.execute(statement)
    if not keep_guards:
        for name, body in TRIGGERS.items():
            db.execute(f"CREATE TRIGGER {name} {body}")
    db.close()


def test_a_row_is_the_canonical_bytes_of_its_event_and_their_leaf(ledger: Ledger) -> None:
    event = Event("2026-07-01T09:30:00Z", "ada", "freeze", protocol="p@1", details={"b": 1, "a": "é"})
    assert ledger.append(event) == 1
    row = sqlite3.connect(ledger.path).execute("SELECT seq, content, leaf FROM rows").fetchone()
    expected = (
        '{"details":{"a":"é","b":1},"event":"freeze","model":null,"protocol":"p@1","purpose":null,"split":null,'
        '"when":"2026-07-01T09:30:00Z","who":"ada"}'
    ).encode()
    assert row == (1, expected, leaf_hash(expected))
    assert ledger.verify().root == f"ek1:sha256:{tree_root([leaf_hash(expected)]).hex()}"


def test_events_come_back_in_order_and_by_kind(ledger: Ledger) -> None:
    fill(ledger, 2)
    assert ledger.record_look(**LOOK)
    assert [(event.seq, event.event, event.protocol) for event in ledger.events()] == [
        (1, "freeze", "p@0"),
        (2, "freeze", "p@1"),
        (3, "look", "arithmetic@1"),
    ]
    assert [event.seq for event in ledger.events("look")] == [3]


def test_time_is_utc_to_the_second_and_the_user_is_the_systems(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "mallory")
    monkeypatch.setenv("LOGNAME", "mallory")
    event = Event.now("freeze")
    assert len(event.when) == len("2026-07-01T09:30:00Z")
    assert event.when.endswith("Z")
    assert event.who != "mallory"


def test_a_look_is_recorded_the_first_time_only(ledger: Ledger) -> None:
    assert ledger.record_look(**LOOK) is True
    assert ledger.record_look(**{**LOOK, "run_id": "other", "purpose": "report", "model_name": "again"}) is False
    for name, value in {"protocol_digest": "x", "split_root": "x", "model_digest": "x", "repeat": 1}.items():
        assert ledger.record_look(**{**LOOK, name: value}) is True, name
    assert [look.run_id for look in ledger.looks()] == ["abc"] * 5
    assert ledger.verify().ok


def test_looks_are_found_by_root_by_split_and_by_set(ledger: Ledger) -> None:
    ledger.record_look(**LOOK)
    ledger.record_look(**{**LOOK, "split_name": "arithmetic/public", "split_root": "r2"})
    ledger.record_look(**{**LOOK, "split_name": "other/dev", "split_root": "r3"})
    assert [look.seq for look in ledger.looks(split_root="r2")] == [2]
    assert [look.seq for look in ledger.looks(split="arithmetic/dev")] == [1]
    assert [look.seq for look in ledger.looks(split="arithmetic")] == [1, 2]
    look = ledger.looks()[0]
    assert (look.protocol, look.model, look.repeat, look.purpose) == ("arithmetic@1", "vllm:ckpt-300", 0, "checkpoint")


def test_append_does_not_write_looks_or_large_rows(ledger: Ledger) -> None:
    with pytest.raises(ValueError, match="a look is written by record_look"):
        ledger.append(Event.now("look"))
    with pytest.raises(ValueError, match="record digests, not content"):
        ledger.append(Event.now("freeze", details={"text": "x" * 9000}))
    with pytest.raises(TypeError):
        ledger.append(Event.now("freeze", details={"mean": 0.5}))
    assert ledger.events() == []
    assert ledger.append(Event.now("freeze")) == 1


def test_a_ledger_that_is_not_there_is_empty_and_is_not_made_by_reading(ledger: Ledger) -> None:
    assert ledger.events() == []
    report = ledger.verify()
    assert (report.ok, report.n) == (True, 0)
    assert report.root == "ek1:sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert not ledger.path.exists()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE rows SET content = x'00'",
        "DELETE FROM rows",
        "INSERT OR REPLACE INTO rows VALUES (2, x'00', x'00', x'00', NULL)",
        "INSERT INTO rows VALUES (9, x'00', x'00', x'00', NULL)",
    ],
)
def test_sql_cannot_change_rows(ledger: Ledger, statement: str) -> None:
    fill(ledger)
    with pytest.raises(sqlite3.IntegrityError, match="the ledger is append-only"):
        sqlite3.connect(ledger.path).execute(statement)
    assert ledger.verify().ok


def test_verify_passes_what_was_only_appended(ledger: Ledger) -> None:
    fill(ledger, 13)
    report = ledger.verify()
    assert (report.ok, report.n, report.faults) == (True, 13, [])


def test_an_edited_row_is_found(ledger: Ledger) -> None:
    fill(ledger)
    tamper(ledger, "UPDATE rows SET content = replace(content, 'p@2', 'p@9') WHERE seq = 3")
    assert ledger.verify().faults == ["row 3: edited: its content is not what was written"]


def test_an_edited_row_with_its_leaf_corrected_is_found(ledger: Ledger) -> None:
    fill(ledger)
    content = ledger.events()[2].content.replace(b"p@2", b"p@9")
    tamper(
        ledger,
        f"UPDATE rows SET content = x'{content.hex()}', leaf = x'{leaf_hash(content).hex()}' WHERE seq = 3",
    )
    assert ledger.verify().faults == ["row 3: edited or inserted: it does not follow from the row before"]


def test_a_removed_row_is_found(ledger: Ledger) -> None:
    fill(ledger)
    tamper(ledger, "DELETE FROM rows WHERE seq IN (2, 3)")
    assert ledger.verify().faults[0] == "row 2 to 3: missing"


def test_a_removed_first_row_is_found(ledger: Ledger) -> None:
    fill(ledger)
    tamper(ledger, "DELETE FROM rows WHERE seq = 1")
    assert ledger.verify().faults[0] == "row 1: missing"


def test_a_removed_last_row_is_found(ledger: Ledger) -> None:
    fill(ledger)
    tamper(ledger, "DELETE FROM rows WHERE seq = 5")
    assert ledger.verify().faults == ["row 5: missing at the end (the head counts 5 rows)"]


def test_all_rows_removed_is_found(ledger: Ledger) -> None:
    fill(ledger)
    tamper(ledger, "DELETE FROM rows")
    assert ledger.verify().faults == ["row 1 to 5: missing at the end (the head counts 5 rows)"]


def test_a_row_removed_and_the_rest_renumbered_is_found(ledger: Ledger) -> None:
    fill(ledger)
    tamper(ledger, "DELETE FROM rows WHERE seq = 2", "UPDATE rows SET seq = seq - 1 WHERE seq > 2")
    faults = ledger.verify().faults
    assert "row 2: edited or inserted: it does not follow from the row before" in faults
    assert "row 5: missing at the end (the head counts 5 rows)" in faults


def test_an_inserted_row_is_found(ledger: Ledger) -> None:
    fill(ledger)
    content = ledger.events()[0].content
    row = f"x'{content.hex()}', x'{leaf_hash(content).hex()}', x'00', NULL"
    tamper(
        ledger,
        "UPDATE rows SET seq = -seq WHERE seq >= 3",
        "UPDATE rows SET seq = 1 - seq WHERE seq < 0",
        f"INSERT INTO rows VALUES (3, {row})",
    )
    faults = ledger.verify().faults
    assert faults[0] == "row 3: edited or inserted: it does not follow from the row before"
    assert "row 6: inserted at the end (the head counts 5 rows)" in faults


def test_a_row_inserted_at_the_end_is_found(ledger: Ledger) -> None:
    fill(ledger)
    content = ledger.events()[0].content
    tamper(ledger, f"INSERT INTO rows VALUES (6, x'{content.hex()}', x'{leaf_hash(content).hex()}', x'00', NULL)")
    assert "row 6: inserted at the end (the head counts 5 rows)" in ledger.verify().faults


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("UPDATE head SET root = x'00'", "head: its root is not that of the rows"),
        ("UPDATE head SET peaks = x'00'", "head: its peaks are not those of the rows"),
        ("DELETE FROM head", "head: missing"),
    ],
)
def test_an_edited_head_is_found(ledger: Ledger, statement: str, fault: str) -> None:
    fill(ledger)
    tamper(ledger, statement)
    assert ledger.verify().faults == [fault]


def test_a_look_whose_key_was_cleared_is_found(ledger: Ledger) -> None:
    ledger.record_look(**LOOK)
    tamper(ledger, "UPDATE rows SET look = NULL")
    assert ledger.verify().faults == ["row 1: edited: its look key is not that of its content"]


def test_dropped_triggers_are_found(ledger: Ledger) -> None:
    fill(ledger)
    tamper(ledger, keep_guards=True)
    assert ledger.verify().faults[0] == "trigger no_update is missing: rows could be changed"


@given(st.lists(st.binary(max_size=8), max_size=40))
def test_the_growing_tree_has_the_root_of_rfc_6962(contents: list[bytes]) -> None:
    leaves = [leaf_hash(content) for content in contents]
    peaks: list[bytes] = []
    for size, leaf in enumerate(leaves):
        peaks = push(peaks, size, leaf)
        assert root_of(peaks) == tree_root(leaves[: size + 1])
    assert root_of([]) == tree_root([])


WRITER = """
import sys, time
from pathlib import Path
from evalkit.ledger import Ledger
path, start, look = Path(sys.argv[1]), float(sys.argv[2]), {look!r}
while time.time() < start: pass
print(sum(Ledger(path).record_look(**{{**look, "repeat": repeat}}) for repeat in range(20)))
"""


def test_two_processes_that_record_the_same_looks_at_once_write_each_once(ledger: Ledger) -> None:
    import time

    start = str(time.time() + 1.0)
    command = [sys.executable, "-c", WRITER.format(look=LOOK), str(ledger.path), start]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    first = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert sum(first) == 20
    assert sorted(look.repeat for look in ledger.looks()) == list(range(20))
    assert ledger.verify().ok


def test_a_writer_waits_for_another_and_then_says_so(ledger: Ledger) -> None:
    fill(ledger, 1)
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(InfrastructureFailed) as refusal:
        Ledger(ledger.path, timeout=0.1).append(Event.now("freeze"))
    assert str(refusal.value) == f"{ledger.path}: another process holds the ledger; try again when it is done"
    assert refusal.value.exit_code == 75
    other.execute("ROLLBACK")
    other.close()
    assert ledger.append(Event.now("freeze")) == 2


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "smb3", "fuse.sshfs", "9p", "lustre"])
def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda / ext4 rw 0 0\nserver:/home {tmp_path} {kind} rw 0 0\n")
    monkeypatch.setattr(place_module, "MOUNTS", mounts)
    path = tmp_path / "ledger.sqlite"
    with pytest.raises(Refused) as refusal:
        Ledger(path)
    assert str(refusal.value) == (
        f"{path}: lies on a network file system ({kind}), where two machines can write at once and lose rows; "
        "put the workspace on a local disk"
    )


def test_the_nearest_and_last_mount_decides() -> None:
    mounts = (
        "/dev/sda / ext4 rw 0 0\nserver:/ /data nfs rw 0 0\n/dev/sdb /data/my\\040disk xfs rw 0 0\n"
        "server:/ /data/my\\040disk/b nfs rw 0 0\ntmpfs /data/my\\040disk/b tmpfs rw 0 0\n"
    )
    assert filesystem_of(Path("/data/x"), mounts) == "nfs"
    assert filesystem_of(Path("/data/my disk/x"), mounts) == "xfs"
    assert filesystem_of(Path("/data/my disk/b/x"), mounts) == "tmpfs"
    assert filesystem_of(Path("/database/x"), mounts) == "ext4"


LIMITED = """
import resource, signal, sys
from pathlib import Path
from evalkit.errors import EvalkitError
from evalkit.ledger import Event, Ledger
ledger = Ledger(Path(sys.argv[1]))
ledger.append(Event.now("freeze", protocol="p@1"))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
try:
    for _ in range(100):
        ledger.append(Event.now("freeze", details={"pad": "x" * 4000}))
except EvalkitError as error:
    print(error.exit_code, error)
"""


def test_a_disk_that_takes_no_more_is_exit_74_and_keeps_what_was_acknowledged(ledger: Ledger) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(ledger.path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith(f"74 {ledger.path}: ")
    assert done.stdout.endswith("; free or unlock the disk, then run the same command again\n")
    assert ledger.verify().ok
    assert ledger.events()[0].protocol == "p@1"


def test_a_folder_that_cannot_be_made_is_exit_74(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskRefused):
        Ledger(tmp_path / "file" / "ledger.sqlite").append(Event.now("freeze"))


def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    path.write_text("not a database " * 100)
    with pytest.raises(BadInput, match="not a whole ledger") as refusal:
        Ledger(path).events()
    assert str(refusal.value).startswith(f"{path}: ")
    assert path.read_text() == "not a database " * 100


def test_a_ledger_of_a_later_format_is_refused(ledger: Ledger) -> None:
    fill(ledger, 1)
    sqlite3.connect(ledger.path).execute("PRAGMA user_version = 2")
    with pytest.raises(BadInput) as refusal:
        ledger.events()
    assert str(refusal.value) == f"{ledger.path}: a ledger of format 2, this evalkit reads 1; use a newer evalkit"


def test_a_row_that_is_no_event_names_its_row(ledger: Ledger) -> None:
    fill(ledger, 2)
    tamper(ledger, "UPDATE rows SET content = CAST('[1]' AS BLOB) WHERE seq = 2")
    with pytest.raises(BadInput) as refusal:
        ledger.events()
    assert str(refusal.value) == (f"{ledger.path}, row 2: not an event; `evalkit ledger verify` says what was changed")


def test_content_is_json_of_all_fields(ledger: Ledger) -> None:
    event = Event.now("gate", split="s/private", details={"n": 3})
    assert canonical_bytes(json.loads(event.content)) == event.content
    assert sorted(json.loads(event.content)) == [
        "details", "event", "model", "protocol", "purpose", "split", "when", "who",
    ]  # fmt: skip
