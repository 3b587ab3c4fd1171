"""Looks: results are shown only after the ledger knows; and what choosing the best of many looks adds by luck."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

import numpy as np
import polars as pl

from evalkit.errors import EvalkitError
from evalkit.ledger import Ledger, Look
from evalkit.protocol import Lock
from evalkit.runs.alarms import Alarm
from evalkit.runs.evidence import SUCCESS, load_evidence
from evalkit.runs.folder import RunFolder, list_runs
from evalkit.splits import PUBLIC_LOOKS
from evalkit.stats import cluster_standard_error, expected_maximum, selection_optimism
from evalkit.workspace import Workspace

MOST_PAIRS = 50
"""Pairs of runs from which the standard error of a difference is taken; the median settles long before."""


def record_look(workspace: Workspace, run: RunFolder, lock: Lock, purpose: str) -> bool:
    """Write into the ledger that this run's results are about to be shown; whether it is the first look.

    Call it before anything of the results reaches a person.
    """
    header = run.header()
    mark = header["fingerprint"]
    with Ledger(workspace.ledger) as ledger:
        return ledger.record_look(
            protocol_digest=lock.digests.protocol,
            protocol_id=lock.id,
            split_name=header["split"]["name"],
            split_root=header["split"]["root"],
            model_digest=mark["model_digest"],
            model_name=mark["name"],
            repeat=header["repeat"],
            purpose=purpose,
            run_id=run.run_id,
        )


def worn_out(workspace: Workspace, run: RunFolder) -> Alarm | None:
    """A warning where a run's public split was looked at with more models than its soft budget."""
    split = run.header()["split"]
    if split["role"] != "public":
        return None
    with Ledger(workspace.ledger) as ledger:
        m = models_looked_at(ledger.looks(split_root=split["root"]))
    if m <= PUBLIC_LOOKS:
        return None
    what = f"{m} models were looked at on {split['name']}, past its soft budget of {PUBLIC_LOOKS}: the best of them is "
    return Alarm(
        "LOOKS", f"{what}partly luck; `evalkit split looks {split['name'].partition('/')[0]}` says how much", 1.0, m
    )


def models_looked_at(looks: Sequence[Look]) -> int:
    """Different models among looks; floors and controls are nobody's candidate."""
    return len({look.model_digest for look in looks if not look.model.startswith("baseline:")})


@dataclass(frozen=True, slots=True)
class Optimism:
    """How much the best of m looks exceeds its true value, by chance alone, when all are equally good."""

    m: int
    """Models looked at."""
    expected: float | None
    """In the unit of success; None where it cannot be told."""
    standard_error: float | None
    """Median standard error of the paired difference of two of them."""
    pairs: int
    """Pairs of runs that the standard error rests on."""
    why: str = ""


def optimism(workspace: Workspace, protocol_digest: str, split_root: str, items: pl.DataFrame, m: int) -> Optimism:
    """What choosing the best of `m` models on one split under one protocol buys: E[max of m normals] · se / √2.

    The standard error is that of paired differences between runs that lie in the workspace; dividing by √2 gives the
    noise of one run about what all have in common.
    """
    if m < 2:
        return Optimism(
            m, 0.0 if m else None, None, 0, "one model: nothing was chosen" if m else "floors and controls only"
        )
    columns = _success_by_item(workspace, protocol_digest, split_root, items)
    errors = [error for pair in list(combinations(columns, 2))[:MOST_PAIRS] if (error := _error(*pair)) is not None]
    if not errors:
        return Optimism(m, None, None, 0, f"{expected_maximum(m):.2f} standard errors; their size needs two runs here")
    error = median(errors)
    return Optimism(m, selection_optimism(error, m), error, len(errors))


def _success_by_item(
    workspace: Workspace, protocol_digest: str, split_root: str, items: pl.DataFrame
) -> Sequence[pl.DataFrame]:
    found: dict[str, pl.DataFrame] = {}
    for run in list_runs(workspace.runs):
        header = run.header()
        locks = [lock for lock in run.protocols() if lock.digests.protocol == protocol_digest]
        control = header["fingerprint"]["assurance"] == "control"
        if header["split"]["root"] != split_root or not locks or control or not run.finished or run.invalid:
            continue
        try:
            frame = load_evidence(run, locks[0], items).frame
        except EvalkitError:
            continue  # a run that cannot be read says nothing of the noise; it is named by every command that needs it
        means = frame.group_by("item_id", maintain_order=True).agg(pl.col("cluster").first(), pl.col(SUCCESS).mean())
        found.setdefault(header["address"]["model"], means)
    return list(found.values())


def _error(left: pl.DataFrame, right: pl.DataFrame) -> float | None:
    both = left.join(right, on="item_id", suffix="_right").drop_nulls([SUCCESS, f"{SUCCESS}_right"])
    error = cluster_standard_error((both[SUCCESS] - both[f"{SUCCESS}_right"]).to_numpy(), both["cluster"].to_numpy())
    return None if np.isnan(error) or error == 0 else error
