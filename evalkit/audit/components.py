"""The components of a reward: what each says of the labels, of the others, and of the answers to one prompt.

1. A component of `total` is held against the overall label in the direction of its weight, and against its own
   dimension as it is.
2. What a component owns, cancels or leaves out is asked of the declared sum (`total.py`).
3. Findings on a component's direction hold at 1 − alpha/m for m components; lines show 1 − alpha.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import numpy as np

from evalkit.audit.agreement import Line, agreement, groups_of
from evalkit.audit.evidence import Evidence
from evalkit.audit.findings import MOST_EVIDENCE, Finding, in_figures, in_percent
from evalkit.audit.spec import AuditSpec
from evalkit.audit.total import Total, declared_total, direction, total_lines
from evalkit.stats import (
    Estimate,
    Saturation,
    cluster_mean,
    conflict_matrix,
    saturation,
    sign_consistency,
    undefined,
)
from evalkit.stats.arrays import FloatArray

SATURATED = 0.9
"""Share of values that are one and the same end of the range, from which a component tells few answers apart."""
CHANCE = {"auc": 0.5, "ordering_accuracy": 0.5}
"""Agreement of a component that knows nothing; of a correlation 0."""


def components(evidence: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    """Lines and findings on the components that the spec names; nothing where it names none."""
    names = list(dict.fromkeys([*spec.total, *spec.components]))
    if not names:
        return [], []
    lines, findings = [], []
    agreements: dict[str, Estimate] = {}
    for name in names:
        for part in (_with_overall, _with_own):
            found_lines, found = part(name, evidence, spec)
            lines += found_lines
            findings += found
            if part is _with_overall:
                agreements[name] = found_lines[0].estimate
    if spec.total:
        total = declared_total(evidence, spec)
        found_lines, found = total_lines(evidence, total, agreements, spec)
        lines += found_lines + _opposed(total, spec)
        findings += found
    for name in names:
        found_lines, found = _saturated(name, evidence, spec)
        lines += found_lines
        findings += found
    return lines, findings


def _with_overall(name: str, evidence: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    """The registered statistic of a component, turned as the total turns it."""
    sign = direction(name, spec)
    values = sign * evidence.components[name]
    rules = f"{int(np.count_nonzero(~np.isfinite(values)))} without a value"
    if sign < 0:
        rules += "; turned, for its weight is negative"
    line = _held(values, evidence, spec, spec.statistic, spec.level)
    line = replace(line, name=f"{name}: {line.name}", rules=rules)
    if name not in spec.total or name in spec.component_labels:
        return [line], []
    return [line], _against(name, values, evidence, spec, spec.label, line.estimate)


def _with_own(name: str, evidence: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    """The same against the dimension that the component is meant for."""
    dimension = spec.component_labels.get(name)
    if dimension is None:
        return [], []
    labels = evidence.dimensions[dimension]
    known = np.isfinite(labels)
    held = replace(evidence, human=labels).only(known)
    if spec.statistic == "auc" and not np.isin(labels[known], (0.0, 1.0)).all():
        spec = spec.model_copy(update={"statistic": "spearman"})
    values = held.components[name]
    line = _held(values, held, spec, spec.statistic, spec.level)
    rules = f"{labels.size - int(np.count_nonzero(np.isfinite(values)))} without a value or label"
    line = replace(line, name=f"{name}: {line.name} with {dimension}", rules=rules)
    return [line], _against(name, values, held, spec, dimension, line.estimate)


def _held(values: FloatArray, evidence: Evidence, spec: AuditSpec, statistic: str, level: str) -> Line:
    known = np.isfinite(values)
    if not known.any():
        return Line(statistic, level, "", undefined(0, 0, statistic, "no sample has a value"))
    return agreement(replace(evidence.only(known), reward=values[known]), spec, statistic, level)


def _against(
    name: str, values: FloatArray, evidence: Evidence, spec: AuditSpec, label: str, shown: Estimate
) -> list[Finding]:
    """A finding where a component falls as its label rises, for certain among all components."""
    statistic = "ordering_accuracy" if spec.statistic == "acc_eq" else spec.statistic
    chance = CHANCE.get(statistic, 0.0)
    if statistic == spec.statistic and (shown.high is None or shown.high >= chance):
        return []
    found = _held(values, evidence, of_family(spec), statistic, spec.level)
    estimate = found.estimate
    if estimate.value is None or estimate.high is None or estimate.high >= chance:
        return []
    as_used = ", in the direction of its weight," if direction(name, spec) < 0 and label == spec.label else ""
    return [
        Finding(
            "COMPONENT.AGAINST_LABEL",
            "warning",
            f"{name}{as_used} goes against {label}: {found.name} at level {found.level} is {in_figures(estimate)}, "
            f"all below {chance:g}",
            f"read answers with a high {name} and a low {label}; see whether its sign or scale is turned",
            estimate,
        )
    ]


def of_family(spec: AuditSpec) -> AuditSpec:
    """The spec with alpha shared out over all components."""
    m = len({*spec.total, *spec.components})
    return spec.model_copy(update={"alpha": spec.alpha / Decimal(m)})


def _opposed(total: Total, spec: AuditSpec) -> list[Line]:
    """Prompts in which a component falls as the label rises, and pairs of answers on which two components disagree."""
    if total.groups is None or total.evidence.reward.size == 0:
        return []
    lines = []
    level = f"per {spec.group_by}"
    for name, part in total.parts.items():
        found = sign_consistency(part, total.evidence.human, total.groups, total.clusters, level=spec.confidence)
        lost = f"{found.constant_component} without a difference in it, {found.constant_human} in the label"
        details = {"positive": found.positive}
        lines.append(Line(f"{name}: falls as the label rises", level, lost, found.negative, details=details))
    matrix = conflict_matrix(total.parts, total.groups)
    n_clusters = len(set(total.clusters.tolist()))
    for i, name in enumerate(matrix.names):
        for j in range(i):
            if matrix.pairs == 0:
                continue
            method = f"share of {matrix.pairs} pairs within {spec.group_by} that one raises and the other lowers"
            estimate = Estimate(
                float(matrix.opposed[i, j]), None, None, matrix.pairs, n_clusters, method, "exact, no interval"
            )
            rules = f"together on {100 * matrix.together[i, j]:.1f} %; the rest are ties"
            lines.append(Line(f"{matrix.names[j]} × {name}: opposed", f"pairs within {spec.group_by}", rules, estimate))
    return lines


def _saturated(name: str, evidence: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    """How many values lie at one end of the range, or are the only one there is."""
    known = np.isfinite(evidence.components[name])
    if not known.any():
        return [], []
    held = evidence.only(known)
    values = held.components[name]
    groups = groups_of(held, spec.group_by) if spec.group_by in held.columns else np.arange(values.size)
    found = saturation(values, groups, bounds=_range(name, spec))
    end, at_end = _fuller_end(values, found, spec, name)
    share = cluster_mean(at_end.astype(np.float64), held.clusters, level=spec.confidence, bounds=(0.0, 1.0))
    shown = f"{-end if _turned(name, spec) else end:g}"
    rules = f"{shown}; effective levels {found.effective_levels:.1f}"
    if found.constant_groups is not None:
        rules += f"; no difference in {100 * found.constant_groups:.1f} % of {spec.group_by}s with several samples"
    line = Line(f"{name}: at one end", "share", rules, share, details={"saturation": found})
    if share.low is None or share.low < SATURATED:
        return [line], []
    rows = np.flatnonzero(~at_end)[:MOST_EVIDENCE]
    return [line], [
        Finding(
            "COMPONENT.SATURATED",
            "info",
            f"{name} is {shown} for {in_percent(share)} of {values.size} samples: it tells few answers apart",
            "give it grades or harder checks, or count it as a check that is done",
            share,
            tuple(str(key) for key in held.sample_ids[rows]),
        )
    ]


def _turned(name: str, spec: AuditSpec) -> bool:
    return name in spec.scales and not spec.scales[name].higher_is_better


def _range(name: str, spec: AuditSpec) -> tuple[float, float] | None:
    """The declared range, turned as the values are."""
    scale = spec.scales.get(name)
    if scale is None:
        return None
    low, high = float(scale.low), float(scale.high)
    return (low, high) if scale.higher_is_better else (-high, -low)


def _fuller_end(values: FloatArray, found: Saturation, spec: AuditSpec, name: str) -> tuple[float, np.ndarray]:
    """The end with more values, and which are there; the one value where there is only one."""
    low, high = _range(name, spec) or (float(values.min()), float(values.max()))
    if values.min() == values.max():
        return float(values[0]), np.ones(values.size, dtype=bool)
    if (found.at_highest or 0.0) >= (found.at_lowest or 0.0):
        return high, values >= high
    return low, values <= low
