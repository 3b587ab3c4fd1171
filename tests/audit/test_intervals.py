"""The kind of interval that a spec names, and what few clusters are worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import bootstrap, pearsonr

from evalkit.api import audit_reward
from evalkit.audit import Audit
from evalkit.errors import BadInput
from tests.audit.support import Desk

GROUPS, EACH = 40, 5


def held(desk: Desk, groups: int = GROUPS, **spec: Any) -> Audit:
    rng = np.random.default_rng(2)
    item = np.repeat(range(groups), EACH)
    human = rng.normal(size=item.size) + rng.normal(size=groups)[item]
    reward = human + rng.normal(size=item.size) + rng.normal(size=groups)[item]
    rows = zip(range(item.size), item, reward, human, strict=True)
    table = desk.table("t.csv", ["sample_id", "item_id", "reward", "label"], rows)
    return audit_reward(
        table, table, desk.spec(**{"cluster_by": "item_id", "statistic": "pearson", "draws": 400, **spec})
    )


@pytest.mark.parametrize("level", ["pooled", "group", "within", "system"])
def test_every_interval_holds_the_same_value_and_says_its_method(desk: Desk, level: str) -> None:
    spec = {"level": level, **({"system_by": "item_id", "draws": 120} if level == "system" else {})}
    found = {kind: held(desk, **spec, interval=kind).registered for kind in ("influence", "percentile", "bca")}
    values = [line.estimate.value for line in found.values()]
    assert values == pytest.approx([values[0]] * 3)
    assert "percentile cluster bootstrap, " in found["percentile"].estimate.method
    assert "BCa (acceleration from 40 blocks) cluster bootstrap" in found["bca"].estimate.method
    widths = [line.estimate.high - line.estimate.low for line in found.values()]
    assert max(widths) < 1.5 * min(widths)


def test_without_clusters_bca_is_that_of_scipy(desk: Desk) -> None:
    rng = np.random.default_rng(3)
    human = rng.normal(size=40)
    reward = human + rng.exponential(size=40)
    table = desk.table("t.csv", ["sample_id", "reward", "label"], zip(range(40), reward, human, strict=True))
    spec = desk.spec(statistic="pearson", interval="bca", draws=4_000)
    mine = audit_reward(table, table, spec).registered.estimate
    theirs = bootstrap(
        (reward, human), lambda x, y: pearsonr(x, y).statistic, paired=True, vectorized=False, n_resamples=4_000,
        method="BCa", rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high), abs=0.015)


def test_fewer_than_twelve_clusters_warn_and_have_no_bootstrap(desk: Desk) -> None:
    few = held(desk, 11)
    assert few.registered.estimate.low is not None
    assert ("CLUSTER.FEW", "warning") in [(finding.code, finding.severity) for finding in few.findings]
    none = held(desk, 11, interval="percentile")
    assert none.registered.estimate.low is None
    assert none.verdict.word == "cannot tell"
    assert "11 clusters; a bootstrap of fewer than 12 covers too little" in none.verdict.rule
    assert "CLUSTER.FEW" not in [finding.code for finding in held(desk, 12).findings]


def test_clusters_that_part_a_group_have_no_bootstrap(desk: Desk) -> None:
    with pytest.raises(BadInput, match=r"interval: bca draws clusters, and clusters none part groups of item_id"):
        held(desk, cluster_by="none", level="group", interval="bca")
