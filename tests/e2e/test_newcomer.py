"""What a newcomer ran into stays mended."""

from __future__ import annotations

from evalkit import api
from tests.e2e.support import PLANNED, PROTOCOL, Bench
from tests.servers.process import serve


def test_a_swapped_model_is_noticed_while_the_run_goes_on_not_at_its_end(bench: Bench) -> None:
    with serve(swap_after=20, latency=0.1) as server:
        done = bench.run(server.model, "--concurrency", "4")
    assert done.code == 75
    assert "the server now serves another model" in done.line
    assert len(bench.journal()) < PLANNED


def test_finished_models_are_shown_where_a_later_one_fails(bench: Bench) -> None:
    done = bench.run("baseline:gold", "--model", "replay:nothing.parquet")
    assert done.code == 2
    assert "baseline:gold" in done.out
    assert done.line.endswith("no such file; replay takes Parquet, JSONL or the folder of a run")


def test_a_label_sheet_holds_what_was_asked_for_and_is_never_overwritten(bench: Bench) -> None:
    assert bench.run("baseline:gold").code == 0
    sheet = bench.root / "labels.csv"
    command = ("samples", bench.the_run.name, "--random", "5", "--sheet", str(sheet))
    assert bench.evalkit(*command).out == f"{sheet}: 5 samples to label, blinded\n"
    before = sheet.read_bytes()
    assert bench.refused(*command).endswith("is there already, perhaps with labels in it; name another file")
    assert sheet.read_bytes() == before


def test_a_result_is_summarised_under_the_protocol_it_was_run_with(bench: Bench) -> None:
    again = PROTOCOL.replace("version: 1", "version: 2").replace("weight: 0.25", "weight: 0.5")
    bench.protocol(again)
    for protocol in ("arithmetic@1", "arithmetic@2"):
        result = api.run(protocol, "dev", "baseline:gold", workspace=bench.workspace)
        assert api.summarize(result, workspace=bench.workspace).protocol == protocol
