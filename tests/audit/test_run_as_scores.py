"""A run as the scores of an audit: its sheet, filled, joins to it, and what has no value says why."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from evalkit.api import audit_reward
from evalkit.errors import BadInput
from tests.audit.support import Desk
from tests.runs.support import Lab, lab

ITEMS = 20
SAID = {chr(97 + i): ["1", "2", "1" * (1 + i % 4)] for i in range(ITEMS)}


@pytest.fixture
def ran(tmp_path: Path) -> tuple[Lab, Desk, str]:
    """A run of three completions an item, two items a cluster; one the infrastructure failed, one was cut."""
    there = lab(tmp_path / "ws", "".join(chr(97 + i // 2) for i in range(ITEMS)))
    said = {**SAID, "a": ["1", ("1", "length"), (None, "http_500")]}
    return there, Desk(there.workspace.root), there.run(there.protocol(n=3), said)


def sheet_of(desk: Desk, run: str, count: int = 60) -> Path:
    """The blinded sheet, labelled by somebody who likes short answers."""
    blank, filled = desk.root / "blank.csv", desk.root / "filled.csv"
    assert desk.evalkit("samples", run, "--random", str(count), "--sheet", str(blank)).code == 0
    with blank.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["annotator"], row["label"] = "ann", str(5 - len(row["completion"]))
    with filled.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return filled


def test_a_filled_sheet_of_a_run_is_audited_against_that_run(ran: tuple[Lab, Desk, str]) -> None:
    there, desk, run = ran
    spec = desk.spec(reward="brief", cluster_by="cluster_id", strata=["cluster"])
    done = desk.audit(Path(run[:8]), sheet_of(desk, run), spec, "--json")
    assert done.code == 0, done.err
    found = done.json
    assert found["ledger"]["eligible"] == 60
    assert found["ledger"]["unscored"] == {"errored": 1}
    assert found["ledger"]["truncated"] == 1
    assert found["registered"]["estimate"]["n_clusters"] == 10
    same = audit_reward(run, desk.root / "filled.csv", spec, workspace=there.workspace)
    assert same.inputs == found["inputs"]
    assert set(same.evidence.columns) >= {"item_id", "cluster_id", "policy", "outcome", "length", "cluster"}
    assert same.evidence.columns["policy"][0] == "m"


def test_reward_and_success_of_a_run_can_be_audited_and_a_cut_one_is_what_the_protocol_says(
    ran: tuple[Lab, Desk, str],
) -> None:
    there, desk, run = ran
    labels = sheet_of(desk, run)
    for name in ("reward", "success", "correct"):
        result = audit_reward(run, labels, desk.spec(reward=name), workspace=there.workspace)
        assert result.ledger.used == 59
    excluded = there.protocol("q", n=3, more="truncation: no_verdict")
    assert desk.evalkit("score", run, "--protocol", excluded).code == 0
    result = audit_reward(f"{run}:{excluded}", labels, desk.spec(reward="success"), workspace=there.workspace)
    assert result.ledger.unscored == {"errored": 1, "truncated": 1}


def test_another_run_of_the_same_name_is_another_audit(ran: tuple[Lab, Desk, str]) -> None:
    there, desk, run = ran
    labels = sheet_of(desk, run)
    before = audit_reward(run, labels, desk.spec(reward="brief"), workspace=there.workspace).inputs
    there.protocol("q", n=3, correct="{use: number, role: correctness, weight: 2}")
    desk.evalkit("score", run, "--protocol", "q@1")
    after = audit_reward(f"{run}:q@1", labels, desk.spec(reward="brief"), workspace=there.workspace).inputs
    assert (before["labels"], before["columns"]) == (after["labels"], after["columns"])
    assert before["scores"] != after["scores"]


def test_what_is_neither_a_table_nor_a_run_is_said_in_one_line(
    ran: tuple[Lab, Desk, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, desk, run = ran
    labels = sheet_of(desk, run)
    done = desk.audit(Path("nowhere"), labels, desk.spec())
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "nowhere: neither a table nor a run; name a CSV, JSONL or Parquet file, or a run" in done.err
    done = desk.audit(Path(run), labels, desk.spec(reward="breif"))
    assert "no component breif; did you mean brief? it has correct, brief, reward, success" in done.err
    done = desk.audit(Path(run), labels, desk.spec(statistic="kappa"), verdicts=True)
    assert "takes a table of verdicts; give a file" in done.err
    monkeypatch.chdir("/")
    with pytest.raises(BadInput, match=r"neither a table nor a run.*evalkit init"):
        audit_reward("nowhere", labels, desk.spec())
