"""Samples to read: the highest, the lowest and a random few, and a blinded sheet for human labels."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from evalkit.errors import BadInput
from evalkit.runs.evidence import Evidence
from evalkit.runs.folder import RunFolder

Pick = Literal["top", "bottom", "random"]


@dataclass(frozen=True, slots=True)
class Selected:
    """One sample chosen for reading."""

    pick: Pick
    sample_id: str
    item_id: str
    trial: int
    outcome: str
    success: float | None
    reward: float | None
    values: dict[str, float | None]
    """Value of each component."""
    answer: str | None
    completion: str | None
    prompt_fields: str
    """The item, as JSON text."""


def select_samples(
    run: RunFolder, evidence: Evidence, items: pl.DataFrame, *, top: int, bottom: int, random: int
) -> list[Selected]:
    """The `top` samples with the highest reward, the `bottom` with the lowest, and `random` others; no sample twice.

    The same run and counts give the same samples: ties and chance are settled by a hash of the sample's id. Samples
    without a reward can only come by chance.

    Raises:
        BadInput: a negative count.
    """
    if min(top, bottom, random) < 0:
        raise BadInput("--top, --bottom and --random: counts of samples, 0 or more")
    frame = evidence.frame.with_columns(
        order=pl.col("sample_id").map_elements(lambda text: hashlib.sha256(text.encode()).hexdigest(), pl.String)
    )
    judged = frame.filter(pl.col("reward").is_not_null())
    highest = judged.sort("reward", "order", descending=[True, False]).head(top)
    rest = judged.filter(~pl.col("sample_id").is_in(highest["sample_id"].to_list()))
    lowest = rest.sort("reward", "order").head(bottom)
    taken = highest["sample_id"].to_list() + lowest["sample_id"].to_list()
    chance = frame.filter(~pl.col("sample_id").is_in(taken)).sort("order").head(random)
    texts = dict(run.samples(["sample_id", "completion"]).iter_rows())
    fields = dict(items.select("item_id", "fields").iter_rows())
    names = list(evidence.lock.spec.reward.components)
    chosen: list[Selected] = []
    picks: Sequence[tuple[Pick, pl.DataFrame]] = (("top", highest), ("bottom", lowest), ("random", chance))
    for pick, rows in picks:
        for row in rows.iter_rows(named=True):
            values = {name: row[f"value.{name}"] for name in names}
            chosen.append(
                Selected(pick, row["sample_id"], row["item_id"], row["trial"], row["outcome"], row["success"],
                         row["reward"], values, row["answer"], texts[row["sample_id"]], fields[row["item_id"]])
            )  # fmt: skip
    return chosen


def label_sheet(selected: Sequence[Selected]) -> str:
    """CSV for human labels: sample, item and completion, and empty columns; nothing that says how it was judged.

    Rows are in the order of a hash, so that their place says nothing either. A cell that a spreadsheet would take for
    a formula is guarded by an apostrophe.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n", quoting=csv.QUOTE_ALL)  # a lone \r ends a row too
    writer.writerow(["sample_id", "item", "completion", "annotator", "label", "comment"])
    for row in sorted(selected, key=lambda row: hashlib.sha256(b"sheet" + row.sample_id.encode()).digest()):
        writer.writerow([row.sample_id, _guard(row.prompt_fields), _guard(row.completion or ""), "", "", ""])
    return buffer.getvalue()


def _guard(text: str) -> str:
    formula = text.startswith(("\t", "\r", "\n")) or text.lstrip().startswith(tuple("=+-@＝＋－＠"))
    return "'" + text if formula else text
