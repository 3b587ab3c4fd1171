"""Items and secret of a split set on this machine: `.evalkit/items/NAME/`.

    ROLE.parquet     items of a role; private and audit 0600
    index.parquet    role, item_id and digest of every item, so that an item that is gone can be named; 0600
    secret           0600
    next-ROOT/       a build that is not finished, or not yet in place

A build writes everything into `next-ROOT`, then the manifest, then moves the files. The manifest is the moment: before
it, the old split is whole and `next-ROOT` is waste; after it, `settle` completes the move, whoever comes first.
"""

from __future__ import annotations

import fcntl
import io
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from evalkit.canonical import short
from evalkit.errors import BadInput, Refused
from evalkit.files import disk, sync, write_whole
from evalkit.splits.manifest import FILE, Manifest, manifest_text
from evalkit.splits.roles import SECRET_ROLES
from evalkit.splits.secret import Secret, read_secret
from evalkit.tables import ITEMS, check
from evalkit.workspace import Workspace

INDEX = "index.parquet"
SECRET = "secret"
LOCK = ".lock"
OWN = 0o600


def manifest_path(workspace: Workspace, name: str) -> Path:
    """Where the manifest of a split set lies."""
    return workspace.splits / name / FILE


def items_folder(workspace: Workspace, name: str) -> Path:
    """Where the items of a split set lie."""
    return workspace.items / name


def local_secret(workspace: Workspace, name: str) -> Secret | None:
    """The secret that this machine keeps for a split set; None where it has none."""
    path = items_folder(workspace, name) / SECRET
    return read_secret(path) if path.exists() else None


def read_role(workspace: Workspace, name: str, role: str) -> pl.DataFrame | None:
    """The stored items of a role, unverified; None where they are not here.

    Raises:
        BadInput: the file is damaged.
    """
    path = items_folder(workspace, name) / f"{role}.parquet"
    if not path.exists():
        return None
    return check(_read(path), ITEMS, str(path)).sort("item_id")


def read_index(workspace: Workspace, name: str) -> pl.DataFrame:
    """Role, item_id and digest of every item as built; empty where it is lost, and then missing items have no name."""
    path = items_folder(workspace, name) / INDEX
    empty = pl.DataFrame(schema={"role": pl.String, "item_id": pl.String, "digest": pl.String})
    if not path.exists():
        return empty
    try:
        return _read(path).select(empty.columns).cast(pl.String)
    except (BadInput, pl.exceptions.PolarsError):
        return empty


def _read(path: Path) -> pl.DataFrame:
    with disk(path):
        data = path.read_bytes()
    try:
        return pl.read_parquet(io.BytesIO(data))
    except (pl.exceptions.PolarsError, OSError):
        raise BadInput(f"{path}: damaged; build the split again from the same source and secret") from None


@contextmanager
def building(workspace: Workspace, name: str) -> Iterator[Path]:
    """The items' folder, held against a second build of the same split set.

    Raises:
        Refused: another process builds it.
        DiskRefused: the folder cannot be made.
    """
    folder = items_folder(workspace, name)
    with disk(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    with _locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB):
        yield folder


@contextmanager
def _locked(folder: Path, how: int) -> Iterator[None]:
    with disk(folder):
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, OWN)
    try:
        try:
            fcntl.flock(handle, how)
        except BlockingIOError:
            raise Refused(f"{folder}: another build of {folder.name} is running; wait for it") from None
        yield
    finally:
        os.close(handle)


def commit(
    workspace: Workspace,
    manifest: Manifest,
    items: Mapping[str, pl.DataFrame],
    secret: Secret,
    *,
    write_manifest: bool,
) -> None:
    """Put a built split in place, whole or not at all (see the module).

    Args:
        workspace: where.
        manifest: what was built.
        items: its items by role, sorted by item_id.
        secret: its secret.
        write_manifest: False where the same manifest is there already.

    Raises:
        DiskRefused: the disk is full or read-only; the old split is as it was.
    """
    folder = items_folder(workspace, manifest.name)
    target = manifest_path(workspace, manifest.name)
    staged = _staged(folder, manifest)
    _sweep(folder, target)
    index = pl.DataFrame(
        [
            (role, item_id, digest)
            for role, frame in items.items()
            for item_id, digest in zip(frame["item_id"], manifest.roles[role].items, strict=True)
        ],
        schema={"role": pl.String, "item_id": pl.String, "digest": pl.String},
        orient="row",
    )
    try:
        with disk(folder):
            staged.mkdir(mode=0o700)
        for role, frame in items.items():
            write_whole(staged / f"{role}.parquet", _parquet(frame), OWN if role in SECRET_ROLES else 0o644)
        write_whole(staged / INDEX, _parquet(index), OWN)
        write_whole(staged / SECRET, secret.file_text(), OWN)
        with disk(folder):
            sync(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
        if write_manifest:
            write_whole(target, manifest_text(manifest))
    except BaseException:
        if not (target.exists() and target.read_bytes() == manifest_text(manifest).encode()):
            shutil.rmtree(staged, ignore_errors=True)
        raise
    _move(staged, folder)


def settle(workspace: Workspace, manifest: Manifest) -> None:
    """Complete a build that was stopped between its manifest and its last file; nothing to do otherwise."""
    folder = items_folder(workspace, manifest.name)
    if not _staged(folder, manifest).is_dir():
        return
    with _locked(folder, fcntl.LOCK_EX):  # a build that is still running is waited for
        _move(_staged(folder, manifest), folder)


def _move(staged: Path, folder: Path) -> None:
    if not staged.is_dir():
        return
    with disk(staged):
        for path in sorted(staged.iterdir()):
            if path.name.startswith("."):  # a temporary file of a write that was stopped
                path.unlink()
            else:
                os.replace(path, folder / path.name)
        sync(folder)
        staged.rmdir()


def _staged(folder: Path, manifest: Manifest) -> Path:
    return folder / f"next-{short(manifest.root, 32)}"


def _sweep(folder: Path, target: Path) -> None:
    """Remove what stopped builds have left."""
    for path in target.parent.glob(f".{target.name}.*.tmp"):
        path.unlink(missing_ok=True)
    for path in folder.glob("next-*"):
        shutil.rmtree(path, ignore_errors=True)


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()
