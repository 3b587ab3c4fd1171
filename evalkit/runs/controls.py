"""Floors and controls on a split: what answers that no model gave are worth to the scorer.

Scored here and not as runs: one completion an item is enough, since nothing in them is drawn by chance.

1. `gold` must succeed on every item: what it misses, the scorer misjudges.
2. `null` must succeed on none: a scorer that passes silence passes a model that collapsed.
3. `echo`, `shuffled` and `constant` do not look at the question. What they reach is not the model's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalkit.engines import EngineOptions, Gold, Request, make_engine
from evalkit.engines.baseline import lenders
from evalkit.protocol import Lock
from evalkit.rewards import composite, split_reasoning
from evalkit.runs.evidence import NO_FAULT
from evalkit.runs.plan import Items, Targets
from evalkit.runs.scoring import Scorer, ToScore, batches
from evalkit.runs.tables import REWARD

MOST_MISSES = 3
IGNORES_TARGET = frozenset({"conciseness", "formatting", "json_schema", "repetition"})
"""Components that look at the completion alone."""


@dataclass(frozen=True, slots=True)
class Miss:
    """An item that a control was expected to pass, and did not."""

    item_id: str
    completion: str
    target: str
    why: str


@dataclass(frozen=True, slots=True)
class Control:
    """One control on all items."""

    kind: str
    """`null`, `echo`, `constant`, `shuffled` or `gold`."""
    items: int
    judged: int
    """Items with a verdict on success."""
    successes: int
    reward: float | None
    """Mean reward over `rewarded` items; None where none has one."""
    rewarded: int
    reward_why: str = ""
    """Why the reward has no value on the first item where it has none; empty where it has one on all."""
    said: str | None = None
    """What `constant` says: a completion that passes where the target is the commonest of the split."""
    others: int | None = None
    """Items that `shuffled` answers for another target than their own, and …"""
    others_passed: int | None = None
    """… those of them that succeed."""
    failures: int = 0
    """Items on which a component failed."""
    failure: str | None = None
    """Evidence of the first failure."""
    misses: tuple[Miss, ...] = ()
    """The first items without success, of `gold` only."""
    why: str = ""
    """Why the control could not be made; empty where it could."""


@dataclass(frozen=True, slots=True)
class _Judged:
    success: bool | None
    reward: float | None
    reward_why: str
    fault: str | None
    why: str


async def controls(lock: Lock, items: Items, requests: list[Request], root: Path) -> tuple[Control, ...]:
    """All controls on `items`, scored under `lock`.

    Args:
        lock: the frozen protocol.
        items: the items of the split.
        requests: one an item, with its prompt; without prompts where it is not known here, and then `echo` says why.
        root: of the workspace.
    """
    targets = Targets(lock)
    own = {item.item_id: targets.target(item.fields) for item in items}
    golden = targets.gold(items)
    gold = Gold(items.ids, lambda: golden)
    commonest = Counter(own.values()).most_common(1)[0][0]
    constant = next(golden[item] for item, target in own.items() if target == commonest)
    found = []
    async with Scorer(lock, root) as scorer:
        for kind in ("null", "echo", f"constant:{constant}", "shuffled", "gold"):
            if why := _impossible(kind, requests):
                found.append(Control(kind.partition(":")[0], len(items), 0, 0, None, 0, why=why))
                continue
            engine = make_engine(f"baseline:{kind}", lock, gold, EngineOptions(root))
            texts = {made.sample_id: made.text or "" async for made in engine.generate(iter(requests))}
            said = {request.item_id: texts[request.sample_id] for request in requests}
            found.append(_control(kind, said, await _judge(scorer, lock, items, said), own))
    return tuple(found)


def _impossible(kind: str, requests: list[Request]) -> str:
    if kind == "shuffled" and len(requests) < 2:
        return "one item has no other to borrow from; use a larger split"
    if kind.startswith("constant") and len(requests) < 2:
        return "on one item a constant is as good as gold; use a larger split"
    if kind == "echo" and requests[0].prompt is None and requests[0].messages is None:
        return "the prompt is rendered by the model's tokenizer, which is not here; give --tokenizer FOLDER"
    return ""


async def _judge(scorer: Scorer, lock: Lock, items: Items, said: Mapping[str, str]) -> dict[str, _Judged]:
    asked = (ToScore(name, text, None if text else 0, items[name].fields) for name, text in said.items())
    found = {}
    for batch in batches(asked):
        for record in await scorer.score(batch):
            name = record["sample_id"]
            found[name] = _judged(lock, record["scores"], said[name])
    return found


def _judged(lock: Lock, scores: Mapping[str, Any], text: str) -> _Judged:
    """Success and reward as a run would have them; `evidence.py` holds the same rule for tables."""
    spec, rule = lock.spec, lock.spec.success
    values = {name: row[0] for name, row in scores.items()}
    reward = composite(values, {name: part.weight for name, part in spec.reward.components.items()})
    value = reward if rule.component == REWARD else values[rule.component]
    success = None if value is None else value >= float(rule.at_least)
    unfinished = split_reasoning(text, spec.reasoning.start, spec.reasoning.end).unterminated
    if unfinished and spec.reasoning.unterminated == "wrong":
        success = False
    failed = {name: row for name, row in scores.items() if row[1] not in NO_FAULT}
    faults = [f"{name} {row[1]}: {row[3] or 'no reason given'}" for name, row in failed.items()]
    lacking = [
        f"{name} {scores[name][1]}: {scores[name][3]}"
        for name, part in spec.reward.components.items()
        if part.weight != 0 and values[name] is None
    ]
    reward_why = "" if reward is not None else lacking[0] if lacking else "no component has a weight"
    return _Judged(success, reward, reward_why, faults[0] if faults else None, _reason(lock, scores, value, unfinished))


def _reason(lock: Lock, scores: Mapping[str, Any], value: float | None, unfinished: bool) -> str:
    """Why an item has no success, from the success component."""
    rule = lock.spec.success
    if unfinished:
        return "its reasoning never ends"
    if rule.component == REWARD:
        given = ", ".join(f"{name} {row[1] if row[0] is None else format(row[0], 'g')}" for name, row in scores.items())
        return f"reward {'missing' if value is None else format(value, 'g')} ({given})"
    _, status, answer, evidence = scores[rule.component]
    parts = [
        f"{rule.component} {status if value is None else format(value, 'g')}",
        evidence,
        None if answer is None else f"read {answer!r}",
    ]
    return ", ".join(part for part in parts if part)


def _control(kind: str, said: Mapping[str, str], judged: Mapping[str, _Judged], own: Mapping[str, str]) -> Control:
    name, colon, text = kind.partition(":")
    rewards = [one.reward for one in judged.values() if one.reward is not None]
    faults = [one.fault for one in judged.values() if one.fault is not None]
    passed = {item for item, one in judged.items() if one.success}
    missed = sorted(judged.keys() - passed)[:MOST_MISSES] if name == "gold" else []
    borrowed = lenders(own) if name == "shuffled" else {}
    others = {item for item, lender in borrowed.items() if own[item] != own[lender]}
    return Control(
        kind=name,
        items=len(judged),
        judged=sum(one.success is not None for one in judged.values()),
        successes=len(passed),
        reward=sum(rewards) / len(rewards) if rewards else None,
        rewarded=len(rewards),
        reward_why=next((one.reward_why for one in judged.values() if one.reward is None), ""),
        said=text if colon else None,
        others=len(others) if borrowed else None,
        others_passed=len(others & passed) if borrowed else None,
        failures=len(faults),
        failure=faults[0] if faults else None,
        misses=tuple(Miss(item, said[item], own[item], judged[item].why) for item in missed),
    )


def ignores_target(lock: Lock) -> bool:
    """Whether success cannot depend on the target, so that gold of another item is as good by construction."""
    parts = lock.spec.reward.components
    rule = lock.spec.success.component
    asked = [part for part in parts.values() if part.weight != 0] if rule == REWARD else [parts[rule]]
    return all(part.use in IGNORES_TARGET or part.params.get("mode") == "present" for part in asked)
