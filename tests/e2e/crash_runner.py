"""`python crash_runner.py POINT N ARGUMENTS…`: run `evalkit ARGUMENTS`, and die by SIGKILL at the N-th pass of POINT.

Files of a table are cut small here, so that there are several to die between; the run that resumes cuts them its own way.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evalkit import api, cli
from evalkit.runs import execute, folder, journal, scoring, tables


def main() -> None:
    point, number = sys.argv[1], int(sys.argv[2])
    sys.argv = ["evalkit", *sys.argv[3:]]
    if point not in AFTER_THE_END and (point, sys.argv[1]) != ("after-floor", "score"):
        tables.PART = 64
    POINTS[point](Countdown(number))
    cli.main()


class Countdown:
    """Kills the process at the N-th call."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self) -> bool:
        """Whether this is the N-th call."""
        self.left -= 1
        return self.left == 0

    def die(self) -> None:
        if self():
            die()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def is_scores(path: Any) -> bool:
    return path.parent.parent.name == "scores"


def half_line(scores: bool) -> Callable[[Countdown], None]:
    """Half of a batch's last line is on disk."""

    def install(countdown: Countdown) -> None:
        append, write = journal.Journal.append, journal._write_all

        def appended(self: Any, records: Any) -> None:
            if is_scores(self.path) is scores and countdown():
                journal._write_all = torn
            append(self, records)

        def torn(file: int, data: bytes) -> None:
            write(file, data[: data[:-1].rfind(b"\n") + 1 + 20])
            die()

        journal.Journal.append = appended

    return install


def before_fsync(countdown: Countdown) -> None:
    write = journal._write_all

    def written(file: int, data: bytes) -> None:
        write(file, data)
        countdown.die()

    journal._write_all = written


def after_append(scores: bool) -> Callable[[Countdown], None]:
    """A batch is acknowledged, and nothing was made of it."""

    def install(countdown: Countdown) -> None:
        append = journal.Journal.append

        def appended(self: Any, records: Any) -> None:
            append(self, records)
            if is_scores(self.path) is scores:
                countdown.die()

        journal.Journal.append = appended

    return install


def around(place: Any, name: str, *, before: bool) -> Callable[[Countdown], None]:
    """Before or after a function."""

    def install(countdown: Countdown) -> None:
        original = getattr(place, name)

        def wrapped(*arguments: Any, **named: Any) -> Any:
            if before:
                countdown.die()
            result = original(*arguments, **named)
            if not before:
                countdown.die()
            return result

        setattr(place, name, wrapped)

    return install


def renaming(suffix: str, *, before: bool, within: tuple[str, ...] = ()) -> Callable[[Countdown], None]:
    """Before or after a file of this name is moved into place, in a folder of or under one of these names."""

    def install(countdown: Countdown) -> None:
        replace = os.replace

        def replaced(source: Any, target: Any) -> None:
            parents = Path(target).parts[-3:-1]
            hit = str(target).endswith(suffix) and (
                not within or (set(parents) & set(within) and ".new" not in str(target))
            )
            if hit and before:
                countdown.die()
            replace(source, target)
            if hit and not before:
                countdown.die()

        os.replace = replaced  # type: ignore[assignment]

    return install


def unlinking(countdown: Countdown) -> None:
    """An old file of a table is gone, the new ones are not there yet."""
    unlink = tables.Path.unlink

    def unlinked(self: Any, missing_ok: bool = False) -> None:
        unlink(self, missing_ok=missing_ok)
        if self.suffix == ".parquet":
            countdown.die()

    tables.Path.unlink = unlinked  # type: ignore[method-assign]


POINTS: dict[str, Callable[[Countdown], None]] = {
    "before-run-json": renaming("run.json", before=True),
    "after-run-json": renaming("run.json", before=False),
    "half-a-line": half_line(scores=False),
    "before-fsync": before_fsync,
    "after-append": after_append(scores=False),
    "half-a-score": half_line(scores=True),
    "after-score": after_append(scores=True),
    "before-floor": around(execute, "score_floor", before=True),
    "before-tables": around(execute, "write_samples", before=True),
    "between-parts": around(tables, "write_whole", before=False),
    "before-part-moved": renaming(".parquet", before=True, within=("samples", "scores")),
    "after-part-moved": renaming(".parquet", before=False, within=("samples", "scores")),
    "old-part-gone": unlinking,
    "between-tables": around(execute, "write_samples", before=False),
    "between-scores-and-floor": around(scoring, "write_scores", before=False),
    "after-floor": renaming("floor.json", before=False),
    "before-lock-kept": around(folder.RunFolder, "add_protocol", before=True),
    "before-done": renaming("done.json", before=True),
    "after-done": renaming("done.json", before=False),
    "before-look": around(api.runs, "record_look", before=True),
    "after-look": around(api.runs, "record_look", before=False),
    "before-print": around(api, "summarize", before=False),
}
AFTER_THE_END = ("after-done", "before-look", "after-look", "before-print")
"""Points after which no table is written again."""

if __name__ == "__main__":
    main()
