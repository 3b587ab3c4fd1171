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
    correlation,
    correlation_difference,
    discordant_pairs,
    grouped_difference,
    kappa_value,
    macro_f1_value,
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
    difference, tests = difference_of(other, common, spec), _tests(other, common, spec)
    said = [_said(test) for test in tests]
    details = {"tests": tests, "n": {spec.reward: n_reward, spec.against: n_other, "common": common.reward.size}}
    rules = "; ".join([counts, *said])
    lines.append(Line(name, lines[0].level, rules, difference, True, details))
    return lines, _findings(difference, name, spec, lines)


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


def difference_of(other: Evidence, audited: Evidence, spec: AuditSpec) -> Estimate:
    """The registered statistic of `audited` less that of `other`, whose rewards are of the same samples, paired."""
    statistic, level, confidence = spec.statistic, spec.level, spec.confidence
    a, b, y, clusters = other.reward, audited.reward, audited.human, audited.clusters
    if statistic in OF_LABELS:
        return _label_difference(other, audited, spec)
    if statistic == "auc":
        return auc_difference(a, b, y, clusters, level=confidence)
    if statistic == "ordering_accuracy" and level == "pooled":
        return ordering_difference(a, b, y, clusters, ties=spec.ties, level=confidence)
    if statistic in ("ordering_accuracy", "acc_eq"):
        found = _of_pairs(other, audited, spec)
        if found is None:
            return undefined(
                a.size, 1, "difference of acc_eq, ε cross-fitted", "one cluster; ε needs others to be chosen on"
            )
        return found.difference(confidence)
    kind = cast(Kind, statistic)
    if level == "group":
        return _by_group(other, audited, spec)[0]
    if level == "within":
        groups = groups_of(audited, spec.group_by)
        return within_difference(a, b, y, groups, clusters, kind=cast(Any, kind), level=confidence)
    if level == "system":
        a, b, y, clusters = _of_systems(other, audited, spec)
    return correlation_difference(a, b, y, clusters, kind=kind, level=confidence)


def _tests(other: Evidence, audited: Evidence, spec: AuditSpec) -> tuple[Test, ...]:
    """Whether chance could make the difference, by every test that holds there."""
    statistic, level = spec.statistic, spec.level
    if statistic in OF_LABELS:
        return _right(other, audited, spec).tests(spec)
    if statistic == "auc" or (statistic == "ordering_accuracy" and level == "pooled"):
        return ()
    if statistic in ("ordering_accuracy", "acc_eq"):
        found = _of_pairs(other, audited, spec)
        return () if found is None else found.tests(spec)
    if level == "within":
        return ()
    if level == "group":
        by_group = _by_group(other, audited, spec)[1]
        return _flips_of_groups(by_group, groups_of(audited, spec.group_by), audited.clusters, spec)
    a, b, y, clusters = other.reward, audited.reward, audited.human, audited.clusters
    if level == "system":
        a, b, y, clusters = _of_systems(other, audited, spec)
    return _of_correlations(a, b, y, clusters, spec)


def _by_group(other: Evidence, audited: Evidence, spec: AuditSpec) -> tuple[Estimate, FloatArray]:
    return grouped_difference(
        other.reward, audited.reward, audited.human, groups_of(audited, spec.group_by), audited.clusters,
        kind=cast(Kind, spec.statistic), weights=spec.weights, without=spec.undefined, level=spec.confidence,
    )  # fmt: skip


def _of_systems(other: Evidence, audited: Evidence, spec: AuditSpec) -> tuple[NDArray[Any], ...]:
    """Means of both rewards and of the label by system, each its own cluster."""
    systems = clusters_of(groups_of(audited, spec.system_by), audited.human.size)
    sizes = np.bincount(systems.codes, minlength=systems.count)
    means = (systems.sums(values) / sizes for values in (other.reward, audited.reward, audited.human))
    return *means, np.arange(systems.count)


def _of_correlations(
    a: FloatArray, b: FloatArray, y: FloatArray, clusters: NDArray[Any], spec: AuditSpec
) -> tuple[Test, ...]:
    kind = cast(Kind, spec.statistic)
    tests = [perm_both(a, b, y, clusters, kind=kind, rng=generator(spec, "against"), draws=spec.draws)]
    if kind == "pearson" and len(set(clusters.tolist())) == a.size:
        r_by, r_ay, r_ab = (correlation(*pair, clusters, kind=kind).value for pair in ((b, y), (a, y), (a, b)))
        if r_by is not None and r_ay is not None and r_ab is not None:
            tests.append(williams(r_by, r_ay, r_ab, a.size))
    return tuple(tests)


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


@dataclass(frozen=True, slots=True)
class _Successes:
    """Whether each reward was right, on what counts for both: 1, 0, or the credit for a tie."""

    a: FloatArray
    b: FloatArray
    clusters: np.ndarray

    def difference(self, level: float) -> Estimate:
        """Mean of b − a by cluster."""
        if self.a.size == 0:
            return undefined(0, 0, "paired difference b − a", "no pair counts for both")
        return paired_difference(self.a, self.b, self.clusters, level=level)

    def tests(self, spec: AuditSpec) -> tuple[Test, ...]:
        """The sign flip of clusters, and McNemar's tests of what is right or wrong."""
        if self.a.size == 0:
            return ()
        whole = np.isin(self.a, (0.0, 1.0)) & np.isin(self.b, (0.0, 1.0))
        table = discordant_pairs(self.a[whole], self.b[whole])
        return _flip(self.b - self.a, self.clusters, spec), mcnemar(table, mid_p=False), mcnemar(table)


def _of_pairs(other: Evidence, audited: Evidence, spec: AuditSpec) -> _Successes | None:
    """Orderings of the pairs within groups, each pair judged by both rewards; None where ε cannot be chosen."""
    groups = groups_of(audited, spec.group_by)
    of_a, of_b = (pairs_within(held.reward, held.human, groups) for held in (other, audited))
    clusters = audited.clusters[of_a.first]
    if spec.statistic == "acc_eq":
        a, b = (_eq_at_own_epsilon(pairs.human, pairs.reward, clusters, spec) for pairs in (of_a, of_b))
        if a is None or b is None:
            return None
    else:
        differ = of_a.human != 0
        clusters = clusters[differ]
        a, b = (_credit(np.sign(pairs.human[differ]) * pairs.reward[differ], spec) for pairs in (of_a, of_b))
    return _counted(a, b, clusters)


def _counted(a: FloatArray, b: FloatArray, clusters: np.ndarray) -> _Successes:
    counted = ~(np.isnan(a) | np.isnan(b))
    return _Successes(a[counted], b[counted], clusters[counted])


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


def _said_by_both(other: Evidence, audited: Evidence, spec: AuditSpec) -> tuple[NDArray[Any], ...]:
    """Verdicts of both, labels and clusters; a verdict that one rule leaves out is left out for both."""
    (said_a, in_a), (said_b, in_b) = verdicts_of(other, spec), verdicts_of(audited, spec)
    kept = in_a & in_b
    return said_a[kept], said_b[kept], audited.human[kept], audited.clusters[kept]


def _right(other: Evidence, audited: Evidence, spec: AuditSpec) -> _Successes:
    a, b, y, clusters = _said_by_both(other, audited, spec)
    return _counted((a == y).astype(np.float64), (b == y).astype(np.float64), clusters)


def _label_difference(other: Evidence, audited: Evidence, spec: AuditSpec) -> Estimate:
    """Of accuracy the paired difference; of kappa and macro F1 with a cluster bootstrap."""
    a, b, y, clusters = _said_by_both(other, audited, spec)
    if spec.statistic == "accuracy" or a.size == 0:
        return _right(other, audited, spec).difference(spec.confidence)

    def difference(rows: np.ndarray) -> float:
        of_a, of_b = (_label_statistic(said[rows], y[rows], spec) for said in (a, b))
        return of_b - of_a

    value = difference(np.arange(a.size))
    method = f"difference of {spec.statistic}, b − a"
    groups = clusters_of(clusters, a.size)
    if np.isnan(value):
        return undefined(a.size, groups.count, method, f"one of the two has no {spec.statistic}")
    return with_interval(
        value, difference, groups, n=a.size, method=method, level=spec.confidence, draws=spec.draws,
        rng=generator(spec, "against"),
    )  # fmt: skip


def _label_statistic(said: np.ndarray, true: np.ndarray, spec: AuditSpec) -> float:
    if spec.statistic == "kappa":
        return kappa_value(said.astype(str), true.astype(str))
    return macro_f1_value(said, true, list(spec.labels) or sorted(set(true.tolist())))
