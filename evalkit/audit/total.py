"""A reward that is declared to be a weighted sum: whether it is, and what each component brings to it.

1. The sum is recomputed from the components, over samples that have all of them; all else is asked of that sum.
2. Shares of its variance are exact and add up to 1; below 0 a component takes away what the others bring. Those within
   prompts are all that a trainer sees which compares the answers to one prompt (GRPO).
3. A component that is missing is not 0. Where a sum goes on without it the reward moves, whatever the answer is worth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from evalkit.audit.against import difference_of
from evalkit.audit.agreement import Line, agreement, groups_of, whole_groups
from evalkit.audit.evidence import Evidence
from evalkit.audit.findings import MOST_EVIDENCE, Finding, Severity, in_figures, in_percent
from evalkit.audit.spec import AuditSpec
from evalkit.stats import (
    Estimate,
    MissingShift,
    cluster_mean,
    group_ownership,
    mean_difference,
    missing_shifts,
    shapley,
    undefined,
    variance_shares,
)
from evalkit.stats.arrays import FloatArray
from evalkit.stats.clusters import clusters_of
from evalkit.stats.components import MOST_SHAPLEY

SAME = 0.01
"""A sum that is no more than this share of the reward's interquartile range off is the reward but for rounding; of its
standard deviation, where that range is 0."""
ROUNDED = 1e-6
"""The same, of what is added up: float32 loses that much."""
DOMINATES = 0.9
"""Share of the variance from which one component is the reward."""
SHIFTS = 0.1
"""Standard deviations of the total from which a missing component moves it."""
RARE = 0.01
"""Share of the samples below which that is information: so few hardly move an agreement."""
CANCELLED = 0.2
"""Share of prompts without any difference left from which components that cancel are a finding."""


@dataclass(frozen=True, slots=True)
class Total:
    """The declared sum over the samples that have all its components."""

    evidence: Evidence
    """Those samples; `reward` is the recomputed sum."""
    parts: dict[str, FloatArray]
    """By component, weight · value: they add up to the sum."""
    groups: np.ndarray | None
    """The prompt of each sample; None where no file says."""
    clusters: np.ndarray
    """Clusters in which prompts stay whole."""
    whole: np.ndarray
    """Which scored samples they are."""

    @property
    def lost(self) -> int:
        """Scored samples without one of the components."""
        return int(np.count_nonzero(~self.whole))


def weights_of(spec: AuditSpec) -> dict[str, float]:
    """Weight of each component as audited: negated where the scale of just one of reward and component is turned."""
    turned = {name: -1.0 if not scale.higher_is_better else 1.0 for name, scale in spec.scales.items()}
    of_reward = turned.get(spec.reward, 1.0)
    return {name: float(weight) * turned.get(name, 1.0) * of_reward for name, weight in spec.total.items()}


def direction(name: str, spec: AuditSpec) -> float:
    """−1 where the total falls as the component rises, else 1."""
    return math.copysign(1.0, weights_of(spec).get(name, 1.0))


def declared_total(evidence: Evidence, spec: AuditSpec) -> Total:
    """The declared sum, of samples that all have a reward."""
    weights = weights_of(spec)
    whole = np.all([np.isfinite(evidence.components[name]) for name in weights], axis=0)
    held = evidence.only(whole)
    parts = {name: weight * held.components[name] for name, weight in weights.items()}
    groups: np.ndarray | None = None
    clusters: np.ndarray = held.clusters
    if spec.group_by in held.columns:
        groups = groups_of(held, spec.group_by)
        clusters = whole_groups(held, groups)
    total = replace(held, reward=_sum(list(parts.values()), held.reward.size))
    return Total(total, parts, groups, clusters, whole)


def total_lines(
    evidence: Evidence, total: Total, agreements: Mapping[str, Estimate], spec: AuditSpec
) -> tuple[list[Line], list[Finding]]:
    """Lines and findings on the declared sum.

    Args:
        evidence: samples that have a reward.
        total: their declared sum.
        agreements: of each component with the overall label.
        spec: the audit's contract.
    """
    lines, findings = _recomputed(evidence, total, spec)
    if total.lost:
        found_lines, found = _missing(evidence, spec)
        lines += found_lines
        findings += found
    if total.evidence.reward.size == 0:
        return lines, findings
    brings, worth = _brought(total, spec)
    found_lines, found = _owned(total, brings, agreements, spec)
    return lines + found_lines + worth, findings + found


def _sum(parts: list[FloatArray], n: int) -> FloatArray:
    """Their sum, rounded far below what matters: sums that are equal but for the order of addition must tie."""
    total = np.sum(parts, axis=0) if parts else np.zeros(n)
    scale = max((float(np.abs(part).max(initial=0.0)) for part in parts), default=0.0)
    return np.asarray(np.round(total / scale, 12) * scale if scale > 0 else total)


def _same(reward: FloatArray, sums: FloatArray, size: FloatArray) -> tuple[np.ndarray, float]:
    """Which rewards are the sums but for rounding, and by how much they may differ.

    Args:
        reward, sums: shape (n,).
        size: shape (n,), sum of the absolute values that are added up.
    """
    if reward.size == 0:
        return np.ones(0, dtype=bool), 0.0
    low, high = np.quantile(reward, [0.25, 0.75])
    allowed = SAME * float(high - low if high > low else reward.std())
    return np.abs(reward - sums) <= np.maximum(allowed, ROUNDED * (size + np.abs(reward))), allowed


def _recomputed(evidence: Evidence, total: Total, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    """Whether the reward is the sum that it is declared to be."""
    name, rules = "declared sum ≠ reward", f"{total.lost} samples without a component left out"
    n, sums = total.evidence.reward.size, total.evidence.reward
    if evidence.repeats is not None:
        why = "repeated scorings were combined before"
        return [Line(name, "share", rules, undefined(n, 0, "share of samples", why))], []
    reward = evidence.reward[total.whole]
    size = np.sum([np.abs(part) for part in total.parts.values()], axis=0)
    same, allowed = _same(reward, sums, size)
    share = cluster_mean((~same).astype(np.float64), total.evidence.clusters, level=spec.confidence, bounds=(0.0, 1.0))
    gap = np.abs(reward - sums)
    details = {"tolerance": allowed, "largest": float(gap.max(initial=0.0))}
    lines = [Line(name, "share", f"{rules}; tolerance {allowed:.3g}", share, details=details)]
    if same.all():
        return lines, []
    rows = np.argsort(-np.where(same, 0.0, gap), kind="stable")[: min(MOST_EVIDENCE, int(np.count_nonzero(~same)))]
    said = " + ".join(f"{weight} · {part}" for part, weight in spec.total.items())
    return lines, [
        Finding(
            "COMPONENT.TOTAL_DIFFERS",
            "warning",
            f"{spec.reward} is not {said} for {int(np.count_nonzero(~same))} of {n} samples, by up to "
            f"{details['largest']:.4g}{_otherwise(reward, sums, size)}; what follows is said of that sum",
            "correct total in the spec, or find what else goes into the reward: clipping, normalising, a further term",
            share,
            tuple(str(key) for key in total.evidence.sample_ids[rows]),
        )
    ]


def _otherwise(reward: FloatArray, sums: FloatArray, size: FloatArray) -> str:
    """Whether the reward is the sum on another scale."""
    if reward.size < 3 or not (sums.std() > 0 and reward.std() > 0):
        return ""
    slope = float(np.cov(sums, reward)[0, 1] / sums.var(ddof=1))
    offset = float(reward.mean() - slope * sums.mean())
    if not _same(reward, slope * sums + offset, size)[0].all():
        return ""
    return f" (it is {slope:.4g} times the sum {'+' if offset >= 0 else '−'} {abs(offset):.4g})"


def _missing(evidence: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    """What a component that is missing does to a reward that is given all the same."""
    weights = weights_of(spec)
    columns = {name: evidence.components[name] for name in weights}
    groups = groups_of(evidence, spec.group_by) if spec.group_by in evidence.columns else None
    shifts = missing_shifts(columns, weights, evidence.clusters, groups=groups, level=spec.confidence)
    given = [np.nan_to_num(weight * columns[name]) for name, weight in weights.items()]
    rest = _sum(given, evidence.reward.size)
    as_zero = _same(evidence.reward, rest, np.sum(np.abs(given), axis=0))[0]
    lines: list[Line] = []
    findings: list[Finding] = []
    for name, shift in shifts.items():
        absent = ~np.isfinite(columns[name])
        if not absent.any():
            continue
        without = absent & as_zero
        count = f"{int(np.count_nonzero(without))} of them summed without it"
        lines.append(Line(f"{name}: missing though there is a reward", "share", count, shift.missing))
        lines.append(Line(f"{name}: total without it", "standard deviations", "over complete samples", shift.shift))
        for what, values in (("reward", evidence.reward), ("label", evidence.human)):
            spread = float(values.std(ddof=1)) if values.size > 1 else 0.0
            if spread > 0:
                found = mean_difference(values / spread, absent, evidence.clusters, level=spec.confidence)
                lines.append(Line(f"{name}: {what} where missing − where not", "standard deviations", "", found))
        findings += _shifted(name, shift, without, evidence, spec)
    return lines, findings


def _shifted(
    name: str, missing: MissingShift, without: np.ndarray, evidence: Evidence, spec: AuditSpec
) -> list[Finding]:
    shift = missing.shift
    if not without.any() or shift.value is None or shift.low is None or shift.high is None:
        return []
    if shift.low <= SHIFTS and shift.high >= -SHIFTS:
        return []
    mixed = missing.mixed_groups
    beside = "" if not mixed else f"; in {100 * mixed:.1f} % of {spec.group_by}s beside samples that have it"
    return [
        Finding(
            "COMPONENT.MISSING_SHIFTS_SCALE",
            "warning" if float(np.mean(without)) >= RARE else "info",
            f"{int(np.count_nonzero(without))} samples lack {name} and their {spec.reward} is the sum of the rest, "
            f"which moves it by {in_figures(shift)} standard deviations{beside}",
            f"give no reward where {name} has none, or score it again; None is not 0",
            shift,
            tuple(str(key) for key in evidence.sample_ids[np.flatnonzero(without)[:MOST_EVIDENCE]]),
        )
    ]


def _owned(
    total: Total, brings: Mapping[str, Estimate], agreements: Mapping[str, Estimate], spec: AuditSpec
) -> tuple[list[Line], list[Finding]]:
    """Who owns the variance of the sum: over all, within prompts, and with every prompt alike."""
    ones = dict.fromkeys(total.parts, 1.0)
    level, clusters = spec.confidence, total.evidence.clusters
    tight = 1 - (1 - level) / len({*spec.total, *spec.components})
    shares = variance_shares(total.parts, ones, clusters=clusters, level=level)
    lines = [Line(f"{name}: share of variance", "pooled", "", share) for name, share in shares.items()]
    owned, where = shares, "of all samples"
    findings: list[Finding] = []
    strict = variance_shares(total.parts, ones, clusters=clusters, level=tight)
    if total.groups is not None and len(set(total.groups)) < total.groups.size:
        within = variance_shares(total.parts, ones, groups=total.groups, clusters=total.clusters, level=level)
        ownership = group_ownership(total.parts, ones, total.groups, total.clusters, level=level)
        inside = f"within {spec.group_by}"
        lines += [Line(f"{name}: share of variance", inside, "", share) for name, share in within.items()]
        alike = f"mean per {spec.group_by}"
        lines += [Line(f"{name}: share of variance", alike, "", share) for name, share in ownership.shares.items()]
        lines.append(Line("total is the same for all samples", f"per {spec.group_by}", "", ownership.flat))
        lines.append(Line("total is the same, components differ", f"per {spec.group_by}", "", ownership.cancelled))
        owned, where = ownership.shares, inside
        strict = variance_shares(total.parts, ones, groups=total.groups, clusters=total.clusters, level=tight)
        findings = _cancelled(ownership.cancelled, spec)
    if len(total.parts) > 1:
        for name in total.parts:
            findings += _cancels(name, strict[name], brings[name], where, spec)
            findings += _dominates(name, owned[name], agreements[name], where, spec)
    return lines, findings


def _cancels(name: str, share: Estimate, brings: Estimate, where: str, spec: AuditSpec) -> list[Finding]:
    """A finding where a component takes variance away; a warning where the agreement is better without it."""
    if share.value is None or share.low is None or share.high is None or share.high >= 0:
        return []
    harms = brings.high is not None and brings.high < 0
    severity: Severity = "warning" if harms else "info"
    effect = (
        f"agreement is {-(brings.value or 0.0):.3f} better without it"
        if harms
        else "that agreement is better without it is not shown"
    )
    return [
        Finding(
            "COMPONENT.CANCELS",
            severity,
            f"{name} takes away what the others bring: its share of the variance {where} is {in_figures(share)}; "
            f"{effect}",
            "see whether it is meant as a brake; if not, weigh it less or leave it out",
            share,
        )
    ]


def _cancelled(share: Estimate, spec: AuditSpec) -> list[Finding]:
    """A finding where components differ within a prompt, and their sum does not."""
    if share.value is None or share.low is None or share.low < CANCELLED:
        return []
    return [
        Finding(
            "COMPONENT.CANCELS",
            "warning",
            f"in {in_percent(share)} of the {spec.group_by}s with several samples components differ and their sum does "
            "not: a trainer that compares the answers to one prompt learns nothing there",
            "read such answers; choose weights whose sums do not coincide",
            share,
        )
    ]


def _dominates(name: str, share: Estimate, held: Estimate, where: str, spec: AuditSpec) -> list[Finding]:
    """A finding where one component is the reward; a warning where nothing shows that it agrees with humans."""
    if share.value is None or _least(share, spec) < DOMINATES:
        return []
    chance = _nothing(spec)
    agrees = held.low is not None and held.low > chance
    return [
        Finding(
            "COMPONENT.DOMINATES",
            "info" if agrees else "warning",
            f"{name} owns {in_percent(share)} of the variance {where}: the other {len(spec.total) - 1} hardly "
            f"move the reward there" + ("" if agrees else f", and no agreement of {name} with {spec.label} is shown"),
            "put components on one scale before weighing them, or audit this one alone",
            share,
        )
    ]


def _least(share: Estimate, spec: AuditSpec) -> float:
    """The low end of a share; where all clusters are alike that of Clopper and Pearson, all of so many."""
    if share.low is not None:
        return share.low
    all_of_them = math.pow(float(spec.alpha) / 2, 1 / max(share.n_clusters, 1))
    return (share.value or 0.0) * all_of_them


def _nothing(spec: AuditSpec) -> float:
    """The statistic of a reward that tells nothing apart, where it is not defined of itself."""
    return 0.5 if spec.statistic in ("auc", "ordering_accuracy") else 0.0


def _brought(total: Total, spec: AuditSpec) -> tuple[dict[str, Estimate], list[Line]]:
    """What the agreement loses without each component, and how the components share it out."""
    held, parts, of = _for_agreement(total, spec)
    n = held.reward.size
    full = agreement(held, of, of.statistic, of.level)
    rules = "over samples with every component" + (
        "; constant groups as 0" if of.level == "group" and of.undefined == "zero" else ""
    )
    lines = [replace(full, name=f"total: {full.name}", rules=rules, level=_level(spec, full))]
    brings: dict[str, Estimate] = {}
    for name in parts:
        rest = _sum([part for other, part in parts.items() if other != name], n)
        brings[name] = difference_of(replace(held, reward=rest), held, of)
        lines.append(Line(f"{name}: agreement lost without it", lines[0].level, rules, brings[name]))
    if len(parts) > 1:
        lines += _shapley_lines(held, parts, of, full, lines[0].level)
    return brings, lines


def _level(spec: AuditSpec, line: Line) -> str:
    return f"system ({spec.system_by})" if spec.level == "system" else line.level


def _for_agreement(total: Total, spec: AuditSpec) -> tuple[Evidence, dict[str, FloatArray], AuditSpec]:
    """Samples, or means of systems, on which the agreement of any sub-sum is the statistic of the spec.

    At level group, groups in which a sub-sum is constant count as 0: it agrees with nobody about them, and all sub-sums
    are held against the same groups.
    """
    if spec.level == "group":
        return total.evidence, total.parts, spec.model_copy(update={"undefined": "zero"})
    if spec.level != "system":
        return total.evidence, total.parts, spec
    systems = clusters_of(groups_of(total.evidence, spec.system_by), total.evidence.reward.size)
    sizes = systems.sums(np.ones(systems.codes.size))
    parts = {name: systems.sums(part) / sizes for name, part in total.parts.items()}
    held = replace(
        total.evidence,
        reward=_sum(list(parts.values()), systems.count),
        human=systems.sums(total.evidence.human) / sizes,
        clusters=np.arange(systems.count).astype(object),
    )
    return held, parts, spec.model_copy(update={"level": "pooled"})


def _shapley_lines(
    held: Evidence, parts: Mapping[str, FloatArray], spec: AuditSpec, full: Line, level: str
) -> list[Line]:
    method = f"Shapley value of the {full.name} of sums of components"
    n, g = full.estimate.n, full.estimate.n_clusters
    if len(parts) > MOST_SHAPLEY or full.estimate.value is None:
        why = full.estimate.why or f"{len(parts)} components; exact for up to {MOST_SHAPLEY}"
        return [Line("Shapley values", level, "", undefined(n, g, method, why))]

    def worth(names: frozenset[str]) -> float:
        sums = _sum([part for name, part in parts.items() if name in names], held.reward.size)
        found = agreement(replace(held, reward=sums), spec, spec.statistic, spec.level).estimate.value
        # The whole has a value, so a sub-sum has none only for being constant: then it tells nothing apart.
        return _nothing(spec) if found is None else found

    values = shapley(list(parts), worth)
    rules = f"of {full.estimate.value:.3f} over what no component has"
    why = f"exact over {2 ** len(parts)} sums, no interval"
    return [
        Line(f"{name}: Shapley value", level, rules, Estimate(value, None, None, n, g, method, why))
        for name, value in values.items()
    ]
