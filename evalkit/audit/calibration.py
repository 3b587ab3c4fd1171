"""What a reward is worth in human terms: are its margins log odds, what label does it stand for, what would people say
of each system.

1. A reward that only ranks needs no calibration, so nothing here warns.
2. Whatever is fitted is judged on clusters that had no part in the fit.
3. Human-scale means lean on the unlabelled samples only as far as the labelled ones can vouch for them; where they
   cannot, the correction is refused with the reason, and the mean of the labels alone stays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evalkit.audit.agreement import Line, generator, groups_of, vocabulary
from evalkit.audit.evidence import Evidence
from evalkit.audit.findings import Finding
from evalkit.audit.spec import AuditSpec
from evalkit.audit.unlabelled import ALL
from evalkit.stats import (
    Estimate,
    beyond_labelled,
    cluster_mean,
    cross_fitted_isotonic,
    cross_fitted_log_loss,
    fit_temperature,
    monotone_violation,
    pairs_within,
    prediction_powered_mean,
    preference_calibration,
    rogan_gladen,
    undefined,
)
from evalkit.stats.arrays import FloatArray
from evalkit.stats.clusters import clusters_of, joined

FOLDS = 5
BINS = 10
PICTURE = 11
"""Points of the curve that are kept."""
MOST_BEYOND = 0.05
"""Share of unlabelled rewards beyond the labelled ones from which on a correction is refused."""
LEAST_CHANCE = 0.01
"""… unless labelling at random would leave so many beyond more often than this."""
COIN = math.log(2)


def calibration(evidence: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    """Calibration of margins and of values, and human-scale means by system. Takes the scored samples."""
    if spec.categorical:
        return _verdict_rates(evidence, spec), []
    lines, findings = _of_pairs(evidence, spec)
    return [*lines, *_of_values(evidence, spec), *_means(evidence, spec)], findings


def _of_pairs(evidence: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    """Margins between two answers to one prompt as log odds of the one that people prefer."""
    if spec.group_by not in evidence.columns:
        return [], []
    groups = groups_of(evidence, spec.group_by)
    if len(set(groups)) == groups.size:
        return [], []
    pairs = pairs_within(evidence.reward, evidence.human, groups)
    decided = pairs.human != 0
    if not decided.any():
        return [], []
    whole = joined(clusters_of(_codes(evidence.clusters), groups.size), clusters_of(_codes(groups), groups.size)).codes
    clusters = _codes(whole[pairs.first[decided]])
    # The preferred answer first: which of two answers a table lists first says nothing.
    margins = pairs.reward[decided] * np.sign(pairs.human[decided])
    preferred = np.ones_like(margins)
    level = spec.confidence
    temperature = fit_temperature(margins, preferred, clusters, level=level)
    found = preference_calibration(margins, preferred, clusters, bins=BINS, level=level)
    fitted = cross_fitted_log_loss(
        margins, preferred, clusters, folds=FOLDS, level=level, rng=generator(spec, "temperature")
    )
    table = found.reliability
    rules = f"P = σ(margin), T = 1; {int(np.count_nonzero(~decided))} pairs that people tie left out"
    where = f"pairs within {spec.group_by}"
    expected = "" if table.error_if_calibrated is None else f"; {table.error_if_calibrated:.3f} is noise's alone"
    error = Estimate(
        table.debiased_error, None, None, margins.size, found.brier.n_clusters,
        f"Σ w |accuracy − confidence| over {len(table.bins)} bins of equal mass, less its excess", "has no interval",
    ) if table.debiased_error is not None else undefined(
        margins.size, found.brier.n_clusters, "calibration error, debiased", "a bin has fewer than two clusters"
    )  # fmt: skip
    details = {"bins": table.bins, "error": table.error, "error_if_calibrated": table.error_if_calibrated}
    lines = [
        Line("temperature T*", where, rules.replace(", T = 1", "/T"), temperature),
        Line("log odds per unit of margin", where, f"{rules}; 1 if calibrated", found.slope),
        Line("log loss", where, f"{rules}; a coin has {COIN:.3f}", found.log_loss),
        Line("log loss at T*", where, f"T* of the other clusters, {FOLDS} folds", fitted),
        Line("Brier score", where, f"{rules}; a coin has 0.250", found.brier),
        Line("calibration error, debiased", where, f"{rules}{expected}", error, details=details),
    ]
    return lines, _overconfident(temperature, found.log_loss, fitted, spec)


def _overconfident(temperature: Estimate, loss: Estimate, fitted: Estimate, spec: AuditSpec) -> list[Finding]:
    """A finding where margins claim more than they hold, by the interval of T*."""
    if temperature.low is None or temperature.low <= 1 or temperature.value is None:
        return []
    losses = "" if loss.value is None else f"; log loss {loss.value:.3f}, of a coin {COIN:.3f}"
    losses += "" if fitted.value is None else f", at T* {fitted.value:.3f}"
    return [
        Finding(
            "CALIB.OVERCONFIDENT",
            "info",
            f"read as log odds, margins of {spec.reward} claim more than they hold: T* = {temperature.value:.3g} "
            f"[{temperature.low:.3g}, {temperature.high:.3g}]{losses}",
            "nothing where only the order counts; where margins are read as probabilities or weighed (margin losses, "
            "best-of-n against KL, mixtures of rewards), divide by a T fitted on other labels",
            temperature,
        )
    ]


def _of_values(evidence: Evidence, spec: AuditSpec) -> list[Line]:
    """How far a label is from what the reward says: as it is, through a rising curve, and from the mean label."""
    clusters = _codes(evidence.clusters)
    if np.unique(clusters).size < 2:
        return []
    reward, human = evidence.reward, evidence.human
    curve = cross_fitted_isotonic(reward, human, clusters, folds=FOLDS, rng=generator(spec, "isotonic"))
    mean = cross_fitted_isotonic(
        np.zeros_like(reward), human, clusters, folds=FOLDS, rng=generator(spec, "isotonic")
    )  # fmt: skip
    at = np.quantile(reward, np.linspace(0, 1, PICTURE))
    sides = _sign(spec, spec.reward), _sign(spec, spec.label)
    details = {
        "curve": [
            {"reward": float(r) * sides[0], "label": float(h) * sides[1]}
            for r, h in zip(at, curve.curve.at(at), strict=True)
        ],
        "monotone_violation": monotone_violation(reward, human, bins=BINS),
    }
    name, unit = "error of the label", f"root mean square, in units of {spec.label}"

    def line(what: str, rules: str, predicted: FloatArray, **further: Any) -> Line:
        squared = cluster_mean((human - predicted) ** 2, clusters, level=spec.confidence, bounds=(0.0, math.inf))
        return Line(name, what, f"{rules}; {unit}", _root(squared), details=further)

    lines = [line("mean label alone", f"mean of the other clusters, {FOLDS} folds", mean.labelled)]
    if spec.reward in spec.scales and spec.scales[spec.reward] == spec.scales.get(spec.label):
        lines.append(line("reward as it is", "the scales are declared the same", reward))
    lines.append(line("rising curve, in sample", "judged on what it was fitted to", curve.curve.at(reward)))
    lines.append(line("rising curve, out of fold", f"isotonic, {FOLDS} folds of clusters", curve.labelled, **details))
    return lines


def _root(squared: Estimate) -> Estimate:
    """Root of a mean square, and of the ends of its interval."""
    value, low, high = (None if end is None else math.sqrt(end) for end in (squared.value, squared.low, squared.high))
    return replace(squared, value=value, low=low, high=high, method=f"root of {squared.method}")


@dataclass(frozen=True, slots=True)
class _System:
    """One system's samples, with a label and without."""

    name: str
    reward: np.ndarray
    human: np.ndarray
    clusters: np.ndarray
    rest: np.ndarray
    """Rewards without a label."""
    rest_clusters: np.ndarray


def _systems(evidence: Evidence, spec: AuditSpec) -> list[_System]:
    """By name; empty where there is one system and nothing is unlabelled, for then there is nothing to add. Samples
    whose system no file names are left out."""
    rest = evidence.unlabelled
    column = evidence.columns.get(spec.system_by, np.full(evidence.human.size, ALL, dtype=object))
    systems = np.array(["" if cell is None else str(cell) for cell in column], dtype=object)
    unlabelled = np.empty(0, dtype=object) if rest is None else rest.systems
    names = sorted({*systems, *unlabelled} - {""})
    if len(names) < 2 and unlabelled.size == 0:
        return []
    found = []
    for name in names:
        mine, others = systems == name, unlabelled == name
        found.append(
            _System(
                name,
                evidence.reward[mine],
                evidence.human[mine],
                evidence.clusters[mine],
                evidence.reward[:0] if rest is None else rest.reward[others],
                evidence.clusters[:0] if rest is None else rest.clusters[others],
            )
        )
    return found


def _level(spec: AuditSpec, name: str) -> str:
    return name if name == ALL else f"{spec.system_by} {name}"


def _means(evidence: Evidence, spec: AuditSpec) -> list[Line]:
    """Mean label of each system: of its labels alone, and with its unlabelled rewards; and its mean reward."""
    lines = []
    of_reward, of_label = _sign(spec, spec.reward), _sign(spec, spec.label)
    for one in _systems(evidence, spec):
        human, reward, rest = one.human * of_label, one.reward * of_reward, one.rest * of_reward
        level = spec.confidence
        all_rewards = cluster_mean(
            np.concatenate([reward, rest]), [*one.clusters, *one.rest_clusters], level=level
        )  # fmt: skip
        where = _level(spec, one.name)
        lines += [
            Line(f"mean {spec.reward}", where, "every scored sample, on the reward's own scale", all_rewards),
            Line(f"mean {spec.label}", where, "labels alone", cluster_mean(human, one.clusters, level=level)),
        ]
        if rest.size:
            lines.append(_powered(replace(one, human=human, reward=reward, rest=rest), where, spec))
    return lines


def _powered(one: _System, where: str, spec: AuditSpec) -> Line:
    """The prediction-powered mean, or why there is none."""
    name, rules = f"mean {spec.label}", f"PPI++, with {one.rest.size} rewards without label, left unlabelled by chance"
    groups = len(set(one.clusters))
    if one.human.size == 0:
        why = "no labels of its own; a correction learnt elsewhere corrects nothing"
        return Line(name, where, rules, undefined(0, 0, "prediction-powered mean", why))
    share, chance = beyond_labelled(one.reward, one.rest)
    details: dict[str, Any] = {"beyond_labelled": share, "chance": chance}
    if share > MOST_BEYOND and chance < LEAST_CHANCE:
        why = f"{100 * share:.0f} % of rewards without label lie beyond those with one; label some of these too"
        return Line(
            name, where, rules, undefined(one.human.size, groups, "prediction-powered mean", why), details=details
        )
    found = prediction_powered_mean(
        one.human, one.reward, one.rest, one.clusters, one.rest_clusters, level=spec.confidence
    )
    details |= {"power": found.power, "variance_ratio": found.variance_ratio}
    return Line(name, where, rules, found.mean, details=details)


def _verdict_rates(evidence: Evidence, spec: AuditSpec) -> list[Line]:
    """Share of the second of two labels in each system: by the judge, by the labels alone, and by Rogan–Gladen. A
    verdict that is not this label counts as the other, read or not."""
    known = vocabulary(evidence, spec)
    if len(known) != 2 or spec.combine_orders == "average":
        return []
    passed = known[-1]
    lines = []
    for one in _systems(evidence, spec):
        human, judged, rest = (
            np.array([said == passed for said in column], dtype=np.float64)
            for column in (one.human, one.reward, one.rest)
        )
        level, bounds = spec.confidence, (0.0, 1.0)
        every = cluster_mean(
            np.concatenate([judged, rest]), [*one.clusters, *one.rest_clusters], level=level, bounds=bounds
        )
        where, name = _level(spec, one.name), f"rate of {passed}"
        lines += [
            Line(f"{name} by {spec.reward}", where, "every verdict there is", every),
            Line(name, where, "labels alone", cluster_mean(human, one.clusters, level=level, bounds=bounds)),
        ]
        if rest.size:
            found = rogan_gladen(human, judged, rest, one.clusters, one.rest_clusters, level=level)
            rules = f"Rogan–Gladen, of {rest.size} verdicts without label, left unlabelled by chance"
            details = {"sensitivity": found.sensitivity, "specificity": found.specificity}
            lines.append(Line(name, where, rules, found.rate, details=details))
    return lines


def _sign(spec: AuditSpec, name: str) -> int:
    """−1 for what was turned since less of it is better."""
    return 1 if name not in spec.scales or spec.scales[name].higher_is_better else -1


def _codes(labels: np.ndarray) -> np.ndarray:
    """Labels as numbers in the order of their text, so that folds do not depend on the order of rows."""
    return np.unique(labels.astype(str), return_inverse=True)[1]
