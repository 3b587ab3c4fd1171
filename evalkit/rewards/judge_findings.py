"""Findings on a judge, from what it said: replies that are no verdict, orders that decide, verdicts all alike.

Shares above `TOO_MANY` stop: one row in ten moves a mean by more than most scorers differ. A judge whose verdicts the
order of the answers decides half of the time says as much as a coin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evalkit.rewards.findings import SHOWN, Finding, ranked
from evalkit.rewards.judge import UNREACHED, JudgeIdentity, PairVerdict, PointScore

TOO_MANY = 0.1
HALF = 0.5
FEWEST = 10
"""Rows below which equal verdicts say nothing."""
UNREAD: Mapping[str, tuple[str, str]] = {
    "JUDGE.UNPARSED": ("got a reply without a verdict line", "read some; use a judge that keeps the form"),
    "JUDGE.AMBIGUOUS": ("got a reply with verdicts that differ", "read some; use a judge that keeps the form"),
    "JUDGE.CUT": ("got a reply that was cut", "raise max_tokens"),
    "JUDGE.OFF_SCALE": ("got a score off the scale", "say the scale in the criteria, or use a judge that keeps it"),
}
"""Why a reply is no verdict: what is said of the row, and the mend."""


def judge_findings(
    results: Sequence[PairVerdict] | Sequence[PointScore], identity: JudgeIdentity
) -> tuple[Finding, ...]:
    """Findings `JUDGE.…`, what stops first. Rows without a verdict are counted, never filled in."""
    found = [*_unread(results)]
    pairs = [one for one in results if isinstance(one, PairVerdict)]
    found += _position(pairs)
    found += _constant(pairs, [one for one in results if isinstance(one, PointScore)])
    if identity.greedy_repeats is False:
        what = "the server answers two equal requests at temperature 0 differently"
        found.append(Finding("warning", "JUDGE.NONDETERMINISTIC", what, "expect verdicts to change when asked again"))
    return ranked(found)


def _unread(results: Sequence[PairVerdict] | Sequence[PointScore]) -> Iterator[Finding]:
    for code, (what, mend) in {**UNREAD, UNREACHED: ("got no reply", "see the server's log; run again")}.items():
        rows = [one.row_id for one in results if code in one.codes]
        if rows:
            stops = code == UNREACHED or len(rows) > TOO_MANY * len(results)
            statement = f"{len(rows)} of {len(results)} rows {what}, and have no verdict"
            yield Finding("no-go" if stops else "warning", code, statement, mend, tuple(rows[:SHOWN]))


def _position(pairs: Sequence[PairVerdict]) -> Iterator[Finding]:
    read = [pair for pair in pairs if pair.ab is not None and pair.ba is not None]
    flipped = [pair for pair in read if pair.flipped]
    if not flipped:
        return
    first = sum((pair.ab, pair.ba) == ("a", "b") for pair in flipped)
    second = sum((pair.ab, pair.ba) == ("b", "a") for pair in flipped)
    statement = (
        f"the order of the answers changes {len(flipped)} of {len(read)} verdicts: {first} go to the first shown, "
        f"{second} to the second, {len(flipped) - first - second} between a tie and an answer"
    )
    stops = len(flipped) >= HALF * len(read)
    mend = "count these pairs as no verdict, as is done here; a judge with fewer of them says more"
    rows = tuple(pair.row_id for pair in flipped[:SHOWN])
    yield Finding("no-go" if stops else "warning", "JUDGE.POSITION", statement, mend, rows)


def _constant(pairs: Sequence[PairVerdict], points: Sequence[PointScore]) -> Iterator[Finding]:
    values: list[str | float] = [pair.verdict for pair in pairs if pair.verdict is not None]
    values += [one.score.value for one in points if one.score.value is not None]
    same = set(values)
    if len(values) >= FEWEST and len(same) == 1 and (points or same == {"tie"}):
        said = next(iter(same))
        what = f"all {len(values)} verdicts are {said if isinstance(said, str) else f'{said:g}'}"
        yield Finding("no-go", "JUDGE.CONSTANT", what, "read some; see whether the judge is given the answers")
