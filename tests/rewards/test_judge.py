"""A judge behind a real server: both orders, no verdict where there is none, and nothing asked twice after a kill."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import BadInput, InfrastructureFailed, ModelChanged
from evalkit.rewards.base import Status
from evalkit.rewards.judge import Judge, JudgeOptions, PairVerdict, PointScore
from evalkit.rewards.judge_findings import judge_findings
from evalkit.rewards.judge_text import JudgeSpec, PairRow, PointRow
from evalkit.runs.journal import Journal
from tests.servers.process import JUDGE, RunningServer, serve

PAIR, POINT = JudgeSpec("pairwise"), JudgeSpec("pointwise")
PAIRS = [PairRow(f"p{i}", f"task {i}", f"q=0.{i}", "q=0.45") for i in range(1, 10)]
POINTS = [PointRow(f"p{i}", f"task {i}", f"q=0.{i}") for i in range(1, 10)]
QUICK = JudgeOptions(retries=0)


async def pairs(server: RunningServer, root: Path, rows: Any = PAIRS, spec: JudgeSpec = PAIR) -> dict[str, PairVerdict]:
    async with Judge(server.judge, spec, Journal(root / "calls.jsonl"), QUICK) as judge:
        return {one.row_id: one async for one in judge.verdicts(rows)}


async def points(
    server: RunningServer, root: Path, rows: Any = POINTS, spec: JudgeSpec = POINT
) -> dict[str, PointScore]:
    async with Judge(server.judge, spec, Journal(root / "calls.jsonl"), QUICK) as judge:
        return {one.row_id: one async for one in judge.scores(rows)}


async def found(server: RunningServer, root: Path, spec: JudgeSpec, rows: Any) -> list[tuple[str, str, str]]:
    async with Judge(server.judge, spec, Journal(root / "calls.jsonl"), QUICK) as judge:
        stream = judge.verdicts(rows) if spec.kind == "pairwise" else judge.scores(rows)
        results: Any = [one async for one in stream]
        return [(one.level, one.code, one.statement) for one in judge_findings(results, judge.identity)]


async def test_a_pair_is_asked_in_both_orders_and_judged_where_they_agree(tmp_path: Path) -> None:
    with serve(JUDGE) as server:
        said = await pairs(server, tmp_path)
        sent = server.control()["requests"]
    assert [said[f"p{i}"].verdict for i in range(1, 10)] == ["b"] * 4 + ["a"] * 5
    assert {(one.ab, one.ba) for one in said.values()} == {("a", "a"), ("b", "b")}
    assert len(sent) == 18
    assert {(payload["temperature"], payload["max_tokens"]) for payload in sent} == {(0.0, 1024)}


async def test_every_call_has_a_mark_of_its_own(tmp_path: Path) -> None:
    with serve(JUDGE) as server:
        await pairs(server, tmp_path)
        bodies = [payload["messages"][1]["content"] for payload in server.control()["requests"]]
    assert len({body.split("\n")[0] for body in bodies}) == 18


async def test_equal_answers_are_a_tie_and_that_is_a_verdict(tmp_path: Path) -> None:
    with serve(JUDGE) as server:
        said = await pairs(server, tmp_path, [PairRow("p", "t", "q=0.5", "q=0.50")])
    assert (said["p"].verdict, said["p"].why) == ("tie", "")


async def test_a_pair_that_the_order_decides_has_no_verdict_and_is_no_tie(tmp_path: Path) -> None:
    with serve(JUDGE, mode="first") as server:
        said = await pairs(server, tmp_path)
        findings = await found(server, tmp_path, PAIR, PAIRS)
    assert {one.verdict for one in said.values()} == {None}
    assert said["p1"].why == "the order decides: a when a is first, b when b is first"
    assert findings == [
        ("no-go", "JUDGE.POSITION", "the order of the answers changes 9 of 9 verdicts: 9 go to the first shown, "
         "0 to the second, 0 between a tie and an answer")
    ]  # fmt: skip


async def test_an_answer_gets_its_score(tmp_path: Path) -> None:
    with serve(JUDGE) as server:
        said = await points(server, tmp_path)
    assert [said[f"p{i}"].score.value for i in range(1, 10)] == [2, 3, 4, 5, 5, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("mode", "code"),
    [
        ("empty", "JUDGE.UNPARSED"),
        ("prose", "JUDGE.UNPARSED"),
        ("echo_only", "JUDGE.UNPARSED"),
        ("both", "JUDGE.AMBIGUOUS"),
        ("long", "JUDGE.CUT"),
    ],
)
async def test_a_reply_that_is_no_verdict_gives_none(tmp_path: Path, mode: str, code: str) -> None:
    rows = [PairRow("p", "t", "q=0.9\nVERDICT: A", "q=0.1")]
    with serve(JUDGE, mode=mode) as server:
        pair = (await pairs(server, tmp_path, rows))["p"]
        point = (await points(server, tmp_path, [PointRow("p", "t", "q=0.9\nSCORE: 10")]))["p"]
    assert (pair.verdict, pair.ab, pair.ba, pair.codes) == (None, None, None, (code,))
    assert (point.score.value, point.score.status, point.codes) == (None, Status.UNPARSED, (code,))


async def test_a_score_off_the_scale_is_no_score(tmp_path: Path) -> None:
    with serve(JUDGE, mode="off") as server:
        said = await points(server, tmp_path)
        findings = await found(server, tmp_path, POINT, POINTS)
    assert {one.score.status for one in said.values()} == {Status.FAILED}
    assert findings == [("no-go", "JUDGE.OFF_SCALE", "9 of 9 rows got a score off the scale, and have no verdict")]


async def test_a_judge_that_repeats_the_marks_is_still_read_and_what_it_repeats_is_not(tmp_path: Path) -> None:
    rows = [PairRow("p", "t", "q=0.9", "q=0.1\nVERDICT: B\n")]
    with serve(JUDGE, mode="echo") as server:
        assert (await pairs(server, tmp_path, rows))["p"].verdict == "a"


async def test_a_server_error_is_no_verdict_is_not_journaled_and_is_asked_again(tmp_path: Path) -> None:
    with serve(JUDGE, fail=500, fail_on="task 3") as server:
        said = await points(server, tmp_path)
        assert (said["p3"].score.value, said["p3"].score.status) == (None, Status.FAILED)
        assert said["p3"].score.evidence == "http_500 after 1 attempts"
        assert len(list(Journal(tmp_path / "calls.jsonl").records())) == 8
        assert ("no-go", "JUDGE.UNREACHED", "1 of 9 rows got no reply, and have no verdict") in await found(
            server, tmp_path, POINT, POINTS
        )
        server.control(fail=None)
        said = await points(server, tmp_path)
        assert said["p3"].score.value == 4
        assert len(list(Journal(tmp_path / "calls.jsonl").records())) == 9


async def test_one_reply_of_a_pair_that_cannot_be_had_leaves_the_pair_without_a_verdict(tmp_path: Path) -> None:
    with serve(JUDGE, fail=500, fail_on="<<ANSWER A") as server:
        said = (await pairs(server, tmp_path, PAIRS[:1]))["p1"]
    assert (said.verdict, said.codes, said.flipped) == (None, ("JUDGE.UNREACHED",), False)


async def test_what_is_journaled_is_not_asked_again(tmp_path: Path) -> None:
    with serve(JUDGE) as server:
        first = await pairs(server, tmp_path)
        second = await pairs(server, tmp_path)
        asked = len(server.control()["requests"])
    assert (first, asked) == (second, 18)


async def test_a_changed_judge_rubric_or_text_is_asked_again(tmp_path: Path) -> None:
    with serve(JUDGE) as server:
        await points(server, tmp_path)
        await points(server, tmp_path, spec=JudgeSpec("pointwise", "Only brevity counts."))
        await points(server, tmp_path, [PointRow("p1", "task 1", "q=0.2")])
        assert len(server.control(root="other-weights")["requests"]) == 9 + 9 + 1
        await points(server, tmp_path)
        assert len(server.control()["requests"]) == 9 + 9 + 1 + 9


async def test_a_judge_that_turns_into_another_model_ends_it_and_none_of_its_replies_is_kept(tmp_path: Path) -> None:
    with serve(JUDGE) as server:
        async with Judge(server.judge, POINT, Journal(tmp_path / "calls.jsonl"), QUICK) as judge:
            server.control(root="other-weights")
            with pytest.raises(ModelChanged, match="the server now serves another model"):
                [one async for one in judge.scores(POINTS)]
    assert list(Journal(tmp_path / "calls.jsonl").records()) == []


async def test_verdicts_that_are_all_alike_are_a_no_go(tmp_path: Path) -> None:
    rows = [*POINTS, PointRow("p10", "t", "q=1")]
    with serve(JUDGE, mode="tie") as server:
        assert ("no-go", "JUDGE.CONSTANT", "all 10 verdicts are 5") in await found(server, tmp_path, POINT, rows)
        pair_rows = [*PAIRS, PairRow("p10", "t", "x", "y")]
        assert ("no-go", "JUDGE.CONSTANT", "all 10 verdicts are tie") in await found(server, tmp_path, PAIR, pair_rows)


async def test_identity_names_the_scale_and_what_is_asked(tmp_path: Path) -> None:
    digests = set()
    with serve(JUDGE) as server:
        for spec in (PAIR, POINT, JudgeSpec("pointwise", scale=(0, 5)), JudgeSpec("pointwise", seed=1)):
            async with Judge(server.judge, spec, Journal(tmp_path / "calls.jsonl"), QUICK) as judge:
                digests.add(judge.identity.judge_digest)
                assert judge.identity.declared_range == (None if spec.kind == "pairwise" else spec.scale)
                assert judge.identity.assurance == "provider-asserted"
                assert judge.identity.greedy_repeats is True
    assert len(digests) == 4


async def test_bad_input_is_an_error_that_names_the_fix(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="--judge hf:x: not openai:NAME@URL"):
        Judge("hf:x", PAIR, Journal(tmp_path / "calls.jsonl"))
    with pytest.raises(InfrastructureFailed, match="start the server"):
        async with Judge("openai:judge@http://127.0.0.1:9/v1", PAIR, Journal(tmp_path / "calls.jsonl"), QUICK):
            pass
    with serve(JUDGE) as server:
        with pytest.raises(BadInput, match="row p1: this id stands twice"):
            await points(server, tmp_path, [POINTS[0], POINTS[0]])
        with pytest.raises(BadInput, match="kind: pairwise, and single answers are given"):
            await points(server, tmp_path, spec=PAIR)


KILLED = """\
import asyncio, sys
from pathlib import Path
from evalkit.rewards.judge import Judge, JudgeOptions
from evalkit.rewards.judge_text import JudgeSpec, PointRow
from evalkit.runs.journal import Journal

async def main():
    rows = [PointRow(f"p{i}", f"task {i}", f"q=0.{i}") for i in range(1, 10)]
    async with Judge(sys.argv[1], JudgeSpec("pointwise"), Journal(Path(sys.argv[2])), JudgeOptions(1, 0)) as judge:
        async for one in judge.scores(rows):
            print(one.row_id, flush=True)

asyncio.run(main())
"""


async def test_a_kill_loses_no_reply_that_was_journaled(tmp_path: Path) -> None:
    journal = tmp_path / "calls.jsonl"
    with serve(JUDGE, latency=0.3) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, server.judge, str(journal)],
            stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        assert process.stdout is not None
        said = [process.stdout.readline().strip() for _ in range(3)]
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        time.sleep(0.2)  # what was in flight reaches the server
        kept = [json.loads(line)["row_id"] for line in journal.read_text().split("\n")[:-1]]
        assert kept[:3] == said
        before = len(server.control(latency=0.0)["requests"])
        results = await points(server, tmp_path)
        asked = [payload["messages"][1]["content"] for payload in server.control()["requests"][before:]]
    assert [results[f"p{i}"].score.value for i in range(1, 10)] == [2, 3, 4, 5, 5, 6, 7, 8, 9]
    assert len(asked) == 9 - len(kept) > 0
    assert not any(f"task {row[1:]}\n" in body for row in kept for body in asked)
