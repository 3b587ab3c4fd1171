"""Noise between repeats as text."""

from __future__ import annotations

from evalkit.report.plain import interval, number
from evalkit.runs import Stability

ENGINE = "temperature 0: both repeats should be the same, any flip is noise of the engine"
SAMPLING = "temperature above 0: repeats draw with other seeds, flips are noise of sampling (and of the engine)"


def stability_lines(found: Stability) -> list[str]:
    """The A/A block: what flipped, how much the mean moved, and what that rests on."""
    low, high = found.repeats
    lines = [f"  A/A: repeats {low} and {high} of one model ({found.first}, {found.second})"]
    if found.retest is None:
        return [*lines, f"    cannot tell: {found.why}"]
    again, flips = found.retest, found.retest.flip_rate
    rests = f"{flips.n} pairs of samples, {again.items} items, {flips.n_clusters} clusters"
    lines += [
        f"    {ENGINE if found.greedy else SAMPLING}",
        f"    flip rate {interval(flips)}: {rests}",
        f"    success, second minus first: {interval(again.difference)}",
    ]
    if again.run_sd is None:
        lines.append(f"    deviation of one run's mean: cannot tell: {again.why}")
    else:
        lines.append(f"    deviation of one run's mean: {number(again.run_sd, 4)} = {again.method}")
    if found.trials > 1 and again.item_sd is not None:
        lines.append(
            f"    items' means over {found.trials} trials differ by {number(again.item_sd)} (root mean square)"
        )
    lines.append(f"    identical texts: {found.same_texts} of {found.texts}")
    if flips.why:
        lines.append(f"    flip rate: {flips.why}")
    if found.dropped:
        lines.append(f"    {found.dropped} samples without a verdict in one of the repeats are left out")
    return lines
