"""Which cluster goes to which role: a keyed order, cut at the sizes.

1. Clusters never straddle. A cluster belongs to the stratum of most of its items (the first by name where two tie).
2. Within a stratum clusters stand in the order of HMAC-SHA256(key of the seed, cluster id): it depends on nothing else,
   so neither the order of the source nor later clusters change it.
3. Roles are served in the order in which they were asked for. A size is apportioned to the strata by largest remainder
   over the items still free, and each stratum's clusters are taken in order where they fit (first fit). What is short
   then is filled from any stratum. A size that cluster sizes do not allow is missed from below, and reported.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True, slots=True)
class Cluster:
    """Items that stay together."""

    cluster_id: str
    n_items: int
    stratum: str
    """Empty where the split has no strata."""


def clusters_of(items: pl.DataFrame) -> list[Cluster]:
    """The clusters of a frame of items."""
    counted = (
        items.with_columns(pl.col("stratum").fill_null(""))
        .group_by("cluster_id", "stratum")
        .agg(pl.len().cast(pl.Int64).alias("n"))
        .sort("cluster_id", pl.col("n").neg(), "stratum")
        .group_by("cluster_id", maintain_order=True)
        .agg(pl.col("n").sum(), pl.col("stratum").first())
    )
    return [Cluster(cluster_id, n, stratum) for cluster_id, n, stratum in counted.iter_rows()]


def order_key(seed: int, cluster_id: str) -> bytes:
    """Place of a cluster in the order of `seed`."""
    return hmac.digest(f"evalkit/assign/{seed}".encode(), cluster_id.encode(), "sha256")


def apportion(size: int, counts: Mapping[str, int]) -> dict[str, int]:
    """`size` divided over strata in proportion to their counts, by largest remainder; ties go by name.

    Args:
        size: at most the sum of the counts.
        counts: items of each stratum.
    """
    total = sum(counts.values())
    shares = {name: divmod(size * counts[name], total) for name in sorted(counts)}
    rest = size - sum(share for share, _ in shares.values())
    favoured = sorted(shares, key=lambda name: -shares[name][1])[:rest]
    return {name: share + (name in favoured) for name, (share, _) in shares.items()}


def assign(clusters: Sequence[Cluster], sizes: Mapping[str, int], seed: int) -> dict[str, str]:
    """The role of every cluster that gets one (see the module's rules).

    Args:
        clusters: in any order.
        sizes: items asked for by role, in the order in which roles are served; their sum is at most the items there.
        seed: key of the order.
    """
    free = sorted(clusters, key=lambda cluster: order_key(seed, cluster.cluster_id))
    roles: dict[str, str] = {}
    for role, size in sizes.items():
        counts: dict[str, int] = {}
        for cluster in free:
            counts[cluster.stratum] = counts.get(cluster.stratum, 0) + cluster.n_items
        if not counts:
            break
        room = apportion(size, counts)
        free = _fit(free, room, lambda cluster: cluster.stratum, role, roles)
        anywhere = {"": sum(room.values())}
        if anywhere[""]:
            free = _fit(free, anywhere, lambda cluster: "", role, roles)
    return roles


def _fit(
    free: list[Cluster], room: dict[str, int], place: Callable[[Cluster], str], role: str, roles: dict[str, str]
) -> list[Cluster]:
    """Put the first clusters that fit into `roles`, take their items off `room`; those that stay free."""
    rest = []
    for cluster in free:
        if cluster.n_items <= room[place(cluster)]:
            room[place(cluster)] -= cluster.n_items
            roles[cluster.cluster_id] = role
        else:
            rest.append(cluster)
    return rest
