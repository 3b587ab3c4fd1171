"""Alarms: signs that a number measures something else than the model, whatever its value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from evalkit.runs.evidence import NO_FAULT, Evidence
from evalkit.runs.folder import RunFolder

EMPTY = 0.01
TRUNCATED = 0.01
UNTERMINATED = 0.01
EXTRACTION = 0.05
SAME_TRIALS = 0.5
"""Shares above which there is an alarm; the last is a share of items whose trials all say the same."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """One sign, with the share it rests on."""

    code: str
    statement: str
    share: float
    n: int
    """What the share is of."""


def run_alarms(run: RunFolder, evidence: Evidence) -> tuple[Alarm, ...]:
    """All alarms of a finished run: of its completions, of components that depend on the batch, of its engine."""
    beside_floor = json.loads(run.scores(evidence.lock).floor.read_text(encoding="utf-8"))
    of_batch = batch_alarms(beside_floor.get("batch", {}))
    return (*alarms_of(evidence), *of_batch, *engine_batch_alarms(run.engine_facts()))


def alarms_of(evidence: Evidence) -> tuple[Alarm, ...]:
    """Alarms of the completions and their scores."""
    return tuple(_alarms(evidence))


def batch_alarms(effects: Mapping[str, Mapping[str, Any]]) -> Iterator[Alarm]:
    """Alarms on how values depend on the batch; `effects` as they stand beside the floor (`batch_effect.py`)."""
    for name, effect in effects.items():
        n = effect["probed"]
        if changed := effect["changed"]:
            by = "" if effect["largest"] is None else f", by up to {effect['largest']:.3g}"
            yield Alarm(
                "BATCH_DEPENDENT",
                f"component {name}: value depends on which other completions are in the batch ({changed} of {n} probed "
                f"samples changed{by}): its reward is relative to the group; compare runs only at the same n",
                changed / n,
                n,
            )
        if unstable := effect["unstable"]:
            yield Alarm(
                "UNSTABLE",
                f"component {name}: value changes when the same batch is scored again ({unstable} of {n} probed "
                "samples): it is not a function of its inputs, and scores of this run cannot be made again",
                unstable / n,
                n,
            )


def _alarms(evidence: Evidence) -> Iterator[Alarm]:
    texts = evidence.frame.filter("has_text")
    n = texts.height
    if n == 0:
        yield Alarm("NO_COMPLETIONS", "no sample has a completion", 1.0, evidence.frame.height)
        return
    for code, what, mask, limit in (
        ("EMPTY", "completions are empty", texts["empty"], EMPTY),
        ("TRUNCATED", "completions were cut at max_tokens", texts["outcome"] == "truncated", TRUNCATED),
        (
            "UNTERMINATED_REASONING",
            "completions never end their reasoning",
            texts["unterminated_reasoning"],
            UNTERMINATED,
        ),
    ):
        share = float(mask.mean() or 0.0)  # type: ignore[arg-type]
        if share > limit:
            yield Alarm(code, f"{share:.1%} of {n} {what}", share, n)
    for name in evidence.lock.spec.reward.components:
        if name in evidence.failures:
            failed = int((~texts[f"status.{name}"].is_in(NO_FAULT)).sum())
            what = f"{name} failed on {failed} of {n} completions, first so: {evidence.failures[name]}"
            yield Alarm("SCORER", what, failed / n, n)
    share = texts["answer"].null_count() / n
    if share > EXTRACTION and evidence.reads_answers:
        component = evidence.lock.spec.success.component
        yield Alarm("EXTRACTION", f"no answer was found in {share:.1%} of {n} completions ({component})", share, n)
    if not evidence.control:
        yield from _same_trials(evidence, texts)


def engine_batch_alarms(facts: Mapping[str, Any]) -> Iterator[Alarm]:
    """That the batch decides what the model says, where an engine that works in batches saw that."""
    effect = facts.get("batch_effect")
    if effect is None or not effect["likeliest_token_differs"]:
        return
    n, differ = effect["prompts"], effect["likeliest_token_differs"]
    what = (
        f"results depend on the batch: for {differ} of {n} prompts the likeliest first token is another alone than in "
        f"a batch (log-probabilities move by up to {effect['largest_logprob_difference']:.2g}); --concurrency 1, or "
        "--engine-arg dtype=float32, ends that"
    )
    yield Alarm("BATCH", what, differ / n, n)


def _same_trials(evidence: Evidence, texts: pl.DataFrame) -> Iterator[Alarm]:
    """Every trial of an item says the same: seeds may not reach the engine."""
    if evidence.lock.spec.sampling.n < 2:
        return
    groups = texts.group_by("item_id").agg(pl.len().alias("n"), pl.col("text_hash").n_unique().alias("different"))
    groups = groups.filter(pl.col("n") > 1)
    if not groups.height:
        return
    share = groups.filter(pl.col("different") == 1).height / groups.height
    if share > SAME_TRIALS:
        yield Alarm(
            "SAME_TRIALS",
            f"in {share:.1%} of {groups.height} items all trials say the same; does the engine honour seeds?",
            share,
            groups.height,
        )
