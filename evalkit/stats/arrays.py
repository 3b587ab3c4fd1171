"""What every statistic checks first: one-dimensional, finite, whole where counts are meant.

1. A missing value is never dropped here. The caller drops it and reports how many; a NaN that arrives is an error.
2. All checks raise ValueError with the argument's name: at this level a wrong input is a bug of the caller.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def finite_vector(values: ArrayLike, name: str) -> FloatArray:
    """`values` as float64, shape (n,), n ≥ 0.

    Raises:
        ValueError: not one-dimensional, not numbers, or a NaN or an infinity among them.
    """
    array = _vector(values, name)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name}: expected numbers, found values of type {array.dtype}")
    result = array.astype(np.float64)
    unusable = int(np.count_nonzero(~np.isfinite(result)))
    if unusable:
        raise ValueError(f"{name}: {unusable} of {result.size} values are NaN or infinite; drop and count them first")
    return result


def within_one(values: FloatArray) -> FloatArray:
    """`values` divided by the power of two that brings them into [−1, 1]: exact, so that squares neither overflow nor
    vanish where a statistic does not depend on the unit."""
    return np.asarray(np.ldexp(values, -exponent_of(values)))


def exponent_of(values: FloatArray) -> int:
    """The least e for which all of `values` lie within ±2^e; 0 for zeros."""
    return int(np.frexp(np.abs(values).max(initial=0.0))[1])


def whole_numbers(values: ArrayLike, name: str) -> IntArray:
    """`values` as int64 counts ≥ 0, shape (n,). Floats pass when they are whole.

    Raises:
        ValueError: not one-dimensional, negative, or not whole.
    """
    numbers = finite_vector(values, name)
    if np.any(numbers != np.floor(numbers)):
        raise ValueError(f"{name}: expected whole numbers")
    if np.any(numbers < 0):
        raise ValueError(f"{name}: a count is negative")
    return numbers.astype(np.int64)


def successes_of_trials(successes: ArrayLike, trials: ArrayLike) -> tuple[IntArray, IntArray]:
    """Both as counts of shape (items,).

    Raises:
        ValueError: lengths differ, a count is negative or not whole, or an item has more successes than trials.
    """
    c, n = whole_numbers(successes, "successes"), whole_numbers(trials, "trials")
    if c.size != n.size:
        raise ValueError(f"successes and trials: {c.size} and {n.size} items")
    if np.any(c > n):
        raise ValueError(f"successes: item {int(np.argmax(c > n))} has more successes than trials")
    return c, n


def check_k(k: int) -> None:
    """Raises ValueError unless k, the number of completions drawn, is at least 1."""
    if k < 1:
        raise ValueError(f"k: {k} completions cannot be drawn; k ≥ 1")


def check_fraction(value: float, name: str) -> None:
    """Raises ValueError unless 0 < value < 1."""
    if not 0 < value < 1:
        raise ValueError(f"{name}: {value} is not between 0 and 1, ends excluded")


def _vector(values: ArrayLike, name: str) -> NDArray[np.generic]:
    array: NDArray[np.generic] = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name}: expected one dimension, found shape {array.shape}")
    return array
