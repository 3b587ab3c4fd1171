"""The people behind the labels: how far they agree, and how far a reward could agree with any of them.

1. The ceiling takes the registered statistic at the registered level, on the items that the reward was scored on.
2. Labels of categories are compared with each other annotator one by one: a majority of few is tied where people
   differ, and leaving those items out would flatter whoever is held out. Numbers are held against the mean or median
   of the others, as the spec aggregates them.
3. Nothing is said of one annotator, nor of one with fewer than 30 labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from evalkit.audit.agreement import Line, agreement, generator, groups_of, stacked, verdicts_of, vocabulary
from evalkit.audit.evidence import Evidence
from evalkit.audit.findings import Finding
from evalkit.audit.spec import AuditSpec
from evalkit.stats import (
    Ceiling,
    Estimate,
    accuracy,
    alt_test,
    cohen_kappa,
    corrected_for_attenuation,
    fleiss_kappa,
    icc,
    influence,
    kappa_value,
    krippendorff_alpha,
    leave_one_annotator_out,
    macro_f1_value,
    undefined,
)
from evalkit.stats.arrays import FloatArray
from evalkit.stats.attenuation import MeanForm, pearson
from evalkit.stats.bootstrap import Rows
from evalkit.stats.ceiling import Against, Agreement
from evalkit.stats.correlation import KINDS, NAMES, Kind
from evalkit.stats.raters import Form, Scale

LEAST_LABELS = 30
"""An annotator with fewer is not held out."""
MOST_ANNOTATORS = 50
"""Those with the most labels are held out, where there are more."""
TENTATIVE = 0.667
"""Below this alpha labels bear no conclusion (Krippendorff 2004, "Content Analysis", p. 241)."""
MOST_CELLS = 2_000_000_000
"""Items times categories times draws up to which alpha has an interval of all draws."""
NOBODYS = -1.0
"""The code of a verdict that no annotator can give."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Labels and reward as numbers, a row per item."""

    ratings: FloatArray
    """Shape (items, annotators), NaN where missing, more is better; for categories their codes."""
    reward: FloatArray
    """Shape (items,); NaN where it does not count."""
    evidence: Evidence
    """The same rows."""
    names: list[str]
    known: int = 0
    """Of categories, how many are the vocabulary; codes from there on are words that no label should have."""


def people(evidence: Evidence, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    """Lines and findings on annotators, ceiling, attenuation and replaceability; nothing with one annotator."""
    panel = _panel(evidence, spec)
    if panel.ratings.shape[1] < 2 or not (np.count_nonzero(~np.isnan(panel.ratings), axis=1) >= 2).any():
        return [], []
    reliability = _reliability(panel, spec)
    ceiling, findings = _ceiling(panel, spec)
    lines = [*ceiling, *reliability, *_attenuation(panel, spec), *_replacing(panel, spec)]
    return lines, [*findings, *_unreliable(reliability[0])]


def _panel(evidence: Evidence, spec: AuditSpec) -> Panel:
    if not spec.categorical:
        scale = spec.scales.get(spec.label)
        turned = -1.0 if scale is not None and not scale.higher_is_better else 1.0
        return Panel(turned * evidence.ratings, evidence.reward, evidence, evidence.annotators)
    if spec.combine_orders == "average" and len(evidence.by_order) == 2:
        evidence = stacked(evidence)
    verdicts, counts = verdicts_of(evidence, spec)
    known = vocabulary(evidence, spec)
    given = sorted({str(label) for label in evidence.ratings.ravel() if label is not None} - set(known))
    code = {label: float(i) for i, label in enumerate([*known, *given])}
    ratings = _codes(evidence.ratings.ravel(), code, math.nan).reshape(evidence.ratings.shape)
    reward = np.where(counts, _codes(verdicts, code, NOBODYS), np.nan)
    return Panel(ratings, reward, evidence, evidence.annotators, len(known))


def _codes(labels: NDArray[Any], code: dict[str, float], other: float) -> FloatArray:
    return np.array([other if label is None else code.get(label, NOBODYS) for label in labels], dtype=np.float64)


def _reliability(panel: Panel, spec: AuditSpec) -> list[Line]:
    """Krippendorff's alpha first, then Fleiss' kappa of categories or intraclass correlations of numbers."""
    ratings, clusters = panel.ratings, panel.evidence.clusters
    several = f"{len(panel.names)} annotators"
    scales: tuple[Scale, ...] = ("nominal",) if spec.categorical else ("interval", "ordinal")
    pairs = {"pairs": _pairs(panel, spec)} if spec.categorical else {}
    lines = [
        Line("Krippendorff's alpha", scale, several, _alpha(panel, spec, scale), details=pairs) for scale in scales
    ]
    per_item = np.count_nonzero(~np.isnan(ratings), axis=1)
    rated = per_item >= 2
    if not spec.categorical:
        return lines + _intraclass(ratings[rated], per_item[rated], spec.confidence)
    if rated.all() and per_item.min() == per_item.max():
        counts = np.stack([(ratings == code).sum(axis=1) for code in np.unique(ratings[~np.isnan(ratings)])], axis=1)
        kappa = fleiss_kappa(
            counts, clusters=clusters, level=spec.confidence, draws=spec.draws, rng=generator(spec, "fleiss")
        )
        lines.append(Line("Fleiss' kappa", "nominal", f"{per_item[0]} labels an item", kappa))
    return lines


def _pairs(panel: Panel, spec: AuditSpec) -> dict[str, Estimate]:
    """Cohen's kappa of every two annotators on the items that both labelled."""
    found = {}
    for i, j in combinations(range(min(len(panel.names), MOST_ANNOTATORS)), 2):
        both = ~np.isnan(panel.ratings[:, [i, j]]).any(axis=1)
        a, b = panel.ratings[both, i].tolist(), panel.ratings[both, j].tolist()
        kappa = cohen_kappa(a, b, panel.evidence.clusters[both], level=spec.confidence)
        found[f"{panel.names[i]} with {panel.names[j]}"] = kappa
    return found


def _alpha(panel: Panel, spec: AuditSpec, scale: Scale) -> Estimate:
    """With fewer draws where the table of items and categories is large."""
    ratings = panel.ratings
    categories = 1 if scale == "interval" else np.unique(ratings[~np.isnan(ratings)]).size
    draws = int(min(spec.draws, max(100, MOST_CELLS // (ratings.shape[0] * max(categories, ratings.shape[1])))))
    try:
        return krippendorff_alpha(
            ratings, scale=scale, clusters=panel.evidence.clusters, level=spec.confidence, draws=draws,
            rng=generator(spec, f"alpha {scale}"),
        )  # fmt: skip
    except ValueError as error:  # too many distinct values for a scale that needs a table of them
        return undefined(int(np.count_nonzero(~np.isnan(ratings))), 0, f"Krippendorff's alpha, {scale}", str(error))


def _intraclass(ratings: FloatArray, per_item: NDArray[np.intp], level: float) -> list[Line]:
    """Of one label and of the mean: of these annotators where all rated all, else of whoever rated."""
    if (per_item == ratings.shape[1]).all():
        forms: tuple[tuple[Form, str], ...] = (("2,1", "one label"), ("3,k", f"mean of {ratings.shape[1]} labels"))
        return [
            Line(f"ICC({form})", what, "every annotator rated every item", icc(ratings, form=form))
            for form, what in forms
        ]
    packed, k = _packed(ratings, per_item)
    rules = f"items with {k} labels or more, {k} of each, whoever gave them"
    forms = (("1,1", "one label"), ("1,k", f"mean of {k} labels"))
    return [Line(f"ICC({form})", what, rules, icc(packed, form=form)) for form, what in forms]


def _packed(ratings: FloatArray, per_item: NDArray[np.intp]) -> tuple[FloatArray, int]:
    """The ratings of items as if their raters were drawn anew: shape (items, k), k the most common number of labels,
    NaN rows for items with fewer."""
    counts = np.bincount(per_item)
    k = int(np.argmax(counts[2:])) + 2
    packed = np.full((ratings.shape[0], k), np.nan)
    for row, given in zip(packed, ratings, strict=True):
        labels = given[~np.isnan(given)]
        if labels.size >= k:
            row[:] = labels[:k]
    return packed, k


def _ceiling(panel: Panel, spec: AuditSpec) -> tuple[list[Line], list[Finding]]:
    """Held-out annotators beside the reward, by the registered statistic at the registered level."""
    labels = np.count_nonzero(~np.isnan(panel.ratings), axis=0)
    held = np.flatnonzero(labels >= LEAST_LABELS)
    held = held[np.argsort(-labels[held], kind="stable")][:MOST_ANNOTATORS]
    held.sort()
    if held.size < 2:
        return [], []
    against: Against = "each" if spec.categorical or held.size < 3 or spec.annotators == "majority" else spec.annotators
    left = panel.ratings.shape[1] - held.size
    rules = f"{held.size} annotators held out in turn" + (f", {left} with few labels left out" if left else "")
    found = leave_one_annotator_out(
        panel.ratings[:, held], panel.reward, agreement=_statistic(panel, spec), against=against,
        clusters=panel.evidence.clusters, level=spec.confidence, rng=generator(spec, "ceiling"),
    )  # fmt: skip
    name, level = _name(spec), spec.level
    each = {
        panel.names[held[one.annotator]]: {"human": one.human, "reward": one.reward, "difference": one.difference}
        for one in found.annotators
    }
    lines = [
        Line(f"ceiling: held-out annotator, {name}", level, rules, found.human, details={"annotators": each}),
        Line(f"reward in that place, {name}", level, rules, found.reward),
        Line("reward − held-out annotator", level, "paired", found.difference),
    ]
    return lines, _ceiling_findings(found, name, spec)


def _name(spec: AuditSpec) -> str:
    return NAMES[spec.statistic] if spec.statistic in KINDS else spec.statistic.replace("_", " ")


def _ceiling_findings(found: Ceiling, name: str, spec: AuditSpec) -> list[Finding]:
    human, gap = found.human, found.difference
    findings = []
    if human.value is not None and human.high is not None:
        wanted = [
            (word, float(limit))
            for word, limit in (("usable", spec.thresholds.usable), ("trustworthy", spec.thresholds.trustworthy))
            if human.high < float(limit)
        ]
        if wanted:
            word, limit = wanted[0]
            findings.append(
                Finding(
                    "CEILING.BELOW_THRESHOLD",
                    "info",
                    f"people agree with each other at {name} {human.value:.3f} [{human.low:.3f}, {human.high:.3f}], "
                    f"below the {limit:g} that the spec calls {word}",
                    "give annotators clearer instructions or more labels per item, or freeze a threshold people reach",
                    human,
                )
            )
    if gap.value is not None and gap.low is not None and gap.low >= 0:
        findings.append(
            Finding(
                "CEILING.REACHED",
                "info",
                f"the reward agrees with the other annotators at least as well as a held-out one does (by "
                f"{gap.value:.3f} [{gap.low:.3f}, {gap.high:.3f}])",
                "these labels cannot tell a better reward; more labels per item, or experts, could",
                gap,
            )
        )
    return findings


def _statistic(panel: Panel, spec: AuditSpec) -> Agreement:
    """The registered statistic at the registered level, of any two label vectors of some of the rows."""
    evidence = panel.evidence
    if spec.statistic == "accuracy":
        return accuracy
    if spec.statistic == "kappa":
        return _called(_name(spec), lambda first, second, rows: kappa_value(first, second))
    if spec.statistic == "macro_f1":
        return _called(_name(spec), lambda first, second, rows: macro_f1_value(first, second, range(panel.known)))
    if spec.statistic in KINDS and spec.level in ("pooled", "system"):
        kind: Kind = spec.statistic
        systems = groups_of(evidence, spec.system_by) if spec.level == "system" else None

        def correlation(first: FloatArray, second: FloatArray, rows: Rows) -> float:
            if systems is not None:
                first, second = _means(first, systems[rows]), _means(second, systems[rows])
            value = influence(first, second, kind=kind)[0] if first.size > 1 else None
            return math.nan if value is None else value

        return _called(_name(spec), correlation)

    def of_level(first: FloatArray, second: FloatArray, rows: Rows) -> float:
        chosen = np.zeros(evidence.reward.size, dtype=bool)
        chosen[rows] = True  # rows ascend, so a mask keeps their order
        part = replace(evidence.only(chosen), reward=first, human=second)
        value = agreement(part, spec, spec.statistic, spec.level).estimate.value
        return math.nan if value is None else value

    return _called(_name(spec), of_level)


def _called(name: str, function: Agreement) -> Agreement:
    function.__name__ = name
    return function


def _means(values: FloatArray, groups: NDArray[Any]) -> FloatArray:
    codes = np.unique(groups, return_inverse=True)[1]
    return np.asarray(np.bincount(codes, values) / np.bincount(codes))


def _attenuation(panel: Panel, spec: AuditSpec) -> list[Line]:
    """What errors of the labels take from a pooled correlation; with repeated scores, those of the reward too."""
    if spec.statistic not in ("pearson", "spearman") or spec.level != "pooled":
        return []
    per_item = np.count_nonzero(~np.isnan(panel.ratings), axis=1)
    rated = per_item >= 2
    ratings, form = panel.ratings[rated], "3,k"
    if not (per_item[rated] == ratings.shape[1]).all():
        ratings, form = _packed(ratings, per_item[rated])[0], "1,k"
    repeats = panel.evidence.repeats
    reward = panel.reward if repeats is None or spec.repeats != "mean" else repeats
    found = corrected_for_attenuation(
        reward[rated], ratings, correlation=pearson if spec.statistic == "pearson" else spearman,
        form=cast(MeanForm, form), clusters=panel.evidence.clusters[rated], level=spec.confidence, draws=spec.draws,
        rng=generator(spec, "attenuation"),
    )  # fmt: skip
    rules = "approximate for ranks" if spec.statistic == "spearman" else ""
    lines = [
        Line("reliability of the mean label", "pooled", "", found.human_reliability),
        Line("highest correlation with these labels", "pooled", "√ reliability", found.ceiling),
        Line(f"{_name(spec)} corrected for attenuation", "pooled", rules, found.corrected),
    ]
    if found.reward_reliability is not None:
        lines.insert(1, Line("reliability of the mean score", "pooled", "", found.reward_reliability))
    return lines


def spearman(first: FloatArray, second: FloatArray) -> float:
    """Spearman's correlation; NaN where it is undefined."""
    value = influence(first, second, kind="spearman")[0] if first.size > 1 else None
    return math.nan if value is None else value


def _replacing(panel: Panel, spec: AuditSpec) -> list[Line]:
    """The alternative annotator test, where reward and labels are on one scale."""
    ours, theirs = spec.scales.get(spec.reward), spec.scales.get(spec.label)
    same = ours is not None and theirs is not None and ours == theirs
    if len(panel.names) < 3 or not (spec.categorical or same):
        return []
    found = alt_test(
        panel.ratings, panel.reward, epsilon=float(spec.epsilon), closeness="equal" if spec.categorical else "rmse",
        clusters=panel.evidence.clusters, q=float(spec.alpha), level=spec.confidence, least_items=LEAST_LABELS,
    )  # fmt: skip
    tested = [one for one in found.annotators if one.p is not None]
    if found.winning_rate is None:
        rate = undefined(0, 0, found.method, "no annotator could be tested")
    else:
        rate = Estimate(found.winning_rate, None, None, len(tested), len(tested), found.method, "a count of tests")
    word = {None: "", True: "passed: it could replace an annotator", False: "not passed"}[found.passed]
    each = {panel.names[one.annotator]: {"p": one.p, "won": one.won, "why": one.why} for one in found.annotators}
    return [
        Line(
            "annotators the reward could replace (ω)", f"ε = {spec.epsilon}", word, rate, details={"annotators": each}
        ),
        Line(
            "advantage over an annotator (ρ)",
            f"ε = {spec.epsilon}",
            "share of items at least as close",
            found.advantage,
        ),
    ]


def _unreliable(alpha: Line) -> list[Finding]:
    found = alpha.estimate
    if found.value is None or found.high is None or found.high >= TENTATIVE:
        return []
    return [
        Finding(
            "GOLD.UNRELIABLE",
            "warning",
            f"annotators agree at alpha {found.value:.3f} [{found.low:.3f}, {found.high:.3f}] ({alpha.level}), below "
            f"{TENTATIVE}: these labels carry little",
            "clarify the instructions, or label each item more often; then audit again",
            found,
        )
    ]
