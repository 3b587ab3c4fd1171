"""maj@k: is the most frequent answer among k completions the right one?

Exact, not sampled. Three ideas make it quick:

1. A draw of k without replacement from n is n independent coins of chance p = k/n, given that k came up heads. So the
   number of votes of each answer is binomial, answers are independent, and the condition is one coefficient of a
   product of polynomials. With p = k/n every number stays near 1, so large n neither overflows nor vanishes.
2. Fix v, the votes of the right answer. Every other answer has fewer than v votes, or exactly v and is tied.
3. With t tied rivals the right answer is chosen with chance 1/(t+1) = ∫₀¹ s^t ds. So each tied rival contributes a
   factor s, and the integral over s is a Gauss–Legendre sum, exact for a polynomial of this degree.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlog1py, xlogy

from evalkit.stats.arrays import FloatArray, IntArray, check_k, whole_numbers


def maj_at_k(answer_counts: Sequence[int], correct: int | None, k: int, *, n_abstained: int = 0) -> float:
    """Chance that the plurality answer among k completions of one item, drawn without replacement, is correct.

    Ties are broken uniformly. A completion without an answer takes a place among the k but has no vote; a draw without
    any vote is not correct.

    Args:
        answer_counts: how many completions gave each distinct answer, in any order.
        correct: index in `answer_counts` of the right answer; `None` when no completion gave it.
        k: completions drawn, k ≥ 1.
        n_abstained: completions without an answer (unparsed, truncated, refused).

    Returns:
        In [0, 1]; NaN where there are fewer than k completions, abstentions included.

    Raises:
        ValueError: k < 1, a negative or broken count, or `correct` not an index of `answer_counts`.
    """
    check_k(k)
    counts = whole_numbers(answer_counts, "answer_counts")
    abstained = int(whole_numbers([n_abstained], "n_abstained")[0])
    if correct is not None and not 0 <= correct < counts.size:
        raise ValueError(f"correct: {correct} is not an index of the {counts.size} answer counts")
    if counts.sum() + abstained < k:
        return math.nan
    if correct is None or counts[correct] == 0:
        return 0.0
    rivals = np.delete(counts, correct)
    return _plurality(int(counts[correct]), rivals[rivals > 0], abstained, k)


def _plurality(right: int, rivals: IntArray, abstained: int, k: int) -> float:
    n = right + int(rivals.sum()) + abstained
    p = k / n
    votes, tie, weight = _grid(min(right, k), rivals, k)
    drawn = np.zeros((votes.size, k + 1))
    start = _binomial(abstained, p, k)
    drawn[:, : start.size] = start
    for rival in rivals.tolist():
        drawn = _add_rival(drawn, _binomial(rival, p, k), votes, tie)
    rest = drawn[np.arange(votes.size), k - votes]
    won = float(np.sum(weight * _binomial(right, p, k)[votes] * rest))
    return min(won / float(_binomial(n, p, k)[k]), 1.0)


def _grid(most: int, rivals: IntArray, k: int) -> tuple[IntArray, FloatArray, FloatArray]:
    """Votes v of the right answer, tie variable s and weight of s, over all pairs (v, s): each of shape (points,)."""
    columns = []
    for v in range(1, most + 1):
        most_tied = min(int(np.count_nonzero(rivals >= v)), k // v - 1)
        nodes, weights = _unit_interval_rule(most_tied // 2 + 1)
        columns.append((np.full(nodes.size, v), nodes, weights))
    votes, tie, weight = (np.concatenate(column) for column in zip(*columns, strict=True))
    return votes, tie, weight


def _add_rival(drawn: FloatArray, chance: FloatArray, votes: IntArray, tie: FloatArray) -> FloatArray:
    """Multiply the polynomials `drawn`, shape (points, k+1), by that of one more rival, cut off at degree k."""
    result = np.zeros_like(drawn)
    for j in range(min(chance.size, int(votes.max()) + 1)):
        factor = np.where(j < votes, chance[j], np.where(j == votes, tie * chance[j], 0.0))
        result[:, j:] += factor[:, None] * drawn[:, : drawn.shape[1] - j]
    return result


def _binomial(trials: int, p: float, up_to: int) -> FloatArray:
    """Binomial probabilities of 0, 1, …, min(trials, up_to) heads."""
    heads = np.arange(min(trials, up_to) + 1)
    ways = gammaln(trials + 1) - gammaln(heads + 1) - gammaln(trials - heads + 1)
    chance: FloatArray = np.exp(ways + xlogy(heads, p) + xlog1py(trials - heads, -p))
    return chance


@functools.cache
def _unit_interval_rule(points: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Gauss–Legendre nodes and weights on [0, 1], exact up to degree 2·points − 1."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    return (nodes + 1) / 2, weights / 2
