"""Where an audit lies: `.evalkit/audits/DIGEST/`, with audit.json for programs and evidence.parquet per sample.

The address covers the spec and every input byte, so the same question about the same data has one place.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from evalkit.audit.audit import Audit
from evalkit.audit.plan import AUDIT_FORMAT, measure
from evalkit.canonical import digest, short
from evalkit.files import disk
from evalkit.protocol.lock import content_of


def audit_digest(result: Audit) -> str:
    """The audit's address."""
    return digest("audit-result", {"spec": result.lock.digest, "frozen": result.frozen, "inputs": result.inputs})


def audit_json(result: Audit) -> dict[str, Any]:
    """All of an audit but the rows of evidence."""
    return {
        "format": AUDIT_FORMAT,
        "digest": audit_digest(result),
        "spec": content_of(result.spec),
        "spec_digest": result.lock.digest,
        "frozen": result.frozen,
        "inputs": result.inputs,
        "verdict": result.verdict,
        "ledger": result.ledger,
        "coverage": result.ledger.coverage,
        "registered": result.registered,
        "worst_cases": result.worst_cases,
        "sections": result.sections,
        "findings": result.findings,
        "reading": result.reading,
        "measured": measure(result.evidence, result.spec, result.registered, result.sections.get("against", [])),
    }


def evidence_frame(result: Audit) -> pl.DataFrame:
    """A row per eligible sample: reward, label, status, cluster, length, and what the files say of it; no texts."""
    found = result.evidence
    text = found.reward.dtype == object
    columns: dict[str, Any] = {
        "sample_id": found.sample_ids,
        "cluster_id": found.clusters,
        "status": found.status,
        "reward": _texts(found.reward) if text else _numbers(found.reward),
        "label": _texts(found.human) if text else _numbers(found.human),
    }
    kinds: dict[str, Any] = dict.fromkeys(("sample_id", "cluster_id", "status"), pl.String)
    kinds |= dict.fromkeys(("reward", "label"), pl.String if text else pl.Float64)
    if found.lengths is not None:
        columns["length"], kinds["length"] = _numbers(found.lengths), pl.Float64
    for name, values in found.columns.items():
        if name not in (*columns, "text"):
            columns[name], kinds[name] = _texts(values), pl.String
    for name, numbers in found.components.items():
        columns[f"component.{name}"] = _texts(numbers) if text else _numbers(numbers)
        kinds[f"component.{name}"] = pl.String if text else pl.Float64
    for name, numbers in found.dimensions.items():
        columns[f"label.{name}"], kinds[f"label.{name}"] = _numbers(numbers), pl.Float64
    for name, said in found.by_order.items():
        columns[f"order.{name}"] = _texts(said) if text else _numbers(said)
        kinds[f"order.{name}"] = pl.String if text else pl.Float64
    if found.repeats is not None:
        for k, numbers in enumerate(found.repeats.T, 1):
            columns[f"repeat.{k}"], kinds[f"repeat.{k}"] = _numbers(numbers), pl.Float64
    return pl.DataFrame({name: list(values) for name, values in columns.items()}, schema=kinds)


def keep(result: Audit, audits: Path, text: bytes) -> Path:
    """Write an audit whole; returns its folder.

    Args:
        result: the audit.
        audits: `.evalkit/audits` of the workspace.
        text: audit.json.

    Raises:
        DiskRefused: the disk said no.
    """
    from evalkit.files import write_whole

    folder = audits / short(audit_digest(result))
    with disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        half = folder / "evidence.parquet.part"
        evidence_frame(result).write_parquet(half)
        half.replace(folder / "evidence.parquet")
    write_whole(folder / "audit.json", text)
    return folder


def _texts(values: np.ndarray) -> list[str | None]:
    return [None if value is None else str(value).removeprefix("\x00") for value in values]


def _numbers(values: np.ndarray) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
