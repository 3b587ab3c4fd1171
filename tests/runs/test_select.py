"""Samples to read, and the sheet to label: chosen the same each time, blind, and harmless to screen and spreadsheet."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from evalkit import api
from evalkit.report import samples_text
from evalkit.runs import Selected, label_sheet
from tests.runs.support import Lab, lab

SAID = {"a": ["1"], "b": ["0"], "c": ["0000"], "d": ["001"], "e": ["1"], "f": [(None, "http_500")]}


@pytest.fixture
def six(tmp_path: Path) -> Lab:
    return lab(tmp_path / "ws", "uvwxyz")


def chosen(lab: Lab, said: dict[str, list[object]], **counts: int) -> list[Selected]:
    return api.samples(lab.run(lab.protocol(), said, "secretmodel"), workspace=lab.workspace, **counts)  # type: ignore[arg-type]


def test_top_and_bottom_are_by_reward_and_no_sample_comes_twice(six: Lab) -> None:
    found = chosen(six, SAID, top=2, bottom=2, random=9)
    picks = {pick: [row.item_id for row in found if row.pick == pick] for pick in ("top", "bottom", "random")}
    assert set(picks["top"]) == {"a", "e"}
    assert picks["bottom"] == ["c", "b"]
    assert set(picks["random"]) == {"d", "f"}, "a sample without a reward comes by chance only"
    assert len({row.sample_id for row in found}) == 6


def test_the_same_run_and_counts_give_the_same_samples(six: Lab) -> None:
    assert chosen(six, SAID, top=1, bottom=1, random=2) == chosen(six, SAID, top=1, bottom=1, random=2)


def test_one_sample_is_top_and_not_bottom_too(tmp_path: Path) -> None:
    one = lab(tmp_path / "ws", "x")
    assert [row.pick for row in chosen(one, {"a": ["1"]}, top=3, bottom=3, random=3)] == ["top"]


def test_a_sheet_says_nothing_of_model_score_or_pick(six: Lab) -> None:
    found = chosen(six, SAID, top=2, bottom=2, random=2)
    sheet = label_sheet(found)
    rows = list(csv.DictReader(io.StringIO(sheet)))
    assert list(rows[0]) == ["sample_id", "item", "completion", "annotator", "label", "comment"]
    assert len(rows) == 6
    for word in ("secretmodel", "top", "bottom", "random", "reward", "success", "1.5", "correct"):
        assert word not in sheet
    assert [row["sample_id"] for row in rows] != [row.sample_id for row in found]
    assert {row["label"] + row["annotator"] + row["comment"] for row in rows} == {""}


@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1+1", "\n=1"])
def test_a_cell_that_a_spreadsheet_would_run_is_guarded(formula: str, tmp_path: Path) -> None:
    one = lab(tmp_path / "ws", "x")
    [row] = csv.DictReader(io.StringIO(label_sheet(chosen(one, {"a": [formula]}, top=1)), newline=""))
    assert row["completion"] == "'" + formula


def test_escape_sequences_and_bidi_marks_are_spelled_out_on_the_terminal(tmp_path: Path) -> None:
    one = lab(tmp_path / "ws", "x")
    text = samples_text(chosen(one, {"a": ["\x1b[2J\u202e1\x07\x9b31m\u2028\r1"]}, top=1))
    assert "  | \\x1b[2J\\u202e1\\x07\\x9b31m\\u2028\\x0d1" in text
    assert not set(text) & set("\x1b\u202e\x07\x9b\u2028\r")
