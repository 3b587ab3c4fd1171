"""Is it the answer or its length: what is left of the agreement at equal length, and who likes length more.

1. A taste for length is shown beside that of humans on the same samples, always; a bias is what goes beyond theirs.
2. Labels are noisy, and noise alone makes them follow length less than a reward without noise does. It does not make
   them fall as length rises among answers of equal reward: only then is a greater taste for length more than noise.
3. Holding length fixed is arithmetic on answers as they are. What padding does, only padded answers show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from evalkit.audit.agreement import Line, groups_of, whole_groups
from evalkit.audit.evidence import Evidence
from evalkit.audit.findings import Finding, Severity, in_figures
from evalkit.audit.spec import AuditSpec
from evalkit.stats import (
    Estimate,
    Explained,
    LengthPreference,
    controlled_preference,
    correlation,
    correlation_difference,
    length_explains,
    length_preference,
    matched_by_length,
    pairs_within,
    partial_correlation,
    rank_deviations,
)
from evalkit.stats.arrays import FloatArray
from evalkit.stats.correlation import NAMES
from evalkit.stats.pairwise import CREDIT

MATCHED = 0.1
"""Lengths that differ by no more than this share of the longer one are about equal."""


@dataclass(frozen=True, slots=True)
class _Level:
    """Samples as one level sees them: as they are, or their ranks within prompts."""

    name: str
    kind: Literal["pearson", "spearman"]
    reward: FloatArray
    human: FloatArray
    length: FloatArray
    clusters: np.ndarray


@dataclass(frozen=True, slots=True)
class _Tastes:
    """Rank correlations at one level."""

    agreement: Explained
    reward: Estimate
    """Of reward with length."""
    human: Estimate
    difference: Estimate
    """`reward` − `human`."""
    at_equal_reward: Estimate
    """Of label with length, reward held fixed."""


def length(evidence: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    """Agreement, taste and pairs with the length held in view; nothing where no file has a length."""
    if evidence.lengths is None or not np.isfinite(evidence.lengths).any():
        return [], []
    known = np.isfinite(evidence.lengths)
    rules = f"{int(np.count_nonzero(~known))} samples without a length left out"
    lines: list[Line] = []
    findings: list[Finding] = []
    evidence = evidence.only(known)
    for level in _levels(evidence, spec):
        tastes = _tastes(level, spec)
        lines += _lines_of(tastes, level.name, rules)
        within = level.name != "pooled"
        if within == (spec.level in ("group", "within")):
            findings += _explains(tastes, level.name, spec)
        if within:
            found_lines, found = _of_pairs(evidence, level, tastes, spec)
            lines += found_lines
            findings += found
    return lines, findings


def preference_lines(found: LengthPreference, who: str, level: str, rules: str) -> list[Line]:
    """How often `who` and humans prefer the longer of two answers."""
    return [
        Line(f"{who} prefers the longer", level, rules, found.reward),
        Line("humans prefer the longer", level, rules, found.human),
        Line(f"{who} − humans", f"{level} both decide", rules, found.difference),
    ]


def verbosity(
    found: LengthPreference, who: str, mend: str, severity: Severity = "warning", but: str = ""
) -> list[Finding]:
    """A finding where `who` likes length more than humans do on the same pairs, by the interval of the difference."""
    more = found.difference
    if more.value is None or more.low is None or more.low <= 0:
        return []
    statement = (
        f"{who} prefers the longer answer {more.value:.3f} more often than humans do on the same {more.n} pairs{but}"
    )
    return [Finding("BIAS.VERBOSITY", severity, statement, mend, more)]


def _levels(evidence: Evidence, spec: AuditSpec) -> list[_Level]:
    """Pooled, and within prompts where a prompt has several samples."""
    assert evidence.lengths is not None
    columns = (evidence.reward, evidence.human, evidence.lengths)
    levels = [_Level("pooled", "spearman", *columns, evidence.clusters)]
    if spec.group_by in evidence.columns:
        groups = groups_of(evidence, spec.group_by)
        if len(set(groups)) < groups.size:
            reward, human, lengths = (rank_deviations(column, groups) for column in columns)
            clusters = whole_groups(evidence, groups)
            levels.append(_Level(f"within {spec.group_by}", "pearson", reward, human, lengths, clusters))
    return levels


def _tastes(at: _Level, spec: AuditSpec) -> _Tastes:
    level, kind = spec.confidence, at.kind
    return _Tastes(
        length_explains(at.reward, at.human, at.length, at.clusters, kind=kind, level=level),
        correlation(at.reward, at.length, at.clusters, kind=kind, level=level),
        correlation(at.human, at.length, at.clusters, kind=kind, level=level),
        correlation_difference(at.human, at.reward, at.length, at.clusters, kind=kind, level=level),
        partial_correlation(at.human, at.length, at.reward, at.clusters, kind=kind, level=level),
    )


def _lines_of(tastes: _Tastes, level: str, rules: str) -> list[Line]:
    rho = NAMES["spearman"]
    return [
        Line(rho, level, rules, tastes.agreement.alone),
        Line(f"partial {rho}", level, f"given length; {rules}", tastes.agreement.held),
        Line(f"{rho} of reward with length", level, rules, tastes.reward),
        Line(f"{rho} of label with length", level, rules, tastes.human),
        Line("reward − label, with length", level, rules, tastes.difference),
        Line(f"partial {rho} of label with length", level, f"given reward; {rules}", tastes.at_equal_reward),
    ]


def _explains(tastes: _Tastes, level: str, spec: AuditSpec) -> list[Finding]:
    """A finding where more than half of an agreement goes with length, or the reward is length itself."""
    alone, held, past_half = tastes.agreement.alone, tastes.agreement.held, tastes.agreement.past_half
    if alone.value is None or alone.low is None or alone.low <= 0:
        return []
    if tastes.reward.value is not None and abs(tastes.reward.value) == 1:
        left = f"and {spec.reward} orders answers exactly as their length does"
    elif held.value is not None and past_half.low is not None and past_half.low > 0:
        left = f"and {held.value:.3f} with length held fixed: more than half of it goes"
    else:
        return []
    beside = "; ".join(
        f"{name} follows length with {taste.value:.3f}"
        for name, taste in ((spec.reward, tastes.reward), (spec.label, tastes.human))
        if taste.value is not None
    )
    return [
        Finding(
            "LENGTH.EXPLAINS",
            "warning",
            f"agreement of {spec.reward} with {spec.label} ({NAMES['spearman']}, {level}) is {alone.value:.3f}, "
            f"{left}; {beside}",
            "compare answers of about equal length (line ordering accuracy), and score padded answers before training "
            "on this reward",
            alone,
        )
    ]


def _of_pairs(
    evidence: Evidence, at: _Level, tastes: _Tastes, spec: AuditSpec
) -> tuple[list[Line], list[Finding]]:  # fmt: skip
    """Pairs of answers to one prompt: who prefers the longer, the margin with length in the model, equal lengths."""
    assert evidence.lengths is not None
    pairs = pairs_within(evidence.reward, evidence.human, groups_of(evidence, spec.group_by))
    a, b, clusters = evidence.lengths[pairs.first], evidence.lengths[pairs.second], at.clusters[pairs.first]
    human, reward = (np.sign(margins) / 2 + 0.5 for margins in (pairs.human, pairs.reward))
    level = f"pairs {at.name}"
    taste = length_preference(human, reward, a, b, clusters, level=spec.confidence)
    lines = preference_lines(taste, "reward", level, "pairs weigh alike")
    model = controlled_preference(human, pairs.reward, {"length": a - b}, clusters, level=spec.confidence)
    lines += [
        Line("margin's log odds", level, "Bradley–Terry, alone", model.alone),
        Line("margin's log odds", level, "Bradley–Terry, given length", model.controlled),
        Line("length's log odds", level, "Bradley–Terry, given margin", model.covariates["length"]),
    ]
    decided = np.where(pairs.reward == 0, CREDIT[spec.ties], np.sign(pairs.human) * np.sign(pairs.reward) > 0)
    counts = (pairs.human != 0) & ~np.isnan(decided)
    matched = matched_by_length(
        decided[counts], a[counts], b[counts], clusters[counts], tolerance=MATCHED, level=spec.confidence
    )
    share = "" if matched.coverage is None else f"{100 * matched.coverage:.0f} % of pairs"
    rules = f"lengths within {MATCHED:.0%}, {share}; reward ties {spec.ties}"
    lines.append(Line("ordering accuracy", level, rules, matched.matched))
    rules = f"lengths further apart; reward ties {spec.ties}"
    lines.append(Line("ordering accuracy", level, rules, matched.apart))
    return lines, _more_than_humans(taste, tastes.at_equal_reward, spec)


def _more_than_humans(taste: LengthPreference, at_equal_reward: Estimate, spec: AuditSpec) -> list[Finding]:
    """The verbosity finding; no more than information where noise in the labels alone could make it."""
    mend = "score padded answers to see the cause; then penalise length, or train the reward on pairs of equal length"
    found = at_equal_reward
    if found.value is None or found.low is None or found.high is None:
        return verbosity(taste, spec.reward, mend)
    ends = f"{spec.label} with length at equal reward is {in_figures(found)}"
    if found.high < 0:
        return verbosity(taste, spec.reward, mend, "warning", f"; {ends}, so humans want them shorter")
    but = f"; noise in the labels alone could make this: {ends}, not below 0"
    mend = "ask several annotators about the same samples, so that noise and taste part; or score padded answers"
    return verbosity(taste, spec.reward, mend, "info", but)
