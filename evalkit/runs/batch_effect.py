"""Does a value depend on what else is in the batch? A finding about a reward function, measured on a run's own groups.

1. A function that scores groups is called again with the same group, with the group reversed, and with each completion
   alone. A sample has changed where its value is another in one of the latter two.
2. A sample whose value differs between two identical calls is unstable, and says nothing about batches.
3. Values are compared exactly; no value equals no value. A sample that met the deadline in any call is not counted.
4. The scores of the run are not touched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from evalkit.rewards import Score, Status

PROBED = 16
"""Items whose groups are called again."""

Member = TypeVar("Member")
Ask: TypeAlias = Callable[[Sequence[Sequence[Member]]], Awaitable[Mapping[str, Mapping[str, Score]]]]
"""Scores of groups: sample id → component → score."""


@dataclass(frozen=True, slots=True)
class BatchEffect:
    """What was found about one component."""

    probed: int
    """Samples called again."""
    changed: int
    """Those whose value depends on the batch."""
    largest: float | None
    """Largest change of a value; `None` where none changed, or only between a value and none."""
    unstable: int
    """Those whose value differs between two identical calls."""


def probed_items(ids: Iterable[str]) -> list[str]:
    """The items whose groups are called again: those whose ids' hashes are lowest."""
    return sorted(ids, key=lambda item_id: hashlib.sha256(item_id.encode()).digest())[:PROBED]


async def batch_effects(
    groups: Sequence[Sequence[Member]], names: Sequence[str], ask: Ask[Member]
) -> dict[str, BatchEffect]:
    """The effect on each component of `names`, over groups of at least two."""
    seen: dict[str, list[list[Score]]] = {name: [] for name in names}
    for group in groups:
        if len(group) < 2:
            continue
        calls = [await ask(each) for each in ([group], [group], [group[::-1]], [[member] for member in group])]
        for sample_id in calls[0]:
            for name in names:
                seen[name].append([call[sample_id][name] for call in calls])
    return {name: _effect(samples) for name, samples in seen.items()}


def _effect(samples: Sequence[Sequence[Score]]) -> BatchEffect:
    """The effect that samples show: of each, its score in two identical calls, and in the others."""
    known = [scores for scores in samples if all(score.status is not Status.TIMEOUT for score in scores)]
    values = [[score.value for score in scores] for scores in known]
    stable = [(first, others) for first, again, *others in values if first == again]
    moved = [(first, [other for other in others if other != first]) for first, others in stable]
    pairs = [(first, other) for first, others in moved for other in others]
    changes = [abs(other - first) for first, other in pairs if first is not None and other is not None]
    return BatchEffect(
        probed=len(known),
        changed=sum(bool(others) for _, others in moved),
        largest=max(changes, default=None),
        unstable=len(known) - len(stable),
    )
