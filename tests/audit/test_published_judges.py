"""Published figures of judges, from the shared data: LLMBar's two orders, and Prometheus's three scorings."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest

from evalkit.api import audit_reward
from tests.audit.support import Desk
from tests.stats.shared_data import load

ORDERS = {"unswapped": ["1", "2"], "swapped": ["2", "1"]}
JUDGE = {
    "statistic": "accuracy", "labels": ["1", "2"], "unparsed": "wrong", "verdict_names": "answer",
    "orders": ORDERS, "combine_orders": "average",
}  # fmt: skip


def llmbar() -> list[dict[str, Any]]:
    shared = os.environ.get("EVALKIT_SHARED")
    if not shared:
        pytest.skip("EVALKIT_SHARED is not set")
    text = Path(shared, "data", "llmbar", "all_evaluators_verdicts.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def one_of(subset: str, evaluator: str, strategy: str) -> dict[str, Any]:
    wanted = (subset, evaluator, strategy)
    return next(row for row in llmbar() if (row["subset"], row["evaluator"], row["strategy"]) == wanted)


def converted(row: dict[str, Any], path: Path, encoded: Any = lambda verdict: verdict or "unparsed") -> Path:
    """Labels and verdicts in one table, a row per pair and order."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["pair", "shown", "label", "reward"])
        for order, column in (("unswapped", "winner_noswap"), ("swapped", "winner_swap")):
            for i, (label, verdict) in enumerate(zip(row["label"], row[column], strict=True)):
                writer.writerow([i, order, label, encoded(verdict)])
    return path


COLUMNS = {"sample_id": "pair", "order": "shown"}


def test_llmbar_accuracies_and_positional_agreements_are_the_published_ones(desk: Desk) -> None:
    expected = {row["quantity"]: row for row in load("expected_values.json") if row["source"] == "LLMBar"}
    spec = desk.spec(False, **JUDGE)
    checked = 0
    for row in llmbar():
        table = converted(row, desk.root / "v.csv")
        result = audit_reward(table, table, spec, columns=COLUMNS)
        judge = {(line.name, line.level): line.estimate.value for line in result.sections["judge"]}
        name = f"{row['subset']}/{row['evaluator']}/{row['strategy']}"
        found = {
            "avg acc": result.registered.estimate.value,
            "pos.agreement": judge["positional agreement", "both orders"],
        }
        for what, value in found.items():
            figure = expected.pop(f"{name} {what}")
            assert value is not None
            assert 100 * value == pytest.approx(figure["published"], abs=figure["tol"]), f"{name} {what}"
            checked += 1
        shipped = row["published_statistics"]
        for what, key in (
            (("accuracy", "order unswapped"), "correct_False"),
            (("accuracy", "order swapped"), "correct_True"),
            (("accuracy", "right in both orders"), "correct_both"),
        ):
            value, right = judge[what], int(shipped[key].split(" / ")[0])
            assert value is not None
            assert value * len(row["label"]) == pytest.approx(right, abs=1e-6), f"{name} {key}"
    assert (checked, expected) == (998, {})


def test_the_command_gives_llmbar_figures_and_the_true_kappa(desk: Desk) -> None:
    table = converted(one_of("LLMBar/Natural", "GPT-4", "Vanilla"), desk.root / "v.csv")
    flags = ("--map", "sample_id=pair", "--map", "order=shown", "--json")
    done = desk.audit(table, table, desk.spec(False, **JUDGE), *flags, verdicts=True)
    assert done.err == ""
    judge = {(line["name"], line["level"]): line["estimate"]["value"] for line in done.json["sections"]["judge"]}
    assert done.json["registered"]["estimate"]["value"] == pytest.approx(0.955)
    assert judge["positional agreement", "both orders"] == pytest.approx(0.95)
    assert judge["Cohen's kappa", "order unswapped"] == pytest.approx(0.8977, abs=5e-5)
    assert judge["Cohen's kappa", "order swapped"] == pytest.approx(0.9179, abs=5e-5)
    assert "KAPPA.LABEL_VOCAB" not in [finding["code"] for finding in done.json["findings"]]


def test_the_shipped_label_encoding_of_llmbar_gives_its_kappa_and_is_found(desk: Desk) -> None:
    """Winners not in ("0", "1") become 0, though labels are 1 and 2; so kappa is shipped as .2678, not .8977."""
    row = one_of("LLMBar/Natural", "GPT-4", "Vanilla")
    table = converted(row, desk.root / "v.csv", lambda verdict: verdict if verdict in ("0", "1") else "0")
    spec = desk.spec(False, **{**JUDGE, "statistic": "kappa", "combine_orders": "first"})
    flags = ("--map", "sample_id=pair", "--map", "order=shown", "--json")
    done = desk.audit(table, table, spec, *flags, verdicts=True)
    assert done.json["registered"]["estimate"]["value"] == pytest.approx(0.2678, abs=5e-5)
    assert "KAPPA.LABEL_VOCAB" in [finding["code"] for finding in done.json["findings"]]


@pytest.mark.parametrize(("benchmark", "expected"), [("mt_bench_eval", 0.851), ("vicuna_eval", 0.808)])
def test_three_scorings_of_prometheus_have_the_recomputed_reliability(
    desk: Desk, benchmark: str, expected: float
) -> None:
    rows = load("prometheus_repeats", "gpt4_three_scores.json")[benchmark]
    said = [(i, r, score) for i, row in enumerate(rows) for r, score in enumerate(row["gpt4_score"])]
    scores = desk.table("s.csv", ["sample_id", "repeat", "reward"], said)
    # The file has no human labels; reliability needs none, and the index of the prompt stands in.
    labels = desk.table("l.csv", ["sample_id", "label"], [(i, row["idx"]) for i, row in enumerate(rows)])
    done = desk.audit(scores, labels, desk.spec(False, repeats="mean"), "--json")
    assert done.err == ""
    repeats = {line["name"]: line["estimate"]["value"] for line in done.json["sections"]["repeats"]}
    assert repeats["ICC(1,1)"] == pytest.approx(expected, abs=5e-4)
    assert repeats["ICC(1,k)"] == pytest.approx(3 * repeats["ICC(1,1)"] / (1 + 2 * repeats["ICC(1,1)"]))
    codes = [finding["code"] for finding in done.json["findings"]]
    assert "SCORE.NONDETERMINISTIC" in codes
    assert "SCORE.DRIFT" not in codes
