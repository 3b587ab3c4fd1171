"""`number` against the verdicts that OpenAI recorded for GSM8K: 1,319 questions, four models, 5,276 answers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from evalkit.rewards import Response, build, evaluate

CORRECT = {"6b_finetuning": 286, "6b_verification": 515, "175b_finetuning": 458, "175b_verification": 742}


def rows() -> list[dict[str, Any]]:
    shared = os.environ.get("EVALKIT_SHARED")
    if not shared:
        pytest.skip("EVALKIT_SHARED is not set")
    path = Path(shared) / "data/gsm8k/example_model_solutions.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def test_number_agrees_with_every_recorded_gsm8k_verdict() -> None:
    component = build("number", {"marker": "A:", "target_marker": "A:"}, Path())
    agreed, found = 0, dict.fromkeys(CORRECT, 0)
    for row in rows():
        for model in CORRECT:
            recorded = row[model]
            score = evaluate(component, Response(recorded["solution"], row["ground_truth"], {}, None))
            agreed += (score.value == 1.0) is recorded["is_correct"]
            found[model] += score.value == 1.0
    assert (agreed, found) == (5276, CORRECT)
