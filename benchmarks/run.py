"""`make bench`: the same job through evalkit, Inspect, lm-eval and a bare loop, in turns, into `RESULTS.md`.

The other harnesses live in a venv of their own, `.venv-bench`, which is made on first use.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TypeAlias

from benchmarks.clients import Bare, Client, Evalkit, Inspect, LmEval
from benchmarks.measure import ROOT, Command, Cost, clean_environment, fixed_reply_server, measure
from benchmarks.report import Measured, report

HERE = Path(__file__).resolve().parent
OTHERS = ROOT / ".venv-bench"
ROUNDS = {"bare loop": 9, "bare loop, uvloop": 9, "evalkit": 9, "lm-eval": 3, "Inspect": 2}
"""Rounds by client; the first rounds have all of them."""
LONG = ("bare loop", "bare loop, uvloop", "evalkit")
"""Clients that are quick enough for ten times the samples."""
LONG_ROUNDS = 2
WARM_UP = 100
"""Samples of the run of each client that comes first and is not counted."""
OURS = ("evalkit-rl", "aiohttp", "orjson", "uvloop")
THEIRS = ("inspect-ai", "openai", "httpx", "lm_eval", "torch")

Collected: TypeAlias = defaultdict[tuple[str, int], list[Cost]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse, measure, write."""
    options = _options(arguments)
    if not {"bare loop", "evalkit"} <= set(options.clients) <= set(ROUNDS):
        sys.exit(f"--clients: bare loop and evalkit, and of the others: {', '.join(ROUNDS)}")
    make_venv()
    sizes, long_sizes = ((200, 1000), (1000, 5000)) if options.quick else ((1000, 5000), (5000, 50_000))
    rounds = {name: options.rounds or (1 if options.quick else ROUNDS[name]) for name in options.clients}
    (ROOT / "build").mkdir(exist_ok=True)  # on a disk, where a temporary folder may be in memory and fsync free
    with tempfile.TemporaryDirectory(prefix="bench-", dir=ROOT / "build") as scratch, fixed_reply_server() as url:
        clients = _clients(Path(scratch) / "templates", options.clients)
        found = _measure(clients, rounds, sizes, long_sizes, Path(scratch), url)
    text = report(found, clients, versions())
    print(text)
    if not options.quick:
        (HERE / "RESULTS.md").write_text(text, encoding="utf-8")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small jobs, one round, printed only")
    parser.add_argument("--rounds", type=int, help="of every client")
    parser.add_argument("--clients", nargs="+", default=list(ROUNDS), metavar="NAME", help="only these")
    return parser.parse_args(arguments)


def make_venv() -> None:
    """Make `.venv-bench` with the pinned versions; nothing where it stands."""
    requirements, stamp = HERE / "requirements.txt", OTHERS / "installed"
    if stamp.exists() and stamp.read_bytes() == requirements.read_bytes():
        return
    print("making .venv-bench with Inspect and lm-eval: minutes", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", str(OTHERS)], check=True)
    pip = [str(OTHERS / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--requirement", str(requirements)], check=True)
    stamp.write_bytes(requirements.read_bytes())


def _clients(templates: Path, names: Sequence[str]) -> list[Client]:
    binaries = OTHERS / "bin"
    every: list[Client] = [
        Bare("asyncio"),
        Bare("uvloop"),
        Evalkit(templates),
        LmEval(binaries),
        Inspect(binaries),
    ]
    return [client for client in every if client.name in names]


def _measure(
    clients: Sequence[Client],
    rounds: dict[str, int],
    sizes: tuple[int, int],
    long_sizes: tuple[int, int],
    scratch: Path,
    url: str,
) -> Measured:
    """All rounds, then the long jobs and `--help`."""
    start, load = time.monotonic(), os.getloadavg()[0]
    costs: Collected = defaultdict(list)
    for client in clients:
        run_once(client, WARM_UP, scratch, url)  # byte code and disk caches; not counted
    for number in range(max(rounds.values())):
        now = [client for client in clients if number < rounds[client.name]]
        _round(now, sizes, scratch, url, costs)
    long_costs: Collected = defaultdict(list)
    for _ in range(LONG_ROUNDS):
        _round([client for client in clients if client.name in LONG], long_sizes, scratch, url, long_costs)
    help_walls = [_help(scratch) for _ in range(11)][1:]
    return Measured(sizes, costs, long_sizes, long_costs, help_walls, load, time.monotonic() - start)


def _round(clients: Sequence[Client], sizes: tuple[int, int], scratch: Path, url: str, costs: Collected) -> None:
    for size in sizes:
        for client in clients:
            costs[client.name, size].append(run_once(client, size, scratch, url))


def run_once(client: Client, size: int, scratch: Path, url: str) -> Cost:
    """One run in a fresh folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = Path(name)
        client.prepare(size, folder)
        cost = measure(client.command(size, folder, url))
        client.check(size, folder)
    what = f"{client.name}, {size:,} samples: CPU {cost.cpu:.2f} s, wall {cost.wall:.2f} s"
    print(f"{what}, peak {cost.peak / 2**20:.0f} MiB", file=sys.stderr, flush=True)
    return cost


def _help(scratch: Path) -> float:
    evalkit = str(Path(sys.executable).with_name("evalkit"))
    return measure(Command([evalkit, "--help"], scratch, clean_environment())).wall


def versions() -> dict[str, str]:
    """Versions of what was measured, from both environments."""
    ask = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    argv = [str(OTHERS / "bin" / "python"), "-c", ask, *THEIRS]
    theirs = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split()
    return {**{name: metadata.version(name) for name in OURS}, **dict(zip(THEIRS, theirs, strict=True))}


if __name__ == "__main__":
    main()
