"""Files that are written whole or not at all, JSON that is what it should be, a disk that says no in one line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evalkit.errors import BadInput, DiskRefused, kind_of


@contextmanager
def disk(path: Path) -> Iterator[None]:
    """Turn an operating system error on `path` into `DiskRefused` (exit code 74)."""
    try:
        yield
    except OSError as error:
        raise DiskRefused(
            f"{path}: {error.strerror or error}; free or unlock the disk, then run the same command again"
        ) from None


def write_whole(path: Path, content: bytes | memoryview | str, mode: int = 0o644) -> None:
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
            sync(path.parent)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


def sync(path: Path) -> None:
    """Make what is in a file, or a rename in a folder, survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_json(path: Path, kind: str, mend: str) -> dict[str, Any]:
    """A JSON object whose field `format` is `kind`.

    Raises:
        BadInput: not there, not JSON, or of another format; `mend` says what to do.
    """
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}; {mend}") from None
    except ValueError as error:
        raise BadInput(f"{path}: not JSON: {error}; {mend}") from None
    if not isinstance(content, dict):
        raise BadInput(f"{path}: {kind_of(content)} where an object belongs; {mend}")
    if content.get("format") != kind:
        raise BadInput(f"{path}, field format: {content.get('format')!r} is not {kind}; {mend}")
    return content
