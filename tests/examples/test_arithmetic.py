"""The recorded example is what it says: one protocol, one split, recordings that fit both."""

import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from evalkit import api
from evalkit.protocol import freeze_file, load_lock
from evalkit.rewards import Response, build, evaluate
from evalkit.runs import check_sources, resolver
from evalkit.splits import build_split
from evalkit.workspace import Workspace, create_workspace

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "arithmetic-grpo"
RECORDINGS = sorted((EXAMPLE / "recordings").glob("*.parquet"))
LOCK = ROOT / "protocols" / "arithmetic.v1.lock.json"
SIZES = {"smoke": 20, "dev": 300, "public": 500, "audit": 500, "private": 1500}


def header(path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(pl.read_parquet_metadata(path)["evalkit"])
    return found


@pytest.fixture(scope="module")
def rewards() -> ModuleType:
    spec = importlib.util.spec_from_file_location("arithmetic_rewards", EXAMPLE / "rewards.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_lock_is_the_protocol_and_its_scorers_are_unchanged(tmp_path: Path) -> None:
    copied = tmp_path / "arithmetic.yaml"
    copied.write_bytes((ROOT / "protocols" / "arithmetic.yaml").read_bytes())
    lock, _, _ = freeze_file(copied, resolver(ROOT))
    assert lock.digests == load_lock(LOCK).digests
    check_sources(load_lock(LOCK), ROOT)


def build_example(root: Path) -> Workspace:
    """A workspace with the example's split, built as the demo builds it."""
    workspace = create_workspace(root)
    report = build_split(
        workspace,
        EXAMPLE / "items.jsonl",
        name="arithmetic",
        sizes=SIZES,
        cluster_by="cluster",
        seed=0,
        id_field="id",
        text_fields=["question"],
        secret=EXAMPLE / "DEMO-SECRET.txt",
    )
    assert dict(report.got) == SIZES
    return workspace


def test_every_clone_builds_the_committed_split(tmp_path: Path) -> None:
    build_example(tmp_path)
    built = (tmp_path / "splits" / "arithmetic" / "manifest.json").read_bytes()
    assert built == (ROOT / "splits" / "arithmetic" / "manifest.json").read_bytes()


def test_training_and_items_share_no_cluster() -> None:
    items = pl.read_ndjson(EXAMPLE / "items.jsonl")
    assert items.height == 2820
    assert items["cluster"].n_unique() == 1410
    logged = pl.concat(
        [pl.read_parquet(path).select("prompt") for path in (EXAMPLE / "runs").glob("*/completions.parquet")]
    )
    pairs = logged["prompt"].str.extract_all(r"[0-9]+").list.eval(pl.element().cast(pl.Int64)).list.sort()
    trained = set(pairs.list.eval(pl.element().cast(pl.String)).list.join("+").to_list())
    assert trained
    assert not trained & set(items["cluster"])


def test_recordings_fit_in_8_mb_and_hold_8_completions_of_every_item() -> None:
    assert len(RECORDINGS) >= 1 + 4 * 6
    assert sum(path.stat().st_size for path in RECORDINGS) < 8_000_000
    items = set(pl.read_ndjson(EXAMPLE / "items.jsonl")["id"])
    for path in RECORDINGS:
        frame = pl.read_parquet(path)
        assert frame.height == 2820 * 8
        assert set(frame["item_id"]) == items
        assert frame.select(pl.struct("item_id", "trial").n_unique()).item() == frame.height


def test_recordings_name_their_model_and_the_generation_they_were_made_under() -> None:
    generation = load_lock(LOCK).digests.generation
    headers = [header(path) for path in RECORDINGS]
    assert {found["generation_digest"] for found in headers} == {generation}
    assert len({found["model_digest"] for found in headers}) == len(RECORDINGS)
    arms = {(found["arm"], found["train_seed"]) for found in headers}
    assert arms == {("start", None), ("hackable", 0), ("hackable", 1), ("clean", 0), ("clean", 1)}


def test_the_kept_checkpoint_is_the_one_its_recording_names() -> None:
    from evalkit.canonical import digest

    for folder in (EXAMPLE / "checkpoints").iterdir():
        import hashlib

        named = header(EXAMPLE / "recordings" / f"{folder.name}.parquet")["model_digest"]
        files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
        kept = {name: value for name, value in files.items() if name != "generation_config.json"}
        assert named in (digest("model", {"files": files}), digest("model", {"files": kept}))


def test_the_protocols_components_are_the_trainers_own_rewards(rewards: ModuleType) -> None:
    lock = load_lock(LOCK)
    components = lock.spec.reward.components
    correct = build(components["correct"].use, components["correct"].params, ROOT)
    length = build(components["length"].use, components["length"].params, ROOT)
    answers = dict(pl.read_ndjson(EXAMPLE / "items.jsonl").select("id", "answer").iter_rows())
    for path in RECORDINGS:
        texts = pl.read_parquet(path).select("item_id", "completion").unique(maintain_order=True).head(300)
        for item_id, text in texts.iter_rows():
            response = Response(text, answers[item_id], {}, None)
            assert evaluate(correct, response).value == rewards.correct(text, answers[item_id])
            assert evaluate(length, response).value == rewards.length_bonus(text, answers[item_id])


def test_the_trainers_logged_rewards_are_those_of_the_kept_functions(rewards: ModuleType) -> None:
    for path in sorted((EXAMPLE / "runs").glob("*/completions.parquet")):
        log = pl.read_parquet(path)
        prompts, completions = log["prompt"].to_list(), log["completion"].to_list()
        for name in ("correct_reward", "length_bonus_reward"):
            if name in log.columns:
                assert getattr(rewards, name)(prompts, completions) == pytest.approx(log[name].to_list(), abs=1e-6)


def test_its_preflight_passes_the_start_model_and_stops_the_flawed_arm_for_what_is_cut(tmp_path: Path) -> None:
    workspace = build_example(tmp_path)
    (tmp_path / "examples" / "arithmetic-grpo").mkdir(parents=True)
    shutil.copy(EXAMPLE / "rewards.py", tmp_path / "examples" / "arithmetic-grpo")
    start, flawed = (
        api.preflight(load_lock(LOCK), f"replay:{EXAMPLE}/recordings/{name}.parquet", workspace=workspace)
        for name in ("start", "hackable-s0-step-240")
    )
    assert start.verdict == "go"
    assert {control.kind: (control.successes, control.items) for control in start.controls} == {
        "null": (0, 20),
        "echo": (0, 20),
        "constant": (2, 20),
        "shuffled": (1, 20),
        "gold": (20, 20),
    }
    assert [(reading.component, reading.read.n, reading.read.of) for reading in flawed.readings] == [
        ("correct", 148, 160),
        ("strict", 90, 160),
    ]
    stopped = [finding.statement for finding in flawed.findings if finding.level == "no-go"]
    assert stopped == ["10.6% of 160 completions were cut at max_tokens"]
