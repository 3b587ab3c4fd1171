"""Components that are called once per prompt group, and the one place where they are run.

1. A group is all completions of one item that have a text, in the order of their trials.
2. A group call answers one score per response, in order. What is no such list is `failed` for every response: values
   are never shifted by a slot, cut or filled up.
3. `evaluate_group` is the one place that runs such a component; each score then passes `base.evaluate`, as all do.
4. This file imports the standard library and `base.py` only: its bytes enter the source digest of every trainer's
   function (`sources.py`).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

from evalkit.rewards.base import Component, Response, Score, Status, as_score, describe, evaluate, no_verdict


@runtime_checkable
class GroupComponent(Component, Protocol):
    """A component that sees a whole group at once; `score` of one response is a group of one."""

    def score_group(self, responses: Sequence[Response]) -> list[Score]:
        """The score of every response, in order; raises where there is none for the whole group."""
        ...


def evaluate_group(component: GroupComponent, responses: Sequence[Response]) -> list[Score]:
    """The scores of a group, whatever the component does: an exception is `failed` for all of it. Never raises."""
    try:
        scores = component.score_group(responses)
        if len(scores) != len(responses):
            raise WrongResult(f"{len(scores)} scores for {len(responses)} completions")
    except (Exception, SystemExit) as error:  # noqa: BLE001 - as in `evaluate`: a bad scorer is data
        text = str(error) if isinstance(error, WrongResult) else describe(error)
        scores = [no_verdict(Status.FAILED, text)] * len(responses)
    given = (_Given(score, component.declared_range) for score in scores)
    return [evaluate(one, response) for one, response in zip(given, responses, strict=True)]


class WrongResult(Exception):
    """What a function returned cannot be a result of this group, or it could not be called on it."""


@dataclass(frozen=True, slots=True)
class _Given:
    """A score that is there already, so that `evaluate` checks it as any other."""

    given: Score
    declared_range: tuple[float, float] | None

    def score(self, response: Response) -> Score:
        return self.given


def call(function: Callable[..., object], *arguments: object, **named: object) -> object:
    """The result of a function, awaited where it is async."""
    result = function(*arguments, **named)
    return asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result


async def _awaited(result: Awaitable[object]) -> object:
    return await result


def group_scores(result: object, n: int) -> list[Score]:
    """The scores that a function's result for `n` completions stands for.

    Args:
        result: a list of numbers, true/false and None, or an array or tensor of shape (n,) or (n, 1).
        n: completions in the group.

    Raises:
        WrongResult: no list, or one of another length.
    """
    if not isinstance(result, list | tuple) and (listed := _listed(result)) is not None:
        result = [row[0] if isinstance(row, list) and len(row) == 1 else row for row in listed]
    if isinstance(result, str | bytes | Mapping | Set) or not isinstance(result, Iterable):
        raise WrongResult(f"the function returned {type(result).__name__}, not a list of {n} values")
    values = list(result)
    if len(values) != n:
        raise WrongResult(f"the function returned {len(values)} values for {n} completions")
    return [as_score(plain(value)) for value in values]


def plain(value: object) -> object:
    """A number of NumPy's or torch's as Python's own; anything else as it is."""
    if isinstance(value, int | float) or not callable(getattr(value, "tolist", None)):
        return value
    return cast(Any, value).tolist()


def _listed(value: object) -> list[Any] | None:
    """The list that an array or a tensor holds; None for anything else."""
    if not callable(getattr(value, "tolist", None)):
        return None
    found = cast(Any, value).tolist()
    return found if isinstance(found, list) else None
