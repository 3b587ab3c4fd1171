"""A/A of kept runs: what counts as the same model twice, and what a comparison then says of noise."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from evalkit import api
from evalkit.report import comparison_text
from evalkit.runs import Comparison
from tests.runs.support import Lab, lab

MODEL = "ek1:sha256:" + "a" * 64
FIRST = {"a": ["1", "0"], "b": ["0", "0"], "c": ["1", "1"], "d": ["0", "1"]}
SECOND = {"a": ["1", "1"], "b": ["0", "0"], "c": ["0", "1"], "d": ["1", "1"]}
"""Flips: a1 up, c0 down, d0 up."""


@pytest.fixture
def four(tmp_path: Path) -> Lab:
    """Items a, b in one cluster, the others in one each."""
    return lab(tmp_path / "ws", "xxyz")


def run(lab: Lab, protocol: str, said: dict[str, list[str]], name: str, repeat: int, model: str = MODEL) -> str:
    """A recording of `model` as the run of one repeat."""
    path = lab.workspace.root / f"{name}.jsonl"
    header = {"evalkit": {"name": "m", "model_digest": model, "engine": "vllm", "engine_version": "1"}}
    rows = [
        {"item_id": item, "trial": trial, "completion": text, "finish_reason": "stop"}
        for item, texts in said.items()
        for trial, text in enumerate(texts)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in [header, *rows]), encoding="utf-8")
    return api.run(protocol, "s/dev", f"replay:{path}", repeat=repeat, workspace=lab.workspace).run.run_id


def compared(lab: Lab, left: str, right: str) -> Comparison:
    return api.compare(left, right, workspace=lab.workspace)


def test_two_repeats_of_one_model_are_told_apart_by_noise_alone(four: Lab) -> None:
    protocol = four.protocol(n=2)
    found = compared(four, run(four, protocol, FIRST, "one", 0), run(four, protocol, SECOND, "two", 1))
    again = found.stability
    assert again is not None
    assert again.retest is not None
    assert (again.repeats, again.greedy, again.trials, again.dropped) == ((0, 1), False, 2, 0)
    assert (again.retest.flip_rate.value, again.retest.flip_rate.n, again.retest.items) == (3 / 8, 8, 4)
    # cluster sums of second minus first: x +1, y −1, z +1
    assert again.retest.run_sd == pytest.approx(math.sqrt(3 / 2) / 8)
    assert again.retest.difference.value == pytest.approx(1 / 8)
    assert (again.same_texts, again.texts) == (5, 8)
    text = comparison_text(found)
    assert "A/A: repeats 0 and 1 of one model" in text
    assert "temperature above 0: repeats draw with other seeds" in text
    assert "deviation of one run's mean: .1531 = " in text
    assert "identical texts: 5 of 8" in text


def test_other_models_protocols_or_the_same_repeat_are_no_repeats(four: Lab) -> None:
    protocol = four.protocol(n=2)
    left = run(four, protocol, FIRST, "one", 0)
    other = run(four, protocol, SECOND, "other", 1, model="ek1:sha256:" + "b" * 64)
    assert compared(four, left, other).stability is None
    assert compared(four, left, left).stability is None
    changed = four.protocol("q", n=2, more="missing: worst")
    repeated = run(four, changed, SECOND, "two", 1)
    assert api.compare(left, repeated, force=True, workspace=four.workspace).stability is None


def test_one_recording_read_twice_is_the_same_by_construction(four: Lab) -> None:
    protocol = four.protocol(n=2)
    left, right = (run(four, protocol, FIRST, "one", repeat) for repeat in (0, 1))
    found = compared(four, left, right)
    assert found.stability is not None
    assert found.stability.retest is None
    assert found.stability.why.endswith("answers every repeat alike; record the model twice to know its noise")
    assert "cannot tell: both repeats read replay:" in comparison_text(found)


def test_a_sample_without_a_verdict_is_left_out_and_counted(four: Lab) -> None:
    protocol = four.protocol(n=2, more="truncation: no_verdict")
    left = run(four, protocol, FIRST, "one", 0)
    path = four.workspace.root / "cut.jsonl"
    run(four, protocol, SECOND, "two", 1)
    text = (four.workspace.root / "two.jsonl").read_text()
    path.write_text(
        text.replace('"completion": "0", "finish_reason": "stop"', '"completion": "0", "finish_reason": "length"')
    )
    cut = api.run(protocol, "s/dev", f"replay:{path}", repeat=2, workspace=four.workspace).run.run_id
    again = compared(four, left, cut).stability
    assert again is not None
    assert again.retest is not None
    assert (again.dropped, again.retest.flip_rate.n, again.texts) == (3, 5, 8)
    assert "3 samples without a verdict in one of the repeats are left out" in comparison_text(
        compared(four, left, cut)
    )
