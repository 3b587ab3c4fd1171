"""`exact`: the completion is the target, character by character."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from evalkit.rewards.base import Response, Score, Status, no_verdict, ok


@dataclass(frozen=True, slots=True)
class Exact:
    """1 if the completion equals the target after the named normalisations of both, else 0.

    No Unicode normalisation: `é` and `e` + combining accent differ. An empty completion equals an empty target only.
    """

    strip: bool = True
    """Drop white space at both ends."""
    casefold: bool = False
    """Compare without case, by Unicode's full case folding (`ß` = `ss`)."""
    collapse_whitespace: bool = False
    """Every run of white space counts as one space; ends are then stripped too."""

    declared_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def score(self, response: Response) -> Score:
        if response.target is None:
            return no_verdict(Status.FAILED, "gold: the item has no target")
        answer = self._normal(response.completion)
        return ok(float(answer == self._normal(response.target)), answer)

    def _normal(self, text: str) -> str:
        if self.collapse_whitespace:
            text = " ".join(text.split())
        elif self.strip:
            text = text.strip()
        return text.casefold() if self.casefold else text
