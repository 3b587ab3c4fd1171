"""Published figures, through the public command, from the shared data; each test has a small converter."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.audit.support import Desk
from tests.stats.shared_data import load

KINDS = {"Pearson r": "pearson", "Spearman rho": "spearman", "Kendall tau-b": "kendall_b"}


def expected(source: str) -> dict[str, tuple[float, float]]:
    return {
        row["quantity"]: (row["published"], row["tol"])
        for row in load("expected_values.json")
        if row["source"] == source
    }


def levels(audit: Any, level: str) -> dict[str, float]:
    return {
        KINDS[line["name"]]: line["estimate"]["value"]
        for line in audit["sections"]["levels"]
        if line["name"] in KINDS and line["level"] == level
    }


@pytest.mark.parametrize("file", ["topical_chat", "sfres", "sfhot", "qags_xsum", "qags_cnndm"])
def test_unieval_correlations_are_the_published_ones(desk: Desk, file: str) -> None:
    rows = load("unieval", f"{file}_result.json")
    figures = {q: v for q, v in expected("UniEval").items() if q.startswith(f"{file}/")}
    dimensions = dict.fromkeys(quantity.split("/")[1].split()[0] for quantity in figures)
    scores = desk.table(
        "s.csv", ["uid", *dimensions], [[i, *(r["predict_scores"][d] for d in dimensions)] for i, r in enumerate(rows)]
    )
    labels = desk.table(
        "l.csv",
        ["uid", *dimensions, "source"],
        [
            [i, *(r["scores"][d] for d in dimensions), hashlib.sha256(r["source"].encode()).hexdigest()]
            for i, r in enumerate(rows)
        ],
    )
    checked = 0
    for dimension in dimensions:
        spec = desk.spec(reward=dimension, label=dimension, cluster_by="source")
        done = desk.audit(scores, labels, spec, "--map", "sample_id=uid", "--json")
        assert done.err == ""
        for kind, value in levels(done.json, "pooled").items():
            published, tolerance = figures[f"{file}/{dimension} {kind}"]
            assert value == pytest.approx(published, abs=tolerance)
            checked += 1
    assert checked == len(figures)


@pytest.mark.parametrize("rouge", ["rouge1", "rouge2"])
def test_summeval_summary_level_correlations_are_the_published_ones(desk: Desk, rouge: str) -> None:
    rows = load("summeval", "human_and_rouge.json")
    dimensions = ["coherence", "consistency", "fluency", "relevance"]
    scores = desk.table(
        "s.csv", ["doc_id", "system", rouge], [[r["doc_id"], r["system"], r["rouge_f_mean_over_11_refs"][rouge]] for r in rows]
    )  # fmt: skip
    labels = desk.table(
        "l.csv",
        ["doc_id", "system", *dimensions],
        [[r["doc_id"], r["system"], *(r["human"][d] for d in dimensions)] for r in rows],
    )
    for dimension in dimensions:
        spec = desk.spec(reward=rouge, label=dimension, level="group", group_by="doc_id", cluster_by="doc_id")
        done = desk.audit(scores, labels, spec, "--map", "sample_id=doc_id+system", "--json")
        assert done.err == ""
        found = levels(done.json, "mean per doc_id")
        for kind, name in (("spearman", "spearman"), ("kendall_b", "kendall")):
            published, tolerance = expected("SummEval")[f"{rouge} {dimension} summary-level {name}"]
            assert found[kind] == pytest.approx(published, abs=tolerance)


PANDALM = {"0": "tie", "1": "first", "2": "second", "Tie": "tie"}


@pytest.fixture
def pandalm_labels(desk: Desk) -> Path:
    rows = load("pandalm", "testset-v1.json")
    return desk.table(
        "l.csv",
        ["idx", "instruction", "a1", "a2", "a3"],
        [
            [
                r["idx"],
                hashlib.sha256(r["instruction"].encode()).hexdigest(),
                *(PANDALM[str(r[f"annotator{j}"])] for j in (1, 2, 3)),
            ]
            for r in rows
        ],
    )


@pytest.mark.parametrize(
    ("judge", "column", "name"),
    [("gpt-3.5-turbo", "gpt_result", "gpt-3.5-turbo"), ("pandalm-7b", "pandalm_result", "PandaLM-7B")],
)
def test_pandalm_scores_are_the_published_ones_with_unparsed_as_tie(
    desk: Desk, pandalm_labels: Path, judge: str, column: str, name: str
) -> None:
    rows = load("pandalm", f"{judge}-testset-v1.json")
    verdicts = desk.table("v.csv", ["idx", "judge"], [[r["idx"], PANDALM.get(str(r[column]), "garbage")] for r in rows])
    spec = desk.spec(
        reward="judge", label="preference", statistic="accuracy", cluster_by="instruction",
        unparsed="tie", annotators="majority", labels=["first", "second", "tie"],
    )  # fmt: skip
    flags = ("--map", "sample_id=idx", "--annotators", "a1,a2,a3", "--json")
    audit = desk.audit(verdicts, pandalm_labels, spec, *flags, verdicts=True).json
    figures = expected("PandaLM")
    registered = audit["registered"]
    found = {"acc": registered["estimate"]["value"]} | {
        f"macro{short}": registered["details"][f"macro_{long}"]["value"]
        for short, long in (("P", "precision"), ("R", "recall"), ("F1", "f1"))
    }
    for quantity, value in found.items():
        published, tolerance = figures[f"{name} {quantity}"]
        assert 100 * value == pytest.approx(published, abs=tolerance)
    actual = {label: counts["actual"] for label, counts in registered["details"]["labels"].items()}
    assert (actual["tie"], actual["first"], actual["second"]) == (105, 422, 472)


def test_pandalm_other_rules_are_shown_and_the_error_knows_that_instructions_repeat(
    desk: Desk, pandalm_labels: Path
) -> None:
    rows = load("pandalm", "gpt-3.5-turbo-testset-v1.json")
    said = [[r["idx"], PANDALM.get(str(r["gpt_result"]), "garbage")] for r in rows]
    verdicts = desk.table("v.csv", ["idx", "judge"], said)
    spec = desk.spec(
        reward="judge", label="preference", statistic="accuracy", cluster_by="instruction",
        unparsed="wrong", annotators="majority", labels=["first", "second", "tie"],
    )  # fmt: skip
    flags = ("--map", "sample_id=idx", "--annotators", "a1,a2,a3", "--json")
    audit = desk.audit(verdicts, pandalm_labels, spec, *flags, verdicts=True).json
    estimate = audit["registered"]["estimate"]
    assert estimate["value"] == pytest.approx(0.6977, abs=5e-5)
    t = 1.974100  # t(169) at .975
    assert (estimate["high"] - estimate["low"]) / 2 / t == pytest.approx(0.02294, abs=5e-6)  # CR1
    assert estimate["n_clusters"] == 170
    rules = {line["rules"]: line["estimate"]["value"] for line in audit["sections"]["unparsed"]}
    assert rules["unparsed wrong (25)"] == pytest.approx(0.6977, abs=5e-5)
    assert rules["unparsed tie (25)"] == pytest.approx(0.7107, abs=5e-5)
    assert "KAPPA.LABEL_VOCAB" in [finding["code"] for finding in audit["findings"]]
