"""Judging data with a judge behind `openai:`, for an audit: both orders, floors, and a sample of rows asked again.

1. Every reply is journaled before it counts. A judging that is whole is read without a server; while a reply is owed,
   the same call asks for what is missing.
2. Repeats ask with other marks and seeds: what moves is what the judge's verdict owes to chance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
import polars as pl
from pydantic import Field, model_validator

from evalkit.audit.agreement import Line
from evalkit.audit.inputs import Columns
from evalkit.audit.scored import OnScored, Scored, distinct_rows, folder_of, keep_scored, read_scored, text_of
from evalkit.errors import BadInput
from evalkit.protocol import validated
from evalkit.protocol.spec import Number, Section, Text, Whole
from evalkit.protocol.strict_yaml import read_yaml
from evalkit.rewards.base import Status
from evalkit.rewards.judge_text import NO_CRITERIA, JudgeSpec, PairRow, PointRow
from evalkit.runs.folder import RunFolder
from evalkit.runs.journal import Journal
from evalkit.stats import icc, krippendorff_alpha, undefined

if TYPE_CHECKING:
    from evalkit.rewards.judging import Judged, PairVerdict, PointScore

REPEATED = 50
"""Rows that are asked again."""
FLIPPED = "order decides"
"""Status of a pair whose verdict the order of the answers decides."""
WORDS = ("a", "b", "tie")


class JudgeFile(Section):
    """A judge, in YAML."""

    judge: Text
    """`openai:NAME@URL`."""
    kind: Literal["pairwise", "pointwise"]
    criteria: Text = NO_CRITERIA
    """What makes an answer good."""
    scale: tuple[Number, Number] = Field(default=(1, 10), validate_default=True)
    """Lowest and highest score of a single answer."""
    max_tokens: Annotated[Whole, Field(ge=1)] = 1024
    seed: Annotated[Whole, Field(ge=0, lt=2**53)] = 0
    floors: Annotated[Whole, Field(ge=0)] = 20
    """Rows that it is probed with; 0 for none."""
    words: dict[Literal["a", "b", "tie"], Text] = Field(default_factory=dict)
    """What its verdicts are called in the labels, where not a, b and tie."""
    concurrency: Annotated[Whole, Field(ge=1)] | None = None
    retries: Annotated[Whole, Field(ge=0)] = 5
    timeout: Annotated[Number, Field(gt=0)] = Field(default=600, validate_default=True)
    """Seconds for one attempt."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.scale[0] < self.scale[1]:
            raise ValueError(f"scale: {self.scale[0]} is not below {self.scale[1]}; give lowest and highest")
        return self

    @property
    def asked(self) -> JudgeSpec:
        """What the judge is asked."""
        low, high = (float(end) for end in self.scale)
        return JudgeSpec(self.kind, self.criteria, (low, high), self.max_tokens, self.seed)

    def word(self, choice: str) -> str:
        """A verdict as the labels call it."""
        return next((word for name, word in self.words.items() if name == choice), choice)


@dataclass(frozen=True, slots=True)
class JudgeScorer:
    """A judge that is to score data."""

    file: Path
    """YAML of a `JudgeFile`."""
    data: Path
    """CSV, JSONL or Parquet: `prompt` with `text`, or with `a` and `b`; `reference` where there is one."""
    repeats: int = 1
    """How often a sample of the rows is asked in all."""

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise BadInput(f"--repeats {self.repeats}: give 1 or more")


def load_judge(path: Path) -> JudgeFile:
    """The judge of a YAML file.

    Raises:
        BadInput: one line with file, row, field and mend.
    """
    return validated(read_yaml(path), JudgeFile, "a judge's file says judge and kind")


def judged_rows(columns: Columns, kind: str) -> list[PairRow] | list[PointRow]:
    """The rows that a judge is to judge; a row without an answer is none.

    Raises:
        BadInput: a column is missing, a cell is no text, no prompt, or one id with two texts.
    """
    answers = ("a", "b") if kind == "pairwise" else ("text",)
    reference = columns.has("reference")
    pairs: list[PairRow] = []
    points: list[PointRow] = []
    for key, i in distinct_rows(columns, ("prompt", *answers, *(["reference"] if reference else []))).items():
        task, *given = (text_of(columns, name, i) for name in ("prompt", *answers))
        if task is None:
            raise BadInput(
                f"{columns.source}, row {columns.rows[i]}, field prompt: null where text belongs; fill it in"
            )
        shown = (text_of(columns, "reference", i) or None) if reference else None
        if kind == "pairwise" and given[0] is not None and given[1] is not None:
            pairs.append(PairRow(key, task, given[0], given[1], shown))
        elif kind == "pointwise" and given[0] is not None:
            points.append(PointRow(key, task, given[0], shown))
    return pairs if kind == "pairwise" else points


def score_with_judge(
    scorer: JudgeScorer, judge: JudgeFile, columns: Columns, root: Path, on_scored: OnScored
) -> Scored:
    """What the judge says of the data; a judging that is kept whole is read.

    Raises:
        BadInput: the data or the reference cannot be used.
        InfrastructureFailed: no server answers, or it turns into another model.
    """
    rows = judged_rows(columns, judge.kind)
    if not rows:
        raise BadInput(f"{columns.source}: no row has an answer to judge")
    asked, repeats = judge.asked, scorer.repeats
    who = {
        "judge": judge.judge, "kind": asked.kind, "criteria": asked.criteria, "max_tokens": asked.max_tokens,
        "scale": [str(end) for end in judge.scale], "seed": asked.seed, "floors": judge.floors, "repeats": repeats,
    }  # fmt: skip
    folder = folder_of(root / ".evalkit", "judge", who, [_texts(row) for row in rows])
    if (kept := read_scored(folder)) is not None:
        return kept
    from evalkit.rewards.judge import UNREACHED  # brings the client of servers, which tables can do without
    from evalkit.rewards.judging import JudgeOptions
    from evalkit.rewards.judging import judge_rows as ask

    options = JudgeOptions(judge.concurrency, judge.retries, float(judge.timeout))
    with RunFolder(folder).writing():
        calls = Journal(folder / "calls.jsonl")
        seen: list[str] = []

        def tick(result: PairVerdict | PointScore) -> None:
            seen.append(result.row_id)
            on_scored(len(seen), len(rows))

        said = ask(judge.judge, asked, rows, calls, options, judge.floors, tick)
        again = [said] + [
            ask(judge.judge, replace(asked, seed=asked.seed + k), chosen_rows(rows), calls, options, 0)
            for k in range(1, repeats)
        ]
    found = [_of_pair(one) for one in said.verdicts] + [_of_point(one) for one in said.scores]
    values = _values(again, [row.row_id for row in chosen_rows(rows)]) if repeats > 1 else []
    frame = pl.DataFrame(found, schema=PAIRS if judge.kind == "pairwise" else POINTS)
    if any(UNREACHED in one.codes for part in again for one in (part.verdicts or part.scores)):
        kept_rows = {row["sample_id"]: row for row in frame.iter_rows(named=True)}
        return Scored(folder, kept_rows, said.findings, {"reference": judge.judge}, False, values)
    return keep_scored(folder, frame, said.findings, said.identity, values)


def repeat_lines(scored: Scored, judge: JudgeFile, level: float) -> list[Line]:
    """How far the judge repeats itself on the rows that were asked again."""
    if not scored.repeats:
        return []
    k = len(scored.repeats[0])
    rules = f"{len(scored.repeats)} rows asked {k} times, with other marks and seeds"
    if judge.kind == "pointwise":
        matrix = np.array([[np.nan if v is None else v for v in row] for row in scored.repeats], dtype=np.float64)
        return [Line("ICC(1,1)", "repeats", rules, icc(matrix, form="1,1", level=level))]
    codes = {word: float(i) for i, word in enumerate(WORDS)}
    matrix = np.array([[np.nan if v is None else codes[v] for v in row] for row in scored.repeats], dtype=np.float64)
    if (np.count_nonzero(~np.isnan(matrix), axis=1) < 2).all():
        none = undefined(0, 0, "Krippendorff alpha, nominal", "no pair has two verdicts")
        return [Line("Krippendorff alpha", "repeats", rules, none)]
    rng = np.random.default_rng(0)
    return [
        Line("Krippendorff alpha", "repeats", rules, krippendorff_alpha(matrix, scale="nominal", rng=rng, level=level))
    ]


def chosen_rows(rows: Any) -> Any:
    """The rows that are asked again: `REPEATED` of them, by a hash of their ids."""
    return sorted(rows, key=lambda row: hashlib.sha256(row.row_id.encode()).digest())[:REPEATED]


PAIRS = {"sample_id": pl.String, "value": pl.String, "status": pl.String, "why": pl.String, "ab": pl.String,
         "ba": pl.String}  # fmt: skip
POINTS = {"sample_id": pl.String, "value": pl.Float64, "status": pl.String, "why": pl.String}


def _of_point(one: PointScore) -> dict[str, Any]:
    score = one.score
    return {"sample_id": one.row_id, "value": score.value, "status": str(score.status), "why": score.evidence}


def _of_pair(one: PairVerdict) -> dict[str, Any]:
    unread = Status.FAILED if any(code == "JUDGE.UNREACHED" for code in one.codes) else Status.UNPARSED
    status = "ok" if one.verdict is not None else FLIPPED if one.flipped else str(unread)
    return {"sample_id": one.row_id, "value": one.verdict, "status": status, "why": one.why, "ab": one.ab, "ba": one.ba}


def _values(parts: Sequence[Judged], ids: Sequence[str]) -> list[list[Any]]:
    """Values of these rows in each judging."""
    said: list[dict[str, Any]] = []
    for part in parts:
        of_points: dict[str, Any] = {one.row_id: one.score.value for one in part.scores}
        said.append(of_points | {one.row_id: one.verdict for one in part.verdicts})
    return [[values[key] for values in said] for key in ids]


def _texts(row: PairRow | PointRow) -> list[str | None]:
    answers = [row.a, row.b] if isinstance(row, PairRow) else [row.answer]
    return [row.row_id, row.task, row.reference, *answers]
