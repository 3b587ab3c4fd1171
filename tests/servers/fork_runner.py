"""`python fork_runner.py < JOBS`: run many commands, each in a forked process of its own, imports shared.

A job is a line of JSON, `{"arguments": […], "cwd": …}`; the answer is `{"code": …, "out": …, "err": …}`. A command that takes
longer than `PATIENCE` gets the Ctrl-C that a user would give it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from evalkit import api, cli

PATIENCE = 20.0
assert api


def run(arguments: list[str], cwd: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        child = os.fork()
        if child == 0:
            command(arguments, cwd, out, err)
        code = os.waitstatus_to_exitcode(wait(child))
        return {"code": code, "out": text(out), "err": text(err)}


def command(arguments: list[str], cwd: str, out: Path, err: Path) -> None:
    """In the child: become `evalkit ARGUMENTS`."""
    code = 70
    try:
        os.chdir(cwd)
        for file, number in ((out, 1), (err, 2)):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.argv = ["evalkit", *arguments]
        cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - what a user would see as a traceback
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def wait(child: int) -> int:
    start, asked = time.monotonic(), False
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        if not asked and time.monotonic() - start > PATIENCE:
            os.kill(child, signal.SIGINT)
            asked = True
        if time.monotonic() - start > 3 * PATIENCE:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.005)


def text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace") if path.exists() else ""


def main() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        arguments = [os.fsdecode(bytes.fromhex(argument)) for argument in job["arguments"]]
        print(json.dumps(run(arguments, job["cwd"])), flush=True)


if __name__ == "__main__":
    main()
