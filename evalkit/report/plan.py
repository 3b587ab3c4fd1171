"""A labelling plan as text."""

from __future__ import annotations

from evalkit.audit import AuditPlan, PlanRow
from evalkit.report.plain import NONE, number, percent, table


def plan_text(result: AuditPlan) -> str:
    """What is planned for and on what grounds, then a line for each number of labels per item."""
    stated = ", ".join(f"{name} {found.value:.4g} ({found.origin})" for name, found in result.assumptions.items())
    lines = [f"for {result.target}: {result.statistic}", f"  {stated}", ""]
    head = ["", "labels per item", "clusters", "items", "labels", "reached", "to expect", "cost", "of labelling all"]
    rows = [_row(row, i == result.cheapest and len(result.rows) > 1) for i, row in enumerate(result.rows)]
    lines.append(table(head, rows))
    lines += [
        f"  with {row.plan.labels_per_item} labels an item: {row.plan.why}" for row in result.rows if row.plan.why
    ]
    lines += [
        f"  only {found.value:.0f} rollouts: not enough for {row.plan.items} items; draw more"
        for row in result.rows
        if row.cost is not None and not row.cost.enough_rollouts and (found := result.assumptions["rollouts"])
    ]
    return "\n".join([*lines, *(f"  {note}" for note in result.notes)])


def _row(row: PlanRow, cheapest: bool) -> list[str]:
    plan, cost = row.plan, row.cost
    counts = [NONE if count is None else str(count) for count in (plan.clusters, plan.items, plan.labels)]
    return [
        "*" if cheapest else " ",
        str(plan.labels_per_item),
        *counts,
        number(plan.reached),
        number(plan.expected),
        NONE if cost is None else f"{cost.cost:g} of {cost.cost_of_all:g}",
        NONE if cost is None else percent(cost.share),
    ]
