"""An audit as text that a person reads in twenty seconds; everything else is in its JSON."""

from __future__ import annotations

from evalkit.audit import Audit, AuditSpec, Finding, Ledger, Line
from evalkit.report.plain import NONE, interval, number, percent, table

MARKS = {"blocking": "!!", "warning": "! ", "info": "  "}


SHORT = ("levels", "unparsed", "against")
"""Sections that the summary shows whole, beside the registered number and people."""
PEOPLE = 3
CORRECTED = ("PPI++", "Rogan–Gladen")
READ = 2
"""Of each kind of sample to read."""


def audit_text(result: Audit, details: bool = False) -> str:
    """Verdict, who is missing, the registered number beside what people reach, findings, other levels, what to read.

    Args:
        result: the audit.
        details: show every number of every section, and every sample to read.
    """
    spec = result.spec
    lines = [
        f"{result.verdict.word.upper()}: {spec.reward} against {spec.label} ({result.verdict.rule})",
        "",
        _ledger(result.ledger),
        "",
        f"  {'registered' if result.frozen else 'not registered'}: {_named(result.registered)} "
        f"{interval(result.registered.estimate)}",
        f"    {_basis(result.registered)}",
        f"    {rules_text(spec)}",
    ]
    for case in result.worst_cases:
        lines.append(f"    with {case.rules}: {interval(case.estimate)}")
    if result.findings:
        lines += ["", *(line for finding in result.findings for line in finding_lines(finding))]
    left = []
    for name, found in result.sections.items():
        shown = found if details or name in SHORT else _short(name, found)
        if shown:
            lines += ["", name, _lines(shown)]
        if len(shown) < len(found):
            left.append(f"{name} {len(found) - len(shown)}")
    if left:
        lines += ["", f"more numbers with --details, and in audit.json: {', '.join(left)}"]
    lines += ["", "read next", _reading(result, None if details else READ)]
    return "\n".join(lines)


def _short(name: str, found: list[Line]) -> list[Line]:
    """Of people the ceiling, the reward beside it, and how far they agree; on the human scale what was corrected."""
    if name == "human scale":
        return [line for line in found if line.name.endswith(CORRECTED)]
    if name != "people":
        return []
    alpha = [line for line in found if line.name.startswith("Krippendorff")]
    return [*found[:PEOPLE], *[line for line in alpha[:1] if line not in found[:PEOPLE]]]


def rules_text(spec: AuditSpec) -> str:
    """Every rule the registered number hangs on."""
    groups = (
        f"groups {spec.group_by}, {spec.weights} weights, undefined {spec.undefined}; " if spec.level == "group" else ""
    )
    thresholds = f"usable from {spec.thresholds.usable}, trustworthy from {spec.thresholds.trustworthy}"
    of_labels = f"unparsed {spec.unparsed}; " if spec.categorical else ""
    ties = f"ties {spec.ties}; " if spec.statistic == "ordering_accuracy" else ""
    return (
        f"level {spec.level}; clusters {spec.cluster_by}; {groups}{ties}{of_labels}missing {spec.missing}; "
        f"annotators {spec.annotators}; {_several(spec)}{thresholds}"
    )


def _several(spec: AuditSpec) -> str:
    orders = f"orders {spec.combine_orders}; verdicts name the {spec.verdict_names}; " if spec.orders else ""
    return orders + (f"repeats {spec.repeats}; " if spec.repeats else "")


def _ledger(ledger: Ledger) -> str:
    lost = ", ".join(f"{cause} {count}" for cause, count in ledger.unscored.items())
    head = ["labelled", "used", "no score", "no label", "not labelled", "cut", "repeated rows"]
    row = [
        str(ledger.eligible),
        f"{ledger.used} ({percent(ledger.coverage)})",
        f"{ledger.eligible - ledger.used}" + (f" ({lost})" if lost else ""),
        *(str(count) for count in (ledger.no_gold, ledger.unlabelled, ledger.truncated, ledger.duplicates)),
    ]
    return table(head, [row])


def _named(line: Line) -> str:
    return f"{line.name}, {line.level}"


def _basis(line: Line) -> str:
    found = line.estimate
    why = f"; {found.why}" if found.why else ""
    return f"n = {found.n}, {found.n_clusters} clusters; {found.method}{why}"


def finding_lines(finding: Finding) -> list[str]:
    """A finding with its next step and what to look at."""
    lines = [f"{MARKS[finding.severity]} {finding.code}: {finding.statement}", f"     next: {finding.next_step}"]
    if finding.evidence:
        lines.append(f"     see: {', '.join(finding.evidence)}")
    return lines


def _lines(found: list[Line]) -> str:
    rows = [
        [
            line.name,
            line.level,
            interval(line.estimate),
            str(line.estimate.n),
            str(line.estimate.n_clusters),
            line.rules + ("" if line.estimate.value is not None else f" ({line.estimate.why})"),
        ]
        for line in found
    ]
    return table(["", "level", "value", "n", "clusters", "rules"], rows)


def _reading(result: Audit, most: int | None) -> str:
    by_reason: dict[str, list[list[str]]] = {}
    for item in result.reading:
        row = [item.why, item.sample_id, _shown(item.reward), _shown(item.human)]
        by_reason.setdefault(item.why, []).append(row)
    rows = [row for found in by_reason.values() for row in found[:most]]
    return table(["why", "sample", "reward", "label"], rows)


def _shown(value: object) -> str:
    return number(value) if isinstance(value, float) else NONE if value is None else str(value).removeprefix("\x00")
