"""Several rows of one sample become one by the declared rules: orders of presentation, and repeated scorings.

1. Nothing is combined without a rule in the spec; a table with orders or repeats and a spec without is refused.
2. Repeats become one first, within each order; then the orders do.
3. What was said in each order and each repeat is kept: noise and position bias are read from it, not from the result.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalkit.audit.inputs import OK, Cell, Scores, Shown, number_of
from evalkit.audit.spec import AuditSpec
from evalkit.errors import BadInput

DISAGREE = "\x00orders disagree"
"""A sample that is right in at most one order; no label, and never an unparsed verdict."""


@dataclass(frozen=True, slots=True)
class Several:
    """What the rows of each sample said. Rows are those of the scores."""

    by_order: dict[str, list[Any]]
    """By order found: numbers, or verdicts as answers; None where there is no value. Empty without orders."""
    repeats: NDArray[np.float64] | None
    """Shape (samples, repeats), numbers of the first order, NaN where missing; None without repeats or for verdicts."""
    repeat_names: tuple[str, ...] = ()
    """What the table calls each repeat, numbers in their order; empty where `repeats` is None."""


def combined(scores: Scores, spec: AuditSpec) -> tuple[Scores, Several]:
    """One value per sample and component, by the rules of the spec.

    Raises:
        BadInput: the table has orders or repeats for which the spec has no rule, or an order it does not name.
    """
    if scores.several is None:
        _check_declared(scores, spec, [""], [""])
        return scores, Several({}, None)
    several = _only_what_matters(scores.several, spec)
    shown = {key for rows in several.values() for cells in rows for key in cells}
    orders, repeats = sorted({o for o, _ in shown}), sorted({r for _, r in shown}, key=_by_number)
    _check_declared(scores, spec, orders, repeats)
    orders = [name for name in spec.orders if name in orders] or [""]
    values, statuses = {}, {}
    of_reward: dict[str, list[Cell]] = {}
    for name, rows in several.items():
        found = {order: [_one_repeat(_answers(cells, order, spec), spec) for cells in rows] for order in orders}
        ones = [_one_order([found[order][i] for order in orders], spec) for i in range(len(rows))]
        values[name], statuses[name] = [value for value, _ in ones], [status for _, status in ones]
        if name == spec.reward:
            of_reward = found
    matrix = _matrix(several[spec.reward], orders[0], repeats, spec)
    return replace(scores, values=values, statuses=statuses), Several(
        {order: [value for value, _ in cells] for order, cells in of_reward.items() if order},
        matrix,
        () if matrix is None else tuple(repeats),
    )


def _by_number(name: str) -> tuple[float, str]:
    """Numbers in their order, then names in theirs: repeat 10 comes after repeat 9."""
    value, _ = number_of(name)
    return (math.inf if value is None else value), name


def _only_what_matters(
    several: dict[str, list[dict[Shown, Cell]]], spec: AuditSpec
) -> dict[str, list[dict[Shown, Cell]]]:
    """The cells without an order, or a repeat, that the spec does not name and that tells no two rows apart."""
    samples = [list(cells) for rows in several.values() for cells in rows]
    order = bool(spec.orders) or any(len({o for o, _ in keys}) > 1 for keys in samples)
    repeat = spec.repeats is not None or any(len({o for o, _ in keys}) < len(keys) for keys in samples)
    return {
        name: [{(o if order else "", r if repeat else ""): cell for (o, r), cell in cells.items()} for cells in rows]
        for name, rows in several.items()
    }


def _check_declared(scores: Scores, spec: AuditSpec, orders: list[str], repeats: list[str]) -> None:
    if orders != [""]:
        if not spec.orders:
            raise BadInput(
                f"{scores.source}: a column order, but the audit spec has no rule for it; declare orders "
                f"(for {', '.join(orders)}) and combine_orders"
            )
        strange = next((name for name in orders if name not in spec.orders), None)
        if strange is not None:
            raise BadInput(
                f"{scores.source}, field order: {strange!r} is none of the spec's orders "
                f"({', '.join(spec.orders)}); correct the table or the spec"
            )
    elif spec.verdict_names == "position":
        raise BadInput(
            f"{scores.source}: verdicts name positions, but no column says which order was shown; "
            "name it with --map order=COLUMN"
        )
    if repeats != [""] and spec.repeats is None:
        raise BadInput(
            f"{scores.source}: a column repeat, but the audit spec has no rule for it; declare repeats: "
            f"{'majority' if spec.categorical else 'mean'}"
        )


def _answers(cells: dict[Shown, Cell], order: str, spec: AuditSpec) -> list[Cell]:
    """A sample's cells in one order, with places turned into the labels that stood there."""
    found = [cell for (name, _), cell in cells.items() if name == order]
    if spec.verdict_names != "position":
        return found
    stood = dict(zip(spec.positions, spec.orders[order], strict=True))
    # A judge of places that writes a label has not been understood: it must not pass for that answer.
    return [
        cell if cell[0] is None else (stood.get(cell[0], _foreign(cell[0], spec, order)), cell[1]) for cell in found
    ]


def _foreign(word: str, spec: AuditSpec, order: str) -> str:
    return f"\x00{word}" if word in spec.orders[order] else word


def _one_repeat(cells: list[Cell], spec: AuditSpec) -> Cell:
    """The cells of one sample in one order as one."""
    given = [value for value, status in cells if status == OK]
    if not given:
        return (None, cells[0][1]) if cells else (None, "order missing")
    if len(cells) == 1:
        return cells[0]
    if spec.categorical:
        counts = Counter(given).most_common(2)
        if len(counts) == 2 and counts[0][1] == counts[1][1]:
            return None, "repeats tied"
        return counts[0][0], OK
    return float(np.median(given) if spec.repeats == "median" else np.mean(given)), OK


def _one_order(cells: list[Cell], spec: AuditSpec) -> Cell:
    """The cells of one sample, one per order found, as one. An order without a value leaves the sample without one."""
    if len(cells) == 1 or spec.combine_orders == "first":
        return cells[0]
    lost = next((cell for cell in cells if cell[1] != OK), None)
    if lost is not None:
        return lost
    values = [value for value, _ in cells]
    if not spec.categorical:
        return float(np.mean(values)), OK
    return (values[0] if len(set(values)) == 1 else DISAGREE), OK


def _matrix(
    rows: list[dict[Shown, Cell]], order: str, repeats: list[str], spec: AuditSpec
) -> NDArray[np.float64] | None:
    if spec.categorical or len(repeats) < 2:
        return None
    cells = [[of_sample.get((order, name), (None, ""))[0] for name in repeats] for of_sample in rows]
    return np.array([[np.nan if cell is None else cell for cell in row] for row in cells], dtype=np.float64)
