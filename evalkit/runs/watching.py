"""The checkpoints of a training folder, in step order, as they appear.

1. A checkpoint is a folder in it whose name ends in a step (`checkpoint-300`, or `global_step_40` with verl's
   `actor/huggingface` in it). It counts once it is complete: weights as long as their headers say, configuration and
   tokenizer there, and nothing changed between two looks.
2. A complete checkpoint waits for one with a lower step that is still being written, so the order is that of training.
   One that nobody has written to for `PASSED_OVER` seconds and that is not complete is passed over.
3. Nothing is remembered here: runs are found again by their address, so a restart goes over what is done and on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from evalkit.engines import is_complete, step_of, weights_folder
from evalkit.errors import BadInput

POLL_SECONDS = 2.0
PASSED_OVER = 120.0
Look = dict[Path, tuple[tuple[str, int, int], ...]]


def watch(folder: Path, idle: float | None, on_wait: Callable[[str], None] = lambda _: None) -> Iterator[Path]:
    """The folders of weights of the complete checkpoints of `folder`, each once, lowest step first; waits for more.

    Args:
        folder: a training folder; where only its parent is there, training has yet to make it.
        idle: ends after so many seconds without a new checkpoint; None never ends.
        on_wait: told what is waited for, whenever that changes.

    Raises:
        BadInput: no such folder.
    """
    if not folder.is_dir() and (folder.exists() or not folder.absolute().parent.is_dir()):
        raise BadInput(f"--watch {folder}: no such folder; give the folder that training writes its checkpoints into")
    given: set[Path] = set()
    before: Look = {}
    changed: dict[Path, float] = {}
    since = time.monotonic()
    told = ""
    while True:
        now, moment = _look(folder), time.monotonic()
        changed |= {path: moment for path in now if now[path] != before.get(path)}
        waiting = sorted((path for path in now if path not in given), key=_order)
        ready = next((path for path in waiting if moment > changed[path] and is_complete(weights_folder(path))), None)
        ahead = waiting[: waiting.index(ready)] if ready else waiting
        unfinished = [path for path in ahead if not ready or moment - changed[path] < PASSED_OVER]
        if ready is not None and not unfinished:
            given.add(ready)
            yield weights_folder(ready)
            since, told = time.monotonic(), ""
            continue
        if idle is not None and moment - since >= idle:
            return
        what = f"{unfinished[0].name} to be complete" if unfinished else f"the next checkpoint in {folder}"
        if what != told:
            on_wait(what)
            told = what
        before = now
        time.sleep(POLL_SECONDS)


def _order(path: Path) -> tuple[int, str]:
    return step_of(path.name) or 0, path.name


def _look(folder: Path) -> Look:
    found: Look = {}
    if not folder.is_dir():
        return found
    for path in folder.iterdir():
        if step_of(path.name) is None or not path.is_dir():
            continue
        try:
            stats = [(file.name, file.stat()) for file in sorted(weights_folder(path).iterdir())]
        except OSError:
            continue  # being renamed or removed; the next look tells
        found[path] = tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
    return found
