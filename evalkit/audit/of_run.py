"""The scores of a finished run, as an audit reads those of a table.

1. A sample is its `sample_id`, which the blinded sheet of `evalkit samples --sheet` carries: filled, it joins to its
   run as it is.
2. What has no value keeps why: the status of its score, or the outcome of a sample that has no text.
3. Besides the components there are `reward` and `success`, unless a component has that name.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import polars as pl

from evalkit.audit.inputs import OK, Scores
from evalkit.canonical import digest, digest_bytes
from evalkit.errors import BadInput
from evalkit.runs import Evidence, RunFolder

REWARD, SUCCESS = "reward", "success"
SAMPLE_COLUMNS = {
    "item_id": "item_id",
    "cluster_id": "cluster",
    "outcome": "outcome",
    "length": "characters",
}
"""Role → column of the evidence."""


def scores_of_run(
    run: RunFolder, evidence: Evidence, items: pl.DataFrame, components: Sequence[str], about: Sequence[str]
) -> Scores:
    """The scores of a run's samples.

    Args:
        run: finished and scored.
        evidence: its samples under the protocol that is read.
        items: its split's items, whose fields may be wanted.
        components: names that must be there: components, `reward`, `success`.
        about: further columns to keep where they are known: of the samples, then of the items' fields.

    Raises:
        BadInput: no such component.
    """
    frame, source = evidence.frame, f"run {run.run_id}"
    known = list(dict.fromkeys([*evidence.lock.spec.reward.components, REWARD, SUCCESS]))
    for name in components:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.6)
            mend = f"did you mean {near[0]}? " if near else ""
            raise BadInput(f"{source}: no component {name}; {mend}it has {', '.join(known)}")
    values, statuses = {}, {}
    for name in dict.fromkeys(components):
        values[name], statuses[name] = _component(frame, name, evidence)
    mark = run.header()["fingerprint"]
    columns: dict[str, list[Any]] = {role: frame[name].to_list() for role, name in SAMPLE_COLUMNS.items()}
    columns["policy"] = [mark["name"]] * frame.height
    if mark.get("step") is not None:
        columns["step"] = [mark["step"]] * frame.height
    fields = _fields(items, [name for name in about if name not in columns])
    for name in about:
        if name in columns:
            continue
        if name in frame.columns:
            columns[name] = frame[name].to_list()
        elif name in fields:
            columns[name] = [fields[name].get(item) for item in columns["item_id"]]
    rows = list(range(1, frame.height + 1))
    return Scores(source, rows, frame["sample_id"].to_list(), values, statuses, columns, [])


def run_digest(run: RunFolder, evidence: Evidence) -> str:
    """Digest of all that a run's scores are read from: its tables' bytes, its protocol and its split."""
    parts = {
        kind: [digest_bytes("audit-input", path.read_bytes()) for path in paths]
        for kind, paths in (("samples", run.parts), ("scores", run.scores(evidence.lock).parts))
    }
    stated = {"protocol": evidence.lock.digests.protocol, "split": run.header()["split"]["root"]}
    return digest("audit-run", {**parts, **stated})


def _component(frame: pl.DataFrame, name: str, evidence: Evidence) -> tuple[list[float | None], list[str]]:
    if name == SUCCESS and name not in evidence.lock.spec.reward.components:
        value, status = pl.col(SUCCESS), pl.col(f"status.{evidence.lock.spec.success.component}")
    else:
        value, status = pl.col(f"value.{name}"), pl.col(f"status.{name}")
    status = pl.when(value.is_not_null()).then(pl.lit(OK)).when(status != OK).then(status).otherwise(pl.col("outcome"))
    found = frame.select(value=value, status=status)
    return found["value"].to_list(), found["status"].to_list()


def _fields(items: pl.DataFrame, names: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
    """Name → item → value, of the stratum and the fields of the items that have it."""
    found: dict[str, dict[str, Any]] = {}
    if not names:
        return found
    for item, stratum, text in items.select("item_id", "stratum", "fields").iter_rows():
        fields = {"stratum": stratum, **orjson.loads(text)}
        for name in names:
            if name in fields:
                found.setdefault(name, {})[item] = fields[name]
    return found
