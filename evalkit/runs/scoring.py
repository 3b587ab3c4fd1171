"""Scoring completions of a run, while they come in or afterwards.

A score is owed for every sample that has a text. Scores are journaled by sample, so a killed scoring resumes, and the
same completions scored by the same code give the same table. Where a component scores whole groups, nothing but whole
groups is scored (`groups.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
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
from evalkit.rewards.network import OPEN
from evalkit.runs.batch_effect import batch_effects, probed_items
from evalkit.runs.folder import RunFolder, ScoreFolder
from evalkit.runs.groups import Groups, Record, group_components, group_of, whole_batches
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
        self._group_components = group_components(lock)
        self._pool = ScoringPool(components, root, float(lock.spec.reward.deadline))

    async def __aenter__(self) -> Self:
        await self._pool.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._pool.__aexit__(kind, error, trace)

    @property
    def network(self) -> str:
        """What the scorers have of the network; see `evalkit/rewards/network.py`."""
        return self._pool.network

    async def score(self, batch: Sequence[ToScore]) -> list[dict[str, Any]]:
        """Records for the score journal, in the batch's order: `sample_id`, and `scores` as
        component → [value, status, answer, evidence]. Where a component scores groups, samples of one item that follow
        each other are a group."""
        groups: list[Sequence[ToScore]] = [batch]
        if self._group_components:
            groups = [list(group) for _, group in groupby(batch, key=lambda sample: sample.fields["item_id"])]
        found = await self.ask(groups)
        unfinished = Score(None, Status.UNPARSED, None, "the reasoning never ends")
        names = list(self._lock.spec.reward.components)
        return [
            {
                "sample_id": sample.sample_id,
                "scores": {
                    name: self._row(name, found[sample.sample_id][name] if sample.sample_id in found else unfinished)
                    for name in names
                },
            }
            for sample in batch
        ]

    async def ask(
        self, groups: Sequence[Sequence[ToScore]], only: Sequence[str] | None = None
    ) -> dict[str, dict[str, Score]]:
        """Scores as the components gave them: sample id → component → score. A sample that gets no verdict because its
        reasoning never ends is in no group, and not in the answer.

        Args:
            groups: what is scored together by components that score groups.
            only: components to run; `None` for all.
        """
        asked: list[tuple[str, Response]] = []
        sizes: list[int] = []
        for group in groups:
            before = len(asked)
            asked += ((sample.sample_id, found) for sample in group if (found := self._response(sample)) is not None)
            if len(asked) > before:
                sizes.append(len(asked) - before)
        return await self._pool.score(asked, sizes if self._group_components else None, only)

    def _response(self, sample: ToScore) -> Response | None:
        """What the components are given; None where reasoning that never ends is no verdict."""
        reasoning = self._lock.spec.reasoning
        split = split_reasoning(sample.text, reasoning.start, reasoning.end)
        if split.unterminated and reasoning.unterminated == "no_verdict":
            return None
        target = self._targets.target(sample.fields)
        return Response(split.answer, target, sample.fields if self._items_matter else {}, sample.n_completion_tokens)

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
            yield to_score(record, items[record["item_id"]].fields)


def to_score(record: Record, fields: Mapping[str, Any]) -> ToScore:
    """What there is to score in a journal record with a completion; `fields` is its item."""
    return ToScore(record["sample_id"], record["completion"], record["n_completion_tokens"], fields)


def waiting_groups(lock: Lock, scored: set[str]) -> Groups | None:
    """Where records wait until their group is whole; None where no component of the lock scores groups."""
    return Groups(lock.spec.sampling.n, scored) if group_components(lock) else None


def group_batches(groups: Groups, records: Iterable[Record], items: Items) -> Iterator[list[ToScore]]:
    """Batches of the groups that these records make whole."""
    return whole_batches((_group_to_score(group, items) for group in groups.completed(records)), BATCH)


def owed_batches(run: RunFolder, items: Items, scored: set[str], groups: Groups | None) -> Iterator[list[ToScore]]:
    """The journaled completions that have no score yet, in batches; of whole groups only, where there are `groups`."""
    if groups is None:
        return batches(owed(run, items, scored))
    return group_batches(groups, (record for _, record in run.journal.records()), items)


def _group_to_score(group: Sequence[Record], items: Items) -> list[ToScore]:
    fields = items[group[0]["item_id"]].fields
    return [to_score(record, fields) for record in group]


def without(scored: set[str], records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records that the score journal lacks: of a group that was torn, some are there."""
    return [record for record in records if record["sample_id"] not in scored]


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


async def score_again(scorer: Scorer, run: RunFolder, items: Items, lock: Lock) -> dict[str, Any]:
    """What stands beside the floor on how values depend on the batch (`batch_effect.py`): `{"batch": {component:
    effect}}`, a function of the journaled completions; empty where no component scores groups."""
    names = group_components(lock)
    if not names:
        return {}
    found: dict[str, list[Record]] = {item_id: [] for item_id in probed_items(items.ids)}
    for _, record in run.journal.records():
        if record["item_id"] in found:
            found[record["item_id"]].append(record)
    groups = [_group_to_score(group, items) for records in found.values() if (group := group_of(records))]
    effects = await batch_effects(groups, names, lambda asked: scorer.ask(asked, names))
    return {"batch": {name: asdict(effect) for name, effect in effects.items()}}


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


def finish_scores(
    run: RunFolder, folder: ScoreFolder, lock: Lock, floor: Mapping[str, Any], network: str = OPEN
) -> None:
    """Write the scores table, what scorers had of the network where it was taken from them, and the floor beside it;
    from then on these scores are complete."""
    write_scores(folder, lock)
    if network != OPEN:
        run.write_json(str(folder.environment.relative_to(run.path)), {"network": network})
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
                for batch in owed_batches(run, items, scored, waiting_groups(lock, scored)):
                    journal.append(without(scored, await scorer.score(batch)))
                floor = await score_floor(scorer, items, lock) | await score_again(scorer, run, items, lock)
        finally:
            journal.close()
        finish_scores(run, folder, lock, floor, scorer.network)
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
