"""Protocols of a workspace: their files by `NAME`, `NAME@VERSION` or path."""

from __future__ import annotations

import re
from pathlib import Path

from evalkit.errors import BadInput
from evalkit.protocol.lock import Lock, load_lock

LOCK_NAME = re.compile(r"(?P<name>.+)\.v(?P<version>[0-9]+)\.lock\.json")


def list_locks(folder: Path) -> list[Path]:
    """Lock files of a folder, by name and then version."""
    found = [
        (match["name"], int(match["version"]), path)
        for path in folder.glob("*.lock.json")
        if (match := LOCK_NAME.fullmatch(path.name))
    ]
    return [path for _, _, path in sorted(found)]


def find_lock(folder: Path, reference: str) -> Path:
    """The lock file that `reference` names: a path, `NAME@VERSION`, or `NAME` where it has one version only.

    Raises:
        BadInput: no such lock, or several.
    """
    if reference.endswith(".json"):
        return Path(reference)
    if reference.endswith((".yaml", ".yml")):
        raise BadInput(f"{reference}: a protocol runs only when frozen; `evalkit protocol freeze {reference}`")
    name, _, version = reference.partition("@")
    locks = [path for path in list_locks(folder) if LOCK_NAME.fullmatch(path.name)["name"] == name]  # type: ignore[index]
    if version:
        locks = [path for path in locks if path.name == f"{name}.v{version}.lock.json"]
    if len(locks) == 1:
        return locks[0]
    if locks:
        versions = ", ".join(path.name.removesuffix(".lock.json").rpartition(".v")[2] for path in locks)
        raise BadInput(f"protocol {name} has versions {versions}; name one as {name}@VERSION")
    known = ", ".join(path.name.removesuffix(".lock.json").replace(".v", "@") for path in list_locks(folder)) or "none"
    raise BadInput(
        f"no frozen protocol {reference} in {folder} (there: {known}); `evalkit protocol freeze FILE` makes one"
    )


def load_protocol(folder: Path, reference: str) -> Lock:
    """Load and check the lock that `reference` names."""
    return load_lock(find_lock(folder, reference))
