"""A judge that scores data within the audit: both orders, its floors and faults as findings, and nothing asked twice."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.audit.support import Desk, Done
from tests.servers.process import JUDGE, RunningServer, serve

N = 40
QUALITY = [(i * 7 % N) / N for i in range(N)]


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with serve(JUDGE) as running:
        yield running


def judge_file(desk: Desk, server: RunningServer, **fields: Any) -> Path:
    path = desk.root / "judge.yaml"
    content = {"judge": server.judge, "kind": "pointwise", "retries": 0, **fields}
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in content.items()))
    return path


def answers(desk: Desk) -> Path:
    rows = [(i, f"s{i // 2}", f"task {i}", f"right {i} q={q:.3f}", q) for i, q in enumerate(QUALITY)]
    return desk.table("data.csv", ["sample_id", "item_id", "prompt", "text", "label"], rows)


def pairs(desk: Desk) -> Path:
    rows = [
        (i, f"task {i}", f"q={q:.3f}", "q=0.45", "1" if q > 0.45 else "2") for i, q in enumerate(QUALITY)
    ]  # fmt: skip
    return desk.table("pairs.csv", ["id", "question", "left", "right", "label"], rows)


PAIR_COLUMNS = ("sample_id=id", "prompt=question", "a=left", "b=right")


def audit(desk: Desk, judge: Path, data: Path, *flags: str, columns: tuple[str, ...] = (), **spec: Any) -> Done:
    mapped = [part for column in columns for part in ("--map", column)]
    base = {"reward": "judge", "cluster_by": "none", **spec}
    return desk.evalkit(
        "audit", "reward", "--judge", str(judge), "--data", str(data), "--labels", str(data),
        "--spec", str(desk.spec(**base)), *mapped, *flags,
    )  # fmt: skip


def sent(server: RunningServer) -> int:
    return len(server.control()["requests"])


def codes(done: Done) -> dict[str, str]:
    return {finding["code"]: finding["severity"] for finding in done.json["findings"]}


def test_single_answers_are_scored_audited_and_not_asked_again(desk: Desk, server: RunningServer) -> None:
    server.control(mode="knows")
    judge, data = judge_file(desk, server), answers(desk)
    done = audit(desk, judge, data, "--json")
    assert done.code == 0, done.json["findings"]
    assert done.json["registered"]["estimate"]["n"] == N
    assert done.json["registered"]["estimate"]["value"] > 0.98
    asked = sent(server)
    assert asked > N, "floors are asked too"
    again = audit(desk, judge, data, "--json")
    assert again.json["digest"] == done.json["digest"]
    assert sent(server) == asked
    kept = next((desk.root / ".evalkit" / "scores").iterdir())
    assert {path.name for path in kept.iterdir()} >= {"calls.jsonl", "scores.parquet", "scorer.json"}


def test_pairs_are_asked_in_both_orders_and_held_against_the_labels_words(desk: Desk, server: RunningServer) -> None:
    judge = judge_file(desk, server, kind="pairwise", words={"a": "1", "b": "2"}, floors=0)
    spec = {"statistic": "accuracy", "thresholds": {"usable": 0.6, "trustworthy": 0.8}}
    done = audit(desk, judge, pairs(desk), "--json", columns=PAIR_COLUMNS, **spec)
    assert done.json["registered"]["estimate"]["value"] == 39 / 40, "one pair is a tie, and no human said so"
    assert sent(server) == 2 * N
    assert "JUDGE.POSITION" not in codes(done)


def test_a_judge_that_takes_the_first_has_no_verdicts_and_the_finding_blocks(
    desk: Desk, server: RunningServer
) -> None:  # fmt: skip
    server.control(mode="first")
    judge = judge_file(desk, server, kind="pairwise", words={"a": "1", "b": "2"}, floors=0)
    done = audit(desk, judge, pairs(desk), columns=PAIR_COLUMNS, statistic="accuracy")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert f"no labelled sample has a usable score of judge (order decides {N})" in done.err


def test_a_judge_that_obeys_its_texts_is_blocked_by_its_floor(desk: Desk, server: RunningServer) -> None:
    server.control(mode="obeys")
    done = audit(desk, judge_file(desk, server), answers(desk), "--json")
    assert done.code == 1
    assert codes(done)["SCORE.FLOOR_INJECTION"] == "blocking"
    assert done.json["verdict"]["word"] == "not trustworthy"


def test_replies_without_a_verdict_are_no_scores_and_warn(desk: Desk, server: RunningServer) -> None:
    data = answers(desk)
    server.control(fail=400, fail_on="task 11\n")
    done = audit(desk, judge_file(desk, server, floors=0), data, "--json")
    assert done.json["ledger"]["used"] == N - 1
    assert not [code for code, severity in codes(done).items() if severity == "blocking"]


def test_what_the_server_could_not_say_is_asked_the_next_time_and_only_that(
    desk: Desk, server: RunningServer
) -> None:  # fmt: skip
    judge, data = judge_file(desk, server, floors=0), answers(desk)
    server.control(fail=500, fail_on="task 11\n")
    first = audit(desk, judge, data, "--json")
    assert first.json["ledger"]["unscored"] == {"failed": 1}
    assert codes(first)["JUDGE.UNREACHED"] == "warning"
    before = sent(server)
    server.control(fail=None)
    second = audit(desk, judge, data, "--json")
    assert second.json["ledger"]["used"] == N
    assert sent(server) == before + 1
    assert audit(desk, judge, data, "--json").json["digest"] == second.json["digest"]


def test_repeats_say_how_far_the_judge_repeats_itself(desk: Desk, server: RunningServer) -> None:
    done = audit(desk, judge_file(desk, server, floors=0), answers(desk), "--json", "--repeats", "3")
    (line,) = done.json["sections"]["repeats"]
    assert (line["name"], line["estimate"]["value"]) == ("ICC(1,1)", 1)
    assert line["rules"] == f"{N} rows asked 3 times, with other marks and seeds"
    assert sent(server) == 3 * N
    judge = judge_file(desk, server, kind="pairwise", words={"a": "1", "b": "2"}, floors=0)
    done = audit(desk, judge, pairs(desk), "--json", "--repeats", "2", columns=PAIR_COLUMNS, statistic="kappa")
    assert done.json["sections"]["repeats"][0]["estimate"]["value"] == 1


def test_a_mistake_is_one_line_with_its_mend(desk: Desk, server: RunningServer) -> None:
    data = answers(desk)
    pairwise = judge_file(desk, server, kind="pairwise")
    assert "no column a" in (line := audit(desk, pairwise, data, statistic="kappa").err)
    assert line.count("\n") == 1
    assert "gives labels a, b and tie, and statistic spearman takes numbers" in audit(desk, pairwise, data).err
    judge = judge_file(desk, server, floor=3)
    assert "unknown field floor; did you mean floors?" in audit(desk, judge, data).err
    judge = judge_file(desk, server)
    assert "has a column label already" in audit(desk, judge, data, reward="label").err
    base = ["audit", "reward", "--labels", str(data), "--spec", str(desk.spec())]
    for flags, message in (
        (["--judge", str(judge)], "--data: goes with --reward-model or --judge"),
        (["--judge", str(judge), "--scores", str(data)], "give one of --scores (numbers), --verdicts"),
        (["--reward-model", "hf-rm:x", "--data", str(data), "--repeats", "2"], "--repeats: goes with --judge"),
        (["--reward-model", "hf-rm:x", "--data", str(data), "--engine-arg", "size=2"], "no option of a reward model"),
        (["--reward-model", "hf-rm:x", "--data", str(data), "--engine-arg", "eos=1"], "eos: 1 is not bool"),
        (["--scores", str(data), "--as-turn"], "--as-turn: goes with --reward-model"),
    ):
        done = desk.evalkit(*base, *flags)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert message in done.err
    with data.open(newline="") as file:
        rows = list(csv.reader(file))
    twice = desk.table("twice.csv", rows[0], [*rows[1:], [*rows[1][:3], "another", "0"]])
    assert f"rows 2 and {N + 2}, field text: two texts for sample 0" in audit(desk, judge, twice).err
