"""A preference set looked at before anything learns from it: pairs that repeat, contradict, say nothing, or are turned.

1. A pair is a prompt with a chosen and a rejected answer, compared as they stand but for blanks around them.
2. Statistics rest on the pairs that say something: not empty, two different answers, not preferred both ways, and each
   once. What is left out is counted.
3. Pairs of one prompt are one cluster, or those of one `cluster_id` where there is one.
4. A source is taken as turned where the scores order less than half of its pairs as the set does, and more than half of
   the others: both intervals, at level 1 − α/m for m sources, beyond ½. Without scores the same of lengths, of the
   smaller side, only raises the question.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evalkit.audit.findings import MOST_EVIDENCE, Finding, Severity, rows_named
from evalkit.audit.inputs import Columns, number_of
from evalkit.errors import BadInput, kind_of
from evalkit.stats import Estimate, cluster_mean, preference_accuracy
from evalkit.stats.arrays import FloatArray

NEEDED = ("chosen", "rejected")
OPTIONAL = ("prompt", "cluster_id", "source", "chosen_score", "rejected_score")
TOO_MANY = 0.1
"""Share of pairs from which a fault blocks: one in ten moves a mean by more than most scorers differ."""
LENGTH_TELLS = 0.6
"""Share of chosen answers that are longer, from which the length preference warns."""
FAULTS: Mapping[str, tuple[str, Severity, Severity, str, str]] = {
    "chosen is empty": (
        "PAIRS.EMPTY",
        "warning",
        "blocking",
        "have an empty chosen answer",
        "see what emptied them; leave them out unless silence is meant",
    ),
    "rejected is empty": (
        "PAIRS.EMPTY",
        "warning",
        "blocking",
        "have an empty rejected answer",
        "leave them out: they teach that any text is better than none",
    ),
    "chosen is rejected": (
        "PAIRS.IDENTICAL",
        "warning",
        "blocking",
        "have the same text as chosen and rejected",
        "leave them out; see whether a cut made them alike",
    ),
    "preferred both ways": (
        "GOLD.CONTRADICTION",
        "warning",
        "blocking",
        "prefer one of two answers to a prompt where another row prefers the other",
        "ask who labelled them, or leave both out",
    ),
    "repeated": (
        "PAIRS.DUPLICATE",
        "info",
        "warning",
        "repeat another pair word for word",
        "count each once, and keep repeats out of other splits",
    ),
}
"""Why a pair says nothing: code, severity, that of more than `TOO_MANY`, what is said of the rows, and the mend."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One row of the set."""

    row: int
    """As a person counts it in the file."""
    prompt: str
    chosen: str
    rejected: str
    cluster: str
    source: str
    """Empty where the file does not say."""
    margin: float | None
    """Score of the chosen less that of the rejected answer; None where one has none."""


@dataclass(frozen=True, slots=True)
class Source:
    """The pairs of one source."""

    name: str
    rows: int
    longer: Estimate
    """Share of chosen answers that are the longer one."""
    agreement: Estimate | None
    """Share of pairs that the scores order as the set does, ties half; None without scores."""
    contradictions: int
    duplicates: int


@dataclass(frozen=True, slots=True)
class PairsAudit:
    """All that was seen in a preference set."""

    file: str
    rows: int
    used: int
    """Pairs that the statistics rest on."""
    left_out: dict[str, int]
    """Rows that they do not rest on, by cause."""
    longer: Estimate
    agreement: Estimate | None
    sources: list[Source]
    """By name; empty where the file does not say where pairs are from."""
    findings: list[Finding]
    rules: str

    def worst(self) -> Severity | None:
        """The severity of the worst finding."""
        found = {finding.severity for finding in self.findings}
        return next((s for s in ("blocking", "warning", "info") if s in found), None)


def audit_pairs(columns: Columns, *, alpha: float = 0.05) -> PairsAudit:
    """Look at a preference set.

    Args:
        columns: the file, with the roles `chosen` and `rejected`; `prompt`, `source`, `cluster_id`, `chosen_score` and
            `rejected_score` where there are.
        alpha: intervals cover 1 − α.

    Raises:
        BadInput: a column is missing, or a cell is neither text nor turns.
    """
    pairs = pairs_of(columns)
    left_out, findings = _left_out(pairs, columns.source)
    used = [pair for pair in pairs if pair.row not in left_out]
    scored = columns.has("chosen_score")
    causes = Counter(left_out.values())
    names = sorted({pair.source for pair in pairs if pair.source})
    level = 1 - alpha
    sources = [_source(name, pairs, used, left_out, scored, level) for name in names]
    longer = _longer(used, level)
    agreement = _agreement(used, level) if scored else None
    findings += _length(longer)
    findings += _turned(used, names, scored, alpha, agreement)
    order = {"blocking": 0, "warning": 1, "info": 2}
    findings.sort(key=lambda finding: order[finding.severity])
    by = "cluster_id" if columns.has("cluster_id") else "prompt"
    rules = (
        f"clusters {by}; equal lengths left out of the length preference; score ties half; intervals "
        f"{100 * level:g} %, sources compared at 1 − {alpha:g}/{max(len(names), 1)}"
    )
    return PairsAudit(
        columns.source, len(pairs), len(used), dict(causes.most_common()), longer, agreement, sources, findings, rules
    )


def pairs_of(columns: Columns) -> list[Pair]:
    """The rows of a preference set.

    Raises:
        BadInput: as `audit_pairs`.
    """
    scored = [name for name in ("chosen_score", "rejected_score") if columns.has(name)]
    if len(scored) == 1:
        other = {"chosen_score": "rejected_score", "rejected_score": "chosen_score"}[scored[0]]
        raise BadInput(f"{columns.source}: {scored[0]} without {other}; name both with --map, or neither")
    cells = {name: columns.get(name) for name in (*NEEDED, *OPTIONAL) if name in NEEDED or columns.has(name)}
    nothing = [None] * len(columns.rows)
    found = []
    for i, row in enumerate(columns.rows):
        place = f"{columns.source}, row {row}"
        answers = {name: _answer(cells[name][i], f"{place}, field {name}") for name in NEEDED}
        (before, chosen), (before_other, rejected) = answers["chosen"], answers["rejected"]
        if None not in (before, before_other) and before != before_other:
            raise BadInput(
                f"{place}, fields chosen and rejected: the turns before the answers differ; "
                "give both answers to one prompt"
            )
        asked, stated, source = (_key(cells.get(name, nothing)[i]) for name in ("prompt", "cluster_id", "source"))
        prompt = asked or before or before_other or ""
        of, less = (number_of(cells.get(score, nothing)[i])[0] for score in ("chosen_score", "rejected_score"))
        margin = None if of is None or less is None else of - less
        found.append(Pair(row, prompt, chosen, rejected, stated or prompt or f"row {row}", source, margin))
    return found


def _answer(cell: Any, place: str) -> tuple[str | None, str]:
    """The turns before an answer as one text, None where there is no answer, and the answer without blanks around."""
    if cell is None:
        return None, ""
    if isinstance(cell, str):
        return "", cell.strip()
    turns = (
        isinstance(cell, list) and cell and all(isinstance(t, dict) and isinstance(t.get("content"), str) for t in cell)
    )
    if not turns:
        raise BadInput(f"{place}: {kind_of(cell)}; give text, or turns with content")
    return (_key(cell[:-1]) if len(cell) > 1 else ""), cell[-1]["content"].strip()


def _key(cell: Any) -> str:
    if cell is None:
        return ""
    return cell.strip() if isinstance(cell, str) else json.dumps(cell, sort_keys=True, ensure_ascii=False, default=str)


def _left_out(pairs: Sequence[Pair], file: str) -> tuple[dict[int, str], list[Finding]]:
    """Row → why no statistic rests on it, and what is found of such rows."""
    places: dict[tuple[str, str, str], list[Pair]] = defaultdict(list)
    for pair in pairs:
        places[pair.prompt, pair.chosen, pair.rejected].append(pair)
    empty_chosen = [pair.row for pair in pairs if not pair.chosen]
    empty_rejected = [pair.row for pair in pairs if pair.chosen and not pair.rejected]
    same = [pair.row for pair in pairs if pair.chosen and pair.chosen == pair.rejected]
    both_ways = {key for key in places if key[1] != key[2] and key[1] and key[2] and (key[0], key[2], key[1]) in places}
    contrary = sorted(pair.row for key in both_ways for pair in places[key])
    repeated = sorted(pair.row for group in places.values() for pair in group[1:])
    found = {
        "chosen is empty": empty_chosen,
        "rejected is empty": empty_rejected,
        "chosen is rejected": same,
        "preferred both ways": contrary,
        "repeated": repeated,
    }
    left_out: dict[int, str] = {}
    findings = []
    for cause, rows in found.items():
        if not rows:
            continue
        for row in rows:
            left_out.setdefault(row, cause)
        code, mild, grave, what, mend = FAULTS[cause]
        severity = grave if len(rows) > TOO_MANY * len(pairs) else mild
        statement = f"{len(rows)} of {len(pairs)} pairs {what}"
        findings.append(Finding(code, severity, statement, mend, evidence=rows_named(file, rows)))
    return left_out, findings


def _source(
    name: str, pairs: Sequence[Pair], used: Sequence[Pair], left_out: Mapping[int, str], scored: bool, level: float
) -> Source:  # fmt: skip
    own, counted = [p for p in pairs if p.source == name], [p for p in used if p.source == name]
    causes = Counter(left_out[pair.row] for pair in own if pair.row in left_out)
    return Source(
        name, len(own), _longer(counted, level), _agreement(counted, level) if scored else None,
        causes["preferred both ways"], causes["repeated"],
    )  # fmt: skip


def _longer(pairs: Sequence[Pair], level: float) -> Estimate:
    """Share of the pairs of different lengths in which the chosen answer is the longer one, in characters."""
    apart = [pair for pair in pairs if len(pair.chosen) != len(pair.rejected)]
    values: FloatArray = np.array([float(len(pair.chosen) > len(pair.rejected)) for pair in apart])
    return cluster_mean(values, _clusters(apart), level=level, bounds=(0.0, 1.0))


def _agreement(pairs: Sequence[Pair], level: float) -> Estimate:
    """Share of the scored pairs whose chosen answer scores higher, ties half."""
    known = [pair for pair in pairs if pair.margin is not None]
    margins: FloatArray = np.array([pair.margin for pair in known], dtype=np.float64)
    return preference_accuracy(margins, np.zeros(margins.size), _clusters(known), ties="half", level=level)


def _clusters(pairs: Sequence[Pair]) -> np.ndarray:
    return np.array([pair.cluster for pair in pairs], dtype=object)


def _length(longer: Estimate) -> list[Finding]:
    if longer.value is None or longer.low is None or longer.high is None:
        return []
    tells = longer.low >= LENGTH_TELLS or longer.high <= 1 - LENGTH_TELLS
    if longer.low <= 0.5 <= longer.high:
        return []
    which, share = ("longer", longer.value) if longer.value > 0.5 else ("shorter", 1 - longer.value)
    return [
        Finding(
            "LENGTH.PREFERENCE",
            "warning" if tells else "info",
            f"the {which} answer is chosen in {100 * share:.1f} % of {longer.n} pairs of different lengths: a reward "
            "that learns length alone gets that far",
            "hold length against any reward trained on this (controls: [length]), or balance lengths",
            longer,
        )
    ]


def _turned(
    used: Sequence[Pair], names: Sequence[str], scored: bool, alpha: float, agreement: Estimate | None
) -> list[Finding]:  # fmt: skip
    """Sources, or the whole set, whose preferences run the other way."""
    found = []
    if agreement is not None and agreement.high is not None and agreement.high < 0.5:
        what = f"the scores order {100 * (agreement.value or 0):.1f} % of pairs as the set does: it runs against them"
        mend = "see whether chosen and rejected, or the sign of the scores, are exchanged"
        found.append(Finding("PAIRS.REVERSED", "blocking", what, mend, agreement))
    if not names:
        what = "no column says where pairs are from, so nobody can tell whether one source has them exchanged"
        found.append(Finding("PAIRS.NO_SOURCE", "info", what, "name one with --map source=COLUMN"))
        return found
    level = 1 - alpha / len(names)
    measure = _agreement if scored else _longer
    for name in names:
        own = [pair for pair in used if pair.source == name]
        here, rest = measure(own, level), measure([pair for pair in used if pair.source != name], level)
        turned = (here.value or 0) < 0.5 if scored else here.n <= rest.n
        if not (turned and _opposite(here, rest)):
            continue
        rows = tuple(f"row {pair.row}" for pair in own[:MOST_EVIDENCE])
        share, others = 100 * (here.value or 0), 100 * (rest.value or 0)
        if scored:
            what = (
                f"the scores order {share:.1f} % of the pairs of {name} as the set does, and {others:.1f} % of others"
            )
            mend = f"read some pairs of {name}: chosen and rejected look exchanged"
            found.append(Finding("PAIRS.SOURCE_REVERSED", "blocking", what, mend, here, rows))
        else:
            what = (
                f"{name} prefers the longer answer in {share:.1f} % of pairs, the others in {others:.1f} %; length "
                "alone cannot tell whether chosen and rejected are exchanged there"
            )
            mend = f"read some pairs of {name}, or give scores (--map chosen_score=COLUMN, rejected_score=COLUMN)"
            found.append(Finding("PAIRS.SOURCE_LENGTH", "warning", what, mend, here, rows))
    if not scored:
        what = "no scores: whether a source has chosen and rejected exchanged cannot be told, but for its lengths"
        mend = "score both answers, and name the columns: --map chosen_score=COLUMN, rejected_score=COLUMN"
        found.append(Finding("PAIRS.NO_SCORES", "info", what, mend))
    return found


def _opposite(here: Estimate, rest: Estimate) -> bool:
    """Whether both intervals lie beyond ½, on different sides."""
    if here.low is None or here.high is None or rest.low is None or rest.high is None:
        return False
    return here.high < 0.5 < rest.low or rest.high < 0.5 < here.low
