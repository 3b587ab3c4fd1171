"""What an audit says of a reward's components, and of the sum that the reward is declared to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from evalkit.api import audit_reward
from evalkit.audit import Audit, Finding, Line, evidence_frame
from evalkit.errors import BadInput
from tests.audit.support import Desk
from tests.stats.shared_data import load

RNG = np.random.default_rng(11)
N = 400
ITEM = np.repeat(np.arange(100), 4)
QUALITY, ERROR, NOISE, OTHER = RNG.normal(size=(4, N))
RIGHT = (QUALITY + 0.5 * ERROR > 0).astype(float)
STYLE = np.round(0.5 * QUALITY + NOISE, 3)
LONG = np.round(np.exp(OTHER), 3)
HUMAN = np.round(QUALITY, 1)
PARTS = {"right": RIGHT, "style": STYLE, "long": LONG}
TOTAL = {"right": 1, "style": 0.5, "long": -0.2}
REWARD = RIGHT + 0.5 * STYLE - 0.2 * LONG


def run(
    desk: Desk,
    parts: Mapping[str, Any] = PARTS,
    total: Mapping[str, float] = TOTAL,
    reward: Any = None,
    labels: Mapping[str, Any] | None = None,
    order: Any = range(N),
    **spec: Any,
) -> Audit:
    if reward is None:
        reward = sum(weight * np.asarray(parts[name], dtype=float) for name, weight in total.items())
    columns = {"reward": reward, **parts}
    rows = [(i, ITEM[i], i % 4, *(column[i] for column in columns.values())) for i in order]
    scores = desk.table("scores.csv", ["sample_id", "item_id", "policy", *columns], rows)
    of_labels = {"label": HUMAN, **(labels or {})}
    human = desk.table(
        "labels.csv", ["sample_id", *of_labels], [(i, *(v[i] for v in of_labels.values())) for i in sorted(order)]
    )
    fields = {"cluster_by": "item_id", "total": dict(total), **spec}
    return audit_reward(scores, human, desk.spec(False, **fields))


def found(result: Audit, code: str) -> Finding | None:
    return next((f for f in result.findings if f.code == f"COMPONENT.{code}"), None)


def codes(result: Audit) -> set[str]:
    return {f.code for f in result.findings if f.code.startswith("COMPONENT.")}


def lines(result: Audit, name: str) -> dict[str, Line]:
    return {line.level: line for line in result.sections["components"] if line.name == name}


def figures(result: Audit) -> dict[tuple[str, str], float | None]:
    return {(line.name, line.level): line.estimate.value for line in result.sections["components"]}


def test_a_reward_that_is_its_declared_sum_has_its_figures_and_no_finding(desk: Desk) -> None:
    result = run(desk)
    assert codes(result) == set()
    assert lines(result, "declared sum ≠ reward")["share"].estimate.value == 0
    for level in ("pooled", "within item_id", "mean per item_id"):
        shares = [lines(result, f"{name}: share of variance")[level].estimate for name in TOTAL]
        assert sum(share.value for share in shares) == pytest.approx(1)
        assert all(share.low < share.value < share.high for share in shares)
    right = lines(result, "right: agreement lost without it")["pooled"].estimate
    assert right.low > 0
    long = lines(result, "long: Spearman rho")["pooled"]
    assert long.rules == "0 without a value; turned, for its weight is negative"


def test_shapley_values_share_out_the_agreement_of_the_sum(desk: Desk) -> None:
    for spec in (
        {"statistic": "pearson"},
        {"statistic": "spearman", "level": "group"},
        {"statistic": "kendall_b", "level": "within"},
        {"statistic": "ordering_accuracy"},
        {"statistic": "pearson", "level": "system"},
    ):
        result = run(desk, **spec)
        level = next(line.level for line in result.sections["components"] if line.name.startswith("total: "))
        total = next(line.estimate for line in result.sections["components"] if line.name.startswith("total: "))
        values = [lines(result, f"{name}: Shapley value")[level].estimate.value for name in TOTAL]
        chance = 0.5 if spec["statistic"] == "ordering_accuracy" else 0.0
        assert sum(values) == pytest.approx(total.value - chance)


def test_what_is_lost_without_a_component_is_the_difference_of_two_audits(desk: Desk) -> None:
    for spec in ({"statistic": "pearson"}, {"statistic": "spearman", "level": "within"}):
        result = run(desk, **spec)
        without = run(desk, total={"right": 1, "long": -0.2}, **spec)
        level = result.registered.level
        lost = lines(result, "style: agreement lost without it")[level].estimate
        assert lost.value == pytest.approx(
            result.registered.estimate.value - without.registered.estimate.value, abs=1e-9
        )


def test_a_reward_that_is_not_its_declared_sum_is_a_finding_with_the_samples(desk: Desk) -> None:
    clipped = np.minimum(REWARD, 1.2)
    finding = found(run(desk, reward=clipped), "TOTAL_DIFFERS")
    assert finding is not None
    off = np.flatnonzero(REWARD - clipped > 0.01)
    assert set(finding.evidence) <= {str(i) for i in off}
    assert finding.evidence[0] == str(np.argmax(REWARD - clipped))
    assert "reward is not 1 · right + 0.5 · style + -0.2 · long" in finding.statement
    assert "times the sum" not in finding.statement


def test_rounding_is_no_difference_and_another_scale_is_named(desk: Desk) -> None:
    assert "COMPONENT.TOTAL_DIFFERS" not in codes(run(desk, reward=np.round(REWARD, 2)))
    assert "COMPONENT.TOTAL_DIFFERS" not in codes(run(desk, reward=REWARD.astype(np.float32)))
    finding = found(run(desk, reward=2 * REWARD + 1), "TOTAL_DIFFERS")
    assert finding is not None
    assert "it is 2 times the sum + 1" in finding.statement


def test_p38_components_that_vary_under_a_reward_that_does_not_are_a_finding(desk: Desk) -> None:
    assert found(run(desk, reward=np.zeros(N)), "TOTAL_DIFFERS") is not None


def test_outliers_do_not_hide_that_the_others_differ(desk: Desk) -> None:
    parts = {**PARTS, "long": [1e6, *LONG[1:]]}
    reward = RIGHT + 0.5 * STYLE - 0.2 * np.asarray(parts["long"]) + 0.1
    assert found(run(desk, parts, reward=reward), "TOTAL_DIFFERS") is not None


def test_a_scale_where_less_is_better_leaves_the_declared_sum_what_it_is(desk: Desk) -> None:
    scale = {"low": 0, "high": 100}
    result = run(desk, scales={"long": {**scale, "higher_is_better": False}})
    assert codes(result) == set()
    assert "turned, for" not in lines(result, "long: Spearman rho")["pooled"].rules
    assert figures(result) == pytest.approx(figures(run(desk, scales={"long": scale})), abs=1e-9)


def test_a_component_that_takes_variance_away_is_a_finding_and_a_warning_where_it_harms(desk: Desk) -> None:
    harmful = run(desk, {"good": QUALITY, "brake": QUALITY + 0.3 * NOISE}, {"good": 1, "brake": -0.7})
    finding = found(harmful, "CANCELS")
    assert finding is not None
    assert (finding.severity, finding.estimate is not None and finding.estimate.high < 0) == ("warning", True)
    assert "better without it" in finding.statement
    padded = run(desk, {"model": QUALITY + OTHER, "brake": OTHER + 0.3 * NOISE}, {"model": 1, "brake": -0.5})
    useful = found(padded, "CANCELS")
    assert useful is not None
    assert (useful.severity, "is not shown" in useful.statement) == ("info", True)


def test_a_component_that_brings_little_is_not_said_to_cancel(desk: Desk) -> None:
    assert found(run(desk, {"good": QUALITY, "noise": 0.05 * OTHER}, {"good": 1, "noise": 1}), "CANCELS") is None


def test_p37_a_component_left_out_of_the_sum_moves_the_reward(desk: Desk) -> None:
    absent = RNG.random(N) < 0.2
    parts = {**PARTS, "right": ["" if lost else value for lost, value in zip(absent, RIGHT, strict=True)]}
    summed = np.where(absent, 0.5 * STYLE - 0.2 * LONG, REWARD)
    result = run(desk, parts, reward=summed)
    finding = found(result, "MISSING_SHIFTS_SCALE")
    assert finding is not None
    assert finding.evidence[0] == str(np.flatnonzero(absent)[0])
    whole = REWARD[~absent]
    assert finding.estimate is not None
    assert finding.estimate.value == pytest.approx(-RIGHT[~absent].mean() / whole.std(ddof=1))
    assert "None is not 0" in finding.next_step
    spread = summed.std(ddof=1)
    moved = lines(result, "right: reward where missing − where not")["standard deviations"].estimate
    assert moved.value == pytest.approx((summed[absent].mean() - summed[~absent].mean()) / spread)
    assert "right: label where missing − where not" in {line.name for line in result.sections["components"]}
    assert found(result, "TOTAL_DIFFERS") is None  # the sum is compared where it can be made


def test_a_single_sample_that_lacks_a_component_is_information_and_shows_no_error(desk: Desk) -> None:
    def without(lost: int) -> Audit:
        absent = np.arange(N) < lost
        parts = {**PARTS, "right": ["" if gone else value for gone, value in zip(absent, RIGHT, strict=True)]}
        return run(desk, parts, reward=np.where(absent, 0, RIGHT) + 0.5 * STYLE - 0.2 * LONG)

    one = without(1)
    finding = found(one, "MISSING_SHIFTS_SCALE")
    assert finding is not None
    assert (finding.severity, finding.evidence) == ("info", ("0",))
    moved = lines(one, "right: label where missing − where not")
    assert "of one cluster" in moved["standard deviations"].estimate.why
    assert found(without(4), "MISSING_SHIFTS_SCALE").severity == "warning"


def test_p38_components_that_differ_under_a_sum_that_does_not_are_a_finding(desk: Desk) -> None:
    up = np.tile([0.0, 1.0, 2.0, 3.0], 100)
    level = np.round(np.repeat(RNG.normal(size=100), 4), 1)

    def cancelled(share: float) -> Finding | None:
        down = np.where(100 * share > ITEM, 3 - up, RIGHT)
        return found(
            run(desk, {"level": level, "up": up, "down": down}, dict.fromkeys(("level", "up", "down"), 1)), "CANCELS"
        )

    finding = cancelled(0.4)
    assert finding is not None
    assert finding.severity == "warning"
    assert finding.statement.startswith("in 40.0 % [")
    assert "components differ and their sum does not" in finding.statement
    assert cancelled(0.2) is None


def test_a_reward_that_is_null_where_a_component_is_moves_nothing(desk: Desk) -> None:
    absent = RNG.random(N) < 0.2
    parts = {**PARTS, "right": ["" if lost else value for lost, value in zip(absent, RIGHT, strict=True)]}
    null = ["" if lost else value for lost, value in zip(absent, REWARD, strict=True)]
    result = run(desk, parts, reward=null)
    assert found(result, "MISSING_SHIFTS_SCALE") is None
    assert result.ledger.unscored == {"missing": int(absent.sum())}
    centred = RIGHT - RIGHT.mean()  # a component whose mean is 0 shifts nothing either
    parts = {**PARTS, "right": ["" if lost else value for lost, value in zip(absent, centred, strict=True)]}
    summed = np.where(absent, 0, centred) + 0.5 * STYLE - 0.2 * LONG
    assert found(run(desk, parts, reward=summed), "MISSING_SHIFTS_SCALE") is None


def test_a_component_that_is_nearly_always_at_one_end_is_saturated(desk: Desk) -> None:
    rare = np.where(np.arange(N) % 25 == 0, 0.0, 1.0)
    result = run(desk, {**PARTS, "style": rare})
    finding = found(result, "SATURATED")
    assert finding is not None
    assert finding.statement.startswith("style is 1 for 96.0 % [")
    assert finding.evidence[0] == "0"
    often = np.where(np.arange(N) % 8 == 0, 0.0, 1.0)
    assert found(run(desk, {**PARTS, "style": often}), "SATURATED") is None
    constant = run(desk, {**PARTS, "style": np.full(N, 0.5)}, scales={"style": {"low": 0, "high": 1}})
    assert found(constant, "SATURATED") is not None
    low = {"style": {"low": 0, "high": 1, "higher_is_better": False}}
    assert "style is 1 for 96.0 %" in found(run(desk, {**PARTS, "style": rare}, scales=low), "SATURATED").statement


def test_a_component_that_owns_the_variance_dominates_and_that_is_a_warning_where_it_does_not_agree(desk: Desk) -> None:
    loud = run(desk, {"noise": 10 * OTHER, "right": RIGHT}, {"noise": 1, "right": 1})
    finding = found(loud, "DOMINATES")
    assert finding is not None
    assert finding.severity == "warning"
    assert "noise owns" in finding.statement
    good = found(run(desk, {"good": 10 * QUALITY, "right": RIGHT}, {"good": 1, "right": 1}), "DOMINATES")
    assert good is not None
    assert good.severity == "info"
    assert found(run(desk), "DOMINATES") is None


def test_what_trainers_see_is_owned_within_prompts_whatever_differs_between_them(desk: Desk) -> None:
    between = {"level": 10.0 * ITEM, "right": RIGHT}
    result = run(desk, between, {"level": 1, "right": 1})
    assert lines(result, "level: share of variance")["pooled"].estimate.value > 0.99
    assert lines(result, "right: share of variance")["within item_id"].estimate.value == pytest.approx(1)
    assert "right owns" in found(result, "DOMINATES").statement
    ten = [value if i < 40 else "" for i, value in enumerate(10.0 * ITEM + RIGHT)]
    assert found(run(desk, between, {"level": 1, "right": 1}, ten), "DOMINATES") is None  # ten prompts cannot tell
    flat = lines(result, "total is the same for all samples")["per item_id"].estimate
    assert flat.value == np.mean([len(set(RIGHT[4 * i : 4 * i + 4])) == 1 for i in range(100)])


def test_a_component_against_its_own_label_is_a_finding_though_it_agrees_with_the_overall_one(desk: Desk) -> None:
    labels = {"brief": -STYLE + 0.3 * OTHER, "correct": RIGHT}
    own = {"component_labels": {"style": "brief", "right": "correct"}}
    result = run(desk, labels=labels, **own)
    finding = found(result, "AGAINST_LABEL")
    assert finding is not None
    assert finding.statement.startswith("style goes against brief: Spearman rho")
    assert lines(result, "style: Spearman rho with brief")["pooled"].estimate.high < 0
    assert lines(result, "style: Spearman rho")["pooled"].estimate.low > 0
    assert lines(result, "right: Spearman rho with correct")["pooled"].estimate.value == 1
    assert found(run(desk, labels={"brief": STYLE, "correct": RIGHT}, **own), "AGAINST_LABEL") is None


def test_a_component_whose_weight_turns_it_against_the_label_is_a_finding(desk: Desk) -> None:
    finding = found(run(desk, total={"right": 1, "style": -0.1}), "AGAINST_LABEL")
    assert finding is not None
    assert "style, in the direction of its weight, goes against label" in finding.statement
    for spec in ({"statistic": "acc_eq", "level": "within"}, {"statistic": "ordering_accuracy"}):
        assert found(run(desk, total={"right": 1, "style": -0.1}, **spec), "AGAINST_LABEL") is not None
    assert found(run(desk, total={"right": 1, "long": -0.2}), "AGAINST_LABEL") is None


def test_components_without_weight_are_held_against_the_label_and_accused_of_nothing(desk: Desk) -> None:
    result = run(desk, {**PARTS, "kl": -QUALITY}, components=["kl"])
    assert lines(result, "kl: Spearman rho")["pooled"].estimate.high < 0
    assert found(result, "AGAINST_LABEL") is None
    bare = run(desk, total={}, reward=REWARD, components=["right", "style"])
    assert {line.name for line in bare.sections["components"]} == {
        "right: Spearman rho", "style: Spearman rho", "right: at one end", "style: at one end"
    }  # fmt: skip
    assert lines(bare, "right: Spearman rho")["pooled"].estimate.value == pytest.approx(
        lines(run(desk), "right: Spearman rho")["pooled"].estimate.value
    )


def test_conflicts_and_signs_are_counted_within_prompts(desk: Desk) -> None:
    result = run(desk, {"up": QUALITY, "down": -QUALITY + 0.001 * NOISE}, {"up": 2, "down": 1})
    opposed = lines(result, "up × down: opposed")["pairs within item_id"].estimate
    assert (opposed.value > 0.99, opposed.n, opposed.n_clusters) == (True, 600, 100)
    falls = lines(result, "down: falls as the label rises")["per item_id"].estimate
    assert falls.value > 0.95


def test_repeated_scorings_are_not_held_against_a_sum_of_combined_ones(desk: Desk) -> None:
    rows = [(i, k, ITEM[i], REWARD[i] + k, RIGHT[i], STYLE[i], LONG[i]) for i in range(N) for k in (0, 1)]
    scores = desk.table("s.csv", ["sample_id", "repeat", "item_id", "reward", *PARTS], rows)
    labels = desk.table("l.csv", ["sample_id", "label"], enumerate(HUMAN))
    result = audit_reward(scores, labels, desk.spec(False, total=TOTAL, repeats="mean", cluster_by="item_id"))
    assert found(result, "TOTAL_DIFFERS") is None
    line = lines(result, "declared sum ≠ reward")["share"]
    assert line.estimate.why == "repeated scorings were combined before"


def test_a_component_without_any_value_has_no_figures_and_says_so(desk: Desk) -> None:
    for level in ("pooled", "group", "within", "system"):
        result = run(desk, {**PARTS, "style": [""] * N}, reward=REWARD, level=level)
        style = next(line for line in result.sections["components"] if line.rules == f"{N} without a value")
        assert style.estimate.why == "no sample has a value"


def test_seven_components_have_no_shapley_values_and_the_line_says_why(desk: Desk) -> None:
    parts = {f"c{k}": RNG.normal(size=N) for k in range(7)}
    line = lines(run(desk, parts, dict.fromkeys(parts, 1)), "Shapley values")["pooled"]
    assert line.estimate.why == "7 components; exact for up to 6"


@pytest.mark.parametrize("statistic", ["pearson", "acc_eq", "auc"])
def test_neither_row_order_nor_the_unit_of_all_weights_moves_anything(desk: Desk, statistic: str) -> None:
    spec: dict[str, Any] = {"statistic": statistic, "level": "within" if statistic == "acc_eq" else "pooled"}
    labels = {"label": (HUMAN > 0).astype(int)} if statistic == "auc" else {}
    before = run(desk, labels=labels, **spec)
    for after in (
        run(desk, labels=labels, order=RNG.permutation(N), **spec),
        run(desk, total={name: 3 * weight for name, weight in TOTAL.items()}, labels=labels, **spec),
    ):
        assert figures(after) == pytest.approx(figures(before), abs=1e-9)
        assert codes(after) == codes(before)


def test_a_weight_scales_shares_as_the_component_itself_would(desk: Desk) -> None:
    one = run(desk, total={"right": 1, "style": 3})
    two = run(desk, {**PARTS, "style": 3 * STYLE}, {"right": 1, "style": 1})
    shares = {key: value for key, value in figures(one).items() if "share of variance" in key[0]}
    assert shares == pytest.approx({key: figures(two)[key] for key in shares})
    assert shares["style: share of variance", "pooled"] > figures(run(desk))["style: share of variance", "pooled"]


def test_long_labels_give_dimensions_and_evidence_keeps_them(desk: Desk) -> None:
    scores = desk.table(
        "s.csv", ["sample_id", "item_id", "reward", *PARTS],
        [(i, ITEM[i], REWARD[i], *(part[i] for part in PARTS.values())) for i in range(N)],
    )  # fmt: skip
    rows = [
        (i, who, dimension, values[i] + d)
        for i in range(N)
        for dimension, values in (("label", HUMAN), ("clarity", STYLE))
        for who, d in (("ann", -0.5), ("bob", 0.5))
        if dimension == "label" or i > 9
    ]
    labels = desk.table("l.csv", ["sample_id", "annotator_id", "dimension", "value"], rows)
    spec = desk.spec(False, total=TOTAL, component_labels={"style": "clarity"})
    result = audit_reward(scores, labels, spec)
    line = lines(result, "style: Spearman rho with clarity")["pooled"]
    assert (line.estimate.value, line.estimate.n, line.rules) == (1, N - 10, "10 without a value or label")
    assert evidence_frame(result)["label.clarity"].null_count() == 10


def test_the_five_dimensions_of_topical_chat_are_held_against_their_own_ratings(desk: Desk) -> None:
    rows = load("unieval", "topical_chat_result.json")
    names = ["naturalness", "coherence", "engagingness", "groundedness", "understandability"]
    scores = desk.table(
        "s.csv", ["sample_id", "item_id", "overall", *(f"p_{name}" for name in names)],
        [(i, r["source"], r["predict_scores"]["overall"], *(r["predict_scores"][n] for n in names)) for i, r in enumerate(rows)],
    )  # fmt: skip
    labels = desk.table(
        "l.csv", ["sample_id", "overall", *names],
        [(i, r["scores"]["overall"], *(r["scores"][name] for name in names)) for i, r in enumerate(rows)],
    )  # fmt: skip
    spec = desk.spec(
        False, reward="overall", label="overall", cluster_by="item_id",
        total={f"p_{name}": 0.2 for name in names}, component_labels={f"p_{name}": name for name in names},
    )  # fmt: skip
    result = audit_reward(scores, labels, spec)
    published = [0.513986, 0.612942, 0.604739, 0.574954, 0.467807]  # UniEval's README, Spearman by turn
    own = [lines(result, f"p_{name}: Spearman rho with {name}")["pooled"].estimate.value for name in names]
    assert own == pytest.approx(published, abs=1e-6)
    assert found(result, "TOTAL_DIFFERS") is None  # UniEval's overall is the mean of the five
    values = [lines(result, f"p_{name}: Shapley value")["pooled"].estimate.value for name in names]
    assert sum(values) == pytest.approx(0.662583, abs=1e-6)  # its published overall Spearman


SPECS = [
    ({"total": {"reward": 1}}, "total names the reward itself; name the components that reward is the sum of"),
    ({"total": {"a": 0}}, "total gives a weight 0; leave it out, and name it under components to see it"),
    ({"total": {"a": "1"}}, r"field total\.a: text where a number belongs; write it without quotes"),
    ({"component_labels": {"a": "x"}}, "component_labels names a, which is in neither total nor components; add it"),
    ({"components": ["a"], "component_labels": {"a": "label"}}, "the overall label, which all are; leave it out"),
    ({"statistic": "kappa", "total": {"a": 1}}, "total is for numbers, and statistic kappa takes labels; leave it out"),
]


@pytest.mark.parametrize(("fields", "message"), SPECS)
def test_a_spec_whose_components_make_no_sense_is_refused_by_row(desk: Desk, fields: Any, message: str) -> None:
    labels = desk.table("l.csv", ["sample_id", "label"], enumerate(HUMAN))
    with pytest.raises(BadInput, match=rf"audit.yaml, row \d+.*{message}"):
        audit_reward(labels, labels, desk.spec(False, **fields))


def test_a_dimension_or_component_that_is_not_there_is_named_with_its_mend(desk: Desk) -> None:
    with pytest.raises(BadInput, match="no column clarity; its columns are sample_id, label"):
        run(desk, component_labels={"style": "clarity"})
    with pytest.raises(BadInput, match="no column styel; did you mean style"):
        run(desk, total={"styel": 1, "right": 1}, reward=REWARD)
    with pytest.raises(BadInput, match="no sample has a usable label clarity; is it the right column"):
        run(desk, component_labels={"style": "clarity"}, labels={"clarity": [""] * N})
    scale = {"clarity": {"low": 0, "high": 1}}
    with pytest.raises(BadInput, match=r"row 2, field clarity: .* is outside the scale 0 to 1"):
        run(desk, component_labels={"style": "clarity"}, labels={"clarity": np.full(N, 7)}, scales=scale)
    scores = desk.table("s.csv", ["sample_id", "reward", "style"], zip(range(N), REWARD, STYLE, strict=True))
    labels = desk.table("l.csv", ["sample_id", "ann", "bob"], zip(range(N), HUMAN, HUMAN, strict=True))
    spec = desk.spec(False, components=["style"], component_labels={"style": "clarity"})
    with pytest.raises(BadInput, match="ann, bob hold one dimension, and component_labels asks for clarity"):
        audit_reward(scores, labels, spec, annotators=["ann", "bob"])
    valued = desk.table("v.csv", ["sample_id", "annotator_id", "value"], [(i, "ann", HUMAN[i]) for i in range(N)])
    with pytest.raises(BadInput, match="no column clarity"):
        audit_reward(scores, valued, spec)


def test_cells_of_a_dimension_that_are_no_number_are_named(desk: Desk) -> None:
    clarity: list[Any] = ["good", *STYLE[1:]]
    result = run(desk, component_labels={"style": "clarity"}, labels={"clarity": clarity})
    finding = next(f for f in result.findings if f.code == "GOLD.UNPARSABLE")
    assert finding.statement.startswith("1 cells of clarity")
