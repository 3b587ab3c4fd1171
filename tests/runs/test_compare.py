"""Two runs: whether they may be compared, on what evidence, and the difference by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from evalkit import api
from evalkit.errors import BadInput, Refused
from evalkit.report import comparison_text
from evalkit.runs import Comparison
from tests.runs.support import Lab, lab

LEFT = {"a": ["1"], "b": ["0"], "c": ["0"], "d": ["0"], "e": ["1"]}
RIGHT = {"a": ["1"], "b": ["1"], "c": ["1"], "d": ["0"], "e": ["0"]}


@pytest.fixture
def five(tmp_path: Path) -> Lab:
    """Items a, b in one cluster, the others in one each."""
    return lab(tmp_path / "ws", "xxyzw")


def compared(lab: Lab, left: str, right: str, **more: bool) -> Comparison:
    return api.compare(left, right, workspace=lab.workspace, **more)


def test_the_same_protocol_is_comparable_and_the_difference_is_paired_by_item(five: Lab) -> None:
    protocol = five.protocol()
    found = compared(five, five.run(protocol, LEFT, "l"), five.run(protocol, RIGHT, "r"))
    assert (found.comparability.standing, found.comparability.evidence, found.forced) == ("comparable", (), False)
    success = found.results[0]
    assert (success.name, success.left, success.right, success.difference.value) == (
        "success",
        0.4,
        0.6,
        pytest.approx(0.2),
    )
    assert (success.better, success.worse, success.equal, success.items, success.items_dropped) == (2, 1, 2, 5, 0)
    # d − 1/5 by cluster: x −1/5 + 4/5 = 3/5, y 4/5, z −1/5, w −6/5; squares sum to 62/25; CR1 se = √(4/3 · 62/25) / 5
    error = math.sqrt(4 / 3 * 62 / 25) / 5
    assert success.difference.low == pytest.approx(0.2 - 3.182446305284263 * error)
    assert success.difference.high == pytest.approx(0.2 + 3.182446305284263 * error)
    assert success.detectable == pytest.approx(error * (3.182446305284263 + 0.978472312), rel=1e-6)
    # clusters that differ: x +1, y +1, w −1; every one of the 8 sign patterns has |sum| ≥ 1
    assert success.test.p == 1.0
    assert [result.name for result in found.results] == ["success", "reward", "correct", "brief"]


def test_a_run_against_itself_shows_no_difference_and_no_interval(five: Lab) -> None:
    run = five.run(five.protocol(), LEFT)
    success = compared(five, run, run).results[0]
    assert success.difference.value == 0.0
    assert (success.difference.low, success.difference.high) == (None, None)
    assert success.difference.why
    assert success.test.p == 1.0
    assert math.isnan(success.detectable)


@pytest.mark.parametrize("clusters", ["x", "xxx"], ids=["one item", "one cluster"])
def test_one_cluster_has_a_difference_and_no_interval(clusters: str, tmp_path: Path) -> None:
    small = lab(tmp_path / "ws", clusters)
    protocol, items = small.protocol(), "abc"[: len(clusters)]
    left = small.run(protocol, {item: ["0"] for item in items}, "l")
    right = small.run(protocol, {item: ["1"] for item in items}, "r")
    found = compared(small, left, right)
    success = found.results[0]
    assert (success.difference.value, success.difference.low, success.test.p) == (1.0, None, 1.0)
    assert success.difference.why
    assert "nan" not in comparison_text(found).lower()
    assert "±0" not in comparison_text(found)


def test_an_item_without_a_value_in_one_run_is_left_out_and_counted(five: Lab) -> None:
    protocol = five.protocol()
    left = five.run(protocol, {**LEFT, "a": [(None, "http_500")]}, "l")
    success = compared(five, left, five.run(protocol, RIGHT, "r")).results[0]
    assert (success.items, success.items_dropped, success.left, success.right) == (4, 1, 0.25, 0.5)


def test_raised_max_tokens_is_comparable_while_nothing_was_cut(five: Lab) -> None:
    short, long = five.protocol("short", max_tokens=9), five.protocol("long", max_tokens=99)
    left, right = five.run(short, LEFT, "l"), five.run(long, RIGHT, "r")
    found = compared(five, left, right)
    assert found.comparability.standing == "comparable_with_evidence"
    assert found.comparability.evidence == ("sampling.max_tokens 9 → 99: nothing was truncated in either run",)
    cut = five.run(short, {**LEFT, "d": [("0", "length")]}, "cut")
    refused = compared(five, cut, right)
    assert (refused.comparability.standing, refused.results) == ("not_comparable", ())
    assert refused.comparability.reasons == ("sampling.max_tokens: 9 → 99 (generation)",)


def test_another_scorer_is_comparable_if_scoring_both_ways_moves_nothing(five: Lab) -> None:
    exact = five.protocol("strict")
    near = five.protocol("near", correct="{use: number, role: correctness, weight: 1, params: {tolerance: 0.5}}")
    left, right = five.run(exact, LEFT, "l"), five.run(near, RIGHT, "r")
    found = compared(five, left, right)
    assert found.comparability.standing == "comparable_with_evidence"
    [evidence] = found.comparability.evidence
    assert evidence.startswith("reward.components.correct.params.tolerance")
    assert evidence.endswith("both runs scored under both protocols, every score is the same")
    moved = compared(five, five.run(exact, {**LEFT, "c": ["1.4"]}, "moved"), right)
    assert moved.comparability.standing == "not_comparable"
    assert moved.comparability.reasons[0].endswith("scored both ways, 2 scores differ (scoring)")


def test_what_is_not_comparable_is_refused_with_every_field_and_stamped_when_forced(five: Lab) -> None:
    one, other = five.protocol("one"), five.protocol("other", n=2, more="missing: worst")
    left = five.run(one, LEFT, "l")
    right = five.run(other, {item: [*said, ("1", "length")] for item, said in RIGHT.items()}, "r")
    found = compared(five, left, right)
    assert found.comparability.standing == "not_comparable"
    assert found.comparability.reasons == ("sampling.n: 1 → 2 (generation)",)
    assert [item.field for item in found.comparability.differences] == ["sampling.n", "missing"]
    assert found.results == ()
    assert "difference" not in comparison_text(found)
    forced = compared(five, left, right, force=True)
    assert forced.forced
    assert forced.results[0].items == 5
    assert comparison_text(forced).startswith("FORCED: NOT COMPARABLE · l (")


def test_force_on_comparable_runs_stamps_nothing(five: Lab) -> None:
    protocol = five.protocol()
    found = compared(five, five.run(protocol, LEFT, "l"), five.run(protocol, RIGHT, "r"), force=True)
    assert not found.forced
    assert "FORCED" not in comparison_text(found)


def test_another_split_is_not_comparable_and_cannot_be_forced(five: Lab) -> None:
    protocol = five.protocol()
    left = five.run(protocol, LEFT, "l")
    source = five.workspace.root / "other.jsonl"
    source.write_text('{"id": "z", "question": "another", "cluster": "q"}\n')
    api.build_split(source, name="t", sizes={"dev": 1}, cluster_by="cluster", id_field="id", workspace=five.workspace)
    recorded = five.workspace.root / "z.jsonl"
    recorded.write_text('{"item_id": "z", "trial": 0, "completion": "1"}\n')
    right = api.run(protocol, "t/dev", f"replay:{recorded}", workspace=five.workspace).run.run_id
    found = compared(five, left, right)
    assert found.comparability.reasons == ("split root: s/dev and t/dev hold different items",)
    with pytest.raises(BadInput):
        compared(five, left, right, force=True)


def test_another_environment_is_a_warning_not_a_reason(five: Lab) -> None:
    protocol = five.protocol()
    left, right = five.run(protocol, LEFT, "l"), five.run(protocol, RIGHT, "r")
    path = five.workspace.runs / right / "run.json"
    header = json.loads(path.read_text())
    header["environment"]["python"] = "2.7"
    header["environment"]["packages"]["numpy"] = "0.1"
    path.write_text(json.dumps(header))
    found = compared(five, left, right)
    assert found.comparability.standing == "comparable"
    assert found.comparability.warnings[0].endswith(" and 2.7")
    assert found.comparability.warnings[1].endswith(" and 0.1")
    assert found.comparability.warnings[2].endswith("the provider's word only")


def test_scoring_under_another_protocol_adds_scores_and_leaves_completions(five: Lab) -> None:
    first = five.protocol("first")
    second = five.protocol("second", correct="{use: number, role: correctness, weight: 1, params: {tolerance: 1}}")
    run = five.run(first, LEFT)
    folder = five.workspace.runs / run
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "runner.lock"}
    assert api.score(run, second, five.workspace) is True
    assert api.score(run, second, five.workspace) is False
    assert {path: path.read_bytes() for path in before} == before
    assert api.summarize(run, "first", workspace=five.workspace).success.estimate.value == 0.4
    assert api.summarize(run, "second", workspace=five.workspace).success.estimate.value == 1.0
    with pytest.raises(
        BadInput, match=r"not scored under one protocol \(under: first@1, second@1\); name it with --protocol"
    ):
        api.summarize(run, workspace=five.workspace)
    with pytest.raises(Refused, match="its completions are not this protocol's: run it instead"):
        api.score(run, five.protocol("third", max_tokens=8), five.workspace)
    found = compared(five, f"{run}:first", f"{run}:second")
    assert found.comparability.standing == "not_comparable"


def test_training_seeds_behind_a_comparison_are_counted(five: Lab) -> None:
    protocol = five.protocol()
    unknown = five.run(protocol, LEFT, "l")
    one, two = (five.run(protocol, RIGHT, f"r{seed}", {"train_seed": seed}) for seed in (1, 2))
    assert compared(five, unknown, unknown).training_seeds is None
    assert compared(five, one, one).training_seeds == 1
    assert compared(five, one, two).training_seeds == 2
