"""What a command costs: CPU of its whole tree, wall time, peak memory.

Only the standard library: on Linux the peak of a child begins at that of the process that started it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024


class CommandFailed(RuntimeError):
    """A command ended with another code than 0; the message holds its last lines."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one whole command took, from its start to its end."""

    cpu: float
    """Seconds, user and system, of the process and of its children that were waited for."""
    wall: float
    """Seconds."""
    peak: int
    """Bytes resident at the highest, of the largest process of the tree."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to start."""

    argv: Sequence[str]
    folder: Path
    """Where it starts, and where what it prints goes: `stdout.txt` and `stderr.txt`."""
    environment: Mapping[str, str]
    """All of it: nothing is inherited."""


def clean_environment(**more: str) -> dict[str, str]:
    """The environment that every client gets: no proxies, no keys, no settings of Python or of the clients."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, **more}


def measure(command: Command) -> Cost:
    """Run a command to its end.

    Raises:
        CommandFailed: it ended with another code than 0.
    """
    out, err = command.folder / "stdout.txt", command.folder / "stderr.txt"
    with open(out, "wb") as stdout, open(err, "wb") as stderr:
        start = time.perf_counter()
        process = subprocess.Popen(
            command.argv,
            cwd=command.folder,
            env=command.environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        last = "\n".join((err.read_text(errors="replace") + out.read_text(errors="replace")).splitlines()[-20:])
        raise CommandFailed(f"{' '.join(command.argv)}: exit code {process.returncode}\n{last}")
    return Cost(used.ru_utime + used.ru_stime, wall, used.ru_maxrss * MAXRSS_UNIT)


@contextmanager
def fixed_reply_server() -> Iterator[str]:
    """The server in a process of its own, which no figure counts; the URL up to and with `/v1`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.server"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.stdin.close()
        process.wait(10)
