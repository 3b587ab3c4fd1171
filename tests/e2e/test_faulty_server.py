"""Infrastructure that fails is never a wrong answer, never a lost sample, and never another model's answer."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.e2e.support import PLANNED, PROTOCOL, Bench, Forked, copy_of, finish
from tests.servers.process import RunningServer, serve

IMPATIENT = PROTOCOL.replace("request_timeout: 5", "request_timeout: 0.5")
GIVES_UP = PROTOCOL.replace("retries: 10, error_budget: 0", "retries: 0, error_budget: 0.5")


def replace_protocol(bench: Bench, text: str) -> None:
    (bench.root / "protocols/arithmetic.v1.lock.json").unlink()
    bench.protocol(text, "arithmetic.yaml")


def undisturbed(bench: Bench, server: RunningServer) -> dict[str, bytes]:
    done = bench.run(server.model)
    assert done.code == 0, done.err
    return bench.tables()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_faults_at_20_percent_change_nothing(seed: int, bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> None:
    replace_protocol(bench, IMPATIENT)
    other = copy_of(bench, tmp_path_factory.mktemp("calm") / "ws")
    with serve() as server:
        expected = undisturbed(other, server)
    with serve(fault_rate=0.2, fault_seed=seed) as server:
        done = bench.run(server.model, "--json")
        seen = server.control()
    assert done.code == 0, done.err
    assert seen["faults"] > 30
    assert bench.tables() == expected
    records = bench.journal()
    assert len({record["sample_id"] for record in records}) == len(records) == PLANNED
    assert {record["outcome"] for record in records} == {"completed"}
    assert max(record["attempts"] for record in records) > 1
    [summary] = json.loads(done.out)
    assert (summary["planned"], summary["scored"], summary["clean"]) == (PLANNED, PLANNED, PLANNED)
    assert summary["causes"] == {}


@pytest.mark.slow
def test_each_kind_of_fault_alone_changes_nothing(bench: Bench, clean_tables: dict[str, bytes]) -> None:
    for kind in ("429", "500", "reset", "truncated_body", "empty", "html", "two_choices", "no_choices"):
        with serve(fault_rate=0.2, faults=[kind], retry_after="0.01") as server:
            done = bench.run(server.model)
            assert done.code == 0, (kind, done.err)
            assert server.control()["faults"] > 10
        assert bench.tables() == clean_tables, kind
        bench.the_run.rename(bench.root / kind)


def test_a_server_that_swaps_its_model_invalidates_the_run_and_the_next_starts_over(
    bench: Bench, clean_tables: dict[str, bytes], runner: Forked
) -> None:
    with serve(swap_after=100) as server:
        done = bench.run(server.model, "--concurrency", "8")
        assert done.code == 75
        assert "the server now serves another model (root weights-a → weights-b)" in done.line
        assert "serve the first model again and start over" in done.line
        run = bench.the_run
        assert bench.looks() == []
        for arguments in (
            ["runs", run.name],
            ["samples", run.name],
            ["compare", run.name, run.name],
            ["score", run.name, "--protocol", "arithmetic@1"],
        ):
            refusal = bench.refused(*arguments, by=runner)
            assert refusal.startswith(f"evalkit: run {run.name} is invalid: "), arguments
        assert "invalid" in runner(bench, "runs").out
        server.control(swap_after=None)
        done = bench.run(server.model)
        assert done.code == 0, done.err
    assert bench.the_run.name == run.name
    assert bench.tables() == clean_tables
    assert len(bench.looks()) == 1


def test_a_server_that_dies_loses_nothing_and_the_same_command_resumes(
    bench: Bench, clean_tables: dict[str, bytes]
) -> None:
    replace_protocol(bench, PROTOCOL.replace("retries: 10", "retries: 1"))
    with serve(latency=0.02) as server:
        process = bench.start("run", "arithmetic@1", "--split", "dev", "--model", server.model, "--concurrency", "8")
        while server.control()["completed"] < 60:
            assert process.poll() is None
        server.process.kill()
        done = finish(process)
    assert done.code == 75, done.err
    assert done.out == ""
    assert "mend the cause and run the same command again" in done.line or "start the server" in done.line
    before = (bench.the_run / "journal.jsonl").read_bytes()
    kept = len(bench.journal())
    assert 0 < kept < PLANNED
    with serve() as server:
        assert bench.run(server.model).code == 0
        assert server.control()["completed"] <= PLANNED - kept + 8, "completions that were there were made again"
    assert (bench.the_run / "journal.jsonl").read_bytes().startswith(before)
    records = bench.journal()
    assert len({record["sample_id"] for record in records}) == len(records) == PLANNED
    texts = {(record["item_id"], record["trial"]): record["completion"] for record in records}
    assert len(texts) == PLANNED


def test_a_server_that_is_not_there_is_named_and_nothing_is_written(bench: Bench) -> None:
    replace_protocol(bench, PROTOCOL.replace("retries: 10", "retries: 0"))
    line = bench.refused(
        "run", "arithmetic@1", "--split", "dev", "--model", "openai:tiny@http://127.0.0.1:9/v1", code=75
    )
    assert line.startswith("evalkit: http://127.0.0.1:9/v1/models: connection_lost ")
    assert line.endswith("start the server, or correct the URL, and run the same command again")


@pytest.mark.slow
def test_within_the_error_budget_failures_stand_in_the_table_with_their_cause(bench: Bench) -> None:
    replace_protocol(bench, GIVES_UP)
    with serve(latency=0.002) as server:
        process = bench.start(
            "run", "arithmetic@1", "--split", "dev", "--model", server.model, "--json", "--concurrency", "1"
        )
        while server.control()["completed"] < 10:
            assert process.poll() is None
        server.control(fault_rate=0.2, faults=["500", "html"])
        done = finish(process)
    assert done.code == 0, done.err
    [summary] = json.loads(done.out)
    failed = summary["outcomes"]["errored"]
    assert 0 < failed < PLANNED / 2
    assert summary["outcomes"] == {"completed": PLANNED - failed, "errored": failed}
    assert set(summary["causes"]) == {"http_500", "html_body"}
    assert sum(summary["causes"].values()) == failed
    assert (summary["planned"], summary["scored"], summary["clean"]) == (PLANNED, PLANNED - failed, PLANNED - failed)
    success = summary["success"]
    right = success["estimate"]["value"] * (PLANNED - failed)
    assert success["bounds"]["low"] == pytest.approx(right / PLANNED)
    assert success["bounds"]["high"] == pytest.approx((right + failed) / PLANNED)
    shown = bench.evalkit("runs", bench.the_run.name).out
    assert f"{PLANNED}/{PLANNED - failed}/{PLANNED - failed}" in shown
    assert (
        f"success: {failed} of {PLANNED} without a value; whatever they are, the mean over all planned lies in" in shown
    )
    outcomes = Counter(record["outcome"] for record in bench.journal())
    assert outcomes == {"completed": PLANNED - failed, "errored": failed}


def test_beyond_the_error_budget_nothing_failed_is_kept_and_the_next_run_asks_again(
    bench: Bench, clean_tables: dict[str, bytes]
) -> None:
    replace_protocol(bench, GIVES_UP.replace("error_budget: 0.5", "error_budget: 0.01"))
    with serve(latency=0.002) as server:
        process = bench.start("run", "arithmetic@1", "--split", "dev", "--model", server.model, "--concurrency", "1")
        while server.control()["completed"] < 50:
            assert process.poll() is None
        server.control(fault_rate=1.0, faults=["500"])
        done = finish(process)
        assert done.code == 75
        assert done.out == ""
        assert "3 of 240 samples failed (http_500 3), more than the error budget of 2" in done.line
        assert f"{len(bench.journal())} others are kept: mend the cause and run the same command again" in done.line
        assert {record["outcome"] for record in bench.journal()} == {"completed"}
        assert bench.refused("runs", bench.the_run.name) == (
            f"evalkit: run {bench.the_run.name} is not finished; the command that started it resumes it"
        )
        server.control(fault_rate=0.0)
        assert bench.run(server.model).code == 0
    assert {record["outcome"] for record in bench.journal()} == {"completed"}
    assert len(bench.journal()) == PLANNED


@pytest.mark.slow
def test_a_run_within_a_wide_budget_is_refused_under_a_narrow_one(bench: Bench) -> None:
    replace_protocol(bench, GIVES_UP)
    bench.protocol(GIVES_UP.replace("version: 1", "version: 2").replace("error_budget: 0.5", "error_budget: 0.01"))
    with serve(latency=0.002) as server:
        process = bench.start("run", "arithmetic@1", "--split", "dev", "--model", server.model, "--concurrency", "1")
        while server.control()["completed"] < 10:
            assert process.poll() is None
        server.control(fault_rate=0.2, faults=["500"])
        assert finish(process).code == 0
        server.control(fault_rate=0.0)
        narrow = bench.evalkit("run", "arithmetic@2", "--split", "dev", "--model", server.model)
        rescored = bench.evalkit("score", bench.the_run.name, "--protocol", "arithmetic@2")
    for done in (narrow, rescored):
        assert done.out == ""
        assert done.code == 2
        assert "more than the error budget of 2" in done.line
