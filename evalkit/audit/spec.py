"""The audit's contract: which agreement, at which level, by which rules, and what decides. Frozen before looking.

1. Fields without which an agreement has no meaning have no default: they are written by whoever answers for the audit.
2. Everything else takes the default named here and is written into the lock, so that a printed table can name it.
3. What a frozen spec names is pre-registered; whatever else an audit computes is exploratory and says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from evalkit.canonical import digest
from evalkit.errors import BadInput, Refused
from evalkit.files import read_json, write_whole
from evalkit.protocol import copy_starter, validated
from evalkit.protocol.load import explain
from evalkit.protocol.lock import content_of, refuse_other_fields
from evalkit.protocol.spec import NAME, Flag, Number, Section, Text, Whole
from evalkit.protocol.strict_yaml import read_yaml

FORMAT = "evalkit-audit-lock/1"
NO_CLUSTERS = "none"

Correlation = Literal["pearson", "spearman", "kendall_b", "kendall_a", "kendall_c", "gamma", "somers_d"]
OfPairs = Literal["ordering_accuracy", "acc_eq"]
OfLabels = Literal["accuracy", "kappa", "macro_f1"]
Statistic = Correlation | OfPairs | Literal["auc"] | OfLabels
OF_LABELS = ("accuracy", "kappa", "macro_f1")
OF_PAIRS = ("ordering_accuracy", "acc_eq")


class Scale(Section):
    """The range that values are declared to lie in."""

    low: Number
    high: Number
    higher_is_better: Flag = True

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low < self.high:
            raise ValueError(f"low {self.low} is not below high {self.high}; give the lower end first")
        return self


class Thresholds(Section):
    """What decides, on the scale of the statistic, against the ends of its interval."""

    trustworthy: Number
    """The interval's low end reaches this: trustworthy."""
    usable: Number
    """The low end reaches this: usable with limits. The high end does not: not trustworthy. Neither: cannot tell."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.usable <= self.trustworthy:
            raise ValueError(f"usable {self.usable} is above trustworthy {self.trustworthy}; exchange them")
        return self


class AuditSpec(Section):
    """A whole audit spec. Frozen: a change is a new version."""

    name: Annotated[Text, Field(pattern=NAME)]
    version: Annotated[Whole, Field(ge=1)]
    description: Text = ""
    reward: Text
    """The component (or judge) that is audited: its name in the scores."""
    label: Text
    """The human dimension it is held against: its name in the labels."""
    statistic: Statistic
    level: Literal["pooled", "group", "within", "system"]
    """Over all samples, the mean over groups, after group means are removed, or of system means."""
    cluster_by: Text
    """The column whose equal values are one unit of independence, or `none`: every sample its own."""
    thresholds: Thresholds
    group_by: Text = "item_id"
    """The groups of level group and within: one prompt's samples, as a rule."""
    system_by: Text = "policy"
    """The systems of level system."""
    weights: Literal["equal", "size"] = "equal"
    """Whether groups count alike, or by their number of samples."""
    ties: Literal["wrong", "half", "excluded", "right"] = "half"
    """What a pair that the reward ties counts as, for ordering_accuracy."""
    missing: Literal["exclude", "worst"] = "exclude"
    """A labelled sample without a score: left out (with bounds shown), or counted at the end of the scale that agrees
    least with its label."""
    undefined: Literal["exclude", "zero"] = "exclude"
    """A group in which reward or label is constant has no correlation: left out and counted, or counted as 0."""
    unparsed: Text = "wrong"
    """A verdict that could not be read: `wrong`, `exclude`, or the label it is to count as, such as `tie`."""
    verdict_names: Literal["answer", "position"] | None = None
    """What a judge of pairs names: the answer whatever its place, or the place. None where verdicts are no preference
    between two answers; there is no guess."""
    positions: tuple[Text, ...] = ()
    """What verdicts call the first and the second place, where they name places."""
    orders: dict[str, tuple[Text, Text]] = Field(default_factory=dict)
    """By value of the column `order`: the label that stands in the first place, and that in the second."""
    combine_orders: Literal["both", "average", "first"] | None = None
    """How verdicts of two orders become one: `both` (where they name different answers the sample is wrong), `average`
    (each order counts half), or `first` (only the first of `orders`). For numbers `average` or `first`."""
    repeats: Literal["mean", "median", "majority"] | None = None
    """How several scorings of a sample become one: of numbers the mean or median of those with a value, of verdicts the
    majority, and no verdict where it is tied. None refuses a table with repeats."""
    annotators: Literal["mean", "median", "majority"] = "mean"
    """How several labels of one sample become one. A majority that is tied is no label."""
    scales: dict[str, Scale] = Field(default_factory=dict)
    """By name of a reward or label."""
    labels: tuple[Text, ...] = ()
    """The vocabulary of categorical labels, in order where they have one; none takes what occurs."""
    reward_means: Literal["log_odds", "probability"] | None = None
    """What the reward's values claim to be, beyond an order: log odds, so that σ(difference) is the chance that the
    better one is preferred (a Bradley–Terry reward model), or the probability of label 1. Then a reward whose claim
    fails is warned of; None only tells how far it would fail."""
    strata: tuple[Text, ...] = ()
    """Columns to break the agreement down by."""
    controls: tuple[Text, ...] = ()
    """Numeric columns to hold constant in a partial correlation, such as length."""
    components: tuple[Text, ...] = ()
    """Further components of the scores to hold against the label."""
    total: dict[Text, Number] = Field(default_factory=dict)
    """Component → weight: the reward is declared to be this weighted sum, in the units of the scores as they are."""
    component_labels: dict[Text, Text] = Field(default_factory=dict)
    """Component → the human dimension that it is held against besides the overall label, where labels have more."""
    against: Text = ""
    """Another component of the same scores, or judge of the same verdicts, that the reward is compared with on the
    samples that both score; empty for none."""
    epsilon: Annotated[Number, Field(ge=0, lt=1)] = Decimal("0.2")
    """What an annotator may be better by for the reward still to replace them: Calderon et al. 2025 suggest .2 for
    experts, .15 for skilled annotators, .1 for crowd workers."""
    alpha: Annotated[Number, Field(gt=0, lt=1)] = Decimal("0.05")
    """Intervals cover 1 − alpha; tests of the family reject at alpha."""
    multiplicity: Literal["bh", "by"] = "bh"
    """False discovery rate over the strata declared here, and over the tests of drift. Findings on components hold at
    1 − alpha/m for m of them."""
    interval: Literal["influence", "percentile", "bca"] = "influence"
    """Of the registered statistic: influence functions by cluster with t(G − 1), or a bootstrap of whole clusters, with
    plain percentiles or BCa."""
    draws: Annotated[Whole, Field(ge=100, le=100_000)] = 1000
    """Resamples and permutations."""
    seed: Annotated[Whole, Field(ge=0, lt=2**53)] = 0
    coverage: Annotated[Number, Field(gt=0, le=1)] = Decimal("0.95")
    """Share of labelled samples that must have a score; below it a finding warns."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.statistic in OF_LABELS and self.level != "pooled":
            raise ValueError(f"statistic {self.statistic} has only level pooled")
        if self.statistic == "auc" and self.level not in ("pooled",):
            raise ValueError("statistic auc has only level pooled")
        if self.statistic == "ordering_accuracy" and self.level not in ("pooled", "within"):
            raise ValueError("statistic ordering_accuracy has level pooled or within")
        if self.statistic == "acc_eq" and self.level != "within":
            raise ValueError("statistic acc_eq has level within: pairs of one group")
        if self.level == "within" and self.statistic not in ("pearson", "spearman", "kendall_b", *OF_PAIRS):
            raise ValueError("level within takes pearson, spearman, kendall_b, ordering_accuracy or acc_eq")
        if self.annotators == "majority" and self.statistic not in (*OF_LABELS, "auc"):
            raise ValueError("annotators majority is for categorical labels; take mean or median")
        if self.missing == "worst" and self.statistic not in OF_LABELS and self.reward not in self.scales:
            raise ValueError(f"missing worst needs the range of {self.reward} in scales")
        self._check_orders()
        self._check_components()
        self._check_meaning()
        if self.against == self.reward:
            raise ValueError(f"against {self.against} is the reward itself; name another component")
        for field in ("strata", "controls", "components"):
            if len(set(getattr(self, field))) != len(getattr(self, field)):
                raise ValueError(f"{field} lists a name twice; keep one")
        return self

    def _check_components(self) -> None:
        if self.categorical and (self.total or self.component_labels):
            field = "total" if self.total else "component_labels"
            raise ValueError(f"{field} is for numbers, and statistic {self.statistic} takes labels; leave it out")
        if self.reward in self.total:
            raise ValueError(f"total names the reward itself; name the components that {self.reward} is the sum of")
        for name, weight in self.total.items():
            if weight == 0:
                raise ValueError(f"total gives {name} weight 0; leave it out, and name it under components to see it")
        for name, dimension in self.component_labels.items():
            if name not in (*self.total, *self.components):
                raise ValueError(f"component_labels names {name}, which is in neither total nor components; add it")
            if dimension == self.label:
                raise ValueError(
                    f"component_labels holds {name} against {dimension}, the overall label, which all are; leave it out"
                )

    def _check_meaning(self) -> None:
        if self.reward_means is not None and self.categorical:
            raise ValueError("reward_means is for numbers; leave it out for verdicts")
        if self.reward_means == "log_odds" and self.level not in ("group", "within"):
            raise ValueError("reward_means log_odds is about pairs of one prompt: it needs level group or within")
        scale = self.scales.get(self.reward)
        if self.reward_means == "probability" and (scale is None or scale.low != 0 or scale.high != 1):
            raise ValueError(f"reward_means probability needs scales: {{{self.reward}: {{low: 0, high: 1}}}}")

    def _check_orders(self) -> None:
        if bool(self.orders) != (self.combine_orders is not None):
            raise ValueError("orders and combine_orders go together: declare both, or neither")
        if len(self.orders) > 2:
            raise ValueError("orders lists more than the two orders that a pair has")
        if any(first == second for first, second in self.orders.values()):
            raise ValueError("orders has one label in both places")
        if len({frozenset(labels) for labels in self.orders.values()}) > 1:
            raise ValueError("orders has other labels in one order than in the other")
        if len(self.orders) == 2 and len({labels[0] for labels in self.orders.values()}) == 1:
            raise ValueError("orders has the same label first in both orders; exchange the labels of one")
        if (self.verdict_names == "position") != (len(set(self.positions)) == 2 == len(self.positions)):
            raise ValueError("verdict_names position and positions (two words) go together: declare both, or neither")
        if self.categorical and self.orders and self.verdict_names is None:
            raise ValueError("orders need verdict_names: answer or position")
        if self.verdict_names == "position" and not self.orders:
            raise ValueError("verdict_names position needs orders: which label stands where")
        if self.verdict_names is not None and not self.categorical:
            raise ValueError("verdict_names is for verdicts: statistic accuracy, kappa or macro_f1")
        if not self.categorical and self.combine_orders == "both":
            raise ValueError("combine_orders both is for verdicts; take average or first")
        if self.repeats is not None and self.categorical != (self.repeats == "majority"):
            raise ValueError("repeats is majority for verdicts, mean or median for numbers")

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"

    @property
    def further(self) -> tuple[str, ...]:
        """Names in the scores that the audit reads besides the reward."""
        return tuple(dict.fromkeys([*self.total, *self.components, *([self.against] if self.against else [])]))

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Names in the labels that the audit reads besides the overall label."""
        return tuple(dict.fromkeys(self.component_labels.values()))

    @property
    def categorical(self) -> bool:
        """Whether scores are labels, not numbers."""
        return self.statistic in OF_LABELS

    @property
    def confidence(self) -> float:
        """Coverage of intervals."""
        return float(1 - self.alpha)


@dataclass(frozen=True, slots=True)
class AuditLock:
    """A frozen audit spec."""

    spec: AuditSpec
    digest: str
    """Of every field but name, version and description."""


def load_audit_spec(path: Path) -> AuditSpec:
    """The spec of a YAML file, validated and with defaults filled in; not yet frozen.

    Raises:
        BadInput: one line with file, row, field and mend.
    """
    return validated(read_yaml(path), AuditSpec, "`evalkit audit new NAME` writes a starter")


def write_audit_starter(folder: Path, name: str) -> Path:
    """Write a commented audit spec `NAME.audit.yaml`.

    Raises:
        BadInput: not a name.
        Refused: the file is there.
    """
    return copy_starter("evalkit.audit", folder / f"{name}.audit.yaml", name)


def lock_of(spec: AuditSpec) -> AuditLock:
    """The spec with its digest. Nothing is written."""
    content = {key: value for key, value in content_of(spec).items() if key not in ("name", "version", "description")}
    return AuditLock(spec, digest("audit", content))


def lock_path(folder: Path, spec: AuditSpec) -> Path:
    """Where a spec's lock lies: `NAME.vN.audit.lock.json`."""
    return folder / f"{spec.name}.v{spec.version}.audit.lock.json"


def freeze_audit(path: Path) -> tuple[AuditLock, Path, bool]:
    """Freeze a YAML audit spec: write its lock beside it.

    Returns:
        The lock, its path, and whether it was written now (False: the same content was frozen before).

    Raises:
        BadInput: the file is not a spec.
        Refused: this version is frozen with other content.
        DiskRefused: the lock cannot be written.
    """
    lock = lock_of(load_audit_spec(path))
    target = lock_path(path.parent, lock.spec)
    if target.exists():
        old = load_audit_lock(target)
        if old.digest == lock.digest:
            return old, target, False
        before, after = content_of(old.spec), content_of(lock.spec)
        changed = [name for name in after if before.get(name) != after[name] and name != "description"]
        raise Refused(
            f"{path}: {lock.spec.id} is frozen with other content ({', '.join(changed)}); "
            f"set version: {lock.spec.version + 1}"
        )
    content = {"format": FORMAT, "id": lock.spec.id, "digest": lock.digest, "spec": content_of(lock.spec)}
    write_whole(target, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    return lock, target, True


def load_audit_lock(path: Path) -> AuditLock:
    """Read a lock and check that its digest is that of its content.

    Raises:
        BadInput: no lock, another format, or edited after freezing.
    """
    data = read_json(path, FORMAT, "name a lock that `evalkit audit freeze` wrote")
    return _parse(data, str(path))


def _parse(data: Mapping[str, Any], source: str) -> AuditLock:
    try:
        lock = lock_of(AuditSpec.model_validate(data["spec"], context={"lock": True}))
        refuse_other_fields(data["spec"], lock.spec, source)
        stated = data["digest"]
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in fault["loc"])
        raise BadInput(f"{source}, field spec.{field}: {explain(fault)}") from None
    except (KeyError, TypeError) as error:
        raise BadInput(f"{source}: not a complete lock ({error}); freeze the spec again") from None
    if lock.digest != stated:
        raise BadInput(
            f"{source}, field digest: the content was changed after freezing; "
            "restore the file, or freeze the change as a new version"
        )
    return lock
