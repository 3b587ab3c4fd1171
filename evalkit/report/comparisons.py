"""A comparison of two runs as text."""

from __future__ import annotations

from evalkit.report.plain import interval, number, table
from evalkit.report.stability import stability_lines
from evalkit.runs import Comparison

FORCED = "FORCED: NOT COMPARABLE"


def comparison_text(found: Comparison) -> str:
    """Standing with reasons, then the paired differences with test, discordant items and what could have been found."""
    stamp = f"{FORCED} · " if found.forced else ""
    lines = [f"{stamp}{found.left_model} ({found.left}) → {found.right_model} ({found.right}) under {found.protocol}"]
    standing = found.comparability
    lines.append(f"  {standing.standing}")
    lines += [f"  not comparable: {reason}" for reason in standing.reasons]
    lines += [f"  evidence: {text}" for text in standing.evidence]
    lines += [f"  differs beside the protocol: {text}" for text in standing.warnings]
    if not found.results:
        return "\n".join(lines)
    rows = []
    for result in found.results:
        p = f"{result.test.p:.4f}" if result.test.p >= 0.0001 else f"{result.test.p:.1e}"
        rows.append([
            result.name, number(result.left), number(result.right), interval(result.difference), p,
            f"{result.better}/{result.worse}/{result.equal}", number(result.detectable),
        ])  # fmt: skip
    header = ["", "left", "right", "difference [95 %]", "p", "items better/worse/equal", "detectable"]
    lines += ["", table(header, rows), ""]
    first = found.results[0]
    lines.append(f"  {first.difference.method}; {first.items} items, {first.difference.n_clusters} clusters")
    lines.append(f"  p: {first.test.method}; smallest possible {first.test.smallest_p:.1g}")
    lines.append("  detectable: smallest true difference found with 80 % power at α = .05, two-sided")
    for result in found.results:
        if result.items_dropped:
            lines.append(
                f"  {result.name}: {result.items_dropped} items without a value in one of the runs are left out"
            )
        if result.difference.why:
            lines.append(f"  {result.name}: {result.difference.why}")
    seeds = "not known" if found.training_seeds is None else str(found.training_seeds)
    lines.append(f"  training seeds behind the two models: {seeds} in all; the interval covers items, not seeds")
    if found.stability is not None:
        lines += ["", *stability_lines(found.stability)]
    return "\n".join(lines)
