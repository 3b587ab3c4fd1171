"""Where a ledger may lie, and what SQLite's errors mean to a user."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evalkit.errors import BadInput, DiskRefused, EvalkitError, InfrastructureFailed, Refused

MOUNTS = Path("/proc/mounts")
# fmt: off
NETWORK = frozenset((
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4",
    "orangefs", "smb2", "smb3", "smbfs",
    "fuse.ceph", "fuse.davfs", "fuse.gcsfuse", "fuse.glusterfs", "fuse.juicefs", "fuse.mount-s3", "fuse.rclone",
    "fuse.s3fs", "fuse.sshfs", "fuse.weka",
))
# fmt: on
"""File systems on which locks and shared memory do not hold between machines, so SQLite's promises do not either."""


def filesystem_of(path: Path, mounts: str) -> str | None:
    """Kind of the file system that `path` lies on, by the longest mount point of a `/proc/mounts` text above it."""
    found: tuple[int, str] | None = None
    for line in mounts.splitlines():
        parts = line.split(" ")
        if len(parts) < 3:
            continue
        point = Path(parts[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\"))
        # a later mount on the same point hides the earlier one
        if (path == point or point in path.parents) and (found is None or len(point.parts) >= found[0]):
            found = (len(point.parts), parts[2])
    return found[1] if found else None


def check_place(path: Path) -> None:
    """Refuse a ledger on a network file system. Where the system has no `/proc/mounts`, nothing is known and it passes.

    Raises:
        Refused: it would lie on one.
    """
    try:
        mounts = MOUNTS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    kind = filesystem_of(path.resolve(), mounts)
    if kind in NETWORK:
        raise Refused(
            f"{path}: lies on a network file system ({kind}), where two machines can write at once and lose rows; "
            "put the workspace on a local disk"
        )


@contextmanager
def sqlite(path: Path) -> Iterator[None]:
    """Turn SQLite's errors on `path` into one line with the right exit code."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translated(path, error) from None


def _translated(path: Path, error: sqlite3.Error) -> EvalkitError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return InfrastructureFailed(f"{path}: another process holds the ledger; try again when it is done")
    if code in (
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
    ):
        return DiskRefused(f"{path}: {error}; free or unlock the disk, then run the same command again")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return BadInput(f"{path}: not a whole ledger ({error}); restore it from a backup")
    return BadInput(f"{path}: not a ledger of evalkit ({error}); restore it from a backup")
