"""Files that are written whole or not at all, and a disk that says no in one line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evalkit.errors import DiskRefused


@contextmanager
def disk(path: Path) -> Iterator[None]:
    """Turn an operating system error on `path` into `DiskRefused` (exit code 74)."""
    try:
        yield
    except OSError as error:
        raise DiskRefused(
            f"{path}: {error.strerror or error}; free or unlock the disk, then run the same command again"
        ) from None


def write_whole(path: Path, content: bytes | str, mode: int = 0o644) -> None:
    """Write a file so that a crash leaves the old content or the new, never a part.

    Raises:
        DiskRefused: the disk is full, read-only or failing; the old content is still there.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with disk(path):
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
            sync_folder(path.parent)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


def sync_folder(folder: Path) -> None:
    """Make a rename or a new file in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
