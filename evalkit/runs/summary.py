"""Summary of a run: every number with its n, its clusters, its method, and what is missing from it.

1. Three denominators: planned samples, samples with a verdict on success, and clean ones (a verdict, and not cut).
2. Where a verdict is missing the mean is over the others, and the bounds say what the missing could make of it.
3. The floor, what saying nothing scores, stands beside every score.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from evalkit.protocol import Lock
from evalkit.runs.alarms import Alarm, run_alarms
from evalkit.runs.evidence import SUCCESS, SUCCESS_IF_EXCLUDED, SUCCESS_IF_WRONG, Evidence, load_evidence
from evalkit.runs.folder import RunFolder
from evalkit.runs.tables import REWARD
from evalkit.stats import (
    Bounds,
    Estimate,
    cluster_mean,
    maj_at_k,
    mean_bounds,
    openrlhf_max,
    pass_at_k,
    pass_hat_k,
    skyrl_any,
    undefined,
    verl_best_at_k,
)


@dataclass(frozen=True, slots=True)
class Measure:
    """The mean of one measured quantity over samples."""

    name: str
    """`success`, `reward`, a component, or a side metric."""
    estimate: Estimate
    planned: int
    """Samples it should have had."""
    bounds: Bounds | None
    """What the missing could make of the mean over all planned; None where nothing is missing, or no range is known."""
    floor: float | None
    """What the null completion scores; None where that is not known."""
    role: str = ""
    weight: str = ""
    """As the protocol writes it; empty for what is no component."""
    statuses: Mapping[str, int] | None = None
    """Scores without a value, by status; None for what is no component."""


@dataclass(frozen=True, slots=True)
class MetricValue:
    """A k-metric over items."""

    name: str
    k: int
    estimator: str
    estimate: Estimate
    items: int
    """Items planned; those with fewer than k verdicts are not in the estimate."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A run's results under one protocol."""

    run_id: str
    protocol: str
    protocol_digest: str
    split: str
    model: str
    reference: str
    assurance: str
    step: int | None
    train_seed: int | None
    lineage: str | None
    repeat: int
    planned: int
    scored: int
    clean: int
    outcomes: Mapping[str, int]
    causes: Mapping[str, int]
    """Samples without a completion, by cause."""
    success: Measure
    truncated_wrong: Estimate
    truncated_excluded: Estimate
    """Success with truncated completions counted as wrong, and left out."""
    reward: Measure
    components: tuple[Measure, ...]
    metrics: tuple[MetricValue, ...]
    side: tuple[Measure, ...]
    floor_items: int
    """Items on which the floor was measured."""
    alarms: tuple[Alarm, ...]
    engine_facts: Mapping[str, Any] = field(default_factory=dict)
    """What a local engine saw of itself: device, versions, restarts, first token ids, effect of the batch."""


SIDE = ("n_completion_tokens", "characters", "truncated", "repeated_ngram_share", "compression_ratio", "markdown_marks")


def summarize(run: RunFolder, lock: Lock, items: pl.DataFrame) -> Summary:
    """Summary of a finished run under `lock`; `items` is the items table of its split.

    Raises:
        BadInput: as `load_evidence`.
    """
    evidence = load_evidence(run, lock, items)
    frame = evidence.frame
    header = run.header()
    stored = json.loads(run.scores(lock).floor.read_text(encoding="utf-8"))
    floor = stored["means"]
    mark = header["fingerprint"]
    verdict = frame[SUCCESS].is_not_null()
    return Summary(
        run_id=run.run_id,
        protocol=lock.id,
        protocol_digest=lock.digests.protocol,
        split=header["split"]["name"],
        model=mark["name"],
        reference=mark["reference"],
        assurance=mark["assurance"],
        step=mark["step"],
        train_seed=mark["train_seed"],
        lineage=mark["lineage"],
        repeat=header["repeat"],
        planned=header["planned"],
        scored=int(verdict.sum()),
        clean=int((verdict & (frame["outcome"] == "completed")).sum()),
        outcomes=_counts(frame["outcome"]),
        causes=_counts(frame["cause"].drop_nulls()),
        success=measure(evidence, SUCCESS, floor.get(SUCCESS)),
        truncated_wrong=_mean(frame, SUCCESS_IF_WRONG, (0.0, 1.0)),
        truncated_excluded=_mean(frame, SUCCESS_IF_EXCLUDED, (0.0, 1.0)),
        reward=measure(evidence, REWARD, floor.get(REWARD)),
        components=tuple(_component(evidence, name, floor) for name in lock.spec.reward.components),
        metrics=tuple(_metrics(evidence)),
        side=tuple(_side(frame)),
        floor_items=stored["n"],
        alarms=run_alarms(run, evidence),
        engine_facts=run.engine_facts(),
    )


def _counts(column: pl.Series) -> dict[str, int]:
    table = column.value_counts(sort=True)
    return dict(sorted(zip(table[column.name].to_list(), table["count"].to_list(), strict=True)))


def _mean(frame: pl.DataFrame, column: str, bounds: tuple[float, float] | None) -> Estimate:
    known = frame.filter(pl.col(column).is_not_null())
    return cluster_mean(known[column].to_numpy(), known["cluster"].to_numpy(), bounds=bounds)


def measure(evidence: Evidence, name: str, floor: float | None) -> Measure:
    """Mean of success, the reward or a component under the protocol's missing-data rule."""
    frame, ends, rule = evidence.frame, evidence.range_of(name), evidence.lock.spec.missing
    column = name if name in (SUCCESS, REWARD) else f"value.{name}"
    planned = frame.height
    missing = frame[column].null_count()
    estimate = _mean(frame, column, ends)
    if missing and rule == "worst":
        if ends is None:
            why = f"{missing} of {planned} values are missing and the range has no low end"
            estimate = undefined(planned - missing, estimate.n_clusters, estimate.method, why)
        else:
            estimate = _mean(frame.with_columns(pl.col(column).fill_null(ends[0])), column, ends)
            estimate = replace(estimate, method=f"{estimate.method}; {missing} missing counted as {ends[0]:g}")
    elif missing and rule == "undefined":
        why = f"{missing} of {planned} values are missing, and the protocol then asks for none"
        estimate = undefined(planned - missing, estimate.n_clusters, estimate.method, why)
    bounds = None
    if missing and ends is not None:
        bounds = mean_bounds(float(frame[column].sum()), planned - missing, planned, *ends)
    return Measure(name, estimate, planned, bounds, floor)


def _component(evidence: Evidence, name: str, floor: Mapping[str, Any]) -> Measure:
    spec = evidence.lock.spec.reward.components[name]
    statuses = _counts(evidence.frame[f"status.{name}"].drop_nulls())
    statuses.pop("ok", None)
    weight = format(spec.weight.normalize(), "f")
    return replace(measure(evidence, name, floor.get(name)), role=spec.role, weight=weight, statuses=statuses)


def _side(frame: pl.DataFrame) -> list[Measure]:
    frame = frame.with_columns(truncated=pl.when("has_text").then((pl.col("outcome") == "truncated").cast(pl.Float64)))
    return [
        Measure(name, _mean(frame, name, (0.0, 1.0) if name == "truncated" else None), frame.height, None, None)
        for name in SIDE
    ]


def _metrics(evidence: Evidence) -> list[MetricValue]:
    found = []
    items = evidence.frame.group_by("item_id", maintain_order=True).agg(
        pl.col("cluster").first(), pl.col(SUCCESS).sum().alias("c"), pl.col(SUCCESS).count().alias("n")
    )
    for metric in evidence.lock.spec.metrics:
        for k in metric.k:
            if metric.name == "maj@k" and not evidence.reads_answers:
                why = f"{evidence.lock.spec.success.component} reads no answers that could be voted on"
                found.append(MetricValue("maj@k", k, "unbiased", undefined(0, 0, "maj@k per item", why), items.height))
                continue
            values = _per_item(evidence, metric.name, metric.estimator, items, k)
            kept = ~np.isnan(values)
            bounds = None if metric.estimator == "openrlhf_max" else (0.0, 1.0)
            estimate = cluster_mean(values[kept], items["cluster"].to_numpy()[kept], bounds=bounds)
            estimate = replace(estimate, method=f"{metric.name} per item, {metric.estimator}; {estimate.method}")
            found.append(MetricValue(metric.name, k, metric.estimator, estimate, items.height))
    return found


def _per_item(evidence: Evidence, name: str, estimator: str, items: pl.DataFrame, k: int) -> Any:
    """Value of one k-metric for every item; NaN where it has fewer than k verdicts."""
    successes, trials = items["c"].to_numpy().astype(np.int64), items["n"].to_numpy().astype(np.int64)
    if name == "pass^k":
        return pass_hat_k(successes, trials, k)
    if name == "maj@k":
        return _each_item(evidence.frame, lambda group: _majority(group, k))
    if estimator == "unbiased":
        return pass_at_k(successes, trials, k)
    column = SUCCESS if estimator == "verl_best" else REWARD
    by_trainer: dict[str, Callable[[Any], float]] = {
        "verl_best": lambda rewards: verl_best_at_k(rewards, k),
        "openrlhf_max": openrlhf_max,
        "skyrl_any": skyrl_any,
    }

    def value(group: pl.DataFrame) -> float:
        rewards = group[column].drop_nulls().to_numpy()
        return by_trainer[estimator](rewards) if rewards.size >= k else float("nan")

    return _each_item(evidence.frame, value)


def _each_item(frame: pl.DataFrame, value: Callable[[pl.DataFrame], float]) -> Any:
    return np.array([value(group) for group in frame.partition_by("item_id", maintain_order=True)], dtype=np.float64)


def _majority(group: pl.DataFrame, k: int) -> float:
    judged = group.filter(pl.col(SUCCESS).is_not_null())
    answers = (
        judged.filter(pl.col("answer").is_not_null())
        .group_by("answer", maintain_order=True)
        .agg(pl.len().alias("votes"), (pl.col(SUCCESS).max() > 0).alias("right"))
    )
    right = answers["right"].arg_true()
    correct = int(right[0]) if right.len() else None
    return maj_at_k(answers["votes"].to_list(), correct, k, n_abstained=judged.height - int(answers["votes"].sum()))
