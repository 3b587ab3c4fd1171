"""What the logistic fit promises."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st

from evalkit.stats.clusters import clusters_of
from evalkit.stats.logistic import logistic_fit


def sample(seed: int, n: int = 120) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    clusters = rng.integers(0, 25, n)
    x = np.column_stack([np.ones(n), rng.normal(size=n), 40 * rng.normal(size=n) + rng.normal(size=25)[clusters]])
    p = 1 / (1 + np.exp(-(x @ [0.3, 0.8, -0.01] + rng.normal(size=25)[clusters])))
    return x, (rng.random(n) < p).astype(float), clusters


@given(st.integers(0, 10_000))
def test_coefficients_and_cluster_errors_are_those_of_statsmodels(seed: int) -> None:
    x, y, clusters = sample(seed)
    fit = logistic_fit(x, y, clusters_of(clusters, y.size))
    oracle = sm.Logit(y, x).fit(disp=0, cov_type="cluster", cov_kwds={"groups": clusters})
    np.testing.assert_allclose(fit.coefficients, oracle.params, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(np.sqrt(np.diag(fit.covariance)), oracle.bse, rtol=1e-5)


def test_ties_are_half_of_each_outcome() -> None:
    x, y, clusters = sample(1)
    y[:30] = 0.5
    both = np.concatenate([range(30), range(30), np.repeat(np.arange(30, 120), 2)])
    doubled = np.concatenate([np.ones(30), np.zeros(30), np.repeat(y[30:], 2)])
    half = logistic_fit(x, y, clusters_of(clusters, 120))
    full = logistic_fit(x[both], doubled, clusters_of(clusters[both], both.size))
    np.testing.assert_allclose(half.coefficients, full.coefficients, rtol=1e-7)


def test_an_intercept_alone_is_the_log_odds() -> None:
    fit = logistic_fit(np.ones((8, 1)), np.repeat([1.0, 0.0], [6, 2]), clusters_of(range(8), 8))
    estimate = fit.coefficient(0, "intercept")
    assert estimate.value == pytest.approx(np.log(3))
    # s² of eight values / 8 over (p q)²: the standard error of a mean by the delta method, t(7)
    error = np.sqrt(6 / 8 * 2 / 8 / 7) / (6 / 8 * 2 / 8)
    assert estimate.half_width == pytest.approx(2.364624 * error, rel=1e-5)


@pytest.mark.parametrize("gap", [0.0, 1e-3, 1.0])
def test_separable_outcomes_have_no_maximum_and_say_so(gap: float) -> None:
    x = np.concatenate([-gap - np.arange(20.0), gap + np.arange(20.0)])
    y = np.repeat([0.0, 1.0], 20)
    fit = logistic_fit(np.column_stack([np.ones(40), x]), y, clusters_of(range(40), 40))
    assert "separated" in fit.why or "converge" in fit.why
    assert fit.coefficient(1, "slope").value is None


@pytest.mark.parametrize(
    ("design", "why"),
    [
        ([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]], "determined by the others"),
        ([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]], "0 everywhere"),
        ([[1.0, 0.0]], "1 observations for 2"),
    ],
)
def test_a_design_that_cannot_be_fitted_says_why(design: list[list[float]], why: str) -> None:
    fit = logistic_fit(
        np.array(design), np.array([1.0, 0.0, 1.0][: len(design)]), clusters_of([1, 2, 3][: len(design)], len(design))
    )
    assert why in fit.why


def test_one_cluster_gives_a_coefficient_without_interval() -> None:
    fit = logistic_fit(np.ones((3, 1)), np.array([1.0, 0.0, 1.0]), clusters_of([1, 1, 1], 3))
    assert fit.coefficient(0, "intercept").low is None
