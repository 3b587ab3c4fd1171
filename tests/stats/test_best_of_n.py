"""Best of n against brute force, and the constants of the field."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.stats import best_of_n, best_of_n_kl

PROXY, GOLD = [3, 1, 4, 1.5, 9, 2.6], [1, 0, 2, 5, -1, 3]


@pytest.mark.parametrize(
    ("n", "proxy", "gold"), [(1, 3.51667, 1.66667), (2, 5.11333, 1.13333), (3, 6.28, 0.4), (6, 9, -1)]
)
def test_the_worked_example_of_the_reward_audit_research(n: int, proxy: float, gold: float) -> None:
    assert best_of_n(PROXY, PROXY, n) == pytest.approx(proxy, abs=5e-6)
    assert best_of_n(PROXY, GOLD, n) == pytest.approx(gold, abs=5e-6)


@pytest.mark.parametrize(
    ("n", "bound"),
    [(1, 0), (2, 0.193147), (4, 0.636294), (8, 1.204442), (16, 1.835089), (64, 3.174508), (128, 3.859843), (1024, 5.932448)],
)  # fmt: skip
def test_the_kl_bound_is_log_n_less_n_minus_one_over_n(n: int, bound: float) -> None:
    assert best_of_n_kl(n) == pytest.approx(bound, abs=5e-7)


@given(
    pairs=st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 9)), min_size=1, max_size=7),
    n=st.integers(1, 7),
)
def test_every_choice_of_n_answers_counts_once_and_ties_as_their_mean(pairs: list[tuple[int, int]], n: int) -> None:
    n = min(n, len(pairs))
    proxy, gold = np.array(pairs, dtype=float).T
    picked = []
    for chosen in combinations(range(len(pairs)), n):
        rows = np.array(chosen)
        best = rows[proxy[rows] == proxy[rows].max()]
        picked.append(gold[proxy == proxy[best[0]]].mean())
    assert best_of_n(proxy, gold, n) == pytest.approx(np.mean(picked))


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="n: 3 is not from 1 to 2"):
        best_of_n([1, 2], [1, 2], 3)
    with pytest.raises(ValueError, match="score: 1 values for 2 of proxy"):
        best_of_n([1, 2], [1], 1)
    with pytest.raises(ValueError, match="n: 0; at least 1"):
        best_of_n_kl(0)
