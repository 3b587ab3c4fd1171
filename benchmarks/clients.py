"""The clients: how each gets a fresh folder with the job in it, what is started there, and whether it did the job.

Everything that is not the job itself (a workspace, a frozen protocol, a split, an items file) is made before the clock
starts. `check` reads what the client says it did: a client that skipped, lost or misjudged samples has no figure.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Protocol

from benchmarks.job import write_items
from benchmarks.measure import ROOT, Command, clean_environment

HERE = Path(__file__).resolve().parent
CONCURRENCY = "64"


class JobNotDone(RuntimeError):
    """A client ended well and says that it did something else than the job."""


class Client(Protocol):
    """One way to do the job."""

    name: str
    """In the tables."""
    does: str
    """What it does with a sample, and what it does not, in a line."""

    def prepare(self, n: int, folder: Path) -> None:
        """Put the job of `n` items into an empty folder."""
        ...

    def command(self, n: int, folder: Path, url: str) -> Command:
        """What is timed."""
        ...

    def check(self, n: int, folder: Path) -> None:
        """Raise `JobNotDone` where it did not answer and score `n` samples."""
        ...


class Bare:
    """The loop of `bare.py`."""

    def __init__(self, loop: str) -> None:
        self.name = "bare loop" if loop == "asyncio" else f"bare loop, {loop}"
        self._loop = loop
        self.does = f"aiohttp and orjson on {loop}: sends, parses and counts; no template, no score, nothing kept"

    def prepare(self, n: int, folder: Path) -> None:
        """It makes its prompts itself."""

    def command(self, n: int, folder: Path, url: str) -> Command:
        argv = [sys.executable, "-m", "benchmarks.bare", url, str(n), self._loop]
        return Command(argv, folder, clean_environment(PYTHONPATH=str(ROOT)))

    def check(self, n: int, folder: Path) -> None:
        """It asserts its count itself."""


class Evalkit:
    """`evalkit run` in a workspace with a frozen protocol and a split; the workspace of a size is made once."""

    name = "evalkit"
    does = (
        "renders the protocol's template, derives ids and seeds, sends every knob, fsyncs a journal of completions in "
        "batches, scores in a killable process and journals the scores, records the look in the ledger, writes checked "
        "Parquet tables with side metrics, scores the floor, and prints means with intervals as JSON"
    )

    def __init__(self, templates: Path) -> None:
        self._templates = templates
        self._evalkit = str(Path(sys.executable).with_name("evalkit"))

    def prepare(self, n: int, folder: Path) -> None:
        template = self._templates / str(n)
        if not template.exists():
            self._make_workspace(n, template)
        shutil.copytree(template, folder, dirs_exist_ok=True)

    def _make_workspace(self, n: int, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._do(folder, "init")
        shutil.copy(HERE / "protocol.yaml", folder / "protocols" / "farmer.yaml")
        self._do(folder, "protocol", "freeze", "protocols/farmer.yaml")
        write_items(folder / "items.jsonl", n)
        fields = ["--id", "id", "--cluster-by", "none", "--text", "id"]  # the questions are alike on purpose
        self._do(folder, "split", "build", "items.jsonl", "--name", "farmer", *fields, "--sizes", f"dev={n}")

    def _do(self, folder: Path, *arguments: str) -> None:
        subprocess.run([self._evalkit, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)

    def command(self, n: int, folder: Path, url: str) -> Command:
        model = ["--model", f"openai:fixed@{url}", "--concurrency", CONCURRENCY]
        return Command(
            [self._evalkit, "run", "farmer@1", "--split", "dev", *model, "--json"], folder, clean_environment()
        )

    def check(self, n: int, folder: Path) -> None:
        (summary,) = json.loads((folder / "stdout.txt").read_bytes())
        said = summary["planned"], summary["clean"], summary["success"]["estimate"]["value"]
        journal = _lines(next((folder / ".evalkit").glob("runs/*/journal.jsonl")))
        _expect(self.name, (*said, journal), (n, n, 1.0, n))


class Inspect:
    """`inspect eval` with its OpenAI-compatible provider, and the options that make it fastest."""

    name = "Inspect"
    options = ("--display", "none", "--no-log-realtime", "--no-score-display", "--no-fail-on-error", "--no-log-images")
    does = (
        "one message, `generate()`, `match(numeric=True)`; all samples, compressed, in one `.eval` log that is written "
        "in batches and not fsynced; run as `inspect eval … " + " ".join(options) + "`"
    )

    def __init__(self, binaries: Path) -> None:
        self._inspect = str(binaries / "inspect")

    def prepare(self, n: int, folder: Path) -> None:
        write_items(folder / "items.jsonl", n)
        shutil.copy(HERE / "inspect_task.py", folder / "inspect_task.py")

    def command(self, n: int, folder: Path, url: str) -> Command:
        limits = ["--max-connections", CONCURRENCY, "--max-samples", CONCURRENCY]
        sampling = ["--max-tokens", "256", "--temperature", "0", "--seed", "0"]
        argv = [self._inspect, "eval", "inspect_task.py", "--model", "openai-api/local/fixed", *limits, *sampling]
        keys = {"LOCAL_API_KEY": "none", "LOCAL_BASE_URL": url, "XDG_DATA_HOME": str(folder / "data")}
        return Command([*argv, *self.options, "--log-dir", "logs"], folder, clean_environment(**keys))

    def check(self, n: int, folder: Path) -> None:
        (log,) = (folder / "logs").glob("*.eval")
        with zipfile.ZipFile(log) as archive:
            samples = sum(name.startswith("samples/") for name in archive.namelist())
        dump = [self._inspect, "log", "dump", "--header-only", str(log)]
        header = json.loads(subprocess.run(dump, env=clean_environment(), check=True, capture_output=True).stdout)
        results = header["results"]
        accuracy = results["scores"][0]["metrics"]["accuracy"]["value"]
        found = header["status"], results["completed_samples"], accuracy, samples
        _expect(self.name, found, ("success", n, 1.0, n))


class LmEval:
    """`lm_eval` with `local-chat-completions`, samples logged."""

    name = "lm-eval"
    does = (
        "renders its template, generates, extracts by regex, `exact_match` with a bootstrap; keeps everything in "
        "memory and writes JSON files at the end: no sample is durable before the last one is done"
    )

    def __init__(self, binaries: Path) -> None:
        self._lm_eval = str(binaries / "lm_eval")

    def prepare(self, n: int, folder: Path) -> None:
        write_items(folder / "items.jsonl", n)
        shutil.copytree(HERE / "lmeval", folder / "tasks")

    def command(self, n: int, folder: Path, url: str) -> Command:
        model = {
            "model": "fixed",
            "base_url": f"{url}/chat/completions",
            "num_concurrent": CONCURRENCY,
            "tokenizer_backend": "None",
            "max_retries": "1",
        }
        arguments = ",".join(f"{key}={value}" for key, value in model.items())
        argv = [self._lm_eval, "--model", "local-chat-completions", "--model_args", arguments, "--tasks", "farmer"]
        more = ["--include_path", "tasks", "--apply_chat_template", "--log_samples", "--output_path", "out"]
        offline = dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"), "1")
        keys = {"OPENAI_API_KEY": "none", "HF_HOME": str(folder / "hf"), **offline}
        return Command([*argv, *more], folder, clean_environment(**keys))

    def check(self, n: int, folder: Path) -> None:
        (results,) = folder.glob("out/**/results_*.json")
        (samples,) = folder.glob("out/**/samples_*.jsonl")
        score = json.loads(results.read_bytes())["results"]["farmer"]["exact_match,number"]
        _expect(self.name, (score, _lines(samples)), (1.0, n))


def _lines(path: Path) -> int:
    """Counted one by one: what this process holds, the peaks of later clients begin with."""
    with open(path, "rb") as file:
        return sum(1 for _ in file)


def _expect(name: str, found: tuple[object, ...], wanted: tuple[object, ...]) -> None:
    if found != wanted:
        raise JobNotDone(f"{name}: says {found} where {wanted} belongs")
