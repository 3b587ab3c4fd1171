"""A workspace with the example's items, the example's checkpoint as training left it, and real engines to run it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from evalkit.api import build_split, freeze
from evalkit.workspace import create_workspace

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "examples" / "arithmetic-grpo"
CHECKPOINT = EXAMPLE / "checkpoints" / "hackable-s0-step-240"
EVALKIT = Path(sys.executable).with_name("evalkit")
ENVIRONMENT = {
    **os.environ,
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(REPOSITORY),
    "VLLM_NO_USAGE_STATS": "1",
}
EAGER = ("--engine-arg", "enforce_eager=true")
"""Compiling costs a tiny model more than it gives."""
ITEMS = 500
PROTOCOL = """\
name: {name}
version: 1
prompt:
  messages: [{{role: user, content: "{{{{ question }}}}"}}]
  chat_template: none
  bos: once
  bos_token: "<s>"
sampling: {sampling}
limits: {{error_budget: 0}}
target: "{{{{ answer }}}}"
reward: {{components: {{correct: {{use: number, role: correctness}}}}}}
success: {{component: correct}}
"""
SAMPLING = {
    "greedy": "{max_tokens: 48, temperature: 0}",
    "sampled": "{max_tokens: 48, temperature: 1, n: 4, seed: 3}",
    "penalised": '{max_tokens: 48, temperature: 0, repetition_penalty: 1.2, frequency_penalty: 0.1, stop: ["nk"]}',
}


def as_training_left_it(folder: Path) -> Path:
    """The checkpoint with a trainer's state beside it, which nobody may open, and sampling defaults that must not leak.

    Opening a named pipe that nobody writes to waits for ever, so an engine that looks into one hangs.
    """
    shutil.copytree(CHECKPOINT, folder)
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin"):
        os.mkfifo(folder / name)
    path = folder / "generation_config.json"
    leaking = {"repetition_penalty": 1.3, "temperature": 0.3, "top_k": 5, "do_sample": True, "max_new_tokens": 3}
    own = json.loads(path.read_text())
    del own["_from_model_config"]  # with it, libraries take the file for a copy of config.json and pass over it
    path.write_text(json.dumps({**own, **leaking}))
    return folder


@dataclass(frozen=True, slots=True)
class Done:
    """A command that ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Lab:
    """A workspace."""

    root: Path

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [str(EVALKIT), *arguments], cwd=self.root, env=ENVIRONMENT, stdout=pipe, stderr=pipe, text=True
        )

    def evalkit(self, *arguments: str, timeout: float = 400) -> Done:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=timeout)
        return Done(process.returncode, out, err)

    def run(self, protocol: str, model: str, *flags: str, split: str = "dev") -> pl.DataFrame:
        """Samples of a run, by item and trial."""
        done = self.evalkit("run", f"{protocol}@1", "--split", split, "--model", model, "--json", *flags)
        assert done.code == 0, done.err
        (summary,) = json.loads(done.out)
        return self.samples(summary["run_id"])

    def folder(self, run_id: str) -> Path:
        return self.root / ".evalkit" / "runs" / run_id

    def samples(self, run_id: str) -> pl.DataFrame:
        return pl.read_parquet(self.folder(run_id) / "samples").sort("item_id", "trial")

    def runs(self) -> list[Path]:
        return sorted((self.root / ".evalkit" / "runs").iterdir())

    def journaled(self, run: Path) -> list[str]:
        """Whole lines of a run's journal."""
        path = run / "journal.jsonl"
        return path.read_text().split("\n")[:-1] if path.is_file() else []


def new_lab(root: Path) -> Lab:
    home = create_workspace(root)
    for name, sampling in SAMPLING.items():
        path = home.protocols / f"{name}.yaml"
        path.write_text(PROTOCOL.format(name=name, sampling=sampling))
        freeze(path, home)
    sizes = {"smoke": 20, "dev": ITEMS, "public": 60}
    build_split(
        EXAMPLE / "items.jsonl",
        name="arithmetic",
        sizes=sizes,
        cluster_by="cluster",
        id_field="id",
        text_fields=["question"],
        secret=EXAMPLE / "DEMO-SECRET.txt",
        workspace=home,
    )
    return Lab(root)


@contextmanager
def vllm_server(folder: Path, log: Path) -> Iterator[str]:
    """Model reference of a real vLLM server on loopback, ended on leaving."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)]
    flags = ["--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32"]
    with open(log, "wb") as file:
        process = subprocess.Popen(
            [*command, *flags, "--enforce-eager"],
            env=ENVIRONMENT,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", process, log)
        yield f"openai:tiny@http://127.0.0.1:{port}/v1"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 240
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            assert process.poll() is None, log.read_text()[-2000:]
            time.sleep(0.5)
    raise AssertionError(f"no server: {log.read_text()[-2000:]}")


def ask(url: str, body: dict[str, Any]) -> dict[str, Any]:
    """One request to a server, as a client without evalkit would make it."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return dict(json.load(response))


def descendants(pid: int) -> list[int]:
    """Process ids of everything a process has started and that still runs."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        if int(parent) == pid and state != "Z":
            found += [int(entry.name), *descendants(int(entry.name))]
    return found


def alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
