"""From numbers to one word, by a rule that stands beside it.

1. Only the registered statistic decides, by the ends of its interval against the thresholds of the frozen spec.
2. What the data cannot say is said: no frozen spec, no interval, or missing scores that could turn the verdict.
3. A blocking finding overrules a good number; it never improves a bad one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evalkit.audit.findings import Finding
from evalkit.audit.spec import Thresholds
from evalkit.stats import Estimate

Word = Literal["trustworthy", "usable with limits", "not trustworthy", "cannot tell"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The audit's answer."""

    word: Word
    rule: str
    """The comparison or finding that gave it."""


def by_thresholds(estimate: Estimate, thresholds: Thresholds) -> Verdict:
    """What the interval alone says."""
    name = "the registered statistic"
    if estimate.value is None:
        return Verdict("cannot tell", f"{name} is undefined: {estimate.why}")
    if estimate.low is None or estimate.high is None:
        return Verdict("cannot tell", f"{name} has no interval: {estimate.why}")
    trustworthy, usable = float(thresholds.trustworthy), float(thresholds.usable)
    if estimate.low >= trustworthy:
        return Verdict("trustworthy", f"low end {estimate.low:.3f} reaches {trustworthy:g}")
    if estimate.low >= usable:
        return Verdict("usable with limits", f"low end {estimate.low:.3f} reaches {usable:g}, not {trustworthy:g}")
    if estimate.high < usable:
        return Verdict("not trustworthy", f"high end {estimate.high:.3f} is below {usable:g}")
    return Verdict("cannot tell", f"interval [{estimate.low:.3f}, {estimate.high:.3f}] contains {usable:g}")


def decide(
    estimate: Estimate,
    worst_cases: Sequence[Estimate],
    thresholds: Thresholds,
    findings: Sequence[Finding],
    *,
    frozen: bool,
) -> Verdict:
    """The verdict of an audit.

    Args:
        estimate: the registered statistic.
        worst_cases: the same with missing scores at their least and most favourable; empty where none is missing or no
            range bounds them.
        thresholds: what decides.
        findings: all of them.
        frozen: whether the spec was frozen before looking.
    """
    blocking = [finding for finding in findings if finding.severity == "blocking"]
    if not frozen:
        return Verdict(
            "cannot tell", "the spec is not frozen, so no threshold was registered; evalkit audit freeze SPEC"
        )
    base = by_thresholds(estimate, thresholds)
    if blocking:
        codes = ", ".join(dict.fromkeys(finding.code for finding in blocking))
        return Verdict("not trustworthy" if base.word != "cannot tell" else "cannot tell", f"blocking: {codes}")
    turned = {by_thresholds(case, thresholds).word for case in worst_cases} - {base.word}
    if turned and base.word != "cannot tell":
        return Verdict("cannot tell", f"{base.rule}; but missing scores could make it {' or '.join(sorted(turned))}")
    warnings = sorted({finding.code for finding in findings if finding.severity == "warning"})
    if base.word == "trustworthy" and warnings:
        return Verdict("usable with limits", f"{base.rule}; warnings: {', '.join(warnings)}")
    return base
