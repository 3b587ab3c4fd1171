"""How far the reward agrees with humans: the registered statistic, and every other level beside it.

1. `agreement` is the one place that turns (statistic, level) into a number, so the registered line, its worst cases and
   its strata are computed alike.
2. A line says what it is, at which level, by which rules, and whether it was registered before looking.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from evalkit.audit.evidence import Evidence
from evalkit.audit.inputs import number_of
from evalkit.audit.several import DISAGREE
from evalkit.audit.spec import OF_LABELS, AuditSpec
from evalkit.errors import BadInput
from evalkit.stats import (
    Estimate,
    acc_eq,
    auc,
    classification,
    cluster_standard_error,
    cohen_kappa,
    correlation,
    design_effect,
    grouped_correlation,
    ordering_accuracy,
    pairs_within,
    partial_correlation,
    preference_accuracy,
    system_correlation,
    tie_calibration,
    undefined,
    within_correlation,
)
from evalkit.stats.arrays import FloatArray
from evalkit.stats.clusters import clusters_of, joined, nested
from evalkit.stats.correlation import NAMES, Kind
from evalkit.stats.kappa import Weights

SHOWN: tuple[Kind, ...] = ("pearson", "spearman", "kendall_b")
UNPARSED = "\x00unparsed"
UNDEFINED = {"exclude": "left out", "zero": "as 0"}


@dataclass(frozen=True, slots=True)
class Line:
    """One number of an audit."""

    name: str
    level: str
    rules: str
    """Ties, missing, undefined: whatever rule the number hangs on."""
    estimate: Estimate
    registered: bool = False
    """Named by the frozen spec; otherwise exploratory."""
    details: dict[str, Any] = field(default_factory=dict)
    """Further figures of this line, for the JSON: undefined groups, permutation p, folds …"""


def generator(spec: AuditSpec, purpose: str) -> np.random.Generator:
    """Draws that depend on the spec's seed and on what they are for, not on what was drawn before."""
    return np.random.default_rng([spec.seed, *purpose.encode()])


def groups_of(evidence: Evidence, name: str) -> np.ndarray:
    """A column as labels for grouping.

    Raises:
        BadInput: a sample has none.
    """
    found = evidence.columns[name]
    if found.dtype.kind == "i":
        return found
    lost = next((i for i, value in enumerate(found) if value is None or str(value).strip() == ""), None)
    if lost is not None:
        raise BadInput(f"sample {evidence.sample_ids[lost]}, field {name}: null where a group belongs; fill it in")
    return np.array([str(value) for value in found], dtype=object)


def complete_column(evidence: Evidence, name: str) -> np.ndarray | None:
    """A column as labels for grouping where it is there and has no gaps; None else."""
    if name not in evidence.columns or any(cell is None or not str(cell).strip() for cell in evidence.columns[name]):
        return None
    return groups_of(evidence, name)


def group_column(spec: AuditSpec) -> str | None:
    """The column of the groups that the level compares or averages; None for level pooled."""
    return {"pooled": None, "system": spec.system_by}.get(spec.level, spec.group_by)


def has_group(evidence: Evidence, spec: AuditSpec) -> NDArray[np.bool_]:
    """Which samples have a group of the level; all for level pooled."""
    column = group_column(spec)
    if column is None:
        return np.ones(evidence.reward.size, dtype=bool)
    return np.array([cell is not None and str(cell).strip() != "" for cell in evidence.columns[column]], dtype=bool)


def numbered(labels: NDArray[Any]) -> NDArray[np.intp]:
    """Labels as numbers in the order of their names, so that folds and draws do not depend on the order of rows."""
    return np.unique(labels.astype(str), return_inverse=True)[1]


def whole_groups(evidence: Evidence, groups: NDArray[Any]) -> NDArray[np.intp]:
    """Clusters as numbers, in which every group stays whole: samples of one group are compared with each other."""
    n = evidence.reward.size
    return joined(clusters_of(numbered(evidence.clusters), n), clusters_of(numbered(groups), n)).codes


def coded(evidence: Evidence, spec: AuditSpec) -> Evidence:
    """The same with clusters, groups and systems as whole numbers, for sections that ask for them many times.

    Raises:
        BadInput: a sample has none.
    """
    n = evidence.reward.size
    codes = {
        name: clusters_of(groups_of(evidence, name), n).codes
        for name in (spec.group_by, spec.system_by)
        if name in evidence.columns
    }
    columns = cast(dict[str, Any], {**evidence.columns, **codes})
    return replace(evidence, clusters=cast(Any, clusters_of(evidence.clusters, n).codes), columns=columns)


def counted(evidence: Evidence, spec: AuditSpec) -> Evidence:
    """The samples that count: scored ones, and where the spec says so unscored ones at their worst."""
    if spec.missing == "worst":
        return filled(evidence, spec, favourable=False)
    return evidence.only(evidence.scored)


def filled(evidence: Evidence, spec: AuditSpec, *, favourable: bool) -> Evidence:
    """All samples, the unscored ones with the score that agrees most, or least, with their label.

    For numbers that is an end of the declared range: the end on the label's side of the median label, or the other.
    These fillings are attained, so the statistic can lie as far out; no bound beyond them is claimed.
    """
    unscored = ~evidence.scored
    reward = evidence.reward.copy()
    if spec.categorical:
        reward[unscored] = evidence.human[unscored] if favourable else UNPARSED
    else:
        scale = spec.scales[spec.reward]
        low, high = (
            (float(scale.low), float(scale.high)) if scale.higher_is_better else (-float(scale.high), -float(scale.low))
        )
        liked = evidence.human[unscored] > np.median(evidence.human)
        reward[unscored] = np.where(liked == favourable, high, low)
    by_order = {name: np.where(unscored, reward, said) for name, said in evidence.by_order.items()}
    return replace(evidence, reward=reward, by_order=by_order, status=np.full(reward.size, "ok", dtype=object))


def agreement(evidence: Evidence, spec: AuditSpec, statistic: str, level: str) -> Line:
    """One statistic at one level over samples that all have a reward.

    Raises:
        BadInput: level within, and clusters that part a group.
    """
    if statistic in OF_LABELS:
        return _of_labels(evidence, spec, statistic)
    x, y, clusters = evidence.reward, evidence.human, evidence.clusters
    confidence = spec.confidence
    if level == "within" and not _nested(evidence, spec):
        raise BadInput(
            f"level within, cluster_by {spec.cluster_by}: samples of one {spec.group_by} lie in several clusters, so "
            f"what differs within it has no error; freeze cluster_by: {spec.group_by}, or a coarser column"
        )
    if statistic == "auc":
        return Line("AUC", level, "ties half", auc(x, _positive(y), clusters, level=confidence))
    if statistic == "acc_eq":
        return _acc_eq(evidence, spec)
    if statistic == "ordering_accuracy":
        if level == "pooled":
            estimate = ordering_accuracy(x, y, clusters, ties=spec.ties, level=confidence)
        else:
            pairs = pairs_within(x, y, groups_of(evidence, spec.group_by))
            differ = pairs.human != 0
            better = np.sign(pairs.human[differ]) * pairs.reward[differ]
            of_pairs = clusters[pairs.first[differ]]
            estimate = preference_accuracy(better, np.zeros(better.size), of_pairs, ties=spec.ties, level=confidence)
        return Line("ordering accuracy", level, f"reward ties {spec.ties}", estimate)
    kind = cast(Kind, statistic)
    if level == "pooled":
        return Line(NAMES[kind], level, "", correlation(x, y, clusters, kind=kind, level=confidence))
    if level == "group":
        return _by_group(evidence, spec, kind, spec.weights)
    if level == "within":
        groups = groups_of(evidence, spec.group_by)
        estimate = within_correlation(x, y, groups, clusters, kind=kind, level=confidence)
        return Line(NAMES[kind], f"within {spec.group_by}", "", estimate)
    found = system_correlation(
        x,
        y,
        groups_of(evidence, spec.system_by),
        kind=kind,
        rng=generator(spec, "systems"),
        draws=spec.draws,
        level=confidence,
    )
    details = {
        "permutation": found.permutation,
        "systems": found.systems,
        "reward": found.x.tolist(),
        "human": found.y.tolist(),
    }
    return Line(NAMES[kind], f"system ({spec.system_by})", "", found.estimate, details=details)


def other_levels(evidence: Evidence, spec: AuditSpec) -> list[Line]:
    """Pearson, Spearman and tau-b at every level that the columns allow, the registered one among them."""
    if spec.categorical:
        return []
    levels = ["pooled"]
    if spec.group_by in evidence.columns:
        levels += ["group", "within"]
    if spec.system_by in evidence.columns:
        levels.append("system")
    lines = [
        agreement(evidence, spec, kind, level)
        for level in levels
        for kind in SHOWN
        if level != "within" or _nested(evidence, spec)
    ]
    if "group" in levels:
        other = "size" if spec.weights == "equal" else "equal"
        lines += [_by_group(evidence, spec, kind, other) for kind in SHOWN]
    return lines + partial_lines(evidence, spec)


def partial_lines(evidence: Evidence, spec: AuditSpec) -> list[Line]:
    """Rank and product-moment correlation with the declared controls, and the systems, held constant."""
    lines = []
    if spec.controls:
        known, columns = controls_of(evidence, spec)
        for kind in ("pearson", "spearman"):
            estimate = partial_correlation(
                evidence.reward[known], evidence.human[known], columns, evidence.clusters[known],
                kind=kind, level=spec.confidence,
            )  # fmt: skip
            rules = f"given {', '.join(spec.controls)}; {int(np.count_nonzero(~known))} samples without one left out"
            lines.append(Line(f"partial {NAMES[kind]}", "pooled", rules, estimate))
    if spec.system_by in evidence.columns:
        systems = groups_of(evidence, spec.system_by)
        names = np.unique(systems)
        if 1 < names.size < evidence.reward.size / 3:
            dummies = (systems[:, None] == names[None, 1:]).astype(np.float64)
            estimate = partial_correlation(
                evidence.reward, evidence.human, dummies, evidence.clusters, kind="pearson", level=spec.confidence
            )
            lines.append(Line(f"partial {NAMES['pearson']}", "pooled", f"given {spec.system_by}", estimate))
    return lines


def controls_of(evidence: Evidence, spec: AuditSpec) -> tuple[np.ndarray, FloatArray]:
    """Which samples have all controls, and these as columns."""
    read = []
    for name in spec.controls:
        if name == "length" and evidence.lengths is not None:
            read.append(evidence.lengths)
            continue
        cells = [number_of(cell)[0] for cell in evidence.columns[name]]
        read.append(np.array([np.nan if cell is None else cell for cell in cells]))
    columns = np.column_stack(read)
    known = np.asarray(np.isfinite(columns).all(axis=1))
    if not known.any():
        raise BadInput(f"controls {', '.join(spec.controls)}: no sample has a number for all of them")
    return known, columns[known]


def policies_for_unparsed(evidence: Evidence, spec: AuditSpec) -> list[Line]:
    """The accuracy of a categorical judge under every rule for verdicts that could not be read."""
    if not spec.categorical:
        return []
    rules = ["wrong", "exclude", *vocabulary(evidence, spec)]
    lines = [_of_labels(evidence, spec.model_copy(update={"unparsed": rule}), "accuracy") for rule in rules]
    return [*lines, *unparsed_bounds(evidence, spec, "accuracy")[1:]]


def weighted_kappas(evidence: Evidence, spec: AuditSpec) -> list[Line]:
    """Kappa by distance on the scale that `labels` declares, of the verdicts that are on it; nothing for two labels."""
    if len(spec.labels) < 3 or spec.combine_orders == "average":
        return []
    place = {label: i for i, label in enumerate(spec.labels)}
    on = np.array([said in place and true in place for said, true in zip(evidence.reward, evidence.human, strict=True)])
    said, true, clusters = evidence.reward[on].tolist(), evidence.human[on].tolist(), evidence.clusters[on]
    weights: tuple[Weights, ...] = ("linear", "quadratic")
    return [
        Line(
            f"Cohen's kappa, {how} weights", "pooled", f"order of labels as declared; {int((~on).sum())} not on it",
            cohen_kappa(said, true, clusters, weights=how, order=spec.labels, level=spec.confidence),
        )
        for how in weights
    ]  # fmt: skip


def unparsed_bounds(evidence: Evidence, spec: AuditSpec, statistic: str) -> list[Line]:
    """A statistic with every verdict that could not be read wrong, and with every one right: any reading lies between,
    for accuracy. Empty where every verdict was read."""
    unread = unread_of(evidence, spec) & (evidence.reward != DISAGREE)
    by_order = {
        name: np.where(unread_of(replace(evidence, reward=said), spec), evidence.human, said)
        for name, said in evidence.by_order.items()
    }
    if not unread.any():
        return []
    right = replace(evidence, reward=np.where(unread, evidence.human, evidence.reward), by_order=by_order)
    wrong = spec.model_copy(update={"unparsed": "wrong"})
    return [
        replace(_of_labels(said, wrong, statistic), rules=f"unparsed {word}, a bound ({int(unread.sum())})", details={})
        for word, said in (("wrong", evidence), ("right", right))
    ]


def vocabulary(evidence: Evidence, spec: AuditSpec) -> list[str]:
    """The labels that a verdict may be: those declared, else those that humans gave."""
    return list(spec.labels) if spec.labels else sorted({str(label) for label in evidence.human})


def unread_of(evidence: Evidence, spec: AuditSpec) -> np.ndarray:
    """Which verdicts are none of the labels."""
    known = set(vocabulary(evidence, spec))
    return np.array([verdict not in known for verdict in evidence.reward], dtype=bool)


def verdicts_of(evidence: Evidence, spec: AuditSpec) -> tuple[np.ndarray, np.ndarray]:
    """Each sample's verdict after the rule for unparsed ones, and which samples count."""
    unread, verdicts = unread_of(evidence, spec) & (evidence.reward != DISAGREE), evidence.reward.copy()
    verdicts[unread] = UNPARSED if spec.unparsed in ("wrong", "exclude") else spec.unparsed
    counts = ~unread if spec.unparsed == "exclude" else np.ones(unread.size, dtype=bool)
    return verdicts, counts


def stacked(evidence: Evidence) -> Evidence:
    """Every sample once per order, with what was said in that order; clusters keep a sample's orders together."""
    parts = [replace(evidence, reward=said) for said in evidence.by_order.values()]
    return replace(
        evidence,
        reward=np.concatenate([part.reward for part in parts]),
        human=np.concatenate([part.human for part in parts]),
        ratings=np.concatenate([part.ratings for part in parts]),
        clusters=np.concatenate([part.clusters for part in parts]),
    )


def _of_labels(evidence: Evidence, spec: AuditSpec, statistic: str) -> Line:
    labels = vocabulary(evidence, spec)
    if spec.combine_orders == "average" and len(evidence.by_order) == 2:
        evidence = stacked(evidence)
    verdicts, counts = verdicts_of(evidence, spec)
    said, true, clusters = verdicts[counts].tolist(), evidence.human[counts].tolist(), evidence.clusters[counts]
    flipped = evidence.reward == DISAGREE
    rules = f"unparsed {spec.unparsed} ({int(np.count_nonzero(unread_of(evidence, spec) & ~flipped))})"
    if evidence.by_order:
        rules += f"; orders {spec.combine_orders}"
    if not said:
        return Line(statistic, "pooled", rules, undefined(0, 0, statistic, "no sample is left"))
    scores = classification(said, true, clusters, labels=labels, level=spec.confidence)
    per_label = {
        str(label): {
            "precision": c.precision,
            "recall": c.recall,
            "f1": c.f1,
            "predicted": c.predicted,
            "actual": c.actual,
        }
        for label, c in scores.classes.items()
    }
    if statistic == "kappa":
        estimate = cohen_kappa(said, true, clusters, level=spec.confidence)
        return Line("Cohen's kappa", "pooled", rules, estimate)
    if statistic == "macro_f1":
        return Line("macro F1", "pooled", rules, scores.macro_f1, details={"labels": per_label})
    details = {
        "labels": per_label,
        "macro_precision": scores.macro_precision,
        "macro_recall": scores.macro_recall,
        "macro_f1": scores.macro_f1,
        "standard_errors": standard_errors(np.array([a == b for a, b in zip(said, true, strict=True)]), clusters),
    }
    return Line("accuracy", "pooled", rules, scores.accuracy, details=details)


def standard_errors(values: np.ndarray, clusters: np.ndarray) -> dict[str, float | None]:
    """Of a mean: by cluster without (CR0) and with (CR1) the factor G/(G − 1), and of independent values (s/√n); the
    design effects are squared ratios to the last. None where nothing varies or all is one cluster."""
    effect = design_effect(values, clusters)
    if effect is None:
        return dict.fromkeys(("CR0", "CR1", "independent", "design_effect_CR0", "design_effect_CR1"))
    cr0 = cluster_standard_error(values, clusters, "CR0")
    independent = cluster_standard_error(values, np.arange(values.size), "CR1")
    return {
        "CR0": cr0,
        "CR1": cluster_standard_error(values, clusters, "CR1"),
        "independent": independent,
        "design_effect_CR0": (cr0 / independent) ** 2,
        "design_effect_CR1": effect,
    }


def _by_group(evidence: Evidence, spec: AuditSpec, kind: Kind, weights: Any) -> Line:
    groups = groups_of(evidence, spec.group_by)
    found = grouped_correlation(
        evidence.reward, evidence.human, groups, evidence.clusters,
        kind=kind, weights=weights, without=spec.undefined, level=spec.confidence,
    )  # fmt: skip
    lost = sum(found.undefined.values())
    rules = f"{weights} weights; {lost} of {found.groups} groups undefined, {UNDEFINED[spec.undefined]}"
    return Line(
        NAMES[kind], f"mean per {spec.group_by}", rules, found.estimate,
        details={"groups": found.groups, "undefined": found.undefined},
    )  # fmt: skip


def _acc_eq(evidence: Evidence, spec: AuditSpec) -> Line:
    pairs = pairs_within(evidence.reward, evidence.human, groups_of(evidence, spec.group_by))
    clusters = evidence.clusters[pairs.first]
    found = tie_calibration(
        pairs.human, pairs.reward, clusters, rng=generator(spec, "folds"), level=spec.confidence
    )  # fmt: skip
    details = {
        "at_zero": acc_eq(pairs.human, pairs.reward, clusters, epsilon=0.0, level=spec.confidence),
        "epsilons": found.epsilons,
        "in_sample": found.in_sample,
        "epsilon": found.epsilon,
    }
    return Line(
        "acc_eq", f"pairs within {spec.group_by}", "ε cross-fitted over clusters", found.cross_fitted, details=details
    )


def _nested(evidence: Evidence, spec: AuditSpec) -> bool:
    """Whether every group lies in one cluster, without which nothing within groups has an error."""
    n = evidence.reward.size
    return nested(clusters_of(groups_of(evidence, spec.group_by), n), clusters_of(evidence.clusters, n))


def _positive(labels: FloatArray) -> FloatArray:
    if not np.isin(labels, (0.0, 1.0)).all():
        raise BadInput("auc: human labels must be 0 and 1; take another statistic for graded labels")
    return labels
