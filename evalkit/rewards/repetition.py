"""`repetition`: how little the completion repeats itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evalkit.rewards.base import Response, Score, ok


@dataclass(frozen=True, slots=True)
class Repetition:
    """1 − share of the word n-grams that have occurred before in the same completion.

    Words are separated by white space. A completion of fewer than n words has no n-gram and repeats nothing: 1.
    """

    n: int = 4

    declared_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if not 1 <= self.n <= 100:
            raise ValueError(f"n: {self.n} is not between 1 and 100")

    def score(self, response: Response) -> Score:
        words = response.completion.split()
        total = len(words) - self.n + 1
        if total < 1:
            return ok(1.0)
        different = len(set(zip(*(words[shift:] for shift in range(self.n)), strict=False)))
        return ok(different / total)
