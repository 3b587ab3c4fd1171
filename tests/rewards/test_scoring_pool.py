"""Killable scoring with real processes: hangs, deaths, hostile output, and nothing left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import BadInput, InfrastructureFailed
from evalkit.rewards import Response, Score, ScoringPool, Status

NUMBER = ("number", {"marker": "A:", "target_marker": "A:"})
NASTY = """
import os, signal, sys, time
def score(completion, target, item):
    if completion == "hang": time.sleep(60)
    if completion == "segfault": os.kill(os.getpid(), signal.SIGSEGV)
    if completion == "exit": os._exit(3)
    if completion == "print":
        print("\\x00\\xff" * 50_000); os.write(1, b"\\x00" * 100_000); sys.stderr.write("e" * 300_000)
        return float(sys.stdin.read() == "")
    if completion == "pid": return os.getpid()
    return 1
"""


def sample(text: str, target: str | None = "A: 5", **item: Any) -> Response:
    return Response(text, target, item, len(text))


def nasty(root: Path) -> tuple[str, dict[str, Any]]:
    (root / "nasty.py").write_text(NASTY)
    return "python:nasty.py:score", {}


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except OSError:
        return False


async def test_every_sample_has_every_component_whatever_the_text(tmp_path: Path) -> None:
    texts = {"a": "A: 5", "b": "\ud800\x00 A: ٥", "c": "", "d": "x" * 1_000_000 + "A: 6"}
    async with ScoringPool({"n": NUMBER, "r": ("repetition", {"n": "2"})}, tmp_path) as pool:
        found = await pool.score([(name, sample(text, big=10**30)) for name, text in texts.items()])
        assert await pool.score([]) == {}
    assert {name: (scores["n"].value, scores["r"].value) for name, scores in found.items()} == {
        "a": (1.0, 1.0),
        "b": (1.0, 1.0),
        "c": (0.0, 1.0),
        "d": (0.0, 1.0),
    }
    assert found["a"]["n"] == Score(1.0, Status.OK, "5", None)


async def test_a_hang_is_a_timeout_of_the_culprit_alone(tmp_path: Path) -> None:
    components = {"n": NUMBER, "s": nasty(tmp_path)}
    async with ScoringPool(components, tmp_path, deadline=1.0) as pool:
        found = await pool.score([("a", sample("A: 5")), ("b", sample("hang")), ("c", sample("A: 6"))])
    assert found["b"]["s"] == Score(None, Status.TIMEOUT, None, "no answer within 1 s")
    assert (found["b"]["n"].value, found["b"]["n"].answer) == (0.0, None)
    assert [found[name]["n"].value for name in "ac"] == [1.0, 0.0]
    assert [found[name]["s"].value for name in "ac"] == [1.0, 1.0]


async def test_a_catastrophic_pattern_is_a_timeout(tmp_path: Path) -> None:
    components = {"r": ("regex", {"pattern": "^(a+)+$", "mode": "present"})}
    async with ScoringPool(components, tmp_path, deadline=0.7) as pool:
        found = await pool.score([("bad", sample("a" * 40 + "!")), ("good", sample("aaa"))])
    assert (found["bad"]["r"].status, found["good"]["r"].value) == (Status.TIMEOUT, 1.0)


async def test_a_scorer_that_kills_its_process_fails_its_own_sample_alone(tmp_path: Path) -> None:
    async with ScoringPool({"n": NUMBER, "s": nasty(tmp_path)}, tmp_path, deadline=5.0) as pool:
        found = await pool.score([(name, sample(name)) for name in ("segfault", "A: 5", "exit")])
    assert found["segfault"]["s"] == Score(None, Status.FAILED, None, "the scorer process died (signal 11)")
    assert found["exit"]["s"] == Score(None, Status.FAILED, None, "the scorer process died (exit code 3)")
    assert (found["A: 5"]["n"].value, found["A: 5"]["s"].value) == (1.0, 1.0)


async def test_what_a_scorer_prints_or_reads_does_not_touch_the_frames(tmp_path: Path) -> None:
    async with ScoringPool({"s": nasty(tmp_path)}, tmp_path, deadline=5.0) as pool:
        found = await pool.score([("a", sample("print")), ("b", sample("ok"))])
    assert (found["a"]["s"].value, found["b"]["s"].value) == (1.0, 1.0)


async def test_calls_from_many_tasks_get_their_own_scores(tmp_path: Path) -> None:
    async with ScoringPool({"n": NUMBER}, tmp_path, workers=2) as pool:
        batches = [[(f"{b}-{i}", sample(f"A: {b}")) for i in range(5)] for b in range(40)]
        for b, scores in enumerate(await asyncio.gather(*(pool.score(batch) for batch in batches))):
            assert {key: each["n"].answer for key, each in scores.items()} == {f"{b}-{i}": str(b) for i in range(5)}


async def test_a_cancelled_call_leaves_a_pool_that_works(tmp_path: Path) -> None:
    async with ScoringPool({"s": nasty(tmp_path)}, tmp_path, deadline=30.0) as pool:
        task = asyncio.create_task(pool.score([("a", sample("hang"))]))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        before = time.monotonic()
        assert (await pool.score([("b", sample("ok"))]))["b"]["s"].value == 1.0
        assert time.monotonic() - before < 10


async def test_a_component_that_cannot_be_built_is_bad_input_with_the_same_words(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="component 'nubmer': unknown; did you mean 'number'"):
        async with ScoringPool({"n": ("nubmer", {})}, tmp_path):
            pass


async def test_a_child_that_cannot_start_is_an_infrastructure_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    with pytest.raises(InfrastructureFailed, match="scorer process: cannot start"):
        async with ScoringPool({"n": NUMBER}, tmp_path):
            pass
    (tmp_path / "no-python").write_text("#!/bin/sh\necho broken >&2\nexit 7\n")
    (tmp_path / "no-python").chmod(0o755)
    with pytest.raises(InfrastructureFailed, match=r"cannot start: the scorer process died \(exit code 7\).*'broken'"):
        async with ScoringPool({"n": NUMBER}, tmp_path):
            pass


async def test_a_batch_that_cannot_be_told_apart_or_sent_is_bad_input(tmp_path: Path) -> None:
    async with ScoringPool({"n": NUMBER}, tmp_path) as pool:
        with pytest.raises(BadInput, match="a sample id stands twice"):
            await pool.score([("a", sample("1")), ("a", sample("2"))])
        with pytest.raises(BadInput, match="items hold JSON values only"):
            await pool.score([("a", sample("1", thing=object()))])
        assert (await pool.score([("a", sample("A: 5"))]))["a"]["n"].value == 1.0


async def test_no_child_outlives_the_pool(tmp_path: Path) -> None:
    async with ScoringPool({"s": nasty(tmp_path)}, tmp_path) as pool:
        pid = int((await pool.score([("a", sample("pid"))]))["a"]["s"].value or 0)
        assert is_alive(pid)
    assert not Path(f"/proc/{pid}").exists()


async def test_a_child_killed_between_batches_is_replaced(tmp_path: Path) -> None:
    async with ScoringPool({"s": nasty(tmp_path)}, tmp_path) as pool:
        pid = int((await pool.score([("a", sample("pid"))]))["a"]["s"].value or 0)
        os.kill(pid, signal.SIGKILL)
        assert (await pool.score([("b", sample("ok"))]))["b"]["s"].value == 1.0


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and the parent-death signal")
def test_a_hanging_child_dies_with_its_killed_parent(tmp_path: Path) -> None:
    use, _ = nasty(tmp_path)
    script = f"""
import asyncio, sys
from pathlib import Path
from evalkit.rewards import Response, ScoringPool
async def main():
    async with ScoringPool({{"s": ({use!r}, {{}})}}, Path({str(tmp_path)!r}), deadline=60) as pool:
        scores = await pool.score([("a", Response("pid", None, {{}}, None))])
        print(int(scores["a"]["s"].value), flush=True)
        await pool.score([("b", Response("hang", None, {{}}, None))])
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


async def test_completions_are_in_no_argument_and_no_environment(tmp_path: Path) -> None:
    async with ScoringPool({"s": nasty(tmp_path)}, tmp_path) as pool:
        pid = int((await pool.score([("a", sample("pid", secret="SECRET-ITEM"))]))["a"]["s"].value or 0)
        seen = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
    assert b"SECRET-ITEM" not in seen
    assert b"nasty" not in seen
