"""A killed run and the same command again come to what one undisturbed run comes to, byte for byte."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.support import PLANNED, PROTOCOL, Bench, copy_of, finish, kill
from tests.servers.process import RunningServer, serve

pytestmark = pytest.mark.slow
KILLS = 60
CRASH_RUNNER = Path(__file__).with_name("crash_runner.py")


@dataclass(frozen=True, slots=True)
class Undisturbed:
    """A run that was left alone."""

    server: RunningServer
    seconds: float
    tables: dict[str, bytes]
    run_id: str


@pytest.fixture(scope="session")
def undisturbed(template: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    with serve(latency=0.04) as server:
        bench = copy_of(template, tmp_path_factory.mktemp("undisturbed") / "ws")
        start = time.monotonic()
        done = finish(started(bench, server))
        seconds = time.monotonic() - start
        assert done.code == 0, done.err
        yield Undisturbed(server, seconds, bench.tables(), bench.the_run.name)


def started(bench: Bench, server: RunningServer) -> subprocess.Popen[bytes]:
    return bench.start(*command(server))


def command(server: RunningServer) -> list[str]:
    return ["run", "arithmetic@1", "--split", "dev", "--model", server.model, "--concurrency", "8"]


def whole_lines(path: Path) -> bytes:
    data = path.read_bytes() if path.exists() else b""
    return data[: data.rfind(b"\n") + 1]


def journals(bench: Bench, run_id: str) -> dict[str, bytes]:
    folder = bench.workspace.runs / run_id
    return {str(path.relative_to(folder)): whole_lines(path) for path in folder.rglob("journal.jsonl")}


def resumed(bench: Bench, undisturbed: Undisturbed) -> None:
    """Run the same command to its end, and hold everything against the undisturbed run."""
    before = journals(bench, undisturbed.run_id)
    done = finish(started(bench, undisturbed.server))
    assert done.code == 0, done.err
    assert bench.the_run.name == undisturbed.run_id
    assert bench.tables() == undisturbed.tables
    after = journals(bench, undisturbed.run_id)
    for name, lines in before.items():
        assert after[name].startswith(lines), f"{name}: acknowledged lines have changed"
    times = Counter(record["sample_id"] for record in bench.journal())
    assert len(times) == PLANNED
    assert set(times.values()) == {1}
    assert len(bench.looks()) == 1


@pytest.mark.parametrize("moment", range(KILLS))
def test_killed_at_a_random_moment_and_resumed_the_tables_are_the_same(
    moment: int, bench: Bench, undisturbed: Undisturbed
) -> None:
    process = started(bench, undisturbed.server)
    time.sleep((moment + random.Random(moment).random()) / KILLS * undisturbed.seconds)
    kill(process)
    resumed(bench, undisturbed)


@pytest.mark.parametrize("seed", range(4))
def test_killed_again_and_again_it_still_gets_there(seed: int, bench: Bench, undisturbed: Undisturbed) -> None:
    chance = random.Random(1000 + seed)
    for _ in range(8):
        process = started(bench, undisturbed.server)
        time.sleep(chance.uniform(0.3, 1.0) * undisturbed.seconds)
        kill(process)
    resumed(bench, undisturbed)


POINTS = [
    ("before-run-json", 1), ("after-run-json", 1),
    ("half-a-line", 1), ("half-a-line", 3), ("before-fsync", 1), ("before-fsync", 4), ("after-append", 1),
    ("after-append", 3), ("half-a-score", 1), ("half-a-score", 2), ("after-score", 1), ("after-score", 2),
    ("before-floor", 1), ("before-tables", 1), ("between-parts", 2), ("between-parts", 6), ("before-part-moved", 1),
    ("after-part-moved", 2), ("after-part-moved", 6), ("between-tables", 1), ("between-scores-and-floor", 1),
    ("after-floor", 1), ("before-lock-kept", 1), ("before-done", 1), ("after-done", 1), ("before-look", 1),
    ("after-look", 1), ("before-print", 1),
]  # fmt: skip


def crash(bench: Bench, server: RunningServer, point: str, number: int) -> None:
    runner = [sys.executable, str(CRASH_RUNNER), point, str(number), *command(server)]
    done = subprocess.run(runner, cwd=bench.root, capture_output=True, timeout=120, check=False)
    assert done.returncode == -9, f"{point} {number} was never passed: {done.stderr.decode()}"
    assert done.stdout == b"", "a result was shown"


@pytest.mark.parametrize(("point", "number"), POINTS, ids=[f"{point}-{number}" for point, number in POINTS])
def test_killed_at_a_named_point_and_resumed_the_tables_are_the_same(
    point: str, number: int, bench: Bench, undisturbed: Undisturbed
) -> None:
    crash(bench, undisturbed.server, point, number)
    assert len(bench.looks()) == (1 if point in ("after-look", "before-print") else 0)
    resumed(bench, undisturbed)


def test_killed_while_old_tables_make_way_for_new_ones(bench: Bench, undisturbed: Undisturbed) -> None:
    for point, number in (
        ("between-scores-and-floor", 1),
        ("old-part-gone", 2),
        ("old-part-gone", 5),
        ("after-part-moved", 3),
    ):
        crash(bench, undisturbed.server, point, number)
    resumed(bench, undisturbed)


def test_killed_while_scoring_again_completions_stay_and_scores_come_out_the_same(
    bench: Bench, undisturbed: Undisturbed
) -> None:
    bench.protocol(AGAIN)
    other = copy_of(bench, bench.root.with_name("other"))
    for place in (bench, other):
        assert finish(started(place, undisturbed.server)).code == 0
    samples = {name: data for name, data in bench.tables().items() if name.startswith("samples/")}
    assert other.evalkit("score", other.the_run.name, "--protocol", "arithmetic@2").code == 0
    score = ["score", bench.the_run.name, "--protocol", "arithmetic@2"]
    for point, number in (("half-a-score", 1), ("after-score", 2), ("between-scores-and-floor", 1), ("after-floor", 1)):
        runner = [sys.executable, str(CRASH_RUNNER), point, str(number), *score]
        assert subprocess.run(runner, cwd=bench.root, capture_output=True, timeout=120, check=False).returncode == -9
    assert bench.evalkit(*score).code == 0
    assert bench.tables() == other.tables()
    assert {name: data for name, data in bench.tables().items() if name.startswith("samples/")} == samples
    assert len(bench.looks()) == 2


AGAIN = PROTOCOL.replace("version: 1", "version: 2").replace("weight: 1}", "weight: 1, params: {tolerance: 1}}")
