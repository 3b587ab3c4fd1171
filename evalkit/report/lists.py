"""Lists as text: runs, looks, splits, ledger rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evalkit.ledger import Event
from evalkit.report.plain import NONE, number, table
from evalkit.runs import RunFolder

if TYPE_CHECKING:
    from evalkit.api import SplitLooks


def runs_text(found: Sequence[RunFolder]) -> str:
    """A row a run."""
    if not found:
        return "no runs; evalkit run PROTOCOL --split ROLE --model MODEL"
    rows = []
    for folder in found:
        entry = run_entry(folder)
        step = NONE if entry["step"] is None else str(entry["step"])
        under = ", ".join(entry["protocols"])
        rows.append([entry["run_id"], entry["model"], step, str(entry["repeat"]), entry["split"], under, entry["state"],
                     entry["started"]])  # fmt: skip
    return table(["run", "model", "step", "repeat", "split", "protocol", "state", "started"], rows)


def run_entry(folder: RunFolder) -> dict[str, Any]:
    """What the list says of one run."""
    header = folder.header()
    mark = header["fingerprint"]
    return {
        "run_id": folder.run_id,
        "model": mark["name"],
        "step": mark["step"],
        "train_seed": mark["train_seed"],
        "repeat": header["repeat"],
        "split": header["split"]["name"],
        "protocols": [lock.id for lock in folder.protocols()] or [header["protocol"]],
        "state": "invalid" if folder.invalid else "finished" if folder.finished else "unfinished",
        "started": header["started"],
        "path": folder.path,
    }


def looks_text(name: str, found: Sequence[SplitLooks]) -> str:
    """Looks by split and protocol, and the optimism of choosing the best."""
    if not found:
        return f"no looks at {name}"
    parts = []
    for group in found:
        rows = [
            [str(look.seq), look.when, look.who, look.model, str(look.repeat), look.purpose] for look in group.looks
        ]
        parts.append(f"{group.split} under {group.protocol}: {len(rows)} looks")
        parts.append(table(["seq", "when", "who", "model", "repeat", "purpose"], rows))
        parts.append(f"  {_luck(group)}")
    return "\n".join(parts)


def _luck(group: SplitLooks) -> str:
    luck = group.optimism
    if luck.expected is None:
        return f"choosing the best of {luck.m}: cannot tell ({luck.why})"
    if luck.standard_error is None:
        return luck.why
    return (
        f"choosing the best of {luck.m} buys {number(luck.expected, 4)} of success by chance alone, if all are equally "
        f"good (E[max of {luck.m}] × {number(luck.standard_error, 4)} / √2, the standard error of a paired difference: "
        f"median over {luck.pairs} pairs)"
    )


def events_text(found: Sequence[Event]) -> str:
    """A row an event."""
    rows = [
        [
            str(row.seq),
            row.when,
            row.who,
            row.event,
            row.split or "",
            row.protocol or "",
            row.model or "",
            row.purpose or "",
        ]
        for row in found
    ]
    return (
        table(["seq", "when", "who", "event", "split", "protocol", "model", "purpose"], rows)
        if rows
        else "empty ledger"
    )
