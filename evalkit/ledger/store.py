"""The ledger: one SQLite file a workspace, append-only, with an RFC 6962 tree over its rows.

1. A row is (seq, content, leaf, chain): the canonical bytes of an event, their leaf hash, and a hash over all leaves
   so far. `head` holds size and root of the tree and changes in the same transaction.
2. Nothing is updated or deleted: triggers refuse it. Who drops the triggers is found by `verify`, unless they recompute
   the whole file; against that the gate signs the root elsewhere.
3. A look is looked up and written in one transaction, so two processes cannot both be the first.
4. A connection lives for one call. A writer waits for another, up to `timeout`, and then says so (exit code 75).
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from evalkit.canonical import leaf_hash
from evalkit.errors import BadInput, Refused
from evalkit.files import disk
from evalkit.ledger.events import LOOK, Event, Look, event_of, look_of
from evalkit.ledger.place import check_place, sqlite
from evalkit.ledger.tree import EMPTY_ROOT, START, chain_hash, push, root_of
from evalkit.ledger.verify import LedgerReport, verify_rows

FORMAT = 1
"""`PRAGMA user_version` of the file."""
TRIGGERS = {
    "no_update": "BEFORE UPDATE ON rows BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
    "no_delete": "BEFORE DELETE ON rows BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
    # `INSERT OR REPLACE` removes a row without firing the one above
    "only_at_end": "BEFORE INSERT ON rows WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM rows) "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
}
SCHEMA = [
    "CREATE TABLE rows (seq INTEGER PRIMARY KEY, content BLOB NOT NULL, leaf BLOB NOT NULL, chain BLOB NOT NULL, "
    "look BLOB UNIQUE)",
    "CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), size INTEGER NOT NULL, root BLOB NOT NULL, "
    "peaks BLOB NOT NULL)",
    *(f"CREATE TRIGGER {name} {body}" for name, body in TRIGGERS.items()),
]
# an edit may have changed a value's kind as well
READ_ROWS = (
    "SELECT seq, CAST(content AS BLOB), CAST(leaf AS BLOB), CAST(chain AS BLOB), CAST(look AS BLOB) "
    "FROM rows ORDER BY seq"
)
READ_HEAD = "SELECT CAST(size AS INTEGER), CAST(root AS BLOB), CAST(peaks AS BLOB) FROM head"


class Ledger:
    """The ledger of a workspace. Usable as a context manager; there is nothing to close between calls."""

    def __init__(self, path: Path, timeout: float = 30.0) -> None:
        """Open the ledger at `path`; the file is made by the first append.

        Args:
            path: the SQLite file.
            timeout: seconds to wait for another writer.

        Raises:
            Refused: `path` lies on a network file system.
        """
        check_place(path)
        self.path = path
        self.timeout = timeout

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def append(self, event: Event) -> int:
        """Write an event; its row number.

        Raises:
            ValueError: a look (`record_look` writes those), or content too large for a row.
            DiskRefused: the disk is full or read-only; the ledger is as it was.
            InfrastructureFailed: another process held the ledger for too long.
        """
        if event.event == LOOK:
            raise ValueError("a look is written by record_look")
        with self._writing() as db:
            return _append(db, event)

    def record_look(
        self,
        *,
        protocol_digest: str,
        protocol_id: str,
        split_name: str,
        split_root: str,
        model_digest: str,
        model_name: str,
        repeat: int,
        purpose: str,
        run_id: str,
    ) -> bool:
        """Record that results are about to be shown, the first time for (protocol, split root, model, repeat).

        Returns:
            Whether this was the first time; if not, nothing is written.

        Raises:
            DiskRefused, InfrastructureFailed: as for `append`; the results must not be shown then.
        """
        details = {
            "protocol_digest": protocol_digest,
            "split_root": split_root,
            "model_digest": model_digest,
            "repeat": repeat,
            "run_id": run_id,
        }
        event = Event.now(
            LOOK, split=split_name, protocol=protocol_id, model=model_name, purpose=purpose, details=details
        )
        with self._writing() as db:
            if db.execute("SELECT 1 FROM rows WHERE look = ?", (event.look_key,)).fetchone():
                return False
            _append(db, event)
            return True

    def events(self, event: str | None = None) -> list[Event]:
        """All events in their order, or those of one kind, each with its row number.

        Raises:
            BadInput: a row is no event; `verify` says more.
        """
        if not self.path.exists():
            return []
        with self._connected() as db:
            rows = db.execute("SELECT seq, CAST(content AS BLOB) FROM rows ORDER BY seq").fetchall()
        found = [self._event(seq, content) for seq, content in rows]
        return [row for row in found if event is None or row.event == event]

    def looks(self, *, split_root: str | None = None, split: str | None = None) -> list[Look]:
        """The looks in their order.

        Args:
            split_root: only those at the split with this root.
            split: only those at `NAME/ROLE`, or at any role of `NAME`.
        """
        looks = [look_of(event) for event in self.events(LOOK)]
        return [
            look
            for look in looks
            if (split_root is None or look.split_root == split_root)
            and (split is None or split in (look.split, look.split.rpartition("/")[0]))
        ]

    def verify(self) -> LedgerReport:
        """Check every row against its leaf, the chain and the tree's head; each fault names its row."""
        if not self.path.exists():
            return verify_rows([], (0, EMPTY_ROOT, b""), [])
        with self._connected() as db:
            db.execute("BEGIN")  # rows and head of one moment
            rows = db.execute(READ_ROWS).fetchall()
            head = db.execute(READ_HEAD).fetchone()
            guards = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")}
            db.execute("COMMIT")
        return verify_rows(rows, head, [name for name in TRIGGERS if name not in guards])

    def _event(self, seq: int, content: bytes) -> Event:
        try:
            return event_of(content, seq)
        except ValueError as error:
            raise BadInput(f"{self.path}, row {seq}: {error}; `evalkit ledger verify` says what was changed") from None

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        with sqlite(self.path), closing(self._connect()) as db:
            yield db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with disk(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._connected() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=self.timeout, isolation_level=None)
        try:
            _set_up(db, self.path, self.timeout)
        except BaseException:
            db.close()
            raise
        return db


def _set_up(db: sqlite3.Connection, path: Path, timeout: float) -> None:
    db.execute("PRAGMA synchronous = FULL")
    version = _scalar(db, "PRAGMA user_version")
    if version == FORMAT:
        return
    if version != 0:
        raise BadInput(f"{path}: a ledger of format {version}, this evalkit reads {FORMAT}; use a newer evalkit")
    _to_wal(db, path, timeout)
    db.execute("BEGIN IMMEDIATE")
    try:
        if _scalar(db, "PRAGMA user_version") == 0:  # another process may have been faster
            for statement in SCHEMA:
                db.execute(statement)
            db.execute("INSERT INTO head VALUES (1, 0, ?, ?)", (EMPTY_ROOT, b""))
            db.execute(f"PRAGMA user_version = {FORMAT}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _to_wal(db: sqlite3.Connection, path: Path, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while True:  # SQLite does not wait for a lock when it changes the journal's mode
        try:
            mode = _scalar(db, "PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    if mode != "wal":
        raise Refused(f"{path}: its file system cannot keep a write-ahead log; put the workspace on a local disk")


def _scalar(db: sqlite3.Connection, statement: str) -> Any:
    return db.execute(statement).fetchone()[0]


def _append(db: sqlite3.Connection, event: Event) -> int:
    content = event.content
    leaf = leaf_hash(content)
    size, packed = db.execute("SELECT size, peaks FROM head").fetchone()
    last = db.execute("SELECT seq, chain FROM rows ORDER BY seq DESC LIMIT 1").fetchone()
    seq, before = last or (0, START)
    peaks = push([packed[i : i + 32] for i in range(0, len(packed), 32)], size, leaf)
    db.execute(
        "INSERT INTO rows VALUES (?, ?, ?, ?, ?)", (seq + 1, content, leaf, chain_hash(before, leaf), event.look_key)
    )
    db.execute("UPDATE head SET size = ?, root = ?, peaks = ?", (size + 1, root_of(peaks), b"".join(peaks)))
    return int(seq) + 1
