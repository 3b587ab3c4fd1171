"""Two rewards on the same items, and many tests at once.

1. Where clusters exist, exchange whole clusters. McNemar's and Williams's tests take items as independent and say so.
2. A Monte Carlo p is (b + 1) / (B + 1): never 0, and valid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, stdtr

from evalkit.stats.arrays import FloatArray, finite_vector
from evalkit.stats.clusters import clusters_of
from evalkit.stats.correlation import Kind, influence
from evalkit.stats.paired import TIE, Discordance


@dataclass(frozen=True, slots=True)
class Test:
    """A two-sided test."""

    __test__ = False  # no test of pytest's

    p: float | None
    """In (0, 1]; None where the test cannot be made, and `why` says so."""
    statistic: float | None
    n: int
    n_clusters: int | None
    """None where the test takes observations as independent."""
    method: str
    why: str = ""


def mcnemar(pairs: Discordance, *, mid_p: bool = True) -> Test:
    """Do two judges differ in accuracy, given where only one of them is right? Items are taken as independent.

    Exact: twice the smaller binomial tail of the discordant pairs at ½. Mid-p takes half of the probability of the
    observed table, which is less conservative and keeps its level in practice. Source:
    Fagerland, Lydersen & Laake 2013.

    Returns:
        `statistic` is a_only / (a_only + b_only). p is 1 without discordant pairs.
    """
    m, fewer = pairs.a_only + pairs.b_only, min(pairs.a_only, pairs.b_only)
    n = m + pairs.both + pairs.neither
    method = f"McNemar, {'mid-p' if mid_p else 'exact'}, {m} of {n} pairs discordant, pairs independent"
    if m == 0:
        return Test(1.0, None, n, None, method)
    tail = float(bdtr(fewer, m, 0.5))
    if mid_p:
        tail -= (tail - float(bdtr(fewer - 1, m, 0.5) if fewer else 0.0)) / 2
    return Test(min(1.0, 2 * tail), pairs.a_only / m, n, None, method)


def perm_both(
    a: ArrayLike,
    b: ArrayLike,
    y: ArrayLike,
    clusters: ArrayLike,
    *,
    kind: Kind,
    rng: np.random.Generator,
    draws: int = 1000,
) -> Test:
    """Do two rewards correlate differently with y? PERM-BOTH: standardise both, swap them within random clusters.

    Source: Deutsch, Dror & Roth 2021, "A Statistical Analysis of Summarization Evaluation Metrics".

    Args:
        a, b, y: shape (n,), no NaN.
        clusters: shape (n,), a label per observation; a cluster is swapped as a whole.
        kind: as `correlation`. For a rank statistic, ranks are taken after standardising and swapping.
        rng: draws the swaps.
        draws: random swaps B, ≥ 1.

    Returns:
        `statistic` is corr(b, y) − corr(a, y). No p where a, b or y is constant.

    Raises:
        ValueError: as `correlation`, or draws < 1.
    """
    if draws < 1:
        raise ValueError(f"draws: {draws} random swaps; at least 1")
    first, second, target = finite_vector(a, "a"), finite_vector(b, "b"), finite_vector(y, "y")
    if not first.size == second.size == target.size:
        raise ValueError(f"a, b and y: {first.size}, {second.size} and {target.size} values; pair them first")
    groups = clusters_of(clusters, first.size)
    method = f"PERM-BOTH on {kind}, clusters swapped, {draws} draws, (b + 1)/(B + 1)"
    observed = _difference(first, second, target, kind)
    if observed is None:
        return Test(None, None, first.size, groups.count, method, "a, b or y is constant")
    u, v = _standardised(first), _standardised(second)
    as_large = 0
    for _ in range(draws):
        swap = (rng.random(groups.count) < 0.5)[groups.codes]
        drawn = _difference(np.where(swap, v, u), np.where(swap, u, v), target, kind)
        # A draw without a correlation cannot speak against the hypothesis that nothing differs.
        as_large += drawn is None or abs(drawn) >= abs(observed) - TIE
    return Test((as_large + 1) / (draws + 1), observed, first.size, groups.count, method)


def williams(r_ay: float, r_by: float, r_ab: float, n: int) -> Test:
    """Williams's t for two Pearson correlations with the same y, observations independent and jointly normal.

    t = (r_ay − r_by) √[(n − 1)(1 + r_ab) / (2 |R| (n − 1)/(n − 3) + r̄² (1 − r_ab)³)] on n − 3 degrees of freedom.
    Sources: Williams 1959; Steiger 1980, eq. 7.

    Args:
        r_ay, r_by, r_ab: Pearson correlations, −1 to 1, of one set of n complete observations.
        n: ≥ 4.

    Returns:
        Symmetric in a and b but for the sign of t. No p with n < 4 or where the three cannot be told apart from a
        singular correlation matrix.

    Raises:
        ValueError: a correlation outside −1 to 1.
    """
    for name, r in (("r_ay", r_ay), ("r_by", r_by), ("r_ab", r_ab)):
        if not -1 <= r <= 1:
            raise ValueError(f"{name}: {r} is not within −1 to 1")
    method = f"Williams t({n - 3}), observations independent, jointly normal"
    if n < 4:
        return Test(None, None, n, None, method, f"{n} observations; four or more are needed")
    determinant = 1 - r_ay**2 - r_by**2 - r_ab**2 + 2 * r_ay * r_by * r_ab
    below = 2 * max(determinant, 0.0) * (n - 1) / (n - 3) + (r_ay + r_by) ** 2 / 4 * (1 - r_ab) ** 3
    if below < 1e-12:
        return Test(None, None, n, None, method, "the correlation matrix is singular")
    t = (r_ay - r_by) * math.sqrt((n - 1) * (1 + r_ab) / below)
    return Test(float(2 * stdtr(n - 3, -abs(t))), t, n, None, method)


def adjust(p: ArrayLike, *, method: Literal["bh", "by"]) -> FloatArray:
    """p-values adjusted for the false discovery rate over the whole family; those ≤ α are rejected at rate α.

    `bh` for independent or positively dependent tests, `by` for any dependence. Sources: Benjamini & Hochberg 1995;
    Benjamini & Yekutieli 2001.

    Args:
        p: shape (m,), every test of the family, 0 to 1.
        method: bh or by.

    Returns:
        Shape (m,), in the order of `p`, each ≥ its p and ≤ 1.

    Raises:
        ValueError: a p outside 0 to 1, or an unknown method.
    """
    values = finite_vector(p, "p")
    if values.size and (values.min() < 0 or values.max() > 1):
        raise ValueError("p: expected values from 0 to 1")
    if method not in ("bh", "by"):
        raise ValueError(f"method: {method!r} is neither bh nor by")
    ranks = np.arange(1, values.size + 1)
    order = np.argsort(values, kind="stable")
    factor = float(np.sum(1 / ranks)) if method == "by" else 1.0
    steps = values[order] * values.size / ranks * factor
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.minimum.accumulate(steps[::-1])[::-1], 1.0)
    return adjusted


def _difference(a: FloatArray, b: FloatArray, y: FloatArray, kind: Kind) -> float | None:
    of_a, of_b = influence(a, y, kind=kind)[0], influence(b, y, kind=kind)[0]
    return None if of_a is None or of_b is None else of_b - of_a


def _standardised(x: FloatArray) -> FloatArray:
    return np.asarray((x - x.mean()) / x.std())
