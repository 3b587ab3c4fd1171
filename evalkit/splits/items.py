"""From rows to items: ids, clusters, strata, and the row's content as text.

1. An id is the id field's text, else the digest of the content. Two rows with one id are an error.
2. A cluster is the cluster field's value, else the item itself. Ids, clusters and strata are text or whole numbers; a
   whole number counts as its text, so 7 and "7" are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from evalkit.errors import BadInput, kind_of
from evalkit.splits.content import NotContent, content_id, row_text
from evalkit.splits.read import Row, read_rows
from evalkit.splits.words import nearest
from evalkit.tables import ITEMS


@dataclass(frozen=True, slots=True)
class Naming:
    """Which fields of a source say what."""

    id_field: str | None
    """None: the id is the content's digest."""
    cluster_by: str | None
    """None: every item is its own cluster."""
    stratify: str | None
    """None: one stratum."""
    text_fields: tuple[str, ...] | None
    """Fields compared for overlap; None: every text but those of the three fields above."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Fields that name an item and are not compared."""
        return tuple(name for name in (self.id_field, self.cluster_by, self.stratify) if name is not None)


def read_items(source: Path | str, naming: Naming) -> pl.DataFrame:
    """The items of a source: the columns of `ITEMS`, sorted by item_id.

    Raises:
        BadInput: a fault of the source, a missing field, an id that is null or stands twice, or no row at all.
    """
    columns: dict[str, list[str | None]] = {name: [] for name in ITEMS.columns}
    seen: dict[str, int] = {}
    for row in read_rows(source):
        place = f"{source}, row {row.number}"
        item = _item(row, naming, place)
        item_id = str(item[0])
        if item_id in seen:
            same = f"id {item_id} stands" if naming.id_field else "the same content stands"
            mend = "give every item its own id" if naming.id_field else "keep one of them, or name an id field"
            raise BadInput(f"{place}, field {naming.id_field or 'id'}: {same} at row {seen[item_id]} already; {mend}")
        seen[item_id] = row.number
        for name, value in zip(columns, item, strict=True):
            columns[name].append(value)
    if not seen:
        raise BadInput(f"{source}: no items in it; give a source with at least one row")
    return pl.DataFrame(columns, schema=ITEMS.polars()).sort("item_id")


def _item(row: Row, naming: Naming, place: str) -> tuple[str, str, str | None, str]:
    try:
        text = row_text(row.fields)
    except NotContent as error:
        raise BadInput(f"{place}: {error}") from None
    item_id = _label(row, naming.id_field, place) if naming.id_field else content_id(text)
    cluster = _label(row, naming.cluster_by, place) if naming.cluster_by else item_id
    stratum = _label(row, naming.stratify, place) if naming.stratify else None
    _check_there(row, naming.text_fields or (), place)
    return item_id, cluster, stratum, text


def _check_there(row: Row, names: Sequence[str], place: str) -> None:
    for name in names:
        if name not in row.fields:
            known = ", ".join(row.fields) or "none"
            raise BadInput(f"{place}, field {name}: not there{nearest(name, row.fields)}; its fields are {known}")


def _label(row: Row, name: str, place: str) -> str:
    _check_there(row, (name,), place)
    value = row.fields[name]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise BadInput(f"{place}, field {name}: {kind_of(value)} where text belongs; name it with text")
    if not value:
        raise BadInput(f"{place}, field {name}: empty text; fill it in")
    return value
