"""From data and a scorer to the scores of an audit: what is in the data stays, and the scorer's values join by id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evalkit.audit.agreement import Line
from evalkit.audit.by_judge import JudgeScorer, load_judge, repeat_lines, score_with_judge
from evalkit.audit.by_model import ModelScorer, score_with_model
from evalkit.audit.findings import Finding, of_scorer
from evalkit.audit.inputs import OK, Columns, Scores, scores_of
from evalkit.audit.scored import OnScored
from evalkit.audit.spec import AuditSpec
from evalkit.errors import BadInput

Scorer = ModelScorer | JudgeScorer


@dataclass(frozen=True, slots=True)
class Scoring:
    """Scores for an audit, with what the scorer showed of itself."""

    scores: Scores
    digest: str
    """Of every value and who gave it."""
    findings: list[Finding]
    repeats: list[Line]
    """How far a judge repeats itself, where it was asked to."""
    folder: Path
    again: bool
    """Whether the scores were kept from before."""


def score_data(
    scorer: Scorer, spec: AuditSpec, columns: Columns, about: Sequence[str], root: Path, on_scored: OnScored
) -> Scoring:
    """Score data for an audit of `spec.reward`, or read the scores that are kept.

    Args:
        scorer: who scores.
        spec: the audit; its further components are columns of the data.
        columns: the data.
        about: columns to keep, as `scores_of`.
        root: the workspace.
        on_scored: told how many rows are scored, of how many.

    Raises:
        BadInput: data, scorer and spec do not fit together.
        InfrastructureFailed: the scorer fails; the same call goes on.
    """
    if spec.reward in columns.cells:
        raise BadInput(
            f"{columns.source}: has a column {spec.reward} already, and the scorer's values are to be called so; "
            "give --scores to audit the column, or another reward in the spec"
        )
    given = scores_of(columns, spec.further, about, categorical=spec.categorical)
    if isinstance(scorer, ModelScorer):
        if spec.categorical:
            raise BadInput(
                f"statistic {spec.statistic} takes labels, and a reward model gives numbers; change the spec"
            )
        found, repeats = score_with_model(scorer, columns, root, on_scored), []
        words: dict[str, str] = {}
    else:
        judge = load_judge(scorer.file)
        if spec.categorical != (judge.kind == "pairwise"):
            gives = "labels a, b and tie" if judge.kind == "pairwise" else "numbers"
            raise BadInput(
                f"{scorer.file}, field kind: a {judge.kind} judge gives {gives}, and statistic {spec.statistic} takes "
                f"{'labels' if spec.categorical else 'numbers'}; change one of them"
            )
        found = score_with_judge(scorer, judge, columns, root, on_scored)
        repeats, words = (
            repeat_lines(found, judge, spec.confidence),
            {word: judge.word(word) for word in ("a", "b", "tie")},
        )
    values, statuses = [], []
    for key in given.sample_ids:
        row = found.rows.get(key)
        value = None if row is None else row["value"]
        values.append(words.get(value, value) if isinstance(value, str) else value)
        statuses.append("no text" if row is None else OK if row["status"] == OK else str(row["status"]))
    scores = Scores(
        given.source, given.rows, given.sample_ids, {**given.values, spec.reward: values},
        {**given.statuses, spec.reward: statuses}, given.about, given.duplicates,
    )  # fmt: skip
    return Scoring(
        scores, found.digest(), [of_scorer(one) for one in found.findings], repeats, found.folder, found.again
    )
