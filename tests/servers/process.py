"""Starting and asking the test server."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("openai_server.py")
JUDGE = Path(__file__).with_name("judge_server.py")


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server process on loopback."""

    port: int
    process: subprocess.Popen[str]

    @property
    def model(self) -> str:
        """Model reference for `--model`."""
        return f"openai:tiny@http://127.0.0.1:{self.port}/v1"

    @property
    def judge(self) -> str:
        """Reference of the judge that `JUDGE` serves."""
        return f"openai:judge@http://127.0.0.1:{self.port}/v1"

    def control(self, **changes: Any) -> dict[str, Any]:
        """Change its behaviour; what it has seen so far."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/control", json.dumps(changes).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            found: dict[str, Any] = json.load(response)
            return found


@contextmanager
def serve(program: Path = PROGRAM, **behaviour: Any) -> Iterator[RunningServer]:
    """A server with this behaviour, ended on leaving; it also ends when this process does."""
    process = subprocess.Popen(
        [sys.executable, str(program), json.dumps(behaviour)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield RunningServer(int(process.stdout.readline()), process)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream:
                stream.close()
