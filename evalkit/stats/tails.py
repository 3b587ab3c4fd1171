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

from evalkit.stats.arrays import FloatArray, IntArray, check_fraction, finite_vector, within_one
from evalkit.stats.bootstrap import own_clusters
from evalkit.stats.estimate import Estimate, undefined

Side = Literal["upper", "lower", "both"]
LEAST_IN_TAIL = 10
LEAST_FOR_MODES = 20
MOST_FOR_MODES = 2000
ENOUGH_REACHED = 20


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
    """Hartigan's test of one mode against several."""

    p: float | None
    """In (0, 1]; small where one mode is not enough. `None` where it cannot be tested, and `why` then says so."""
    dip: float | None
    """Least distance of the distribution function to one with a single mode, in [1/(2n), 1/4]. `None` where `p` is."""
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
    """Hartigan's dip test that a density has one mode.

    Chosen over Silverman's bandwidth test, which called 18 % of uniform samples of 60 several-moded at level .05:
    the dip is calibrated on the uniform, of all one-moded densities the hardest, so it keeps its level and is
    conservative for others. It says nothing of how many modes there are.

    Sources: Hartigan & Hartigan 1985 for the dip; Besag & Clifford 1991 for the p: h/l where h = 20 of the first l
    uniform samples reach the dip, else (b + 1)/(B + 1), b of B of them.

    Args:
        values: shape (n,), no NaN.
        clusters: shape (n,), a label per value, of which one value each is tested; None where values are
            independent.
        rng: of the uniform samples, of one value per cluster, and of 2,000 values where there are more.
        draws: most uniform samples B ≥ 1.

    Returns:
        Not tested with fewer than 20 values, or where fewer than half of them are distinct: the modes of a grid
        say nothing of a density.

    Raises:
        ValueError: NaN or infinite values, a missing label, or draws < 1.
    """
    x = within_one(finite_vector(values, "values"))
    if draws < 1:
        raise ValueError(f"draws: {draws}; at least 1")
    method = f"Hartigan's dip against at most {draws} uniform samples"
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
    found, reached = dip(x), 0
    for drawn in range(1, draws + 1):
        reached += dip(rng.random(n)) >= found
        if reached == ENOUGH_REACHED:
            return Modality(reached / drawn, found, n, method)
    return Modality((reached + 1) / (draws + 1), found, n, method)


def dip(values: ArrayLike) -> float:
    """Largest gap between the distribution function of values and the nearest one with a single mode.

    Source: Hartigan 1985, "Algorithm AS 217": the modal interval narrows to where the greatest convex minorant and
    the least concave majorant are farthest apart, as long as that is farther than what they miss outside it.

    Args:
        values: shape (n,), n ≥ 1, no NaN; ties are allowed.

    Returns:
        In [1/(2n), 1/4].

    Raises:
        ValueError: NaN or infinite values, or none.
    """
    x = within_one(finite_vector(values, "values"))
    if x.size == 0:
        raise ValueError("values: none given")
    at, counts = np.unique(x + 1.0, return_counts=True)  # so that no two are nearer than a slope can tell
    above = np.cumsum(counts) / x.size
    below = above - counts / x.size
    twice = 1 / x.size
    while at.size > 1:
        convex, concave = _convex_corners(at, below), _convex_corners(at, -above)
        minorant, majorant = np.interp(at, at[convex], below[convex]), np.interp(at, at[concave], above[concave])
        gaps = majorant - minorant
        if gaps[concave].max() > gaps[convex].max():
            right = concave[np.flatnonzero(gaps[concave] == gaps[concave].max())[-1]]
            left = convex[convex <= right][-1]
        else:
            left = convex[np.argmax(gaps[convex])]
            right = concave[concave >= left][0]
        if max(gaps[left], gaps[right]) <= twice:
            break
        missed = max((above - minorant)[:left].max(initial=0.0), (majorant - below)[right + 1 :].max(initial=0.0))
        twice = max(twice, missed)
        if (left, right) == (0, at.size - 1):
            break
        at, above, below = (part[left : right + 1] for part in (at, above, below))
    return twice / 2


def _excess_kurtosis(x: FloatArray) -> float | None:
    if x.size < 2 or x.min() == x.max():
        return None
    centred = (x - x.mean()) / x.std()
    return float(np.mean(centred**4)) - 3


def _convex_corners(at: FloatArray, heights: FloatArray) -> IntArray:
    """Where the greatest convex minorant of points touches them, first and last included."""
    corners = [0]
    while corners[-1] < at.size - 1:
        i = corners[-1]
        slopes = (heights[i + 1 :] - heights[i]) / (at[i + 1 :] - at[i])
        corners.append(i + 1 + int(np.flatnonzero(slopes == slopes.min())[-1]))
    return np.array(corners)
