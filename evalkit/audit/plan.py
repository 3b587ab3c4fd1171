"""How much to label: clusters, items and labels per item for a wanted interval or difference, beside labelling all.

1. What a plan rests on is measured in an earlier audit, given by the caller, or assumed; each number says which.
2. Correlations over all samples and accuracies are planned from their value, the design effect of clusters and, for
   correlations, the reliability of one label. Any other statistic is planned from the spread of its clusters as it was
   measured, with items and labels as they were.
3. More labels per item make a correlation larger, for they take error out of the labels; an accuracy they do not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit

from evalkit.audit.agreement import Line, counted, verdicts_of
from evalkit.audit.evidence import Evidence
from evalkit.audit.spec import AuditSpec
from evalkit.errors import BadInput
from evalkit.files import read_json
from evalkit.stats import (
    Estimate,
    LabelCost,
    LabelPlan,
    beside_all_rollouts,
    design_effect,
    icc,
    icc_from_design_effect,
    influence,
    krippendorff_alpha,
    plan_correlation,
    plan_mean,
    spearman_brown,
)
from evalkit.stats.planning import Z_VARIANCE, RankKind

AUDIT_FORMAT = "evalkit-audit/1"
LABELS = (1, 2, 3, 5)
"""Labels per item that are planned for, unless others are asked for."""
MOST_CELLS = 20_000_000
"""Items times distinct labels up to which alpha is computed, which needs a table of that size (160 MB); beyond, the
intraclass correlation of the items that all have rated."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What an audit saw of all that a plan needs; kept in audit.json."""

    statistic: str
    level: str
    value: float | None
    """The registered statistic."""
    sd_of_clusters: float | None
    """Its standard error times the root of its clusters: what one cluster adds."""
    sd_of_difference: float | None
    """The same of the difference to the reward named under `against`."""
    items: int
    clusters: int
    design_effect: float | None
    reliability: float | None
    """Of one label; None with one annotator, or where nothing could disagree."""
    labels_per_item: float
    rollouts: int
    """Scored samples, labelled or not."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """A number that a plan rests on."""

    value: float
    origin: str
    """`measured`, `given`, or `assumed`."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked of a plan; None where it is to be measured or assumed."""

    half_width: float | None = None
    """Half of the interval."""
    difference: float | None = None
    """Of two rewards on the same labels."""
    statistic: str | None = None
    value: float | None = None
    """With one label an item."""
    items_per_cluster: float | None = None
    design_effect: float | None = None
    reliability: float | None = None
    labels_per_item: Sequence[int] = field(default_factory=tuple)
    rollouts: int | None = None
    cost_per_label: float = 1.0
    level: float = 0.95
    power: float = 0.8


@dataclass(frozen=True, slots=True)
class Row:
    """A plan with so many labels per item."""

    plan: LabelPlan
    cost: LabelCost | None
    """None without counts, or where nobody said how many rollouts there are."""


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """How much to label."""

    target: str
    statistic: str
    assumptions: dict[str, Assumption]
    rows: list[Row]
    cheapest: int | None
    """Place of the row with the fewest labels; None where none has counts."""
    notes: list[str]


def measure(evidence: Evidence, spec: AuditSpec, registered: Line, against: Sequence[Line]) -> Measured:
    """What this audit says for the next one."""
    used = counted(evidence, spec)
    estimate = registered.estimate
    rated = used.ratings != None if spec.categorical else ~np.isnan(used.ratings)  # noqa: E711
    moves = _moves(used, spec)
    return Measured(
        statistic=spec.statistic,
        level=spec.level,
        value=estimate.value,
        sd_of_clusters=_per_cluster(estimate, spec.confidence),
        sd_of_difference=_per_cluster(against[-1].estimate, spec.confidence) if against else None,
        items=int(used.reward.size),
        clusters=len(set(used.clusters.tolist())),
        design_effect=None if moves is None else design_effect(moves, used.clusters),
        reliability=_reliability(used.ratings, categorical=spec.categorical),
        labels_per_item=float(np.count_nonzero(rated, axis=1).mean()),
        rollouts=evidence.ledger.used + evidence.ledger.unlabelled,
    )


def read_measured(path: Path) -> Measured:
    """What an audit kept for plans.

    Args:
        path: its audit.json.

    Raises:
        BadInput: not an audit, or one of an earlier version.
    """
    mend = "name the folder or audit.json that `evalkit audit reward` wrote"
    content = read_json(path, AUDIT_FORMAT, mend)
    try:
        return Measured(**content["measured"])
    except (KeyError, TypeError):
        raise BadInput(f"{path}, field measured: not there; audit again with this version of evalkit") from None


def plan_audit(wish: Wish, measured: Measured | None = None) -> AuditPlan:
    """Clusters, items and labels for a wish.

    Raises:
        BadInput: neither an interval nor a difference is wanted, or both; what is needed is neither given nor measured;
            a number is outside its range.
    """
    if (wish.half_width is None) == (wish.difference is None):
        raise BadInput("give one of --half-width (of the interval) and --difference (of two rewards)")
    statistic = wish.statistic or (measured.statistic if measured else None)
    if statistic is None:
        raise BadInput("--statistic: name one, such as spearman or accuracy, or an audit to plan from")
    if measured is not None and statistic != measured.statistic:
        raise BadInput(f"--statistic {statistic}: the audit is of {measured.statistic}; leave out one of the two")
    pooled = measured is None or measured.level == "pooled"
    try:
        if pooled and statistic in Z_VARIANCE and not _of_difference(wish, measured):
            return _correlation(wish, measured, statistic)
        if pooled and statistic == "accuracy" and not _of_difference(wish, measured):
            return _accuracy(wish, measured)
        return _as_measured(wish, measured, statistic)
    except ValueError as error:
        raise BadInput(f"plan: {error}") from None


def _of_difference(wish: Wish, measured: Measured | None) -> bool:
    """Whether the spread of the very difference was measured."""
    own = measured is not None and measured.sd_of_difference is not None
    return wish.difference is not None and own and wish.value is None


def _target(wish: Wish) -> str:
    if wish.half_width is not None:
        return f"an interval of ± {wish.half_width:g}"
    return f"a difference of {wish.difference:g} between two rewards, found with power {wish.power:g}"


def _pick(
    name: str, given: float | None, seen: float | None, assumed: float | None, into: dict[str, Assumption]
) -> float:
    """The number to use, noted with where it comes from."""
    for value, origin in ((given, "given"), (seen, "measured"), (assumed, "assumed")):
        if value is not None:
            into[name] = Assumption(value, origin)
            return value
    raise BadInput(f"--{name.replace(' ', '-')}: neither given nor measured; give it")


def _design(wish: Wish, measured: Measured | None, into: dict[str, Assumption]) -> tuple[float, float]:
    """Items per cluster and the intraclass correlation that the design effect speaks of."""
    seen = measured.items / measured.clusters if measured else None
    m = _pick("items per cluster", wish.items_per_cluster, seen, 1.0, into)
    effect = _pick("design effect", wish.design_effect, measured.design_effect if measured else None, 1.0, into)
    at = seen if wish.design_effect is None and seen is not None else m
    return m, icc_from_design_effect(effect, at)


def _correlation(wish: Wish, measured: Measured | None, kind: RankKind) -> AuditPlan:
    stated: dict[str, Assumption] = {}
    known = wish.reliability is not None or (measured is not None and measured.reliability is not None)
    rho = _pick("reliability", wish.reliability, measured.reliability if measured else None, 1.0, stated)
    value = wish.value
    if value is None and measured is not None and measured.value is not None:
        shrunk = math.sqrt(rho / spearman_brown(rho, measured.labels_per_item))
        stated["value"] = Assumption(measured.value * shrunk, "measured")
    else:
        _pick("value", value, None, None, stated)
    m, between = _design(wish, measured, stated)
    notes = []
    if not known:
        notes.append(
            "the reliability of one label is not known: more labels per item cannot be planned, and 1 is assumed"
        )
    if wish.difference is not None:
        notes.append(
            "the two rewards' errors are taken as independent, which asks for more than an audit with `against`"
        )
    counts = wish.labels_per_item or (LABELS if known and rho < 1 else (1,))
    plans = [
        plan_correlation(
            stated["value"].value, half_width=wish.half_width, difference=wish.difference, kind=kind,
            items_per_cluster=m, cluster_icc=between, reliability=rho, labels_per_item=k, level=wish.level,
            power=wish.power,
        )
        for k in counts
    ]  # fmt: skip
    return _planned(wish, measured, kind, stated, plans, notes)


def _accuracy(wish: Wish, measured: Measured | None) -> AuditPlan:
    stated: dict[str, Assumption] = {}
    p = _pick("value", wish.value, measured.value if measured else None, None, stated)
    if not 0 < p < 1:
        raise BadInput(f"--value {p:g}: an accuracy between 0 and 1 is needed; at the ends nothing varies")
    m, between = _design(wish, measured, stated)
    sd, notes = math.sqrt(p * (1 - p)), ["labels per item are one: more change what is right, not how often"]
    if wish.difference is not None:
        sd *= math.sqrt(2)
        notes.append(
            "the two rewards' errors are taken as independent, which asks for more than an audit with `against`"
        )
    plan = plan_mean(
        sd, half_width=wish.half_width, difference=wish.difference, items_per_cluster=m, cluster_icc=between,
        level=wish.level, power=wish.power,
    )  # fmt: skip
    return _planned(wish, measured, "accuracy", stated, [plan], notes)


def _as_measured(wish: Wish, measured: Measured | None, statistic: str) -> AuditPlan:
    """From the spread of clusters as an audit found it, its items per cluster and labels per item kept."""
    if measured is None:
        known = ", ".join([*Z_VARIANCE, "accuracy"])
        raise BadInput(f"--statistic {statistic}: planned from an audit of it only; name the audit, or one of {known}")
    stated: dict[str, Assumption] = {}
    notes = [
        "planned from the spread of this audit's clusters: items per cluster and labels per item stay as they were"
    ]
    sd = measured.sd_of_clusters
    if wish.difference is not None and measured.sd_of_difference is not None:
        sd = measured.sd_of_difference
    elif wish.difference is not None and sd is not None:
        sd *= math.sqrt(2)
        notes.append(
            "the two rewards' errors are taken as independent, which asks for more than an audit with `against`"
        )
    if not sd:
        raise BadInput(
            f"this audit has no interval of {statistic}, so its clusters' spread is unknown; audit more samples"
        )
    stated["spread of a cluster"] = Assumption(sd, "measured")
    stated["items per cluster"] = Assumption(measured.items / measured.clusters, "measured")
    stated["labels per item"] = Assumption(measured.labels_per_item, "measured")
    plan = plan_mean(sd, half_width=wish.half_width, difference=wish.difference, level=wish.level, power=wish.power)
    if plan.clusters is not None:
        items = math.ceil(plan.clusters * measured.items / measured.clusters)
        k = max(1, round(measured.labels_per_item))
        plan = LabelPlan(plan.clusters, items, k, items * k, plan.reached, plan.expected, plan.method, plan.why)
    return _planned(wish, measured, f"{statistic}, level {measured.level}", stated, [plan], notes)


def _planned(
    wish: Wish,
    measured: Measured | None,
    statistic: str,
    stated: dict[str, Assumption],
    plans: Sequence[LabelPlan],
    notes: list[str],
) -> AuditPlan:
    rollouts = wish.rollouts if wish.rollouts is not None else (measured.rollouts if measured else None)
    if rollouts is not None:
        stated["rollouts"] = Assumption(rollouts, "given" if wish.rollouts is not None else "measured")
    rows = [
        Row(plan, None if rollouts is None else beside_all_rollouts(plan, rollouts, wish.cost_per_label))
        for plan in plans
    ]
    counts = {i: row.plan.labels for i, row in enumerate(rows) if row.plan.labels is not None}
    cheapest = min(counts, key=lambda i: counts[i]) if counts else None
    return AuditPlan(_target(wish), statistic, stated, rows, cheapest, notes)


def _per_cluster(estimate: Estimate, level: float) -> float | None:
    """Standard error times √G, from the half-width; where the interval is clipped at an end, from its other side."""
    if estimate.value is None or estimate.low is None or estimate.high is None or estimate.n_clusters < 2:
        return None
    clipped = estimate.high >= 1 or estimate.low <= -1 or estimate.low == 0
    sides = (estimate.high - estimate.value, estimate.value - estimate.low)
    half = max(sides) if clipped else sum(sides) / 2
    return half / float(stdtrit(estimate.n_clusters - 1, (1 + level) / 2)) * math.sqrt(estimate.n_clusters)


def _moves(used: Evidence, spec: AuditSpec) -> np.ndarray | None:
    """What each sample adds to the statistic, where it is a correlation over all samples or an accuracy."""
    if spec.statistic == "accuracy":
        said, counts = verdicts_of(used, spec)
        return np.where(counts, said == used.human, 0.0).astype(np.float64)
    if spec.statistic in Z_VARIANCE and spec.level == "pooled":
        value, moves, _ = influence(used.reward, used.human, kind=spec.statistic)
        return None if value is None else moves
    return None


def _reliability(ratings: np.ndarray, *, categorical: bool) -> float | None:
    """That of one label: Krippendorff's alpha, which takes annotators who did not label everything."""
    if ratings.ndim != 2 or ratings.shape[1] < 2:
        return None
    codes: Mapping[Any, float] = {}
    if categorical:
        labels = sorted({str(cell) for cell in ratings.ravel().tolist() if cell is not None})
        codes = {label: float(i) for i, label in enumerate(labels)}
    if categorical:
        ratings = np.array([[None if cell is None else codes[str(cell)] for cell in row] for row in ratings.tolist()])
    matrix = np.asarray(ratings, dtype=np.float64)  # None becomes NaN
    matrix = matrix[np.count_nonzero(~np.isnan(matrix), axis=1) > 1]
    if matrix.shape[0] < 2:
        return None
    values = np.unique(matrix[~np.isnan(matrix)]).size
    if values > 1000 or matrix.shape[0] * values > MOST_CELLS:
        value = icc(matrix, form="1,1").value
    else:
        value = krippendorff_alpha(matrix, scale="nominal" if categorical else "interval").value
    return value if value is not None and 0 < value <= 1 else None
