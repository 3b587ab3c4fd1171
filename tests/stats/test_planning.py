"""What a comparison could have shown, and what selection adds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evalkit.stats import expected_maximum, minimum_detectable_effect, selection_optimism


def test_detectable_effect_in_figures() -> None:
    # t(49): .975 quantile 2.009575, .8 quantile 0.849018 → 2.858594 standard errors; normal limit 1.959964 + 0.841621.
    assert minimum_detectable_effect(0.02, 49) == pytest.approx(0.0571719, abs=1e-6)
    assert minimum_detectable_effect(1.0, 1e9) == pytest.approx(2.801585, abs=1e-5)
    assert minimum_detectable_effect(1.0, 1e9, alpha=0.01, power=0.9) == pytest.approx(2.575829 + 1.281552, abs=1e-5)


def test_no_variation_does_not_mean_that_every_effect_is_found() -> None:
    assert math.isnan(minimum_detectable_effect(0.0, 10))
    assert math.isnan(minimum_detectable_effect(math.nan, 10))
    assert math.isnan(minimum_detectable_effect(0.1, 0))
    assert math.isnan(minimum_detectable_effect(0.1, 0.5))


def test_the_expected_maximum_of_normals() -> None:
    # Closed forms to m = 5; Harter 1961 for 10 and 100.
    assert expected_maximum(1) == 0.0
    assert expected_maximum(2) == pytest.approx(1 / math.sqrt(math.pi), abs=1e-12)
    assert expected_maximum(3) == pytest.approx(1.5 / math.sqrt(math.pi), abs=1e-12)
    assert expected_maximum(5) == pytest.approx(1.1629644736, abs=1e-9)
    assert expected_maximum(10) == pytest.approx(1.53875, abs=1e-5)
    assert expected_maximum(100) == pytest.approx(2.50759, abs=1e-5)


def test_optimism_is_that_of_the_best_of_m_equal_candidates() -> None:
    assert selection_optimism(0.03, 1) == 0.0
    assert selection_optimism(0.03, 2) == pytest.approx(0.03 / math.sqrt(2 * math.pi))
    assert math.isnan(selection_optimism(math.nan, 2))


@pytest.mark.slow
def test_optimism_is_what_selecting_on_shared_items_gains() -> None:
    rng = np.random.default_rng(4)
    m, own = 6, 0.5  # each candidate: shared luck of the items plus its own; se of a difference = own · √2
    seen = rng.normal(size=(40_000, 1)) + own * rng.normal(size=(40_000, m))
    gain = float(seen.max(axis=1).mean())
    assert gain == pytest.approx(selection_optimism(own * math.sqrt(2), m), abs=0.02)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: expected_maximum(0), "m ≥ 1"),
        (lambda: selection_optimism(-0.1, 2), "negative"),
        (lambda: selection_optimism(0.1, 0), "m ≥ 1"),
        (lambda: minimum_detectable_effect(-0.1, 5), "negative"),
        (lambda: minimum_detectable_effect(0.1, 5, alpha=0.0), "alpha"),
        (lambda: minimum_detectable_effect(0.1, 5, power=1.0), "power"),
        (lambda: minimum_detectable_effect(0.1, 5, alpha=0.2, power=0.1), "power"),
    ],
)
def test_wrong_arguments_are_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
