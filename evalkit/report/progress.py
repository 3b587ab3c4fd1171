"""Progress of a run on stderr: rate, errors, truncation and time left. Quiet when stderr is not a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from evalkit.runs import Progress
from evalkit.runs.execute import OnProgress


@contextmanager
def progress_line(label: str) -> Iterator[OnProgress]:
    """A callback that redraws one line; the line is cleared at the end."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(stderr=True), refresh_per_second=8, transient=True) as live:
        yield lambda progress: live.update(Text(progress_text(label, progress)))


@contextmanager
def count_line(label: str) -> Iterator[Callable[[int, int], None]]:
    """A callback of (done, of) that redraws one line; the line is cleared at the end."""
    if not sys.stderr.isatty():
        yield lambda _done, _of: None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(stderr=True), refresh_per_second=8, transient=True) as live:
        yield lambda done, of: live.update(Text(f"{label}: {done}/{of}"))


def progress_text(label: str, progress: Progress) -> str:
    """`ckpt-300: 1200/2400, 812/s, 3 failed (http_500 3), 1.2 % cut, 2 s left`."""
    parts = [f"{label}: {progress.done}/{progress.planned}"]
    if progress.done > progress.resumed:
        parts.append(f"{progress.rate:.0f}/s")
    if progress.resumed:
        parts.append(f"{progress.resumed} from before")
    if progress.failed:
        causes = ", ".join(f"{cause} {count}" for cause, count in progress.failed.most_common(3))
        parts.append(f"{sum(progress.failed.values())} failed ({causes})")
    fresh = progress.done - progress.resumed
    if progress.truncated and fresh:
        parts.append(f"{100 * progress.truncated / fresh:.1f} % cut")
    if progress.seconds_left is not None:
        parts.append(f"{progress.seconds_left:.0f} s left")
    return ", ".join(parts)
