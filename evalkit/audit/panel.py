"""A judge of pairs, as a judge: each order by itself, its taste for places and for length, what it left unread.

1. A bias is a finding only where an interval or a test says so, never by a bare threshold.
2. Position is read only from samples shown in both orders: there a preference for an answer and one for a place part.
3. Verdicts that could not be read are one class, so two of them agree, and each is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalkit.audit.agreement import UNPARSED, Line, agreement, vocabulary
from evalkit.audit.evidence import Evidence
from evalkit.audit.findings import MOST_EVIDENCE, Finding
from evalkit.audit.inputs import number_of
from evalkit.audit.length import preference_lines, verbosity
from evalkit.audit.spec import AuditSpec
from evalkit.stats import (
    Estimate,
    cluster_mean,
    cohen_kappa,
    discordant_pairs,
    length_preference,
    mcnemar,
)

Mask = NDArray[np.bool_]
LEAST_FOR_CONSTANT = 10


@dataclass(frozen=True, slots=True)
class Order:
    """What a judge said in one order, on samples with a verdict in all orders."""

    name: str
    said: NDArray[Any]
    """Answers, `UNPARSED` where the verdict is none of the labels."""
    right: Mask
    read: Mask
    first: Mask
    """The verdict is the answer in the first place."""
    picks: Mask
    """The verdict is one of the two answers."""


def panel(evidence: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    """Lines and findings on the judge; nothing where the audit is of numbers."""
    if not spec.categorical:
        return [], []
    lines, findings = [], [*_missing_order(evidence, spec), *_turned(evidence, spec)]
    if evidence.by_order:
        evidence = evidence.only(_complete(evidence))
        orders = [_order(name, said, evidence, spec) for name, said in evidence.by_order.items()]
        for part in (_accuracies, _position, _unread):
            found_lines, found = part(orders, evidence, spec)
            lines += found_lines
            findings += found
        findings += _constant([order.said for order in orders], evidence)
    else:
        findings += _constant([evidence.reward], evidence)
    found_lines, found = _length(evidence, spec)
    return lines + found_lines, findings + found


def _length(evidence: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    """How often judge and humans prefer the longer answer, on pairs whose two lengths are given."""
    if not {"length_a", "length_b"} <= set(evidence.columns) or not spec.orders:
        return [], []
    a, b = next(iter(spec.orders.values()))
    lengths = [
        np.array([np.nan if (cell := number_of(value)[0]) is None else cell for value in evidence.columns[name]])
        for name in ("length_a", "length_b")
    ]
    known = np.isfinite(lengths[0]) & np.isfinite(lengths[1])
    judged = np.mean([_outcomes(said, a, b) for said in evidence.by_order.values() or [evidence.reward]], axis=0)
    found = length_preference(
        _outcomes(evidence.human, a, b)[known], judged[known], lengths[0][known], lengths[1][known],
        evidence.clusters[known], level=spec.confidence,
    )  # fmt: skip
    rules = f"{int(np.count_nonzero(~known))} pairs without two lengths left out"
    mend = "ask for brevity in the judge's prompt, or control for length; then audit again"
    return preference_lines(found, "judge", "pairs", rules), verbosity(found, "the judge", mend)


def _outcomes(verdicts: NDArray[Any], a: str, b: str) -> NDArray[np.float64]:
    """1 where the verdict is a, 0 where b, ½ where it prefers neither."""
    return np.where(verdicts == a, 1.0, np.where(verdicts == b, 0.0, 0.5))


def _complete(evidence: Evidence) -> Mask:
    """Samples with a verdict, readable or not, in every order found."""
    return np.array([all(v is not None for v in row) for row in zip(*evidence.by_order.values(), strict=True)], bool)


def _order(name: str, said: NDArray[Any], evidence: Evidence, spec: AuditSpec) -> Order:
    known, places = set(vocabulary(evidence, spec)), spec.orders[name]
    read = np.array([verdict in known for verdict in said], dtype=bool)
    answers = np.where(read, said, UNPARSED)
    first = np.asarray(answers == places[0])
    return Order(name, answers, np.asarray(answers == evidence.human), read, first, first | (answers == places[1]))


def _share(name: str, level: str, values: NDArray[Any], clusters: NDArray[Any], spec: AuditSpec) -> Line:
    estimate = cluster_mean(values.astype(np.float64), clusters, level=spec.confidence, bounds=(0.0, 1.0))
    return Line(name, level, "", estimate)


def _accuracies(orders: list[Order], evidence: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    """Accuracy in each order, in both, on average; unparsed verdicts are wrong."""
    clusters, rules = evidence.clusters, "unparsed wrong"
    lines = [_share("accuracy", f"order {order.name}", order.right, clusters, spec) for order in orders]
    if len(orders) == 2:
        first, second = orders
        lines.append(_share("accuracy", "right in both orders", first.right & second.right, clusters, spec))
        lines.append(_share("accuracy", "average of orders", (first.right * 1.0 + second.right) / 2, clusters, spec))
    lines = [replace(line, rules=rules) for line in lines]
    for order in orders:
        kappa = cohen_kappa(order.said.tolist(), evidence.human.tolist(), clusters, level=spec.confidence)
        lines.append(Line("Cohen's kappa", f"order {order.name}", "unparsed a label of its own", kappa))
    return lines, []


def _position(orders: list[Order], evidence: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    if len(orders) < 2:
        return [], []
    one, other = orders
    clusters, read = evidence.clusters, one.read & other.read
    agree = _share("positional agreement", "both orders", one.said == other.said, clusters, spec)
    flips = _share("flip rate", "both orders", (one.said != other.said)[read], clusters[read], spec)
    picks = one.picks & other.picks
    rate = _share(
        "first-pick rate", "both orders",
        np.concatenate([one.first[picks], other.first[picks]]), np.tile(clusters[picks], 2), spec,
    )  # fmt: skip
    found = discordant_pairs(one.right, other.right)
    test = mcnemar(found)
    share = Estimate(
        test.statistic, None, None, found.a_only + found.b_only, len(set(clusters)), test.method,
        "no sample is right in one order only" if test.statistic is None else "a test, no interval",
    )  # fmt: skip
    lines = [
        replace(agree, rules="two unparsed agree"),
        replace(flips, rules="where both are read"),
        replace(rate, rules="where both orders pick an answer"),
        Line(
            f"right in {one.name} of those right once", "both orders", f"{test.method}: p {test.p:.3g}", share,
            details={"p": test.p, f"{one.name}_only": found.a_only, f"{other.name}_only": found.b_only},
        ),
    ]  # fmt: skip
    return lines, _position_findings(rate.estimate, flips.estimate, one, other, picks, evidence, spec)


def _position_findings(
    rate: Estimate, flips: Estimate, one: Order, other: Order, picks: Mask, evidence: Evidence, spec: AuditSpec
) -> list[Finding]:
    if rate.value is None or rate.low is None or rate.high is None or rate.low <= 0.5 <= rate.high:
        return []
    place = "first" if rate.value > 0.5 else "second"
    rows = np.flatnonzero(picks & (one.first == other.first))[:MOST_EVIDENCE]
    flipped = (
        "" if flips.value is None else f"; its answer changes with the order on {100 * flips.value:.1f} % of pairs"
    )
    return [
        Finding(
            "BIAS.POSITION",
            "warning",
            f"of pairs shown in both orders the judge picks the first place in {rate.value:.3f} "
            f"[{rate.low:.3f}, {rate.high:.3f}], so it leans to the {place}{flipped}",
            "as the spec does, use the judge in both orders only and count a pair where they agree; or mend its prompt"
            if spec.combine_orders == "both"
            else "always ask in both orders and count a pair only where they agree (combine_orders: both)",
            rate,
            tuple(str(key) for key in evidence.sample_ids[rows]),
        )
    ]


def _unread(orders: list[Order], evidence: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    lines = [_share("unparsed", f"order {order.name}", ~order.read, evidence.clusters, spec) for order in orders]
    if len(orders) < 2:
        return lines, []
    found = discordant_pairs(~orders[0].read, ~orders[1].read)
    test = mcnemar(found)
    if test.p is None or test.p >= float(spec.alpha):
        return lines, []
    counts = " and ".join(f"{int(np.count_nonzero(~order.read))} in order {order.name}" for order in orders)
    rows = np.flatnonzero(orders[0].read != orders[1].read)[:MOST_EVIDENCE]
    return lines, [
        Finding(
            "PARSE.BY_ORDER",
            "warning",
            f"verdicts that cannot be read depend on the order: {counts} (p {test.p:.3g}, {test.method})",
            "read these replies; a parser or a prompt treats the places differently",
            evidence=tuple(str(key) for key in evidence.sample_ids[rows]),
        )
    ]


def _constant(said: list[NDArray[Any]], evidence: Evidence) -> list[Finding]:
    """A judge that says one thing whatever it is shown: one answer, or one place in every order."""
    kinds = [set(verdicts.tolist()) for verdicts in said]
    if len(evidence.human) < LEAST_FOR_CONSTANT or any(len(kind) != 1 for kind in kinds):
        return []
    if len(set(evidence.human.tolist())) < 2:
        return []
    words = ", ".join(repr(str(next(iter(kind))).removeprefix("\x00")) for kind in kinds)
    return [
        Finding(
            "PARSE.CONSTANT",
            "blocking",
            f"all {len(evidence.human)} verdicts of an order are one and the same ({words}), while labels differ",
            "read some replies: a parser that matches the prompt's own text gives such verdicts",
        )
    ]


def _missing_order(evidence: Evidence, spec: AuditSpec) -> list[Finding]:
    if spec.verdict_names is None or len(evidence.by_order) == 2:
        return []
    shown = next(iter(evidence.by_order), None)
    what = f"only order {shown} is there" if shown else "no column says in which order pairs were shown"
    return [
        Finding(
            "BIAS.ORDER_MISSING",
            "warning",
            f"{what}: a preference for an answer cannot be told from one for its place",
            "ask the judge in the other order too, and give both with --map order=COLUMN",
        )
    ]


def _turned(evidence: Evidence, spec: AuditSpec) -> list[Finding]:
    """A judge that agrees less than chance would: labels turned, or a judge that prefers the worse answer."""
    found = agreement(evidence, spec, "kappa", "pooled").estimate
    if found.value is None or found.high is None or found.high >= 0:
        return []
    return [
        Finding(
            "KAPPA.BELOW_CHANCE",
            "warning",
            f"kappa is {found.value:.3f} [{found.low:.3f}, {found.high:.3f}], below chance: the judge prefers what "
            "humans reject, or one side's labels are turned",
            "check which answer each label names in both files; then read the worst disagreements",
            found,
        )
    ]
