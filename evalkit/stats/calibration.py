"""Are a reward's margins, or its values, probabilities? Bradley–Terry, probabilities of a label, isotonic curves.

1. A margin is reward(a) − reward(b), an outcome 1 where people prefer a, 0 where b, ½ for a tie. The model says
   P(a) = σ(margin / T). Brier, log loss, temperature and reliability do not depend on which answer is called a.
2. A temperature or a curve fitted on the pairs it is judged by flatters itself: fit on one split, or across clusters.
3. An error of calibration is at least as large as its noise. It is given with what noise alone would give.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, ndtr

from evalkit.stats.arrays import FloatArray, check_fraction, finite_vector
from evalkit.stats.clusters import Clusters, clusters_of
from evalkit.stats.estimate import Estimate, undefined
from evalkit.stats.logistic import logistic_fit
from evalkit.stats.means import cluster_mean, cluster_standard_error


@dataclass(frozen=True, slots=True)
class Bin:
    """Pairs of about equal confidence, or items of about equal probability."""

    low: float
    """Least confidence in the bin, in [½, 1]; of items the least probability, in [0, 1]."""
    high: float
    confidence: float
    """Mean of max(P, 1 − P); of items the mean of P."""
    accuracy: Estimate
    """Share of pairs in which people prefer the answer with the higher reward, a tie counting ½; of items the share
    with label 1."""


@dataclass(frozen=True, slots=True)
class Reliability:
    """Confidence against accuracy in bins of equal mass."""

    bins: tuple[Bin, ...]
    """By rising confidence. Equal confidences are never parted, so there may be fewer than asked for."""
    error: float | None
    """Expected calibration error Σ w_b |accuracy − confidence|, in [0, 1]; `None` without pairs."""
    debiased_error: float | None
    """The same less its expected excess, not below 0; `None` where a bin has fewer than two clusters. Where P is
    true about half of the excess goes, since it is computed at the gaps seen, which hold noise themselves: compare
    `error` with `error_if_calibrated` too."""
    error_if_calibrated: float | None
    """What `error` is expected to be where P is true, from the errors of the bins alone."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How well σ(margin / T) predicts preferences."""

    temperature: float
    """The T it was judged at."""
    brier: Estimate
    """Mean squared error of P, in [0, 1]; ¼ for P = ½ without ties."""
    log_loss: Estimate
    """Mean negative log likelihood in nats; log 2 = .6931 for P = ½."""
    slope: Estimate
    """Of the outcome's log odds on margin / T: 1 where calibrated, below 1 where overconfident."""
    intercept: Estimate
    """Log odds of preferring a where both rewards are equal; 0 without a preference for the place. Undefined where all
    pairs are given with the same answer first."""
    reliability: Reliability


@dataclass(frozen=True, slots=True)
class ProbabilityCalibration:
    """How well a probability P predicts a label of 0 or 1."""

    brier: Estimate
    """Mean squared error of P, in [0, 1]."""
    log_loss: Estimate
    """Mean negative log likelihood in nats. Undefined where a P of 0 or 1 is wrong: it is infinite then."""
    bias: Estimate
    """Mean of P − label, in [−1, 1]: above 0 where P promises too much."""
    slope: Estimate
    """Of the label's log odds on those of P: 1 where calibrated, below 1 where overconfident. Undefined where a P is 0
    or 1, whose log odds are infinite."""
    intercept: Estimate
    """Of the same fit: 0 where calibrated."""
    certain_wrong: Estimate
    """Share of wrong ones among the items with P = 0 or 1; without value where there is none."""
    reliability: Reliability


@dataclass(frozen=True, slots=True)
class Isotonic:
    """A rising curve from scores to labels: piecewise linear between `scores`, constant beyond them."""

    scores: FloatArray
    """Shape (k,), rising."""
    labels: FloatArray
    """Shape (k,), not falling."""

    def at(self, scores: ArrayLike) -> FloatArray:
        """The curve at `scores`, same shape."""
        return np.interp(np.asarray(scores, dtype=np.float64), self.scores, self.labels)


@dataclass(frozen=True, slots=True)
class CrossFitted:
    """Scores on the scale of the labels, each by curves that its own cluster did not shape."""

    labelled: FloatArray
    """Shape (n,)."""
    unlabelled: FloatArray
    """Shape (m,), mean over the curves of all folds."""
    curve: Isotonic
    """From all labels, for a picture."""
    coverage: float | None
    """Share of unlabelled scores within the range of the labelled ones; beyond it the curve is a guess. `None` without
    unlabelled scores."""


def fit_temperature(margins: ArrayLike, outcomes: ArrayLike, clusters: ArrayLike, *, level: float = 0.95) -> Estimate:
    """The temperature T > 0 that makes σ(margin / T) most likely.

    Args:
        margins: shape (n,), reward(a) − reward(b), no NaN.
        outcomes: shape (n,), in [0, 1].
        clusters: shape (n,), a label per pair.
        level: coverage of the interval, symmetric in log T, between 0 and 1.

    Returns:
        undefined where margins do not point to the outcomes at all (T would be infinite or negative), or do so without
        a single exception (T would be 0).

    Raises:
        ValueError: lengths differ, NaN or infinite values, an outcome outside [0, 1], a missing label, or level outside
            (0, 1).
    """
    m, y, groups = _pairs(margins, outcomes, clusters)
    check_fraction(level, "level")
    method = "temperature of Bradley–Terry"
    fit = logistic_fit(m[:, None], y, groups)
    inverse = fit.coefficient(0, method, level)
    if inverse.value is None:
        return inverse
    if inverse.value <= 0:
        why = f"1 / T = {inverse.value:.4g}, not above 0: the margins do not point to the outcomes"
        return undefined(m.size, groups.count, method, why)
    value = 1 / inverse.value
    if inverse.half_width is None:
        return Estimate(value, None, None, m.size, groups.count, method, inverse.why)
    reach = math.exp(inverse.half_width / inverse.value)
    return Estimate(value, value / reach, value * reach, m.size, groups.count, inverse.method)


def preference_calibration(
    margins: ArrayLike,
    outcomes: ArrayLike,
    clusters: ArrayLike,
    *,
    temperature: float = 1.0,
    bins: int = 10,
    level: float = 0.95,
) -> Calibration:
    """Brier score, log loss, slope, intercept and reliability of P(a) = σ(margin / T).

    Sources: Cox 1958 for slope and intercept; Kumar, Liang & Ma 2019, "Verified Uncertainty Calibration", for bins of
    equal mass and the debiased error, here with the expectation of a folded normal in closed form.

    Args:
        margins, outcomes, clusters, level: as `fit_temperature`.
        temperature: T > 0, from another split if it was fitted.
        bins: of the reliability table, ≥ 1.

    Raises:
        ValueError: as `fit_temperature`, temperature not above 0, or bins < 1.
    """
    m, y, groups = _pairs(margins, outcomes, clusters)
    check_fraction(level, "level")
    if not (math.isfinite(temperature) and temperature > 0):
        raise ValueError(f"temperature: {temperature} is not above 0")
    if bins < 1:
        raise ValueError(f"bins: {bins}; at least 1")
    z = m / temperature
    losses = np.logaddexp(0.0, z) - y * z
    brier = cluster_mean((expit(z) - y) ** 2, groups.codes, level=level, bounds=(0.0, 1.0))
    log_loss = cluster_mean(losses, groups.codes, level=level)
    slope, intercept = _slope_and_intercept(z, y, groups, level)
    return Calibration(
        temperature, brier, log_loss, slope, intercept, _reliability(*_of_margins(z, y), groups, bins, level)
    )


def cross_fitted_log_loss(
    margins: ArrayLike,
    outcomes: ArrayLike,
    clusters: ArrayLike,
    *,
    folds: int = 5,
    rng: np.random.Generator,
    level: float = 0.95,
) -> Estimate:
    """Log loss of σ(margin / T), every pair with the T that fits the clusters of the other folds.

    Args:
        margins, outcomes, clusters, level: as `fit_temperature`.
        folds: ≥ 2; not more than there are clusters are used.
        rng: deals clusters to folds.

    Returns:
        In nats; undefined with fewer than two clusters, or where a fold's T is.

    Raises:
        ValueError: as `fit_temperature`, or folds < 2.
    """
    m, y, groups = _pairs(margins, outcomes, clusters)
    check_fraction(level, "level")
    method = f"log loss, T cross-fitted over {min(folds, groups.count)} folds of clusters"
    if folds < 2:
        raise ValueError(f"folds: {folds}; at least 2")
    if groups.count < 2:
        return undefined(m.size, groups.count, method, "fewer than two clusters; T needs others to be fitted on")
    fold_of = (rng.permutation(groups.count) % min(folds, groups.count))[groups.codes]
    losses = np.empty_like(m)
    for fold in range(int(fold_of.max()) + 1):
        here = fold_of == fold
        fitted = fit_temperature(m[~here], y[~here], groups.codes[~here], level=level)
        if fitted.value is None:
            return undefined(m.size, groups.count, method, f"T of a fold is undefined: {fitted.why}")
        z = m[here] / fitted.value
        losses[here] = np.logaddexp(0.0, z) - y[here] * z
    estimate = cluster_mean(losses, groups.codes, level=level)
    return replace(estimate, method=f"{method}; {estimate.method}")


def probability_calibration(
    probabilities: ArrayLike, labels: ArrayLike, clusters: ArrayLike, *, bins: int = 10, level: float = 0.95
) -> ProbabilityCalibration:
    """Brier score, log loss, bias, slope, intercept and reliability of P(label = 1).

    Sources: as `preference_calibration`.

    Args:
        probabilities: shape (n,), in [0, 1], no NaN.
        labels: shape (n,), 0 or 1.
        clusters: shape (n,), a label per item.
        bins: of the reliability table, ≥ 1.
        level: coverage of intervals, between 0 and 1.

    Raises:
        ValueError: lengths differ, NaN, a probability outside [0, 1], a label that is neither 0 nor 1, a missing
            cluster, bins < 1, or level outside (0, 1).
    """
    p, y = finite_vector(probabilities, "probabilities"), finite_vector(labels, "labels")
    if p.size != y.size:
        raise ValueError(f"probabilities and labels: {p.size} and {y.size} values; pair them first")
    if p.size and (p.min() < 0 or p.max() > 1):
        raise ValueError(f"probabilities: {p.min():g} to {p.max():g} leave 0 to 1")
    if not np.isin(y, (0.0, 1.0)).all():
        raise ValueError("labels: expected 0 and 1")
    if bins < 1:
        raise ValueError(f"bins: {bins}; at least 1")
    check_fraction(level, "level")
    groups = clusters_of(clusters, p.size)
    codes = groups.codes
    certain = (p == 0) | (p == 1)
    wrong = (p != y).astype(np.float64)
    slope, intercept = _slope_of_log_odds(p, y, groups, certain, level)
    return ProbabilityCalibration(
        brier=cluster_mean((p - y) ** 2, codes, level=level, bounds=(0.0, 1.0)),
        log_loss=_log_loss(p, y, groups, level),
        bias=cluster_mean(p - y, codes, level=level, bounds=(-1.0, 1.0)),
        slope=slope,
        intercept=intercept,
        certain_wrong=cluster_mean(wrong[certain], codes[certain], level=level, bounds=(0.0, 1.0)),
        reliability=_reliability(p, y, groups, bins, level),
    )


def fit_isotonic(scores: ArrayLike, labels: ArrayLike) -> Isotonic:
    """The rising curve nearest to the labels in squares, by pooling adjacent violators.

    Equal scores are pooled first, so the curve is that of scikit-learn's `IsotonicRegression(out_of_bounds="clip")`.

    Args:
        scores: shape (n,), n ≥ 1, no NaN.
        labels: shape (n,), of the same items.

    Raises:
        ValueError: lengths differ, no values, or NaN or infinite values.
    """
    x, y = finite_vector(scores, "scores"), finite_vector(labels, "labels")
    if x.size != y.size or x.size == 0:
        raise ValueError(f"scores and labels: {x.size} and {y.size} values; expected as many, and at least 1")
    return _isotonic(x, y)


def cross_fitted_isotonic(
    scores: ArrayLike,
    labels: ArrayLike,
    clusters: ArrayLike,
    unlabelled_scores: ArrayLike = (),
    *,
    folds: int = 5,
    rng: np.random.Generator,
) -> CrossFitted:
    """Isotonic calibration of scores to labels, every cluster by curves of the other folds.

    For a mean on the human scale give `labelled` and `unlabelled` to `prediction_powered_mean`, which removes what bias
    the curve leaves.

    Args:
        scores: shape (n,), of labelled items.
        labels: shape (n,).
        clusters: shape (n,), a label per item.
        unlabelled_scores: shape (m,), of items of other clusters.
        folds: ≥ 2; not more than there are clusters are used.
        rng: deals clusters to folds.

    Raises:
        ValueError: as `fit_isotonic`, fewer than two clusters, or folds < 2.
    """
    x, y = finite_vector(scores, "scores"), finite_vector(labels, "labels")
    u = finite_vector(unlabelled_scores, "unlabelled_scores")
    if x.size != y.size:
        raise ValueError(f"scores and labels: {x.size} and {y.size} values; pair them first")
    groups = clusters_of(clusters, x.size)
    if groups.count < 2:
        raise ValueError(f"clusters: {groups.count}; cross-fitting needs two or more")
    if folds < 2:
        raise ValueError(f"folds: {folds}; at least 2")
    fold_of = (rng.permutation(groups.count) % min(folds, groups.count))[groups.codes]
    labelled, unlabelled = np.empty_like(y), np.zeros_like(u)
    count = int(fold_of.max()) + 1
    for fold in range(count):
        held_out = fold_of == fold
        curve = _isotonic(x[~held_out], y[~held_out])
        labelled[held_out] = curve.at(x[held_out])
        unlabelled += curve.at(u) / count
    coverage = float(np.mean((u >= x.min()) & (u <= x.max()))) if u.size else None
    return CrossFitted(labelled, unlabelled, _isotonic(x, y), coverage)


def monotone_violation(scores: ArrayLike, labels: ArrayLike, *, bins: int = 10) -> float | None:
    """Share of the between-bin variance of the labels that no rising curve of the scores can hold.

    Scores are cut into bins of equal mass; Σ n_b (mean − isotonic mean)² / Σ n_b (mean − overall mean)².

    Returns:
        In [0, 1]: 0 where the bins' means rise, 1 where they fall; noise adds to it. `None` where they are all equal.

    Raises:
        ValueError: as `fit_isotonic`, or bins < 1.
    """
    x, y = finite_vector(scores, "scores"), finite_vector(labels, "labels")
    if x.size != y.size or x.size == 0:
        raise ValueError(f"scores and labels: {x.size} and {y.size} values; expected as many, and at least 1")
    if bins < 1:
        raise ValueError(f"bins: {bins}; at least 1")
    member = _equal_mass(x, bins)
    counts = np.bincount(member).astype(np.float64)
    means = np.bincount(member, weights=y) / counts
    apart = means - _pooled(means, counts)
    total = float(counts @ (means - y.mean()) ** 2)
    if total <= 1e-12 * float(np.sum(y**2)):
        return None
    return float(counts @ apart**2) / total


def _pairs(margins: ArrayLike, outcomes: ArrayLike, clusters: ArrayLike) -> tuple[FloatArray, FloatArray, Clusters]:
    m, y = finite_vector(margins, "margins"), finite_vector(outcomes, "outcomes")
    if m.size != y.size:
        raise ValueError(f"margins and outcomes: {m.size} and {y.size} values; pair them first")
    if y.size and (y.min() < 0 or y.max() > 1):
        raise ValueError(f"outcomes: {y.min():g} to {y.max():g} leave 0 to 1")
    return m, y, clusters_of(clusters, m.size)


def _slope_and_intercept(z: FloatArray, y: FloatArray, groups: Clusters, level: float) -> tuple[Estimate, Estimate]:
    if y.size and (y.min() >= 0.5 or y.max() <= 0.5):
        # Nothing is known of places: with each pair also the other way round the intercept is 0 by construction.
        fit = logistic_fit(z[:, None], y, groups)
        why = "all pairs have the preferred answer in the same place"
        method = "slope, no intercept"
        return fit.coefficient(0, method, level), undefined(y.size, groups.count, "intercept", why)
    fit = logistic_fit(np.column_stack([np.ones_like(z), z]), y, groups)
    return fit.coefficient(1, "slope", level), fit.coefficient(0, "intercept", level)


def _log_loss(p: FloatArray, y: FloatArray, groups: Clusters, level: float) -> Estimate:
    right = np.where(y == 1, p, 1 - p)
    impossible = int(np.count_nonzero(right == 0))
    if impossible:
        why = f"{impossible} of {p.size} probabilities are 0 or 1 and wrong: the loss is infinite"
        return undefined(p.size, groups.count, "log loss", why)
    return cluster_mean(-np.log(right), groups.codes, level=level)


def _slope_of_log_odds(
    p: FloatArray, y: FloatArray, groups: Clusters, certain: np.ndarray, level: float
) -> tuple[Estimate, Estimate]:
    names = ("slope on the log odds of P", "intercept at P = ½")
    if certain.any():
        why = f"{int(np.count_nonzero(certain))} of {p.size} probabilities are 0 or 1; their log odds are infinite"
        of_slope, of_intercept = (undefined(p.size, groups.count, name, why) for name in names)
        return of_slope, of_intercept
    fit = logistic_fit(np.column_stack([np.ones_like(p), np.log(p) - np.log1p(-p)]), y, groups)
    return fit.coefficient(1, names[0], level), fit.coefficient(0, names[1], level)


def _of_margins(z: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Confidence max(P, 1 − P) of each pair, and whether people agree with the reward's choice."""
    return expit(np.abs(z)), np.where(z == 0, 0.5, np.where(z > 0, y, 1 - y))


def _reliability(confidence: FloatArray, agrees: FloatArray, groups: Clusters, bins: int, level: float) -> Reliability:
    if confidence.size == 0:
        return Reliability((), None, None, None)
    member = _equal_mass(confidence, bins)
    table, weights, gaps, errors = [], [], [], []
    for b in range(int(member.max()) + 1):
        of = member == b
        codes = groups.codes[of]
        accuracy = cluster_mean(agrees[of], codes, level=level, bounds=(0.0, 1.0))
        table.append(
            Bin(float(confidence[of].min()), float(confidence[of].max()), float(confidence[of].mean()), accuracy)
        )
        weights.append(float(np.mean(of)))
        gaps.append(abs(float(np.mean(agrees[of] - confidence[of]))))
        errors.append(_error_of_gap(agrees[of], confidence[of], codes))
    w, gap, error = np.array(weights), np.array(gaps), np.array(errors)
    plain = float(w @ gap)
    if np.isnan(error).any():
        return Reliability(tuple(table), plain, None, None)
    excess = _folded_normal_mean(gap, error) - gap
    return Reliability(
        bins=tuple(table),
        error=plain,
        debiased_error=max(plain - float(w @ excess), 0.0),
        error_if_calibrated=float(w @ error) * math.sqrt(2 / math.pi),
    )


def _error_of_gap(agrees: FloatArray, confidence: FloatArray, codes: np.ndarray) -> float:
    """Standard error of accuracy − confidence in a bin. Where all agree or none does, the one it has if P is true."""
    if agrees.min() == agrees.max():
        return math.sqrt(float(np.sum(confidence * (1 - confidence)))) / agrees.size
    return cluster_standard_error(agrees - confidence, codes)


def _folded_normal_mean(mean: FloatArray, sd: FloatArray) -> FloatArray:
    """E|X| of a normal X."""
    safe = np.where(sd > 0, sd, 1.0)
    folded = safe * math.sqrt(2 / math.pi) * np.exp(-((mean / safe) ** 2) / 2) + mean * (1 - 2 * ndtr(-mean / safe))
    return np.where(sd > 0, folded, np.abs(mean))


def _equal_mass(x: FloatArray, bins: int) -> np.ndarray:
    """Bin of each value, from 0 without gaps, equal values together."""
    edges = np.quantile(x, np.arange(1, bins) / bins)
    return np.unique(np.searchsorted(edges, x, side="right"), return_inverse=True)[1]


def _isotonic(x: FloatArray, y: FloatArray) -> Isotonic:
    scores, member = np.unique(x, return_inverse=True)
    counts = np.bincount(member).astype(np.float64)
    return Isotonic(scores, _pooled(np.bincount(member, weights=y) / counts, counts))


def _pooled(means: FloatArray, weights: FloatArray) -> FloatArray:
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(means, weights=weights).x)
