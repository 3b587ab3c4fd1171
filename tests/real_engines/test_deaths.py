"""Engines that die, and an evalkit that is killed: nothing finished is lost, nothing is left running."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.real_engines.support import EAGER, Lab, alive, descendants


def wait_for_lines(lab: Lab, process, least: int) -> Path:
    """The run's folder, once its journal holds so many samples."""
    end = time.monotonic() + 240
    while time.monotonic() < end and process.poll() is None:
        for run in lab.runs() if (lab.root / ".evalkit" / "runs").is_dir() else ():
            if len(lab.journaled(run)) >= least:
                return run
        time.sleep(0.002)
    raise AssertionError(f"no {least} samples: {process.communicate()[1][-2000:]}")


@pytest.mark.parametrize("engine", ["vllm", "hf"])
def test_a_killed_run_resumes_to_the_answers_of_an_undisturbed_one(
    lab: Lab, own_lab: Lab, checkpoint: Path, engine: str
) -> None:
    arguments = ["run", "sampled@1", "--split", "dev", "--model", f"{engine}:{checkpoint}", "--concurrency", "16"]
    arguments += EAGER if engine == "vllm" else ()
    process = own_lab.start(*arguments)
    run = wait_for_lines(own_lab, process, 100)
    started = descendants(process.pid)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    kept = own_lab.journaled(run)
    assert 100 <= len(kept) < 2000
    assert started
    end = time.monotonic() + 20
    while any(map(alive, started)) and time.monotonic() < end:
        time.sleep(0.1)
    assert not [pid for pid in started if alive(pid)], "something of the engine outlived evalkit"

    done = own_lab.evalkit(*arguments)
    assert done.code == 0, done.err
    assert own_lab.journaled(run)[: len(kept)] == kept
    whole = lab.run("sampled", f"{engine}:{checkpoint}", *arguments[8:])
    resumed = own_lab.samples(run.name)
    assert resumed["sample_id"].equals(whole["sample_id"])
    assert resumed["seed"].equals(whole["seed"])
    assert (resumed["completion"] == whole["completion"]).mean() >= 0.999


@pytest.mark.parametrize("engine", ["vllm", "hf"])
def test_an_engine_that_dies_is_started_again_and_finished_samples_stay(
    own_lab: Lab, checkpoint: Path, engine: str
) -> None:
    arguments = ["run", "sampled@1", "--split", "dev", "--model", f"{engine}:{checkpoint}", "--concurrency", "16"]
    arguments += EAGER if engine == "vllm" else ()
    process = own_lab.start(*arguments)
    run = wait_for_lines(own_lab, process, 100)
    kept = own_lab.journaled(run)
    innermost = descendants(process.pid)
    workers = [pid for pid in innermost if b"rewards.worker" not in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(workers[-1], signal.SIGKILL)  # as the out-of-memory killer would
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    lines = own_lab.journaled(run)
    assert lines[: len(kept)] == kept
    assert len({json.loads(line)["sample_id"] for line in lines}) == len(lines) == 2000
    assert json.loads((run / "engine.json").read_text())["restarts"] == 1


def test_an_engine_that_dies_again_and_again_ends_the_run_as_infrastructure(own_lab: Lab, checkpoint: Path) -> None:
    arguments = ["run", "sampled@1", "--split", "dev", "--model", f"hf:{checkpoint}", "--concurrency", "1000"]
    process = own_lab.start(*arguments)
    killed: set[int] = set()
    end = time.monotonic() + 240
    while process.poll() is None and time.monotonic() < end:
        for pid in descendants(process.pid):
            if pid not in killed and b"hf_worker" in _command(pid) and own_lab_started(own_lab):
                time.sleep(0.5)
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
        time.sleep(0.02)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 75, err
    assert len(err.strip().split("\n")) == 1
    assert "the engine died 3 times without finishing a completion" in err
    assert len(killed) == 3


def own_lab_started(lab: Lab) -> bool:
    """Whether the run has begun, that is, the weights were loaded once."""
    return (lab.root / ".evalkit" / "runs").is_dir() and any((run / "run.json").exists() for run in lab.runs())


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_an_argument_that_the_engine_does_not_know_is_one_line_and_no_run(own_lab: Lab, checkpoint: Path) -> None:
    for engine, mend in (
        ("hf", "known: attn_implementation, device, device_map, dtype"),
        ("vllm", "did you mean dtype?"),
    ):
        name = "dtyp" if engine == "vllm" else "colour"
        done = own_lab.evalkit(
            "run", "greedy@1", "--split", "smoke", "--model", f"{engine}:{checkpoint}", "--engine-arg", f"{name}=1"
        )
        assert (done.code, done.out) == (2, "")
        assert len(done.err.strip().split("\n")) == 1
        assert mend in done.err
    assert not (own_lab.root / ".evalkit" / "runs").is_dir() or own_lab.runs() == []
