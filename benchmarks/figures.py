"""From costs to figures: what a sample adds, how clients compare, and which targets are met. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.measure import Cost

Costs = Mapping[tuple[str, int], Sequence[Cost]]
"""(client, samples) → its costs, one a round, in the order of the rounds."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A median with what it rests on."""

    middle: float
    low: float
    high: float
    n: int


def figure(values: Sequence[float]) -> Figure:
    """Median, smallest, largest and count."""
    return Figure(median(values), min(values), max(values), len(values))


def marginals(costs: Costs, client: str, sizes: tuple[int, int]) -> list[float]:
    """CPU seconds that one more sample costs, by round: start-up and everything else that is paid once cancels out."""
    small, large = sizes
    pairs = zip(costs[client, small], costs[client, large], strict=True)
    return [(more.cpu - less.cpu) / (large - small) for less, more in pairs]


def ratios(top: Sequence[float], bottom: Sequence[float]) -> list[float]:
    """top ÷ bottom of the rounds that both have: what the machine did in a round, it did to both."""
    return [a / b for a, b in zip(top, bottom, strict=False)]


@dataclass(frozen=True, slots=True)
class Target:
    """One promise and what came of it."""

    promise: str
    found: str
    met: bool
