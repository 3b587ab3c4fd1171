"""Protocols as text: the resolved form that `freeze` and `show` print, and the starter that `new` writes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import orjson

from evalkit.errors import BadInput, Refused
from evalkit.files import disk, write_whole
from evalkit.protocol.lock import Lock, content_of
from evalkit.protocol.spec import NAME


def resolved_text(lock: Lock) -> str:
    """Every field of a protocol with its value, then its digests."""
    lines = _lines(content_of(lock.spec), "")
    for name, source in lock.sources.items():
        lines.append(f"sources.{name}: {source}")
    digests = lock.digests
    return "\n".join(
        [
            *lines,
            "",
            f"generation  {digests.generation}",
            f"scoring     {digests.scoring}",
            f"protocol    {digests.protocol}",
        ]
    )


def _lines(value: Any, path: str) -> list[str]:
    if isinstance(value, Mapping) and value:
        return [line for key, item in value.items() for line in _lines(item, f"{path}.{key}" if path else str(key))]
    return [f"{path}: {orjson.dumps(value).decode()}"]


def write_starter(folder: Path, name: str) -> Path:
    """Write a commented protocol `NAME.yaml`.

    Raises:
        BadInput: not a protocol name.
        Refused: the file is there.
    """
    return copy_starter("evalkit.protocol", folder / f"{name}.yaml", name)


def copy_starter(package: str, path: Path, name: str) -> Path:
    """Write the package's `starter.yaml`, with `name` in it, where nothing is yet.

    Raises:
        BadInput: not a name.
        Refused: the file is there.
    """
    if not re.fullmatch(NAME, name):
        raise BadInput(f"{name}: not a name; use lower-case letters, digits, dots, dashes, such as gsm8k-cot")
    if path.exists():
        raise Refused(f"{path}: is there already; edit it, or choose another name")
    with disk(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    starter = (files(package) / "starter.yaml").read_text(encoding="utf-8")
    write_whole(path, starter.replace("name: NAME", f"name: {name}", 1))
    return path
