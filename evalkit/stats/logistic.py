"""Logistic regression with cluster-robust errors, for choices between two answers.

1. Outcomes are in [0, 1]: 1 the first answer was chosen, 0 the second, ½ a tie, as a quasi-likelihood.
2. No penalty. Where the likelihood has no maximum the fit says so; it does not return the last iteration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, stdtrit

from evalkit.stats.arrays import FloatArray
from evalkit.stats.clusters import Clusters
from evalkit.stats.estimate import Estimate, undefined

MOST_STEPS = 100
CONVERGED = 1e-12
# A standard error this many times the coefficient's own unit comes of a likelihood that is flat towards infinity.
FLAT = 1e3


@dataclass(frozen=True, slots=True)
class LogisticFit:
    """Maximum likelihood of P(y = 1) = σ(design · coefficients)."""

    coefficients: FloatArray
    """Shape (k,); empty where there is no maximum, and `why` then says so."""
    covariance: FloatArray
    """Shape (k, k), cluster-robust (CR1); NaN with fewer than two clusters."""
    n: int
    n_clusters: int
    why: str = ""

    def coefficient(self, index: int, method: str, level: float = 0.95) -> Estimate:
        """One coefficient with its t interval on clusters − 1 degrees of freedom."""
        n, g = self.n, self.n_clusters
        if self.coefficients.size == 0:
            return undefined(n, g, method, self.why)
        value = float(self.coefficients[index])
        if g < 2:
            return Estimate(value, None, None, n, g, method, "one cluster; an interval needs two or more")
        error = math.sqrt(max(float(self.covariance[index, index]), 0.0))
        if error == 0:
            return Estimate(value, None, None, n, g, method, "the clusters show no variation")
        margin = float(stdtrit(g - 1, (1 + level) / 2)) * error
        method = f"{method}; CR1 over clusters, t({g - 1}), {100 * level:g} %"
        return Estimate(value, value - margin, value + margin, n, g, method)


def logistic_fit(design: FloatArray, outcomes: FloatArray, groups: Clusters) -> LogisticFit:
    """Fit by Newton's method with step halving.

    CR1 = G/(G − 1) · (n − 1)/(n − k) · B⁻¹ (Σ_g s_g s_gᵀ) B⁻¹, B the information and s_g the score of cluster g, as
    statsmodels gives with `cov_type="cluster"`. Source: Cameron & Miller 2015, "A Practitioner's Guide to
    Cluster-Robust Inference".

    Args:
        design: shape (n, k), with a column of ones if an intercept is wanted.
        outcomes: shape (n,), in [0, 1].
        groups: the cluster of each row.
    """
    n, k = design.shape
    nothing = np.empty(0)

    def without(why: str) -> LogisticFit:
        return LogisticFit(nothing, np.empty((0, 0)), n, groups.count, why)

    if n <= k:
        return without(f"{n} observations for {k} coefficients")
    scale = np.sqrt(np.mean(design**2, axis=0))
    if np.any(scale == 0):
        return without("a covariate is 0 everywhere")
    x = design / scale
    if np.linalg.matrix_rank(x) < k:
        return without("a covariate is determined by the others")
    beta = _maximise(x, outcomes)
    if beta is None:
        return without("the fit did not converge")
    p = expit(x @ beta)
    information = x.T @ (x * (p * (1 - p))[:, None])
    if np.linalg.cond(information) > 1 / np.finfo(float).eps:
        return without("the outcomes can be separated perfectly; the likelihood has no maximum")
    inverse = np.linalg.inv(information)
    if np.sqrt(np.diag(inverse).max()) > FLAT:
        return without("the outcomes can be separated perfectly; the likelihood has no maximum")
    scores = x * (outcomes - p)[:, None]
    sums = np.stack([groups.sums(scores[:, j]) for j in range(k)], axis=1)
    g = groups.count
    factor = g / (g - 1) * (n - 1) / (n - k) if g > 1 else math.nan
    covariance = factor * inverse @ (sums.T @ sums) @ inverse / np.outer(scale, scale)
    return LogisticFit(beta / scale, covariance, n, g)


def _maximise(x: FloatArray, y: FloatArray) -> FloatArray | None:
    beta = np.zeros(x.shape[1])
    likelihood = _log_likelihood(x, y, beta)
    for _ in range(MOST_STEPS):
        p = expit(x @ beta)
        score = x.T @ (y - p)
        if np.abs(score).max() <= CONVERGED * max(x.shape[0], 1):
            return beta
        information = x.T @ (x * (p * (1 - p))[:, None])
        step = np.linalg.lstsq(information, score, rcond=None)[0]
        while True:
            moved = _log_likelihood(x, y, beta + step)
            if moved >= likelihood or np.abs(step).max() < CONVERGED:
                break
            step = step / 2
        beta, likelihood = beta + step, moved
    return None


def _log_likelihood(x: FloatArray, y: FloatArray, beta: FloatArray) -> float:
    eta = x @ beta
    return float(np.sum(y * eta - np.logaddexp(0.0, eta)))
