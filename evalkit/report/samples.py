"""Samples as text: what a person reads one by one."""

from __future__ import annotations

from collections.abc import Sequence

from evalkit.report.plain import number, visible
from evalkit.runs import Selected

LONGEST = 2000
"""Characters of a completion shown; the whole is in `--json` and in the sheet."""


def samples_text(selected: Sequence[Selected]) -> str:
    """Each sample with its item, its scores and its completion, text as text."""
    return "\n\n".join(_sample(row) for row in selected) if selected else "no samples chosen"


def _sample(row: Selected) -> str:
    scores = ", ".join(f"{name} {number(value)}" for name, value in row.values.items())
    head = f"[{row.pick}] {row.sample_id} · item {visible(row.item_id)} · trial {row.trial} · {row.outcome}"
    lines = [head, f"  item: {visible(row.prompt_fields)}",
             f"  success {number(row.success)}, reward {number(row.reward)}: {scores}"]  # fmt: skip
    if row.answer is not None:
        lines.append(f"  answer read: {visible(row.answer)}")
    if row.completion is None:
        return "\n".join([*lines, "  no completion"])
    text = row.completion if len(row.completion) <= LONGEST else row.completion[:LONGEST] + " … (cut)"
    return "\n".join([*lines, *(f"  | {line}" for line in visible(text).split("\n"))])
