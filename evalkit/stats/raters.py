"""How far raters agree: Krippendorff's alpha, Fleiss' kappa, the intraclass correlations.

1. Ratings are a matrix (items, raters). NaN is a missing rating here, and only here and in `ceiling` is it allowed.
2. An item with fewer than two ratings says nothing of agreement; it is left out, and `n` counts what is in.
3. Where all ratings are one value agreement is undefined, neither 0 nor 1: nothing could have disagreed.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import fdtri

from evalkit.stats.arrays import FloatArray, check_fraction
from evalkit.stats.bootstrap import own_clusters, with_interval
from evalkit.stats.clusters import Clusters, clusters_of
from evalkit.stats.estimate import Estimate, undefined

Scale = Literal["nominal", "ordinal", "interval", "ratio"]
Form = Literal["1,1", "1,k", "2,1", "2,k", "3,1", "3,k"]
SCALES = ("nominal", "ordinal", "interval", "ratio")
FORMS = ("1,1", "1,k", "2,1", "2,k", "3,1", "3,k")
# A table of coincidences has categories² cells.
MOST_CATEGORIES = 1000


def ratings_matrix(ratings: ArrayLike) -> FloatArray:
    """`ratings` as float64, shape (items, raters), NaN where a rating is missing.

    Raises:
        ValueError: not two-dimensional, not numbers, fewer than two raters, or an infinity.
    """
    array: np.ndarray = np.asarray(ratings)
    if array.ndim != 2 or array.shape[1] < 2:
        raise ValueError(f"ratings: expected shape (items, raters) with two or more raters, found {array.shape}")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"ratings: expected numbers, found values of type {array.dtype}")
    matrix = array.astype(np.float64)
    if np.isinf(matrix).any():
        raise ValueError("ratings: a rating is infinite")
    return matrix


def krippendorff_alpha(
    ratings: ArrayLike,
    *,
    scale: Scale,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    draws: int = 1000,
    rng: np.random.Generator | None = None,
) -> Estimate:
    """Krippendorff's alpha, 1 − observed / expected disagreement, for any number of raters and missing ratings.

    Source: Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability". Disagreement of two values is 0/1
    (nominal), the squared count of ratings between them (ordinal), their squared difference (interval), or
    ((a − b)/(a + b))² (ratio).

    Args:
        ratings: shape (items, raters), NaN where missing.
        scale: how values differ; ordinal takes their order as numbers.
        clusters: shape (items,), a label per item; None where items are independent.
        level: coverage of the percentile interval, between 0 and 1.
        draws: cluster resamples.
        rng: None for a value without interval.

    Returns:
        ≤ 1, 0 at chance; undefined where no item has two ratings or all pairable ratings are one value. `n` counts
        pairable ratings, `n_clusters` the clusters of their items.

    Raises:
        ValueError: as `ratings_matrix`; an unknown scale; a negative value on a ratio scale; more than 1000 distinct
            values on another scale than interval.
    """
    matrix = ratings_matrix(ratings)
    if scale not in SCALES:
        raise ValueError(f"scale: {scale!r} is none of {', '.join(SCALES)}")
    groups = own_clusters(clusters, matrix.shape[0])
    pairable = np.count_nonzero(~np.isnan(matrix), axis=1) >= 2
    matrix, groups = matrix[pairable], _kept(groups, pairable)
    method, n = f"Krippendorff's alpha, {scale}", int(np.count_nonzero(~np.isnan(matrix)))
    if n == 0:
        return undefined(0, 0, method, "no item has two ratings")
    values = np.unique(matrix[~np.isnan(matrix)])
    if values.size == 1:
        return undefined(n, groups.count, method, f"all {n} pairable ratings are {values[0]:g}; nothing could disagree")
    if scale == "ratio" and values[0] < 0:
        raise ValueError(f"ratings: {values[0]:g} is negative; a ratio scale begins at 0")
    if scale == "interval":
        centred = matrix - np.nanmean(matrix)
        return with_interval(
            _interval_alpha(centred),
            lambda rows: _interval_alpha(centred[rows]),
            groups,
            n=n,
            method=method,
            level=level,
            draws=draws,
            rng=rng,
        )
    if values.size > MOST_CATEGORIES:
        raise ValueError(f"ratings: {values.size} distinct values on a scale that is {scale}; use interval")
    counts = np.stack([np.count_nonzero(matrix == value, axis=1) for value in values], axis=1).astype(np.float64)
    return with_interval(
        _alpha(counts, values, scale),
        lambda rows: _alpha(counts[rows], values, scale),
        groups,
        n=n,
        method=method,
        level=level,
        draws=draws,
        rng=rng,
    )


def fleiss_kappa(
    counts: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    level: float = 0.95,
    draws: int = 1000,
    rng: np.random.Generator | None = None,
) -> Estimate:
    """Fleiss' kappa, (P − P_e) / (1 − P_e), for items rated by the same number of raters, not always the same people.

    Source: Fleiss 1971, "Measuring nominal scale agreement among many raters".

    Args:
        counts: shape (items, categories), how many raters chose each category; every row has the same sum ≥ 2.
        clusters, level, draws, rng: as `krippendorff_alpha`.

    Returns:
        ≤ 1; undefined without items or where one category has all ratings. `n` counts ratings.

    Raises:
        ValueError: not two-dimensional, a count negative or not whole, or unequal numbers of raters.
    """
    table: np.ndarray = np.asarray(counts)
    if table.ndim != 2 or table.dtype.kind not in "biuf":
        raise ValueError(f"counts: expected numbers of shape (items, categories), found shape {table.shape}")
    table = table.astype(np.float64)
    if not np.isfinite(table).all() or (table < 0).any() or (table != np.floor(table)).any():
        raise ValueError("counts: expected whole numbers ≥ 0")
    groups, method, n = own_clusters(clusters, table.shape[0]), "Fleiss' kappa", int(table.sum())
    if table.shape[0] == 0:
        return undefined(0, 0, method, "no items")
    raters = table.sum(axis=1)
    if raters.min() != raters.max() or raters[0] < 2:
        raise ValueError(f"counts: items have {raters.min():g} to {raters.max():g} ratings; expected equal numbers ≥ 2")
    if np.count_nonzero(table.sum(axis=0)) == 1:
        return undefined(n, groups.count, method, f"all {n} ratings are in one category; nothing could disagree")
    return with_interval(
        _fleiss(table),
        lambda rows: _fleiss(table[rows]),
        groups,
        n=n,
        method=method,
        level=level,
        draws=draws,
        rng=rng,
    )


def icc(ratings: ArrayLike, *, form: Form, level: float = 0.95) -> Estimate:
    """Intraclass correlation, with the interval that follows from the F distribution.

    Source: Shrout & Fleiss 1979, "Intraclass correlations: uses in assessing rater reliability", with the intervals of
    McGraw & Wong 1996. Form `1` takes each item's raters as drawn anew, `2` the same raters as a sample of raters
    (absolute agreement), `3` these raters only (consistency); `1` after the comma is the reliability of one rating,
    `k` that of the mean of k.

    Args:
        ratings: shape (items, raters). Items with a missing rating are left out, and `method` counts them. Items are
            taken as independent: with several items of one prompt the interval is too narrow.
        form: which correlation.
        level: coverage, between 0 and 1.

    Returns:
        ≤ 1, may be negative; undefined with fewer than two complete items, or where all ratings are equal. No interval
        where the error mean square is 0. `n` counts ratings, `n_clusters` items.

    Raises:
        ValueError: as `ratings_matrix`, an unknown form, or level outside (0, 1).
    """
    matrix = ratings_matrix(ratings)
    if form not in FORMS:
        raise ValueError(f"form: {form!r} is none of {'; '.join(FORMS)}")
    check_fraction(level, "level")
    complete = matrix[~np.isnan(matrix).any(axis=1)]
    n, k = complete.shape
    method = f"ICC({form}), F interval over items, {100 * level:g} %; {n} of {matrix.shape[0]} items complete"
    if n < 2:
        return undefined(complete.size, n, method, f"{n} items are rated by all; two or more are needed")
    if complete.min() == complete.max():
        return undefined(complete.size, n, method, f"all {complete.size} ratings are {complete[0, 0]:g}")
    squares = _mean_squares(complete)
    value, low, high = _icc_of(squares, form, n, k, (1 + level) / 2)
    if math.isnan(value):
        return undefined(complete.size, n, method, "items do not differ more than ratings within them; 0 / 0")
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        return Estimate(value, None, None, complete.size, n, method, "the error mean square is 0; no F distribution")
    return Estimate(value, low, high, complete.size, n, method)


def _kept(groups: Clusters, mask: np.ndarray) -> Clusters:
    return clusters_of(groups.codes[mask], int(np.count_nonzero(mask)))


def _alpha(counts: FloatArray, values: FloatArray, scale: Scale) -> float:
    """Alpha from how often each item, with two ratings or more, got each value."""
    per_item, totals = counts.sum(axis=1), counts.sum(axis=0)
    n = totals.sum()
    if np.count_nonzero(totals) < 2:
        return math.nan
    distance = _distances(values, totals, scale)
    weighted = counts / (per_item - 1)[:, None]
    # The diagonal of the coincidences needs no correction for pairs of a rating with itself: its distance is 0.
    observed = float(np.sum((weighted.T @ counts) * distance))
    expected = float(totals @ distance @ totals) / (n - 1)
    return float(1 - observed / expected)


def _distances(values: FloatArray, totals: FloatArray, scale: Scale) -> FloatArray:
    if scale == "nominal":
        return 1 - np.eye(values.size)
    if scale == "ordinal":
        middle = np.cumsum(totals) - totals / 2
        return np.asarray((middle[:, None] - middle[None, :]) ** 2)
    total = values[:, None] + values[None, :]
    difference = values[:, None] - values[None, :]
    return np.asarray(np.divide(difference, total, out=np.zeros_like(total), where=total > 0) ** 2)


def _interval_alpha(matrix: FloatArray) -> float:
    """The same with squared differences, which need only variances and so no table of categories."""
    per_item = np.count_nonzero(~np.isnan(matrix), axis=1)
    means = np.nansum(matrix, axis=1) / per_item
    within = np.nansum((matrix - means[:, None]) ** 2, axis=1) * per_item / (per_item - 1)
    given = matrix[~np.isnan(matrix)]
    spread = float(np.sum((given - given.mean()) ** 2)) / (given.size - 1)
    return 1 - float(within.sum()) / given.size / spread if spread > 0 else math.nan


def _fleiss(table: FloatArray) -> float:
    raters = table[0].sum()
    shares = table.sum(axis=0) / table.sum()
    agreement = float(np.mean((np.sum(table**2, axis=1) - raters) / (raters * (raters - 1))))
    by_chance = float(shares @ shares)
    return (agreement - by_chance) / (1 - by_chance) if by_chance < 1 else math.nan


def _mean_squares(y: FloatArray) -> tuple[float, float, float, float]:
    """Between items, within items, between raters, residual."""
    n, k = y.shape
    grand, items, raters = y.mean(), y.mean(axis=1), y.mean(axis=0)
    between = k * float(np.sum((items - grand) ** 2)) / (n - 1)
    within = float(np.sum((y - items[:, None]) ** 2)) / (n * (k - 1))
    of_raters = n * float(np.sum((raters - grand) ** 2)) / (k - 1)
    residual = float(np.sum((y - items[:, None] - raters[None, :] + grand) ** 2)) / ((n - 1) * (k - 1))
    return between, within, of_raters, residual


def _icc_of(
    squares: tuple[float, float, float, float], form: Form, n: int, k: int, upper: float
) -> tuple[float, float, float]:
    """Value, low, high; NaN where a ratio is 0 / 0."""
    between, within, of_raters, residual = squares
    if form.startswith("2"):
        value, low, high = _two_way_random(between, of_raters, residual, n, k, upper)
    else:
        error, dof = (within, n * (k - 1)) if form.startswith("1") else (residual, (n - 1) * (k - 1))
        value = _ratio(between - error, between + (k - 1) * error)
        f = between / error if error > 0 else math.nan
        f_low, f_high = f / fdtri(n - 1, dof, upper), f * fdtri(dof, n - 1, upper)
        low, high = (f_low - 1) / (f_low + k - 1), (f_high - 1) / (f_high + k - 1)
    if form.endswith("k"):  # Spearman–Brown turns the reliability of one rating into that of a mean, ends included
        return _spearman_brown(value, k), _spearman_brown(low, k), _spearman_brown(high, k)
    return value, float(low), float(high)


def _two_way_random(b: float, c: float, e: float, n: int, k: int, upper: float) -> tuple[float, float, float]:
    value = _ratio(b - e, b + (k - 1) * e + k * (c - e) / n)
    if not e > 0:
        return value, math.nan, math.nan
    f, rest = c / e, n * (1 + (k - 1) * value) - k * value
    dof = (k - 1) * (n - 1) * (k * value * f + rest) ** 2 / ((n - 1) * k**2 * value**2 * f**2 + rest**2)
    f_low, f_high = fdtri(n - 1, dof, upper), fdtri(dof, n - 1, upper)
    shared = k * c + (k * n - k - n) * e
    return value, n * (b - f_low * e) / (f_low * shared + n * b), n * (f_high * b - e) / (shared + n * f_high * b)


def _spearman_brown(reliability: float, k: int) -> float:
    return _ratio(k * reliability, 1 + (k - 1) * reliability)


def _ratio(above: float, below: float) -> float:
    return above / below if below != 0 else math.nan
