"""What must not move an audit, or must move it in a known way, whatever the tables hold."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalkit.api import audit_reward
from evalkit.audit import Audit, Line
from tests.audit.support import Desk

pytestmark = pytest.mark.slow

ANY_ORDER = ("pearson", "spearman", "kendall_b", "ordering_accuracy")
RANKS = ("spearman", "kendall_b", "gamma", "ordering_accuracy")
LEVELS = {"pearson": ("pooled", "group", "within"), "ordering_accuracy": ("pooled", "within")}
ROWS = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 9), st.integers(1, 5), st.integers(1, 5)), min_size=40, max_size=80
)
"""Prompt, reward and two annotators' labels of each sample."""

properties = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def tables(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows, with a reward and a label that are never constant, neither overall nor within the first prompt."""
    return [*rows, (0, 0, 1, 1), (0, 9, 5, 5), (0, 4, 3, 2), (1, 1, 1, 2), (1, 8, 4, 4)]


def held(desk: Desk, rows: Iterable[tuple[Any, ...]], **spec: Any) -> Audit:
    """Rows: prompt, reward, and labels of ann and bob."""
    numbered = [row if isinstance(row[0], str) else (f"s{i}", *row) for i, row in enumerate(rows)]
    table = desk.table("t.csv", ["sample_id", "item_id", "reward", "ann", "bob"], numbered)
    fields = {"cluster_by": "item_id", "draws": 100, **spec}
    return audit_reward(table, table, desk.spec(**fields), annotators=["ann", "bob"])


def numbers(lines: Iterable[Line]) -> dict[tuple[int, str], float]:
    """The values of lines by place and name, those that are undefined as NaN."""
    values = [(line.name, line.estimate.value) for line in lines]
    return {(i, name): math.nan if value is None else value for i, (name, value) in enumerate(values)}


def same(one: Audit, other: Audit, but: tuple[str, ...] = ()) -> None:
    """The registered number with its interval, and the value of every line outside the sections named."""
    ends = [
        (found.registered.estimate.value, found.registered.estimate.low, found.registered.estimate.high)
        for found in (one, other)
    ]
    assert (ends[0][0] is None) == (ends[1][0] is None)
    if None not in (*ends[0], *ends[1]):
        assert ends[0] == pytest.approx(ends[1], abs=1e-9)
    for name in set(one.sections) - set(but):
        assert numbers(one.sections[name]) == pytest.approx(
            numbers(other.sections[name]), rel=1e-7, abs=1e-9, nan_ok=True
        ), name


def of(statistic: str, level: int) -> dict[str, Any]:
    levels = LEVELS.get(statistic, ("pooled",))
    return {"statistic": statistic, "level": levels[level % len(levels)]}


@properties
@given(
    rows=ROWS, statistic=st.sampled_from(ANY_ORDER), level=st.integers(0, 2), order=st.randoms(use_true_random=False)
)
def test_row_order_names_of_samples_and_of_prompts_change_nothing(
    desk: Desk, rows: list[Any], statistic: str, level: int, order: Any
) -> None:
    rows = tables(rows)
    moved = [(f"x{i}", f"prompt {prompt}", *rest) for i, (prompt, *rest) in enumerate(rows)]
    order.shuffle(moved)
    same(held(desk, rows, **of(statistic, level)), held(desk, moved, **of(statistic, level)))


@properties
@given(rows=ROWS, statistic=st.sampled_from(ANY_ORDER), level=st.integers(0, 2), scale=st.sampled_from([0.5, 3.0, 1e6]))
def test_a_reward_in_another_unit_is_the_same_reward(
    desk: Desk, rows: list[Any], statistic: str, level: int, scale: float
) -> None:
    rows = tables(rows)
    moved = [(prompt, scale * reward - 7, *labels) for prompt, reward, *labels in rows]
    one, other = (held(desk, table, **of(statistic, level)) for table in (rows, moved))
    same(one, other, but=("shape", "calibration", "length"))


@properties
@given(rows=ROWS, statistic=st.sampled_from(RANKS))
def test_ranks_alone_count_for_statistics_of_ranks(desk: Desk, rows: list[Any], statistic: str) -> None:
    rows = tables(rows)
    moved = [(prompt, math.exp(reward / 3), *labels) for prompt, reward, *labels in rows]
    one, other = (held(desk, table, statistic=statistic).registered.estimate for table in (rows, moved))
    assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high))


@properties
@given(rows=ROWS, statistic=st.sampled_from(ANY_ORDER), level=st.integers(0, 2))
def test_labels_turned_upside_down_turn_the_agreement(desk: Desk, rows: list[Any], statistic: str, level: int) -> None:
    rows = tables(rows)
    moved = [(prompt, reward, 6 - a, 6 - b) for prompt, reward, a, b in rows]
    one, other = (held(desk, table, **of(statistic, level)).registered.estimate for table in (rows, moved))
    assert one.value is not None
    assert other.value is not None
    turned = 1 - other.value if statistic == "ordering_accuracy" else -other.value  # ties count half
    assert one.value == pytest.approx(turned)


@properties
@given(rows=ROWS, statistic=st.sampled_from(ANY_ORDER))
def test_samples_copied_within_their_cluster_leave_the_interval_as_it_was(
    desk: Desk, rows: list[Any], statistic: str
) -> None:
    rows = tables(rows)
    one, other = (held(desk, table, statistic=statistic).registered.estimate for table in (rows, [*rows, *rows]))
    assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high), abs=1e-6)


@properties
@given(rows=ROWS, statistic=st.sampled_from(ANY_ORDER))
def test_every_cluster_twice_leaves_the_value_and_narrows_the_interval(
    desk: Desk, rows: list[Any], statistic: str
) -> None:
    rows = tables(rows)
    again = [(prompt + 100, *rest) for prompt, *rest in rows]
    one, other = (held(desk, table, statistic=statistic).registered.estimate for table in (rows, [*rows, *again]))
    assert one.value == pytest.approx(other.value)
    if one.low is not None and one.low > -1 and one.high < 1 and other.low is not None:
        assert other.high - other.low < one.high - one.low


@properties
@given(rows=ROWS, statistic=st.sampled_from(ANY_ORDER), level=st.integers(0, 2))
def test_an_annotator_without_labels_and_a_constant_component_change_nothing(
    desk: Desk, rows: list[Any], statistic: str, level: int
) -> None:
    rows = tables(rows)
    table = desk.table(
        "w.csv", ["sample_id", "item_id", "reward", "ann", "bob", "nobody", "flat"],
        [(f"s{i}", *row, "", 1) for i, row in enumerate(rows)],
    )  # fmt: skip
    fields = {"cluster_by": "item_id", "draws": 100, **of(statistic, level)}
    wide = audit_reward(table, table, desk.spec(**fields, components=["flat"]), annotators=["ann", "bob", "nobody"])
    plain = held(desk, rows, **of(statistic, level))
    assert numbers([plain.registered]) == pytest.approx(numbers([wide.registered]), nan_ok=True)
    alpha = {line.level: line.estimate.value for line in plain.sections["people"] if "alpha" in line.name}
    assert alpha == {line.level: line.estimate.value for line in wide.sections["people"] if "alpha" in line.name}


@properties
@given(
    pairs=st.lists(st.tuples(st.sampled_from("AB?"), st.sampled_from("AB")), min_size=20, max_size=60),
    unparsed=st.sampled_from(["wrong", "exclude"]),
)
def test_answers_that_trade_places_and_names_leave_a_judge_as_good(
    desk: Desk, pairs: list[tuple[str, str]], unparsed: str
) -> None:
    pairs = [*pairs, ("A", "A"), ("B", "B"), ("A", "B")]
    other = {"A": "B", "B": "A", "?": "?"}
    turned = [(other[said], other[label]) for said, label in pairs]
    found = []
    for rows in (pairs, turned):
        table = desk.table("v.csv", ["sample_id", "reward", "label"], [(i, *row) for i, row in enumerate(rows)])
        spec = desk.spec(statistic="accuracy", labels=["A", "B"], unparsed=unparsed)
        found.append(audit_reward(table, table, spec))
    for name in ("unparsed", "labels"):
        values = [sorted(line.estimate.value or 0.0 for line in one.sections[name]) for one in found]
        assert values[0] == pytest.approx(values[1])  # the rule that counts them as A now counts them as B
    ends = [one.registered.estimate for one in found]
    assert np.array([ends[0].value, ends[0].low], float) == pytest.approx(np.array([ends[1].value, ends[1].low], float))
