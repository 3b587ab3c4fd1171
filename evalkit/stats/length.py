"""Is it the answer or its length? Preferences of people and of a reward, with the length held in view.

1. A preference for longer answers is a bias only against the people it stands in for: they are always shown beside it.
2. Of a pair (a, b), an outcome is 1 where a is preferred, 0 where b, ½ for a tie, and a covariate is its value for a
   minus that for b. Nothing but an intercept depends on which answer is called a.
3. Holding length fixed in a model is not the effect of length: only padding answers shows that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from evalkit.stats.arrays import FloatArray, check_fraction, finite_vector
from evalkit.stats.clusters import clusters_of
from evalkit.stats.correlation import (
    NAMES,
    correlation,
    influence,
    linear_interval,
    partial_correlation,
    partial_influence,
)
from evalkit.stats.estimate import Estimate, undefined
from evalkit.stats.logistic import logistic_fit
from evalkit.stats.means import cluster_mean
from evalkit.stats.paired import paired_difference


@dataclass(frozen=True, slots=True)
class Explained:
    """An agreement alone, and with length held fixed."""

    alone: Estimate
    held: Estimate
    past_half: Estimate
    """Half of `alone` − `held`, paired, −1.5 to 1.5: above 0 more than half of an agreement goes with length."""


@dataclass(frozen=True, slots=True)
class LengthPreference:
    """How often the longer answer is preferred, by people and by a reward."""

    human: Estimate
    """Share in [0, 1], of pairs of unequal length in which people prefer one."""
    reward: Estimate
    """Share of pairs of unequal length in which the reward prefers one."""
    difference: Estimate
    """`reward` − `human` on the pairs in which both prefer one; above 0 the reward is fonder of length than people."""


@dataclass(frozen=True, slots=True)
class Control:
    """What a reward says of people's preferences, alone and with covariates held fixed."""

    alone: Estimate
    """Log odds of preferring a per root mean square of the margin."""
    controlled: Estimate
    """The same with all covariates in the model."""
    covariates: dict[str, Estimate]
    """Log odds per root mean square of each covariate, with the margin in the model."""


@dataclass(frozen=True, slots=True)
class Matched:
    """A mean over pairs of about equal length, and over the others."""

    matched: Estimate
    apart: Estimate
    coverage: float | None
    """Share of pairs that match, in [0, 1]; `None` without pairs."""


def length_explains(
    x: ArrayLike,
    y: ArrayLike,
    lengths: ArrayLike,
    clusters: ArrayLike,
    *,
    kind: Literal["pearson", "spearman"],
    level: float = 0.95,
) -> Explained:
    """How much of an agreement goes when length is held fixed.

    Args:
        x, y: shape (n,), reward and human label; or what each differs by within prompts.
        lengths: shape (n,), the same of the length.
        clusters: shape (n,), a label per observation.
        kind: of the correlation and the partial correlation.
        level: coverage, between 0 and 1.

    Returns:
        `past_half` is undefined where one of the two correlations is; its error is that of the difference of influence
        functions.

    Raises:
        ValueError: as `partial_correlation`.
    """
    groups = clusters_of(clusters, finite_vector(x, "x").size)
    alone, moves_alone, why = influence(x, y, kind=kind)
    held, moves_held, why_held = partial_influence(x, y, lengths, kind=kind)
    method = f"half of {NAMES[kind]} less the partial one given length"
    if alone is None or held is None:
        past_half = undefined(groups.codes.size, groups.count, method, why or why_held)
    else:
        past_half = linear_interval(
            alone / 2 - held, moves_alone / 2 - moves_held, groups, method, level, bounds=(-1.5, 1.5)
        )
    return Explained(
        correlation(x, y, groups.codes, kind=kind, level=level),
        partial_correlation(x, y, lengths, groups.codes, kind=kind, level=level),
        past_half,
    )


def length_preference(
    human: ArrayLike,
    reward: ArrayLike,
    lengths_a: ArrayLike,
    lengths_b: ArrayLike,
    clusters: ArrayLike,
    *,
    level: float = 0.95,
) -> LengthPreference:
    """Share of pairs in which the longer answer is preferred.

    Args:
        human: shape (n,), outcomes in [0, 1]. Above ½ is a preference for a, ½ none.
        reward: shape (n,), outcomes of the reward on the same pairs.
        lengths_a: shape (n,), in characters, tokens, or any one unit.
        lengths_b: shape (n,).
        clusters: shape (n,), a label per pair.
        level: coverage, between 0 and 1.

    Raises:
        ValueError: lengths of arrays differ, NaN or infinite values, an outcome outside [0, 1], a missing label, or
            level outside (0, 1).
    """
    people, judge = _outcomes(human, "human"), _outcomes(reward, "reward")
    a, b = finite_vector(lengths_a, "lengths_a"), finite_vector(lengths_b, "lengths_b")
    _same_size(human=people, reward=judge, lengths_a=a, lengths_b=b)
    check_fraction(level, "level")
    codes = clusters_of(clusters, a.size).codes
    longer = np.sign(a - b)
    by_people, by_judge = longer * np.sign(people - 0.5), longer * np.sign(judge - 0.5)

    def share(by: FloatArray) -> Estimate:
        of = by != 0
        estimate = cluster_mean((by[of] > 0).astype(float), codes[of], level=level, bounds=(0.0, 1.0))
        return replace(estimate, method=f"share preferring the longer, ties and equal lengths out; {estimate.method}")

    both = (by_people != 0) & (by_judge != 0)
    difference = paired_difference(by_people[both] > 0, by_judge[both] > 0, codes[both], level)
    return LengthPreference(share(by_people), share(by_judge), difference)


def controlled_preference(
    outcomes: ArrayLike,
    margins: ArrayLike,
    covariates: Mapping[str, ArrayLike],
    clusters: ArrayLike,
    *,
    level: float = 0.95,
) -> Control:
    """Bradley–Terry logistic regression of people's preferences on a reward's margin, alone and with covariates.

    σ(β · margin + Σ γ_k · x_k) without intercept, errors CR1 over clusters, as statsmodels gives them. To control for
    the place of the answer give a covariate of ones.

    Args:
        outcomes: shape (n,), of people, in [0, 1].
        margins: shape (n,), reward(a) − reward(b).
        covariates: by name, shape (n,) each: value of a minus value of b, such as a difference of lengths.
        clusters: shape (n,), a label per pair.
        level: coverage, between 0 and 1.

    Returns:
        undefined, with the reason, where a covariate is 0 everywhere or follows from the others, or where outcomes can
        be separated perfectly.

    Raises:
        ValueError: as `length_preference`.
    """
    y, m = _outcomes(outcomes, "outcomes"), finite_vector(margins, "margins")
    columns = {name: finite_vector(values, name) for name, values in covariates.items()}
    _same_size(outcomes=y, margins=m, **columns)
    check_fraction(level, "level")
    groups = clusters_of(clusters, y.size)
    x = _standardised(np.column_stack([m, *columns.values()]))
    method = "log odds per root mean square, Bradley–Terry"
    alone = logistic_fit(x[:, :1], y, groups)
    fit = logistic_fit(x, y, groups)
    held = f"{method} with {', '.join(columns)}" if columns else method
    return Control(
        alone=alone.coefficient(0, method, level),
        controlled=fit.coefficient(0, held, level),
        covariates={name: fit.coefficient(k, held, level) for k, name in enumerate(columns, 1)},
    )


def controlled_win_rate(
    outcomes: ArrayLike, covariates: Mapping[str, ArrayLike], clusters: ArrayLike, *, level: float = 0.95
) -> Estimate:
    """Win rate of a over b as it would be were all covariates equal: σ of the intercept.

    The idea of length-controlled AlpacaEval (Dubois et al. 2024, arXiv 2404.04475), whose transformation of lengths,
    regularisation and difficulties it does not have: for the first give `tanh` of a standardised difference.

    Args:
        outcomes: shape (n,), 1 where a wins, ½ for a tie.
        covariates: by name, shape (n,) each: value of a minus value of b.
        clusters: shape (n,), a label per pair.
        level: coverage of the interval, which is symmetric in log odds.

    Returns:
        In (0, 1); undefined as `controlled_preference`.

    Raises:
        ValueError: as `length_preference`.
    """
    y = _outcomes(outcomes, "outcomes")
    columns = {name: finite_vector(values, name) for name, values in covariates.items()}
    _same_size(outcomes=y, **columns)
    check_fraction(level, "level")
    x = _standardised(np.column_stack([np.ones_like(y), *columns.values()]))
    method = "win rate" if not columns else f"win rate at equal {', '.join(columns)}"
    fit = logistic_fit(x, y, clusters_of(clusters, y.size)).coefficient(0, method, level)
    if fit.value is None:
        return fit
    low, high = (None if end is None else float(expit(end)) for end in (fit.low, fit.high))
    return replace(fit, value=float(expit(fit.value)), low=low, high=high)


def matched_by_length(
    values: ArrayLike,
    lengths_a: ArrayLike,
    lengths_b: ArrayLike,
    clusters: ArrayLike,
    *,
    tolerance: float = 0.1,
    level: float = 0.95,
    bounds: tuple[float, float] | None = (0.0, 1.0),
) -> Matched:
    """Mean of any value per pair, such as agreement or a win, where lengths differ little, and where they do not.

    A pair matches where |a − b| ≤ tolerance · max(a, b). No model, so no extrapolation either: see `coverage`.

    Args:
        values: shape (n,), no NaN.
        lengths_a, lengths_b: shape (n,), ≥ 0.
        clusters: shape (n,), a label per pair.
        tolerance: share of the longer length, ≥ 0.
        level, bounds: as `cluster_mean`.

    Raises:
        ValueError: as `length_preference`, a negative length or tolerance, or a value outside `bounds`.
    """
    v = finite_vector(values, "values")
    a, b = finite_vector(lengths_a, "lengths_a"), finite_vector(lengths_b, "lengths_b")
    _same_size(values=v, lengths_a=a, lengths_b=b)
    if tolerance < 0:
        raise ValueError(f"tolerance: {tolerance} is negative")
    if min(a.min(initial=0.0), b.min(initial=0.0)) < 0:
        raise ValueError("lengths: a length is negative")
    codes = clusters_of(clusters, v.size).codes
    match = np.abs(a - b) <= tolerance * np.maximum(a, b)

    def mean(of: NDArray[np.bool_], name: str) -> Estimate:
        estimate = cluster_mean(v[of], codes[of], level=level, bounds=bounds)
        if estimate.n == 0:
            return undefined(0, 0, estimate.method, f"no pair {name} {tolerance:.0%} in length")
        return estimate

    return Matched(mean(match, "within"), mean(~match, "beyond"), float(match.mean()) if v.size else None)


def _standardised(x: FloatArray) -> FloatArray:
    """Columns over their root mean square, not centred: a centred difference would depend on which answer is a."""
    if x.shape[0] == 0:
        return x
    scale = np.sqrt(np.mean(x**2, axis=0))
    return np.asarray(x / np.where(scale > 0, scale, 1.0))


def _outcomes(values: ArrayLike, name: str) -> FloatArray:
    vector = finite_vector(values, name)
    if vector.size and (vector.min() < 0 or vector.max() > 1):
        raise ValueError(f"{name}: {vector.min():g} to {vector.max():g} leave 0 to 1")
    return vector


def _same_size(**arrays: FloatArray) -> None:
    sizes = {name: array.size for name, array in arrays.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"pairs: {', '.join(f'{size} {name}' for name, size in sizes.items())}; pair them first")
