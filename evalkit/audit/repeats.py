"""How well a reward repeats itself: the reliability of one scoring and of the mean of all."""

from __future__ import annotations

import numpy as np

from evalkit.audit.agreement import Line
from evalkit.audit.evidence import Evidence
from evalkit.audit.findings import MOST_EVIDENCE, Finding
from evalkit.audit.spec import AuditSpec
from evalkit.stats import cluster_mean, icc
from evalkit.stats.raters import Form

FORMS: tuple[tuple[Form, str], ...] = (("1,1", "one scoring"), ("1,k", "mean of all scorings"))


def repeated_scores(evidence: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    """Reliability of the reward over repeated scorings of the same samples; nothing where there are none.

    ICC form 1, since nothing says that repeat 2 of one sample and of another were drawn together.
    """
    if evidence.repeats is None or evidence.repeats.shape[1] < 2:
        return [], []
    scores = evidence.repeats
    k = scores.shape[1]
    complete = np.isfinite(scores).all(axis=1)
    rules = f"{k} scorings; {int(np.count_nonzero(~complete))} samples without all of them left out"
    lines = [Line(f"ICC({form})", level, rules, icc(scores, form=form, level=spec.confidence)) for form, level in FORMS]
    differ = scores[complete].min(axis=1, initial=np.inf) != scores[complete].max(axis=1, initial=-np.inf)
    share = cluster_mean(
        differ.astype(np.float64), evidence.clusters[complete], level=spec.confidence, bounds=(0.0, 1.0)
    )
    lines.append(Line("samples whose scorings differ", "share", rules, share))
    if not differ.any():
        return lines, []
    rows = np.flatnonzero(complete)[differ][:MOST_EVIDENCE]
    one, mean = lines[0].estimate.value, lines[1].estimate.value
    reliable = "" if one is None or mean is None else f"; one has reliability {one:.3f}, the mean of {k} has {mean:.3f}"
    return lines, [
        Finding(
            "SCORE.NONDETERMINISTIC",
            "info",
            f"scored {k} times, {int(np.count_nonzero(differ))} of {differ.size} samples differ in score{reliable}",
            f"use the mean of {k} scorings wherever the audited figure is to hold, or make the scorer deterministic",
            lines[0].estimate,
            tuple(str(key) for key in evidence.sample_ids[rows]),
        )
    ]
