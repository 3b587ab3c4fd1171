"""What comparisons of two rewards promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from evalkit.stats import Discordance, adjust, discordant_pairs, mcnemar, perm_both, williams
from tests.stats.shared_data import pandalm


def test_discordant_judges_of_judgebench_are_not_told_apart() -> None:
    # JudgeBench, a 27B against a 7B reward model: 52 and 34 discordant of 350, exact p = .066.
    test = mcnemar(Discordance(52, 34, 180, 84), mid_p=False)
    assert test.p == pytest.approx(0.0659, abs=5e-4)
    assert "86 of 350 pairs discordant" in test.method


def test_the_judges_of_pandalm_differ_as_recomputed() -> None:
    data = pandalm()
    majority = np.array([np.argmax(np.bincount(row.astype(int), minlength=3)) for row in data.humans])
    counts = discordant_pairs(
        data.gpt == majority,  # an unparsed verdict is wrong
        data.pandalm == majority,
    )
    assert (counts.a_only, counts.b_only) == (145, 115)
    assert mcnemar(counts, mid_p=False).p == pytest.approx(0.0719, abs=5e-5)


@given(st.integers(0, 40), st.integers(0, 40))
def test_exact_mcnemar_is_statsmodels(a: int, b: int) -> None:
    counts = Discordance(a, b, 3, 4)
    if a + b:
        expected = statsmodels_mcnemar([[3, a], [b, 4]], exact=True).pvalue
        assert mcnemar(counts, mid_p=False).p == pytest.approx(min(1.0, expected), abs=1e-12)
        assert 0 < mcnemar(counts).p <= mcnemar(counts, mid_p=False).p
    else:
        assert mcnemar(counts).p == 1


def test_williams_is_the_published_example_and_does_not_care_which_is_larger() -> None:
    # Steiger 1980, p. 247, as in R's psych::r.test(103, .4, .5, .1): t = −.89, p = .37.
    test = williams(0.4, 0.5, 0.1, 103)
    assert (test.statistic, test.p) == (pytest.approx(-0.89, abs=0.005), pytest.approx(0.37, abs=0.006))
    assert williams(0.5, 0.4, 0.1, 103).p == pytest.approx(test.p, abs=1e-12)
    assert williams(0.5, 0.5, 1.0, 103).p is None
    assert williams(0.5, 0.4, 0.1, 3).p is None


def test_perm_both_sees_a_better_reward_and_not_the_same_one_twice() -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=120)
    a, b = y + 3 * rng.normal(size=120), 100 * (y + 0.5 * rng.normal(size=120))
    found = perm_both(a, b, y, range(120), kind="spearman", rng=rng, draws=199)
    assert found.p == 1 / 200
    assert found.statistic > 0.3
    assert perm_both(a, a, y, range(120), kind="pearson", rng=rng, draws=99).p == 1
    assert perm_both(np.ones(120), a, y, range(120), kind="pearson", rng=rng).p is None


@pytest.mark.slow
def test_perm_both_keeps_its_level_with_clusters() -> None:
    rng = np.random.default_rng(1)
    rejected = 0
    for _ in range(400):
        groups = np.repeat(range(30), 4)
        shared = rng.normal(size=(3, 30))[:, groups]
        y, a, b = shared[0] + rng.normal(size=120), shared[1] + rng.normal(size=120), shared[2] + rng.normal(size=120)
        y = y + a + b
        rejected += perm_both(a, b, y, groups, kind="pearson", rng=rng, draws=99).p <= 0.05
    assert rejected / 400 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.sampled_from(["bh", "by"]))
def test_adjusted_p_is_scipys(p: list[float], method: str) -> None:
    np.testing.assert_allclose(adjust(p, method=method), false_discovery_control(p, method=method), atol=1e-12)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="r_ay"):
        williams(1.2, 0.1, 0.1, 50)
    with pytest.raises(ValueError, match="from 0 to 1"):
        adjust([0.1, 1.2], method="bh")
    with pytest.raises(ValueError, match="pair them first"):
        perm_both([1, 2], [1, 2], [1, 2, 3], [0, 1], kind="pearson", rng=np.random.default_rng(0))
