"""The correlation a reward would have with people who made no errors: Spearman's correction for attenuation.

1. Errors of the labels, and of a reward that is drawn anew each time, pull a correlation towards 0. Dividing by the
   square root of both reliabilities undoes that, provided the errors of reward and labels are independent.
2. Everything is computed on the same items: those rated by all raters in all their draws.
3. A correlation above 1 is never given. A corrected value above 1 says that the reliabilities are too low or the errors
   are shared, and is reported as undefined with the number in its reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalkit.stats.arrays import FloatArray, check_fraction
from evalkit.stats.bootstrap import NO_RNG, cluster_resamples, from_draws, own_clusters
from evalkit.stats.clusters import clusters_of
from evalkit.stats.estimate import Estimate, undefined
from evalkit.stats.raters import icc, ratings_matrix

Correlation = Callable[[FloatArray, FloatArray], float]
MeanForm = Literal["1,k", "2,k", "3,k"]
MEAN_FORMS = ("1,k", "2,k", "3,k")


@dataclass(frozen=True, slots=True)
class Attenuation:
    """A correlation with the mean of several raters, and what the errors of both sides took from it."""

    observed: Estimate
    """Correlation of the mean reward with the mean rating, in [−1, 1]."""
    human_reliability: Estimate
    """Reliability of the mean rating, ≤ 1."""
    reward_reliability: Estimate | None
    """Reliability of the mean of the reward's draws, ≤ 1; `None` where one draw was given and its errors count as the
    reward's own."""
    ceiling: Estimate
    """√human_reliability: the highest correlation with this mean rating any reward can have."""
    corrected: Estimate
    """observed / √(human_reliability · reward_reliability), in [−1, 1]. With one draw of the reward, the share of the
    ceiling that it reaches."""


def pearson(first: FloatArray, second: FloatArray) -> float:
    """Pearson's correlation; NaN where either side is constant or there are fewer than two values."""
    if first.size < 2 or first.min() == first.max() or second.min() == second.max():
        return math.nan
    a, b = first - first.mean(), second - second.mean()
    return float(np.clip(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)), -1, 1))


def corrected_for_attenuation(
    reward: ArrayLike,
    ratings: ArrayLike,
    *,
    correlation: Correlation = pearson,
    form: MeanForm = "3,k",
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    draws: int = 1000,
    rng: np.random.Generator | None = None,
) -> Attenuation:
    """Correlation of a reward with people, observed and corrected for the errors of both.

    Source: Spearman 1904, "The proof and measurement of association between two things".

    Args:
        reward: shape (items,), or (items, repeats) with the reward drawn anew for each; NaN where missing.
        ratings: shape (items, raters), NaN where missing.
        correlation: of two vectors of the same items; NaN where it is undefined. The correction is exact for Pearson's
            and an approximation for rank correlations.
        form: intraclass correlation that is the reliability of the mean rating: `3,k` where every rater rated every
            item (a rater who is always stricter does not weaken a correlation), `1,k` where columns are not people.
        clusters: shape (items,), a label per item; None where items are independent.
        level: coverage of the percentile interval, between 0 and 1.
        draws: cluster resamples; reliabilities are estimated anew in each.
        rng: None for values without intervals.

    Returns:
        Undefined where the correlation or a reliability is, or a reliability is not above 0. An end of the interval of
        `corrected` beyond ±1 is put at ±1.

    Raises:
        ValueError: as `ratings_matrix`, different numbers of items, or an unknown form.
    """
    matrix, scores = ratings_matrix(ratings), _reward_draws(reward)
    if scores.shape[0] != matrix.shape[0]:
        raise ValueError(f"reward and ratings: {scores.shape[0]} and {matrix.shape[0]} items")
    if form not in MEAN_FORMS:
        raise ValueError(f"form: {form!r} is none of {'; '.join(MEAN_FORMS)}")
    check_fraction(level, "level")
    complete = ~(np.isnan(matrix).any(axis=1) | np.isnan(scores).any(axis=1))
    n = int(np.count_nonzero(complete))
    groups = clusters_of(own_clusters(clusters, complete.size).codes[complete], n)
    matrix, scores = matrix[complete], scores[complete]
    items = f"{n} of {complete.size} items complete"

    def all_five(rows: NDArray[np.intp]) -> FloatArray:
        return _parts(scores[rows], matrix[rows], correlation, form)

    values = all_five(np.arange(n))
    drawn = None
    if rng is not None and groups.count > 1:
        drawn = np.array([all_five(rows) for rows in cluster_resamples(groups, draws, rng)])

    def estimate(part: int, method: str, why: str) -> Estimate:
        value, method = float(values[part]), f"{method}; {items}"
        if not math.isfinite(value):
            return undefined(n, groups.count, method, why)
        if drawn is None:
            reason = NO_RNG if rng is None else "fewer than two clusters; an interval needs two or more"
            return Estimate(value, None, None, n, groups.count, method, reason)
        return from_draws(value, drawn[:, part], n=n, n_clusters=groups.count, method=method, level=level)

    name = getattr(correlation, "__name__", "correlation")
    single = scores.shape[1] == 1
    return Attenuation(
        observed=estimate(0, f"{name} of mean reward and mean rating", f"undefined on these {n} items"),
        human_reliability=estimate(1, f"ICC({form})", f"undefined on these {n} items"),
        reward_reliability=None if single else estimate(2, "ICC(1,k)", f"undefined on these {n} items"),
        ceiling=estimate(3, f"√ICC({form})", _reliability_fault(values)),
        corrected=_within_one(estimate(4, f"{name} / √reliability", _reliability_fault(values))),
    )


def _reward_draws(reward: ArrayLike) -> FloatArray:
    array: np.ndarray = np.asarray(reward)
    if array.ndim not in (1, 2) or array.dtype.kind not in "biuf" or array.shape[-1:] == (0,):
        raise ValueError(f"reward: expected numbers of shape (items,) or (items, repeats), found shape {array.shape}")
    scores = array.astype(np.float64)
    if np.isinf(scores).any():
        raise ValueError("reward: a value is infinite")
    return scores[:, None] if scores.ndim == 1 else scores


def _parts(scores: FloatArray, matrix: FloatArray, correlation: Correlation, form: MeanForm) -> FloatArray:
    """Observed, reliability of people, of the reward, ceiling, corrected; NaN where undefined."""
    observed = correlation(scores.mean(axis=1), matrix.mean(axis=1)) if scores.shape[0] else math.nan
    human = _reliability(matrix, form)
    of_reward = 1.0 if scores.shape[1] == 1 else _reliability(scores, "1,k")
    ceiling = math.sqrt(human) if human > 0 else math.nan
    corrected = observed / (ceiling * math.sqrt(of_reward)) if of_reward > 0 else math.nan
    return np.array([observed, human, of_reward, ceiling, corrected])


def _reliability(matrix: FloatArray, form: MeanForm) -> float:
    value = icc(matrix, form=form).value
    return math.nan if value is None else value


def _reliability_fault(values: FloatArray) -> str:
    observed, human, of_reward = (float(value) for value in values[:3])
    for name, value in (("the mean rating", human), ("the mean reward", of_reward)):
        if math.isnan(value):
            return f"the reliability of {name} is undefined"
        if value <= 0:
            return f"the reliability of {name} is {value:.3f}, not above 0"
    return "the correlation is undefined" if math.isnan(observed) else ""


def _within_one(estimate: Estimate) -> Estimate:
    if estimate.value is None:
        return estimate
    if abs(estimate.value) > 1:
        interval = "" if estimate.low is None else f", interval {estimate.low:.3f} to {estimate.high:.3f}"
        why = (
            f"the corrected value is {estimate.value:.3f}{interval}: no correlation; the reliabilities are too low for "
            "this correlation, or reward and ratings share errors"
        )
        return undefined(estimate.n, estimate.n_clusters, estimate.method, why)
    if estimate.low is None or estimate.high is None:
        return estimate
    return replace(estimate, low=max(estimate.low, -1.0), high=min(estimate.high, 1.0))
