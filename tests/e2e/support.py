"""A workspace of its own for every test, driven through the real command in processes of its own."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalkit.api import build_split, freeze
from evalkit.ledger import Look
from evalkit.workspace import Workspace, create_workspace

EVALKIT = Path(sys.executable).with_name("evalkit")
PROTOCOL = """\
name: arithmetic
version: 1
prompt:
  messages: [{role: user, content: "{{ question }}"}]
  chat_template: none
  bos: never
sampling: {max_tokens: 16, temperature: 0.7, n: 4, seed: 11}
limits: {request_timeout: 5, retries: 10, error_budget: 0}
target: "{{ answer }}"
reward:
  components:
    correct: {use: number, role: correctness, weight: 1}
    brief: {use: conciseness, role: conciseness, weight: 0.25, params: {budget: 4, limit: 16}}
success: {component: correct, at_least: 1}
metrics: [{name: mean}, {name: pass@k, k: [1, 4]}, {name: maj@k, k: [3]}]
"""
SIZES = {"smoke": 4, "dev": 60, "public": 20, "private": 20, "audit": 20}
ADVICE = "no preflight of "
PLANNED = 240
"""Samples of a run on dev: 60 items, 4 trials each."""


def sums(largest: int = 12) -> list[dict[str, Any]]:
    """Items `a+b=`, both orders in one cluster."""
    return [
        {"id": f"{a}+{b}", "question": f"{a}+{b}=", "answer": str(a + b), "cluster": f"{min(a, b)}+{max(a, b)}"}
        for a in range(largest)
        for b in range(largest)
    ]


def write_items(path: Path, items: Sequence[Mapping[str, Any]]) -> Path:
    """A JSONL file."""
    path.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
    return path


@dataclass(frozen=True, slots=True)
class Done:
    """What a command ended in."""

    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line on stderr, beside the advice that a run gives once it makes completions."""
        lines = [line for line in self.err.splitlines() if not line.startswith(ADVICE)]
        assert len(lines) == 1, f"exit {self.code}, stderr:\n{self.err}"
        return lines[0]


@dataclass(frozen=True, slots=True)
class Bench:
    """A workspace."""

    root: Path

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.root)

    def start(self, *arguments: str, **popen: Any) -> subprocess.Popen[bytes]:
        """Start `evalkit ARGUMENTS` here."""
        settings: dict[str, Any] = {"cwd": self.root, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **popen}
        return subprocess.Popen([str(EVALKIT), *arguments], **settings)

    def evalkit(self, *arguments: str, timeout: float = 120, **popen: Any) -> Done:
        """Run `evalkit ARGUMENTS` here to its end."""
        return finish(self.start(*arguments, **popen), timeout)

    def run(self, model: str, *more: str, split: str = "dev", **popen: Any) -> Done:
        """Run the protocol on dev."""
        return self.evalkit("run", "arithmetic@1", "--split", split, "--model", model, *more, **popen)

    def refused(self, *arguments: str, code: int = 2, by: Forked | None = None, **popen: Any) -> str:
        """The line of a command that is refused and leaves every file as it was."""
        before = self.files()
        done = by(self, *arguments) if by else self.evalkit(*arguments, **popen)
        line = done.line
        assert done.code == code, f"exit {done.code}: {line}"
        assert done.out == ""
        assert self.files() == before
        return line

    def protocol(self, text: str, file: str = "changed.yaml") -> None:
        """Write and freeze a protocol."""
        path = self.root / "protocols" / file
        path.write_text(text, encoding="utf-8")
        freeze(path, self.workspace)

    def split(self, items: Sequence[Mapping[str, Any]], name: str, sizes: Mapping[str, int]) -> None:
        """Build another split set."""
        source = write_items(self.root / f"{name}.jsonl", items)
        build_split(source, name=name, sizes=sizes, cluster_by="cluster", id_field="id", workspace=self.workspace)

    @property
    def the_run(self) -> Path:
        """The folder of the only run."""
        found = [path for path in self.workspace.runs.glob("*") if (path / "run.json").is_file()]
        assert len(found) == 1, found
        return found[0]

    def journal(self, run: Path | None = None) -> list[dict[str, Any]]:
        """The journaled completions of a run."""
        text = ((run or self.the_run) / "journal.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.split("\n") if line]

    def tables(self, run: Path | None = None) -> dict[str, bytes]:
        """The tables of a run: what must not depend on how it came about."""
        folder = run or self.the_run
        paths = [*folder.glob("samples/*"), *folder.glob("scores/*/*.parquet"), *folder.glob("scores/*/floor.json")]
        return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(paths)}

    def looks(self) -> list[Look]:
        """The looks in the ledger."""
        from evalkit.ledger import Ledger

        return Ledger(self.workspace.ledger).looks()

    def files(self) -> dict[str, str]:
        """Digest of every file but SQLite's own scratch files."""
        return {
            str(path.relative_to(self.root)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and not path.name.endswith(("-wal", "-shm"))
        }


Forked = Callable[..., Done]
"""`(bench, *arguments)`: the command in a forked process."""


def new_bench(root: Path) -> Bench:
    """A workspace with the protocol frozen and the split built."""
    bench = Bench(root)
    create_workspace(root)
    bench.protocol(PROTOCOL, "arithmetic.yaml")
    bench.split(sums(), "sums", SIZES)
    return bench


def copy_of(bench: Bench, root: Path) -> Bench:
    """The same workspace once more: same split secret, so the same run ids."""
    shutil.copytree(bench.root, root)
    return Bench(root)


def finish(process: subprocess.Popen[bytes], timeout: float = 120) -> Done:
    """Wait for a command; one that does not end is killed, and the test fails."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"did not end within {timeout} s; stderr: {err.decode()}") from None
    return Done(process.returncode, (out or b"").decode(), (err or b"").decode())


def kill(process: subprocess.Popen[bytes]) -> bool:
    """SIGKILL, as the out-of-memory killer would; whether it was still running."""
    running = process.poll() is None
    if running:
        os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    return running
