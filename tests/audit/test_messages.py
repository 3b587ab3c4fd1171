"""Every way in which an audit refuses its inputs, with the line that it prints."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evalkit.api import audit_reward
from evalkit.audit import (
    JudgeScorer,
    ModelScorer,
    Wish,
    load_audit_lock,
    load_audit_spec,
    load_judge,
    model_options,
    parse_mapping,
    plan_audit,
    read_columns,
    read_measured,
)
from evalkit.audit.by_judge import judged_rows
from evalkit.audit.by_model import reward_rows
from evalkit.audit.scored import read_scored
from evalkit.audit.store import audit_json, keep
from evalkit.errors import BadInput
from evalkit.report import to_json
from tests.audit.support import Desk

JUDGE = {"statistic": "accuracy", "labels": ["A", "B"]}
ORDERS = {"orders": {"ab": ["A", "B"], "ba": ["B", "A"]}, "combine_orders": "both", "verdict_names": "answer"}
SPECS: list[tuple[dict[str, Any], str]] = [
    ({"statistic": "auc", "level": "group"}, "statistic auc has only level pooled"),
    ({"statistic": "ordering_accuracy", "level": "group"}, "statistic ordering_accuracy has level pooled or within"),
    ({"statistic": "gamma", "level": "within"}, "level within takes pearson, spearman, kendall_b, ordering_accuracy"),
    ({"annotators": "majority"}, "annotators majority is for categorical labels; take mean or median"),
    ({"strata": ["a", "a"]}, "strata lists a name twice; keep one"),
    ({**JUDGE, "total": {"a": 1}}, "total is for numbers, and statistic accuracy takes labels; leave it out"),
    ({**JUDGE, "component_labels": {"a": "b"}}, "component_labels is for numbers, and statistic accuracy takes labels"),
    ({"total": {"reward": 1}}, "total names the reward itself; name the components that reward is the sum of"),
    ({"total": {"a": 0}}, "total gives a weight 0; leave it out, and name it under components to see it"),
    ({"component_labels": {"a": "b"}}, "component_labels names a, which is in neither total nor components; add it"),
    (
        {"components": ["a"], "component_labels": {"a": "label"}},
        "component_labels holds a against label, the overall label, which all are; leave it out",
    ),
    (
        {**JUDGE, **ORDERS, "orders": {"x": ["A", "B"], "y": ["B", "A"], "z": ["A", "B"]}},
        "orders lists more than the two orders that a pair has",
    ),
    ({**JUDGE, **ORDERS, "orders": {"x": ["A", "A"]}}, "orders has one label in both places"),
    (
        {**JUDGE, **ORDERS, "orders": {"x": ["A", "B"], "y": ["C", "A"]}},
        "orders has other labels in one order than in the other",
    ),
    (
        {**JUDGE, "verdict_names": "position", "positions": ["1", "2"]},
        "verdict_names position needs orders: which label stands where",
    ),
    ({"verdict_names": "answer"}, "verdict_names is for verdicts: statistic accuracy, kappa or macro_f1"),
    (
        {"orders": ORDERS["orders"], "combine_orders": "both"},
        "combine_orders both is for verdicts; take average or first",
    ),
    ({"repeats": "majority"}, "repeats is majority for verdicts, mean or median for numbers"),
    ({"missing": "worst"}, "missing worst needs the range of reward in scales"),
    ({"against": "reward"}, "against reward is the reward itself; name another component"),
]


@pytest.mark.parametrize(("fields", "message"), SPECS)
def test_a_spec_that_makes_no_sense_says_why(desk: Desk, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=rf"audit\.yaml, row \d+: {re.escape(message)}"):
        load_audit_spec(desk.spec(False, **fields))


WHOLE = ["sample_id", "item_id", "policy", "reward", "label"]
ROWS: list[tuple[Any, ...]] = [(0, "a", "p", 1, 2), (1, "a", "q", 2, 1), (2, "b", "p", 3, 3), (3, "b", "q", 1, 1)]
LONG = ["sample_id", "component", "value", "label"]
TABLES: list[tuple[dict[str, Any], Sequence[str], list[tuple[Any, ...]], str]] = [
    (
        {"level": "group"}, WHOLE, [*ROWS[:3], (3, "", "q", 1, 1)],
        "sample 3, field item_id: null where a group belongs; fill it in",
    ),
    (
        {"cluster_by": "item_id"}, WHOLE, [*ROWS[:3], (3, "", "q", 1, 1)],
        "t.csv, sample 3, field item_id: no cluster; fill it in, or freeze cluster_by: none",
    ),
    (
        {"level": "within"}, WHOLE, ROWS,
        "level within, cluster_by none: samples of one item_id lie in several clusters, so what differs within it",
    ),
    ({"controls": ["policy"]}, WHOLE, ROWS, "controls policy: no sample has a number for all of them"),
    ({"statistic": "auc"}, WHOLE, ROWS, "auc: human labels must be 0 and 1; take another statistic for graded labels"),
    ({}, WHOLE, [(0, "a", "p", 1, ""), (1, "a", "q", 1, "x")], "t.csv: no sample has a usable label label; is it the"),
    ({}, WHOLE, [(0, "a", "p", "", 1), (1, "a", "q", "x", 2)], "no labelled sample has a usable score of reward"),
    (
        {"reward": "rewrad"}, LONG, [(0, "reward", 1, 1), (0, "style", 2, 1)],
        "t.csv: no component rewrad; did you mean reward? it has reward, style",
    ),
    (
        {"reward": "a"}, LONG, [(0, "a", 1, 1), (0, "a", 2, 1)],
        "t.csv, rows 2 and 3, field a: two values for sample 0; keep one row a sample and component",
    ),
    (
        {}, ["sample_id", "reward", "dimension", "value"], [(0, 1, "style", 1), (1, 2, "style", 2)],
        "t.csv: no dimension label; it has style",
    ),
    (
        {"components": ["style"], "component_labels": {"style": "taste"}}, [*WHOLE, "style", "taste"],
        [(*row, i, "") for i, row in enumerate(ROWS)], "t.csv: no sample has a usable label taste; is it the right",
    ),
    (
        {"repeats": "mean"}, ["sample_id", "repeat", "reward", "label"], [(0, 1, 1, 1), (0, "", 2, 1)],
        "t.csv, row 3, field repeat: null where a name belongs; fill it in",
    ),
    (
        {"repeats": "mean"}, ["sample_id", "repeat", "reward", "label"], [(0, 1, 1, 1), (0, 1, 2, 1)],
        "t.csv, rows 2 and 3, field reward: two values for sample 0; keep one row for each order and repeat",
    ),
    (
        JUDGE, ["sample_id", "order", "reward", "label"], [(0, "ab", "A", "A"), (0, "ba", "B", "A")],
        "t.csv: a column order, but the audit spec has no rule for it; declare orders (for ab, ba) and combine_orders",
    ),
    (
        {**JUDGE, **ORDERS, "verdict_names": "position", "positions": ["1", "2"]}, ["sample_id", "reward", "label"],
        [(0, "1", "A"), (1, "2", "B")],
        "t.csv: verdicts name positions, but no column says which order was shown; name it with --map order=COLUMN",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "header", "rows", "message"), TABLES)
def test_a_table_that_does_not_fit_the_spec_says_where(
    desk: Desk, fields: dict[str, Any], header: Sequence[str], rows: list[tuple[Any, ...]], message: str
) -> None:
    table = desk.table("t.csv", header, rows)
    with pytest.raises(BadInput, match=re.escape(message)) as refused:
        audit_reward(table, table, desk.spec(False, **fields))
    assert "\n" not in str(refused.value)


def test_columns_of_annotators_hold_one_dimension(desk: Desk) -> None:
    table = desk.table("t.csv", [*WHOLE, "style", "ann"], [(*row, i, i) for i, row in enumerate(ROWS)])
    spec = desk.spec(False, components=["style"], component_labels={"style": "taste"})
    message = "t.csv: the columns ann hold one dimension, and component_labels asks for taste; give it a column"
    with pytest.raises(BadInput, match=re.escape(message)):
        audit_reward(table, table, spec, annotators=["ann"])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["sample_id"], "--map 'sample_id': not ROLE=COLUMN; write such as --map sample_id=uid"),
        (["sampel_id=uid"], "--map sampel_id: no role; did you mean sample_id?"),
        (["text=a", "text=b"], "--map text: given twice; keep one"),
    ],
)
def test_a_mapping_that_is_none_says_how_to_write_it(given: list[str], message: str) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        parse_mapping(given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"size": 2}, "--engine-arg size: no option of a reward model; they are dtype, device, batch"),
        ({"batch": "two"}, "--engine-arg batch: 'two' is not int"),
        ({"overflow": "cut"}, "--engine-arg overflow: cut; give skip or truncate_left"),
    ],
)
def test_an_option_of_a_reward_model_that_is_none_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        model_options(given)


def jsonl(desk: Desk, *rows: dict[str, Any]) -> Path:
    path = desk.root / "d.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


MESSY: list[tuple[dict[str, str], list[dict[str, Any]], str]] = [
    ({}, [{"sample_id": "a", "prompt": "p", "text": 3}], "d.jsonl, row 1, field text: whole number where text belongs"),
    ({}, [{"sample_id": "a", "prompt": 3, "text": "t"}], "d.jsonl, row 1, field prompt: whole number; give text, or turns"),
    (
        {}, [{"sample_id": "a", "prompt": "p", "text": "t"}, {"sample_id": "a", "prompt": "p", "text": "u"}],
        "d.jsonl, rows 1 and 2, field text: two texts for sample a; give each row an id of its own",
    ),
    (
        {"text": "x+y"}, [{"sample_id": "a", "prompt": "p", "x": "t", "y": "u"}],
        "--map text=x+y: a text is one column; join them in the data",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("mapping", "rows", "message"), MESSY)
def test_data_to_score_that_is_no_text_says_where(
    desk: Desk, mapping: dict[str, str], rows: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        reward_rows(read_columns(jsonl(desk, *rows), mapping), as_turn=False)


def test_a_judge_needs_a_prompt_a_scale_that_rises_and_a_count_of_repeats(desk: Desk) -> None:
    data = jsonl(desk, {"sample_id": "a", "prompt": None, "text": "t"})
    with pytest.raises(BadInput, match=r"d\.jsonl, row 1, field prompt: null where text belongs; fill it in"):
        judged_rows(read_columns(data, {}), "pointwise")
    file = desk.root / "judge.yaml"
    file.write_text("judge: openai:m@http://127.0.0.1:1/v1\nkind: pointwise\nscale: [5, 1]\n")
    with pytest.raises(BadInput, match=r"judge\.yaml, row \d.*scale: 5 is not below 1; give lowest and highest"):
        load_judge(file)
    with pytest.raises(BadInput, match=r"--repeats 0: give 1 or more"):
        JudgeScorer(file, data, 0)


def test_what_scores_and_what_the_spec_asks_for_must_fit(desk: Desk) -> None:
    data = jsonl(desk, {"sample_id": "a", "prompt": "p", "text": "t", "reward": 1.0})
    labels = desk.table("l.csv", ["sample_id", "label"], [("a", 1)])
    model = ModelScorer("hf-rm:nowhere", data)
    with pytest.raises(BadInput, match=r"d\.jsonl: has a column reward already, and the scorer's values are to be"):
        audit_reward(model, labels, desk.spec(False))
    with pytest.raises(BadInput, match=r"statistic accuracy takes labels, and a reward model gives numbers"):
        audit_reward(model, labels, desk.spec(False, **JUDGE, reward="score"))
    judge = desk.root / "judge.yaml"
    judge.write_text("judge: openai:m@http://127.0.0.1:1/v1\nkind: pairwise\n")
    message = (
        r"judge\.yaml, field kind: a pairwise judge gives labels a, b and tie, and statistic spearman takes numbers"
    )
    with pytest.raises(BadInput, match=message):
        audit_reward(JudgeScorer(judge, data), labels, desk.spec(False, reward="score"))


def test_scores_that_were_kept_and_damaged_say_how_to_score_again(tmp_path: Path) -> None:
    (tmp_path / "scorer.json").write_text('{"format": "evalkit-scorer/1", "findings": []}')
    with pytest.raises(BadInput, match=r"scorer\.json.*delete .* and score again"):
        read_scored(tmp_path)


def test_a_lock_that_is_incomplete_or_edited_is_refused(desk: Desk) -> None:
    desk.spec()
    path = desk.root / "protocols" / "audit.v1.audit.lock.json"
    lock = json.loads(path.read_text())
    for change, message in (
        (lambda lock: lock["spec"].update(alpha="0.2"), "field digest: the content was changed after freezing"),
        (lambda lock: lock["spec"].update(level="deep"), "field spec.level: "),
        (lambda lock: lock["spec"].pop("interval"), "field spec: has no interval; another version of evalkit wrote it"),
        (lambda lock: lock.pop("spec"), "not a complete lock ('spec'); freeze the spec again"),
    ):
        edited = json.loads(json.dumps(lock))
        change(edited)
        path.write_text(json.dumps(edited))
        with pytest.raises(BadInput, match=re.escape(message)):
            load_audit_lock(path)


def test_a_plan_from_an_audit_without_an_interval_asks_for_more_samples(desk: Desk) -> None:
    rows = [(0, "a", 1, 1), (1, "a", 2, 3), (2, "b", 3, 2)]
    table = desk.table("t.csv", ["sample_id", "item_id", "reward", "label"], rows)
    result = audit_reward(table, table, desk.spec(False, statistic="gamma", cluster_by="item_id"))
    folder = keep(result, desk.root / ".evalkit" / "audits", to_json(audit_json(result)).encode())
    with pytest.raises(BadInput, match="this audit has no interval of gamma, so its clusters' spread is unknown"):
        plan_audit(Wish(half_width=0.1), read_measured(folder / "audit.json"))
