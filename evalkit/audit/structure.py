"""Where agreement comes from: between groups or within them, in which strata, among the best rewards."""

from __future__ import annotations

from typing import cast

import numpy as np

from evalkit.audit.agreement import Line, complete_column, groups_of
from evalkit.audit.evidence import Evidence
from evalkit.audit.findings import MOST_EVIDENCE, Finding, Severity
from evalkit.audit.spec import OF_LABELS, AuditSpec
from evalkit.stats import (
    Estimate,
    correlation,
    covariance_shares,
    restricted,
    sign_reversed,
    stratified_correlation,
    top_share_correlation,
    within_correlation,
)
from evalkit.stats.clusters import clusters_of, nested
from evalkit.stats.correlation import KINDS, NAMES, Kind

TOP_SHARE = 0.1
MOST_UNDEFINED = 0.2
LEAST, MOST_SHARDS = 20, 50
"""Samples, and shards, of which a turned sign is said."""


def kind_of_spec(spec: AuditSpec) -> Kind:
    """The registered correlation; Spearman's where the registered statistic is none."""
    return spec.statistic if spec.statistic in KINDS else "spearman"


def simpson(evidence: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    """Covariance shares between and within groups and systems, and sign reversals."""
    if spec.statistic in OF_LABELS:
        return [], []
    lines, findings = [], []
    for name in dict.fromkeys((spec.group_by, spec.system_by)):
        if name not in evidence.columns:
            continue
        groups = groups_of(evidence, name)
        shares = covariance_shares(evidence.reward, evidence.human, groups)
        method = f"share between {shares.groups} groups of {name}; the rest is within"
        n, g = evidence.reward.size, len(set(evidence.clusters))
        for what, share in (
            ("covariance", shares.covariance),
            ("variance of reward", shares.variance_x),
            ("variance of label", shares.variance_y),
        ):
            lines.append(
                Line(f"{what} between {name}", "share", "", Estimate(share, None, None, n, g, method, "exact"))
            )
        if not nested(clusters_of(groups, n), clusters_of(evidence.clusters, n)):
            continue
        pooled = correlation(evidence.reward, evidence.human, evidence.clusters, kind="pearson", level=spec.confidence)
        within = within_correlation(
            evidence.reward, evidence.human, groups, evidence.clusters, kind="pearson", level=spec.confidence
        )
        if sign_reversed(pooled, within):
            findings.append(
                Finding(
                    "CORR.SIMPSON",
                    "blocking" if spec.level == "pooled" else "warning",
                    f"pooled Pearson r is {pooled.value:.3f}, within {name} it is {within.value:.3f}: the pooled "
                    f"figure is made of differences between {name}s",
                    f"judge the reward at the level it is used at; freeze level: group or within, by {name}",
                    within,
                )
            )
    return lines, findings


def strata(evidence: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    """The registered correlation in every declared stratum, with heterogeneity and adjusted flags."""
    if spec.statistic in OF_LABELS:
        return [], []
    lines, findings = [], []
    kind = kind_of_spec(spec)
    for name in spec.strata:
        found = stratified_correlation(
            evidence.reward, evidence.human, groups_of(evidence, name), evidence.clusters,
            kind=kind, adjustment=spec.multiplicity, level=spec.confidence,
        )  # fmt: skip
        for stratum in found.strata:
            details = {"p": stratum.p, "p_adjusted": stratum.p_adjusted}
            rules = (
                ""
                if stratum.p_adjusted is None
                else f"p against the rest {stratum.p_adjusted:.3g} ({spec.multiplicity})"
            )
            lines.append(Line(NAMES[kind], f"{name} = {stratum.label}", rules, stratum.estimate, True, details))
            weak = stratum.estimate.high is not None and stratum.estimate.high < float(spec.thresholds.usable)
            differs = stratum.p_adjusted is not None and stratum.p_adjusted < float(spec.alpha)
            if weak and differs:
                rows = np.flatnonzero(groups_of(evidence, name) == stratum.label)[:MOST_EVIDENCE]
                findings.append(
                    Finding(
                        "CORR.STRATUM_FAILS",
                        "warning",
                        f"where {name} is {stratum.label}, agreement is {stratum.estimate.value:.3f} (n = "
                        f"{stratum.estimate.n}), below {spec.thresholds.usable} and unlike the rest",
                        "read these samples; leave the stratum out of the reward, or mend the reward there",
                        stratum.estimate,
                        tuple(evidence.sample_ids[rows]),
                    )
                )
        if found.q is not None:
            text = f"Cochran's Q over {len(found.strata)} strata, p {found.q_p:.3g}"
            n = evidence.reward.size
            line = Estimate(
                found.i_squared, None, None, n, len(set(evidence.clusters)), f"I² from {text}", "no interval"
            )
            lines.append(Line("I²", name, text, line, True, {"q": found.q, "p": found.q_p}))
    return lines, findings


def top_rewards(evidence: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    """Agreement in the top decile of reward, where optimisation presses, beside the overall one."""
    if spec.statistic in OF_LABELS or evidence.reward.size < 20:
        return [], []
    kind = kind_of_spec(spec)
    found = top_share_correlation(
        evidence.reward, evidence.human, evidence.clusters, kind=kind, share=TOP_SHARE, level=spec.confidence
    )
    spread = "" if found.spread is None else f"reward's spread there is {found.spread:.2f} of the whole"
    lines = [Line(NAMES[kind], f"top {TOP_SHARE:.0%} of reward (from {found.threshold:.4g})", spread, found.top)]
    overall, top = found.overall, found.top
    if overall.value is None or overall.low is None or top.value is None or top.high is None or not found.spread:
        return lines, []
    expected = restricted(overall.low, found.spread)
    if top.high < expected:
        code, severity, why = "CORR.TOP_FAILS", "warning", f"the smaller spread alone would leave {expected:.3f}"
    elif top.high < overall.low:
        code, severity, why = "CORR.RANGE_RESTRICTION", "info", f"{spread}, which alone lowers it"
    else:
        return lines, []
    statement = (
        f"among the top {TOP_SHARE:.0%} of rewards agreement is {top.value:.3f}, overall {overall.value:.3f}; {why}"
    )
    next_step = "label more samples from the top and read them: best-of-n and RL will live there"
    return lines, [Finding(code, cast(Severity, severity), statement, next_step, top)]


def turned_signs(evidence: Evidence, spec: AuditSpec) -> list[Finding]:
    """A finding for every stratum, system or step in which the reward falls as the label rises, while it rises in
    another: as it does where one shard of the scores has another sign."""
    findings = []
    kind = kind_of_spec(spec)
    for name in dict.fromkeys((*spec.strata, spec.system_by, "step")):
        shards = complete_column(evidence, name)
        if evidence.reward.size < LEAST or shards is None or not 2 <= np.unique(shards).size <= MOST_SHARDS:
            continue
        found = stratified_correlation(
            evidence.reward, evidence.human, shards, evidence.clusters,
            kind=kind, adjustment=spec.multiplicity, level=spec.confidence,
        )  # fmt: skip
        rises = any(shard.estimate.low is not None and shard.estimate.low > 0 for shard in found.strata)
        for shard in found.strata:
            high, p = shard.estimate.high, shard.p_adjusted
            if not rises or high is None or high >= 0 or p is None or p >= float(spec.alpha):
                continue
            rows = np.flatnonzero(shards == shard.label)[:MOST_EVIDENCE]
            findings.append(
                Finding(
                    "SCORE.SIGN_TURNED",
                    "warning",
                    f"where {name} is {shard.label}, {spec.reward} falls as the label rises ({NAMES[kind]} "
                    f"{shard.estimate.value:.3f}, n = {shard.estimate.n}), and elsewhere it rises",
                    f"see whether these scores have another sign or unit; if not, rewrite {spec.reward} or calibrate "
                    "it there",
                    shard.estimate,
                    tuple(evidence.sample_ids[rows]),
                )
            )
    return findings


def undefined_groups(lines: list[Line]) -> list[Finding]:
    """A finding where a registered mean of groups rests on few of them."""
    findings = []
    for line in lines:
        lost = line.details.get("undefined")
        if not line.registered or not lost:
            continue
        groups, without = line.details["groups"], sum(lost.values())
        if without > MOST_UNDEFINED * groups:
            causes = ", ".join(f"{cause} {count}" for cause, count in lost.items())
            findings.append(
                Finding(
                    "CORR.UNDEFINED_SHARE",
                    "warning",
                    f"{without} of {groups} groups have no {line.name} ({causes}); the mean speaks for the others only",
                    "draw more samples per prompt, or prompts on which they differ",
                    line.estimate,
                )
            )
    return findings
