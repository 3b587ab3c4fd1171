"""Checkpoints of a training folder, in step order, complete ones only."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evalkit.cli.app import app
from evalkit.engines.checkpoint import read_checkpoint
from evalkit.errors import BadInput
from evalkit.runs.watching import watch
from tests.e2e.support import new_bench

EXAMPLE = Path("examples/arithmetic-grpo/checkpoints/hackable-s0-step-240")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalkit.runs.watching.POLL_SECONDS", 0.02)


def checkpoint(folder: Path, step: int) -> Path:
    return Path(shutil.copytree(EXAMPLE, folder / f"checkpoint-{step}"))


def names(found: Iterator[Path]) -> list[str]:
    return [path.name for path in found]


def test_what_is_there_comes_in_order_of_its_step_and_no_other_folder(tmp_path: Path) -> None:
    for step in (240, 40, 1000):
        checkpoint(tmp_path, step)
    (tmp_path / "runs").mkdir()
    (tmp_path / "trainer_state.json").write_text("{}")
    assert names(watch(tmp_path, 0.2)) == ["checkpoint-40", "checkpoint-240", "checkpoint-1000"]


def test_one_that_is_being_written_is_waited_for_also_by_those_after_it(tmp_path: Path) -> None:
    weights = checkpoint(tmp_path, 40) / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    checkpoint(tmp_path, 80)
    waited: list[str] = []

    def finish(what: str) -> None:
        waited.append(what)
        if what == "checkpoint-40 to be complete":
            threading.Timer(0.1, lambda: weights.write_bytes(whole)).start()

    assert names(watch(tmp_path, 0.5, finish)) == ["checkpoint-40", "checkpoint-80"]
    assert waited[0] == "checkpoint-40 to be complete"


def test_one_that_is_never_finished_is_passed_over_at_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalkit.runs.watching.PASSED_OVER", 0.1)
    (checkpoint(tmp_path, 40) / "model.safetensors").write_bytes(b"")
    checkpoint(tmp_path, 80)
    assert names(watch(tmp_path, 0.5)) == ["checkpoint-80"]


def test_one_that_appears_later_is_found(tmp_path: Path) -> None:
    threading.Timer(0.1, lambda: checkpoint(tmp_path, 5)).start()
    assert names(watch(tmp_path, 1.0)) == ["checkpoint-5"]


def test_weights_that_verl_nests_in_a_step_are_found_under_that_step(tmp_path: Path) -> None:
    nested = tmp_path / "global_step_40" / "actor" / "huggingface"
    shutil.copytree(EXAMPLE, nested)
    assert list(watch(tmp_path, 0.2)) == [nested]
    checkpoint = read_checkpoint(str(nested), tmp_path, "--model")
    assert (checkpoint.step, checkpoint.name) == (40, f"{tmp_path.name}/global_step_40")


def test_no_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such folder; give the folder that training writes"):
        next(watch(tmp_path / "gone" / "run", 0))


def test_a_folder_that_training_has_yet_to_make_is_waited_for(tmp_path: Path) -> None:
    watching = watch(tmp_path / "run", None)
    threading.Timer(0.2, checkpoint, (tmp_path / "run", 40)).start()
    assert next(watching).name == "checkpoint-40"
    assert list(watch(tmp_path / "never", 0.1)) == []


def test_a_checkpoint_removed_before_its_turn_is_named_and_the_watch_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = new_bench(tmp_path / "ws")
    monkeypatch.chdir(bench.root)
    gone = tmp_path / "s0" / "checkpoint-40"
    monkeypatch.setattr("evalkit.runs.watch", lambda *_: iter([gone, gone.with_name("checkpoint-80")]))
    command = ["run", "arithmetic@1", "--split", "dev", "--model", "hf", "--watch", str(gone.parent), "--idle", "0"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0
    told = [line for line in done.stderr.splitlines() if "removed before it was evaluated" in line]
    assert [line.partition(": ")[0] for line in told] == [f"hf:{gone}", f"hf:{gone.with_name('checkpoint-80')}"]
