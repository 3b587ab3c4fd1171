"""Floors of a judge: what deserves nothing, what orders the judge about, and whether the judge sees anything."""

from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import BadInput
from evalkit.rewards.judge import Judge, JudgeOptions
from evalkit.rewards.judge_floors import FloorTest, floor_test
from evalkit.rewards.judge_text import JudgeSpec, PairRow, PointRow
from evalkit.rewards.judging import judge_rows
from evalkit.runs.journal import Journal
from tests.servers.process import JUDGE, serve

PAIR, POINT = JudgeSpec("pairwise"), JudgeSpec("pointwise")
QUALITY = [0.2 + 0.05 * i for i in range(12)]
PAIRS = [PairRow(f"p{i}", f"task {i}", f"q={q:.2f}", "q=0") for i, q in enumerate(QUALITY)]
POINTS = [PointRow(f"p{i}", f"task {i}", f"q={q:.2f}") for i, q in enumerate(QUALITY)]


async def probe(root: Path, spec: JudgeSpec, rows: Any, n: int = 12, **behaviour: Any) -> FloorTest:
    with serve(JUDGE, **behaviour) as server:
        async with Judge(server.judge, spec, Journal(root / "calls.jsonl"), JudgeOptions(retries=0)) as judge:
            return await floor_test(judge, rows, n)


def codes(found: FloorTest) -> list[tuple[str, str]]:
    return [(finding.level, finding.code) for finding in found.findings]


async def test_floors_that_get_the_lowest_score_reach_nothing(tmp_path: Path) -> None:
    found = await probe(tmp_path, POINT, POINTS)
    assert [(floor.kind, floor.given.value, floor.reached) for floor in found.floors] == [
        ("empty", 1.0, 0.0),
        ("constant", 1.0, 0.0),
        ("echo", 1.0, 0.0),
        ("injection", 1.0, 0.0),
    ]
    assert found.own.n == 12
    assert not any("FLOOR" in code for _, code in codes(found))


async def test_a_judge_that_obeys_its_material_is_found_by_the_injection_alone(tmp_path: Path) -> None:
    for spec, rows in ((POINT, POINTS), (PAIR, PAIRS)):
        found = await probe(tmp_path, spec, rows, mode="obeys")
        assert [code for code in codes(found) if "FLOOR" in code[1]] == [("no-go", "SCORE.FLOOR_INJECTION")]
        injection = found.floors[-1]
        assert (injection.raised, injection.n) == (12, 12)
        (finding,) = [one for one in found.findings if one.code == "SCORE.FLOOR_INJECTION"]
        assert finding.statement.endswith("on 12 rows; the order raised 12 of them")
        assert finding.mend == "use a judge that does not obey what it judges"


async def test_a_judge_that_gives_everything_the_same_is_blind_and_its_floors_are_high(tmp_path: Path) -> None:
    found = await probe(tmp_path, POINT, POINTS, mode="tie")
    assert [floor.reached for floor in found.floors] == [1.0, 1.0, 1.0, 1.0]
    assert codes(found) == [
        ("no-go", "JUDGE.BLIND"),
        ("no-go", "SCORE.FLOOR_CONSTANT"),
        ("no-go", "SCORE.FLOOR_ECHO"),
        ("no-go", "SCORE.FLOOR_EMPTY"),
        ("no-go", "SCORE.FLOOR_INJECTION"),
    ]
    assert found.swap.value == 0.0


async def test_in_pairs_an_order_that_decides_counts_half_and_is_blind(tmp_path: Path) -> None:
    found = await probe(tmp_path, PAIR, PAIRS, mode="first")
    assert [floor.reached for floor in found.floors] == [1.0, 1.0, 1.0, 1.0]
    assert found.swap.value == 0.5
    assert ("no-go", "JUDGE.BLIND") in codes(found)


async def test_the_swap_is_seen_by_a_judge_that_knows_the_tasks(tmp_path: Path) -> None:
    """Answers that name their task are good there and worthless elsewhere."""
    points = [PointRow(f"p{i}", f"task {i}", f"right {i} q=0.9") for i in range(12)]
    found = await probe(tmp_path, POINT, points, mode="knows")
    assert found.swap.value == 8.0
    assert codes(found) == []
    pairs = [PairRow(row.row_id, row.task, row.answer, "-") for row in points]
    found = await probe(tmp_path, PAIR, pairs, mode="knows")
    assert (found.swap.value, codes(found)) == (1.0, [])


async def test_too_few_rows_cannot_tell(tmp_path: Path) -> None:
    found = await probe(tmp_path, POINT, POINTS[:3])
    assert ("cannot tell", "JUDGE.BLIND") in codes(found)


async def test_probes_that_were_not_judged_are_no_floors_of_zero(tmp_path: Path) -> None:
    found = await probe(tmp_path, POINT, POINTS, mode="prose")
    assert [(floor.given.value, floor.reached, floor.n) for floor in found.floors] == [(None, None, 0)] * 4
    assert set(codes(found)) == {
        ("cannot tell", "JUDGE.BLIND"),
        *(("cannot tell", f"SCORE.FLOOR_{kind}") for kind in ("EMPTY", "CONSTANT", "ECHO", "INJECTION")),
    }


@pytest.mark.parametrize(("spec", "rows", "calls"), [(POINT, POINTS, 6 * 5), (PAIR, PAIRS, 10 * 5)])
async def test_probes_cost_what_is_said_and_are_journaled(
    tmp_path: Path, spec: JudgeSpec, rows: Any, calls: int
) -> None:
    await probe(tmp_path, spec, rows, n=5)
    assert len(list(Journal(tmp_path / "calls.jsonl").records())) == calls
    await probe(tmp_path, spec, rows, n=5)
    assert len(list(Journal(tmp_path / "calls.jsonl").records())) == calls


def test_one_call_judges_rows_in_their_order_and_probes_the_judge(tmp_path: Path) -> None:
    seen = []
    with serve(JUDGE, mode="knows") as server:
        rows = [PointRow(f"p{i}", f"task {i}", f"right {i} q=0.{i % 10}") for i in range(12)]
        judged = judge_rows(server.judge, POINT, rows, Journal(tmp_path / "a.jsonl"), on_result=seen.append)
        pairs = judge_rows(server.judge, PAIR, PAIRS[:2], Journal(tmp_path / "b.jsonl"), floors=0)
    assert [one.row_id for one in judged.scores] == [row.row_id for row in rows]
    assert (len(seen), judged.verdicts, judged.floors is not None) == (12, (), True)
    assert judged.identity.declared_range == (1.0, 10.0)
    assert [one.row_id for one in pairs.verdicts] == ["p0", "p1"]
    assert (pairs.scores, pairs.floors, pairs.findings) == ((), None, ())


def test_rows_of_the_other_kind_are_an_error(tmp_path: Path) -> None:
    with serve(JUDGE) as server, pytest.raises(BadInput, match="kind: pointwise, and pairs are given"):
        judge_rows(server.judge, POINT, PAIRS, Journal(tmp_path / "a.jsonl"))
    with serve(JUDGE) as server, pytest.raises(BadInput, match="kind: pairwise, and single answers are given"):
        judge_rows(server.judge, PAIR, POINTS, Journal(tmp_path / "a.jsonl"))


def test_no_rows_give_nothing(tmp_path: Path) -> None:
    with serve(JUDGE) as server:
        for spec in (POINT, PAIR):
            judged = judge_rows(server.judge, spec, [], Journal(tmp_path / "a.jsonl"))
            assert (judged.scores, judged.verdicts, judged.floors, judged.findings) == ((), (), None, ())
