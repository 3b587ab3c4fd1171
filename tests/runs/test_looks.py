"""Looks wear a split out, and the tool says so."""

from pathlib import Path

import pytest

from evalkit.ledger import Ledger
from evalkit.runs import RunFolder, worn_out
from evalkit.workspace import Workspace, create_workspace


def look(workspace: Workspace, model: int, name: str = "ckpt") -> None:
    with Ledger(workspace.ledger) as ledger:
        ledger.record_look(
            protocol_digest="p", protocol_id="p@1", split_name="s/public", split_root="root", model_digest=str(model),
            model_name=name, repeat=0, purpose="checkpoint", run_id="r",
        )  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> tuple[Workspace, RunFolder]:
    workspace = create_workspace(tmp_path)
    folder = RunFolder(workspace.runs / "r")
    folder.path.mkdir(parents=True)
    split = {"name": "s/public", "role": "public", "root": "root"}
    folder.write_json("run.json", {"format": "evalkit-run/1", "split": split})
    return workspace, folder


def test_the_twenty_first_model_on_a_public_split_comes_with_a_warning(run: tuple[Workspace, RunFolder]) -> None:
    workspace, folder = run
    for model in range(20):
        look(workspace, model)
    assert worn_out(workspace, folder) is None
    look(workspace, 20)
    alarm = worn_out(workspace, folder)
    assert alarm is not None
    assert alarm.statement == (
        "21 models were looked at on s/public, past its soft budget of 20: the best of them is partly luck; "
        "`evalkit split looks s` says how much"
    )


def test_floors_and_controls_do_not_wear_a_split_out(run: tuple[Workspace, RunFolder]) -> None:
    workspace, folder = run
    for model in range(30):
        look(workspace, model, "baseline:null")
    assert worn_out(workspace, folder) is None
