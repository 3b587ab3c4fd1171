"""Does the reward order pairs as humans do: accuracy by tie rule, ties as a verdict of their own, AUC.

1. A tie of the reward is wrong, half, excluded or right: four rules, four numbers, and the rule is part of the name.
2. Where humans may tie, `acc_eq` counts a tie that both see as right. A continuous reward then needs a threshold below
   which it ties, which is chosen on other clusters than it is judged on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalkit.stats.arrays import FloatArray, finite_vector
from evalkit.stats.clusters import clusters_of
from evalkit.stats.concordance import pair_counts
from evalkit.stats.correlation import influence, linear_interval
from evalkit.stats.estimate import Estimate, undefined
from evalkit.stats.means import cluster_mean

Ties = Literal["wrong", "half", "excluded", "right"]
TIES: tuple[Ties, ...] = get_args(Ties)
CREDIT: dict[Ties, float] = {"wrong": 0.0, "half": 0.5, "excluded": math.nan, "right": 1.0}


@dataclass(frozen=True, slots=True)
class Pairs:
    """All pairs of observations within one group: differences first − second, and the group of each pair."""

    human: FloatArray
    reward: FloatArray
    groups: NDArray[np.intp]
    first: NDArray[np.intp]
    """Row of the first observation of each pair."""
    second: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class TieCalibration:
    """acc_eq by the threshold ε under which the reward is taken to tie."""

    at_zero: Estimate
    """ε = 0: only equal rewards tie."""
    cross_fitted: Estimate
    """Every pair judged with the ε that was best on the other folds' clusters."""
    epsilons: tuple[float, ...]
    """The ε of each fold, in reward units."""
    in_sample: float | None
    """acc_eq at the ε that is best on all pairs: what other tools print, and optimistic."""
    epsilon: float | None
    """That ε."""


def preference_accuracy(
    chosen: ArrayLike, rejected: ArrayLike, clusters: ArrayLike, *, ties: Ties, level: float = 0.95
) -> Estimate:
    """Share of pairs in which the chosen response has the larger reward.

    Args:
        chosen, rejected: shape (n,), rewards of the two responses of each pair, no NaN.
        clusters: shape (n,), a label per pair.
        ties: what a pair of equal rewards counts as.
        level: coverage, between 0 and 1.

    Returns:
        0 to 1, as `cluster_mean` with those bounds. With ties excluded `n` counts the pairs left.

    Raises:
        ValueError: lengths differ, NaN or infinite values, a missing label, or an unknown tie rule.
    """
    won, lost = finite_vector(chosen, "chosen"), finite_vector(rejected, "rejected")
    if won.size != lost.size:
        raise ValueError(f"chosen and rejected: {won.size} and {lost.size} values; pair them first")
    return _accuracy(np.sign(won - lost), clusters, ties, level)


def ordering_accuracy(
    reward: ArrayLike, human: ArrayLike, clusters: ArrayLike, *, ties: Ties, level: float = 0.95
) -> Estimate:
    """Share, of all pairs of observations that humans rate differently, which the reward orders as they do.

    C / (C + D + T), T the pairs tied in reward only and counted by `ties`; over pairs of all observations, so rewards
    must be comparable between prompts. For pairs within a prompt use `pairs_within` and `preference_accuracy`.

    Args:
        reward, human: shape (n,), no NaN.
        clusters: shape (n,), a label per observation.
        ties: what a pair tied in reward counts as.
        level: coverage, between 0 and 1.

    Returns:
        0 to 1 with the CR1 interval of influence functions on t(G − 1), clipped; undefined where humans rate all alike.
        `n` counts observations.

    Raises:
        ValueError: as `correlation`, or an unknown tie rule.
    """
    x, y = finite_vector(reward, "reward"), finite_vector(human, "human")
    if x.size != y.size:
        raise ValueError(f"reward and human: {x.size} and {y.size} values; pair them first")
    groups, credit = clusters_of(clusters, x.size), CREDIT[_known(ties)]
    method = f"ordering accuracy over all pairs, reward ties {ties}"
    if x.size < 2 or y.min() == y.max():
        return undefined(x.size, groups.count, method, "no two observations differ in their human rating")
    c, d, tied, _, _ = pair_counts(x, y).shares()
    right, counted = (c, c + d) if math.isnan(credit) else (c + credit * tied, c + d + tied)
    if not counted.mean() > 0:
        return undefined(x.size, groups.count, method, "the reward ties every pair that humans rate differently")
    value = float(right.mean() / counted.mean())
    return linear_interval(
        value, 2 * (right - value * counted) / counted.mean(), groups, method, level, bounds=(0.0, 1.0)
    )


def auc(scores: ArrayLike, positive: ArrayLike, clusters: ArrayLike, *, level: float = 0.95) -> Estimate:
    """Area under the ROC curve: the chance that a positive scores above a negative, ties half.

    Args:
        scores: shape (n,), no NaN.
        positive: shape (n,), true/false or 0/1.
        clusters: shape (n,), a label per observation.
        level: coverage, between 0 and 1.

    Returns:
        0 to 1, ½ at chance, with the CR1 interval of influence functions on t(G − 1), clipped. Undefined without both
        classes; ½ without interval where all scores are equal.

    Raises:
        ValueError: as `correlation`, or a label that is neither 0 nor 1.

    Source: Hanley & McNeil 1982; the interval is DeLong's for independent observations, summed within clusters.
    """
    x, label = finite_vector(scores, "scores"), finite_vector(positive, "positive")
    if not np.isin(label, (0.0, 1.0)).all():
        raise ValueError("positive: expected true/false or 0/1")
    groups, method = clusters_of(clusters, x.size), "AUC, ties half"
    if x.size != label.size:
        raise ValueError(f"scores and positive: {x.size} and {label.size} values; pair them first")
    if x.size == 0 or label.min() == label.max():
        there = "no observations" if x.size == 0 else f"all {x.size} labels are {label[0]:g}"
        return undefined(x.size, groups.count, method, f"{there}; both classes are needed")
    value, moves, _ = influence(label, x, kind="somers_d")
    if value is None:
        return Estimate(0.5, None, None, x.size, groups.count, method, "all scores are equal")
    return linear_interval((value + 1) / 2, moves / 2, groups, method, level, bounds=(0.0, 1.0))


def pairs_within(reward: ArrayLike, human: ArrayLike, groups: ArrayLike) -> Pairs:
    """Every pair of observations of one group, once: Σ n_g(n_g − 1)/2 pairs.

    Raises:
        ValueError: lengths differ, NaN or infinite values, or a missing label.
    """
    x, y = finite_vector(reward, "reward"), finite_vector(human, "human")
    if x.size != y.size:
        raise ValueError(f"reward and human: {x.size} and {y.size} values; pair them first")
    codes = clusters_of(groups, x.size).codes
    order = np.argsort(codes, kind="stable")
    at = codes[order]
    first, second = [], []
    for lag in range(1, int(np.bincount(codes).max(initial=0))):
        here = np.flatnonzero(at[lag:] == at[:-lag])
        first.append(order[here])
        second.append(order[here + lag])
    a = np.concatenate(first) if first else np.empty(0, dtype=np.intp)
    b = np.concatenate(second) if second else np.empty(0, dtype=np.intp)
    return Pairs(y[a] - y[b], x[a] - x[b], codes[a], a, b)


def acc_eq(
    human: ArrayLike, reward: ArrayLike, clusters: ArrayLike, *, epsilon: float, level: float = 0.95
) -> Estimate:
    """Share of pairs on which both say first, both say second, or both say tie.

    (C + T_both) / all pairs, a reward difference of at most ε being a tie. Source: Deutsch, Foster & Freitag 2023,
    "Ties Matter".

    Args:
        human, reward: shape (pairs,), differences first − second, as in `Pairs`.
        clusters: shape (pairs,), a label per pair.
        epsilon: ≥ 0, in reward units.
        level: coverage, between 0 and 1.

    Returns:
        0 to 1, as `cluster_mean` with those bounds.

    Raises:
        ValueError: lengths differ, NaN or infinite values, a missing label, or ε negative.
    """
    dh, dr = finite_vector(human, "human"), finite_vector(reward, "reward")
    if dh.size != dr.size:
        raise ValueError(f"human and reward: {dh.size} and {dr.size} pairs")
    if not epsilon >= 0:
        raise ValueError(f"epsilon: {epsilon} is negative")
    estimate = cluster_mean(_agree(dh, dr, epsilon), clusters, level=level, bounds=(0.0, 1.0))
    return replace(estimate, method=f"acc_eq, ties within ε = {epsilon:g}; {estimate.method}")


def best_epsilon(human: ArrayLike, reward: ArrayLike) -> tuple[float, float]:
    """The ε with the largest acc_eq on these pairs, the smallest such, and that acc_eq; (NaN, NaN) without pairs.

    Sorted by |reward difference|, each candidate adds the pairs it turns into ties, so all are tried in O(P log P).
    """
    dh, dr = finite_vector(human, "human"), finite_vector(reward, "reward")
    if dh.size == 0:
        return math.nan, math.nan
    order = np.argsort(np.abs(dr), kind="stable")
    size, ordered = np.abs(dr)[order], np.sign(dr[order]) == np.sign(dh[order])
    tied = dh[order] == 0
    # After k pairs have become ties: those among them that humans tie, and those beyond that agree in order.
    right = np.concatenate([[0], np.cumsum(tied)]) + np.concatenate([np.cumsum(ordered[::-1])[::-1], [0]])
    last = np.flatnonzero(np.append(size[1:] != size[:-1], True))  # of each distinct size
    candidates, accuracy = size[last], right[last + 1] / dh.size
    if size[0] > 0:
        candidates, accuracy = np.append(0.0, candidates), np.append(right[0] / dh.size, accuracy)
    best = int(np.argmax(accuracy))
    return float(candidates[best]), float(accuracy[best])


def tie_calibration(
    human: ArrayLike,
    reward: ArrayLike,
    clusters: ArrayLike,
    *,
    rng: np.random.Generator,
    folds: int = 5,
    level: float = 0.95,
) -> TieCalibration:
    """acc_eq at ε = 0, and with ε chosen out of sample: clusters are dealt to folds, ε comes from the other folds.

    Args:
        human, reward, clusters, level: as `acc_eq`.
        rng: deals the clusters.
        folds: ≥ 2; as many as clusters where those are fewer.

    Returns:
        `cross_fitted` is undefined with fewer than two clusters.

    Raises:
        ValueError: as `acc_eq`, or folds < 2.
    """
    if folds < 2:
        raise ValueError(f"folds: {folds}; two or more")
    at_zero = acc_eq(human, reward, clusters, epsilon=0.0, level=level)
    dh, dr = finite_vector(human, "human"), finite_vector(reward, "reward")
    groups = clusters_of(clusters, dh.size)
    method = f"acc_eq, ε cross-fitted over {min(folds, groups.count)} folds of clusters"
    if groups.count < 2:
        why = f"{groups.count} cluster{'s' if groups.count != 1 else ''}; ε needs others to be chosen on"
        return TieCalibration(at_zero, undefined(dh.size, groups.count, method, why), (), None, None)
    fold_of = fold_of_clusters(groups.count, folds, rng)[groups.codes]
    agree, chosen = np.empty(dh.size), []
    for fold in range(min(folds, groups.count)):
        here = fold_of == fold
        chosen.append(best_epsilon(dh[~here], dr[~here])[0])
        agree[here] = _agree(dh[here], dr[here], chosen[-1])
    estimate = cluster_mean(agree, groups.codes, level=level, bounds=(0.0, 1.0))
    epsilon, optimistic = best_epsilon(dh, dr)
    cross_fitted = replace(estimate, method=f"{method}; {estimate.method}")
    return TieCalibration(at_zero, cross_fitted, tuple(chosen), optimistic, epsilon)


def fold_of_clusters(count: int, folds: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """A fold for each of `count` clusters, sizes equal up to one; never more folds than clusters."""
    return rng.permutation(np.arange(count) % min(folds, count))


def _agree(dh: FloatArray, dr: FloatArray, epsilon: float) -> FloatArray:
    verdict = np.where(np.abs(dr) <= epsilon, 0.0, np.sign(dr))
    return np.asarray(verdict == np.sign(dh), dtype=np.float64)


def _accuracy(signs: FloatArray, clusters: ArrayLike, ties: Ties, level: float) -> Estimate:
    credit = CREDIT[_known(ties)]
    tied = signs == 0
    labels = clusters_of(clusters, signs.size).codes
    scored = np.where(tied, credit, signs > 0)
    kept = ~np.isnan(scored)
    estimate = cluster_mean(scored[kept], labels[kept], level=level, bounds=(0.0, 1.0))
    count = int(np.count_nonzero(tied))
    return replace(estimate, method=f"preference accuracy, {count} reward ties {ties}; {estimate.method}")


def _known(ties: Ties) -> Ties:
    if ties not in TIES:
        raise ValueError(f"ties: {ties!r} is none of {', '.join(TIES)}")
    return ties
