"""The registered number's interval, where the spec asks for a bootstrap instead of influence functions.

1. Whole clusters are drawn, and the statistic is computed again as the spec says, groups and all. A cluster that is
   drawn twice is two clusters, and its groups are two groups.
2. With fewer than 12 clusters no bootstrap interval is given: it would cover too little.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalkit.audit.agreement import Line, agreement, generator, group_column, groups_of
from evalkit.audit.evidence import Evidence
from evalkit.audit.findings import Finding
from evalkit.audit.spec import AuditSpec
from evalkit.errors import BadInput
from evalkit.stats import Estimate
from evalkit.stats.bootstrap import Rows, cluster_resamples, from_draws
from evalkit.stats.clusters import clusters_of, nested
from evalkit.stats.correlation import FEW_CLUSTERS
from evalkit.stats.jackknife import without_each_block

LEAST_DRAWS = 100


def decisive(evidence: Evidence, spec: AuditSpec) -> Line:
    """The registered statistic of these samples, with the kind of interval that the spec names.

    Raises:
        BadInput: a bootstrap, and clusters that part a group.
    """
    line = agreement(evidence, spec, spec.statistic, spec.level)
    found = line.estimate
    if spec.interval == "influence" or found.value is None:
        return line
    if found.n_clusters < FEW_CLUSTERS:
        why = f"{found.n_clusters} clusters; a bootstrap of fewer than {FEW_CLUSTERS} covers too little"
        return replace(line, estimate=Estimate(found.value, None, None, found.n, found.n_clusters, line.name, why))
    groups = clusters_of(evidence.clusters, evidence.clusters.size)
    column, held = _held_groups(evidence, spec)
    cheap = spec.model_copy(update={"draws": LEAST_DRAWS})  # of permutations that a resample has no use for

    def statistic(rows: Rows) -> Any:
        part = evidence.only(rows)
        if held is not None:
            named = _copies(rows, groups.codes) * (held.max() + 1) + held[rows]
            part = replace(part, columns={**part.columns, column: named.astype(object)})
        value = agreement(part, cheap, spec.statistic, spec.level).estimate.value
        return math.nan if value is None else value

    rng = generator(spec, "interval")
    drawn = np.array([statistic(rows) for rows in cluster_resamples(groups, spec.draws, rng)])
    without = without_each_block(statistic, groups, rng) if spec.interval == "bca" else None
    estimate = from_draws(
        found.value, drawn, n=found.n, n_clusters=groups.count, method=line.name, level=spec.confidence, without=without
    )
    return replace(line, estimate=estimate)


def few_clusters(registered: Line) -> list[Finding]:
    """A finding where the registered number rests on few clusters."""
    found = registered.estimate
    if found.value is None or found.n_clusters >= FEW_CLUSTERS:
        return []
    return [
        Finding(
            "CLUSTER.FEW",
            "warning",
            f"{found.n} samples are only {found.n_clusters} clusters; below {FEW_CLUSTERS} an interval covers too "
            "little",
            "label samples of more clusters; more of the same ones help little",
            found,
        )
    ]


def _held_groups(evidence: Evidence, spec: AuditSpec) -> tuple[str, NDArray[np.intp] | None]:
    """The column of the level's groups, and their codes where every group lies in one cluster."""
    column = group_column(spec)
    if column is None:
        return "", None
    n = evidence.reward.size
    groups = clusters_of(groups_of(evidence, column), n)
    if nested(groups, clusters_of(evidence.clusters, n)):
        return column, groups.codes
    if spec.level == "system":  # systems answer the same items, and stay who they are in every resample
        return column, None
    raise BadInput(
        f"spec, field interval: {spec.interval} draws clusters, and clusters {spec.cluster_by} part groups of "
        f"{column}; freeze interval: influence, or cluster_by a column that keeps groups whole"
    )


def _copies(rows: Rows, codes: NDArray[np.intp]) -> NDArray[np.intp]:
    """Which drawn cluster each row came with: rows of one draw ascend, and share their cluster."""
    begins = np.ones(rows.size, dtype=np.intp)
    begins[1:] = (np.diff(rows) <= 0) | (np.diff(codes[rows]) != 0)
    return np.cumsum(begins) - 1
