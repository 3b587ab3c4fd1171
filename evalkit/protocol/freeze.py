"""Freezing: a YAML protocol becomes a lock beside it, once."""

from __future__ import annotations

from pathlib import Path

from evalkit.errors import Refused
from evalkit.files import write_whole
from evalkit.protocol.compare import describe, differences
from evalkit.protocol.load import load_spec
from evalkit.protocol.lock import Lock, Resolver, load_lock, lock_path, lock_text, resolve


def freeze_file(path: Path, resolver: Resolver) -> tuple[Lock, Path, bool]:
    """Freeze a YAML protocol: write its lock beside it.

    Returns:
        The lock, its path, and whether it was written now (False: the same content was frozen before).

    Raises:
        Refused: this version is frozen with other content; the message names the fields.
        DiskRefused: the lock cannot be written.
    """
    lock = resolve(load_spec(path), resolver)
    target = lock_path(path.parent, lock.spec)
    if target.exists():
        old = load_lock(target)
        if old.digests == lock.digests:
            return old, target, False
        raise Refused(
            f"{path}: {lock.id} is frozen with other content: {describe(differences(old, lock))}; "
            f"set version: {lock.spec.version + 1}"
        )
    write_whole(target, lock_text(lock))
    return lock, target, True
