"""What `evalkit audit reward` promises to whoever brings two tables."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from evalkit.api import audit_reward
from evalkit.audit import Audit, freeze_audit, load_audit_spec
from evalkit.errors import BadInput, Refused
from tests.audit.support import Desk

RNG = np.random.default_rng(0)
N = 200
HUMAN = np.round(RNG.normal(size=N), 1)
GOOD = HUMAN + 0.5 * RNG.normal(size=N)
SCALES = {"reward": {"low": -10, "high": 10}}


def tables(desk: Desk, reward: Any = GOOD, human: Any = HUMAN) -> tuple[Path, Path]:
    scores = desk.table("scores.csv", ["sample_id", "reward"], enumerate(reward))
    return scores, desk.table("labels.csv", ["sample_id", "label"], enumerate(human))


def run(desk: Desk, reward: Any = GOOD, human: Any = HUMAN, frozen: bool = True, **spec: Any) -> Audit:
    scores, labels = tables(desk, reward, human)
    return audit_reward(scores, labels, desk.spec(frozen, **spec))


def codes(result: Audit) -> list[str]:
    return [finding.code for finding in result.findings]


def test_a_good_reward_is_trustworthy_and_the_rule_says_why(desk: Desk) -> None:
    result = run(desk)
    assert result.verdict.word == "trustworthy"
    assert result.verdict.rule.endswith("reaches 0.6")
    assert result.registered.registered
    assert (result.registered.estimate.n, result.registered.estimate.n_clusters) == (N, N)


def test_what_was_not_frozen_decides_nothing(desk: Desk) -> None:
    result = run(desk, frozen=False)
    assert result.verdict.word == "cannot tell"
    assert "not frozen" in result.verdict.rule
    assert not result.registered.registered


def test_a_spec_edited_after_freezing_is_not_the_frozen_one(desk: Desk) -> None:
    path = desk.spec()
    path.write_text(path.read_text().replace("0.6", "0.5"))
    result = audit_reward(*tables(desk), path)
    assert not result.frozen
    with pytest.raises(Refused, match=r"frozen with other content \(thresholds\); set version: 2"):
        freeze_audit(path)


def test_noise_is_not_trustworthy_and_a_handful_of_samples_cannot_tell(desk: Desk) -> None:
    assert run(desk, RNG.normal(size=N)).verdict.word == "not trustworthy"
    assert "AGREEMENT.TOO_LOW" in codes(run(desk, RNG.normal(size=N)))
    assert run(desk, GOOD[:6], HUMAN[:6], statistic="pearson").verdict.word == "cannot tell"


def test_a_turned_reward_is_a_blocking_finding_and_declaring_it_mends_it(desk: Desk) -> None:
    result = run(desk, -GOOD)
    assert "CORR.DIRECTION" in codes(result)
    assert result.verdict.word == "not trustworthy"
    turned = run(desk, -GOOD, scales={"reward": {"low": -10, "high": 10, "higher_is_better": False}})
    assert turned.verdict.word == "trustworthy"


def test_every_labelled_sample_has_one_line_in_the_ledger(desk: Desk) -> None:
    reward: list[Any] = GOOD.tolist()
    reward[0], reward[1], reward[2], reward[3] = "", "nan", "n/a", 99
    scores = desk.table("scores.csv", ["sample_id", "reward"], [*enumerate(reward[:-1]), ("stranger", 1)])
    labels = desk.table(
        "labels.csv", ["sample_id", "label"], [*enumerate(HUMAN[:-1]), (N - 1, HUMAN[-1]), ("empty", "")]
    )
    ledger = audit_reward(scores, labels, desk.spec(scales=SCALES)).ledger
    assert ledger.unscored == {"missing": 1, "nan": 1, "unparsed": 1, "out of scale": 1, "not in scores": 1}
    assert ledger.eligible == ledger.used + sum(ledger.unscored.values()) == N
    assert (ledger.no_gold, ledger.unlabelled) == (1, 1)


@pytest.mark.parametrize("level", ["pooled", "group"])
def test_a_labelled_sample_that_only_the_labels_know_is_counted_and_needs_no_cluster(desk: Desk, level: str) -> None:
    rows = [(i, i // 4, GOOD[i]) for i in range(N)]
    labels = desk.table("l.csv", ["sample_id", "label"], enumerate(HUMAN))
    spec = {"cluster_by": "item_id", "level": level, "scales": SCALES, "statistic": "pearson"}
    whole = audit_reward(desk.table("s.csv", ["sample_id", "item_id", "reward"], rows), labels, desk.spec(**spec))
    less = audit_reward(desk.table("s.csv", ["sample_id", "item_id", "reward"], rows[:-4]), labels, desk.spec(**spec))
    assert less.ledger.unscored == {"not in scores": 4}
    assert less.registered.estimate.n_clusters == whole.registered.estimate.n_clusters - 1
    if level == "pooled":
        against, for_it = (line.estimate for line in less.worst_cases)
        assert against.value < min(for_it.value, less.registered.estimate.value)
        assert (for_it.n, for_it.n_clusters) == (N, 53)  # each of the four is a cluster of its own
    else:
        assert less.worst_cases == []  # nobody knows their prompt, so nothing can be filled


def test_a_number_that_no_float_holds_is_no_score(desk: Desk) -> None:
    path = desk.root / "s.jsonl"
    rows = [{"sample_id": str(i), "reward": GOOD[i]} for i in range(N)]
    rows[3]["reward"], rows[4]["reward"], rows[5]["reward"] = 10**400, 1e200, -1e101
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    labels = desk.table("l.csv", ["sample_id", "label"], enumerate(HUMAN))
    assert audit_reward(path, labels, desk.spec()).ledger.unscored == {"nan": 3}


def test_missing_scores_that_could_turn_the_verdict_make_it_cannot_tell(desk: Desk) -> None:
    reward: list[Any] = [*GOOD[:140].tolist(), *[""] * 60]
    result = run(desk, reward, scales=SCALES)
    assert "MISSING.BOUNDS_CROSS_DECISION" in codes(result)
    assert "JOIN.COVERAGE" in codes(result)
    assert result.verdict.word == "cannot tell"
    assert result.worst_cases[0].estimate.value < 0.6 < result.worst_cases[1].estimate.value
    worst = run(desk, reward, scales=SCALES, missing="worst").registered.estimate
    assert (worst.value, worst.n) == (result.worst_cases[0].estimate.value, N)


def test_rows_that_repeat_are_counted_once_and_rows_that_contradict_are_named(desk: Desk) -> None:
    scores, labels = tables(desk)
    again = desk.table("again.csv", ["sample_id", "reward"], [*enumerate(GOOD), (5, GOOD[5])])
    result = audit_reward(again, labels, desk.spec())
    assert (result.ledger.duplicates, codes(result)[0]) == (1, "JOIN.DUPLICATE_ID")
    assert result.findings[0].evidence == (f"{again}:{N + 2}",)
    with pytest.raises(BadInput, match=rf"rows 7 and {N + 2}, field reward: two values for sample 5"):
        audit_reward(desk.table("two.csv", ["sample_id", "reward"], [*enumerate(GOOD), (5, 1.5)]), labels, desk.spec())
    with pytest.raises(BadInput, match="name who labelled with --map annotator_id=COLUMN"):
        audit_reward(scores, desk.table("l2.csv", ["sample_id", "label"], [(0, 1), (0, 2)]), desk.spec())


def test_simpsons_paradox_blocks_a_pooled_audit(desk: Desk) -> None:
    group = np.repeat(range(40), 5)
    level, taste = 3 * RNG.normal(size=40)[group], RNG.normal(size=200)
    reward, human = level + taste, level - taste
    scores = desk.table("s.csv", ["sample_id", "item_id", "reward"], zip(range(200), group, reward, strict=True))
    labels = desk.table("l.csv", ["sample_id", "label"], enumerate(human))
    result = audit_reward(scores, labels, desk.spec(cluster_by="item_id", statistic="pearson"))
    assert result.registered.estimate.value > 0.5
    assert "CORR.SIMPSON" in codes(result)
    assert result.verdict.word == "not trustworthy"


def test_most_groups_without_a_correlation_are_a_finding(desk: Desk) -> None:
    group = np.repeat(range(50), 4)
    reward = np.where(group < 30, 1.0, GOOD)
    scores = desk.table("s.csv", ["sample_id", "item_id", "reward"], zip(range(200), group, reward, strict=True))
    labels = desk.table("l.csv", ["sample_id", "label"], enumerate(HUMAN))
    result = audit_reward(scores, labels, desk.spec(level="group", cluster_by="item_id"))
    assert result.registered.details["undefined"] == {"x is constant": 30}
    assert "CORR.UNDEFINED_SHARE" in codes(result)


def test_a_constant_reward_is_undefined_and_cannot_tell(desk: Desk) -> None:
    result = run(desk, np.ones(N))
    assert (result.verdict.word, result.registered.estimate.value) == ("cannot tell", None)
    assert result.verdict.rule == "blocking: SCORE.ALL_ONE"
    assert result.registered.estimate.why == "x is constant"


@pytest.mark.parametrize("shape", ["jsonl", "parquet", "long", "annotators", "long labels"])
def test_every_shape_of_table_gives_the_same_number(desk: Desk, shape: str) -> None:
    expected = run(desk).registered.estimate
    scores, labels = tables(desk)
    keywords: dict[str, Any] = {}
    if shape == "jsonl":
        scores = desk.root / "s.jsonl"
        scores.write_text("".join(json.dumps({"sample_id": str(i), "reward": r}) + "\n" for i, r in enumerate(GOOD)))
    elif shape == "parquet":
        scores = desk.root / "s.parquet"
        pl.DataFrame({"sample_id": range(N), "reward": GOOD}).write_parquet(scores)
    elif shape == "long":
        rows = [(i, c, v) for i, r in enumerate(GOOD) for c, v in (("other", 1), ("reward", r))]
        scores = desk.table("long.csv", ["sample_id", "component", "value"], rows)
    elif shape == "annotators":
        labels = desk.table("l.csv", ["sample_id", "ann", "bob"], [(i, h - 1, h + 1) for i, h in enumerate(HUMAN)])
        keywords["annotators"] = ["ann", "bob"]
    else:
        rows = [(i, who, "label", h + d) for i, h in enumerate(HUMAN) for who, d in (("a", -1), ("b", 1))]
        labels = desk.table("l.csv", ["sample_id", "annotator_id", "dimension", "value"], rows)
    found = audit_reward(scores, labels, desk.spec(), **keywords).registered.estimate
    assert (found.value, found.low) == pytest.approx((expected.value, expected.low), abs=1e-9)


def test_nan_in_jsonl_is_a_score_without_a_value_and_no_refusal(desk: Desk) -> None:
    _, labels = tables(desk)
    path = desk.root / "s.jsonl"
    values = [math.nan, math.inf, *GOOD[2:]]
    path.write_text("".join(json.dumps({"sample_id": i, "reward": r}) + "\n" for i, r in enumerate(values)))
    assert audit_reward(path, labels, desk.spec()).ledger.unscored == {"nan": 2}


MISTAKES = [
    ({"header": ["uid", "reward"]}, r"no column sample_id; its columns are uid, reward; .*--map sample_id=COLUMN"),
    ({"header": ["sample_id", "rewards"]}, r"no column reward; did you mean rewards\?"),
    ({"rows": [("a", 1), ("b", 2)]}, r"no sample in common; ids look like 'a' and '0'"),
    ({"rows": []}, r"no rows; give a table with a header and at least one row"),
    ({"rows": [("", 1)]}, r"row 2, field sample_id: null where an id belongs; fill it in"),
    ({"rows": [(0, "x")]}, r"no labelled sample has a usable score of reward \(not in scores 199, unparsed 1\)"),
]


@pytest.mark.parametrize(("change", "message"), MISTAKES)
def test_a_mistake_is_one_line_with_its_mend(desk: Desk, change: dict[str, Any], message: str) -> None:
    _, labels = tables(desk)
    rows = change.get("rows", list(enumerate(GOOD)))
    scores = desk.table("bad.csv", change.get("header", ["sample_id", "reward"]), rows)
    with pytest.raises(BadInput, match=message):
        audit_reward(scores, labels, desk.spec())


def test_a_column_the_spec_needs_is_named(desk: Desk) -> None:
    with pytest.raises(BadInput, match=r"no column dialogue, which the audit spec needs"):
        run(desk, cluster_by="dialogue")


@pytest.mark.parametrize("statistic", ["spearman", "ordering_accuracy", "acc_eq"])
def test_groups_that_clusters_cut_have_no_error_within_and_the_mend_is_named(desk: Desk, statistic: str) -> None:
    scores = desk.table("s.csv", ["sample_id", "item_id", "reward"], [(i, i // 4, GOOD[i]) for i in range(N)])
    labels = desk.table("l.csv", ["sample_id", "label"], enumerate(HUMAN))
    with pytest.raises(BadInput, match=r"samples of one item_id lie in several clusters.*freeze cluster_by: item_id"):
        audit_reward(scores, labels, desk.spec(statistic=statistic, level="within"))


def test_files_that_disagree_on_a_sample_are_named_by_row(desk: Desk) -> None:
    scores = desk.table("s.csv", ["sample_id", "item_id", "reward"], [(0, "a", 1), (1, "b", 2)])
    labels = desk.table("l.csv", ["sample_id", "item_id", "label"], [(0, "a", 1), (1, "c", 2)])
    with pytest.raises(BadInput, match=r"row 3, .*row 3, field item_id: the files disagree"):
        audit_reward(scores, labels, desk.spec())


def test_labels_outside_their_scale_are_refused_by_row(desk: Desk) -> None:
    with pytest.raises(BadInput, match=r"labels.csv, row \d+, field label: .* is outside the scale 0 to 1"):
        run(desk, scales={"label": {"low": 0, "high": 1}})


SPECS = [
    ({"statistic": "acc_eq"}, "statistic acc_eq has level within"),
    ({"statistic": "kappa", "level": "group"}, "statistic kappa has only level pooled"),
    ({"thresholds": {"usable": 0.9, "trustworthy": 0.1}}, "exchange them"),
    ({"missing": "worst"}, "needs the range of reward in scales"),
    ({"scales": {"reward": {"low": 1, "high": 1}}}, "give the lower end first"),
    ({"clusterby": "x"}, "unknown field clusterby; did you mean cluster_by"),
]


def test_a_label_outside_the_declared_vocabulary_is_refused_by_row(desk: Desk) -> None:
    table = desk.table("v.csv", ["sample_id", "reward", "label"], [(0, "A", "A"), (1, "A", "b"), (2, "B", "B")])
    spec = desk.spec(statistic="kappa", labels=["A", "B"])
    with pytest.raises(BadInput, match=r"v.csv, row 3, field label: 'b' is none of the declared labels A, B; correct"):
        audit_reward(table, table, spec)


@pytest.mark.parametrize(("change", "message"), SPECS)
def test_a_spec_that_makes_no_sense_is_refused_by_row(desk: Desk, change: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=rf"audit.yaml, row \d+.*{message}"):
        run(desk, frozen=False, **change)


def test_verdicts_in_other_words_than_labels_are_blocking(desk: Desk) -> None:
    scores = desk.table("v.csv", ["sample_id", "reward"], [(i, "AB"[i % 2]) for i in range(40)])
    labels = desk.table("l.csv", ["sample_id", "label"], [(i, "12"[i % 2]) for i in range(40)])
    result = audit_reward(scores, labels, desk.spec(statistic="kappa"))
    assert codes(result)[0] == "KAPPA.LABEL_VOCAB"
    assert result.findings[0].severity == "blocking"


def test_unread_verdicts_that_could_turn_the_verdict_are_found_and_left_out_they_make_it_cannot_tell(
    desk: Desk,
) -> None:
    human = ["a", "b"] * 100
    said = [label if i % 10 else "?" for i, label in enumerate(human)]
    scores = desk.table("v.csv", ["sample_id", "reward"], enumerate(said))
    labels = desk.table("l.csv", ["sample_id", "label"], enumerate(human))
    fields: dict[str, Any] = {"statistic": "accuracy", "labels": ["a", "b"]}
    near = {"usable": 0.5, "trustworthy": 0.85}
    far = {"usable": 0.5, "trustworthy": 0.95}
    severity = {"exclude": "warning", "wrong": "info", "a": "warning"}
    for rule, level in severity.items():
        result = audit_reward(scores, labels, desk.spec(**fields, unparsed=rule, thresholds=far))
        found = {finding.code: finding for finding in result.findings}
        assert found["PARSE.BOUNDS_CROSS_DECISION"].severity == level
        assert "from 0.900 to 1.000" in found["PARSE.BOUNDS_CROSS_DECISION"].statement
        assert (result.verdict.word == "cannot tell") == (rule == "exclude")
        still = audit_reward(scores, labels, desk.spec(**fields, unparsed=rule, thresholds=near))
        assert "PARSE.BOUNDS_CROSS_DECISION" not in codes(still)


def test_the_command_prints_its_verdict_keeps_everything_and_exits_by_it(desk: Desk) -> None:
    scores, labels = tables(desk)
    spec = desk.spec(frozen=False)
    frozen = desk.evalkit("audit", "freeze", str(spec))
    assert (frozen.code, frozen.err) == (0, "")
    assert "audit@1 frozen" in frozen.out
    done = desk.audit(scores, labels, spec)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("TRUSTWORTHY: reward against label")
    folder = Path(done.out.strip().split("\n")[-1]).parent
    kept = json.loads((folder / "audit.json").read_text())
    assert kept["registered"]["estimate"]["n"] == N
    assert pl.read_parquet(folder / "evidence.parquet").height == N
    assert desk.audit(scores, labels, desk.spec(frozen=False)).code == 3
    noise = desk.table("noise.csv", ["sample_id", "reward"], enumerate(RNG.normal(size=N)))
    assert desk.audit(noise, labels, desk.spec()).code == 1
    wrong = desk.evalkit("audit", "reward", "--labels", str(labels), "--spec", str(desk.spec()))
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)


def test_the_starter_freezes_as_it_stands_and_with_every_hint_followed(desk: Desk) -> None:
    done = desk.evalkit("audit", "new", "helpful")
    assert (done.code, done.err) == (0, "")
    path = desk.root / "protocols" / "helpful.audit.yaml"
    assert str(path) in done.out
    assert desk.evalkit("audit", "freeze", str(path)).code == 0
    again = desk.evalkit("audit", "new", "helpful")
    assert (again.code, again.err.count("\n")) == (2, 1)
    text, verdicts = path.read_text().split("# Verdicts of a judge:")
    hint = re.compile(r"^# ( *[a-z_]+:)", re.M)
    (desk.root / "numbers.yaml").write_text(hint.sub(r"\1", text))
    assert load_audit_spec(desk.root / "numbers.yaml").against == "other_reward"
    judged = text.replace("statistic: spearman", "statistic: accuracy")
    (desk.root / "verdicts.yaml").write_text(judged + hint.sub(r"\1", verdicts))
    assert load_audit_spec(desk.root / "verdicts.yaml").combine_orders == "both"


def test_a_filled_label_sheet_is_read_as_it_is(desk: Desk) -> None:
    scores, _ = tables(desk)
    header = ["sample_id", "item", "completion", "annotator", "label", "comment"]
    rows = [(i, "q", "text", who, h + d, "") for i, h in enumerate(HUMAN) for who, d in (("ann", -0.1), ("bob", 0.1))]
    result = audit_reward(scores, desk.table("sheet.csv", header, rows), desk.spec())
    assert result.evidence.annotators == ["ann", "bob"]
    assert result.verdict.word == "trustworthy"


@pytest.mark.parametrize("statistic", ["pearson", "spearman", "kendall_b", "gamma", "somers_d", "ordering_accuracy"])
def test_neither_row_order_nor_names_of_samples_move_anything(desk: Desk, statistic: str) -> None:
    before = run(desk, statistic=statistic).registered.estimate
    order = RNG.permutation(N)
    scores = desk.table("s2.csv", ["sample_id", "reward"], [(f"x{i}", GOOD[i]) for i in order])
    labels = desk.table("l2.csv", ["sample_id", "label"], [(f"x{i}", HUMAN[i]) for i in order[::-1]])
    after = audit_reward(scores, labels, desk.spec(statistic=statistic)).registered.estimate
    assert (after.value, after.low, after.high) == pytest.approx((before.value, before.low, before.high), abs=1e-9)
