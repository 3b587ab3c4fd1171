"""Commands in forked processes that share their imports: for tests that run many which each do little."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _server() -> subprocess.Popen[str]:
    """One for the tests of a process, started with the first command."""
    program = [sys.executable, str(Path(__file__).with_name("fork_runner.py"))]
    process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(_stop, process)
    return process


def _stop(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait(60)


def forked(folder: Path, *arguments: str) -> dict[str, Any]:
    """`evalkit ARGUMENTS` in a folder, with its `code`, `out` and `err`."""
    process = _server()
    assert process.stdin is not None
    assert process.stdout is not None
    hexed = [os.fsencode(argument).hex() for argument in arguments]
    process.stdin.write(json.dumps({"arguments": hexed, "cwd": str(folder)}) + "\n")
    process.stdin.flush()
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    return answer
