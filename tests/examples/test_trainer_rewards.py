"""The example's own TRL functions as components: on the trainer's logs they give the rewards that it logged.

TRL puts what a function returns into a float32 tensor, and logs that (`_calculate_rewards` in TRL 1.16.0). So a logged
reward is the function's value rounded to float32; evalkit keeps the value itself.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from evalkit import api
from evalkit.errors import BadInput, Refused
from evalkit.rewards import GroupComponent, Response, ScoringPool, Status, build, evaluate_group
from evalkit.workspace import Workspace, create_workspace

ROOT = Path(__file__).parents[2]
EXAMPLE = Path("examples") / "arithmetic-grpo"
LOGS = sorted((ROOT / EXAMPLE / "runs").glob("*/completions.parquet"))
USE = f"trl:{EXAMPLE}/rewards.py:"
FUNCTIONS = ("correct_reward", "length_bonus_reward")


def groups(log: pl.DataFrame) -> Iterator[list[tuple[str, Response]]]:
    """The trainer's prompt groups: rows that follow each other under one prompt. Golds are not in the log."""
    rows = enumerate(log.select("step", "prompt", "completion").iter_rows())
    for (_, prompt), group in itertools.groupby(rows, key=lambda row: row[1][:2]):
        yield [(str(at), Response(text, None, {"prompt": prompt}, None)) for at, (_, _, text) in group]


def logged(path: Path) -> list[tuple[pl.DataFrame, str]]:
    log = pl.read_parquet(path)
    return [(log, name) for name in FUNCTIONS if name in log.columns]


def test_every_logged_reward_is_what_the_function_gives_through_the_adapter() -> None:
    rows = equal = 0
    for log, name in itertools.chain.from_iterable(map(logged, LOGS)):
        component = build(USE + name, {}, ROOT)
        assert isinstance(component, GroupComponent)
        found = [each for group in groups(log) for each in evaluate_group(component, [r for _, r in group])]
        assert {score.status for score in found} == {Status.OK}
        values = np.array([score.value for score in found], dtype=np.float32)
        rows += len(values)
        equal += int((values == log[name].to_numpy()).sum())
    assert (len(LOGS), rows, equal) == (4, 36_864, 36_864)


async def test_and_so_they_are_through_the_process_without_network() -> None:
    log, name = logged(LOGS[2])[1]
    log = log.head(1024)
    async with ScoringPool({"r": (USE + name, {})}, ROOT) as pool:
        parts = list(groups(log))
        found = await pool.score([sample for part in parts for sample in part], [len(part) for part in parts])
    values = np.array([found[str(at)]["r"].value for at in range(log.height)], dtype=np.float32)
    assert (values == log[name].to_numpy()).all()


PYTHON = {"correct": f"python:{EXAMPLE}/rewards.py:correct", "length": f"python:{EXAMPLE}/rewards.py:length_bonus"}
TRL = {"correct": f"{USE}correct_reward", "length": f"{USE}length_bonus_reward"}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The example's smoke split, and its protocol with the functions as `python:` (@1) and as `trl:` (@2)."""
    home = create_workspace(tmp_path_factory.mktemp("example") / "ws")
    (home.root / EXAMPLE).mkdir(parents=True)
    shutil.copy(ROOT / EXAMPLE / "rewards.py", home.root / EXAMPLE)
    api.build_split(
        ROOT / EXAMPLE / "items.jsonl", name="s", sizes={"smoke": 20, "dev": 60}, cluster_by="cluster", id_field="id",
        text_fields=["question"], workspace=home,
    )  # fmt: skip
    text = (ROOT / "protocols" / "arithmetic.yaml").read_text(encoding="utf-8")
    generation = text[: text.index("reward:")]
    for version, uses in ((1, PYTHON), (2, TRL)):
        params = ", params: {prompt_field: question}" if version == 2 else ""
        parts = "".join(f"    {name}: {{use: '{use}', role: other{params}}}\n" for name, use in uses.items())
        frozen = generation.replace("version: 1", f"version: {version}")
        path = home.protocols / f"v{version}.yaml"
        path.write_text(f"{frozen}reward:\n  components:\n{parts}success: {{component: correct}}\n", encoding="utf-8")
        assert api.freeze(path, home).written
    return home


def test_a_run_under_the_trl_functions_has_the_values_of_the_plain_ones(workspace: Workspace) -> None:
    model = f"replay:{ROOT / EXAMPLE / 'recordings' / 'hackable-s0-step-240.parquet'}"
    run = api.run("arithmetic@1", "s/dev", model, workspace=workspace).run
    assert api.run("arithmetic@2", "s/dev", model, workspace=workspace).run.run_id == run.run_id
    columns = ["sample_id", "value.correct", "value.length", "reward", "success"]
    plain, trl = (
        api.evidence(run.run_id, f"arithmetic@{version}", workspace).frame.select(columns) for version in (1, 2)
    )
    assert plain.height == 60 * 8
    assert plain["value.length"].null_count() == 0
    assert trl.equals(plain)
    first, second = (api.summarize(run.run_id, f"arithmetic@{version}", workspace=workspace) for version in (1, 2))
    assert [measure.floor for measure in first.components] == [measure.floor for measure in second.components]
    assert [alarm.code for alarm in first.alarms] == [alarm.code for alarm in second.alarms]


def test_freezing_names_a_fault_of_the_signature_in_one_line(workspace: Workspace) -> None:
    text = (workspace.protocols / "v2.yaml").read_text(encoding="utf-8").replace("version: 2", "version: 3")
    path = workspace.protocols / "v3.yaml"
    path.write_text(text.replace("length_bonus_reward", "length_bonus"), encoding="utf-8")
    with pytest.raises(BadInput) as error:
        api.freeze(path, workspace)
    assert str(error.value) == (
        f"{USE}length_bonus: takes no 'completions', which TRL passes; write f(prompts, completions, **columns)"
    )


def test_changed_code_of_a_trainers_function_is_noticed(workspace: Workspace, tmp_path: Path) -> None:
    shutil.copytree(workspace.root, tmp_path / "ws")
    home = Workspace(tmp_path / "ws")
    api.verify_protocol(api.load_protocol("arithmetic@2", home), home)
    with (home.root / EXAMPLE / "rewards.py").open("a") as file:
        file.write("# changed\n")
    with pytest.raises(Refused, match=r"component correct: the code of trl:.* has changed since"):
        api.verify_protocol(api.load_protocol("arithmetic@2", home), home)
