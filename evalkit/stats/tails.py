"""How heavy a tail is, and whether a distribution has more than one mode.

With clusters, values of one cluster are taken to rise and fall as one: intervals rest on the clusters in the tail,
and modes are tested on one value of each cluster.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincinv, ndtri

from evalkit.stats.arrays import FloatArray, check_fraction, finite_vector, within_one
from evalkit.stats.bootstrap import own_clusters
from evalkit.stats.estimate import Estimate, undefined

Side = Literal["upper", "lower", "both"]
LEAST_IN_TAIL = 10
# Points of the density's grid, and how far it reaches beyond the data in bandwidths.
GRID = 512
REACH = 3.0
LEAST_FOR_MODES = 20
MOST_FOR_MODES = 2000


@dataclass(frozen=True, slots=True)
class Tail:
    """The extreme values of one side, measured from the median."""

    hill: Estimate
    """Hill's tail index α > 0, of P(X > x) ~ x^−α: moments from α on are infinite, below 2 even the variance. `n`
    counts values in the tail."""
    index: Estimate
    """Extreme value index of the moment estimator: above 0 a power law heavier than any exponential, 0 exponential
    or normal, below 0 bounded."""
    excess_kurtosis: float | None
    """Of all values; 0 for a normal. `None` for a constant."""

    @property
    def heavy(self) -> bool | None:
        """Whether the interval of `index` is above 0; `None` where there is none."""
        return None if self.index.low is None else self.index.low > 0


@dataclass(frozen=True, slots=True)
class Modality:
    """Silverman's test of one mode against several."""

    p: float | None
    """In (0, 1]; small where one mode is not enough. `None` where it cannot be tested, and `why` then says so."""
    critical_bandwidth: float | None
    """Least bandwidth of a normal kernel that leaves one mode, in standard deviations."""
    n: int
    """Values tested."""
    method: str
    why: str = ""


def tail(
    values: ArrayLike,
    clusters: ArrayLike | None = None,
    *,
    side: Side = "both",
    share: float = 0.05,
    level: float = 0.95,
) -> Tail:
    """Hill's and the moment estimator of the most extreme values.

    Sources: Hill 1975, with the exact interval of exponential log spacings; Dekkers, Einmahl & de Haan 1989 for
    the moment estimator, whose interval is the normal one with variance (1 + ξ²)/k that holds for ξ ≥ 0. With
    clusters, k is in both intervals the effective number k²/Σ m² of clusters with m values in the tail each
    (Kish), which is right where values of a cluster are copies and wide where they are less alike.

    Args:
        values: shape (n,), no NaN.
        clusters: shape (n,), a label per value; None where values are independent.
        side: values above the median, below it, or distances from it on both sides.
        share: of all n values that are the tail, between 0 and 1. The rest of the distribution tells nothing of a
            tail, and too large a share lets it in.
        level: coverage, between 0 and 1.

    Returns:
        undefined with fewer than ten values (or an effective number of clusters) in the tail, or where the tail is
        one value; the index too where fewer than half of the values in the tail are distinct, for a grid has no
        index.

    Raises:
        ValueError: NaN or infinite values, a missing label, an unknown side, or share or level outside (0, 1).
    """
    x = within_one(finite_vector(values, "values"))
    if side not in ("upper", "lower", "both"):
        raise ValueError(f"side: {side!r} is none of upper, lower, both")
    check_fraction(share, "share")
    check_fraction(level, "level")
    units = own_clusters(clusters, x.size)
    k = math.floor(share * x.size)
    method = f"{k} most extreme of {x.size} values, {side}"
    kurtosis = _excess_kurtosis(x)
    if k < LEAST_IN_TAIL:
        nothing = undefined(k, k, method, f"{k} values in the tail; at least {LEAST_IN_TAIL}")
        return Tail(nothing, nothing, kurtosis)
    away = x - np.median(x)
    away = {"upper": away, "lower": -away, "both": np.abs(away)}[side]
    order = np.argsort(away, kind="stable")
    threshold, extreme = away[order[-k - 1]], away[order[-k:]]
    members = np.unique(units.codes[order[-k:]], return_counts=True)[1]
    g, effective = members.size, k**2 / float(np.sum(members.astype(np.float64) ** 2))
    if effective < LEAST_IN_TAIL:
        why = f"{k} values of {g} clusters in the tail, as good as {effective:.1f}; at least {LEAST_IN_TAIL}"
        nothing = undefined(k, g, method, why)
        return Tail(nothing, nothing, kurtosis)
    if g < k:
        method += f", as good as {effective:.1f} of {g} clusters"
    if not threshold > 0 or extreme[-1] == threshold:
        why = "the tail begins at the median" if not threshold > 0 else "the whole tail lies at one value"
        nothing = undefined(k, g, method, why)
        return Tail(nothing, nothing, kurtosis)
    logs = np.log(extreme / threshold)
    first, second = float(logs.mean()), float(np.mean(logs**2))
    low, high = (float(gammaincinv(effective, q)) / effective / first for q in ((1 - level) / 2, (1 + level) / 2))
    hill = Estimate(1 / first, low, high, k, g, f"Hill, {method}, exact, {100 * level:g} %")
    moment_method = f"moment estimator, {method}, normal, {100 * level:g} %"
    distinct = np.unique(extreme).size
    if math.isclose(first**2, second) or distinct < k / 2:
        why = f"{distinct} distinct of {k} values in the tail; a grid has no index"
        return Tail(hill, undefined(k, g, moment_method, why), kurtosis)
    index = first + 1 - 0.5 / (1 - first**2 / second)
    margin = float(ndtri((1 + level) / 2)) * math.sqrt((1 + index**2) / effective)
    return Tail(hill, Estimate(index, index - margin, index + margin, k, g, moment_method), kurtosis)


def unimodality(
    values: ArrayLike, clusters: ArrayLike | None = None, *, rng: np.random.Generator, draws: int = 200
) -> Modality:
    """Silverman's bootstrap test that a density has one mode.

    Chosen over Hartigan's dip because its null is near the data, where the dip's is the uniform density whatever
    they look like, and because the critical bandwidth says how much smoothing the modes outlive.

    Source: Silverman 1981, "Using kernel density estimates to investigate multimodality": samples of the smoothest
    one-moded density near the data, with its variance put back; p = (b + 1)/(B + 1), b of B of them with more than
    one mode at the critical bandwidth. The test is conservative.

    Args:
        values: shape (n,), no NaN.
        clusters: shape (n,), a label per value, of which one value each is tested; None where values are
            independent.
        rng: of the bootstrap, of one value per cluster, and of 2,000 values where there are more.
        draws: B ≥ 1.

    Returns:
        Not tested with fewer than 20 values, or where fewer than half of them are distinct: the modes of a grid
        say nothing of a density.

    Raises:
        ValueError: NaN or infinite values, a missing label, or draws < 1.
    """
    x = within_one(finite_vector(values, "values"))
    if draws < 1:
        raise ValueError(f"draws: {draws}; at least 1")
    method = f"Silverman's test, {draws} draws"
    if clusters is not None:
        mixed = rng.permutation(x.size)
        x = x[mixed[np.unique(own_clusters(clusters, x.size).codes[mixed], return_index=True)[1]]]
        method += ", one value of each cluster"
    if x.size > MOST_FOR_MODES:
        method += f", {MOST_FOR_MODES} of {x.size} values"
        x = rng.choice(x, MOST_FOR_MODES, replace=False)
    n, distinct = x.size, np.unique(x).size
    if n < LEAST_FOR_MODES:
        return Modality(None, None, n, method, f"{n} values; at least {LEAST_FOR_MODES}")
    if distinct < n / 2:
        return Modality(None, None, n, method, f"{distinct} distinct of {n} values; a grid has no density")
    x = (x - x.mean()) / x.std(ddof=1)
    width = _critical_bandwidth(x)
    shrink = 1 / math.sqrt(1 + width**2)
    several = 0
    for _ in range(draws):
        drawn = x[rng.integers(0, n, n)]
        smooth = drawn.mean() + shrink * (drawn - drawn.mean() + width * rng.normal(size=n))
        several += _modes(smooth, width) > 1
    return Modality((several + 1) / (draws + 1), width, n, method)


def _excess_kurtosis(x: FloatArray) -> float | None:
    if x.size < 2 or x.min() == x.max():
        return None
    centred = (x - x.mean()) / x.std()
    return float(np.mean(centred**4)) - 3


def _critical_bandwidth(x: FloatArray) -> float:
    """Least h with one mode: more modes never appear as a normal kernel widens, so halving finds it."""
    low, high = 0.0, float(np.ptp(x))
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        if middle < np.ptp(x) / GRID:  # finer than the grid: nothing below can be told apart
            break
        low, high = (middle, high) if _modes(x, middle) > 1 else (low, middle)
    return high


def _modes(x: FloatArray, width: float) -> int:
    """Local maxima of the normal kernel density, from values put on a grid."""
    low, high = x.min() - REACH * width, x.max() + REACH * width
    counts, edges = np.histogram(x, bins=GRID, range=(low, high))
    steps = np.arange(-GRID + 1, GRID) * (edges[1] - edges[0]) / width
    frequencies = np.fft.rfft(counts, 4 * GRID) * np.fft.rfft(np.exp(-(steps**2) / 2), 4 * GRID)
    density = np.fft.irfft(frequencies, 4 * GRID)[GRID - 1 : 2 * GRID - 1]
    slope = np.diff(density)
    slope = slope[np.abs(slope) > 1e-9 * density.max()]
    return int(np.count_nonzero((slope[:-1] > 0) & (slope[1:] < 0)))
