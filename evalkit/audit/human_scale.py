"""What humans would say of each system: few labels sharpened, and a judge corrected, by scored samples without a label.

1. A figure stands beside what it replaces: the mean of the labels alone, and the mean of the reward as it is.
2. It holds if labels went to samples of the system at random. Where they visibly went by the reward, none is given.
3. Labels of few clusters give no figure: below 20 the interval falls short of its level.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from evalkit.audit.agreement import Line, vocabulary
from evalkit.audit.calibration import own_scale
from evalkit.audit.evidence import Evidence
from evalkit.audit.findings import Finding
from evalkit.audit.spec import AuditSpec
from evalkit.audit.unlabelled import Unlabelled
from evalkit.stats import (
    Estimate,
    adjust,
    chosen_by_value,
    cluster_mean,
    prediction_powered_mean,
    rogan_gladen,
    undefined,
)
from evalkit.stats.arrays import FloatArray

FEWEST_CLUSTERS = 20
"""Labelled, and unlabelled: simulated coverage of PPI++ at nominal 95 % is 92–93 % at 8 to 15, 94 % from 20 on."""


@dataclass(frozen=True, slots=True)
class _System:
    """The samples of one system, on the scales of the files; of verdicts 1 where they say the word that is counted."""

    level: str
    human: FloatArray
    reward: FloatArray
    beyond: FloatArray
    """Rewards of samples without a label."""
    clusters: np.ndarray
    clusters_beyond: np.ndarray
    p: float | None = None
    """That labelled and unlabelled rewards differ so much by chance, adjusted over the systems; None: not tested."""

    @property
    def fewest(self) -> int:
        return min(len(set(self.clusters)), len(set(self.clusters_beyond)))


def human_scale(evidence: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    """Figures by system; none where every scored sample is labelled, or verdicts are not of two kinds."""
    beyond, word = evidence.unlabelled, _counted_word(evidence, spec)
    if beyond is None or (spec.categorical and word is None):
        return [], []
    lost = ", ".join(f"{cause} {count}" for cause, count in beyond.left_out.items())
    if beyond.reward.size == 0:
        if not lost:
            return [], []
        nothing = undefined(0, 0, "human scale", f"no sample without a label can be used: {lost}")
        return [Line(f"mean {spec.label}", "all samples", "", nothing)], []
    systems = _with_p([*_systems(evidence.only(evidence.scored), beyond, spec, word)], spec)
    binary = all(set(values) <= {0.0, 1.0} for s in systems for values in (s.human, s.reward, s.beyond))
    names = _names(spec, word, binary=binary)
    rules = f"; {sum(beyond.left_out.values())} left out: {lost}" if lost else ""
    lines: list[Line] = []
    for system in systems:
        alone = _alone(system, spec, names, bounds=(0.0, 1.0) if binary else None)
        lines += [*_corrected(system, spec, names[0], alone, rules, binary=binary), *alone]
    return lines, _findings(systems, lines, spec)


def _counted_word(evidence: Evidence, spec: AuditSpec) -> str | None:
    """Of two kinds of verdict the one whose share is given: the last label declared, or in the alphabet."""
    words = vocabulary(evidence, spec) if spec.categorical else []
    return words[-1] if len(words) == 2 else None


def _systems(scored: Evidence, beyond: Unlabelled, spec: AuditSpec, word: str | None) -> Iterator[_System]:
    def numbers(values: np.ndarray, name: str) -> FloatArray:
        if word is not None:
            return np.array([value == word for value in values], dtype=np.float64)
        return own_scale(np.asarray(values, dtype=np.float64), name, spec)

    human, reward = numbers(scored.human, spec.label), numbers(scored.reward, spec.reward)
    unlabelled = numbers(beyond.reward, spec.reward)
    if beyond.systems is None:
        yield _System("all samples", human, reward, unlabelled, scored.clusters, beyond.clusters)
        return
    labelled, others = _rows_by(scored.columns[spec.system_by]), _rows_by(beyond.systems)
    for name in sorted({*labelled, *others} - {""}):
        a, b = (np.array(rows.get(name, []), dtype=np.intp) for rows in (labelled, others))
        yield _System(
            f"{spec.system_by} = {name}", human[a], reward[a], unlabelled[b], scored.clusters[a], beyond.clusters[b]
        )


def _rows_by(cells: np.ndarray) -> dict[str, list[int]]:
    """Rows by the text of their cell, empty where there is none."""
    found: dict[str, list[int]] = {}
    for i, cell in enumerate(cells):
        found.setdefault("" if cell is None else str(cell).strip(), []).append(i)
    return found


def _with_p(systems: list[_System], spec: AuditSpec) -> list[_System]:
    tested = {
        i: test.p
        for i, s in enumerate(systems)
        if s.fewest >= FEWEST_CLUSTERS
        and (test := chosen_by_value(s.reward, s.beyond, s.clusters, s.clusters_beyond)).p is not None
    }
    adjusted = dict(zip(tested, adjust(list(tested.values()), method=spec.multiplicity).tolist(), strict=True))
    return [replace(s, p=adjusted.get(i)) for i, s in enumerate(systems)]


def _names(spec: AuditSpec, word: str | None, *, binary: bool) -> tuple[str, str]:
    """What is estimated, and what the reward alone says in its place."""
    if word is not None:
        return f"share of {word}", f"share of {word}, judge alone"
    own = "judge alone" if binary else "as it is"
    return f"mean label {spec.label}", f"mean reward {spec.reward}, {own}"


def _alone(system: _System, spec: AuditSpec, names: tuple[str, str], bounds: tuple[float, float] | None) -> list[Line]:
    """The mean of the labels alone, and that of the reward as it is."""
    scored = np.concatenate([system.reward, system.beyond])
    clusters = np.concatenate([system.clusters, system.clusters_beyond])
    return [
        Line(name, system.level, rules, cluster_mean(values, by, level=spec.confidence, bounds=bounds))
        for name, rules, values, by in (
            (f"{names[0]}, labels only", f"{system.human.size} labels", system.human, system.clusters),
            (names[1], "all scored samples", scored, clusters),
        )
    ]


def _corrected(
    system: _System, spec: AuditSpec, what: str, alone: list[Line], lost: str, *, binary: bool
) -> list[Line]:
    """PPI++, and of 0 and 1 Rogan–Gladen; both without value where the labels do not carry them."""
    y, u = system.human, system.beyond
    data = (y, system.reward, u, system.clusters, system.clusters_beyond)
    refused = _refused(system, spec)
    powered = prediction_powered_mean(*data, level=spec.confidence)
    worth = "" if not powered.variance_ratio or refused else f"worth {y.size / powered.variance_ratio:.0f} labels; "
    labels, reward = (_shown(line.estimate.value) for line in alone)
    rules = f"{y.size} labels alone {labels}, reward alone {reward}; {worth}"
    assumed = f"{u.size} without label{lost}; holds if labels fell at random"
    mean = replace(refused, method="prediction-powered mean") if refused else powered.mean
    known = {"lambda": powered.power, "variance_ratio": powered.variance_ratio}
    lines = [Line(f"{what}, PPI++", system.level, rules + assumed, mean, details=known)]
    if binary:
        judge = rogan_gladen(*data, level=spec.confidence)
        rate = replace(refused, method="Rogan–Gladen") if refused else judge.rate
        rates = {"sensitivity": judge.sensitivity, "specificity": judge.specificity}
        judged = f"sensitivity {_shown(judge.sensitivity.value)}, specificity {_shown(judge.specificity.value)}; "
        lines.append(Line(f"{what}, Rogan–Gladen", system.level, judged + assumed, rate, details=rates))
    return lines


def _shown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"


def _refused(system: _System, spec: AuditSpec) -> Estimate | None:
    """Why there is no corrected figure; None where there is one."""
    labelled, beyond = len(set(system.clusters)), len(set(system.clusters_beyond))
    why = ""
    if labelled < FEWEST_CLUSTERS:
        why = f"{system.human.size} labels in {labelled} clusters; {FEWEST_CLUSTERS} clusters are needed"
    elif beyond < FEWEST_CLUSTERS:
        why = f"{system.beyond.size} samples without a label in {beyond} clusters; too few to sharpen anything"
    elif system.p is not None and system.p < float(spec.alpha):
        why = f"labels did not fall at random: labelled and unlabelled rewards differ (p {system.p:.2g})"
    return undefined(system.human.size, labelled, "", why) if why else None


def _findings(systems: list[_System], lines: list[Line], spec: AuditSpec) -> list[Finding]:
    findings = []
    few = [s for s in systems if len(set(s.clusters)) < FEWEST_CLUSTERS]
    if few:
        named = ", ".join(f"{s.level}: {s.human.size}" for s in few[:5])
        findings.append(
            Finding(
                "CALIB.TOO_FEW_LABELS",
                "info",
                f"{len(few)} of {len(systems)} systems have labels of fewer than {FEWEST_CLUSTERS} clusters ({named}): "
                "no figure on the human scale is given for them",
                f"label samples of {FEWEST_CLUSTERS} clusters or more of each, drawn at random",
            )
        )
    chosen = [s for s in systems if s.p is not None and s.p < float(spec.alpha)]
    if chosen:
        named = ", ".join(s.level for s in chosen[:5])
        findings.append(
            Finding(
                "CALIB.LABELS_NOT_RANDOM",
                "warning",
                f"labelled and unlabelled samples differ in reward ({named}; smallest p "
                f"{min(s.p or 0 for s in chosen):.2g}, {spec.multiplicity}): labels did not fall at random, and what "
                "they say need not hold for the rest",
                "draw the samples to label at random from all that are scored",
            )
        )
    weak = [line for line in lines if "too weak to correct" in line.estimate.why]
    if weak:
        findings.append(
            Finding(
                "CALIB.JUDGE_TOO_WEAK",
                "info",
                f"{len(weak)} Rogan–Gladen figures are refused; {weak[0].level}: {weak[0].estimate.why}",
                "take PPI++ or the labels alone; mend the judge before its verdicts count",
                weak[0].estimate,
            )
        )
    return findings
