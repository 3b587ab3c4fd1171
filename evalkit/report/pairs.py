"""A preference set's faults as text."""

from __future__ import annotations

from evalkit.audit import PairsAudit
from evalkit.report.audit import finding_lines
from evalkit.report.plain import NONE, interval, table


def pairs_text(result: PairsAudit) -> str:
    """What was left out, what length and scores say, findings, then the sources."""
    longer = result.longer
    lost = ", ".join(f"{cause} {count}" for cause, count in result.left_out.items()) or "nothing"
    head = [
        f"{result.file}: {result.rows} pairs, {result.used} used; left out: {lost}",
        "",
        f"  the longer is chosen: {interval(longer)} of {longer.n} pairs, {longer.n_clusters} clusters",
    ]
    if result.agreement is not None:
        found = result.agreement
        head.append(f"  the scores agree: {interval(found)} of {found.n} pairs, {found.n_clusters} clusters")
    head.append(f"    {result.rules}")
    if result.findings:
        head += ["", *(line for finding in result.findings for line in finding_lines(finding))]
    if result.sources:
        rows = [
            [
                source.name,
                str(source.rows),
                interval(source.longer),
                NONE if source.agreement is None else interval(source.agreement),
                str(source.contradictions),
                str(source.duplicates),
            ]
            for source in result.sources
        ]
        head += ["", table(["source", "pairs", "longer chosen", "scores agree", "contradicted", "repeated"], rows)]
    return "\n".join(head)
