"""May two runs be compared? `comparable`, `comparable_with_evidence` or `not_comparable`, with the fields and reasons.

The same protocol on the same items is comparable. Two protocols that differ are not, unless the runs themselves show
that the difference changed nothing; each rule of evidence looks at the samples, never at intentions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evalkit.engines import INFRASTRUCTURE
from evalkit.protocol import Difference, Lock, differences
from evalkit.runs.folder import RunFolder
from evalkit.runs.tables import read_scores

Standing = Literal["comparable", "comparable_with_evidence", "not_comparable"]
NO_EFFECT = {
    "metrics": "metrics are not part of a paired difference",
    "limits.error_budget": "both runs ended within their error budgets",
}
"""Fields that a comparison of finished runs does not depend on, with the reason."""


@dataclass(frozen=True, slots=True)
class Side:
    """One run with the protocol it is read under."""

    run: RunFolder
    lock: Lock
    header: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Comparability:
    """The answer, and what it rests on."""

    standing: Standing
    differences: tuple[Difference, ...]
    """Fields of the protocols that differ and can change a number."""
    reasons: tuple[str, ...]
    """Why not."""
    evidence: tuple[str, ...]
    """What was shown to have changed nothing."""
    warnings: tuple[str, ...]
    """What differs beside the protocol: engines, versions, machines."""


Rescore = Callable[[RunFolder, Lock], None]
"""Makes sure that a run has scores under a lock; may score."""


def comparability(left: Side, right: Side, rescore: Rescore) -> Comparability:
    """Whether the numbers of two runs may be held against each other."""
    reasons: list[str] = []
    evidence: list[str] = []
    if left.header["split"]["root"] != right.header["split"]["root"]:
        reasons.append(
            f"split root: {left.header['split']['name']} and {right.header['split']['name']} hold different items"
        )
    ours, theirs = (side.header["address"]["chat_template"] for side in (left, right))
    if ours != theirs:
        reasons.append("chat template: the models' own templates differ, so they were shown different prompts")
    found = [item for item in differences(left.lock, right.lock) if item.part != "none"]
    scoring = [item for item in found if item.part == "scoring"]
    if scoring:
        _judge_scoring(left, right, scoring, rescore, reasons, evidence)
    for item in found:
        if item.part != "scoring":
            _judge(left, right, item, reasons, evidence)
    standing: Standing = "not_comparable" if reasons else "comparable_with_evidence" if evidence else "comparable"
    return Comparability(standing, tuple(found), tuple(reasons), tuple(evidence), tuple(_warnings(left, right)))


def _judge(left: Side, right: Side, item: Difference, reasons: list[str], evidence: list[str]) -> None:
    """One field outside scoring: evidence that it changed nothing, or a reason."""
    if item.field in NO_EFFECT:
        evidence.append(f"{item.field}: {NO_EFFECT[item.field]}")
    elif item.field == "sampling.max_tokens" and not _any(left, "truncated") and not _any(right, "truncated"):
        evidence.append(f"sampling.max_tokens {item.left} → {item.right}: nothing was truncated in either run")
    elif item.field == "truncation" and not _any(left, "truncated") and not _any(right, "truncated"):
        evidence.append(f"truncation {item.left} → {item.right}: nothing was truncated in either run")
    elif item.field in ("limits.request_timeout", "limits.retries") and not _failed(left) and not _failed(right):
        evidence.append(f"{item.field} {item.left} → {item.right}: no request failed for good in either run")
    elif item.field == "missing" and not _missing(left) and not _missing(right):
        evidence.append(f"missing {item.left} → {item.right}: nothing is missing in either run")
    else:
        reasons.append(f"{item.field}: {item.left} → {item.right} ({item.part})")


def _judge_scoring(
    left: Side, right: Side, found: Sequence[Difference], rescore: Rescore, reasons: list[str], evidence: list[str]
) -> None:
    """A changed scorer: score both runs under both protocols and see whether any value moves."""
    fields = ", ".join(item.field for item in found)
    if set(left.lock.spec.reward.components) != set(right.lock.spec.reward.components):
        reasons.append(f"{fields}: the protocols have other components (scoring)")
        return
    if left.lock.spec.success != right.lock.spec.success:
        reasons.append(f"{fields}: success is another thing in each (scoring)")
        return
    moved = 0
    for side in (left, right):
        rescore(side.run, left.lock)
        rescore(side.run, right.lock)
        moved += _moved(side.run, left.lock, right.lock)
    if moved:
        reasons.append(f"{fields}: scored both ways, {moved} scores differ (scoring)")
    else:
        evidence.append(f"{fields}: both runs scored under both protocols, every score is the same")


def _moved(run: RunFolder, first: Lock, second: Lock) -> int:
    key = ["sample_id", "component"]
    one, two = (read_scores(run.scores(lock), lock).sort(key).select(*key, "value") for lock in (first, second))
    if not one.select(key).equals(two.select(key)):
        return one.height
    return int(one["value"].ne_missing(two["value"]).sum())


def _any(side: Side, outcome: str) -> bool:
    return bool((side.run.samples(["outcome"])["outcome"] == outcome).any())


def _failed(side: Side) -> bool:
    return any(_any(side, outcome) for outcome in INFRASTRUCTURE)


def _missing(side: Side) -> bool:
    outcomes = side.run.samples(["outcome"])["outcome"]
    values = read_scores(side.run.scores(side.lock), side.lock)["value"]
    return bool(values.null_count()) or not bool(outcomes.is_in(["completed", "truncated"]).all())


def _warnings(left: Side, right: Side) -> list[str]:
    """What differs beside the protocol. None of it is proof that the numbers differ for it."""
    found = []
    ours, theirs = left.header, right.header
    for name in ("engine", "engine_version", "dtype"):
        if ours["address"][name] != theirs["address"][name]:
            found.append(f"{name}: {ours['address'][name]} and {theirs['address'][name]}")
    for name in ("python", "platform"):
        if ours["environment"][name] != theirs["environment"][name]:
            found.append(f"{name}: {ours['environment'][name]} and {theirs['environment'][name]}")
    packages, others = ours["environment"]["packages"], theirs["environment"]["packages"]
    changed = sorted(name for name in packages.keys() | others.keys() if packages.get(name) != others.get(name))
    if changed:
        found.append(
            "packages: " + ", ".join(f"{name} {packages.get(name)} and {others.get(name)}" for name in changed)
        )
    asserted = [
        header["fingerprint"]["name"]
        for header in (ours, theirs)
        if header["fingerprint"]["assurance"] == "provider-asserted"
    ]
    if asserted:
        found.append(f"identity of {', '.join(asserted)}: the provider's word only")
    return found
