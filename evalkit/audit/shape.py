"""The shape of the reward's values, what is likely wrong with it, and what helps.

1. Looked at are the scored samples that have a label, as the file has them: a scale where less is better is not
   turned.
2. A finding rests on the end of an interval, never on the value in its middle; few samples raise none.
3. A shape alone rarely makes an audit's numbers wrong. Only a constant blocks: nothing can be said of how it
   orders.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from evalkit.audit.agreement import Line, generator, groups_of, whole_groups
from evalkit.audit.drift import moved
from evalkit.audit.evidence import Evidence
from evalkit.audit.findings import MOST_EVIDENCE, Finding, Severity, in_figures, in_percent
from evalkit.audit.spec import AuditSpec
from evalkit.audit.structure import turned_signs
from evalkit.stats import (
    Estimate,
    ValueShares,
    extreme_share,
    informative_groups,
    nonfinite_share,
    sign_consistency,
    tail,
    tied_pairs,
    unimodality,
    value_shares,
)
from evalkit.stats.arrays import FloatArray, IntArray
from evalkit.stats.clusters import clusters_of

LEAST = 10
"""Scored samples from which on it is a finding that all have one value, or two."""
PILE = 0.5
"""Share of a graded reward at one value above which it is a finding."""
NEARLY_ALL = 0.9
"""The same for a reward of two values; and the share from which on it warns."""
DOMINATED = 0.8
"""Share of the variance that the most extreme 5 % own: .28 in a normal, .5 in an exponential distribution."""
HEAVY = 0.6
"""The same where the tail is heavier than exponential besides. A heavy tail that owns less moves no number."""
TIED = 0.05
"""Share of pairs that tie."""
REVERSED = 1 / 3
"""Share of prompts in which reward falls as the label rises; half for a reward that says nothing."""
FEW_INFORMATIVE = 0.5
"""Share of groups whose answers differ in reward, below which it is a finding."""
HARDLY_INFORMATIVE = 0.1
"""The same, below which it warns."""

SPARSE = "too sparse: give rewards on the way, begin with easier tasks (a curriculum), or explore more"
LENIENT = "too lenient: take harder tasks, or reward separate dimensions"
FEW_DOMINATE = "a few samples dominate: read them; clip the reward, or normalise it by ranks"
UNCLEAR = "the definition may be unclear: read samples one by one"
DISAGREES = "rewrite the reward, or calibrate it against more labels; read the prompts in which it points the other way"
FAILED_AS_ZERO = "see whether 0 also stands for answers that failed or could not be read: those have no score"

Part = tuple[list[Line], list[Finding]]


@dataclass(frozen=True, slots=True)
class _Reward:
    """The values that are looked at. Arrays have a row per sample."""

    name: str
    values: FloatArray
    ids: np.ndarray
    clusters: IntArray
    bounds: tuple[float, float] | None
    """The declared range."""
    less_is_better: bool
    level: float
    shares: ValueShares = field(init=False)

    def __post_init__(self) -> None:
        found = value_shares(self.values, self.clusters, bounds=self.bounds, level=self.level)
        object.__setattr__(self, "shares", found)

    def remedy(self, value: float) -> str:
        """What helps where too many samples have this value."""
        worst, best = self.shares.lowest, self.shares.highest
        if self.less_is_better:
            worst, best = best, worst
        if self.shares.distinct == 1 and self.bounds is None:
            worst, best = 0.0, 1.0
        return SPARSE if value == worst else LENIENT if value == best else UNCLEAR

    def samples_at(self, value: float) -> tuple[str, ...]:
        """The first few samples with this value."""
        return tuple(str(key) for key in self.ids[self.values == value][:MOST_EVIDENCE])


def shape(evidence: Evidence, spec: AuditSpec) -> Part:
    """Constants, piles at a value, tails, modes, ties, signs, informative groups and drift; nothing for verdicts.

    Raises:
        BadInput: a sample without the group that the spec names.
    """
    if spec.categorical:
        return [], []
    lines, findings = _not_finite(evidence, spec)
    scored = evidence.only(evidence.scored)
    if scored.reward.size:
        reward = _reward(scored, spec)
        parts = [_piles(reward, evidence.ledger.unlabelled)]
        if reward.shares.distinct > 1:
            piled = any(finding.code in PILES for finding in parts[0][1])
            parts += [
                _extremes(reward, spec, piled),
                _modes(reward, spec),
                _ties(reward, scored, spec, piled),
                _signs(scored, spec),
                _density(reward, scored, spec),
            ]
        for found, raised in [*parts, moved(evidence, spec)]:
            lines += found
            findings += raised
        findings += turned_signs(scored, spec)
    said_before = {finding.code for finding in evidence.findings}
    if "SCORE.CONSTANT" in said_before:
        said_before |= set(CONSTANT.values())
    return lines, [finding for finding in findings if finding.code not in said_before]


def _reward(scored: Evidence, spec: AuditSpec) -> _Reward:
    scale = spec.scales.get(spec.reward)
    turned = scale is not None and not scale.higher_is_better
    return _Reward(
        spec.reward,
        -scored.reward + 0.0 if turned else scored.reward,
        scored.sample_ids,
        clusters_of(scored.clusters, scored.reward.size).codes.astype(np.int64),
        None if scale is None else (float(scale.low), float(scale.high)),
        turned,
        spec.confidence,
    )


def _not_finite(evidence: Evidence, spec: AuditSpec) -> Part:
    broken = evidence.status == "nan"
    if not broken.any():
        return [], []
    share = nonfinite_share(np.where(broken, np.nan, 0.0), evidence.clusters, level=spec.confidence)
    finding = Finding(
        "SCORE.NONFINITE",
        "warning",
        f"{int(np.count_nonzero(broken))} of {broken.size} labelled samples got NaN or infinity, which is no score",
        "find what makes them: an empty answer, a division by zero, float16; a trainer would take them in or crash",
        share,
        tuple(str(key) for key in evidence.sample_ids[broken][:MOST_EVIDENCE]),
    )
    return [Line("not finite", "share of labelled samples", "", share)], [finding]


CONSTANT = {0.0: "SCORE.ALL_ZERO", 1.0: "SCORE.ALL_ONE"}
"""Codes of constants that have one of their own."""
PILES = ("SCORE.TWO_POINT", "SCORE.ZERO_INFLATED", "SCORE.SATURATED")


def _piles(reward: _Reward, unlabelled: int) -> Part:
    """How many values there are, and what lies at one of them."""
    shares, n = reward.shares, reward.values.size
    ends = "observed" if reward.bounds is None else "declared"
    looked_at = f"samples with a label; {unlabelled} without one not looked at" if unlabelled else ""
    count = Estimate(
        float(shares.distinct), None, None, n, shares.zeros.n_clusters, "distinct values", "no interval: a count"
    )
    lines = [Line("distinct values", "count", looked_at, count)]
    at = {"lowest": (shares.lowest, shares.at_lowest), "highest": (shares.highest, shares.at_highest)}
    lines += [Line(f"at the {end}, {value:g}", "share", ends, share) for end, (value, share) in at.items()]
    inner = {shares.most_common: shares.at_most_common, 0.0: shares.zeros}
    lines += [
        Line(f"at {value:g}", "share", "most common" if value == shares.most_common else "", share)
        for value, share in inner.items()
        if value not in (shares.lowest, shares.highest) and round((share.value or 0.0) * n) > 1
    ]
    if shares.negative.value and shares.positive.value:
        lines.append(Line("below 0", "share", "", shares.negative))
    if n < LEAST:
        return lines, []
    if shares.distinct == 1:
        return lines, [_constant(reward)]
    found = [_two_point(reward, count)] if shares.distinct == 2 else []
    return lines, found + _at_one_value(reward, ends)


def _two_point(reward: _Reward, count: Estimate) -> Finding:
    low, high = (float(value) for value in np.unique(reward.values))
    return Finding(
        "SCORE.TWO_POINT",
        "info",
        f"all {count.n} values of {reward.name} are {low:g} or {high:g} "
        f"({int(np.count_nonzero(reward.values == high))}): it tells right from wrong and no more",
        "read a correlation as the distance of two groups; where degrees matter, reward separate dimensions",
        count,
    )


def _at_one_value(reward: _Reward, ends: str) -> list[Finding]:
    """Too much at 0, or at an end of the range."""
    shares, n, findings = reward.shares, reward.values.size, []
    if shares.distinct > 2 and _above(shares.zeros, PILE):
        findings.append(
            Finding(
                "SCORE.ZERO_INFLATED",
                _weight(shares.zeros),
                f"{in_percent(shares.zeros)} of {n} values of {reward.name} are exactly 0, the others lie from "
                f"{reward.values[reward.values != 0].min():g} to {reward.values[reward.values != 0].max():g}",
                f"{reward.remedy(0.0)}; {FAILED_AS_ZERO}",
                shares.zeros,
                reward.samples_at(0.0),
            )
        )
    zeros_said, threshold = bool(findings), NEARLY_ALL if shares.distinct == 2 else PILE
    for end, value, share in (
        ("lowest", shares.lowest, shares.at_lowest),
        ("highest", shares.highest, shares.at_highest),
    ):
        if value is None or (value == 0 and zeros_said) or not _above(share, threshold):
            continue
        findings.append(
            Finding(
                "SCORE.SATURATED",
                _weight(share),
                f"{in_percent(share)} of {n} values of {reward.name} are at the {end}, {value:g} ({ends}), and are not "
                "told apart",
                reward.remedy(value),
                share,
                reward.samples_at(value),
            )
        )
    return findings


def _constant(reward: _Reward) -> Finding:
    value, n = float(reward.values[0]), reward.values.size
    code = CONSTANT.get(value, "SCORE.CONSTANT")
    return Finding(
        code,
        "blocking",
        f"all {n} values of {reward.name} are {value:g}: it orders nothing, and no agreement can be measured",
        f"{reward.remedy(value)}; see that the scorer reads the answer, and the reference where there is one",
        reward.shares.at_most_common,
        reward.samples_at(value),
    )


def _extremes(reward: _Reward, spec: AuditSpec, piled: bool) -> Part:
    """Whether a few samples make the variance."""
    tails = tail(reward.values, reward.clusters, level=reward.level)
    owned = extreme_share(reward.values, reward.clusters, level=reward.level)
    details = {"excess_kurtosis": tails.excess_kurtosis}
    lines = [
        Line("variance that the extreme 5 % own", "share", ".28 in a normal distribution", owned, details=details),
        Line(
            "tail index (Hill)",
            "both tails",
            "if a power law; variance is infinite below 2",
            tails.hill,
        ),
        Line("extreme value index", "both tails", "above 0: heavier than exponential", tails.index),
    ]
    dominated = _above(owned, DOMINATED) and not piled
    heavy = tails.heavy and owned.value is not None and owned.value >= HEAVY
    if not (heavy or dominated):
        return lines, []
    told = [f"the extreme 5 % of {owned.n} values of {reward.name} own {in_percent(owned)} of its variance"]
    if tails.heavy:
        told.append(
            f"its extreme value index is {in_figures(tails.index)}, its tail index (Hill) {in_figures(tails.hill)}"
        )
    away = np.abs(reward.values - np.median(reward.values))
    farthest = np.argsort(-away, kind="stable")[:MOST_EVIDENCE]
    hangs = spec.statistic == "pearson"
    told.append("the registered Pearson r hangs on them" if hangs else "ranks do not see it, training does")
    finding = Finding(
        "SCORE.HEAVY_TAIL",
        "warning" if hangs else "info",
        "; ".join(told),
        f"{FEW_DOMINATE}; take a rank statistic, and do not trust a KL penalty alone to hold such a reward",
        tails.index if tails.heavy else owned,
        tuple(str(key) for key in reward.ids[farthest]),
    )
    return lines, [finding]


def _modes(reward: _Reward, spec: AuditSpec) -> Part:
    found = unimodality(reward.values, reward.clusters, rng=generator(spec, "modes"))
    why = found.why if found.p is None else "no interval: a p"
    p = Estimate(found.p, None, None, found.n, found.n, found.method, why)
    details = {"dip": found.dip}
    lines = [Line("p of one mode", "pooled", "small where one mode is not enough", p, details=details)]
    if found.p is None or found.p > float(spec.alpha):
        return lines, []
    finding = Finding(
        "SCORE.MULTIMODAL",
        "info",
        f"the values of {reward.name} have more than one mode ({found.method}, {found.n} values, p {found.p:.3g})",
        "several criteria, sources or scales may be mixed: read samples of each mode one by one, and break agreement "
        "down by strata",
        p,
    )
    return lines, [finding]


def _ties(reward: _Reward, scored: Evidence, spec: AuditSpec, piled: bool) -> Part:
    pooled = tied_pairs(reward.values, reward.clusters, level=reward.level)
    lines, decides, where = [Line("tied pairs", "pooled", "", pooled)], pooled, "pairs"
    if spec.group_by in scored.columns:
        groups = groups_of(scored, spec.group_by)
        within = tied_pairs(reward.values, whole_groups(scored, groups), groups=groups, level=reward.level)
        if within.value is not None:
            lines.append(Line("tied pairs", f"within {spec.group_by}", "", within))
            decides, where = within, f"pairs within {spec.group_by}"
    if piled or reward.shares.distinct < 3 or not _above(decides, TIED):
        return lines, []
    finding = Finding(
        "SCORE.QUANTISED_TIES",
        "info",
        f"{reward.name} has {reward.shares.distinct} values in {reward.values.size} samples and ties "
        f"{in_percent(decides)} of {where}, which it cannot order",
        "give it finer steps (float32, a mean of several scorings), or take a statistic that counts ties as ties",
        decides,
    )
    return lines, [finding]


def _signs(scored: Evidence, spec: AuditSpec) -> Part:
    """In how many prompts the reward falls as the label rises."""
    if spec.group_by not in scored.columns:
        return [], []
    groups = groups_of(scored, spec.group_by)
    units = whole_groups(scored, groups)
    found = sign_consistency(scored.reward, scored.human, groups, units, level=spec.confidence)
    if found.negative.value is None:
        return [], []
    rules = f"{found.constant_component} constant in reward, {found.constant_human} in label left out"
    lines = [Line("reward falls as the label rises", f"share of {spec.group_by}", rules, found.negative)]
    if not _above(found.negative, REVERSED):
        return lines, []
    finding = Finding(
        "SCORE.SIGN_INCONSISTENT",
        "warning",
        f"in {in_percent(found.negative)} of {found.negative.n} {spec.group_by}s {spec.reward} falls as {spec.label} "
        f"rises, in {in_percent(found.positive)} it rises",
        DISAGREES,
        found.negative,
    )
    return lines, [finding]


def _density(reward: _Reward, scored: Evidence, spec: AuditSpec) -> Part:
    """Groups of answers of one policy to one prompt that differ in reward."""
    if spec.group_by not in scored.columns:
        return [], []
    names = [name for name in dict.fromkeys((spec.group_by, spec.system_by, "step")) if name in scored.columns]
    cells = zip(groups_of(scored, spec.group_by), *(scored.columns[name] for name in names[1:]), strict=True)
    groups = np.array(["\x1f".join(map(str, row)) for row in cells], dtype=object)
    found = informative_groups(reward.values, groups, clusters=whole_groups(scored, groups), level=reward.level)
    seen = found.informative
    if seen.value is None:
        return [], []
    what = " and ".join(names)
    shares = {"at the lowest": found.all_lowest, "at the highest": found.all_highest, "between": found.all_between}
    still = ", ".join(f"{100 * share:.1f} % {name}" for name, share in shares.items() if share)
    rules = f"{found.single} of one answer left out" + (f"; all alike {still}" if still else "")
    alike = "1 − p^n − (1 − p)^n, of any number of values; too high where prompts differ"
    lines = [
        Line("answers that differ in reward", f"share of groups by {what}", rules, seen),
        Line("the same if prompts were alike", f"share of groups by {what}", alike, found.if_alike),
    ]
    if seen.high is None or seen.high >= FEW_INFORMATIVE:
        return lines, []
    most = max(shares, key=lambda name: shares[name] or 0.0)
    low, high = reward.values.min(), reward.values.max()
    value = {"at the lowest": float(low), "at the highest": float(high)}.get(most)
    finding = Finding(
        "SCORE.FEW_INFORMATIVE",
        "warning" if seen.high < HARDLY_INFORMATIVE else "info",
        f"in {in_percent(seen)} of {seen.n} groups by {what} answers differ in {reward.name} (all alike {still}); if "
        f"prompts were alike it would be {100 * (found.if_alike.value or 0.0):.1f} %; a trainer that normalises within "
        "groups learns nothing from the others",
        UNCLEAR if value is None else replace(reward, bounds=None).remedy(value),
        seen,
    )
    return lines, [finding]


def _above(estimate: Estimate, threshold: float) -> bool:
    return estimate.low is not None and estimate.low > threshold


def _weight(share: Estimate) -> Severity:
    return "warning" if _above(share, NEARLY_ALL) else "info"
