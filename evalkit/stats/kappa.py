"""Two sets of labels of the same things: Cohen's kappa, and precision, recall and F1 of one against the other.

1. Labels are compared as they are. `1`, `"1"` and `"A"` are three labels, and a kappa between vocabularies that do not
   overlap measures spelling: `unshared_labels` finds them before anything is computed.
2. Intervals come from influence functions summed within clusters, CR1 with t(G − 1), as for correlations.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalkit.stats.arrays import FloatArray
from evalkit.stats.clusters import Clusters, clusters_of
from evalkit.stats.correlation import linear_interval
from evalkit.stats.estimate import Estimate, undefined
from evalkit.stats.means import cluster_mean

Weights = Literal["none", "linear", "quadratic"]
Labels = Sequence[Hashable]


@dataclass(frozen=True, slots=True)
class ClassScores:
    """How well one label was found."""

    precision: Estimate
    """Of those predicted to have the label, the share that has it; undefined where none is predicted."""
    recall: Estimate
    """Of those that have it, the share found; undefined where none has it."""
    f1: Estimate
    """2 · TP / (predicted + actual)."""
    predicted: int
    actual: int


@dataclass(frozen=True, slots=True)
class Classification:
    """Predictions against gold, per label and averaged."""

    accuracy: Estimate
    classes: dict[Hashable, ClassScores]
    """By label, in the order given."""
    macro_precision: Estimate
    """Plain means over labels; a precision or recall of 0 / 0 counts as 0, as scikit-learn does, and `method` says how
    many did."""
    macro_recall: Estimate
    macro_f1: Estimate


def unshared_labels(a: Labels, b: Labels) -> tuple[list[Hashable], list[Hashable]]:
    """Labels that occur only in `a`, and only in `b`, in order of appearance."""
    in_a, in_b = dict.fromkeys(a), dict.fromkeys(b)
    return [label for label in in_a if label not in in_b], [label for label in in_b if label not in in_a]


def cohen_kappa(
    a: Labels,
    b: Labels,
    clusters: ArrayLike,
    *,
    weights: Weights = "none",
    order: Sequence[Hashable] | None = None,
    level: float = 0.95,
) -> Estimate:
    """Cohen's kappa, 1 − (1 − P_o)/(1 − P_e), weighted by distance on an ordered scale if asked.

    Args:
        a, b: n labels each, of the same things. None is no label and is refused: drop or name it first.
        clusters: shape (n,), a label per observation.
        weights: a disagreement costs 1, |i − j| or (i − j)², i and j places in `order`.
        order: the scale, each label once; needed with weights, may list labels that do not occur.
        level: coverage, between 0 and 1.

    Returns:
        ≤ 1, 0 at chance. Undefined without labels or where both raters use one and the same label only.

    Raises:
        ValueError: lengths differ, a label is None, weights without order, or a label outside order.

    Sources: Cohen 1960 and 1968; the influence function gives, for independent observations, the error of Fleiss,
    Cohen & Everitt 1969.
    """
    codes_a, codes_b, labels = _codes(a, b, order)
    if weights not in ("none", "linear", "quadratic"):
        raise ValueError(f"weights: {weights!r} is none of none, linear, quadratic")
    if weights != "none" and order is None:
        raise ValueError("order: weights need the order of the labels")
    groups, n, k = clusters_of(clusters, codes_a.size), codes_a.size, len(labels)
    method = "Cohen's kappa" if weights == "none" else f"Cohen's kappa, {weights} weights"
    if n == 0:
        return undefined(0, 0, method, "no labels")
    away = np.abs(np.subtract.outer(np.arange(k), np.arange(k))).astype(np.float64)
    cost = {"none": (away > 0).astype(np.float64), "linear": away, "quadratic": away**2}[weights]
    p, q = np.bincount(codes_a, minlength=k) / n, np.bincount(codes_b, minlength=k) / n
    given = cost[codes_a, codes_b]
    expected, by_chance = float(p @ cost @ q), (cost @ q)[codes_a] + (p @ cost)[codes_b]
    if expected == 0:
        return undefined(n, groups.count, method, f"both give {labels[codes_a[0]]!r} only; nothing could disagree")
    observed = float(given.mean())
    moves = -(given - observed) / expected + observed / expected**2 * (by_chance - 2 * expected)
    return linear_interval(1 - observed / expected, moves, groups, method, level, bounds=(-np.inf, 1.0))


def kappa_value(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Cohen's kappa alone, for many resamples: `cohen_kappa` without its error. NaN where that is undefined.

    Args:
        a, b: shape (n,), labels that sort.
    """
    if a.size == 0:
        return math.nan
    codes = np.unique(np.concatenate([a, b]), return_inverse=True)[1]
    said, true, k = codes[: a.size], codes[a.size :], int(codes.max()) + 1
    by_chance = float(np.bincount(said, minlength=k) @ np.bincount(true, minlength=k)) / a.size**2
    return (float(np.mean(said == true)) - by_chance) / (1 - by_chance) if by_chance < 1 else math.nan


def macro_f1_value(predicted: NDArray[Any], actual: NDArray[Any], labels: Sequence[Hashable]) -> float:
    """Macro F1 alone, as in `classification`: 0 / 0 counts as 0. NaN where no label is predicted or actual."""
    of_label = [(predicted == label, actual == label) for label in labels]
    there = [(np.count_nonzero(say & so), np.count_nonzero(say) + np.count_nonzero(so)) for say, so in of_label]
    if not any(total for _, total in there):
        return math.nan
    return sum(2 * hits / total for hits, total in there if total) / len(labels)


def classification(
    predicted: Labels, actual: Labels, clusters: ArrayLike, *, labels: Sequence[Hashable], level: float = 0.95
) -> Classification:
    """Accuracy, and precision, recall and F1 per label and as means over labels.

    Args:
        predicted, actual: n labels each. A prediction outside `labels` (an unparsed verdict, say) is wrong for every
            label and in no class; an actual label must be in `labels`.
        clusters: shape (n,), a label per observation.
        labels: the classes.
        level: coverage, between 0 and 1.

    Raises:
        ValueError: lengths differ, no or repeated labels, or an actual label outside them.
    """
    if not labels or len(set(labels)) != len(labels):
        raise ValueError("labels: give every class once")
    if len(predicted) != len(actual):
        raise ValueError(f"predicted and actual: {len(predicted)} and {len(actual)} labels")
    place = {label: i for i, label in enumerate(labels)}
    beyond = next((label for label in actual if label not in place), None)
    if any(label not in place for label in actual):
        raise ValueError(f"actual: {beyond!r} is not among the labels")
    said = np.array([place.get(label, -1) for label in predicted], dtype=np.intp)
    true = np.array([place[label] for label in actual], dtype=np.intp)
    groups = clusters_of(clusters, said.size)
    accuracy = cluster_mean(said == true, groups.codes, level=level, bounds=(0.0, 1.0))
    classes, parts = {}, []
    for label, i in place.items():
        hit = ((said == i) & (true == i)).astype(np.float64)
        say, is_so = (said == i).astype(np.float64), (true == i).astype(np.float64)
        ratios = [_ratio(hit, say), _ratio(hit, is_so), _ratio(2 * hit, say + is_so)]
        parts.append(ratios)
        precision, recall, f1 = ratios
        classes[label] = ClassScores(
            _of_ratio(precision, groups, f"precision of {label!r}", "never predicted", level),
            _of_ratio(recall, groups, f"recall of {label!r}", "never actual", level),
            _of_ratio(f1, groups, f"F1 of {label!r}", "neither predicted nor actual", level),
            int(say.sum()),
            int(is_so.sum()),
        )
    names = ("precision", "recall", "F1")
    means = [_macro([ratios[i] for ratios in parts], groups, name, level) for i, name in enumerate(names)]
    return Classification(accuracy, classes, *means)


Ratio = tuple[float, FloatArray] | None


def _ratio(above: FloatArray, below: FloatArray) -> Ratio:
    """Σ above / Σ below, and how each observation moves it; None for 0 / 0."""
    if not below.sum() > 0:
        return None
    value = float(above.sum() / below.sum())
    return value, (above - value * below) / below.mean()


def _of_ratio(ratio: Ratio, groups: Clusters, method: str, none: str, level: float) -> Estimate:
    n = groups.codes.size
    if ratio is None:
        return undefined(n, groups.count, method, none)
    return linear_interval(*ratio, groups, method, level, bounds=(0.0, 1.0))


def _macro(ratios: list[Ratio], groups: Clusters, name: str, level: float) -> Estimate:
    empty = sum(ratio is None for ratio in ratios)
    n = groups.codes.size
    method = f"macro {name} over {len(ratios)} labels" + (f", {empty} of 0 / 0 taken as 0" if empty else "")
    if empty == len(ratios):
        return undefined(n, groups.count, method, "no label was predicted or actual")
    value = sum(ratio[0] for ratio in ratios if ratio) / len(ratios)
    moves = np.sum([ratio[1] for ratio in ratios if ratio], axis=0) / len(ratios)
    return linear_interval(value, moves, groups, method, level, bounds=(0.0, 1.0))


def _codes(
    a: Labels, b: Labels, order: Sequence[Hashable] | None
) -> tuple[NDArray[np.intp], NDArray[np.intp], list[Hashable]]:
    if len(a) != len(b):
        raise ValueError(f"a and b: {len(a)} and {len(b)} labels; pair them first")
    if any(label is None for labels in (a, b) for label in labels):
        raise ValueError("labels: None is no label; drop or name it first")
    labels = list(dict.fromkeys([*a, *b])) if order is None else list(order)
    if len(set(labels)) != len(labels):
        raise ValueError("order: a label stands twice")
    place = {label: i for i, label in enumerate(labels)}
    for label in (*a, *b):
        if label not in place:
            raise ValueError(f"order: {label!r} is not in it")
    codes = [np.array([place[label] for label in side], dtype=np.intp) for side in (a, b)]
    return codes[0], codes[1], labels
