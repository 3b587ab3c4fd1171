"""The human-audit example: its README quotes what the commands print, and its numbers give the published figures."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalkit.audit import freeze_audit, load_audit_lock
from evalkit.workspace import create_workspace

EXAMPLE = Path(__file__).parents[2] / "examples" / "human-audit"
MOST_BYTES = 300_000


def commands(text: str, prompt: str) -> list[list[str]]:
    """The audits of this folder that are typed after `prompt`."""
    lines = text.replace("\\\n", " ").splitlines()
    start = f"{prompt}evalkit audit reward --spec"
    return [
        shlex.split(line)[len(prompt.split()) + 1 :] for line in lines if line.startswith(start) and "mine" not in line
    ]


README = (EXAMPLE / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example in a workspace of its own."""
    workspace = create_workspace(tmp_path_factory.mktemp("example"))
    return Path(shutil.copytree(EXAMPLE, workspace.root / "human-audit"))


@pytest.fixture(scope="module")
def demo(folder: Path) -> str:
    done = subprocess.run([sys.executable, "demo.py"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def audits(demo: str) -> dict[str, Any]:
    """What both audits wrote, by the name of the spec."""
    paths = [Path(line) for line in demo.splitlines() if line.endswith("audit.json") and "with --details" not in line]
    found = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    return {audit["spec"]["name"]: audit for audit in found}


def test_every_block_of_output_in_the_readme_is_what_the_demo_prints(demo: str) -> None:
    blocks = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 11
    for block in blocks:
        assert block in demo


def test_the_readme_and_the_demo_have_the_same_commands(demo: str) -> None:
    typed = commands(README, "    ")
    assert len(typed) == 2
    assert commands(demo, "$ ") == typed


@pytest.mark.parametrize("name", ["judge", "reward"])
def test_the_committed_lock_is_that_of_the_spec(name: str, tmp_path: Path) -> None:
    spec = Path(shutil.copy(EXAMPLE / f"{name}.audit.yaml", tmp_path))
    assert freeze_audit(spec)[0].digest == load_audit_lock(EXAMPLE / f"{name}.v1.audit.lock.json").digest


def rows(section: list[dict[str, Any]], name: str) -> Iterator[dict[str, Any]]:
    return (line for line in section if line["name"] == name)


def test_the_committed_numbers_give_the_published_and_recomputed_figures_of_pandalm(audits: dict[str, Any]) -> None:
    """Published in PandaLM's README: 71.07 (at commit 6fdac72), kappas, label counts. Recomputed: the others."""
    audit = audits["judge"]
    unparsed = {line["rules"]: line["estimate"] for line in audit["sections"]["unparsed"]}
    assert 100 * unparsed["unparsed tie (25)"]["value"] == pytest.approx(71.07, abs=0.006)
    assert unparsed["unparsed wrong (25)"]["value"] == pytest.approx(0.6977, abs=5e-5)
    assert unparsed["unparsed right, a bound (25)"]["value"] == pytest.approx(0.7227, abs=5e-5)
    alpha = next(rows(audit["sections"]["people"], "Krippendorff's alpha"))
    assert alpha["estimate"]["value"] == pytest.approx(0.864221, abs=5e-7)
    kappas = [pair["value"] for pair in alpha["details"]["pairs"].values()]
    assert kappas == pytest.approx([0.85, 0.88, 0.86], abs=0.005)
    ceiling = next(rows(audit["sections"]["people"], "ceiling: held-out annotator, accuracy"))
    alone = [one["human"]["value"] for one in ceiling["details"]["annotators"].values()]
    assert alone == pytest.approx([0.9209, 0.9154, 0.9234], abs=5e-5)
    labels = audit["registered"]["details"]["labels"]
    assert [labels[label]["actual"] for label in ("tie", "1", "2")] == [105, 422, 472]
    errors = audit["registered"]["details"]["standard_errors"]
    assert errors["CR0"] == pytest.approx(0.02287, abs=5e-6)
    other = next(rows(audit["sections"]["against"], "pandalm-7b: accuracy"))
    assert 100 * other["estimate"]["value"] == pytest.approx(66.77, abs=0.006)


def test_the_committed_numbers_give_the_published_correlations_of_unieval(audits: dict[str, Any]) -> None:
    """Published in UniEval's reproduce/README.md, Topical-Chat, overall, all replies pooled."""
    pooled = {
        line["name"]: line["estimate"]["value"]
        for line in audits["reward"]["sections"]["levels"]
        if line["level"] == "pooled"
    }
    published = {"Pearson r": 0.632796, "Spearman rho": 0.662583, "Kendall tau-b": 0.487272}
    assert {name: pooled[name] for name in published} == pytest.approx(published, abs=1e-6)


def test_the_example_is_small_and_holds_numbers_and_ids_only() -> None:
    tables = [*EXAMPLE.glob("*/*.csv")]
    assert len(tables) == 4
    assert sum(path.stat().st_size for path in EXAMPLE.rglob("*") if path.is_file()) < MOST_BYTES
    systems = {
        "Original Ground Truth", "New Human Generated", "Argmax Decoding", "Nucleus Decoding (p = 0.3)",
        "Nucleus Decoding (p = 0.5)", "Nucleus Decoding (p = 0.7)",
    }  # fmt: skip
    word = re.compile(r"-?[0-9.]+(e-?[0-9]+)?|tie|garbage|[a-zA-Z0-9.-]+_[a-zA-Z0-9.-]+")
    for path in tables:
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            assert all(word.fullmatch(cell) or cell in systems for cell in line.split(",")), line
    assert "PandaLM" in (EXAMPLE / "NOTICE").read_text(encoding="utf-8")


def test_the_converter_makes_the_committed_tables(folder: Path) -> None:
    shared = os.environ.get("EVALKIT_SHARED")
    if not shared:
        pytest.skip("EVALKIT_SHARED is not set")
    for path in folder.glob("*/*.csv"):
        path.unlink()
    subprocess.run([sys.executable, folder / "convert.py", Path(shared, "data")], check=True, timeout=120)
    for path in EXAMPLE.glob("*/*.csv"):
        assert (folder / path.relative_to(EXAMPLE)).read_bytes() == path.read_bytes()
