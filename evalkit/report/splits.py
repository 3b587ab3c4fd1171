"""Splits as text: what a build did, what verification found, what there is."""

from __future__ import annotations

from collections.abc import Sequence

from evalkit.canonical import short
from evalkit.report.plain import table
from evalkit.splits import BuildReport, Manifest, VerifyReport


def build_text(report: BuildReport) -> str:
    """Roles with their sizes and roots, and what was left out or merged."""
    manifest = report.manifest
    words = {
        "built": "built",
        "unchanged": "unchanged, built before",
        "restored": "restored: the manifest was here, now the items are too",
        "extended": "extended",
    }
    lines = [f"{manifest.name} {words[report.outcome]}: {report.n_items} items in {report.n_clusters} clusters", ""]
    lines.append(roles_table(manifest, report))
    lines.append("")
    if report.n_left_over:
        lines.append(f"  {report.n_left_over} items beyond all sizes are not stored")
    if report.n_boilerplate:
        lines.append(
            f"  {report.n_boilerplate} runs of 13 words stand in so many clusters that they count as boilerplate"
        )
    if report.n_overlap_within:
        lines.append(
            f"  ! {report.n_overlap_within} items overlap with others of their own role and count as independent; "
            "--merge-overlaps joins them"
        )
    if report.merged:
        lines.append(f"  {len(report.merged)} clusters were joined with others that they overlap")
    label = (
        "DEMO, not secret" if manifest.secret == "demo" else "private: keep .evalkit/ safe, its loss cannot be mended"
    )
    lines.append(f"  root {manifest.root}; secret: {label}")
    return "\n".join(lines)


def roles_table(manifest: Manifest, report: BuildReport | None = None) -> str:
    """A row a role."""
    rows = []
    for role, entry in manifest.roles.items():
        asked = report.asked.get(role, entry.asked) if report else entry.asked
        size = str(entry.n_items) if entry.n_items == asked else f"{entry.n_items} of {asked} asked"
        rows.append([role, size, str(entry.n_clusters), short(entry.root)])
    return table(["role", "items", "clusters", "root"], rows)


def verify_text(report: VerifyReport) -> str:
    """One line for a split that is as built, else a line a fault."""
    if report.ok:
        count = sum(role.n_items for role in report.roles)
        return f"{report.name}: all {count} items of {len(report.roles)} roles are those of the manifest"
    return "\n".join(report.faults)


def splits_text(found: Sequence[Manifest]) -> str:
    """All split sets with their roles."""
    if not found:
        return "no splits; evalkit split build SOURCE --name NAME --sizes dev=300,… --cluster-by FIELD"
    return "\n\n".join(f"{manifest.name}\n{roles_table(manifest)}" for manifest in found)
