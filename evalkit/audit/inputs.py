"""Scores and labels as users have them: CSV, JSONL or Parquet, wide or long, under whatever column names.

1. A name is a column of the file, or a role that `--map ROLE=COLUMN` gives to one; `COLUMN+COLUMN` joins two to a key.
   A column that bears a role's name has that role. Nothing is guessed beyond that.
2. A cell is a value, or has none for one of few reasons: missing, unparsed, nan, or what a status column says. The
   reason is kept; a value is never made up.
3. A duplicate row that says the same is counted and passed over; one that says something else is refused by row.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from evalkit.canonical import digest, digest_bytes
from evalkit.errors import BadInput, kind_of
from evalkit.splits import read_measurements

ROLES = {
    "sample_id": "what scores and labels share",
    "item_id": "the prompt",
    "cluster_id": "the unit of independence",
    "policy": "who wrote the response",
    "step": "its training step",
    "text": "the response, for its length",
    "length": "its length",
    "length_a": "length of the answer that stands first in the first order",
    "length_b": "length of the other answer of the pair",
    "outcome": "how its generation ended",
    "component": "the reward's name, in a long table",
    "status": "why a score has no value",
    "order": "in which order a pair was shown, where a sample has a row per order",
    "repeat": "which scoring of the sample, where it was scored several times",
    "annotator_id": "who labelled, in a long table",
    "dimension": "what was labelled, in a long table",
    "value": "the score or label, in a long table",
}
DATA_ROLES = {
    "prompt": "what was asked, of data that are to be scored",
    "reference": "a known good answer that a judge is shown",
    "a": "the first answer of a pair",
    "b": "the second answer of a pair",
    "chosen": "the preferred answer of a pair",
    "rejected": "the other answer of a pair",
    "source": "the file a pair came from",
    "chosen_score": "a scorer's value of the chosen answer",
    "rejected_score": "a scorer's value of the rejected answer",
}
"""Roles in data that are scored, and in preference sets."""
OK = "ok"
Cell = tuple[Any, str]
Shown = tuple[str, str]
"""Order and repeat of a row; empty where the table has no such role."""
JOINER = "\x1f"


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows of one file by column."""

    source: str
    rows: list[int]
    """Row numbers as a person counts them in the file."""
    cells: dict[str, list[Any]]
    roles: Mapping[str, str]
    """Role → column or columns joined by `+`."""

    def has(self, name: str) -> bool:
        """Whether a role or column is there."""
        return name in self.roles or name in self.cells

    def get(self, name: str) -> list[Any]:
        """Cells of a role or a column; of several joined to one text where the role says so.

        Raises:
            BadInput: no such column.
        """
        wanted = self.roles.get(name, name)
        if wanted in self.cells:
            return self.cells[wanted]
        parts = wanted.split("+")
        lost = next((part for part in parts if part not in self.cells), None)
        if lost is not None:
            raise BadInput(f"{self.source}: no column {lost}{self._mend(name, lost)}")
        joined = zip(*(self.cells[part] for part in parts), strict=True)
        return [None if any(_empty(cell) for cell in row) else JOINER.join(map(str, row)) for row in joined]

    def _mend(self, name: str, lost: str) -> str:
        near = difflib.get_close_matches(lost, self.cells, 1, 0.6)
        there = "its columns are " + ", ".join(self.cells)
        mend = f"; did you mean {near[0]}? {there}" if near else f"; {there}"
        return mend + (f"; name the right one with --map {name}=COLUMN" if name in {**ROLES, **DATA_ROLES} else "")


@dataclass(frozen=True, slots=True)
class Scores:
    """What scorers said: a row per sample."""

    source: str
    rows: list[int]
    sample_ids: list[str]
    values: dict[str, list[Any]]
    """By component: numbers, or texts for verdicts; None where there is no value."""
    statuses: dict[str, list[str]]
    """By component: `ok`, or why there is no value."""
    about: dict[str, list[Any]]
    """Item, cluster, policy, step, length, outcome and further columns of the samples, where the file has them."""
    duplicates: list[int]
    """Rows passed over, for they repeat another word for word."""
    several: dict[str, list[dict[Shown, Cell]]] | None = None
    """By component and sample, every cell by (order, repeat); None where the table has neither role. `values` and
    `statuses` are then empty until `several.combined` makes one of many by the rules of the spec."""


@dataclass(frozen=True, slots=True)
class Labels:
    """What humans said: a row per sample, a column per annotator."""

    source: str
    rows: list[int]
    sample_ids: list[str]
    annotators: list[str]
    ratings: list[list[Any]]
    """By sample, then annotator; None where there is none."""
    unparsed: list[int]
    """Rows whose label could not be read."""
    about: dict[str, list[Any]]
    duplicates: list[int] = field(default_factory=list)
    kinds: frozenset[str] = frozenset()
    """Kinds of the label cells as the file has them."""


def read_columns(path: Path, mapping: Mapping[str, str]) -> Columns:
    """A table file by column.

    Raises:
        BadInput: not there, of another kind, a faulty row, no rows at all, or a mapping to a column that is not there.
    """
    rows: list[int] = []
    cells: dict[str, list[Any]] = {}
    for row in read_measurements(path):
        for name, cell in row.fields.items():
            column = cells.get(name)
            if column is None:
                column = cells[name] = [None] * len(rows)  # JSON rows need not have all fields
            column.append(cell)
        rows.append(row.number)
        for column in cells.values():
            if len(column) < len(rows):
                column.append(None)
    if not rows:
        raise BadInput(f"{path}: no rows; give a table with a header and at least one row")
    roles = {role: role for role in (*ROLES, *DATA_ROLES) if role in cells}
    roles |= {role: column for role, column in mapping.items() if all(part in cells for part in column.split("+"))}
    return Columns(str(path), rows, cells, roles)


def parse_mapping(pairs: Sequence[str]) -> dict[str, str]:
    """`ROLE=COLUMN` texts as a mapping.

    Raises:
        BadInput: not of that form, an unknown role, or a role given twice.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        role, equals, column = pair.partition("=")
        if not equals or not role or not column:
            raise BadInput(f"--map {pair!r}: not ROLE=COLUMN; write such as --map sample_id=uid")
        known = {**ROLES, **DATA_ROLES}
        if role not in known:
            near = difflib.get_close_matches(role, known, 1, 0.5)
            mend = f"did you mean {near[0]}?" if near else "roles are " + ", ".join(known)
            raise BadInput(f"--map {role}: no role; {mend}")
        if role in found:
            raise BadInput(f"--map {role}: given twice; keep one")
        found[role] = column
    return found


def file_digest(path: Path) -> str:
    """Digest of a file's bytes."""
    return digest_bytes("audit-input", path.read_bytes())


def mapping_digest(mapping: Mapping[str, str], annotators: Sequence[str]) -> str:
    """Digest of how columns were read: another reading is another audit."""
    return digest("audit-columns", {"roles": dict(mapping), "annotators": list(annotators)})


def scores_of(columns: Columns, components: Sequence[str], about: Sequence[str], *, categorical: bool) -> Scores:
    """The scores in a table: long where it has the roles `component` and `value`, else a column per component.

    Args:
        columns: the file.
        components: names that must be there.
        about: further columns to keep, where they are there.
        categorical: values are labels and kept as text.

    Raises:
        BadInput: no sample id, a missing component, or two rows of one sample that differ.
    """
    ids = keys_of(columns)
    extra = [name for name in (*ROLES, *about) if name not in NOT_ABOUT and columns.has(name)]
    if columns.has("order") or columns.has("repeat"):
        return _several_scores(columns, ids, components, extra, categorical)
    if columns.has("component") and columns.has("value"):
        return _long_scores(columns, ids, components, extra, categorical)
    read = {name: _values(columns.get(name), categorical) for name in components}
    outcomes = columns.get("status") if columns.has("status") else None
    if outcomes is not None:
        read = {name: _with_status(values, outcomes) for name, values in read.items()}
    seen: dict[str, int] = {}
    kept, duplicates = [], []
    for i, key in enumerate(ids):
        first = seen.setdefault(key, i)
        if first == i:
            kept.append(i)
            continue
        for name in components:
            if read[name][i] != read[name][first]:
                raise _contradiction(
                    columns, key, first, i, name, f"keep one row a sample, or add a column component; {SEVERAL}"
                )
        duplicates.append(columns.rows[i])
    return Scores(
        columns.source,
        [columns.rows[i] for i in kept],
        [ids[i] for i in kept],
        {name: [read[name][i][0] for i in kept] for name in components},
        {name: [read[name][i][1] for i in kept] for name in components},
        {name: [columns.get(name)[i] for i in kept] for name in extra},
        duplicates,
    )


def labels_of(
    columns: Columns, label: str, annotators: Sequence[str], about: Sequence[str], *, categorical: bool
) -> Labels:
    """The labels in a table: long where it has the role `value`, a blinded sheet, or a column per annotator.

    Args:
        columns: the file.
        label: the dimension: a column, or what the role `dimension` must say in a long table.
        annotators: columns that hold one annotator's labels each; empty takes the column `label`.
        about: further columns to keep.
        categorical: labels are kept as text.

    Raises:
        BadInput: no sample id, no such dimension or annotator, or two labels of one annotator for one sample.
    """
    ids = keys_of(columns)
    extra = [name for name in (*ROLES, *about) if name not in NOT_ABOUT and columns.has(name)]
    rows = range(len(ids))
    if annotators:
        cells = {name: columns.get(name) for name in annotators}
        entries = [(i, name, cells[name][i]) for i in rows for name in annotators]
    else:
        given = columns.get("value") if columns.has("value") and not columns.has(label) else columns.get(label)
        who = next((columns.get(name) for name in ("annotator_id", "annotator") if columns.has(name)), None)
        entries = [(i, "" if who is None or _empty(who[i]) else str(who[i]), given[i]) for i in rows]
        if columns.has("dimension"):
            said = columns.get("dimension")
            if label not in (known := dict.fromkeys(map(str, said))):
                raise BadInput(f"{columns.source}: no dimension {label}; it has {', '.join(known)}")
            entries = [entry for entry in entries if str(said[entry[0]]) == label]
    return _labels(columns, ids, entries, extra, categorical)


def dimensions_of(
    columns: Columns, names: Sequence[str], annotators: Sequence[str], about: Sequence[str]
) -> dict[str, Labels]:
    """Further dimensions of the labels: columns of their own, or rows of a long table that name them.

    Raises:
        BadInput: no such dimension, labels in a column per annotator, which hold one dimension only, or as `labels_of`.
    """
    for name in names:
        if columns.has("dimension") and columns.has("value"):
            continue
        if annotators and not columns.has(name):
            raise BadInput(
                f"{columns.source}: the columns {', '.join(annotators)} hold one dimension, and component_labels asks "
                f"for {name}; give it a column, or a long table with annotator_id, dimension and value"
            )
        columns.get(name)
    return {name: labels_of(columns, name, (), about, categorical=False) for name in names}


NOT_ABOUT = ("sample_id", "component", "status", "order", "repeat", "annotator_id", "dimension", "value")


def keys_of(columns: Columns) -> list[str]:
    """The sample id of each row, as text: that of the role `sample_id`, else of `item_id`.

    Raises:
        BadInput: neither is there, or a row has none.
    """
    name = "sample_id" if columns.has("sample_id") else "item_id"
    if not columns.has(name):
        raise BadInput(
            f"{columns.source}: no column sample_id; its columns are {', '.join(columns.cells)}; name what scores and "
            "labels share with --map sample_id=COLUMN, or COLUMN+COLUMN"
        )
    cells = columns.get(name)
    for row, cell in zip(columns.rows, cells, strict=True):
        if _empty(cell) or (isinstance(cell, float) and math.isnan(cell)):
            raise BadInput(
                f"{columns.source}, row {row}, field {columns.roles[name]}: null where an id belongs; fill it in"
            )
    return [str(cell).strip() for cell in cells]


MOST = 1e39
"""Beyond this a number is as good as infinite: no float32 holds it (3.4e38), and its moments overflow."""


def number_of(cell: Any) -> Cell:
    """A cell as a number, or why it is none: `missing`, `nan` (infinite, or beyond 1e39, too) or `unparsed`."""
    if _empty(cell):
        return None, "missing"
    if isinstance(cell, str):
        text = cell.strip().lower()
        if text in ("true", "false"):
            return float(text == "true"), OK
        try:
            value = float(text)
        except ValueError:
            return None, "unparsed"
    elif isinstance(cell, bool | int | float | Decimal):
        value = math.inf if not -MOST <= cell <= MOST else float(cell)
    else:
        return None, "unparsed"
    return (value, OK) if abs(value) <= MOST else (None, "nan")


def label_of(cell: Any) -> Cell:
    """A cell as a categorical label, which is its text without blanks around it; a whole number has no `.0`."""
    if _empty(cell):
        return None, "missing"
    if isinstance(cell, dict | list):
        return None, "unparsed"
    if isinstance(cell, float):
        if math.isnan(cell):
            return None, "missing"
        return (str(int(cell)) if cell.is_integer() else repr(cell)), OK
    return str(cell).strip(), OK


def _values(cells: Sequence[Any], categorical: bool) -> list[Cell]:
    read = label_of if categorical else number_of
    return [read(cell) for cell in cells]


def _with_status(values: list[Cell], statuses: Sequence[Any]) -> list[Cell]:
    """Values whose status is not ok have none."""
    return [
        value if _empty(status) or str(status) == OK else (None, str(status))
        for value, status in zip(values, statuses, strict=True)
    ]


def _long_scores(
    columns: Columns, ids: list[str], components: Sequence[str], extra: list[str], categorical: bool
) -> Scores:
    names, cells = columns.get("component"), _values(columns.get("value"), categorical)
    if columns.has("status"):
        cells = _with_status(cells, columns.get("status"))
    _check_components(columns, components)
    place: dict[str, int] = {}
    first_row: list[int] = []
    found: dict[str, dict[str, int]] = {name: {} for name in components}
    duplicates = []
    for i, (key, name) in enumerate(zip(ids, names, strict=True)):
        if key not in place:
            place[key] = len(first_row)
            first_row.append(i)
        if str(name) not in found:
            continue
        before = found[str(name)].setdefault(key, i)
        if before != i:
            if cells[before] != cells[i]:
                raise _contradiction(
                    columns, key, before, i, str(name), f"keep one row a sample and component; {SEVERAL}"
                )
            duplicates.append(columns.rows[i])
    cell_of = {
        name: [cells[at[key]] if key in at else (None, "missing") for key in place] for name, at in found.items()
    }
    return Scores(
        columns.source,
        [columns.rows[i] for i in first_row],
        list(place),
        {name: [value for value, _ in values] for name, values in cell_of.items()},
        {name: [status for _, status in values] for name, values in cell_of.items()},
        {name: [columns.get(name)[i] for i in first_row] for name in extra},
        duplicates,
    )


SEVERAL = "name what tells its rows apart with --map repeat=COLUMN or --map order=COLUMN"


def _check_components(columns: Columns, components: Sequence[str]) -> None:
    known = dict.fromkeys(str(name) for name in columns.get("component"))
    lost = next((name for name in components if name not in known), None)
    if lost is not None:
        near = difflib.get_close_matches(lost, known, 1, 0.6)
        raise BadInput(
            f"{columns.source}: no component {lost}; "
            + (f"did you mean {near[0]}? " if near else "")
            + f"it has {', '.join(known)}"
        )


def _several_scores(
    columns: Columns, ids: list[str], components: Sequence[str], extra: list[str], categorical: bool
) -> Scores:
    """A table with a row per order, per repeat, or both."""
    entries = _entries(columns, components, categorical)
    orders, repeats = (_named_cells(columns, role) for role in ("order", "repeat"))
    place: dict[str, int] = {}
    first_row: list[int] = []
    for i, key in enumerate(ids):
        if key not in place:
            place[key] = len(first_row)
            first_row.append(i)
    found: dict[str, list[dict[Shown, Cell]]] = {name: [{} for _ in first_row] for name in components}
    rows: dict[tuple[str, str, Shown], int] = {}
    duplicates = []
    for i, name, cell in entries:
        shown = (orders[i], repeats[i])
        before = rows.setdefault((name, ids[i], shown), i)
        of_sample = found[name][place[ids[i]]]
        if before != i:
            if of_sample[shown] != cell:
                mend = f"keep one row for each order and repeat of a sample; {SEVERAL}"
                raise _contradiction(columns, ids[i], before, i, name, mend)
            duplicates.append(columns.rows[i])
        of_sample[shown] = cell
    return Scores(
        columns.source,
        [columns.rows[i] for i in first_row],
        list(place),
        {},
        {},
        {name: [columns.get(name)[i] for i in first_row] for name in extra},
        list(dict.fromkeys(duplicates)),
        found,
    )


def _entries(columns: Columns, components: Sequence[str], categorical: bool) -> list[tuple[int, str, Cell]]:
    """Row, component and cell of every score, of a long or a wide table."""
    statuses = columns.get("status") if columns.has("status") else None
    long = columns.has("component") and columns.has("value")
    if long:
        _check_components(columns, components)
    found = []
    for name in components:
        cells = _values(columns.get("value" if long else name), categorical)
        if statuses is not None:
            cells = _with_status(cells, statuses)
        said = columns.get("component") if long else [name] * len(cells)
        found += [(i, name, cell) for i, cell in enumerate(cells) if str(said[i]) == name]
    return found


def _named_cells(columns: Columns, role: str) -> list[str]:
    """The order or repeat of each row as text; empty where the table has no such role."""
    if not columns.has(role):
        return [""] * len(columns.rows)
    found = [label_of(cell)[0] for cell in columns.get(role)]
    for row, name in zip(columns.rows, found, strict=True):
        if name is None:
            raise BadInput(f"{columns.source}, row {row}, field {role}: null where a name belongs; fill it in")
    return [str(name) for name in found]


def _labels(
    columns: Columns, ids: list[str], entries: list[tuple[int, str, Any]], extra: list[str], categorical: bool
) -> Labels:
    read = label_of if categorical else number_of
    place: dict[str, int] = {}
    first_row: list[int] = []
    people: dict[str, int] = {}
    said: dict[tuple[int, int], tuple[Any, int]] = {}
    unparsed, duplicates, kinds = [], [], set()
    for i, person, cell in entries:
        key = ids[i]
        if key not in place:
            place[key] = len(first_row)
            first_row.append(i)
        value, status = read(cell)
        if status in ("unparsed", "nan"):
            unparsed.append(columns.rows[i])
        if value is None:
            continue
        kinds.add(kind_of(cell))
        at = (place[key], people.setdefault(person, len(people)))
        if at in said:
            if said[at][0] != value:
                mend = "name who labelled with --map annotator_id=COLUMN, or keep one row a sample"
                raise _contradiction(columns, key, said[at][1], i, "label", mend)
            if not (columns.has("order") or columns.has("repeat")):  # there a sample's label stands in all its rows
                duplicates.append(columns.rows[i])
        said[at] = (value, i)
    ratings: list[list[Any]] = [[None] * len(people) for _ in first_row]
    for (row, person_code), (value, _) in said.items():
        ratings[row][person_code] = value
    return Labels(
        columns.source,
        [columns.rows[i] for i in first_row],
        list(place),
        list(people),
        ratings,
        unparsed,
        {name: [columns.get(name)[i] for i in first_row] for name in extra},
        duplicates,
        frozenset(kinds),
    )


def _contradiction(columns: Columns, key: Hashable, first: int, second: int, what: str, mend: str) -> BadInput:
    shown = str(key).replace(JOINER, "+")
    return BadInput(
        f"{columns.source}, rows {columns.rows[first]} and {columns.rows[second]}, field {what}: two values for sample "
        f"{shown}; {mend}, or give sample_id more columns (COLUMN+COLUMN)"
    )


def _empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())
