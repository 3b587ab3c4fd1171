"""The composite, the side metrics and the split of reasoning."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.errors import BadInput
from evalkit.rewards import SideMetrics, Split, composite, side_metrics, split_reasoning

# composite


def test_composite_is_the_weighted_sum_and_is_not_normalised() -> None:
    assert composite({"a": 1.0, "b": 0.5}, {"a": Decimal("0.8"), "b": 2}) == 1.8


def test_composite_does_not_depend_on_the_order() -> None:
    weights = {"a": 0.1, "b": 0.2, "c": 0.3, "d": -1e16, "e": 1e16}
    values = dict.fromkeys(weights, 1.0)
    sums = {composite(values, dict(order)) for order in itertools.permutations(weights.items())}
    assert sums == {0.6}


def test_composite_has_no_value_once_a_weighted_component_has_none() -> None:
    assert composite({"a": 1.0, "b": None}, {"a": 1, "b": Decimal("0.1")}) is None
    assert composite({"a": 1.0, "b": None}, {"a": 1, "b": 0}) == 1.0


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e308])
def test_composite_that_is_not_finite_is_none(value: float) -> None:
    assert composite({"a": value, "b": value}, {"a": 10, "b": 1.0}) is None


def test_composite_of_nothing_is_no_verdict_and_not_zero() -> None:
    assert composite({"a": 1.0}, {"a": 0}) is None


def test_composite_misses_a_component_aloud() -> None:
    with pytest.raises(BadInput, match="component 'b' has a weight and no score"):
        composite({"a": 1.0}, {"a": 1, "b": 1})


# side metrics


def test_side_metrics_of_an_empty_completion() -> None:
    assert side_metrics("") == SideMetrics(0, 0, 0.0, None, 0, 0, 0, 0, 0, True)
    assert side_metrics(" \n").empty


def test_side_metrics_count_layout() -> None:
    text = "# T\n\n- a **b** c\n* d\n1. e\n\n```py\nx\n```\n\n| a | b |\n|---|:-:|\n| 1 | 2 |\n\n---\n"
    found = side_metrics(text)
    assert (found.headings, found.bullets, found.bold, found.code_fences, found.tables) == (1, 3, 1, 2, 1)
    assert (found.characters, found.empty) == (len(text), False)


def test_side_metrics_see_repetition_in_both_ways() -> None:
    same, other = side_metrics("a b c d " * 100), side_metrics(" ".join(map(str, range(400))))
    assert same.repeated_ngram_share == pytest.approx(1 - 4 / 397)
    assert other.repeated_ngram_share == 0.0
    assert same.compression_ratio is not None
    assert other.compression_ratio is not None
    assert same.compression_ratio > 10 > other.compression_ratio > 1


@pytest.mark.parametrize(
    "text",
    [
        " " * 300_000 + "x|",
        "|" + "-" * 300_000 + "x",
        "|-" * 150_000 + " x",
        "|-" + " " * 300_000 + "x",
        "**a" * 100_000,
        "- " * 150_000,
        "~~~" * 100_000,
        "1" * 300_000 + "|",
    ],
)
def test_side_metrics_take_linear_time_on_any_text(text: str) -> None:
    before = time.process_time()
    side_metrics(text)
    assert time.process_time() - before < 1.0


@given(st.text(st.characters()))
def test_side_metrics_take_every_text(text: str) -> None:
    assert 0.0 <= side_metrics(text).repeated_ngram_share < 1.0


# reasoning


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", Split(None, "5", False)),
        ("<t>a</t>5", Split("a", "5", False)),
        ("a</t>5", Split("a", "5", False)),
        ("<t>a</t>b</t> 5", Split("a</t>b", " 5", False)),
        ("<t>a", Split("a", "", True)),
        ("<t>a</t>5<t>b", Split("a</t>5<t>b", "", True)),
        ("x<t>a</t>", Split("a", "", False)),
        ("", Split(None, "", False)),
    ],
)
def test_reasoning_ends_at_the_last_end_marker(text: str, expected: Split) -> None:
    assert split_reasoning(text, "<t>", "</t>") == expected


def test_reasoning_without_markers_in_the_protocol_is_all_answer() -> None:
    assert split_reasoning("<t>a</t>5", None, None) == Split(None, "<t>a</t>5", False)
    assert split_reasoning("a</t>5", None, "</t>") == Split("a", "5", False)


def test_an_empty_marker_is_refused() -> None:
    with pytest.raises(BadInput, match="empty text marks nothing"):
        split_reasoning("a", "", "</t>")


def test_the_room_is_light_to_import_and_its_names_do_not_depend_on_import_order() -> None:
    code = (
        "import sys, evalkit.rewards as r, evalkit.rewards.reward\n"
        "assert callable(r.composite) and callable(r.evaluate)\n"
        "from evalkit.rewards import *\n"
        "import evalkit.rewards.worker\n"
        "heavy = {'pydantic', 'jsonschema', 'numpy', 'polars', 'jinja2'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
