"""Two rewards on the same items: by how much the audited one agrees better than another, and whether chance did it.

1. Only samples that both score count, so that neither gains by leaving out what is hard; how many each scores alone
   stands beside.
2. The difference is always audited − other, in the unit of the registered statistic, with the interval of the paired
   difference. Tests that take whole clusters come first. McNemar's takes items as independent and says so; Williams's
   needs that for its formula, and is made only where every sample is its own cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from evalkit.audit.agreement import Line, agreement, generator, groups_of, verdicts_of
from evalkit.audit.evidence import Evidence
from evalkit.audit.findings import Finding
from evalkit.audit.spec import OF_LABELS, AuditSpec
from evalkit.stats import (
    Estimate,
    Test,
    auc_difference,
    classification,
    cohen_kappa,
    correlation,
    correlation_difference,
    discordant_pairs,
    grouped_difference,
    mcnemar,
    ordering_difference,
    paired_difference,
    pairs_within,
    perm_both,
    sign_flip_test,
    tie_calibration,
    undefined,
    williams,
    within_difference,
)
from evalkit.stats.arrays import FloatArray
from evalkit.stats.bootstrap import with_interval
from evalkit.stats.clusters import clusters_of
from evalkit.stats.correlation import Kind
from evalkit.stats.pairwise import CREDIT, fold_of_clusters


@dataclass(frozen=True, slots=True)
class _Held:
    """What one comparison gave."""

    difference: Estimate
    tests: tuple[Test, ...] = ()


def against(evidence: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    """The audited reward beside the one that the spec names under `against`; nothing where it names none."""
    if not spec.against:
        return [], []
    name = f"{spec.reward} − {spec.against}"
    values = evidence.components[spec.against]
    known = np.array([value is not None for value in values]) if spec.categorical else np.isfinite(values)
    n_reward, n_other = int(np.count_nonzero(evidence.scored)), int(np.count_nonzero(known))
    common = evidence.only(evidence.scored & known)
    counts = f"{common.reward.size} common samples of {n_reward} and {n_other} scored"
    if common.reward.size == 0:
        none = undefined(0, 0, f"paired difference, {name}", "no labelled sample is scored by both")
        return [Line(name, spec.level, counts, none, True)], []
    other = replace(common, reward=common.components[spec.against])
    lines = []
    for held, label, n in ((common, spec.reward, n_reward), (other, spec.against, n_other)):
        line = agreement(held, spec, spec.statistic, spec.level)
        rules = "; ".join(part for part in (line.rules, f"the common samples of {n} scored") if part)
        lines.append(replace(line, name=f"{label}: {line.name}", rules=rules))
    found = _compared(other, common, spec)
    said = [_said(test) for test in found.tests]
    details = {"tests": found.tests, "n": {spec.reward: n_reward, spec.against: n_other, "common": common.reward.size}}
    rules = "; ".join([counts, *said])
    lines.append(Line(name, lines[0].level, rules, found.difference, True, details))
    return lines, _findings(found.difference, name, spec, lines)


def _said(test: Test) -> str:
    what = test.method.split(",")[0] if not test.method.startswith("McNemar") else test.method.rsplit(",", 2)[0]
    return f"{what}: p {test.p:.3g}" if test.p is not None else f"{what}: none, {test.why}"


def _findings(difference: Estimate, name: str, spec: AuditSpec, lines: list[Line]) -> list[Finding]:
    if difference.value is None or difference.low is None or difference.high is None:
        return []
    ends = f"{name} is {difference.value:.3f} [{difference.low:.3f}, {difference.high:.3f}] in {lines[-1].level}"
    if difference.high < 0:
        what = f"{spec.against} agrees better with {spec.label} than {spec.reward} on the same samples: {ends}"
        return [
            Finding("AGAINST.WORSE", "warning", what, f"use {spec.against}, or see what it does better", difference)
        ]
    if difference.low <= 0:
        what = f"these samples do not tell {spec.reward} and {spec.against} apart: {ends}"
        next_step = "label more clusters if the choice matters; evalkit audit plan says how many"
        return [Finding("AGAINST.UNDECIDED", "info", what, next_step, difference)]
    return []


def _compared(other: Evidence, audited: Evidence, spec: AuditSpec) -> _Held:
    statistic, level = spec.statistic, spec.level
    a, b, y, clusters = other.reward, audited.reward, audited.human, audited.clusters
    confidence = spec.confidence
    if statistic in OF_LABELS:
        return _of_labels(other, audited, spec)
    if statistic == "auc":
        return _Held(auc_difference(a, b, y, clusters, level=confidence))
    if statistic == "ordering_accuracy" and level == "pooled":
        return _Held(ordering_difference(a, b, y, clusters, ties=spec.ties, level=confidence))
    if statistic in ("ordering_accuracy", "acc_eq"):
        return _of_pairs(other, audited, spec)
    kind = cast(Kind, statistic)
    if level == "group":
        groups = groups_of(audited, spec.group_by)
        difference, by_group = grouped_difference(
            a, b, y, groups, clusters, kind=kind, weights=spec.weights, without=spec.undefined, level=confidence
        )
        return _Held(difference, _flips_of_groups(by_group, groups, clusters, spec))
    if level == "within":
        groups = groups_of(audited, spec.group_by)
        return _Held(within_difference(a, b, y, groups, clusters, kind=cast(Any, kind), level=confidence))
    if level == "system":
        systems = clusters_of(groups_of(audited, spec.system_by), a.size)
        sizes = np.bincount(systems.codes, minlength=systems.count)
        of_a, of_b, of_y = (systems.sums(values) / sizes for values in (a, b, y))
        return _of_correlations(of_a, of_b, of_y, np.arange(systems.count), kind, spec)
    return _of_correlations(a, b, y, clusters, kind, spec)


def _of_correlations(
    a: FloatArray, b: FloatArray, y: FloatArray, clusters: NDArray[Any], kind: Kind, spec: AuditSpec
) -> _Held:  # fmt: skip
    difference = correlation_difference(a, b, y, clusters, kind=kind, level=spec.confidence)
    tests = [perm_both(a, b, y, clusters, kind=kind, rng=generator(spec, "against"), draws=spec.draws)]
    if kind == "pearson" and len(set(clusters.tolist())) == a.size:
        r_by, r_ay, r_ab = (correlation(*pair, clusters, kind=kind).value for pair in ((b, y), (a, y), (a, b)))
        if r_by is not None and r_ay is not None and r_ab is not None:
            tests.append(williams(r_by, r_ay, r_ab, a.size))
    return _Held(difference, tuple(tests))


def _flips_of_groups(
    differences: FloatArray, groups: np.ndarray, clusters: np.ndarray, spec: AuditSpec
) -> tuple[Test, ...]:  # fmt: skip
    """Exchange of the two rewards within whole clusters, where every group lies in one and groups weigh alike."""
    codes, units = clusters_of(groups, groups.size), clusters_of(clusters, clusters.size)
    owner = np.zeros(codes.count, dtype=np.intp)
    owner[codes.codes] = units.codes
    if spec.weights != "equal" or not np.array_equal(owner[codes.codes], units.codes):
        return ()
    known = ~np.isnan(differences)
    return (_flip(differences[known], owner[known], spec),) if known.any() else ()


def _flip(differences: FloatArray, clusters: np.ndarray, spec: AuditSpec) -> Test:
    found = sign_flip_test(differences, clusters, rng=generator(spec, "against"), draws=spec.draws)
    return Test(found.p, float(differences.mean()), differences.size, found.n_clusters, found.method)


def _of_pairs(other: Evidence, audited: Evidence, spec: AuditSpec) -> _Held:
    """Orderings of the pairs within groups, each pair judged by both rewards."""
    groups = groups_of(audited, spec.group_by)
    of_a, of_b = (pairs_within(held.reward, held.human, groups) for held in (other, audited))
    clusters = audited.clusters[of_a.first]
    if spec.statistic == "acc_eq":
        a, b = (_eq_at_own_epsilon(pairs.human, pairs.reward, clusters, spec) for pairs in (of_a, of_b))
        if a is None or b is None:
            why = "one cluster; ε needs others to be chosen on"
            return _Held(undefined(clusters.size, 1, "difference of acc_eq, ε cross-fitted", why))
    else:
        differ = of_a.human != 0
        clusters = clusters[differ]
        a, b = (_credit(np.sign(pairs.human[differ]) * pairs.reward[differ], spec) for pairs in (of_a, of_b))
    return _of_successes(a, b, clusters, spec)


def _credit(signs: FloatArray, spec: AuditSpec) -> FloatArray:
    """1 where the reward orders a pair as humans do, 0 where otherwise, and the spec's credit for a tie."""
    return np.where(signs == 0, CREDIT[spec.ties], np.where(signs > 0, 1.0, 0.0))


def _eq_at_own_epsilon(
    human: FloatArray, reward: FloatArray, clusters: np.ndarray, spec: AuditSpec
) -> FloatArray | None:  # fmt: skip
    """Whether each pair agrees at the ε that was chosen for its fold, as the registered acc_eq deals the folds."""
    found = tie_calibration(human, reward, clusters, rng=generator(spec, "folds"))
    if not found.epsilons:
        return None
    groups = clusters_of(clusters, human.size)
    fold = fold_of_clusters(groups.count, len(found.epsilons), generator(spec, "folds"))[groups.codes]
    epsilon = np.array(found.epsilons)[fold]
    return np.asarray(np.where(np.abs(reward) <= epsilon, 0.0, np.sign(reward)) == np.sign(human), dtype=np.float64)


def _of_successes(a: FloatArray, b: FloatArray, clusters: np.ndarray, spec: AuditSpec) -> _Held:
    """Mean of b − a by cluster, with the sign flip of clusters and McNemar's tests of what is right or wrong."""
    counted = ~(np.isnan(a) | np.isnan(b))
    a, b, clusters = a[counted], b[counted], clusters[counted]
    if a.size == 0:
        return _Held(undefined(0, 0, "paired difference b − a", "no pair counts for both"))
    whole = np.isin(a, (0.0, 1.0)) & np.isin(b, (0.0, 1.0))
    table = discordant_pairs(a[whole], b[whole])
    tests = (_flip(b - a, clusters, spec), mcnemar(table, mid_p=False), mcnemar(table))
    return _Held(paired_difference(a, b, clusters, level=spec.confidence), tests)


def _of_labels(other: Evidence, audited: Evidence, spec: AuditSpec) -> _Held:
    """Two judges' verdicts on the same samples; a verdict that one rule leaves out is left out for both."""
    (said_a, in_a), (said_b, in_b) = verdicts_of(other, spec), verdicts_of(audited, spec)
    kept = in_a & in_b
    a, b, y, clusters = said_a[kept], said_b[kept], audited.human[kept], audited.clusters[kept]
    right = _of_successes((a == y).astype(np.float64), (b == y).astype(np.float64), clusters, spec)
    if spec.statistic == "accuracy" or a.size == 0:
        return right

    def difference(rows: np.ndarray) -> float:
        of_a, of_b = (_label_statistic(said[rows], y[rows], spec) for said in (a, b))
        return np.nan if of_a is None or of_b is None else of_b - of_a

    value = difference(np.arange(a.size))
    method = f"difference of {spec.statistic}, b − a"
    groups = clusters_of(clusters, a.size)
    if np.isnan(value):
        return _Held(undefined(a.size, groups.count, method, f"one of the two has no {spec.statistic}"), right.tests)
    estimate = with_interval(
        value, difference, groups, n=a.size, method=method, level=spec.confidence, draws=spec.draws,
        rng=generator(spec, "against"),
    )  # fmt: skip
    return _Held(estimate, right.tests)


def _label_statistic(said: np.ndarray, true: np.ndarray, spec: AuditSpec) -> float | None:
    alone = np.arange(said.size)
    if spec.statistic == "kappa":
        return cohen_kappa(said.tolist(), true.tolist(), alone).value
    labels = list(spec.labels) or sorted(set(true.tolist()))
    return classification(said.tolist(), true.tolist(), alone, labels=labels).macro_f1.value
