"""Correlation of two variables over clustered observations, with its interval from one pass over the data.

1. The error comes from influence functions: how much each observation moves the statistic. Their sums within clusters
   give the CR1 standard error, for Pearson, ranks and pairs alike, without a resample.
2. Intervals are Student's t on clusters − 1 on the scale of Fisher's z, carried back.
3. A constant variable has no correlation. The value is then undefined, neither 0 nor 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from evalkit.stats.arrays import FloatArray, check_fraction, finite_vector
from evalkit.stats.clusters import Clusters, clusters_of
from evalkit.stats.concordance import mid_ranks, pair_counts
from evalkit.stats.estimate import Estimate, undefined
from evalkit.stats.means import ROUNDING

Kind = Literal["pearson", "spearman", "kendall_b", "kendall_a", "kendall_c", "gamma", "somers_d"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NAMES: dict[Kind, str] = {
    "pearson": "Pearson r",
    "spearman": "Spearman rho",
    "kendall_b": "Kendall tau-b",
    "kendall_a": "Kendall tau-a",
    "kendall_c": "Stuart tau-c",
    "gamma": "Goodman–Kruskal gamma",
    "somers_d": "Somers d(y|x)",
}
FEW_CLUSTERS = 12


def correlation(x: ArrayLike, y: ArrayLike, clusters: ArrayLike, *, kind: Kind, level: float = 0.95) -> Estimate:
    """Correlation over all observations (the pooled level) with a cluster-robust interval.

    With C concordant, D discordant, T_x and T_y pairs tied in one variable only and N pairs: tau-a (C − D)/N, tau-b
    (C − D)/√((C + D + T_x)(C + D + T_y)), tau-c 2(C − D)/(n²(m − 1)/m) with m the smaller number of distinct values,
    gamma (C − D)/(C + D), Somers d(y|x) (C − D)/(C + D + T_y), T_y being tied in y only. Spearman is Pearson's r of
    mid-ranks.

    Args:
        x: shape (n,), no NaN.
        y: shape (n,), no NaN.
        clusters: shape (n,), a label per observation; equal labels are one cluster.
        kind: the statistic.
        level: coverage, between 0 and 1.

    Returns:
        −1 to 1. Undefined with fewer than two observations or where x or y is constant. No interval with fewer than
        three clusters, at ±1, or where clusters show no variation. `method` says so where clusters are fewer than 12.

    Raises:
        ValueError: lengths differ, NaN or infinite values, a missing label, an unknown kind, level outside (0, 1).

    Sources: Kendall 1970, "Rank Correlation Methods"; Hampel 1974 for influence functions, Hájek's projection for
    pairs; Cameron & Miller 2015 for CR1 with t(G − 1); Fisher 1915 for z = artanh r.
    """
    first, second = two(x, y)
    groups = clusters_of(clusters, first.size)
    value, moves, why = influence(first, second, kind=kind)
    if value is None:
        return undefined(first.size, groups.count, NAMES[kind], why)
    return interval_of(value, moves, groups, NAMES[kind], level)


def influence(x: ArrayLike, y: ArrayLike, *, kind: Kind) -> tuple[float | None, FloatArray, str]:
    """The correlation, how far each observation moves it, shape (n,), mean zero, and why it is undefined.

    The standard error of independent observations is √(Σ φ²)/n; of clusters, √(Σ_g (Σ_{i in g} φ_i)²)/n.

    Returns:
        `None`, NaN and the reason where the correlation is undefined; the reason is empty otherwise.

    Raises:
        ValueError: as `correlation`.
    """
    first, second = two(x, y)
    why = _constant(first, second)
    if _known(kind) and why:
        return None, np.full(first.size, math.nan), why
    if kind == "pearson":
        return *from_moments(first, second), ""
    if kind == "spearman":
        u, v = mid_ranks(first) / first.size, mid_ranks(second) / second.size
        u, v = u - u.mean(), v - v.mean()
        cross = _rank_shift(first, v) + _rank_shift(second, u)
        value, moves = _moment_ratio(u, v, cross, 2 * _rank_shift(first, u), 2 * _rank_shift(second, v))
        return value, moves, ""
    shares = pair_counts(first, second).shares()
    scale = 1.0
    if kind == "kendall_c":
        distinct = min(np.unique(first).size, np.unique(second).size)
        scale = (first.size - 1) / first.size * distinct / (distinct - 1)
    # Each pair has two members, hence the 2 of Hájek's projection.
    return _of_pairs(shares, kind, 2.0, scale)


def correlation_difference(
    a: ArrayLike, b: ArrayLike, y: ArrayLike, clusters: ArrayLike, *, kind: Kind, level: float = 0.95
) -> Estimate:
    """corr(b, y) − corr(a, y) on the same observations, with the interval of the paired difference.

    Args:
        a, b: shape (n,), two rewards for the same observations.
        y: shape (n,), what both are held against.
        clusters, kind, level: as `correlation`.

    Returns:
        −2 to 2, mean ± t(G − 1) · CR1 of the difference of influence functions. Undefined where one of the two is.

    Raises:
        ValueError: as `correlation`.
    """
    first, target = two(a, y)
    second, _ = two(b, y)
    groups, method = clusters_of(clusters, first.size), f"difference of {NAMES[_known(kind)]}, b − a"
    value_a, moves_a, why_a = influence(first, target, kind=kind)
    value_b, moves_b, why_b = influence(second, target, kind=kind)
    if value_a is None or value_b is None:
        return undefined(first.size, groups.count, method, why_a or why_b)
    return linear_interval(value_b - value_a, moves_b - moves_a, groups, method, level, bounds=(-2, 2))


def partial_correlation(
    x: ArrayLike,
    y: ArrayLike,
    controls: ArrayLike,
    clusters: ArrayLike,
    *,
    kind: Literal["pearson", "spearman"],
    level: float = 0.95,
) -> Estimate:
    """Correlation of what is left of x and y after a linear fit on the controls.

    Spearman ranks x, y and every control first, then does the same. The CR1 factor also counts the controls:
    G/(G − 1) · (n − 1)/(n − k − 1).

    Args:
        x, y: shape (n,), no NaN.
        controls: shape (n,) or (n, k), no NaN: a length, or a 0/1 column per system but one. Columns that the others
            determine add nothing and do no harm.
        clusters, level: as `correlation`.
        kind: pearson or spearman; Kendall's partial tau is not the tau of residuals and is left out.

    Returns:
        −1 to 1; undefined also where the controls determine x or y.

    Raises:
        ValueError: as `correlation`; controls of another length.
    """
    first, second = two(x, y)
    z = _controls(controls, first.size)
    groups, k = clusters_of(clusters, first.size), z.shape[1]
    method = f"partial {NAMES[kind]} given {k} control{'s' if k > 1 else ''}"
    value, moves, why = partial_influence(first, second, z, kind=kind)
    if value is None:
        return undefined(first.size, groups.count, method, why)
    return interval_of(value, moves, groups, method, level)


def partial_influence(
    x: ArrayLike, y: ArrayLike, controls: ArrayLike, *, kind: Literal["pearson", "spearman"]
) -> tuple[float | None, FloatArray, str]:
    """As `influence`, of the partial correlation; the factor that counts the controls is in the influence.

    Raises:
        ValueError: as `partial_correlation`.
    """
    first, second = two(x, y)
    z = _controls(controls, first.size)
    if kind not in ("pearson", "spearman"):
        raise ValueError(f"kind: {kind!r} is neither pearson nor spearman")
    k, n = z.shape[1], first.size
    nothing = np.full(n, math.nan)
    if n < k + 3:
        return None, nothing, f"{n} observations are too few for {k} controls"
    why = _constant(first, second)
    if why:
        return None, nothing, why
    ranked = kind == "spearman"
    u, v = (mid_ranks(first) / n, mid_ranks(second) / n) if ranked else (_scaled(first), _scaled(second))
    w = np.column_stack([mid_ranks(c) / n if ranked else _scaled(c) for c in z.T]) if k else z
    u, v = u - u.mean(), v - v.mean()
    w = w - w.mean(axis=0)
    slope = np.linalg.lstsq(w, np.column_stack([u, v]), rcond=None)[0] if k else np.zeros((0, 2))
    rest_u, rest_v = u - w @ slope[:, 0], v - w @ slope[:, 1]
    if _vanishes(rest_u, u) or _vanishes(rest_v, v):
        left = "x" if _vanishes(rest_u, u) else "y"
        return None, nothing, f"the controls determine {left}; nothing of it is left"
    through_u = _rank_shifts(first, z, slope[:, 0]) if ranked else _no_shift
    through_v = _rank_shifts(second, z, slope[:, 1]) if ranked else _no_shift
    cross = through_u(rest_v) + through_v(rest_u)
    value, moves = _moment_ratio(rest_u, rest_v, cross, 2 * through_u(rest_u), 2 * through_v(rest_v))
    return value, moves * math.sqrt((n - 1) / (n - k - 1)), ""


def _controls(controls: ArrayLike, n: int) -> FloatArray:
    z: FloatArray = np.asarray(controls, dtype=np.float64)
    z = z[:, None] if z.ndim == 1 else z
    if z.ndim != 2 or z.shape[0] != n:
        raise ValueError(f"controls: expected shape ({n}, k), found {z.shape}")
    if not np.isfinite(z).all():
        raise ValueError("controls: NaN or infinite values; drop and count them first")
    return z


def linear_interval(
    value: float,
    moves: FloatArray,
    groups: Clusters,
    method: str,
    level: float,
    *,
    bounds: tuple[float, float],
) -> Estimate:
    """`value` ± t(G − 1) · CR1 of its influence functions, clipped to `bounds`; no interval where they show none."""
    check_fraction(level, "level")
    error, why = _error(moves, groups)
    method = _with_error(method, groups.count, level)
    if why:
        return Estimate(value, None, None, moves.size, groups.count, method, why)
    margin = float(stdtrit(groups.count - 1, (1 + level) / 2)) * error
    low, high = max(value - margin, bounds[0]), min(value + margin, bounds[1])
    return Estimate(value, low, high, moves.size, groups.count, method)


def interval_of(value: float, moves: FloatArray, groups: Clusters, method: str, level: float) -> Estimate:
    """The Fisher-z interval of a correlation from its influence functions."""
    check_fraction(level, "level")
    n, g = moves.size, groups.count
    method = _with_error(f"{method}; Fisher z", g, level)
    if abs(value) >= 1 - ROUNDING:
        return Estimate(math.copysign(1.0, value), None, None, n, g, method, "no error is visible at ±1")
    error, why = _error(moves, groups)
    if why:
        return Estimate(value, None, None, n, g, method, why)
    margin = float(stdtrit(g - 1, (1 + level) / 2)) * error / (1 - value**2)
    centre = math.atanh(value)
    return Estimate(value, math.tanh(centre - margin), math.tanh(centre + margin), n, g, method)


def _error(moves: FloatArray, groups: Clusters) -> tuple[float, str]:
    """CR1 standard error, or why there is none."""
    g = groups.count
    if g < 3:
        return math.nan, f"{g} cluster{'s' if g != 1 else ''}; this interval needs three or more"
    sums = groups.sums(moves)
    error = math.sqrt(g / (g - 1) * float(sums @ sums)) / moves.size
    if error <= ROUNDING:
        return math.nan, f"all {g} clusters move the statistic equally; they show no variation"
    return error, ""


def _with_error(method: str, g: int, level: float) -> str:
    few = f"; fewer than {FEW_CLUSTERS} clusters, coverage may fall short" if g < FEW_CLUSTERS else ""
    return f"{method}; CR1 of influence functions over clusters, t({g - 1}), {100 * level:g} %{few}"


def tau_b_of_pairs(x: FloatArray, y: FloatArray) -> tuple[float | None, FloatArray, str]:
    """As `influence` of tau-b, over given pairs: differences first − second, shape (pairs,); a share of all pairs moves
    with each."""
    dx, dy = np.sign(x), np.sign(y)
    kinds = (dx * dy > 0, dx * dy < 0, (dx == 0) & (dy != 0), (dx != 0) & (dy == 0), (dx == 0) & (dy == 0))
    shares = np.stack(kinds).astype(np.float64)
    constant = [name for name, d in (("x", dx), ("y", dy)) if not d.any()]
    if constant:
        return None, np.full(x.size, math.nan), f"{' and '.join(constant)} constant within every group"
    return _of_pairs(shares, "kendall_b", 1.0, 1.0)


def _of_pairs(shares: FloatArray, kind: Kind, members: float, scale: float) -> tuple[float | None, FloatArray, str]:
    """A statistic of the five kinds of pairs, whose shares by observation (or by pair) are given."""
    c, d, tied_x, tied_y, _ = shares
    mean = shares.mean(axis=1)
    above, moved = mean[0] - mean[1], c - d - (mean[0] - mean[1])
    if kind == "kendall_b":
        untied_x, untied_y = c + d + tied_y, c + d + tied_x
        root = math.sqrt(untied_x.mean() * untied_y.mean())
        relative = untied_x / untied_x.mean() + untied_y / untied_y.mean() - 2
        return above / root, members * (moved / root - above / root / 2 * relative), ""
    if kind == "gamma" or kind == "somers_d":
        below = c + d + (tied_y if kind == "somers_d" else 0)
        if not below.mean() > 0:
            return None, np.full(c.size, math.nan), "no pair differs in both x and y"
        value = above / below.mean()
        return value, members * (moved - value * (below - below.mean())) / below.mean(), ""
    return above * scale, members * scale * moved, ""


def from_moments(x: FloatArray, y: FloatArray) -> tuple[float, FloatArray]:
    """Pearson's r and its influence, of x and y that are not constant."""
    nothing = np.zeros(x.size)
    return _moment_ratio(_scaled(x), _scaled(y), nothing, nothing, nothing)


def _moment_ratio(
    u: FloatArray, v: FloatArray, cross: FloatArray, shift_u: FloatArray, shift_v: FloatArray
) -> tuple[float, FloatArray]:
    """cov / √(var · var) of centred u and v, with influence; the last three are what an observation adds to the three
    moments by moving the others, zero for plain moments."""
    cov, var_u, var_v = (float(np.mean(p)) for p in (u * v, u * u, v * v))
    root = math.sqrt(var_u * var_v)
    value = cov / root
    of_cov = u * v + cross - np.mean(u * v + cross)
    of_u, of_v = u * u + shift_u, v * v + shift_v
    relative = (of_u - of_u.mean()) / var_u + (of_v - of_v.mean()) / var_v
    return value, of_cov / root - value / 2 * relative


def _rank_shift(x: FloatArray, weights: FloatArray) -> FloatArray:
    """How observation i moves Σ w · rank: the mean of w_j · m(x_i, x_j) over j, m 1 where x_j > x_i, ½ if equal."""
    codes = np.unique(x, return_inverse=True)[1]
    at = np.bincount(codes, weights=weights)
    above = at.sum() - np.cumsum(at)
    return np.asarray((above + at / 2)[codes] / x.size, dtype=np.float64)


def _rank_shifts(x: FloatArray, controls: FloatArray, slope: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """`_rank_shift` of what is left of x's ranks after the fit on the controls' ranks."""

    def shift(weights: FloatArray) -> FloatArray:
        shifts = _rank_shift(x, weights)
        for b, column in zip(slope, controls.T, strict=True):
            shifts = shifts - b * _rank_shift(column, weights)
        return shifts

    return shift


def _no_shift(weights: FloatArray) -> FloatArray:
    return np.zeros(weights.size)


def _scaled(x: FloatArray) -> FloatArray:
    """Shifted and scaled so that squares neither overflow nor vanish; a correlation does not see it."""
    within = x / max(float(np.abs(x).max()), np.finfo(np.float64).tiny)
    centred: FloatArray = within - within.mean()
    largest = float(np.abs(centred).max())
    return centred / largest if largest > 0 else centred


def _vanishes(rest: FloatArray, whole: FloatArray) -> bool:
    return float(rest @ rest) <= 1e-20 * max(float(whole @ whole), 1e-300)


def _constant(x: FloatArray, y: FloatArray) -> str:
    if x.size < 2:
        return f"{x.size} observation{'s' if x.size != 1 else ''}; a correlation needs two or more"
    constant = [name for name, values in (("x", x), ("y", y)) if values.min() == values.max()]
    return f"{' and '.join(constant)} {'is' if len(constant) == 1 else 'are'} constant" if constant else ""


def _known(kind: Kind) -> Kind:
    if kind not in KINDS:
        raise ValueError(f"kind: {kind!r} is none of {', '.join(KINDS)}")
    return kind


def two(x: ArrayLike, y: ArrayLike) -> tuple[FloatArray, FloatArray]:
    first, second = finite_vector(x, "x"), finite_vector(y, "y")
    if first.size != second.size:
        raise ValueError(f"x and y: {first.size} and {second.size} values; pair them first")
    return first, second
