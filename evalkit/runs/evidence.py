"""Evidence: one row a planned sample, with its outcome, its success and the value of every component.

The one place where a protocol's rules on truncation and success meet the tables. Everything printed, compared or
selected starts from this frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from evalkit.errors import BadInput
from evalkit.protocol import Lock
from evalkit.rewards import READS_ANSWER
from evalkit.runs.folder import RunFolder
from evalkit.runs.plan import cluster_labels
from evalkit.runs.tables import REWARD, score_parts
from evalkit.tables import checked_join

COLUMNS = [
    "sample_id", "item_id", "trial", "completion", "outcome", "cause", "n_prompt_tokens", "n_completion_tokens",
    "characters", "words", "repeated_ngram_share", "compression_ratio", "markdown_marks", "duplicate",
    "unterminated_reasoning",
]  # fmt: skip
NO_FAULT = ("ok", "abstained")
"""Statuses of a score that nobody has to look into."""
SUCCESS = "success"
SUCCESS_IF_WRONG = "success_truncated_wrong"
SUCCESS_IF_EXCLUDED = "success_truncated_excluded"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A run's samples under one protocol."""

    lock: Lock
    control: bool
    """Whether the model is a floor or a control."""
    failures: Mapping[str, str]
    """Evidence of the first score that failed, by component; only where there is one. To abstain is not to fail."""
    frame: pl.DataFrame
    """Sorted by (item_id, trial). Columns: sample_id, item_id, trial, cluster, outcome, cause, has_text, empty,
    text_hash, the side metrics,
    `success` under the protocol's truncation rule and under both, `answer` of the success component, `reward`, and
    `value.NAME` and `status.NAME` of each component. Null where there is no verdict."""

    @property
    def reads_answers(self) -> bool:
        """Whether the success component reads an answer, which can be missing and can be voted on."""
        component = self.lock.spec.reward.components.get(self.lock.spec.success.component)
        return component is not None and component.use in READS_ANSWER

    def range_of(self, name: str) -> tuple[float, float] | None:
        """Lowest and highest value of a component, the reward or success; None where unbounded."""
        return range_of(self.lock, name)


def range_of(lock: Lock, name: str) -> tuple[float, float] | None:
    """Lowest and highest value of a component, the reward or success; None where unbounded."""
    if name == SUCCESS:
        return 0.0, 1.0
    if name != REWARD:
        declared = lock.spec.reward.components[name].range
        return (float(declared[0]), float(declared[1])) if isinstance(declared, tuple) else None
    low = high = 0.0
    for part, component in lock.spec.reward.components.items():
        ends, weight = range_of(lock, part), float(component.weight)
        if weight == 0:
            continue
        if ends is None:
            return None
        low += min(weight * ends[0], weight * ends[1])
        high += max(weight * ends[0], weight * ends[1])
    return (low, high) if low < high else None


def load_evidence(run: RunFolder, lock: Lock, items: pl.DataFrame) -> Evidence:
    """The evidence of a finished run.

    Args:
        run: finished, and scored under `lock`.
        lock: the protocol whose rules apply.
        items: the items table of the run's split.

    Raises:
        BadInput: not finished, not scored, scores missing for a sample with a text, or items of another split.
    """
    samples = pl.concat([_without_text(part) for part in run.sample_parts(COLUMNS)])
    labels = items.select("item_id").with_columns(cluster_labels(items, lock.spec.cluster_key))
    frame = checked_join(samples, labels, "item_id", left_name=f"run {run.run_id}", right_name="its split")
    wides, failures = [], dict[str, str]()
    for part in score_parts(run.scores(lock), lock):
        wides.append(_wide(part, lock))
        failed = part.filter(~pl.col("status").is_in(NO_FAULT) & pl.col("evidence").is_not_null())
        failures = {
            **dict(failed.unique("component", keep="first").select("component", "evidence").iter_rows()),
            **failures,
        }
    wide = pl.concat(wides)
    with_text = frame.filter("has_text")
    if wide.height != with_text.height or with_text.join(wide, on="sample_id", how="anti").height:
        raise BadInput(
            f"run {run.run_id}: {with_text.height} samples have a text and {wide.height} have scores; "
            f"`evalkit score {run.run_id} --protocol {lock.id}` completes them"
        )
    frame = frame.join(wide, on="sample_id", how="left", maintain_order="left")
    control = run.header()["fingerprint"]["assurance"] == "control"
    return Evidence(lock, control, failures, _with_success(frame, lock).sort("item_id", "trial"))


def _without_text(part: pl.DataFrame) -> pl.DataFrame:
    """What evidence keeps of completions; the texts themselves would fill the memory."""
    text = pl.col("completion")
    known = (text.is_not_null().alias("has_text"), (text.str.strip_chars() == "").alias("empty"))
    return part.with_columns(*known, text.hash().alias("text_hash")).drop("completion")


def _wide(scores: pl.DataFrame, lock: Lock) -> pl.DataFrame:
    names = [*lock.spec.reward.components, REWARD]
    if not scores.height:  # no sample has a text, and a pivot of nothing has no columns
        kinds = {"value": pl.Float64, "status": pl.String}
        columns = {f"{kind}.{name}": dtype for kind, dtype in kinds.items() for name in names}
        return pl.DataFrame(schema={"sample_id": pl.String, **columns, "answer": pl.String})
    wide = scores.pivot("component", index="sample_id", values=["value", "status"])
    wide = wide.rename({f"{kind}_{name}": f"{kind}.{name}" for kind in ("value", "status") for name in names})
    judged = lock.spec.success.component
    answers = scores.filter(pl.col("component") == judged).select("sample_id", "answer")
    return wide.join(answers, on="sample_id", how="left")


def _with_success(frame: pl.DataFrame, lock: Lock) -> pl.DataFrame:
    """Success: the rule on the success component; a truncated completion as the protocol says, and both other ways."""
    rule, reasoning = lock.spec.success, lock.spec.reasoning
    passed = (pl.col(f"value.{rule.component}") >= float(rule.at_least)).cast(pl.Float64)
    if reasoning.unterminated == "wrong":
        passed = pl.when(pl.col("unterminated_reasoning")).then(0.0).otherwise(passed)
    truncated = pl.col("outcome") == "truncated"
    wrong = pl.when(truncated).then(0.0).otherwise(passed)
    excluded = pl.when(truncated).then(None).otherwise(passed)
    frame = frame.with_columns(wrong.alias(SUCCESS_IF_WRONG), excluded.alias(SUCCESS_IF_EXCLUDED))
    kept = SUCCESS_IF_WRONG if lock.spec.truncation == "wrong" else SUCCESS_IF_EXCLUDED
    return frame.with_columns(pl.col(kept).alias(SUCCESS), pl.col(f"value.{REWARD}").alias(REWARD))
