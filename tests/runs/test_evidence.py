"""Looks come before results, once; and what choosing the best of several buys."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from evalkit import api
from evalkit.errors import BadInput, DiskRefused
from evalkit.ledger import Ledger
from tests.runs.support import Lab, lab


@pytest.fixture
def four(tmp_path: Path) -> Lab:
    return lab(tmp_path / "ws", "wxyz")


ALL = {item: ["1"] for item in "abcd"}


def test_evidence_has_a_row_a_planned_sample_and_nulls_where_there_is_no_verdict(four: Lab) -> None:
    run = four.run(four.protocol(n=2), {**{i: ["1", "x"] for i in "abc"}, "d": ["1", (None, "http_500")]})
    frame = api.evidence(run, workspace=four.workspace).frame
    assert frame.select("item_id", "trial", "success", "reward", "answer").rows() == [
        ("a", 0, 1.0, 1.5, "1"), ("a", 1, 0.0, 0.5, None), ("b", 0, 1.0, 1.5, "1"), ("b", 1, 0.0, 0.5, None),
        ("c", 0, 1.0, 1.5, "1"), ("c", 1, 0.0, 0.5, None), ("d", 0, 1.0, 1.5, "1"), ("d", 1, None, None, None),
    ]  # fmt: skip


def test_a_look_is_recorded_once_however_often_results_are_shown(four: Lab) -> None:
    run = four.run(four.protocol(), ALL)
    assert Ledger(four.workspace.ledger).looks() == []
    api.summarize(run, workspace=four.workspace)
    api.samples(run, top=1, workspace=four.workspace)
    api.compare(run, run, workspace=four.workspace)
    api.evidence(run, workspace=four.workspace)
    [look] = Ledger(four.workspace.ledger).looks()
    assert (look.protocol, look.split, look.model, look.repeat, look.purpose, look.run_id) == (
        "p@1", "s/dev", "m", 0, "checkpoint", run,
    )  # fmt: skip


def test_another_protocol_or_model_is_another_look(four: Lab) -> None:
    for protocol, model in (("p", "m"), ("p", "n"), ("q", "m")):
        more = "missing: worst" if protocol == "q" else ""
        run = four.run(four.protocol(protocol, more=more), {**ALL, "a": [model]}, model)
        api.summarize(run, protocol, workspace=four.workspace)
    assert len(Ledger(four.workspace.ledger).looks()) == 3


@pytest.mark.parametrize("show", ["summarize", "samples", "evidence", "compare"])
def test_nothing_is_shown_when_the_ledger_cannot_be_written(
    show: str, four: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = four.run(four.protocol(), ALL)

    def refuse(*_: object, **__: object) -> bool:
        raise DiskRefused("no")

    monkeypatch.setattr(Ledger, "record_look", refuse)
    arguments = [run, run] if show == "compare" else [run]
    with pytest.raises(DiskRefused):
        getattr(api, show)(*arguments, workspace=four.workspace)


def test_optimism_is_the_expected_best_of_m_in_units_of_a_paired_standard_error(four: Lab) -> None:
    protocol = four.protocol()
    four.summary(protocol, {"a": ["1"], "b": ["1"], "c": ["0"], "d": ["0"]}, model="one")
    [single] = api.looks("s", four.workspace)
    assert (single.optimism.m, single.optimism.expected, single.optimism.why) == (
        1,
        0.0,
        "one model: nothing was chosen",
    )
    four.summary(protocol, {"a": ["1"], "b": ["0"], "c": ["1"], "d": ["0"]}, model="two")
    [found] = api.looks("s", four.workspace)
    # differences 0, 1, −1, 0: se = √(4/3 · 2) / 4; E[max of 2 normals] = 1/√π
    error = math.sqrt(8 / 3) / 4
    assert (found.optimism.m, found.optimism.pairs, len(found.looks)) == (2, 1, 2)
    assert found.optimism.standard_error == pytest.approx(error)
    assert found.optimism.expected == pytest.approx(error / math.sqrt(2) / math.sqrt(math.pi), rel=1e-6)


def test_a_baseline_is_looked_at_and_is_no_candidate(four: Lab) -> None:
    protocol = four.protocol()
    four.summary(protocol, ALL)
    done = api.run(protocol, "s/dev", "baseline:null", workspace=four.workspace)
    api.summarize(done, workspace=four.workspace)
    [found] = api.looks("s", four.workspace)
    assert (found.optimism.m, len(found.looks)) == (1, 2)


@pytest.mark.parametrize("table", ["samples", "scores"])
def test_a_damaged_table_is_named_with_the_mend(table: str, four: Lab) -> None:
    run = four.run(four.protocol(), ALL)
    [path] = (four.workspace.runs / run / table).rglob("*.parquet")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(BadInput, match=rf"{table}.*: damaged; delete .* again"):
        api.summarize(run, workspace=four.workspace)
    if table == "samples":
        (four.workspace.runs / run / "done.json").unlink()
    else:
        for file in path.parent.iterdir():
            file.unlink()
    assert four.run("p@1", ALL) == run
    assert api.summarize(run, workspace=four.workspace).success.estimate.value == 1.0
