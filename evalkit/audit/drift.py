"""Whether the scorer moved: the same samples scored several times, by repeats that have names.

1. What is compared are scorings of the same texts, `--map repeat=VERSION`: a fixed anchor set. Steps of a policy
   are not compared, for its answers differ, and with them its rewards.
2. Noise of a scorer is no drift: where scorings of a sample can be exchanged, the tests hold their level.
"""

from __future__ import annotations

import numpy as np

from evalkit.audit.agreement import Line, generator
from evalkit.audit.evidence import Evidence
from evalkit.audit.findings import Finding, in_figures, in_percent
from evalkit.audit.spec import AuditSpec
from evalkit.stats import Estimate, adjust, drift


def moved(evidence: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    """Whether scorings of the same samples moved, each against the first; nothing where there are no repeats."""
    if evidence.repeats is None or evidence.repeats.shape[1] < 2:
        return [], []
    first, *later = evidence.repeat_names
    before = evidence.repeats[:, 0]
    found = {}
    for name, after in zip(later, evidence.repeats.T[1:], strict=True):
        both = np.isfinite(before) & np.isfinite(after)
        if both.any():
            found[name] = drift(
                before[both], after[both], evidence.clusters[both],
                rng=generator(spec, f"drift {name}"), draws=spec.draws, level=spec.confidence,
            )  # fmt: skip
    if not found:
        return [], []
    tests = [(one.shift_test.p, one.distributions.p or 1.0) for one in found.values()]
    adjusted = adjust(np.ravel(tests), method=spec.multiplicity).reshape(-1, 2).min(axis=1)
    details = {
        name: {"shift": one.shift, "p": p, "p_adjusted": float(of_family)}
        for (name, one), p, of_family in zip(found.items(), tests, adjusted, strict=True)
    }
    last, newest = list(found.items())[-1]
    level, gap = f"{first} to {last}", newest.distributions
    distance = Estimate(
        gap.statistic, None, None, gap.n, gap.n_clusters or gap.n, gap.method, f"no interval; p {gap.p:.3g}"
    )
    lines = [
        Line("shift of the same samples", level, f"p {newest.shift_test.p:.3g}", newest.shift, details=details),
        Line("samples whose score changed", level, "", newest.changed),
        Line("distance of the distributions", level, f"p {gap.p:.3g}", distance),
    ]
    if adjusted.min() > float(spec.alpha):
        return lines, []
    at = int(np.flatnonzero(adjusted == adjusted.min())[-1])
    name, worst = list(found.items())[at]
    finding = Finding(
        "SCORE.DRIFT",
        "warning",
        f"the same {worst.shift.n} samples, scored at {first} and at {name}: {spec.reward} moves by "
        f"{in_figures(worst.shift)} in the mean, {in_percent(worst.changed)} of them have another score, and the "
        f"distributions are {worst.distributions.statistic:.3f} apart (p {adjusted[at]:.3g}, {spec.multiplicity})",
        "fix the scorer (weights, prompt, dtype) or audit each of its versions apart; rewards across it do not compare",
        worst.shift,
    )
    return lines, [finding]
