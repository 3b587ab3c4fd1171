"""What a comparison could have shown, and what choosing the best of several adds by luck."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr, stdtrit

from evalkit.stats.arrays import check_fraction


def minimum_detectable_effect(standard_error: float, dof: float, alpha: float = 0.05, power: float = 0.8) -> float:
    """Smallest true difference that a two-sided test finds with the given power: se · (t_{1−α/2} + t_{power}).

    Source: Bloom 1995, "Minimum Detectable Effects", Evaluation Review 19(5); both quantiles of t(dof), the usual
    approximation of the non-central t.

    Args:
        standard_error: of the difference, ≥ 0.
        dof: degrees of freedom, clusters − 1.
        alpha: two-sided level, between 0 and 1.
        power: chance to find it, between 0 and 1; below alpha/2 there is nothing to detect.

    Returns:
        > 0, in the unit of the standard error; NaN where the standard error is 0 or NaN, or dof < 1: no variation seen
        does not mean that every effect would be found.

    Raises:
        ValueError: a negative standard error, alpha outside (0, 1), or power outside (alpha/2, 1).
    """
    check_fraction(alpha, "alpha")
    check_fraction(power, "power")
    if power <= alpha / 2:
        raise ValueError(f"power: {power} is not above alpha / 2 = {alpha / 2}")
    if standard_error < 0:
        raise ValueError(f"standard_error: {standard_error} is negative")
    if not (0 < standard_error < math.inf and dof >= 1):
        return math.nan
    return standard_error * float(stdtrit(dof, 1 - alpha / 2) + stdtrit(dof, power))


def expected_maximum(m: int) -> float:
    """Expected largest of m independent standard normals: ∫ x · m φ(x) Φ(x)^(m−1) dx.

    m = 1 gives 0, m = 2 gives 1/√π. The integrand is analytic and dies out on both sides, so the plain sum over a grid
    is accurate to rounding.

    Raises:
        ValueError: m < 1.
    """
    if m < 1:
        raise ValueError(f"m: the largest of {m} is not defined; m ≥ 1")
    if m == 1:
        return 0.0
    step = 0.01
    x = np.arange(-4000, 4001) * step
    log_density = math.log(m) - x**2 / 2 - math.log(2 * math.pi) / 2 + (m - 1) * log_ndtr(x)
    return float(step * np.sum(x * np.exp(log_density)))


def selection_optimism(standard_error_of_difference: float, m: int) -> float:
    """How much the best of m equally good candidates is expected to look better than it is.

    expected_maximum(m) · se / √2: candidates scored on the same items share the items' luck, and only what they do not
    share, se of a paired difference ÷ √2 each, can be selected on.

    Args:
        standard_error_of_difference: of a paired difference of two candidates, ≥ 0. NaN gives NaN.
        m: candidates chosen among, ≥ 1.

    Raises:
        ValueError: m < 1, or a negative standard error.
    """
    if standard_error_of_difference < 0:
        raise ValueError(f"standard_error_of_difference: {standard_error_of_difference} is negative")
    return expected_maximum(m) * standard_error_of_difference / math.sqrt(2)
