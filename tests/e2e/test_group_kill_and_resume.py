"""Killed and resumed, a run whose rewards are relative to their groups has the tables of an undisturbed one.

A group that were scored in other company, with a sample too few or too many, would show in its values.
"""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalkit.workspace import create_workspace
from tests.e2e.support import PLANNED, PROTOCOL, SIZES, Bench, copy_of, finish, kill, sums
from tests.e2e.test_kill_and_resume import CRASH_RUNNER, Undisturbed, crash, started
from tests.servers.process import serve

pytestmark = pytest.mark.slow
KILLS = 12
FUNCTION = '''
def relative(prompts, completions, target, **columns):
    """A digest of the completion's company, in its order."""
    assert len(set(prompts)) == 1
    company = sum((at + 1) * len(text) + sum(map(ord, text)) for at, text in enumerate(completions))
    return [float(company + 1000 * len(completions) + at) for at, _ in enumerate(completions)]
'''
GROUPED = PROTOCOL.replace(
    "    brief: {use: conciseness, role: conciseness, weight: 0.25, params: {budget: 4, limit: 16}}\n",
    "    rel: {use: 'trl:rel.py:relative', role: other, weight: 0.5, params: {prompt_field: question}}\n",
)


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    bench = Bench(tmp_path_factory.mktemp("grouped") / "ws")
    create_workspace(bench.root)
    (bench.root / "rel.py").write_text(FUNCTION)
    assert GROUPED != PROTOCOL
    bench.protocol(GROUPED, "arithmetic.yaml")
    bench.split(sums(), "sums", SIZES)
    return bench


@pytest.fixture
def bench(grouped: Bench, tmp_path: Path) -> Bench:
    return copy_of(grouped, tmp_path / "ws")


@pytest.fixture(scope="module")
def undisturbed(grouped: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    with serve(latency=0.04) as server:
        bench = copy_of(grouped, tmp_path_factory.mktemp("undisturbed") / "ws")
        start = time.monotonic()
        done = finish(started(bench, server))
        seconds = time.monotonic() - start
        assert done.code == 0, done.err
        assert len(bench.journal()) == PLANNED
        yield Undisturbed(server, seconds, bench.tables(), bench.the_run.name)


def resumed(bench: Bench, undisturbed: Undisturbed) -> None:
    done = finish(started(bench, undisturbed.server))
    assert done.code == 0, done.err
    assert bench.the_run.name == undisturbed.run_id
    assert bench.tables() == undisturbed.tables
    [journal] = bench.the_run.glob("scores/*/journal.jsonl")
    scored = [json.loads(line)["sample_id"] for line in journal.read_text().splitlines()]
    assert len(scored) == len(set(scored)) == PLANNED


def test_the_undisturbed_run_scored_whole_groups(grouped: Bench, undisturbed: Undisturbed, tmp_path: Path) -> None:
    bench = copy_of(grouped, tmp_path / "ws")
    assert finish(started(bench, undisturbed.server)).code == 0
    assert bench.tables() == undisturbed.tables
    assert len(values_of(bench)) == PLANNED
    assert relative_values(bench) == values_of(bench)


@pytest.mark.parametrize("moment", range(KILLS))
def test_killed_at_a_random_moment_and_resumed(moment: int, bench: Bench, undisturbed: Undisturbed) -> None:
    process = started(bench, undisturbed.server)
    time.sleep((moment + random.Random(moment).random()) / KILLS * undisturbed.seconds)
    kill(process)
    resumed(bench, undisturbed)


@pytest.mark.parametrize("seed", range(1))
def test_killed_again_and_again(seed: int, bench: Bench, undisturbed: Undisturbed) -> None:
    chance = random.Random(1000 + seed)
    for _ in range(6):
        process = started(bench, undisturbed.server)
        time.sleep(chance.uniform(0.3, 1.0) * undisturbed.seconds)
        kill(process)
    resumed(bench, undisturbed)


POINTS = [
    ("half-a-line", 1), ("half-a-line", 3), ("after-append", 1), ("after-append", 3), ("half-a-score", 1),
    ("half-a-score", 2), ("after-score", 1), ("after-score", 3), ("before-floor", 1), ("before-tables", 1),
    ("between-scores-and-floor", 1), ("after-floor", 1), ("before-done", 1),
]  # fmt: skip


@pytest.mark.parametrize(("point", "number"), POINTS, ids=[f"{point}-{number}" for point, number in POINTS])
def test_killed_at_a_named_point_and_resumed(point: str, number: int, bench: Bench, undisturbed: Undisturbed) -> None:
    crash(bench, undisturbed.server, point, number)
    resumed(bench, undisturbed)


FAILING = GROUPED.replace("retries: 10, error_budget: 0", "retries: 0, error_budget: 0.5")


@pytest.mark.parametrize(
    ("point", "number"),
    [("after-append", 2), ("half-a-score", 1), ("after-score", 2), ("before-floor", 1), ("before-done", 1)],
)
def test_what_failed_before_the_kill_and_not_after_it_is_in_a_group_or_not_for_all_of_it(
    point: str, number: int, bench: Bench
) -> None:
    bench.protocol(FAILING.replace("version: 1", "version: 2"))
    with serve(fault_rate=0.25, faults=["500"]) as server:
        run = ["run", "arithmetic@2", "--split", "dev", "--model", server.model, "--concurrency", "8"]
        runner = [sys.executable, str(CRASH_RUNNER), point, str(number), *run]
        done = subprocess.run(runner, cwd=bench.root, capture_output=True, timeout=120, check=False)
        assert done.returncode == -9, done.stderr
        server.control(fault_rate=0.0)
        again = finish(bench.start(*run))
    assert again.code == 0, again.err
    lost = [record for record in bench.journal() if record["completion"] is None]
    assert bool(lost) is (point in ("before-floor", "before-done"))
    assert relative_values(bench) == values_of(bench)


def values_of(bench: Bench) -> dict[str, float]:
    """The scores of the run."""
    scores = pl.concat([pl.read_parquet(path) for path in bench.the_run.glob("scores/*/*.parquet")])
    return dict(scores.filter(pl.col("component") == "rel").select("sample_id", "value").iter_rows())


def relative_values(bench: Bench) -> dict[str, float]:
    """What the function gives on the groups of the journal."""
    space: dict[str, Any] = {}
    exec(FUNCTION, space)
    records = sorted(bench.journal(), key=lambda record: (record["item_id"], record["trial"]))
    found = {}
    for item, members in itertools.groupby(records, key=lambda record: record["item_id"]):
        group = [record for record in members if record["completion"] is not None]
        texts = [record["completion"] for record in group]
        values = space["relative"]([item] * len(texts), texts, None) if texts else []
        found |= {record["sample_id"]: value for record, value in zip(group, values, strict=True)}
    return found
