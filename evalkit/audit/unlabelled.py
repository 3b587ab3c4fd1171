"""Scored samples that nobody labelled: they say nothing of agreement, and sharpen figures on the human scale."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalkit.audit.inputs import OK, Labels, Scores
from evalkit.audit.spec import NO_CLUSTERS, AuditSpec


@dataclass(frozen=True, slots=True)
class Unlabelled:
    """Scored samples without any label. Arrays have a row per sample that can be used."""

    reward: NDArray[Any]
    """As in `Evidence`: numbers, turned where less is better, or verdicts."""
    clusters: NDArray[np.object_]
    systems: NDArray[np.object_] | None
    """By `system_by`; None where no file has that column."""
    left_out: dict[str, int]
    """Samples without a label that cannot be used, by cause."""


def unlabelled_of(scores: Scores, labels: Labels, spec: AuditSpec) -> Unlabelled:
    """The samples that no annotator rated, and that have a score, a cluster, and a system where a file has systems.

    A sample whose annotators are tied has been labelled, and is none of them.

    Args:
        scores: with one value a sample.
        labels: which may hold rows that are still blank.
        spec: names reward, clusters and systems.
    """
    row_of = {key: i for i, key in enumerate(labels.sample_ids)}
    rated = {key for key, i in row_of.items() if any(value is not None for value in labels.ratings[i])}
    with_systems = any(spec.system_by in table.about for table in (scores, labels))
    scale = None if spec.categorical else spec.scales.get(spec.reward)
    values, statuses = scores.values[spec.reward], scores.statuses[spec.reward]
    kept: list[tuple[Any, str, str]] = []
    left_out: Counter[str] = Counter()

    def about(name: str, j: int, key: str) -> str:
        for table, i in ((scores, j), (labels, row_of.get(key))):
            cell = table.about[name][i] if name in table.about and i is not None else None
            if cell is not None and str(cell).strip():
                return str(cell)
        return ""

    for j, key in enumerate(scores.sample_ids):
        if key in rated:
            continue
        cluster = key if spec.cluster_by == NO_CLUSTERS else about(spec.cluster_by, j, key)
        system = about(spec.system_by, j, key) if with_systems else ""
        if statuses[j] != OK:
            left_out[statuses[j]] += 1
        elif scale is not None and not float(scale.low) <= values[j] <= float(scale.high):
            left_out["out of scale"] += 1
        elif not cluster:
            left_out[f"no {spec.cluster_by}"] += 1
        elif with_systems and not system:
            left_out[f"no {spec.system_by}"] += 1
        else:
            kept.append((values[j], cluster, system))
    reward = np.empty(len(kept), dtype=object if spec.categorical else np.float64)
    reward[:] = [value for value, _, _ in kept]
    if scale is not None and not scale.higher_is_better:
        np.negative(reward, out=reward)
    clusters, systems = (np.array([row[k] for row in kept], dtype=object) for k in (1, 2))
    return Unlabelled(reward, clusters, systems if with_systems else None, dict(left_out))
