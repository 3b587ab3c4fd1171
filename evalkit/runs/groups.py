"""Whole groups of journal records, for components that score groups.

1. A group is scored when every trial of its item is in the journal, one that failed for good with its cause, and never
   before. So what a group is made of depends on the journal alone, whatever was killed in between.
2. It is the records of one item that have a completion, by trial.
3. A group of which some samples have a score already is scored whole again; who appends leaves those out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from evalkit.protocol import Lock
from evalkit.rewards import takes_groups

Record: TypeAlias = Mapping[str, Any]
"""A line of the journal of completions."""
Member = TypeVar("Member")


def group_components(lock: Lock) -> list[str]:
    """Names of the components of a lock that score whole groups."""
    return [name for name, component in lock.spec.reward.components.items() if takes_groups(component.use)]


class Groups:
    """Records that wait until all trials of their item are there."""

    def __init__(self, trials: int, scored: set[str]) -> None:
        """Nothing waits yet.

        Args:
            trials: of an item.
            scored: ids of samples that have a score; a group of none but these is done.
        """
        self._trials, self._scored = trials, scored
        self._waiting: dict[str, list[Record]] = {}

    def completed(self, records: Iterable[Record]) -> Iterator[list[Record]]:
        """The groups that are whole with these records and lack a score."""
        for record in records:
            waiting = self._waiting.setdefault(record["item_id"], [])
            waiting.append(record)
            if len(waiting) == self._trials:
                group = group_of(self._waiting.pop(record["item_id"]))
                if any(each["sample_id"] not in self._scored for each in group):
                    yield group


def group_of(records: Iterable[Record]) -> list[Record]:
    """Of the records of one item, those with a completion, by trial."""
    return sorted((record for record in records if record["completion"] is not None), key=lambda each: each["trial"])


def whole_batches(groups: Iterable[Sequence[Member]], size: int) -> Iterator[list[Member]]:
    """Consecutive batches of whole groups: at most `size` members, or one group that is larger."""
    batch: list[Member] = []
    for group in groups:
        if batch and len(batch) + len(group) > size:
            yield batch
            batch = []
        batch += group
    if batch:
        yield batch
