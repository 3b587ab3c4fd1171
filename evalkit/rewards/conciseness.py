"""`conciseness`: a length budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evalkit.rewards.base import Response, Score, Status, no_verdict, ok


@dataclass(frozen=True, slots=True)
class Conciseness:
    """1 up to `budget`, falling in a straight line to 0 at `limit`, 0 beyond. An empty completion is 1.

    Tokens are the engine's count of the whole completion, reasoning included; where it gave none the component
    abstains. Characters are Unicode code points, words are separated by white space; both of the judged text.
    """

    budget: int
    limit: int
    unit: str = "tokens"
    """`tokens`, `characters` or `words`."""

    declared_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if self.unit not in ("tokens", "characters", "words"):
            raise ValueError(f"unit: {self.unit!r} is none of tokens, characters, words")
        if not 0 <= self.budget < self.limit:
            raise ValueError(f"budget {self.budget} and limit {self.limit}: need 0 ≤ budget < limit")

    def score(self, response: Response) -> Score:
        length = self._length(response)
        if length is None:
            return no_verdict(Status.ABSTAINED, "the number of completion tokens is unknown")
        share = (self.limit - length) / (self.limit - self.budget)
        return ok(min(1.0, max(0.0, share)), evidence=f"{length} {self.unit}")

    def _length(self, response: Response) -> int | None:
        if self.unit == "tokens":
            return response.n_completion_tokens
        return len(response.completion if self.unit == "characters" else response.completion.split())
