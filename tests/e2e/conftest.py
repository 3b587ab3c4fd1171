from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.support import Bench, Done, Forked, copy_of, new_bench
from tests.servers.forked import forked
from tests.servers.process import RunningServer, serve


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Built once; tests work on copies."""
    return new_bench(tmp_path_factory.mktemp("template") / "ws")


@pytest.fixture
def bench(template: Bench, tmp_path: Path) -> Bench:
    return copy_of(template, tmp_path / "ws")


@pytest.fixture(scope="session")
def quick_server() -> Iterator[RunningServer]:
    """Answers at once, without faults. Shared: do not change its behaviour."""
    with serve() as server:
        yield server


@pytest.fixture(scope="session")
def clean_tables(
    template: Bench, tmp_path_factory: pytest.TempPathFactory, quick_server: RunningServer
) -> dict[str, bytes]:
    """The tables of a run that nothing disturbed."""
    bench = copy_of(template, tmp_path_factory.mktemp("clean") / "ws")
    done = bench.run(quick_server.model)
    assert done.code == 0, done.err
    return bench.tables()


@pytest.fixture(scope="session")
def runner() -> Forked:
    """Runs commands in forked processes that share their imports: for many commands that each do little."""
    return lambda bench, *arguments: Done(**forked(bench.root, *arguments))
