"""What an audit promises to say of the shape of a reward's values."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.api import audit_reward
from evalkit.audit import AuditSpec, Evidence, Finding, Ledger, Line
from evalkit.audit.shape import shape
from evalkit.stats import stratified_correlation
from tests.audit.support import Desk

N = 200


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def spec_of(low: float | None = None, high: float | None = None, **fields: Any) -> AuditSpec:
    scales = {}
    if low is not None:
        turned = fields.pop("less_is_better", False)
        scales = {"reward": {"low": Decimal(str(low)), "high": Decimal(str(high)), "higher_is_better": not turned}}
    given = {
        "name": "a", "version": 1, "reward": "reward", "label": "label", "statistic": "spearman", "level": "pooled",
        "cluster_by": "none", "thresholds": {"usable": Decimal("0.3"), "trustworthy": Decimal("0.6")}, "scales": scales,
    }  # fmt: skip
    return AuditSpec(**{**given, **fields})


def evidence_of(
    values: Any, human: Any = None, spec: AuditSpec | None = None, clusters: Any = None, **columns: Any
) -> Evidence:
    """Samples with these values as the file has them; NaN is a score that is none."""
    x = np.asarray(values, dtype=np.float64)
    n = x.size
    ids = np.array([str(i) for i in range(n)], dtype=object)
    status = np.where(np.isfinite(x), "ok", "nan").astype(object)
    scale = None if spec is None else spec.scales.get("reward")
    return Evidence(
        ids,
        x if scale is None or scale.higher_is_better else -x,
        np.arange(n, dtype=float) if human is None else np.asarray(human, dtype=float),
        np.zeros((n, 1)),
        ["ann"],
        ids if clusters is None else np.asarray(clusters, dtype=object),
        {name: np.asarray(cells, dtype=object) for name, cells in columns.items()},
        None,
        {},
        status,
        Ledger(n, int(np.count_nonzero(status == "ok")), {}, 0, 0, 0, 0),
        (),
    )


def look(values: Any, spec: AuditSpec | None = None, **what: Any) -> tuple[dict[str, Line], dict[str, Finding]]:
    spec = spec or spec_of()
    lines, findings = shape(evidence_of(values, spec=spec, **what), spec)
    assert len({finding.code for finding in findings}) == len(findings)
    return {line.name: line for line in lines}, {finding.code: finding for finding in findings}


def piled(share: float, at: float, rest: Any, n: int = N) -> np.ndarray:
    x = np.array(rest, dtype=float)[:n]
    x[: round(share * n)] = at
    return x


def test_a_reward_that_is_always_0_blocks_and_asks_for_rewards_on_the_way() -> None:
    _, found = look([0.0] * 10)
    assert list(found) == ["SCORE.ALL_ZERO"]
    assert found["SCORE.ALL_ZERO"].severity == "blocking"
    assert "too sparse" in found["SCORE.ALL_ZERO"].next_step
    assert found["SCORE.ALL_ZERO"].evidence[0] == "0"
    assert look([0.0] * 9)[1] == {}
    assert "SCORE.ALL_ZERO" not in look([0.0] * 9 + [1.0])[1]


def test_p40_an_unreadable_reference_that_makes_everything_right_is_said() -> None:
    _, found = look([1.0] * 30)
    assert "too lenient" in found["SCORE.ALL_ONE"].next_step
    assert "the reference" in found["SCORE.ALL_ONE"].next_step
    at_the_bottom = look([1.0] * 30, spec_of(1, 5))[1]["SCORE.ALL_ONE"]
    assert "too sparse" in at_the_bottom.next_step


def test_p5_different_texts_that_all_score_the_same_block() -> None:
    _, found = look([0.7315] * 30)
    assert "all 30 values of reward are 0.7315" in found["SCORE.CONSTANT"].statement
    assert "one by one" in found["SCORE.CONSTANT"].next_step
    assert "SCORE.CONSTANT" not in look([0.7315] * 29 + [0.7316])[1]


def test_what_a_scorer_said_of_itself_is_not_said_again() -> None:
    spec = spec_of()
    before = Finding("SCORE.CONSTANT", "blocking", "said", "mend")
    for constant in (0.5, 0.0, 1.0):
        assert shape(replace(evidence_of([constant] * 30), findings=(before,)), spec)[1] == []


def test_two_values_are_named_and_three_are_not_two() -> None:
    lines, found = look(np.tile([0.0, 1.0], 50))
    assert lines["distinct values"].estimate.value == 2
    assert found["SCORE.TWO_POINT"].severity == "info"
    assert "0 or 1 (50)" in found["SCORE.TWO_POINT"].statement
    assert "SCORE.TWO_POINT" not in look(np.tile([0.0, 0.5, 1.0], 50))[1]
    assert "SCORE.TWO_POINT" not in look([0.0, 1.0] * 4)[1]


def test_a_graded_reward_at_its_top_is_saturated_and_half_of_it_is_not() -> None:
    lines, found = look(piled(0.7, 10, rng().random(N) * 10), spec_of(0, 10))
    assert found["SCORE.SATURATED"].severity == "info"
    assert found["SCORE.SATURATED"].next_step.startswith("too lenient")
    assert lines["at the highest, 10"].estimate.value == 0.7
    assert look(piled(0.95, 10, rng().random(N) * 10), spec_of(0, 10))[1]["SCORE.SATURATED"].severity == "warning"
    assert "SCORE.SATURATED" not in look(piled(0.52, 10, rng().random(N) * 10), spec_of(0, 10))[1]
    # A pile below the end of the declared range saturates nothing; without a range it does.
    below = piled(0.7, 9, rng().random(N) * 9)
    assert "SCORE.SATURATED" not in look(below, spec_of(0, 10))[1]
    assert "(observed)" in look(below)[1]["SCORE.SATURATED"].statement


def test_right_and_wrong_is_saturated_only_where_nearly_all_are_one_of_them() -> None:
    assert "SCORE.SATURATED" not in look(piled(0.85, 1, np.zeros(N)))[1]
    lenient = look(piled(0.97, 1, np.zeros(N)))[1]["SCORE.SATURATED"]
    assert (lenient.severity, lenient.next_step[:11]) == ("warning", "too lenient")
    assert look(piled(0.97, 0, np.ones(N)))[1]["SCORE.SATURATED"].next_step.startswith("too sparse")


def test_on_a_scale_where_less_is_better_the_ends_change_places() -> None:
    spec = spec_of(0, 1, less_is_better=True)
    errors = piled(0.8, 1, rng().random(N))
    assert look(errors, spec)[1]["SCORE.SATURATED"].next_step.startswith("too sparse")
    lines, found = look([0.0] * 30, spec)
    assert "too lenient" in found["SCORE.ALL_ZERO"].next_step
    assert lines["at the lowest, 0"].estimate.value == 1.0


def test_p25_a_pile_of_zeros_may_be_failures_that_were_scored_as_0() -> None:
    lines, found = look(piled(0.7, 0, 1 + rng().random(N)))
    assert list(found) == ["SCORE.ZERO_INFLATED"]
    assert "from 1.0" in found["SCORE.ZERO_INFLATED"].statement
    assert found["SCORE.ZERO_INFLATED"].next_step.startswith("too sparse")
    assert "failed or could not be read" in found["SCORE.ZERO_INFLATED"].next_step
    assert lines["at the lowest, 0"].estimate.n == N
    between = look(piled(0.7, 0, rng().normal(size=N)))[1]["SCORE.ZERO_INFLATED"]
    assert between.next_step.startswith("the definition")
    assert "SCORE.ZERO_INFLATED" not in look(piled(0.5, 0, 1 + rng().random(N)))[1]


def test_a_few_samples_that_make_the_variance_are_found_by_tail_and_by_penalty() -> None:
    lines, found = look(rng().standard_t(1.5, 1000), spec_of(statistic="pearson"))
    assert found["SCORE.HEAVY_TAIL"].severity == "warning"
    assert look(rng().standard_t(1.5, 1000))[1]["SCORE.HEAVY_TAIL"].severity == "info"  # ranks do not hang on it
    assert "clip" in found["SCORE.HEAVY_TAIL"].next_step
    assert lines["tail index (Hill)"].estimate.value < 2
    assert lines["extreme value index"].estimate.n == 50
    penalties = piled(0.04, -10, rng().integers(0, 2, 1000), 1000)
    penalised = look(penalties)[1]["SCORE.HEAVY_TAIL"]
    assert set(penalised.evidence) <= {str(i) for i in range(40)}
    assert "SCORE.HEAVY_TAIL" not in look(piled(0.04, -1, rng().integers(0, 2, 1000), 1000))[1]
    for usual in (rng().normal(size=1000), rng().exponential(size=1000), rng().random(1000)):
        assert "SCORE.HEAVY_TAIL" not in look(usual)[1]


def test_a_tail_heavier_than_exponential_that_owns_little_is_only_a_number() -> None:
    lines, found = look(rng(1).standard_t(5, 8000))
    assert lines["extreme value index"].estimate.low > 0
    assert lines["variance that the extreme 5 % own"].estimate.value < 0.5
    assert "SCORE.HEAVY_TAIL" not in found


def test_copies_of_one_extreme_prompt_are_no_tail() -> None:
    x = np.concatenate([rng().normal(size=190), 50 + rng().pareto(1, 10)])
    lines, found = look(x, spec_of(cluster_by="item"), clusters=np.append(np.arange(190), np.full(10, 500)))
    assert lines["tail index (Hill)"].estimate.value is None
    assert "SCORE.HEAVY_TAIL" not in found


def test_two_modes_are_found_and_one_is_not() -> None:
    two = np.concatenate([rng().normal(-3, 1, 100), rng(1).normal(3, 1, 100)])
    lines, found = look(two)
    assert lines["p of one mode"].estimate.value <= 0.05
    assert "strata" in found["SCORE.MULTIMODAL"].next_step
    assert "SCORE.MULTIMODAL" not in look(rng().normal(size=N))[1]


def test_flat_rewards_seldom_have_modes() -> None:
    found = [look(rng(seed).random(300))[1] for seed in range(30)]
    assert sum("SCORE.MULTIMODAL" in one for one in found) <= 3


def test_a_shard_whose_sign_is_turned_is_a_warning() -> None:
    human = rng().normal(size=N)
    good = human + 0.5 * rng(1).normal(size=N)
    shard = np.where(np.arange(N) < 60, "old", "new")

    def turned(reward: Any) -> Finding | None:
        return look(reward, human=human, policy=shard)[1].get("SCORE.SIGN_TURNED")

    found = turned(np.where(shard == "old", -good, good))
    assert found is not None
    assert (found.severity, found.evidence[0]) == ("warning", "0")
    assert "where policy is old, reward falls" in found.statement
    noise = rng(2).normal(size=N)
    assert turned(np.where(shard == "old", noise, good)) is None
    assert turned(np.where(shard == "old", -good, noise)) is None  # it rises nowhere
    assert turned(-good) is None  # that is CORR.DIRECTION


def test_a_sign_that_chance_turns_in_one_of_forty_shards_is_none() -> None:
    human = np.random.default_rng(11).normal(size=(2, 400))[0]
    reward, source = rng(4).normal(size=400), np.arange(400) // 10
    found = stratified_correlation(reward, human, source, np.arange(400), kind="spearman")
    assert any(one.estimate.high < 0 for one in found.strata)
    assert any(one.estimate.low > 0 for one in found.strata)
    assert "SCORE.SIGN_TURNED" not in look(reward, spec_of(strata=("source",)), human=human, source=source)[1]


def test_p8_ties_of_a_coarse_reward_are_a_finding_and_those_of_bfloat16_only_a_number() -> None:
    lines, found = look(rng().integers(1, 6, N))
    assert found["SCORE.QUANTISED_TIES"].severity == "info"
    assert "5 values in 200 samples" in found["SCORE.QUANTISED_TIES"].statement
    assert lines["tied pairs"].estimate.value == pytest.approx(0.2, abs=0.03)
    rounded = (rng().normal(0, 8, 700).astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)
    lines, found = look(rounded)
    assert 0 < lines["tied pairs"].estimate.value < 0.01
    assert "SCORE.QUANTISED_TIES" not in found


def test_ties_within_prompts_decide_where_there_are_prompts() -> None:
    items = np.repeat(range(50), 4)
    apart = np.tile([1.0, 2.0, 3.0, 4.0], 50)
    spec = spec_of(cluster_by="item_id")
    lines, found = look(apart, spec, clusters=items, item_id=items)
    assert lines["tied pairs"].estimate.value == 0
    assert "SCORE.QUANTISED_TIES" not in found
    assert "SCORE.QUANTISED_TIES" in look(apart[:-1])[1]


def test_prompts_in_which_the_reward_points_the_other_way_are_a_warning() -> None:
    items, human = np.repeat(range(60), 3), np.tile([1.0, 2.0, 3.0], 60)
    spec = spec_of(cluster_by="item_id")

    def signs(turned: int) -> dict[str, Finding]:
        reward = np.where(items < turned, -human, human) + items
        return look(reward, spec, human=human, clusters=items, item_id=items)[1]

    assert signs(30)["SCORE.SIGN_INCONSISTENT"].severity == "warning"
    assert "calibrate" in signs(30)["SCORE.SIGN_INCONSISTENT"].next_step
    assert "in 50.0 %" in signs(30)["SCORE.SIGN_INCONSISTENT"].statement
    assert "SCORE.SIGN_INCONSISTENT" not in signs(21)  # 35 %, whose interval reaches below a third
    declared = spec_of(-100, 100, less_is_better=True, cluster_by="item_id")
    falling = evidence_of(items - human, human, declared, items, item_id=items)
    assert "SCORE.SIGN_INCONSISTENT" not in {finding.code for finding in shape(falling, declared)[1]}


def test_prompts_whose_answers_never_differ_are_counted_beside_the_formula() -> None:
    solved = np.repeat(rng().random(80) < 0.2, 8)
    items = np.repeat(range(80), 8)
    x = np.where(solved, 1.0, 0.0)
    x[:64:8] = 1 - x[:64:8]
    spec = spec_of(cluster_by="item_id")
    lines, found = look(x, spec, clusters=items, item_id=items)
    assert lines["answers that differ in reward"].estimate.value == 0.1
    assert lines["the same if prompts were alike"].estimate.value > 0.8
    assert "too high where prompts differ" in lines["the same if prompts were alike"].rules
    few = found["SCORE.FEW_INFORMATIVE"]
    assert (few.severity, few.next_step[:10]) == ("info", "too sparse")
    assert look(1 - x, spec, clusters=items, item_id=items)[1]["SCORE.FEW_INFORMATIVE"].next_step.startswith("too len")
    never = look(np.where(solved, 1.0, 0.0), spec, clusters=items, item_id=items)[1]["SCORE.FEW_INFORMATIVE"]
    assert never.severity == "warning"
    mixed = rng().integers(0, 2, 640)
    assert "SCORE.FEW_INFORMATIVE" not in look(mixed, spec, clusters=items, item_id=items)[1]


def test_answers_of_different_policies_are_no_group() -> None:
    items, policies = np.repeat(range(50), 4), np.tile(["a", "a", "b", "b"], 50)
    x = np.tile([0.0, 0.0, 1.0, 1.0], 50)
    spec = spec_of(cluster_by="item_id")
    assert look(x, spec, clusters=items, item_id=items)[0]["answers that differ in reward"].estimate.value == 1
    lines, found = look(x, spec, clusters=items, item_id=items, policy=policies)
    assert lines["answers that differ in reward"].estimate.value == 0
    assert "50.0 % at the lowest, 50.0 % at the highest" in found["SCORE.FEW_INFORMATIVE"].statement
    lines, _ = look(x, spec, clusters=items, item_id=items, policy=np.tile(["a", "b", "c", "d"], 50))
    assert "answers that differ in reward" not in lines


def test_prompts_that_cross_clusters_are_one_cluster_with_all_they_touch() -> None:
    items = np.repeat(range(50), 4)
    lines, _ = look(rng().normal(size=N), spec_of(cluster_by="source"), clusters=np.arange(N) % 7, item_id=items)
    for name in ("answers that differ in reward", "reward falls as the label rises"):
        assert (lines[name].estimate.n_clusters, lines[name].estimate.low) == (1, None)


def test_scores_that_are_no_numbers_are_a_warning_and_are_in_no_other_statistic() -> None:
    x = [math.nan, math.inf, *rng().normal(size=48)]
    lines, found = look(x)
    assert found["SCORE.NONFINITE"].evidence == ("0", "1")
    assert lines["not finite"].estimate.value == 0.04
    assert lines["distinct values"].estimate.n == 48
    assert "SCORE.NONFINITE" not in look(x[2:])[1]


def test_scores_that_are_missing_are_not_the_ends_they_are_filled_with() -> None:
    spec = spec_of(-10, 10, missing="worst")
    evidence = evidence_of(np.append(rng().normal(size=50), [math.nan] * 150), spec=spec)
    evidence = replace(evidence, status=np.where(evidence.status == "nan", "missing", evidence.status))
    lines, findings = shape(evidence, spec)
    assert {line.estimate.n for line in lines if line.name == "distinct values"} == {50}
    assert findings == []


ODD = [
    [],
    [1.0],
    [math.nan],
    [math.nan] * 30,
    [0.0, 1.0],
    [5.0] * 3,
    [1.0, 2.0, 3.0],
    [1e308, -1e308] * 20,
    [0.1 + 0.2, 0.3] * 9,
]


@pytest.mark.parametrize("values", ODD, ids=[f"{len(v)} values" for v in ODD])
def test_few_or_odd_values_raise_nothing(values: list[float]) -> None:
    for spec in (spec_of(), spec_of(cluster_by="item_id")):
        items = np.arange(len(values)) // 2
        _, found = look(values, spec, clusters=items, item_id=items)
        if len(values) < 10 and not any(map(math.isnan, values)):
            assert found == {}


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 40), st.sampled_from([1, 2, 3, 1000]), st.integers(1, 6))
def test_no_small_table_raises_and_no_number_is_without_its_reason(seed: int, n: int, kinds: int, size: int) -> None:
    draw = np.random.default_rng(seed)
    items = np.arange(n) // size
    spec = spec_of(0, 1, cluster_by="item_id")
    evidence = evidence_of(
        draw.integers(0, kinds, n) / max(kinds - 1, 1), draw.normal(size=n), spec, items, item_id=items
    )
    for line in shape(evidence, spec)[0]:
        assert line.estimate.method
        assert line.estimate.low is not None or line.estimate.why


def scored_twice(desk: Desk, second: np.ndarray, first: np.ndarray, names: tuple[str, str] = ("9", "10")) -> Any:
    rows = [(i, names[0], a) for i, a in enumerate(first)] + [(i, names[1], b) for i, b in enumerate(second)]
    scores = desk.table("s.csv", ["sample_id", "scorer_step", "reward"], rows)
    labels = desk.table("l.csv", ["sample_id", "label"], enumerate(first))
    result = audit_reward(scores, labels, desk.spec(False, repeats="mean"), columns={"repeat": "scorer_step"})
    return {line.name: line for line in result.sections["shape"]}, {f.code: f for f in result.findings}


def test_a_scorer_that_moved_on_the_same_samples_is_a_warning(desk: Desk) -> None:
    x = rng().normal(size=60)
    lines, found = scored_twice(desk, x + 0.55 + 0.1 * rng(1).normal(size=60), x)
    moved = found["SCORE.DRIFT"]
    assert moved.severity == "warning"
    assert "scored at 9 and at 10: reward moves by 0.5" in moved.statement
    assert moved.estimate.low > 0.4
    assert lines["shift of the same samples"].level == "9 to 10"
    assert lines["samples whose score changed"].estimate.value == 1.0


def test_noise_of_a_scorer_is_no_drift(desk: Desk) -> None:
    x = rng().normal(size=60)
    lines, found = scored_twice(desk, x + 0.1 * rng(2).normal(size=60), x)
    assert "SCORE.DRIFT" not in found
    assert "SCORE.NONDETERMINISTIC" in found
    assert lines["shift of the same samples"].estimate.half_width < 0.05


def test_three_scorings_moved_at_once_are_too_few_to_tell(desk: Desk) -> None:
    assert "SCORE.DRIFT" not in scored_twice(desk, np.array([2.0, 3.0, 5.0]), np.array([1.0, 2.0, 3.0]))[1]


def test_the_command_shows_the_shape_and_keeps_it(desk: Desk) -> None:
    x = piled(0.7, 0, 1 + rng().random(N))
    scores = desk.table("s.csv", ["sample_id", "reward"], [*enumerate(x), ("stranger", 0.5)])
    labels = desk.table("l.csv", ["sample_id", "label"], enumerate(x + rng(1).normal(size=N)))
    done = desk.audit(scores, labels, desk.spec(False), "--json")
    kept = json.loads(done.out)
    shown = {line["name"]: line for line in kept["sections"]["shape"]}
    assert shown["at the lowest, 0"]["estimate"]["value"] == 0.7
    assert shown["distinct values"]["rules"] == "samples with a label; 1 without one not looked at"
    assert "SCORE.ZERO_INFLATED" in [finding["code"] for finding in kept["findings"]]


def test_verdicts_have_no_shape(desk: Desk) -> None:
    verdicts = desk.table("v.csv", ["sample_id", "reward"], [(i, "AB"[i % 2]) for i in range(40)])
    labels = desk.table("l.csv", ["sample_id", "label"], [(i, "AB"[i % 3 % 2]) for i in range(40)])
    assert "shape" not in audit_reward(verdicts, labels, desk.spec(False, statistic="accuracy")).sections
