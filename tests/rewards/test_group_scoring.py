"""Groups in killable processes: called once, whole, and alone with their fate."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from evalkit.rewards import Response, Score, ScoringPool, Status
from tests.rewards.test_scoring_pool import NUMBER, is_alive

FUNCTIONS = """
import os, signal, time
def f(prompts, completions, **columns):
    if "hang" in completions: time.sleep(60)
    if "die" in completions: os.kill(os.getpid(), signal.SIGSEGV)
    if "short" in completions: return [1.0]
    if "pid" in completions: return [os.getpid()] * len(completions)
    return [100 * len(completions) + sorted(completions).index(each) for each in completions]
"""
GROUP = ("trl:groups.py:f", {})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "groups.py").write_text(FUNCTIONS)
    return tmp_path


def batch(*groups: list[str]) -> list[tuple[str, Response]]:
    """Samples named `GROUP.TRIAL`."""
    return [
        (f"{at}.{trial}", Response(text, "A: 5", {"prompt": f"p{at}"}, None))
        for at, group in enumerate(groups)
        for trial, text in enumerate(group)
    ]


async def test_a_group_component_is_called_once_a_group_and_others_once_a_sample(root: Path) -> None:
    async with ScoringPool({"n": NUMBER, "g": GROUP}, root) as pool:
        found = await pool.score(batch(["A: 5", "A: 4"], ["A: 5"], ["b", "c", "a"]), [2, 1, 3])
    assert [scores["g"].value for scores in found.values()] == [201.0, 200.0, 100.0, 301.0, 302.0, 300.0]
    assert [scores["n"].value for scores in found.values()] == [1.0, 0.0, 1.0, 0.0, 0.0, 0.0]


async def test_only_the_components_asked_for_are_run(root: Path) -> None:
    async with ScoringPool({"n": NUMBER, "g": GROUP}, root) as pool:
        assert list((await pool.score(batch(["a"]), [1], ["g"]))["0.0"]) == ["g"]
        assert list((await pool.score(batch(["a"]), None, ["n"]))["0.0"]) == ["n"]


async def test_groups_that_are_not_said_or_do_not_fit_are_an_error(root: Path) -> None:
    async with ScoringPool({"g": GROUP}, root) as pool:
        for groups in (None, [1], [3], [2, 0]):
            with pytest.raises(ValueError, match="group"):
                await pool.score(batch(["a", "b"]), groups)


@pytest.mark.parametrize(
    ("culprit", "status", "evidence"),
    [
        ("hang", Status.TIMEOUT, "no answer within 0.8 s"),
        ("die", Status.FAILED, "the scorer process died (signal 11)"),
        ("short", Status.FAILED, "the function returned 1 values for 2 completions"),
    ],
)
async def test_the_group_of_a_culprit_has_no_verdict_and_all_else_has_its_scores(
    root: Path, culprit: str, status: Status, evidence: str
) -> None:
    async with ScoringPool({"n": NUMBER, "g": GROUP}, root, deadline=0.8) as pool:
        found = await pool.score(batch(["A: 5", "b"], ["A: 5", culprit], ["c", "d"]), [2, 2, 2])
    assert [scores["g"].value for scores in found.values()] == [200.0, 201.0, None, None, 200.0, 201.0]
    assert {found[name]["g"] for name in ("1.0", "1.1")} == {Score(None, status, None, evidence)}
    assert [scores["n"].value for scores in found.values()] == [1.0, 0.0, 1.0, 0.0, 0.0, 0.0]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and the parent-death signal")
def test_a_child_without_network_dies_with_its_killed_parent_too(root: Path) -> None:
    script = f"""
import asyncio
from pathlib import Path
from evalkit.rewards import Response, ScoringPool
async def main():
    async with ScoringPool({{"g": {GROUP!r}}}, Path({str(root)!r}), deadline=60) as pool:
        said = lambda text: [("a", Response(text, None, {{"prompt": ""}}, None))]
        print(int((await pool.score(said("pid"), [1]))["a"]["g"].value), flush=True)
        await pool.score(said("hang"), [1])
asyncio.run(main())
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    time.sleep(0.2)
    assert is_alive(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 5
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(pid)
