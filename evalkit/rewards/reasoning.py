"""Where reasoning ends and the answer begins."""

from __future__ import annotations

from dataclasses import dataclass

from evalkit.errors import BadInput


@dataclass(frozen=True, slots=True)
class Split:
    """A completion in two parts."""

    reasoning: str | None
    """Text between the markers; `None` where there is no marker."""
    answer: str
    """Text after the last end marker, white space kept; empty where the reasoning never ended."""
    unterminated: bool
    """A reasoning block was opened and not closed."""


def split_reasoning(text: str, start: str | None, end: str | None) -> Split:
    """Split a completion at its reasoning markers.

    The answer is what follows the last end marker. An end without a start is a block that the template opened:
    everything before it is reasoning. A start after the last end, or without any end, is unterminated. Without markers
    the whole text is the answer. Text before the first start belongs to neither part.

    Raises:
        BadInput: an empty marker.
    """
    if start == "" or end == "":
        raise BadInput("reasoning marker: empty text marks nothing; give a text or leave it out")
    ends_at = text.rfind(end) if end is not None else -1
    tail = text[ends_at + len(end) :] if end is not None and ends_at >= 0 else text
    if start is not None and start in tail:
        return Split(text[text.find(start) + len(start) :], "", True)
    if ends_at < 0:
        return Split(None, text, False)
    reasoning = text[:ends_at]
    if start is not None and start in reasoning:
        reasoning = reasoning[reasoning.find(start) + len(start) :]
    return Split(reasoning, tail, False)
