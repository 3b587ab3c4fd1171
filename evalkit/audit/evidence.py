"""Scores beside labels, a row per sample, with the ledger of what became of every sample.

1. A sample is eligible when it is labelled: then humans have said what it is worth. Scored samples that nobody labelled
   are counted, and say nothing of agreement.
2. Every eligible sample ends in exactly one line of the ledger: used, or why not.
3. The row order is that of the labels; nothing downstream depends on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalkit.audit.findings import MOST_EVIDENCE, Finding, rows_named
from evalkit.audit.inputs import JOINER, OK, Labels, Scores, number_of
from evalkit.audit.several import combined
from evalkit.audit.spec import NO_CLUSTERS, AuditSpec, Scale
from evalkit.audit.unlabelled import Unlabelled, unlabelled_of
from evalkit.errors import BadInput
from evalkit.stats.arrays import FloatArray

Strings = NDArray[np.object_]


@dataclass(frozen=True, slots=True)
class Ledger:
    """What became of the samples."""

    eligible: int
    """Labelled samples, whatever happened to their scores."""
    used: int
    unscored: dict[str, int]
    """Labelled samples without a usable score, by cause."""
    no_gold: int
    """Samples in the labels without a usable label: none given, unreadable, or annotators tied."""
    unlabelled: int
    """Scored samples that are not in the labels."""
    truncated: int
    """Used samples whose generation was cut."""
    duplicates: int
    """Rows passed over as word for word repetitions."""

    @property
    def coverage(self) -> float:
        """Share of eligible samples with a score."""
        return self.used / self.eligible if self.eligible else 0.0


@dataclass(frozen=True, slots=True)
class Evidence:
    """All eligible samples. Arrays have a row per sample."""

    sample_ids: Strings
    reward: NDArray[Any]
    """Numbers, NaN where there is no score; for categorical audits labels, None where there is none."""
    human: NDArray[Any]
    """The annotators' labels as one; always there."""
    ratings: NDArray[Any]
    """Shape (samples, annotators)."""
    annotators: list[str]
    clusters: Strings
    columns: dict[str, Strings]
    """Item, policy, step, strata …, as the files have them."""
    lengths: FloatArray | None
    """Length of the response, NaN where unknown; None where no file says."""
    components: dict[str, NDArray[Any]]
    """Further components; NaN, or None for labels, where there is no score."""
    status: Strings
    """`ok`, or why the reward has no value."""
    ledger: Ledger
    findings: tuple[Finding, ...]
    by_order: dict[str, NDArray[Any]] = field(default_factory=dict)
    """What the reward said in each order found: verdicts as answers, None where there is none; for numbers NaN."""
    repeats: FloatArray | None = None
    """Shape (samples, repeats), repeated scores of the reward in its first order, NaN where missing; None without."""
    dimensions: dict[str, FloatArray] = field(default_factory=dict)
    """Further human dimensions, annotators as one; NaN where there is no label."""
    repeat_names: tuple[str, ...] = ()
    """What the table calls each repeat; empty where `repeats` is None."""
    unlabelled: Unlabelled | None = None
    """Scored samples that nobody labelled; `only` leaves them as they are."""

    @property
    def scored(self) -> NDArray[np.bool_]:
        """Which samples have a reward."""
        return np.asarray(self.status == OK)

    def only(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Evidence:
        """The evidence of some samples, by mask or by row numbers; the ledger stays that of all."""
        return replace(
            self,
            sample_ids=self.sample_ids[rows],
            reward=self.reward[rows],
            human=self.human[rows],
            ratings=self.ratings[rows],
            clusters=self.clusters[rows],
            columns={name: values[rows] for name, values in self.columns.items()},
            lengths=None if self.lengths is None else self.lengths[rows],
            components={name: values[rows] for name, values in self.components.items()},
            status=self.status[rows],
            by_order={name: values[rows] for name, values in self.by_order.items()},
            repeats=None if self.repeats is None else self.repeats[rows],
            dimensions={name: values[rows] for name, values in self.dimensions.items()},
        )


def gather(scores: Scores, labels: Labels, spec: AuditSpec, further: Mapping[str, Labels] | None = None) -> Evidence:
    """Join scores to labels by sample id.

    Args:
        scores: what scorers said.
        labels: the overall label.
        spec: the audit's contract.
        further: labels of the other dimensions that the spec names.

    Raises:
        BadInput: no sample in common, a needed column in neither file, files that disagree on a sample, or a sample
            without a cluster.
    """
    scores, several = combined(scores, spec)
    at = {key: i for i, key in enumerate(scores.sample_ids)}
    findings = [*_duplicates(scores, labels)]
    human, unread = _aggregate(labels, spec, spec.label)
    gold = [i for i, value in enumerate(human) if value is not None]
    if not gold:
        raise BadInput(f"{labels.source}: no sample has a usable label {spec.label}; is it the right column?")
    place = [at.get(labels.sample_ids[i]) for i in gold]
    if all(i is None for i in place):
        ours, theirs = (key.replace(JOINER, "+") for key in (scores.sample_ids[0], labels.sample_ids[0]))
        raise BadInput(
            f"{scores.source} and {labels.source}: no sample in common; ids look like {ours!r} and {theirs!r}; "
            "name what they share with --map sample_id=COLUMN"
        )
    columns = {name: _column(name, scores, labels, gold, place) for name in _wanted(spec, scores, labels)}
    status = np.array(
        [scores.statuses[spec.reward][i] if i is not None else "not in scores" for i in place], dtype=object
    )
    values = [scores.values[spec.reward][i] if i is not None else None for i in place]
    reward = _array(values, spec.categorical)
    status, out = _out_of_scale(reward, status, spec.reward, spec.scales.get(spec.reward), scores, place)
    findings += out
    components, out = _further(scores, spec, place)
    findings += out
    ledger = _ledger(scores, labels, status, columns.get("outcome"))
    for name, of in {spec.label: labels, **(further or {})}.items():
        findings += _unparsable(of, name)
    findings += _coverage(ledger, spec, scores, labels, gold, place, unread)
    ratings = np.array([labels.ratings[i] for i in gold], dtype=object).reshape(len(gold), len(labels.annotators))
    return Evidence(
        sample_ids=np.array([labels.sample_ids[i].replace(JOINER, "+") for i in gold], dtype=object),
        reward=reward,
        human=np.array([human[i] for i in gold], dtype=object if spec.categorical else np.float64),
        ratings=ratings if spec.categorical else np.where(ratings == None, np.nan, ratings).astype(np.float64),  # noqa: E711
        annotators=labels.annotators,
        clusters=_clusters(spec, columns, [labels.sample_ids[i] for i in gold], labels, place),
        columns=columns,
        lengths=_lengths(columns, scores, labels, gold, place),
        components=components,
        status=status,
        ledger=ledger,
        findings=tuple(findings),
        by_order={
            name: _array([said[i] if i is not None else None for i in place], spec.categorical)
            for name, said in several.by_order.items()
        },
        repeats=None if several.repeats is None else _rows_of(several.repeats, place),
        dimensions=_dimensions(further or {}, spec, [labels.sample_ids[i] for i in gold]),
        repeat_names=several.repeat_names,
        unlabelled=unlabelled_of(scores, labels, spec),
    )


def _ledger(scores: Scores, labels: Labels, status: Strings, outcomes: Strings | None) -> Ledger:
    """What became of every sample, by the status of those that have a label."""
    unscored = Counter(str(s) for s in status if s != OK)
    labelled = set(labels.sample_ids)
    return Ledger(
        eligible=status.size,
        used=int(np.count_nonzero(status == OK)),
        unscored=dict(unscored.most_common()),
        no_gold=len(labels.sample_ids) - status.size,
        unlabelled=sum(key not in labelled for key in scores.sample_ids),
        truncated=0 if outcomes is None else int(np.count_nonzero((outcomes == "truncated") & (status == OK))),
        duplicates=len(scores.duplicates) + len(labels.duplicates),
    )


def _rows_of(matrix: FloatArray, place: Sequence[int | None]) -> FloatArray:
    """Rows of a matrix by place, NaN where there is none."""
    lost = np.full(matrix.shape[1], np.nan)
    return np.array([lost if i is None else matrix[i] for i in place])


def _wanted(spec: AuditSpec, scores: Scores, labels: Labels) -> list[str]:
    """Columns to carry: those there are, and those the spec cannot do without."""
    needed = [*spec.strata, *spec.controls]
    if spec.level != "pooled":
        needed.append(spec.system_by if spec.level == "system" else spec.group_by)
    if spec.cluster_by != NO_CLUSTERS:
        needed.append(spec.cluster_by)
    for name in needed:
        if not {name, *STANDS_IN.get(name, ())} & {*scores.about, *labels.about}:
            there = ", ".join(dict.fromkeys([*scores.about, *labels.about])) or "none"
            raise BadInput(
                f"{scores.source} and {labels.source}: no column {name}, which the audit spec needs; others "
                f"read are {there}; name it with --map {name}=COLUMN, or change the spec"
            )
    known = [*scores.about, *labels.about]
    return list(dict.fromkeys(name for name in known if name in (*needed, spec.system_by, *CARRIED)))


STANDS_IN = {"length": ("text",)}
CARRIED = ("item_id", "cluster_id", "policy", "step", "outcome", "length", "text", "length_a", "length_b")


def _column(name: str, scores: Scores, labels: Labels, gold: Sequence[int], place: Sequence[int | None]) -> Strings:
    """A column of either file; of both, they must agree, but for text."""
    of_scores, of_labels = scores.about.get(name), labels.about.get(name)
    found: list[Any] = []
    for i, j in zip(gold, place, strict=True):
        ours = None if of_scores is None or j is None else of_scores[j]
        theirs = None if of_labels is None else of_labels[i]
        if ours is not None and theirs is not None and str(ours) != str(theirs) and name != "text":
            raise BadInput(
                f"{scores.source}, row {scores.rows[j or 0]}, and {labels.source}, row {labels.rows[i]}, field {name}: "
                "the files disagree on this sample; correct one, or leave the column out of one"
            )
        found.append(theirs if ours is None else ours)
    array = np.empty(len(found), dtype=object)
    array[:] = found
    return array


def _clusters(
    spec: AuditSpec, columns: dict[str, Strings], ids: list[str], labels: Labels, place: Sequence[int | None]
) -> Strings:
    """The cluster of each sample. One that only the labels know, and that they give none, is a cluster of its own: it
    has no score, and counts only where missing scores are filled."""
    if spec.cluster_by == NO_CLUSTERS:
        return np.array(ids, dtype=object)
    found = columns[spec.cluster_by].copy()
    empty = [i for i, value in enumerate(found) if value is None or str(value).strip() == ""]
    for i in empty:
        if place[i] is None:
            found[i] = f"{ids[i].replace(JOINER, '+')}, not in scores"
    lost = next((i for i in empty if place[i] is not None), None)
    if lost is not None:
        raise BadInput(
            f"{labels.source}, sample {ids[lost].replace(JOINER, '+')}, field {spec.cluster_by}: no cluster; "
            "fill it in, or freeze cluster_by: none if samples are independent"
        )
    return np.array([str(value) for value in found], dtype=object)


def _lengths(
    columns: dict[str, Strings], scores: Scores, labels: Labels, gold: Sequence[int], place: Sequence[int | None]
) -> FloatArray | None:
    if "length" in columns:
        lengths = _array([number_of(cell)[0] for cell in columns["length"]], categorical=False)
        for i in np.flatnonzero(lengths < 0)[:1].tolist():
            j = place[i] if "length" in scores.about else None
            at = (
                f"{labels.source}, row {labels.rows[gold[i]]}"
                if j is None
                else f"{scores.source}, row {scores.rows[j]}"
            )
            raise BadInput(f"{at}, field length: {lengths[i]:g} is negative; give characters, words or tokens")
        return lengths
    if "text" in columns:
        return np.array([len(str(text)) if text is not None else np.nan for text in columns["text"]], dtype=np.float64)
    return None


def _array(values: Sequence[Any], categorical: bool) -> NDArray[Any]:
    if categorical:
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _dimensions(further: Mapping[str, Labels], spec: AuditSpec, ids: Sequence[str]) -> dict[str, FloatArray]:
    """The other dimensions, on their own scales, of the samples that have an overall label."""
    found = {}
    for name, labels in further.items():
        values = dict(zip(labels.sample_ids, _aggregate(labels, spec, name)[0], strict=True))
        found[name] = _array([values.get(key) for key in ids], categorical=False)
        if not np.isfinite(found[name]).any():
            raise BadInput(f"{labels.source}: no sample has a usable label {name}; is it the right column?")
    return found


def _aggregate(labels: Labels, spec: AuditSpec, name: str) -> tuple[list[Any], int]:
    """One label of this name per sample, None where there is none, and how many samples annotators are tied on."""
    if spec.categorical and spec.labels:
        _check_vocabulary(labels, spec)
    found: list[Any] = []
    tied = 0
    for row in labels.ratings:
        given = [value for value in row if value is not None]
        if not given:
            found.append(None)
        elif spec.categorical or spec.annotators == "majority":
            counts = Counter(given).most_common(2)
            split = len(counts) == 2 and counts[0][1] == counts[1][1]
            tied += split
            found.append(None if split else counts[0][0])
        else:
            found.append(float(np.mean(given) if spec.annotators == "mean" else np.median(given)))
    scale = spec.scales.get(name)
    if scale is not None and not spec.categorical:
        _check_label_scale(found, labels, name, scale)
        if not scale.higher_is_better:
            found = [None if value is None else -value for value in found]
    return found, tied


def _check_vocabulary(labels: Labels, spec: AuditSpec) -> None:
    for row, ratings in zip(labels.rows, labels.ratings, strict=True):
        for value in ratings:
            if value is not None and value not in spec.labels:
                raise BadInput(
                    f"{labels.source}, row {row}, field {spec.label}: {value!r} is none of the declared labels "
                    f"{', '.join(spec.labels)}; correct the cell, or add the word to labels in the spec"
                )


def _check_label_scale(values: list[Any], labels: Labels, name: str, scale: Scale) -> None:
    for row, ratings in zip(labels.rows, labels.ratings, strict=True):
        for value in ratings:
            if value is not None and not scale.low <= Decimal(value) <= scale.high:
                raise BadInput(
                    f"{labels.source}, row {row}, field {name}: {value:g} is outside the scale {scale.low} to "
                    f"{scale.high}; correct the label, or freeze the right scale"
                )


def _further(
    scores: Scores, spec: AuditSpec, place: Sequence[int | None]
) -> tuple[dict[str, NDArray[Any]], list[Finding]]:
    """The other components that the spec names, on their own scales."""
    found: dict[str, NDArray[Any]] = {}
    findings = []
    for name in spec.further:
        values = _array([scores.values[name][i] if i is not None else None for i in place], spec.categorical)
        known = np.array([OK if i is not None else "" for i in place], dtype=object)
        _, out = _out_of_scale(values, known, name, spec.scales.get(name), scores, place)
        found[name] = values
        findings += out
    return found, findings


def _out_of_scale(
    reward: NDArray[Any], status: Strings, name: str, scale: Scale | None, scores: Scores, place: Sequence[int | None]
) -> tuple[Strings, list[Finding]]:
    """Scores outside their declared range have no value; scores on a scale where less is better are turned."""
    if scale is None or reward.dtype == object:
        return status, []
    outside = (status == OK) & ((reward < float(scale.low)) | (reward > float(scale.high)))
    findings = []
    if outside.any():
        rows = [scores.rows[place[i] or 0] for i in np.flatnonzero(outside).tolist()]
        reward[outside] = np.nan
        status = np.where(outside, "out of scale", status)
        findings.append(
            Finding(
                "UNIT.OUT_OF_RANGE",
                "warning",
                f"{len(rows)} of {reward.size} scores of {name} are outside the declared {scale.low} to {scale.high}; "
                "they count as no score",
                "see whether the scale or the scores are in another unit",
                evidence=rows_named(scores.source, rows),
            )
        )
    if not scale.higher_is_better:
        np.negative(reward, out=reward)
    return status, findings


def _duplicates(scores: Scores, labels: Labels) -> list[Finding]:
    return [
        Finding(
            "JOIN.DUPLICATE_ID",
            "warning",
            f"{len(table.duplicates)} rows of {table.source} repeat another word for word and were counted once",
            "find out what wrote them twice",
            evidence=rows_named(table.source, table.duplicates),
        )
        for table in (scores, labels)
        if table.duplicates
    ]


def _unparsable(labels: Labels, name: str) -> list[Finding]:
    if not labels.unparsed:
        return []
    return [
        Finding(
            "GOLD.UNPARSABLE",
            "warning",
            f"{len(labels.unparsed)} cells of {name} in {labels.source} are no number and count as no label",
            "correct the cells, or leave them empty",
            evidence=rows_named(labels.source, labels.unparsed),
        )
    ]


def _coverage(
    ledger: Ledger,
    spec: AuditSpec,
    scores: Scores,
    labels: Labels,
    gold: Sequence[int],
    place: Sequence[int | None],
    tied: int,
) -> list[Finding]:
    findings = []
    if tied:
        findings.append(
            Finding(
                "GOLD.TIED",
                "info",
                f"annotators are tied on {tied} of {len(labels.sample_ids)} samples, which therefore have no label",
                "ask one more annotator about them",
            )
        )
    if ledger.coverage < float(spec.coverage):
        lost = [labels.sample_ids[i].replace(JOINER, "+") for i, j in zip(gold, place, strict=True) if j is None]
        findings.append(
            Finding(
                "JOIN.COVERAGE",
                "warning",
                f"{ledger.used} of {ledger.eligible} labelled samples have a score ({100 * ledger.coverage:.1f} %); "
                f"the spec asks for {100 * float(spec.coverage):g} %",
                "score the rest, or say in the spec why fewer will do",
                evidence=tuple(lost[:MOST_EVIDENCE]),
            )
        )
    return findings
