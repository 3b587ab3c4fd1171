"""What the missing could have been."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """The mean over everything planned, were the missing all at the worst or all at the best value."""

    low: float
    """−∞ where something is missing and the range has no lower end."""
    high: float
    """+∞ where something is missing and the range has no upper end."""


def mean_bounds(total: float, n_scored: int, n_planned: int, low: float, high: float) -> Bounds:
    """Worst and best case of the mean over all planned, with the missing ones at the ends of the range.

    No assumption about why they are missing. Source: Manski 1989, "Anatomy of the Selection Problem".

    Args:
        total: sum of the values that there are.
        n_scored: how many there are.
        n_planned: how many there should be, ≥ 1.
        low: lower end of the range of a value; −∞ for none.
        high: upper end; +∞ for none.

    Returns:
        low = high = the mean when nothing is missing.

    Raises:
        ValueError: n_planned < 1, n_scored outside 0 to n_planned, low > high, or a total that n_scored values within
            the range cannot have (NaN included).
    """
    if n_planned < 1:
        raise ValueError(f"n_planned: {n_planned}; nothing was planned")
    if not 0 <= n_scored <= n_planned:
        raise ValueError(f"n_scored: {n_scored} of {n_planned} planned")
    if not low <= high:
        raise ValueError(f"low and high: {low} is above {high}")
    rounding = 1e-9 * max(1.0, abs(total))
    if not _times(n_scored, low) - rounding <= total <= _times(n_scored, high) + rounding:
        raise ValueError(f"total: {total} cannot be the sum of {n_scored} values from {low} to {high}")
    missing = n_planned - n_scored
    return Bounds((total + _times(missing, low)) / n_planned, (total + _times(missing, high)) / n_planned)


def _times(count: int, end: float) -> float:
    """count · end, where none of an infinite end is nothing."""
    return count * end if count or math.isnan(end) else 0.0
