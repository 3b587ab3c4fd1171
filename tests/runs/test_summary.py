"""Every number of a summary against one worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evalkit import api
from evalkit.runs import Measure, Summary
from tests.runs.support import Lab, lab

CUT = ("1", "length")
LOST = (None, "http_500")


@pytest.fixture
def four(tmp_path: Path) -> Lab:
    """Items a, b in one cluster, c and d in one each."""
    return lab(tmp_path / "ws", "xxyz")


def component(summary: Summary, name: str) -> Measure:
    return next(measure for measure in summary.components if measure.name == name)


def test_success_is_the_share_of_right_answers_with_a_cluster_interval(four: Lab) -> None:
    found = four.summary(four.protocol(), {"a": ["1"], "b": ["0"], "c": ["1"], "d": ["1"]})
    estimate = found.success.estimate
    assert estimate.value == 0.75
    # cluster sums of y − 3/4: −1/2, 1/4, 1/4; CR1 se = √(3/2 · 3/8) / 4 = 3/16; t(2) at 97.5 % is 4.3027, so ± .807
    assert (estimate.low, estimate.high) == (0.0, 1.0), "clipped to what success can be"
    assert (estimate.n, estimate.n_clusters) == (4, 3)
    assert found.success.bounds is None
    assert (found.planned, found.scored, found.clean) == (4, 4, 4)


def test_the_reward_is_the_weighted_sum_and_the_floor_stands_beside_it(four: Lab) -> None:
    # brief is 1 up to 2 tokens, 0 from 4, linear between: "1" 1, "001" 1/2, "0000" 0
    found = four.summary(four.protocol(), {"a": ["1"], "b": ["001"], "c": ["0000"], "d": ["0"]})
    assert component(found, "correct").estimate.value == 0.5
    assert component(found, "brief").estimate.value == pytest.approx((1 + 0.5 + 0 + 1) / 4)
    assert found.reward.estimate.value == pytest.approx((1.5 + 1.25 + 0 + 0.5) / 4)
    assert (found.success.floor, component(found, "brief").floor, found.reward.floor) == (0.0, 1.0, 0.5)
    assert (component(found, "brief").weight, component(found, "brief").role) == ("0.5", "conciseness")


@pytest.mark.parametrize(("rule", "value", "scored", "clean"), [("wrong", 0.5, 4, 3), ("no_verdict", 2 / 3, 3, 3)])
def test_a_cut_completion_is_wrong_or_no_verdict_and_both_are_told(
    rule: str, value: float, scored: int, clean: int, four: Lab
) -> None:
    said = {"a": ["1"], "b": ["0"], "c": ["1"], "d": [CUT]}
    found = four.summary(four.protocol(more=f"truncation: {rule}"), said)
    assert found.success.estimate.value == pytest.approx(value)
    assert (found.planned, found.scored, found.clean) == (4, scored, clean)
    assert found.truncated_wrong.value == 0.5
    assert found.truncated_excluded.value == pytest.approx(2 / 3)
    assert component(found, "correct").estimate.value == 0.75, "a component describes the text"
    assert found.outcomes == {"completed": 3, "truncated": 1}
    if rule == "wrong":
        assert found.success.bounds is None
    else:
        assert found.success.bounds is not None
        assert (found.success.bounds.low, found.success.bounds.high) == (0.5, 0.75)


@pytest.mark.parametrize(("rule", "value", "n"), [("exclude", 2 / 3, 3), ("worst", 0.5, 4), ("undefined", None, 3)])
def test_a_missing_verdict_is_left_out_or_counted_as_the_worst_or_makes_the_mean_undefined(
    rule: str, value: float | None, n: int, four: Lab
) -> None:
    found = four.summary(four.protocol(more=f"missing: {rule}"), {"a": ["1"], "b": ["0"], "c": ["1"], "d": [LOST]})
    estimate = found.success.estimate
    assert estimate.value == (None if value is None else pytest.approx(value))
    assert estimate.n == n
    assert found.success.bounds is not None
    assert (found.success.bounds.low, found.success.bounds.high) == (0.5, 0.75)
    assert (found.planned, found.scored, found.clean) == (4, 3, 3)
    assert (found.outcomes, found.causes) == ({"completed": 3, "errored": 1}, {"http_500": 1})
    if rule == "undefined":
        assert estimate.why == "1 of 4 values are missing, and the protocol then asks for none"
        assert estimate.low is None


def test_all_right_has_an_exact_interval_with_n_clusters_and_a_constant_has_none(four: Lab) -> None:
    found = four.summary(four.protocol(), {item: ["1"] for item in "abcd"})
    estimate = found.success.estimate
    assert (estimate.value, estimate.high) == (1.0, 1.0)
    assert estimate.low == pytest.approx(0.025 ** (1 / 3))
    tokens = next(measure for measure in found.side if measure.name == "n_completion_tokens").estimate
    assert (tokens.value, tokens.low, tokens.high) == (1.0, None, None)
    assert tokens.why == "all 4 values are equal; their spread says nothing of the error"


def test_pass_at_k_and_pass_hat_k_are_unbiased_and_leave_out_items_with_too_few_verdicts(four: Lab) -> None:
    metrics = "[{name: mean}, {name: pass@k, k: [1, 2]}, {name: pass^k, k: [2]}]"
    said = {"a": ["1", "1", "0"], "b": ["0", "0", "0"], "c": ["1", "0", "0"], "d": ["1", LOST, LOST]}
    found = {(m.name, m.k): m for m in four.summary(four.protocol(n=3, metrics=metrics), said).metrics}
    assert found["pass@k", 1].estimate.value == pytest.approx((2 / 3 + 0 + 1 / 3 + 1) / 4)
    # pass@2: 1 − C(1,2)/3 = 1; 0; 1 − C(2,2)/3 = 2/3.  pass^2: C(2,2)/3 = 1/3; 0; 0
    assert found["pass@k", 2].estimate.value == pytest.approx((1 + 0 + 2 / 3) / 3)
    assert found["pass^k", 2].estimate.value == pytest.approx((1 / 3) / 3)
    assert [(m.estimate.n, m.items) for m in found.values()] == [(4, 4), (3, 4), (3, 4)]


def test_no_item_with_k_verdicts_makes_the_metric_undefined(four: Lab) -> None:
    said = {item: ["1", LOST] for item in "abcd"}
    [metric] = four.summary(four.protocol(n=2, metrics="[{name: pass@k, k: [2]}]"), said).metrics
    assert (metric.estimate.value, metric.estimate.n, metric.items) == (None, 0, 4)
    assert metric.estimate.why


def test_maj_at_k_votes_on_what_was_read(four: Lab) -> None:
    said = {"a": ["1", "1.0", "0"], "b": ["1", "2", "2"], "c": ["1", "x", "x"], "d": ["0", "2", "3"]}
    [metric] = four.summary(four.protocol(n=3, metrics="[{name: maj@k, k: [3]}]"), said).metrics
    # a: 1 wins two to one. b: 2 wins. c: nothing read is no vote, 1 wins. d: 1 is not among the answers
    assert metric.estimate.value == pytest.approx(2 / 4)


def test_maj_at_k_of_a_component_that_reads_no_answer_says_why(four: Lab) -> None:
    protocol = four.protocol(
        n=1, metrics="[{name: maj@k, k: [1]}]", correct="{use: repetition, role: other, weight: 1}"
    )
    [metric] = four.summary(protocol, {item: ["1"] for item in "abcd"}).metrics
    assert (metric.estimate.value, metric.estimate.why) == (None, "correct reads no answers that could be voted on")


def test_a_trainers_pass_at_n_comes_under_its_own_name(four: Lab) -> None:
    metrics = "[{name: pass@k, k: [2], estimator: unbiased}, {name: pass@k, k: [2], estimator: openrlhf_max}, " \
              "{name: pass@k, k: [2], estimator: skyrl_any}, {name: pass@k, k: [2], estimator: verl_best}]"  # fmt: skip
    # rewards: right and brief 1.5, wrong and brief .5, wrong and long 0
    said = {"a": ["1", "0"], "b": ["0", "0000"], "c": ["0000", "0000"], "d": ["1", "1"]}
    found = {m.estimator: m.estimate.value for m in four.summary(four.protocol(n=2, metrics=metrics), said).metrics}
    assert found["unbiased"] == pytest.approx((1 + 0 + 0 + 1) / 4)
    assert found["openrlhf_max"] == pytest.approx((1.5 + 0.5 + 0 + 1.5) / 4)
    assert found["skyrl_any"] == pytest.approx((1 + 1 + 0 + 1) / 4)
    assert found["verl_best"] == pytest.approx((0.75 + 0 + 0 + 1) / 4, abs=0.02)  # best of two drawn with replacement


def test_alarms_name_what_is_wrong_and_its_share(four: Lab) -> None:
    said = {"a": ["", ""], "b": ["x", "x"], "c": [CUT, CUT], "d": ["1", "1"]}
    found = {alarm.code: alarm for alarm in four.summary(four.protocol(n=2), said).alarms}
    assert {code: (alarm.share, alarm.n) for code, alarm in found.items()} == {
        "EMPTY": (0.25, 8), "TRUNCATED": (0.25, 8), "EXTRACTION": (0.5, 8), "SAME_TRIALS": (1.0, 4),
    }  # fmt: skip
    assert found["EXTRACTION"].statement == "no answer was found in 50.0% of 8 completions (correct)"
    calm = four.summary(four.protocol(name="calm", n=2), {item: ["1", "1 "] for item in "abcd"}, model="other")
    assert calm.alarms == ()


def test_reasoning_that_never_ends_is_wrong_and_alarmed(four: Lab) -> None:
    protocol = four.protocol(more='reasoning: {start: "<t>", end: "</t>"}')
    found = four.summary(protocol, {"a": ["<t>0</t>1"], "b": ["<t>1"], "c": ["1"], "d": ["<t>1</t>0"]})
    assert found.success.estimate.value == 0.5
    assert [(alarm.code, alarm.share) for alarm in found.alarms if alarm.code.startswith("UNT")] == [
        ("UNTERMINATED_REASONING", 0.25)
    ]


def test_a_tampered_reward_is_refused(four: Lab) -> None:
    import polars as pl

    run = four.run(four.protocol(), {item: ["1"] for item in "abcd"})
    [path] = (four.workspace.runs / run).glob("scores/*/*.parquet")
    frame = pl.read_parquet(path)
    better = pl.when(pl.col("component") == "reward").then(2.0).otherwise(pl.col("value"))
    frame.with_columns(value=better).write_parquet(path)
    with pytest.raises(
        api.BadInput, match=r"field reward: 2\.0 is stored, its components give 1\.5; the file was changed"
    ):
        api.summarize(run, workspace=four.workspace)
    frame.filter(pl.col("component") != "brief").write_parquet(path)
    with pytest.raises(api.BadInput, match="scores are not complete"):
        api.summarize(run, workspace=four.workspace)


def test_json_of_a_summary_holds_no_nan(four: Lab) -> None:
    from evalkit.report import to_json

    found = four.summary(four.protocol(), {item: [LOST] for item in "abcd"})
    content = json.loads(to_json(found), parse_constant=lambda word: pytest.fail(word))
    assert content["success"]["estimate"]["value"] is None
    assert content["success"]["bounds"] == {"low": 0.0, "high": 1.0}
