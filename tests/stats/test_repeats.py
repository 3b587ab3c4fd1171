"""Two repeats of one evaluation: published repeatability, exact variances, and what cannot be told."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.stats import cluster_standard_error, retest, retest_sd

# Bland & Altman 1986, Lancet 327:307-310, table 1: peak flow (l/min) of 17 people, twice with each of two meters. They
# give √(Σd²/n) as 21.6 and 28.2, half of the coefficients of repeatability 43.2 and 56.4.
WRIGHT = (
    [494, 395, 516, 434, 476, 557, 413, 442, 650, 433, 417, 656, 267, 478, 178, 423, 427],
    [490, 397, 512, 401, 470, 611, 415, 431, 638, 429, 420, 633, 275, 492, 165, 372, 421],
)
MINI = (
    [512, 430, 520, 428, 500, 600, 364, 380, 658, 445, 432, 626, 260, 477, 259, 350, 451],
    [525, 415, 508, 444, 500, 625, 460, 390, 642, 432, 420, 605, 227, 467, 268, 370, 443],
)


@pytest.mark.parametrize(("readings", "published"), [(WRIGHT, 21.6), (MINI, 28.2)])
def test_with_a_cluster_each_it_is_the_repeatability_that_bland_and_altman_print(
    readings: tuple[list[int], list[int]], published: float
) -> None:
    first, second = map(np.array, readings)
    assert retest_sd(second - first, np.arange(17)) * math.sqrt(2 * 17) == pytest.approx(published, abs=0.05)


def test_by_hand_with_clusters() -> None:
    # clusters x: +1 +1, y: −1 +1, z: 0; D = 2, 0, 0; √(4/2)/5
    found = retest([0, 0, 1, 0, 1], [1, 1, 0, 1, 1], list("abcde"), list("xxyyz"))
    assert found.run_sd == pytest.approx(math.sqrt(2) / 5)
    assert (found.flip_rate.value, found.difference.value) == (0.8, 0.4)
    assert (found.flip_rate.n, found.flip_rate.n_clusters, found.items) == (5, 3, 5)
    assert found.item_sd == pytest.approx(math.sqrt(4 / 5))
    assert found.why == ""


def test_trials_of_an_item_are_averaged_before_items_are_compared() -> None:
    # item a: 1/2 → 1, item b: 1 → 1/2
    found = retest([1, 0, 1, 1], [1, 1, 0, 1], list("aabb"), list("aabb"))
    assert (found.items, found.item_sd) == (2, 0.5)
    assert found.difference.value == 0.0
    assert found.run_sd == pytest.approx(math.sqrt((1 + 1) / 2) / 4)


def test_its_square_is_on_average_the_variance_of_a_runs_mean() -> None:
    """Items in clusters, each cluster with a shock of its own in every run: the variance is known exactly."""
    rng = np.random.default_rng(7)
    sizes = np.array([1, 2, 3, 4, 6, 8])
    clusters = np.repeat(np.arange(6), sizes)
    n = clusters.size

    def run() -> np.ndarray:
        return np.asarray(rng.normal(size=6)[clusters] + rng.normal(size=n))

    truth = (float(sizes @ sizes) + n) / n**2
    found = np.mean([retest_sd(run() - run(), clusters) ** 2 for _ in range(4000)])
    assert found == pytest.approx(truth, rel=0.05)


@given(st.lists(st.integers(-1, 1), min_size=2, max_size=30))
def test_around_its_own_mean_it_is_the_cluster_robust_error_over_root_two(differences: list[int]) -> None:
    """sd(d)/√(2G) with clusters: CR0 is the same sum about the mean, which is zero once d is mirrored."""
    mirrored = np.array([*differences, *(-d for d in differences)])
    labels = np.arange(mirrored.size)
    assert retest_sd(mirrored, labels) == pytest.approx(cluster_standard_error(mirrored, labels, "CR0") / math.sqrt(2))


def test_equal_repeats_have_a_bound_on_flips_and_no_deviation_of_zero() -> None:
    found = retest([1, 0, 1], [1, 0, 1], list("abc"), list("abc"))
    assert found.flip_rate.value == 0.0
    assert found.flip_rate.high == pytest.approx(1 - 0.025 ** (1 / 3))  # Clopper–Pearson, 0 of 3
    assert found.run_sd is None
    assert found.why == "the mean of none of 3 clusters moved, which is not to say that there is no noise"


def test_one_cluster_has_a_difference_and_no_deviation() -> None:
    found = retest([1, 0], [0, 0], list("ab"), list("xx"))
    assert (found.flip_rate.value, found.difference.value, found.run_sd) == (0.5, -0.5, None)
    assert found.why == "all 2 pairs are in one cluster; a spread needs two or more"


def test_nothing_judged_is_said() -> None:
    found = retest([], [], [], [])
    assert (found.flip_rate.value, found.difference.value, found.run_sd, found.item_sd) == (None, None, None, None)
    assert found.why == "no sample was judged in both repeats"


def test_graded_values_are_refused() -> None:
    with pytest.raises(ValueError, match="second: expected successes as true/false or 0/1"):
        retest([1.0], [0.5], ["a"], ["a"])
