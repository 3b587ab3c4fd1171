"""What the probe finds, for functions whose dependence on the batch is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import count

import pytest

from evalkit.rewards import Score, Status
from evalkit.runs.alarms import batch_alarms, engine_batch_alarms
from evalkit.runs.batch_effect import PROBED, BatchEffect, batch_effects, probed_items

GROUPS = [[1.0, 2.0, 4.0], [3.0, 3.0], [5.0]]


async def effect(function: Callable[[Sequence[float]], list[float | None]]) -> BatchEffect:
    """The effect on a function from the numbers of a group to its values."""
    names = {id(group): at for at, group in enumerate(GROUPS)}
    members = [[(f"{names[id(group)]}.{at}", x) for at, x in enumerate(group)] for group in GROUPS]

    async def ask(groups: Sequence[Sequence[tuple[str, float]]]) -> dict[str, dict[str, Score]]:
        found = {}
        for group in groups:
            for (name, _), value in zip(group, function([x for _, x in group]), strict=True):
                found[name] = {"f": _score(value)}
        return found

    return (await batch_effects(members, ["f"], ask))["f"]


def _score(value: float | None) -> Score:
    if value is None:
        return Score(None, Status.ABSTAINED)
    return Score(None, Status.NAN) if math.isnan(value) else Score(value, Status.OK)


async def test_a_function_of_each_completion_alone_has_none() -> None:
    assert await effect(lambda xs: [x * x for x in xs]) == BatchEffect(5, 0, None, 0)
    assert await effect(lambda xs: [math.nan for _ in xs]) == BatchEffect(5, 0, None, 0)


async def test_a_value_relative_to_the_group_has_changed_where_it_is_another_alone() -> None:
    assert await effect(lambda xs: [x - min(xs) for x in xs]) == BatchEffect(5, 2, 3.0, 0)


async def test_a_value_by_order_has_changed_where_it_is_another_in_reverse() -> None:
    assert await effect(lambda xs: [x if xs == sorted(xs) else -x for x in xs]) == BatchEffect(5, 3, 8.0, 0)


async def test_no_value_alone_has_changed_and_by_no_amount() -> None:
    assert await effect(lambda xs: [None if len(xs) == 1 else 1.0 for _ in xs]) == BatchEffect(5, 5, None, 0)


async def test_a_value_that_differs_between_identical_calls_is_unstable_and_says_nothing_of_batches() -> None:
    numbers = count()
    assert await effect(lambda xs: [float(next(numbers)) for _ in xs]) == BatchEffect(5, 0, None, 5)


async def test_a_sample_that_met_the_deadline_is_not_counted() -> None:
    async def ask(groups: Sequence[Sequence[str]]) -> dict[str, dict[str, Score]]:
        late = Score(None, Status.TIMEOUT)
        return {
            name: {"f": late if len(groups) > 1 and name == "b" else Score(1.0, Status.OK)}
            for g in groups
            for name in g
        }

    assert await batch_effects([["a", "b"]], ["f"], ask) == {"f": BatchEffect(1, 0, None, 0)}


def test_the_probed_items_depend_on_their_ids_alone() -> None:
    ids = [f"item-{i}" for i in range(100)]
    assert len(probed_items(ids)) == PROBED == 16
    assert probed_items(ids) == probed_items(reversed(ids))
    assert probed_items(ids)[:2] == ["item-94", "item-59"]  # by sha256sum | sort
    assert sorted(probed_items(["b", "a"])) == ["a", "b"]


def test_the_alarms_say_how_many_and_how_much() -> None:
    calm = {"probed": 128, "changed": 0, "largest": None, "unstable": 0}
    assert [*batch_alarms({}), *batch_alarms({"length": calm})] == []
    [alarm] = batch_alarms({"length": {**calm, "changed": 12, "largest": 0.4}})
    assert (alarm.code, alarm.share, alarm.n) == ("BATCH_DEPENDENT", 12 / 128, 128)
    assert alarm.statement == (
        "component length: value depends on which other completions are in the batch (12 of 128 probed samples changed, "
        "by up to 0.4): its reward is relative to the group; compare runs only at the same n"
    )
    [alarm] = batch_alarms({"length": {**calm, "unstable": 128}})
    assert (alarm.code, alarm.share) == ("UNSTABLE", 1.0)


@pytest.mark.parametrize("largest", [None, 0.25])
def test_a_change_between_a_value_and_none_has_no_size(largest: float | None) -> None:
    [alarm] = batch_alarms({"f": {"probed": 4, "changed": 1, "largest": largest, "unstable": 0}})
    assert (", by up to 0.25)" in alarm.statement) is (largest is not None)


def test_an_engine_whose_batch_changes_the_likeliest_token_is_an_alarm_and_any_other_is_not() -> None:
    effect = {"prompts": 8, "largest_logprob_difference": 0.0625, "likeliest_token_differs": 0}
    assert [*engine_batch_alarms({}), *engine_batch_alarms({"batch_effect": effect})] == []
    [alarm] = engine_batch_alarms({"batch_effect": {**effect, "likeliest_token_differs": 2}})
    assert (alarm.code, alarm.share, alarm.n) == ("BATCH", 0.25, 8)
    assert "for 2 of 8 prompts the likeliest first token is another alone than in a batch" in alarm.statement
    assert "move by up to 0.062" in alarm.statement
