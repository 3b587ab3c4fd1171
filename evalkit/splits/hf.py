"""Hugging Face data sets (extra `hf`): a folder, or a hub id pinned to a revision. Never code from the data set.

1. `FOLDER` or `FOLDER:SPLIT`: written by `save_to_disk`, or holding data files.
2. `ID@REVISION:SPLIT`, where the revision is the 40 hex characters of a commit: a branch moves, and with it the items.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalkit.errors import BadInput, InfrastructureFailed, Refused
from evalkit.splits.words import nearest

if TYPE_CHECKING:
    from evalkit.splits.read import Row

HUB = re.compile(
    r"(?P<id>[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?)(@(?P<revision>[^:@]+))?(:(?P<split>[\w.-]+))?", re.ASCII
)
COMMIT = re.compile(r"[0-9a-f]{40}")


def is_dataset(source: str) -> bool:
    """Whether `source` names a data set's folder, or looks like a hub id with a revision or a split."""
    if _folder(source):
        return True
    match = HUB.fullmatch(source)
    return bool(match and (match["revision"] or match["split"]))


def read_dataset(source: str) -> Iterator[Row]:
    """The rows of a data set.

    Raises:
        BadInput: the extra is not installed, or no such data set or split.
        Refused: not pinned, or it would run code.
        InfrastructureFailed: the hub cannot be reached.
    """
    from evalkit.splits.read import plain_row

    data = _from_folder(*folder) if (folder := _folder(source)) else _from_hub(source)
    for number, fields in enumerate(data, start=1):
        yield plain_row(source, number, dict(fields))


def _library() -> Any:
    try:
        import datasets
    except ImportError:
        raise BadInput("Hugging Face data sets need the extra: pip install 'evalkit-rl[hf]'") from None
    return datasets


def _folder(source: str) -> tuple[Path, str | None] | None:
    if Path(source).is_dir():
        return Path(source), None
    path, colon, split = source.rpartition(":")
    return (Path(path), split) if colon and Path(path).is_dir() else None


def _from_folder(folder: Path, split: str | None) -> Any:
    if script := next(iter(sorted(folder.glob("*.py"))), None):
        raise Refused(
            f"{folder}: holds code ({script.name}), which is never run; keep its data files in a folder alone"
        )
    datasets = _library()
    try:
        if (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file():
            data = datasets.load_from_disk(str(folder))
        else:
            data = datasets.load_dataset(str(folder))
    except (OSError, ValueError) as error:
        raise BadInput(f"{folder}: not a data set ({_first_line(error)}); name a folder of data files") from None
    return _choose(data, str(folder), split)


def _choose(data: Any, source: str, split: str | None) -> Any:
    if not isinstance(data, dict):  # a DatasetDict is a dict of its splits
        if split is not None:
            raise BadInput(f"{source}: has no splits, so no {split}; leave :{split} out")
        return data
    if split is None and len(data) == 1:
        return next(iter(data.values()))
    if split not in data:
        what = f"no split {split}{nearest(split, data)}" if split else "several splits"
        raise BadInput(f"{source}: {what}; name one of {', '.join(data)} as {source}:SPLIT")
    return data[split]


def _from_hub(source: str) -> Any:
    match = HUB.fullmatch(source)
    if match is None or match["revision"] is None or not COMMIT.fullmatch(match["revision"]):
        raise Refused(
            f"{source}: not pinned to a revision, so its items can change; "
            "name the 40 hex characters of a commit: ID@REVISION:SPLIT"
        )
    if match["split"] is None:
        raise BadInput(f"{source}: names no split; write {source}:SPLIT")
    datasets = _library()
    # from version 4 on the library runs no code and knows no such argument
    code = {} if int(datasets.__version__.split(".")[0]) >= 4 else {"trust_remote_code": False}
    try:
        return datasets.load_dataset(match["id"], revision=match["revision"], split=match["split"], **code)
    except ConnectionError as error:
        raise InfrastructureFailed(f"{source}: the hub cannot be reached ({_first_line(error)}); try again") from None
    except (OSError, ValueError, RuntimeError) as error:
        raise BadInput(f"{source}: {_first_line(error)}; check id, revision and split on the hub") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
