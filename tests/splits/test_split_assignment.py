"""Assignment: clusters never straddle, sizes are reached where they can be, and nothing else decides the order."""

from __future__ import annotations

import random

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.splits.assign import Cluster, apportion, assign, clusters_of, order_key


@st.composite
def clusters(draw: st.DrawFn, largest: int = 4) -> list[Cluster]:
    shapes = draw(
        st.lists(st.tuples(st.integers(1, largest), st.sampled_from(["", "a", "b"])), min_size=1, max_size=60)
    )
    return [Cluster(f"c{number}", n, stratum) for number, (n, stratum) in enumerate(shapes)]


@st.composite
def cases(draw: st.DrawFn, largest: int = 4) -> tuple[list[Cluster], dict[str, int]]:
    found = draw(clusters(largest))
    room = sum(cluster.n_items for cluster in found)
    sizes = {}
    for role in draw(st.permutations(["smoke", "dev", "public", "private"])):
        if room:
            sizes[role] = draw(st.integers(1, room))
            room -= sizes[role]
    return found, sizes


def counts(found: list[Cluster], roles: dict[str, str]) -> dict[str, int]:
    total: dict[str, int] = {}
    for cluster in found:
        if cluster.cluster_id in roles:
            role = roles[cluster.cluster_id]
            total[role] = total.get(role, 0) + cluster.n_items
    return total


@given(cases(largest=1), st.integers())
def test_singleton_clusters_reach_every_size_exactly(case: tuple[list[Cluster], dict[str, int]], seed: int) -> None:
    found, sizes = case
    assert counts(found, assign(found, sizes, seed)) == sizes


@given(cases(), st.integers())
def test_no_size_is_exceeded(case: tuple[list[Cluster], dict[str, int]], seed: int) -> None:
    found, sizes = case
    for role, got in counts(found, assign(found, sizes, seed)).items():
        assert got <= sizes[role]


@given(cases(), st.integers(), st.randoms())
def test_the_order_of_clusters_does_not_matter(
    case: tuple[list[Cluster], dict[str, int]], seed: int, rng: random.Random
) -> None:
    found, sizes = case
    shuffled = rng.sample(found, len(found))
    assert assign(shuffled, sizes, seed) == assign(found, sizes, seed)


def test_another_seed_gives_another_split() -> None:
    found = [Cluster(f"c{number}", 1, "") for number in range(40)]
    assert assign(found, {"dev": 20}, 1) != assign(found, {"dev": 20}, 2)


def test_the_order_is_that_of_the_keyed_hash_alone() -> None:
    assert order_key(7, "t1").hex() == "5d266ad2e933975a69c42adef6f145cd2237bce6f07b9e94bb801e6c81a07779"
    found = [Cluster(f"c{number}", 1, "") for number in range(40)]
    ordered = sorted((cluster.cluster_id for cluster in found), key=lambda name: order_key(3, name))
    roles = assign(found, {"dev": 10, "public": 5}, 3)
    assert [name for name in ordered if roles.get(name) == "dev"] == ordered[:10]
    assert [name for name in ordered if roles.get(name) == "public"] == ordered[10:15]


def test_a_cluster_that_does_not_fit_makes_room_for_one_that_does() -> None:
    found = [Cluster(f"c{number}", 2, "") for number in range(10)] + [Cluster("one", 1, "")]
    assert counts(found, assign(found, {"dev": 5, "public": 4}, 0)) == {"dev": 5, "public": 4}


def test_a_size_that_one_stratum_cannot_reach_is_filled_from_another() -> None:
    found = [Cluster(f"p{number}", 2, "pairs") for number in range(15)]
    found += [Cluster(f"s{number}", 1, "singles") for number in range(30)]
    assert counts(found, assign(found, {"dev": 10, "public": 10}, 0)) == {"dev": 10, "public": 10}


def test_a_size_that_no_clusters_make_up_is_missed_from_below() -> None:
    found = [Cluster(f"c{number}", 3, "") for number in range(10)]
    assert counts(found, assign(found, {"dev": 10}, 0)) == {"dev": 9}


def test_sizes_are_apportioned_to_strata_by_largest_remainder() -> None:
    assert apportion(10, {"a": 50, "b": 30, "c": 20}) == {"a": 5, "b": 3, "c": 2}
    # 7 of 60/25/15: 4.2, 1.75, 1.05 → 4, 1, 1 and the one that is left to the largest remainder
    assert apportion(7, {"a": 60, "b": 25, "c": 15}) == {"a": 4, "b": 2, "c": 1}
    assert apportion(1, {"b": 1, "a": 1}) == {"a": 1, "b": 0}


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 50), min_size=1), st.data())
def test_shares_sum_to_the_size_and_fit_the_strata(have: dict[str, int], data: st.DataObject) -> None:
    size = data.draw(st.integers(0, sum(have.values())))
    shares = apportion(size, have)
    assert sum(shares.values()) == size
    for name, share in shares.items():
        assert abs(share - size * have[name] / sum(have.values())) < 1
        assert share <= have[name]


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from(["b", "a", None])), min_size=1, max_size=30))
def test_a_cluster_belongs_to_the_stratum_of_most_of_its_items(rows: list[tuple[str, str | None]]) -> None:
    frame = pl.DataFrame(
        {
            "item_id": [str(number) for number in range(len(rows))],
            "cluster_id": [cluster for cluster, _ in rows],
            "stratum": pl.Series([stratum for _, stratum in rows], dtype=pl.String),
        }
    )
    for cluster in clusters_of(frame):
        mine = [stratum or "" for name, stratum in rows if name == cluster.cluster_id]
        assert cluster.n_items == len(mine)
        assert cluster.stratum == min(set(mine), key=lambda stratum: (-mine.count(stratum), stratum))
