"""Scoring completions of a run, while they come in or afterwards.

A score is owed for every sample that has a text. Scores are journaled by sample, so a killed scoring resumes, and the
same completions scored by the same code give the same table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import polars as pl

from evalkit.canonical import short
from evalkit.engines import INFRASTRUCTURE
from evalkit.errors import Refused
from evalkit.protocol import ComponentSpec, Lock, ResolvedComponent
from evalkit.rewards import IGNORES_ITEM, Response, Score, ScoringPool, Status, composite, split_reasoning
from evalkit.rewards import resolve as resolve_component
from evalkit.runs.folder import RunFolder, ScoreFolder
from evalkit.runs.loop import drive
from evalkit.runs.plan import Items, Targets
from evalkit.runs.tables import REWARD, write_scores

BATCH = 64
FLOOR_ITEMS = 1000
"""Items on which the floor is measured: enough for a floor, and no cost of its own on a large split."""


def resolver(root: Path) -> Any:
    """How components of a protocol in workspace `root` are completed when it is frozen."""

    def resolve(name: str, component: ComponentSpec) -> ResolvedComponent:
        found = resolve_component(component.use, component.params, root)
        declared = found.declared_range if component.range is None else component.range
        return ResolvedComponent(found.params, None if declared == "unbounded" else declared, found.source)

    return resolve


def check_sources(lock: Lock, root: Path) -> None:
    """Refuse to score under a lock whose code has changed since.

    Raises:
        Refused: a component's source digest is another now; the message names it.
    """
    for name, component in lock.spec.reward.components.items():
        now = resolve_component(component.use, component.params, root).source
        if now != lock.sources[name]:
            raise Refused(
                f"{lock.id}, component {name}: the code of {component.use} has changed since the protocol was frozen; "
                f"bring it back, or freeze version {lock.spec.version + 1} and score stored completions under it"
            )


@dataclass(frozen=True, slots=True)
class ToScore:
    """One completion to be scored."""

    sample_id: str
    text: str
    n_completion_tokens: int | None
    fields: Mapping[str, Any]
    """The item."""


class Scorer:
    """The components of one lock, running in their own processes."""

    def __init__(self, lock: Lock, root: Path) -> None:
        self._lock = lock
        self._targets = Targets(lock)
        specs = lock.spec.reward.components
        components = {name: (spec.use, spec.params) for name, spec in specs.items()}
        self._ends = {
            name: (float(spec.range[0]), float(spec.range[1]))
            for name, spec in specs.items()
            if isinstance(spec.range, tuple)
        }
        self._items_matter = any(spec.use not in IGNORES_ITEM for spec in specs.values())
        self._pool = ScoringPool(components, root, float(lock.spec.reward.deadline))

    async def __aenter__(self) -> Self:
        await self._pool.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._pool.__aexit__(kind, error, trace)

    async def score(self, batch: Sequence[ToScore]) -> list[dict[str, Any]]:
        """Records for the score journal, in the batch's order: `sample_id`, and `scores` as
        component → [value, status, answer, evidence]."""
        reasoning = self._lock.spec.reasoning
        asked: list[tuple[str, Response]] = []
        without: set[str] = set()
        for sample in batch:
            split = split_reasoning(sample.text, reasoning.start, reasoning.end)
            if split.unterminated and reasoning.unterminated == "no_verdict":
                without.add(sample.sample_id)
                continue
            target = self._targets.target(sample.fields)
            item = sample.fields if self._items_matter else {}
            response = Response(split.answer, target, item, sample.n_completion_tokens)
            asked.append((sample.sample_id, response))
        found = await self._pool.score(asked)
        unfinished = Score(None, Status.UNPARSED, None, "the reasoning never ends")
        names = list(self._lock.spec.reward.components)
        return [
            {
                "sample_id": sample.sample_id,
                "scores": {
                    name: self._row(name, unfinished if sample.sample_id in without else found[sample.sample_id][name])
                    for name in names
                },
            }
            for sample in batch
        ]

    def _row(self, name: str, score: Score) -> list[Any]:
        """A score as it is journaled; a value outside the range that the lock declares is no value."""
        ends = self._ends.get(name)
        if score.value is not None and ends is not None and not ends[0] <= score.value <= ends[1]:
            what = f"value {score.value} is outside the declared range [{ends[0]:g}, {ends[1]:g}]"
            return [None, Status.FAILED.value, score.answer, what]
        return [score.value, score.status.value, score.answer, score.evidence]


def owed(run: RunFolder, items: Items, scored: set[str]) -> Iterator[ToScore]:
    """The journaled completions that have a text and no score yet."""
    for _, record in run.journal.records():
        if record["completion"] is not None and record["sample_id"] not in scored:
            fields = items[record["item_id"]].fields
            yield ToScore(record["sample_id"], record["completion"], record["n_completion_tokens"], fields)


async def score_floor(scorer: Scorer, items: Items, lock: Lock) -> dict[str, Any]:
    """What saying nothing scores: the mean of each component, the reward and success over the items.

    Over all items up to `FLOOR_ITEMS`, else over that many, chosen by a hash of their ids; `n` says how many. A
    component's mean is None where it gave no value for an item.
    """
    chosen = sorted(items.ids, key=lambda item_id: hashlib.sha256(item_id.encode()).digest())[:FLOOR_ITEMS]
    values: dict[str, list[float | None]] = {name: [] for name in (*lock.spec.reward.components, REWARD)}
    weights = {name: component.weight for name, component in lock.spec.reward.components.items()}
    for batch in batches(ToScore(item_id, "", 0, items[item_id].fields) for item_id in chosen):
        for record in await scorer.score(batch):
            scores = {name: row[0] for name, row in record["scores"].items()}
            for name, value in (*scores.items(), (REWARD, composite(scores, weights))):
                values[name].append(value)
    rule = lock.spec.success
    passed = [None if value is None else float(value >= rule.at_least) for value in values[rule.component]]
    return {
        "n": len(chosen),
        "means": {**{name: _mean(column) for name, column in values.items()}, "success": _mean(passed)},
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def batches(samples: Iterable[ToScore]) -> Iterator[list[ToScore]]:
    """Consecutive batches of at most `BATCH`."""
    batch: list[ToScore] = []
    for sample in samples:
        batch.append(sample)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def finish_scores(run: RunFolder, folder: ScoreFolder, lock: Lock, floor: Mapping[str, Any]) -> None:
    """Write the scores table and the floor beside it; from then on these scores are complete."""
    write_scores(folder, lock)
    run.write_json(str(folder.floor.relative_to(run.path)), dict(floor))


def check_budget(run: RunFolder, lock: Lock) -> None:
    """Refuse a finished run that lost more samples than this protocol allows; another may have allowed more.

    Raises:
        Refused: beyond the error budget of `lock`.
        BadInput: the run is not finished.
    """
    outcomes = run.samples(["outcome"])["outcome"]
    failed = int(outcomes.is_in(list(INFRASTRUCTURE)).sum())
    allowed = int(lock.spec.limits.error_budget * len(outcomes))
    if failed > allowed:
        raise Refused(
            f"run {run.run_id}: {failed} of {len(outcomes)} samples failed, more than the error budget of {allowed} "
            f"under {lock.id}; run another --repeat, or freeze a wider limits.error_budget"
        )


async def score_run(run: RunFolder, lock: Lock, items: Items, root: Path) -> bool:
    """Score the stored completions of a finished run under `lock`; whether anything was left to do.

    Raises:
        Refused: the scorer's code is not what was frozen.
    """
    folder = run.scores(lock)
    if folder.floor.is_file():
        return False
    check_sources(lock, root)
    journal = folder.journal
    with run.writing():
        try:
            scored = journal.open()
            async with Scorer(lock, root) as scorer:
                for batch in batches(owed(run, items, scored)):
                    journal.append(await scorer.score(batch))
                floor = await score_floor(scorer, items, lock)
        finally:
            journal.close()
        finish_scores(run, folder, lock, floor)
    return True


def score_stored(run: RunFolder, lock: Lock, items: pl.DataFrame, root: Path) -> bool:
    """Score a finished run under another protocol that would generate the same; whether anything was left to do.

    Raises:
        Refused: the protocol's generation digest is another.
        BadInput: the run is not finished.
    """
    made = run.header()["address"]["generation"]
    if made != lock.digests.generation:
        raise Refused(
            f"run {run.run_id}: generated under {short(made)}, {lock.id} generates under "
            f"{short(lock.digests.generation)}; its completions are not this protocol's: run it instead"
        )
    check_budget(run, lock)
    changed = rescore(run, lock, items, root)
    run.add_protocol(lock)
    return changed


def rescore(run: RunFolder, lock: Lock, items: pl.DataFrame, root: Path) -> bool:
    """Make sure that a finished run has scores under the scoring digest of `lock`; whether anything was left to do."""
    run.samples(["sample_id"])
    return drive(score_run(run, lock, Items(items), root))
