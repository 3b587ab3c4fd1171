"""Public judgements that tests recompute published figures from."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

GPT = {"1": 1.0, "2": 2.0, "Tie": 0.0, "garbage": np.nan}


def load(*parts: str) -> Any:
    shared = os.environ.get("EVALKIT_SHARED")
    if not shared:
        pytest.skip("EVALKIT_SHARED is not set")
    return json.loads(Path(shared, "data", *parts).read_text(encoding="utf-8"))


@dataclass(frozen=True)
class PandaLM:
    """999 pairs: 0 tie, 1 the first is better, 2 the second; NaN where the judge could not be read."""

    humans: np.ndarray
    gpt: np.ndarray
    pandalm: np.ndarray
    instruction: list[str]


@cache
def pandalm() -> PandaLM:
    rows = load("pandalm", "testset-v1.json")
    gpt, judge = load("pandalm", "gpt-3.5-turbo-testset-v1.json"), load("pandalm", "pandalm-7b-testset-v1.json")
    assert [r["idx"] for r in rows] == [r["idx"] for r in gpt] == [r["idx"] for r in judge]
    return PandaLM(
        humans=np.array([[row[f"annotator{j}"] for j in (1, 2, 3)] for row in rows], dtype=float),
        gpt=np.array([GPT[row["gpt_result"]] for row in gpt]),
        pandalm=np.array([float(row["pandalm_result"]) for row in judge]),
        instruction=[row["instruction"] for row in rows],
    )
