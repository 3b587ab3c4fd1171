"""One audit, from two tables and a spec to a verdict.

1. The order is that of trust: who is missing, then the registered number, then what else the data show.
2. Whatever is computed is in the result, with its n, clusters and method; the terminal shows the part that decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evalkit.audit import panel, structure
from evalkit.audit.against import against
from evalkit.audit.agreement import (
    Line,
    agreement,
    coded,
    counted,
    filled,
    group_column,
    has_group,
    other_levels,
    policies_for_unparsed,
    unparsed_bounds,
    vocabulary,
    weighted_kappas,
)
from evalkit.audit.calibration import calibration
from evalkit.audit.components import components
from evalkit.audit.evidence import Evidence, Ledger
from evalkit.audit.findings import Finding, Severity
from evalkit.audit.human_scale import human_scale
from evalkit.audit.intervals import decisive, few_clusters
from evalkit.audit.length import length
from evalkit.audit.people import people
from evalkit.audit.repeats import repeated_scores
from evalkit.audit.shape import shape
from evalkit.audit.spec import OF_LABELS, AuditLock, AuditSpec
from evalkit.audit.verdict import Verdict, decide
from evalkit.errors import BadInput
from evalkit.stats import correlation, unshared_labels
from evalkit.stats.concordance import mid_ranks

Section = Callable[[Evidence, AuditSpec], tuple[list[Line], list[Finding]]]
SWAPPED = "the reward falls as the label rises"
READ = 5
MISSING, PARSE = "MISSING.BOUNDS_CROSS_DECISION", "PARSE.BOUNDS_CROSS_DECISION"
BOUNDS = {
    MISSING: ("missing scores", "score the missing samples"),
    PARSE: ("unparsed verdicts", "read those replies; mend the parser, or ask again"),
}
"""What is not known, and what would tell."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A sample to read, and why."""

    why: str
    """`high`, `low`, `random`, `reward above label` or `label above reward`."""
    sample_id: str
    reward: Any
    human: Any


@dataclass(frozen=True, slots=True)
class Audit:
    """All an audit found."""

    lock: AuditLock
    frozen: bool
    """Whether the spec was frozen before looking; if not, nothing is registered and the verdict cannot tell."""
    inputs: dict[str, str]
    """Digest of every input."""
    verdict: Verdict
    ledger: Ledger
    registered: Line
    worst_cases: list[Line]
    """The registered statistic with missing scores at their least and most favourable, and unparsed verdicts that the
    spec leaves out; empty where none is, or the reward has no declared range."""
    sections: dict[str, list[Line]]
    findings: list[Finding]
    reading: list[Reading]
    evidence: Evidence = field(repr=False)

    @property
    def spec(self) -> AuditSpec:
        """The audit's contract."""
        return self.lock.spec

    def worst(self) -> Severity | None:
        """The severity of the worst finding."""
        found = {finding.severity for finding in self.findings}
        return next((s for s in ("blocking", "warning", "info") if s in found), None)


def audit(evidence: Evidence, lock: AuditLock, *, frozen: bool, inputs: dict[str, str]) -> Audit:
    """Hold a reward against human labels.

    Args:
        evidence: scores joined to labels.
        lock: the spec with its digest.
        frozen: whether that spec was frozen before.
        inputs: digest of each input, for the record.

    Raises:
        BadInput: no sample has both a score and a label, or a column cannot serve as the spec wants.
    """
    spec = lock.spec
    findings = [*evidence.findings]
    scored = counted(evidence, spec)
    if scored.reward.size == 0:
        causes = ", ".join(f"{cause} {count}" for cause, count in evidence.ledger.unscored.items())
        raise BadInput(f"no labelled sample has a usable score of {spec.reward} ({causes}); correct the scores")
    registered = replace(decisive(scored, spec), registered=frozen)
    missing = missing_cases(evidence, spec)
    worst_cases = [*missing]
    if spec.categorical:
        readings = unparsed_bounds(scored, spec, spec.statistic)
        findings += bounds_finding(registered, readings, spec, PARSE)
        worst_cases += readings if spec.unparsed == "exclude" else []
    sections, found = exploratory(evidence, scored, spec)
    findings += found
    findings += structure.undefined_groups([registered])
    findings += few_clusters(registered)
    findings += bounds_finding(registered, missing, spec, MISSING)
    verdict = decide(
        registered.estimate, [line.estimate for line in worst_cases], spec.thresholds, findings, frozen=frozen
    )
    if verdict.word == "not trustworthy" and not any(f.severity == "blocking" for f in findings):
        findings.append(
            Finding(
                "AGREEMENT.TOO_LOW",
                "blocking",
                f"{registered.name} at level {registered.level} is below what the spec calls usable: {verdict.rule}",
                "read the worst disagreements; rewrite the reward or calibrate it against more labels",
                registered.estimate,
            )
        )
    order = {"blocking": 0, "warning": 1, "info": 2}
    findings.sort(key=lambda finding: order[finding.severity])
    return Audit(
        lock, frozen, inputs, verdict, evidence.ledger, registered, worst_cases, sections, findings,
        reading_list(scored, spec), evidence,
    )  # fmt: skip


def exploratory(evidence: Evidence, scored: Evidence, spec: AuditSpec) -> tuple[dict[str, list[Line]], list[Finding]]:
    """Everything besides the registered number: the lines of each section that has any, and all findings.

    Args:
        evidence: every labelled sample.
        scored: those that count for the registered number.
        spec: the audit's contract.
    """
    given = evidence.only(evidence.scored)
    if spec.categorical:
        of_labels = [agreement(scored, spec, statistic, "pooled") for statistic in OF_LABELS]
        sections = {
            "unparsed": policies_for_unparsed(scored, spec),
            "labels": [*of_labels, *weighted_kappas(scored, spec)],
        }
        findings = vocabularies(scored, spec)
        parts: list[tuple[str, Section, Evidence]] = [("judge", panel.panel, given)]
    else:
        sections, findings = {"levels": other_levels(scored, spec)}, direction(scored, spec)
        parts = [
            ("between and within", structure.simpson, scored),
            ("strata", structure.strata, scored),
            ("top", structure.top_rewards, scored),
            ("repeats", repeated_scores, scored),
            ("length", length, coded(given, spec)),
            ("components", components, coded(given, spec)),
            ("shape", shape, evidence),
        ]
    parts += [
        ("people", people, scored),
        ("calibration", calibration, evidence),
        ("human scale", human_scale, evidence),
        ("against", against, evidence),
    ]
    for name, section, of in parts:
        sections[name], found = section(of, spec)
        findings += found
    return {name: lines for name, lines in sections.items() if lines}, findings


def missing_cases(evidence: Evidence, spec: AuditSpec) -> list[Line]:
    """The registered statistic with unscored samples filled against and for the reward; without those whose group
    nobody knows, for only the scores name it."""
    if evidence.scored.all() or not (spec.categorical or spec.reward in spec.scales):
        return []
    placed = evidence.scored | has_group(evidence, spec)
    lost = int(np.count_nonzero(~placed))
    if not (placed & ~evidence.scored).any():
        return []
    left_out = f"; {lost} without {group_column(spec)} left out" if lost else ""
    lines = []
    for favourable in (False, True):
        line = decisive(filled(evidence.only(placed), spec, favourable=favourable), spec)
        lines.append(replace(line, rules=f"missing scores {'for' if favourable else 'against'} the reward{left_out}"))
    return lines


def bounds_finding(registered: Line, cases: list[Line], spec: AuditSpec, of: str) -> list[Finding]:
    """A finding where missing scores, or unread verdicts, can carry the statistic over a threshold. Verdicts that the
    spec counts as wrong only ask to be read."""
    values = [line.estimate.value for line in cases if line.estimate.value is not None]
    if len(values) < 2 or registered.estimate.value is None:
        return []
    crossed = [
        name
        for name, threshold in (("usable", spec.thresholds.usable), ("trustworthy", spec.thresholds.trustworthy))
        if min(values) < float(threshold) <= max(values)
    ]
    if not crossed:
        return []
    what, mend = BOUNDS[of]
    return [
        Finding(
            of,
            "info" if of == PARSE and spec.unparsed == "wrong" else "warning",
            f"depending on the {what}, {registered.name} lies anywhere from {min(values):.3f} to "
            f"{max(values):.3f}, across the threshold {' and '.join(crossed)}",
            mend,
            registered.estimate,
        )
    ]


def vocabularies(evidence: Evidence, spec: AuditSpec) -> list[Finding]:
    """A finding where verdicts and labels do not speak the same words."""
    said = [v for verdicts in evidence.by_order.values() or [evidence.reward] for v in verdicts]
    only_verdicts, only_labels = unshared_labels(
        [v for v in said if v is not None and not str(v).startswith("\x00")], list(evidence.human)
    )
    known = set(vocabulary(evidence, spec))
    strange = [label for label in only_verdicts if label not in known]
    if not strange and not (only_labels and len(only_labels) == len(set(evidence.human))):
        return []
    disjoint = len(only_labels) == len(set(evidence.human))
    shown = ", ".join(repr(label) for label in strange[:READ])
    return [
        Finding(
            "KAPPA.LABEL_VOCAB",
            "blocking" if disjoint else "warning",
            f"verdicts use {len(strange)} words that are no label ({shown}); labels are "
            f"{', '.join(map(repr, sorted(known)))}; such verdicts count as unparsed",
            "spell verdicts and labels alike, or list the vocabulary under labels in the spec",
        )
    ]


def direction(evidence: Evidence, spec: AuditSpec) -> list[Finding]:
    """A finding where the reward runs against the label, as it does when a scale is turned."""
    found = correlation(evidence.reward, evidence.human, evidence.clusters, kind="spearman", level=spec.confidence)
    if found.high is None or found.high >= 0:
        return []
    return [
        Finding(
            "CORR.DIRECTION",
            "blocking",
            f"{SWAPPED}: Spearman rho {found.value:.3f} over {found.n} samples",
            f"see which way {spec.reward} and {spec.label} run; where less is more, declare higher_is_better: false",
            found,
        )
    ]


def reading_list(evidence: Evidence, spec: AuditSpec) -> list[Reading]:
    """Samples worth reading: the ends, a few by chance, and the worst disagreements both ways."""
    rng = np.random.default_rng([spec.seed, 1])
    n = evidence.reward.size
    picks: list[tuple[str, list[int]]] = [("random", rng.permutation(n)[:READ].tolist())]
    if spec.categorical:
        apart = [i for i in range(n) if evidence.reward[i] != evidence.human[i]]
        picks.append(("disagreement", [apart[i] for i in rng.permutation(len(apart))[: 2 * READ]]))
    else:
        gap = (mid_ranks(evidence.reward) - mid_ranks(evidence.human)) / n
        for why, key in (
            ("high", -evidence.reward),
            ("low", evidence.reward),
            ("reward above label", -gap),
            ("label above reward", gap),
        ):
            rows = np.argsort(key, kind="stable")[:READ].tolist()
            picks.append((why, [i for i in rows if "label" not in why or key[i] < 0]))
    return [
        Reading(why, str(evidence.sample_ids[i]), _plain(evidence.reward[i]), _plain(evidence.human[i]))
        for why, rows in picks
        for i in rows
    ]


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, np.floating) else value
