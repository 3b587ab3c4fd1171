"""Findings on a reward model: faults of its rows, scores that move when they must not, scores that are all alike."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from evalkit.rewards.findings import SHOWN, Finding, Level

Value = float | str | None
"""A score as the model's process sends it: None where there was no memory for it, NaN and infinity as text."""
TOLERANCE = 0.01
"""Share of a standard deviation that padding, batching or the ending may move a score before it is a finding: far
below what any comparison of two scorers could see."""
TIED = 0.01
"""Share of distinct rows with a score that another one has exactly; above it, rounding makes ties."""

Plan = tuple[Level, str, str]
FAULTS: Mapping[str, Plan] = {
    "SCORE.DOUBLE_BOS": (
        "no-go",
        "begin with two BOS tokens and are not scored",
        "take one away: the template writes it, so do not write it into the text or the turns",
    ),
    "SCORE.TEMPLATE_TWICE": (
        "no-go",
        "hold the chat template within a turn and are not scored",
        "give the turns as they were, or the rendered text as text",
    ),
    "SCORE.TEMPLATE_FAILS": ("no-go", "are refused by the chat template and not scored", "correct the turns"),
    "SCORE.EMPTY": ("no-go", "have no token and are not scored", "remove the rows or fill them"),
    "SCORE.OVERFLOW": (
        "no-go",
        "are too long and not scored",
        "shorten them, or cut them with overflow truncate_left, which marks each",
    ),
    "SCORE.OUT_OF_MEMORY": ("no-go", "do not fit into the device's memory and are not scored", "give a larger device"),
    "SCORE.NONFINITE": ("no-go", "got NaN or infinity, which is no score", "score in float32 or bfloat16"),
    "SCORE.PAD_AT_END": (
        "warning",
        "end in the padding token, so the library reads the score at the token before it",
        "keep it if the trainer did the same, else set pad_token_id to a token of its own",
    ),
    "SCORE.TRUNCATED": (
        "warning",
        "were cut at the left; each is marked, and its score is not that of the whole text",
        "keep them apart from the others, or shorten them",
    ),
    "SCORE.BOS_MISSING": (
        "warning",
        "lack the BOS that the tokenizer puts: the template writes none",
        "compare with how the trainer made its tokens; mend the template if it had one",
    ),
    "SCORE.EOS_MISSING": (
        "cannot tell",
        "do not end in EOS",
        "compare with how the trainer made its tokens; eos=True appends one",
    ),
    "SCORE.TEMPLATE_MISSING": (
        "warning",
        "are text without the model's chat template",
        "give turns, which are rendered here, or text that holds the template",
    ),
    "SCORE.TEMPLATE_ALTERS": (
        "warning",
        "are changed by the chat template: it drops a part of the completion",
        "render them yourself and give text, if the trainer did not drop it",
    ),
    "SCORE.TEMPLATE_IN_COMPLETION": (
        "warning",
        "have a completion that writes turns of its own",
        "read some: the completion ran on, or means to speak to the scorer",
    ),
}
"""What can be wrong with a row: level, what such rows do, and the mend."""
_READ_BEFORE = "the library reads the score at the token before it"
MOVES: Mapping[str, Plan] = {
    "SCORE.BATCH_VARIANT": (
        "no-go",
        "the same rows score otherwise together than alone",
        "score with batch 1, or in float32",
    ),
    "SCORE.PADDING_VARIANT": (
        "warning",
        "padding at the left moves scores",
        "pad at the right, as is done here, and see that training did",
    ),
    "SCORE.PAD_IS_EOS": (
        "warning",
        f"rows end in the padding token, so {_READ_BEFORE}; at the last token they score otherwise",
        "keep it if the trainer did the same, else set pad_token_id to a token of its own",
    ),
    "SCORE.EOS_ASSUMED": (
        "cannot tell",
        "that text ends in EOS is an assumption; with the other ending rows score otherwise",
        "state eos as in training",
    ),
}
"""What may move a score: level, what is said of it, and the mend."""


class Tally:
    """What was seen over all rows."""

    def __init__(self) -> None:
        self.n = 0
        self._counts: Counter[str] = Counter()
        self._rows: dict[str, list[str]] = defaultdict(list)
        self._score_of: dict[int, float] = {}

    def note(self, code: str, row_id: str) -> None:
        """A row has a fault."""
        self._counts[code] += 1
        if len(self._rows[code]) < SHOWN:
            self._rows[code].append(row_id)

    def scored(self, ids: tuple[int, ...], value: float) -> None:
        """A row with these tokens got this score."""
        self._score_of[hash(ids)] = value

    def findings(self, dtype: str) -> Iterator[Finding]:
        """Of rows, then of their scores."""
        for code, (level, what, mend) in FAULTS.items():
            if n := self._counts[code]:
                yield Finding(level, code, f"{n} of {self.n} rows {what}", mend, tuple(self._rows[code]))
        values = Counter(self._score_of.values())
        n = len(self._score_of)
        tied = sum(count for count in values.values() if count > 1)
        if n > 1 and len(values) == 1:
            what = f"{n} different rows all score {next(iter(values)):.6g}"
            mend = "see whether the padding token, the template and the weights are those of training"
            yield Finding("no-go", "SCORE.CONSTANT", what, mend)
        elif tied > TIED * n:
            what = f"{tied} of {n} different rows share their score with another ({dtype} rounds it)"
            yield Finding("warning", "SCORE.QUANTISED_TIES", what, "score in float32, or count ties as ties")


def moved(
    before: Sequence[Value],
    after: Sequence[Value],
    ids: tuple[str, ...],
    code: str,
) -> Iterator[Finding]:
    """A finding of `MOVES` where scores of the same rows differ by more than `TOLERANCE` standard deviations."""
    level, what, mend = MOVES[code]
    pairs = [(a, b) for a, b in zip(before, after, strict=True) if isinstance(a, float) and isinstance(b, float)]
    if not pairs:
        return
    largest = max(abs(a - b) for a, b in pairs)
    sd = statistics.pstdev(a for a, _ in pairs)
    if largest <= TOLERANCE * sd:
        return
    flips = sum((a - c) * (b - d) < 0 for i, (a, b) in enumerate(pairs) for c, d in pairs[i + 1 :])
    share = f", {largest / sd:.2g} standard deviations" if sd else ""
    of = len(pairs) * (len(pairs) - 1) // 2
    what = f"{what}: by up to {largest:.3g}{share} on {len(pairs)} rows; {flips} of {of} pairs change order"
    yield Finding(level, code, what, mend, ids[:SHOWN])
