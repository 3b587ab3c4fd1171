"""The example of real human ratings: its README says what its commands print, and published figures come of its tables.

These tables are in the repository, so `make test` alone reproduces what others published.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
import pytest

from evalkit.api import audit_reward
from evalkit.audit import Audit, audit_json
from evalkit.report import to_json
from evalkit.report.plain import interval, number
from evalkit.stats import Estimate
from tests.audit.support import Desk, new_desk
from tests.stats.shared_data import load

EXAMPLE = Path(__file__).parents[2] / "examples" / "human-audit"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")
SCORES, LABELS = (pl.read_csv(EXAMPLE / name) for name in ("scores.csv", "labels.csv"))
SYSTEMS = sorted(set(SCORES["system"]))


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"human_audit_{name}", EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return new_desk(tmp_path)


@pytest.fixture(scope="module")
def audits(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The demo's audits as JSON, in a workspace laid out as the demo lays it out."""
    demo, desk = module("demo"), new_desk(tmp_path_factory.mktemp("audit"))
    demo.lay_out(desk.root)
    freezes, audits = demo.STEPS[:2], demo.STEPS[2:]
    assert [desk.evalkit(*command.split()).code for _, command in freezes] == [0, 0]
    done = [desk.evalkit(*command.split(), "--json") for _, command in audits]
    assert [(one.code, one.err) for one in done] == [(0, "")] * 3
    return [one.json for one in done]


def estimate(found: dict[str, Any]) -> str:
    return interval(Estimate(**found))


def line(audit: Any, section: str, name: str, level: str = "", rules: str = "") -> Any:
    return next(
        one
        for one in audit["sections"][section]
        if one["name"] == name and one["level"].startswith(level) and one["rules"].startswith(rules)
    )


def stated(*cells: str) -> bool:
    """Whether the README has this row of a table."""
    return f"| {' | '.join(cells)} |" in README


def test_the_readme_says_what_the_audit_of_numbers_prints(audits: list[Any]) -> None:
    audit = audits[0]
    assert stated("verdict", audit["verdict"]["word"].upper())
    assert stated("Spearman rho, mean over 60 dialogues (registered)", estimate(audit["registered"]["estimate"]))
    for said, section, name, level in (
        ("Spearman rho, all responses in one heap", "levels", "Spearman rho", "pooled"),
        ("Spearman rho of the six systems' means", "levels", "Spearman rho", "system"),
        ("temperature T* of its margins", "calibration", "temperature T*", "pairs"),
    ):
        assert stated(said, estimate(line(audit, section, name, level)["estimate"])), said
    codes = [finding["code"] for finding in audit["findings"]]
    assert "CALIB.UNDERCONFIDENT" in codes


def test_the_readme_says_what_few_labels_and_many_scores_give_and_the_truth_is_within(audits: list[Any]) -> None:
    truth = dict(LABELS.join(SCORES, on="response").group_by("system").agg(pl.col("overall").mean()).iter_rows())
    worth = []
    for system in SYSTEMS:
        powered, labels, reward = (
            line(audits[1], "human scale", f"mean {what}", f"system = {system}")
            for what in ("label overall, PPI++", "label overall, labels only", "reward overall, as it is")
        )
        shown = estimate(labels["estimate"]), estimate(powered["estimate"])
        assert stated(system, *shown, number(reward["estimate"]["value"]), number(truth[system])), system
        assert powered["estimate"]["low"] < truth[system] < powered["estimate"]["high"]
        worth.append(20 / powered["details"]["variance_ratio"])
    assert (round(max(worth)), min(worth) < 20) == (26, True)


def test_the_readme_says_what_the_audit_of_the_judge_prints(audits: list[Any]) -> None:
    audit = audits[2]
    assert stated("verdict", audit["verdict"]["word"].upper())
    assert stated("accuracy, unread verdicts wrong (registered)", estimate(audit["registered"]["estimate"]))
    for said, section, name, rules in (
        ("unread verdicts count as tie", "unparsed", "accuracy", "unparsed tie"),
        ("unread verdicts left out", "unparsed", "accuracy", "unparsed exclude"),
        ("all unread verdicts right: a bound", "unparsed", "accuracy", "unparsed right"),
        ("a held-out annotator in the judge's place", "people", "ceiling: held-out annotator, accuracy", ""),
        ("Krippendorff's alpha of the annotators", "people", "Krippendorff's alpha", ""),
        ("GPT-3.5 − PandaLM-7B", "against", "gpt-3.5-turbo − pandalm-7b", ""),
    ):
        assert stated(said, estimate(line(audit, section, name, rules=rules)["estimate"])), said
    assert "2.49 times" in README
    effect = audit["registered"]["details"]["standard_errors"]["design_effect_CR1"]
    assert effect == pytest.approx(2.49, abs=0.005)


def test_what_the_readme_says_to_keep_in_mind_is_what_the_audits_found(audits: list[Any]) -> None:
    alone = line(audits[0], "levels", "Pearson r", "pooled")["estimate"]["value"]
    held = line(audits[0], "levels", "partial Pearson r", "pooled", "given system")["estimate"]["value"]
    assert f"falls from {number(alone)} to {number(held)}" in README
    assert "BIAS.ORDER_MISSING" in [finding["code"] for finding in audits[2]["findings"]]


def test_thirteen_of_the_unread_pairs_are_ties_of_the_majority() -> None:
    both = pl.read_csv(EXAMPLE / "verdicts.csv").join(pl.read_csv(EXAMPLE / "preferences.csv"), on="pair")
    unread = both.filter(pl.col("gpt-3.5-turbo") == "unread")
    ties = unread.select(pl.sum_horizontal(pl.col("ann1", "ann2", "ann3") == "tie") >= 2).to_series()
    assert (unread.height, ties.sum()) == (25, 13)
    assert both["instruction"].n_unique() == 170


UNIEVAL = {  # reproduce/README.md of UniEval at d33e7b6: Pearson, Spearman, Kendall on Topical-Chat
    "naturalness": (0.443666, 0.513986, 0.373973),
    "coherence": (0.595143, 0.612942, 0.465915),
    "engagingness": (0.556510, 0.604739, 0.455941),
    "groundedness": (0.536209, 0.574954, 0.451533),
    "understandability": (0.380038, 0.467807, 0.360741),
    "overall": (0.632796, 0.662583, 0.487272),
}


@pytest.mark.parametrize("dimension", UNIEVAL)
def test_unievals_published_correlations_come_of_the_committed_tables(desk: Desk, dimension: str) -> None:
    spec = desk.spec(reward=dimension, label=dimension, cluster_by="dialogue", frozen=False)
    scores, labels = EXAMPLE / "scores.csv", EXAMPLE / "labels.csv"
    audit = as_json(audit_reward(scores, labels, spec, columns={"sample_id": "response"}))
    found = [
        line(audit, "levels", name, "pooled")["estimate"]["value"]
        for name in ("Pearson r", "Spearman rho", "Kendall tau-b")
    ]
    assert found == pytest.approx(UNIEVAL[dimension], abs=1e-6)


PANDALM = {  # README of PandaLM at 6fdac72, in per cent: accuracy, macro precision, recall, F1
    "gpt-3.5-turbo": (71.07, 58.79, 57.36, 57.55),
    "pandalm-7b": (66.77, 57.38, 57.50, 57.43),
}


@pytest.mark.parametrize("judge", PANDALM)
def test_pandalms_published_figures_come_of_the_committed_tables_with_unread_verdicts_as_ties(
    desk: Desk, judge: str
) -> None:
    spec = desk.spec(
        reward=judge, label="preference", statistic="accuracy", cluster_by="instruction", annotators="majority",
        labels=["first", "second", "tie"], unparsed="tie", frozen=False,
    )  # fmt: skip
    verdicts, people = EXAMPLE / "verdicts.csv", EXAMPLE / "preferences.csv"
    named = {"columns": {"sample_id": "pair"}, "annotators": ["ann1", "ann2", "ann3"]}
    found = as_json(audit_reward(verdicts, people, spec, **named))["registered"]
    macro = [found["details"][f"macro_{name}"]["value"] for name in ("precision", "recall", "f1")]
    assert 100 * np.array([found["estimate"]["value"], *macro]) == pytest.approx(PANDALM[judge], abs=0.006)
    counts = {label: of["actual"] for label, of in found["details"]["labels"].items()}
    assert counts == {"first": 422, "second": 472, "tie": 105}


def test_pandalms_people_and_errors_are_the_published_and_recomputed_ones(audits: list[Any]) -> None:
    alpha = line(audits[2], "people", "Krippendorff's alpha")
    kappas = [one["value"] for one in alpha["details"]["pairs"].values()]
    assert kappas == pytest.approx([0.85, 0.88, 0.86], abs=0.005)  # README of PandaLM
    # Recomputed from the same public files, independently of evalkit.
    assert alpha["estimate"]["value"] == pytest.approx(0.864221, abs=5e-7)
    ceiling = line(audits[2], "people", "ceiling: held-out annotator, accuracy")
    people = [one["human"]["value"] for one in ceiling["details"]["annotators"].values()]
    assert people == pytest.approx([0.921, 0.915, 0.923], abs=5e-4)
    errors = audits[2]["registered"]["details"]["standard_errors"]
    assert (errors["CR0"], errors["CR1"]) == pytest.approx((0.02287, 0.02294), abs=5e-6)


def test_the_tables_are_what_collect_makes_of_the_public_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collect = module("collect")
    monkeypatch.setattr(collect, "HERE", tmp_path)
    collect.chat(load("unieval", "topical_chat_result.json"))
    judges = ("gpt-3.5-turbo-testset-v1.json", "pandalm-7b-testset-v1.json")
    collect.pairs(load("pandalm", "testset-v1.json"), *(load("pandalm", name) for name in judges))
    names = module("demo").TABLES
    assert {name: (tmp_path / name).read_bytes() for name in names} == {
        name: (EXAMPLE / name).read_bytes() for name in names
    }


def test_the_tables_hold_no_texts_and_are_small() -> None:
    tables = sorted(EXAMPLE.glob("*.csv"))
    assert sum(path.stat().st_size for path in tables) < 300_000
    longest = max(len(cell) for path in tables for row in path.read_text().splitlines() for cell in row.split(","))
    assert longest <= 24


def as_json(result: Audit) -> Any:
    return json.loads(to_json(audit_json(result)))
