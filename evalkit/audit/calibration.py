"""Do the reward's values mean what they look like: margins as log odds, values as probabilities, a curve to the labels.

1. Pairs of one prompt that humans rate apart: σ(margin) against which of the two they prefer, at level group or within.
   Every pair is given with the preferred answer first, so that no number depends on the order of rows; there is then no
   intercept.
2. Labels of 0 and 1 and a reward from 0 to 1: the reward as the probability of label 1.
3. Any other numbers: a rising curve from reward to label, every cluster by curves of the other folds.
4. A reward need not be calibrated to rank well. Where the spec does not say what it means, a finding only informs.
"""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import numpy as np

from evalkit.audit.agreement import Line, generator, groups_of, numbered, whole_groups
from evalkit.audit.evidence import Evidence
from evalkit.audit.findings import Finding, Severity
from evalkit.audit.spec import AuditSpec
from evalkit.stats import (
    Estimate,
    beyond_labelled,
    cluster_mean,
    cross_fitted_isotonic,
    cross_fitted_log_loss,
    fit_temperature,
    monotone_violation,
    pairs_within,
    preference_calibration,
    probability_calibration,
)
from evalkit.stats.arrays import FloatArray
from evalkit.stats.calibration import Reliability
from evalkit.stats.correlation import FEW_CLUSTERS

BINS = 10
FOLDS = 5
MOST_PAIRS = 10_000_000
LEAST_COVERAGE = 0.95
LEAST_CHANCE = 0.01
"""Few labels leave some rewards outside their range by chance: n labels leave a share of 2 / (n + 1) on average."""


def calibration(evidence: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    """How far the reward's values are what they look like, on scored samples."""
    scored = evidence.only(evidence.scored)
    if spec.categorical or scored.reward.size == 0:
        return [], []
    binary = set(scored.human) <= {0.0, 1.0}
    if binary and set(scored.reward) <= {0.0, 1.0}:
        return [], []
    if binary and scored.reward.min() >= 0 and scored.reward.max() <= 1:
        return _of_probabilities(scored, spec)
    of_pairs = _of_pairs(scored, spec) if spec.level in ("group", "within") else ([], [])
    of_values = _of_values(scored, spec)
    return [*of_pairs[0], *of_values[0]], [*of_pairs[1], *of_values[1]]


def own_scale(values: FloatArray, name: str, spec: AuditSpec) -> FloatArray:
    """Values as the files have them: turned back where less is better."""
    scale = spec.scales.get(name)
    return values if scale is None or scale.higher_is_better else -values


def _of_pairs(scored: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    groups = groups_of(scored, spec.group_by)
    sizes = np.unique(groups.astype(str), return_counts=True)[1]
    count = int(np.sum(sizes * (sizes - 1) // 2))
    level = f"pairs within {spec.group_by}"
    if count > MOST_PAIRS:
        why = f"{count} pairs, more than {MOST_PAIRS}; label fewer samples per {spec.group_by}"
        return [Line("log loss", level, "", Estimate(None, None, None, count, sizes.size, "log loss", why))], []
    pairs = pairs_within(scored.reward, scored.human, groups)
    apart = pairs.human != 0
    if not apart.any():
        return [], []
    margins = np.sign(pairs.human[apart]) * pairs.reward[apart]
    # Pairs of one prompt share samples, so a prompt is whole even where every sample was said to be its own.
    clusters, outcomes = whole_groups(scored, groups)[pairs.first[apart]], np.ones(margins.size)
    confidence = spec.confidence
    found = preference_calibration(margins, outcomes, clusters, bins=BINS, level=confidence)
    temperature = fit_temperature(margins, outcomes, clusters, level=confidence)
    rng = generator(spec, "temperature")
    refitted = cross_fitted_log_loss(margins, outcomes, clusters, folds=FOLDS, rng=rng, level=confidence)
    rules = f"left out as ties of humans: {count - margins.size}"
    lines = [
        Line("Brier score", level, f"{rules}; .25 is knowing nothing", found.brier),
        Line("log loss", level, f"{rules}; {math.log(2):.3f} is knowing nothing", found.log_loss),
        Line("log loss at T*", level, f"T* of the other clusters' folds; {rules}", refitted),
        Line("temperature T*", level, "margins / T* are calibrated; above 1 overconfident", temperature),
        Line("slope on margin", level, "1 calibrated, below 1 overconfident", found.slope),
        _error_line(found.reliability, margins.size, found.brier.n_clusters, level),
    ]
    better = "" if refitted.value is None else f", {refitted.value:.3f} after division by T* = {temperature.value:.3g}"
    said = f"log loss is {found.log_loss.value:.3f} ({math.log(2):.3f} is knowing nothing){better}"
    return lines, _confidence(found.slope, said, "divide margins by T*", spec, "log_odds")


def _of_probabilities(scored: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    p, y = np.asarray(scored.reward, dtype=np.float64), np.asarray(scored.human, dtype=np.float64)
    found = probability_calibration(p, y, numbered(scored.clusters), bins=BINS, level=spec.confidence)
    level, share = "probability of label 1", float(y.mean())
    lines = [
        Line("Brier score", level, f"{share * (1 - share):.3f} is knowing the share of 1 only", found.brier),
        Line("log loss", level, f"{_entropy(share):.3f} is knowing the share of 1 only", found.log_loss),
        Line("mean reward − mean label", level, "0 calibrated", found.bias),
        Line("slope on log odds", level, "1 calibrated, below 1 overconfident", found.slope),
        Line("intercept", level, "0 calibrated", found.intercept),
        _error_line(found.reliability, p.size, found.brier.n_clusters, level),
    ]
    findings = []
    if found.certain_wrong.value is not None:
        lines.append(Line("wrong where reward is 0 or 1", level, "0 calibrated", found.certain_wrong))
    if found.slope.value is not None:
        said = f"Brier score {found.brier.value:.3f}"
        findings += _confidence(found.slope, said, "calibrate it on other labels", spec, "probability")
    elif _known(found.certain_wrong) and (found.certain_wrong.low or 0) > 0:
        statement = (
            f"{found.certain_wrong.n} rewards are exactly 0 or 1, and {100 * (found.certain_wrong.value or 0):.1f} % "
            "of them are wrong"
        )
        mend = "take them as less than certain, or calibrate the reward on other labels"
        severity = _severity(spec, "probability")
        findings.append(Finding("CALIB.OVERCONFIDENT", severity, statement, mend, found.certain_wrong))
    if _known(found.bias) and found.bias.low is not None and not found.bias.low <= 0 <= (found.bias.high or 0):
        statement = f"mean reward is {p.mean():.3f}, mean label {share:.3f}: the reward promises too " + (
            "much" if (found.bias.value or 0) > 0 else "little"
        )
        mend = "do not read mean rewards as shares of good answers; see the human scale, or calibrate"
        findings.append(Finding("CALIB.BIASED", _severity(spec, "probability"), statement, mend, found.bias))
    return lines, findings


def _of_values(scored: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    x, y = np.asarray(scored.reward, dtype=np.float64), np.asarray(scored.human, dtype=np.float64)
    clusters = numbered(scored.clusters)
    if np.unique(clusters).size < 2:
        return [], []
    beyond = scored.unlabelled.reward if scored.unlabelled is not None else np.empty(0)
    fitted = cross_fitted_isotonic(x, y, clusters, beyond, folds=FOLDS, rng=generator(spec, "isotonic"))
    raw = own_scale(x, spec.reward, spec) - own_scale(y, spec.label, spec)
    name, level = "mean squared error", f"{spec.label} from {spec.reward}"
    places = np.quantile(x, np.linspace(0, 1, 11))
    curve = [
        {"reward": float(a), "label": float(b)}
        for a, b in zip(
            own_scale(places, spec.reward, spec), own_scale(fitted.curve.at(places), spec.label, spec), strict=True
        )
    ]
    lines = [
        Line(name, level, "reward as it is, as if on the label's scale", _squares(raw, clusters, spec)),
        Line(name, level, f"rising curve, {FOLDS} folds of clusters", _squares(fitted.labelled - y, clusters, spec),
             details={"curve": curve}),
        Line(name, level, "knowing only the mean label", _squares(y.mean() - y, clusters, spec)),
    ]  # fmt: skip
    exact = "share of what labels differ by between 10 bins of reward"
    n, g = x.size, int(np.unique(clusters).size)
    violation = Estimate(monotone_violation(x, y, bins=BINS), None, None, n, g, exact, "no interval; noise adds to it")
    lines.append(Line("against a rising curve", level, "0 rising, 1 falling", violation))
    if fitted.coverage is None:
        return lines, []
    inside = Estimate(fitted.coverage, None, None, beyond.size, g, "share of unlabelled rewards", "no interval")
    lines.append(Line("within the labelled range", level, "beyond it the curve is a guess", inside))
    if fitted.coverage >= LEAST_COVERAGE or beyond_labelled(x, beyond)[1] >= LEAST_CHANCE:
        return lines, []
    statement = (
        f"{100 * (1 - fitted.coverage):.1f} % of the {beyond.size} rewards without a label lie outside the range of "
        "those with one: nobody has said what such rewards are worth"
    )
    finding = Finding("CALIB.OUT_OF_RANGE", "warning", statement, "label samples with such rewards too", inside)
    return lines, [finding]


def _confidence(slope: Estimate, said: str, mend: str, spec: AuditSpec, meaning: str) -> list[Finding]:
    """A finding where the whole interval of the slope lies on one side of 1."""
    if not _known(slope) or slope.low is None or slope.high is None or slope.low <= 1 <= slope.high:
        return []
    over = slope.high < 1
    code, promise = ("CALIB.OVERCONFIDENT", "more") if over else ("CALIB.UNDERCONFIDENT", "less")
    what = "margins taken as log odds" if meaning == "log_odds" else "rewards taken as probabilities"
    statement = f"{what} promise {promise} than humans keep: slope {slope.value:.3f} where 1 is calibrated; {said}"
    mend = f"{mend} before they are used as probabilities; ranking is not concerned"
    return [Finding(code, _severity(spec, meaning), statement, mend, slope)]


def _severity(spec: AuditSpec, meaning: str) -> Severity:
    return "warning" if spec.reward_means == meaning else "info"


def _known(estimate: Estimate) -> bool:
    """Whether an interval may carry a finding: below 12 clusters it is too narrow."""
    return estimate.low is not None and estimate.n_clusters >= FEW_CLUSTERS


def _error_line(found: Reliability, n: int, clusters: int, level: str) -> Line:
    method = f"Σ share of bin · |accuracy − confidence| less its noise, {len(found.bins)} bins of equal mass"
    estimate = Estimate(found.debiased_error, None, None, n, clusters, method, "no interval; see what noise gives")
    if found.debiased_error is None:
        estimate = replace(estimate, why="a bin has fewer than two clusters")
    as_if = found.error_if_calibrated
    rules = "" if as_if is None else f"{found.error:.3f} with its noise, which alone gives {as_if:.3f}"
    details = {"error": found.error, "if_calibrated": as_if, "bins": [asdict(b) for b in found.bins]}
    return Line("calibration error", level, rules, estimate, details=details)


def _squares(errors: FloatArray, clusters: np.ndarray, spec: AuditSpec) -> Estimate:
    return cluster_mean(errors**2, clusters, level=spec.confidence)


def _entropy(share: float) -> float:
    return -sum(p * math.log(p) for p in (share, 1 - share) if p > 0)
