"""Whatever a table holds, an audit ends in a verdict or in one line; never in a traceback or a warning of a library."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pydantic import ValidationError

from evalkit.api import audit_reward
from evalkit.audit import AuditSpec, audit_json, evidence_frame
from evalkit.errors import EvalkitError
from evalkit.report import audit_text, to_json, visible
from tests.audit.support import Desk

pytestmark = pytest.mark.slow

TABLES = 2000
NAMES = (
    "sample_id", "item_id", "cluster_id", "policy", "reward", "label", "ann", "bob", "length", "text", "order", "repeat",
    "component", "value", "annotator_id", "dimension", "status", "outcome", "step", "domain", "extra", "Reward", " label",
)  # fmt: skip
BASE: dict[str, Any] = {
    "name": "audit", "version": 1, "reward": "reward", "label": "label",
    "thresholds": {"usable": "0.3", "trustworthy": "0.6"},
}  # fmt: skip
TIDY = ("sample_id", "item_id", "cluster_id", "policy", "domain", "reward", "label", "ann", "bob", "extra", "length")
TIDIED: dict[str, Callable[[int], Any]] = {
    "sample_id": lambda i: f"s{i}", "item_id": lambda i: i // 3, "cluster_id": lambda i: i // 6,
    "policy": lambda i: i % 3, "domain": lambda i: i % 2, "length": lambda i: 10 + i * i % 7,
}  # fmt: skip
NUMBERS = (0, 1, 0.5, 2, 3, 4, 5, -1, 1e9, 1e-300, 7.25)
WORDS = ("A", "B", "tie")
ODD: tuple[Any, ...] = (
    None, "", " ", "nan", "NaN", "inf", "-inf", "1e999", "true", "0x1F", "1_000", "3,5", "½", "\u202e1", "\x1b[31m", "a" * 5000,
    "=1+1", "None", "[]", "１", 2**70, 10**400, 1e200, -1e150, "1e38", float("nan"), float("inf"), True,
)  # fmt: skip
SPECS: dict[str, tuple[Any, ...]] = {
    "statistic": (
        "pearson", "spearman", "kendall_b", "kendall_a", "kendall_c", "gamma", "somers_d", "ordering_accuracy", "acc_eq",
        "auc", "accuracy", "kappa", "macro_f1",
    ),
    "level": ("pooled", "pooled", "group", "within", "system"),
    "cluster_by": ("none", "item_id", "cluster_id", "domain"),
    "missing": ("exclude", "worst"),
    "annotators": ("mean", "median", "majority"),
    "unparsed": ("wrong", "exclude", "tie"),
    "labels": ((), ("A", "B"), ("A", "B", "tie")),
    "repeats": (None, None, "mean", "majority"),
    "scales": ({}, {"reward": {"low": 0, "high": 5}}, {"label": {"low": 0, "high": 5, "higher_is_better": False}}),
    "strata": ((), (), ("domain",)),
    "controls": ((), (), ("length",)),
    "components": ((), (), ("extra",)),
    "total": ({}, {"extra": 1}, {"extra": 1, "length": -2}),
    "component_labels": ({}, {"extra": "ann"}),
    "against": ("", "", "extra"),
    "interval": ("influence", "influence", "percentile", "bca"),
    "undefined": ("exclude", "zero"),
}  # fmt: skip


def spec_of(rng: random.Random) -> dict[str, Any]:
    """Fields that make a spec."""
    while True:
        fields = {name: rng.choice(values) for name, values in SPECS.items() if rng.random() < 0.3}
        fields = {"statistic": "spearman", "level": "pooled", "cluster_by": "none", "draws": 100, **fields}
        with suppress(ValidationError):
            AuditSpec.model_validate_json(json.dumps({**BASE, **fields}), context={"lock": True})
            return fields


def cell(rng: random.Random, name: str, odd: float, words: bool) -> Any:
    if rng.random() < odd:
        return rng.choice(ODD)
    if name in ("sample_id", "item_id", "cluster_id", "policy", "domain", "step", "repeat"):
        return rng.randrange(12)
    return rng.choice(WORDS if words or rng.random() < 0.02 else NUMBERS)


def table(rng: random.Random, folder: Path, name: str, words: bool) -> Path:
    """A table of up to 40 rows, tidy or not, in one of the formats."""
    tidy = rng.random() < 0.8
    names = [*TIDY] if tidy else ["sample_id", "reward", "label"][: rng.choice((3, 3, 2, 1))]
    names += rng.sample(NAMES, rng.randrange(1 if tidy else 6))
    odd = rng.choice((0.0, 0.0, 0.02, 0.3))
    rows = [
        {n: (TIDIED[n](i) if tidy and n in TIDIED else cell(rng, n, odd, words)) for n in names}
        for i in range(rng.choice((0, 1, 2, 13, 40, 40, 40, 40)))
    ]
    form = rng.choice(("csv", "csv", "csv", "jsonl", "jsonl", "parquet", "parquet", "broken"))
    path = folder / f"{name}.{'csv' if form == 'broken' else form}"
    if form == "parquet":
        columns = {n: [None if row[n] is None else str(row[n]) for row in rows] for n in dict.fromkeys(names)}
        pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String)).write_parquet(path)
    elif form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        lines = [",".join(names), *(",".join("" if row[n] is None else f'"{row[n]}"' for n in names) for row in rows)]
        data = "\n".join(lines).encode()
        path.write_bytes(data if form == "csv" else mangled(rng, data))
    return path


def mangled(rng: random.Random, data: bytes) -> bytes:
    """Bytes cut, doubled or replaced."""
    i, j = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return rng.choice((data[:i], data[i:j], data[:j] + data[i:], data[:i] + bytes([rng.randrange(256)]) + data[j:]))


@pytest.mark.parametrize("part", range(10))
def test_two_thousand_odd_tables_give_verdicts_or_one_line(desk: Desk, part: int) -> None:
    said = 0
    for number in range(part * TABLES // 10, (part + 1) * TABLES // 10):
        rng = random.Random(number)
        fields = spec_of(rng)
        spec = desk.spec(frozen=False, **fields)
        words = fields.get("statistic") in ("accuracy", "kappa", "macro_f1")
        scores = table(rng, desk.root, "scores", words)
        labels = scores if rng.random() < 0.4 else table(rng, desk.root, "labels", words)
        annotators = rng.choice(((), (), ("ann",), ("ann", "bob")))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                result = audit_reward(scores, labels, spec, annotators=annotators)
                text = visible(audit_text(result, details=True))
                evidence_frame(result)
                json.loads(to_json(audit_json(result)))
            except EvalkitError as error:
                assert "\n" not in str(error), number
                continue
            except BaseException as error:
                raise AssertionError(f"table {number}: {error!r}") from error
        said += 1
        assert "\x1b" not in text, number
    assert said >= 40, "nearly every table was refused, so little was tried"
