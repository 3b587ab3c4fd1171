"""Runs with a component that scores groups: whole groups only, whatever failed, was torn or was cut off."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from evalkit import api
from evalkit.rewards.network import BLOCKED, PYTHON_ONLY
from evalkit.runs.groups import Groups, whole_batches
from evalkit.workspace import Workspace
from tests.runs.support import Lab, Said, lab

FUNCTIONS = '''
from pathlib import Path
CALLS = Path(__file__).with_name("calls.txt")

def relative(prompts, completions, target, **columns):
    """Longer than the group's shortest by so many characters; the calls are written down."""
    with CALLS.open("a") as file:
        file.write("|".join(completions) + "\\n")
    assert len(set(prompts)) == 1 and set(target) == {"1"}
    return [float(len(each) - min(map(len, completions))) for each in completions]

def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    assert data_source == "sums" and extra_info["question"]
    return {"score": float(len(solution_str)), "gold": ground_truth}

def reward_func(queries, prompts, labels, **kwargs):
    import numpy
    return {"rewards": numpy.array([[len(query) - len(prompt)] for query, prompt in zip(queries, prompts)])}

def absolute(completions, **columns):
    return [float(len(each)) for each in completions]
'''
RELATIVE = "{use: 'trl:rel.py:relative', role: other, params: {prompt_field: question}}"
SAID: Mapping[str, Sequence[Said]] = {
    "a": ["1", "1234", "12"],
    "b": ["1", (None, "server error"), "123"],
    "c": [(None, "server error")] * 3,
    "d": ["12", "123", "12345"],
}
VALUES = {"a": [0.0, 3.0, 1.0], "b": [0.0, None, 2.0], "c": [None, None, None], "d": [0.0, 1.0, 3.0]}


def record(item: str, trial: int, text: str | None = "x") -> dict[str, Any]:
    return {"sample_id": f"{item}{trial}", "item_id": item, "trial": trial, "completion": text}


def ids(groups: Sequence[Sequence[Mapping[str, Any]]]) -> list[list[str]]:
    return [[each["sample_id"] for each in group] for group in groups]


def test_a_group_waits_for_all_trials_and_comes_by_trial() -> None:
    groups = Groups(3, set())
    assert list(groups.completed([record("a", 2), record("b", 0), record("a", 0)])) == []
    assert ids(list(groups.completed([record("b", 1), record("a", 1)]))) == [["a0", "a1", "a2"]]
    assert ids(list(groups.completed([record("b", 2, None)]))) == [["b0", "b1"]]


def test_a_group_of_scored_samples_is_done_and_one_with_some_is_whole() -> None:
    records = [record(item, trial) for item in "abc" for trial in range(2)]
    groups = Groups(2, {"a0", "a1", "b1"})
    assert ids(list(groups.completed(records))) == [["b0", "b1"], ["c0", "c1"]]
    assert list(Groups(1, set()).completed([record("a", 0, None)])) == []


def test_batches_hold_whole_groups() -> None:
    groups = ["aaa", "bbb", "cc", "ddddddd", "e"]
    assert [("".join(batch)) for batch in whole_batches(groups, 5)] == ["aaa", "bbbcc", "ddddddd", "e"]


@pytest.fixture
def place(tmp_path: Path) -> Lab:
    return new_place(tmp_path / "ws")


def new_place(root: Path) -> Lab:
    found = lab(root, "wxyz")
    (found.workspace.root / "rel.py").write_text(FUNCTIONS)
    return found


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lab, Path]:
    """A run that is only read."""
    place = new_place(tmp_path_factory.mktemp("finished") / "ws")
    return place, run_of(place)


def run_of(place: Lab, correct: str = RELATIVE, said: Mapping[str, Sequence[Said]] = SAID) -> Path:
    protocol = place.protocol(n=3, correct=correct)
    return place.workspace.runs / place.run(protocol, said)


def again(place: Lab) -> None:
    """The same command once more."""
    api.run("p@1", "s/dev", f"replay:{place.workspace.root / 'm.jsonl'}", workspace=place.workspace)


def tables(run: Path) -> dict[str, bytes]:
    paths = [*run.glob("samples/*"), *run.glob("scores/*/*.parquet"), *run.glob("scores/*/floor.json")]
    return {str(path.relative_to(run)): path.read_bytes() for path in sorted(paths)}


def values(run: Path, workspace: Workspace) -> dict[str, list[float | None]]:
    frame = api.evidence(run.name, workspace=workspace).frame
    return {
        str(item): group["value.correct"].to_list() for (item,), group in frame.group_by("item_id", maintain_order=True)
    }


def calls(place: Lab) -> list[str]:
    path = place.workspace.root / "calls.txt"
    return path.read_text().splitlines() if path.exists() else []


def test_each_group_is_scored_once_and_whole_without_what_failed(finished: tuple[Lab, Path]) -> None:
    place, run = finished
    assert values(run, place.workspace) == VALUES
    probes = [line for text in ("1|1234|12", "1|123", "12|123|12345") for line in (
        text, text, "|".join(reversed(text.split("|"))), *text.split("|"))]  # fmt: skip
    floor = [""] * 4
    assert sorted(calls(place)) == sorted(["1|1234|12", "1|123", "12|123|12345", *floor, *probes])
    assert json.loads(next(run.glob("scores/*/floor.json")).read_text())["means"]["correct"] == 0.0


def test_the_score_journal_torn_within_a_group_comes_out_the_same(place: Lab) -> None:
    run = run_of(place)
    expected = tables(run)
    [journal] = run.glob("scores/*/journal.jsonl")
    whole = journal.read_bytes()
    for left in (2, 7):
        for path in [*run.glob("scores/*/*.parquet"), *run.glob("scores/*/floor.json"), run / "done.json"]:
            path.unlink()
        journal.write_bytes(b"".join(whole.splitlines(keepends=True)[:left]) + b'{"sample_id": "to')
        again(place)
        assert tables(run) == expected
        scored = [json.loads(line)["sample_id"] for line in journal.read_text().splitlines()]
        assert len(scored) == len(set(scored)) == 8


def test_the_journal_of_completions_cut_within_a_group_comes_out_the_same(place: Lab) -> None:
    run = run_of(place)
    expected = tables(run)
    journal = run / "journal.jsonl"
    whole = journal.read_bytes().splitlines(keepends=True)
    assert len(whole) == 12
    for left in (5, 8):  # 8: all with a text, none that failed
        for path in [*run.glob("scores/*/*"), run / "done.json"]:
            path.unlink()
        journal.write_bytes(b"".join(whole[:left]))
        again(place)
        assert tables(run) == expected


def test_a_finished_run_scored_under_another_protocol_gets_whole_groups_too(place: Lab) -> None:
    first = place.protocol(n=3)
    run = place.workspace.runs / place.run(first, SAID)
    assert calls(place) == []
    api.score(run.name, place.protocol(name="q", n=3, correct=RELATIVE), workspace=place.workspace)
    frame = api.evidence(run.name, "q@1", workspace=place.workspace).frame
    assert frame.sort("item_id", "trial")["value.correct"].to_list() == [
        each for row in VALUES.values() for each in row
    ]
    [alarm] = [each for each in api.summarize(run.name, "q", workspace=place.workspace).alarms if "BATCH" in each.code]
    assert alarm.n == 8


def test_a_value_relative_to_its_group_is_an_alarm_of_the_summary(finished: tuple[Lab, Path]) -> None:
    place, run = finished
    [alarm] = [each for each in api.summarize(run.name, workspace=place.workspace).alarms if "BATCH" in each.code]
    assert alarm.statement == (
        "component correct: value depends on which other completions are in the batch (5 of 8 probed samples changed, "
        "by up to 3): its reward is relative to the group; compare runs only at the same n"
    )
    stored = json.loads(next(run.glob("scores/*/floor.json")).read_text())["batch"]
    assert stored == {"correct": {"probed": 8, "changed": 5, "largest": 3.0, "unstable": 0}}


def test_a_value_of_its_own_completion_alone_is_none(place: Lab) -> None:
    run = run_of(place, RELATIVE.replace("relative", "absolute"))
    stored = json.loads(next(run.glob("scores/*/floor.json")).read_text())["batch"]
    assert stored == {"correct": {"probed": 8, "changed": 0, "largest": None, "unstable": 0}}
    codes = {alarm.code for alarm in api.summarize(run.name, workspace=place.workspace).alarms}
    assert codes.isdisjoint({"BATCH_DEPENDENT", "UNSTABLE"})


@pytest.mark.parametrize(
    ("use", "params"),
    [("verl:rel.py:compute_score", "data_source: sums"), ("openrlhf:rel.py:reward_func", "prompt_field: question")],
)
def test_functions_of_verl_and_openrlhf_score_a_run(place: Lab, use: str, params: str) -> None:
    run = run_of(place, f"{{use: '{use}', role: other, params: {{{params}}}}}")
    assert values(run, place.workspace)["b"] == [1.0, None, 3.0]
    assert values(run, place.workspace)["d"] == [2.0, 3.0, 5.0]
    assert json.loads(next(run.glob("scores/*/environment.json")).read_text())["network"] in (BLOCKED, PYTHON_ONLY)


def test_the_run_records_what_its_scorers_had_of_the_network(finished: tuple[Lab, Path]) -> None:
    [path] = finished[1].glob("scores/*/environment.json")
    assert json.loads(path.read_text())["network"] in (BLOCKED, PYTHON_ONLY)


def test_a_run_without_a_trainers_function_is_as_it_was(place: Lab) -> None:
    run = place.workspace.runs / place.run(place.protocol(n=3), SAID)
    assert not list(run.glob("scores/*/environment.json"))
    assert sorted(json.loads(next(run.glob("scores/*/floor.json")).read_text())) == ["means", "n"]
    assert pl.read_parquet(next(run.glob("scores/*/*.parquet"))).height == 8 * 3


def test_reasoning_that_never_ends_is_in_no_group_where_it_is_no_verdict(place: Lab) -> None:
    protocol = place.protocol(
        n=3, correct=RELATIVE, more="reasoning: {start: '<t>', end: '</t>', unterminated: no_verdict}"
    )
    said = {**SAID, "a": ["<t>x</t>1", "<t>never", "<t></t>1234"]}
    run = place.workspace.runs / place.run(protocol, said)
    assert values(run, place.workspace)["a"] == [0.0, None, 3.0]
    assert "1|1234" in calls(place)


def test_a_declared_range_holds_for_a_trainers_function(place: Lab) -> None:
    run = run_of(place, RELATIVE.replace("role: other", "role: other, range: [0, 2]"))
    assert values(run, place.workspace)["a"] == [0.0, None, 1.0]
