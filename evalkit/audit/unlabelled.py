"""Scored samples that nobody labelled: they say nothing of agreement, and sharpen a mean on the human scale.

Only samples that were not asked about: absent from the labels, or there with every cell empty. A sample on which
annotators are tied, or whose label could not be read, was asked about and is no sample left out by chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalkit.audit.inputs import OK, Labels, Scores
from evalkit.audit.spec import NO_CLUSTERS, AuditSpec

ALL = "all samples"
"""The one system where no file names systems."""


@dataclass(frozen=True, slots=True)
class Unlabelled:
    """Samples with a reward, a cluster and a system, and without a label. Arrays have a row per sample."""

    reward: NDArray[Any]
    """Numbers, or verdicts as text; turned where less is better, as `Evidence.reward`."""
    systems: NDArray[np.object_]
    """`spec.system_by` as text; `all samples` where no file has that column."""
    clusters: NDArray[np.object_]
    left_out: int
    """Scored samples without label whose cluster or system no file names."""


def unlabelled_of(scores: Scores, labels: Labels, spec: AuditSpec) -> Unlabelled:
    """The scored samples of a join that were not asked about, with a reward on its declared scale."""
    row_of = {key: i for i, key in enumerate(labels.sample_ids)}
    unparsed = set(labels.unparsed)
    scale = None if spec.categorical else spec.scales.get(spec.reward)
    by_system = spec.system_by in scores.about or spec.system_by in labels.about
    rewards, systems, clusters, left_out = [], [], [], 0
    for j, key in enumerate(scores.sample_ids):
        i = row_of.get(key)
        asked = i is not None and (labels.rows[i] in unparsed or any(cell is not None for cell in labels.ratings[i]))
        value = scores.values[spec.reward][j]
        if asked or value is None or scores.statuses[spec.reward][j] != OK:
            continue
        if scale is not None and not float(scale.low) <= value <= float(scale.high):
            continue
        system = _cell(spec.system_by, scores, labels, j, i) if by_system else ALL
        cluster = key if spec.cluster_by == NO_CLUSTERS else _cell(spec.cluster_by, scores, labels, j, i)
        if system is None or cluster is None:
            left_out += 1
            continue
        rewards.append(-value if scale is not None and not scale.higher_is_better else value)
        systems.append(system)
        clusters.append(cluster)
    return Unlabelled(
        np.array(rewards, dtype=object if spec.categorical else np.float64),
        np.array(systems, dtype=object),
        np.array(clusters, dtype=object),
        left_out,
    )


def _cell(name: str, scores: Scores, labels: Labels, j: int, i: int | None) -> str | None:
    """A column of either file at this sample, as text; None where it has none."""
    for about, row in ((scores.about.get(name), j), (labels.about.get(name), i)):
        if about is not None and row is not None and about[row] is not None and str(about[row]).strip():
            return str(about[row])
    return None
