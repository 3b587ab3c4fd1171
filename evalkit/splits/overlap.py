"""Overlap between items: the same text, or 13 words in a row.

1. The text of an item is all its texts at any depth, in the order of its keys, without the fields that name id, cluster
   and stratum; or the fields that the user names, numbers included. An item without any text is compared as a whole.
2. Each piece is normalised on its own: NFKC, casefold, whitespace collapsed to single spaces, punctuation kept. Two
   items have the same text when all their pieces agree. Words in a row are within one piece.
3. A run of 13 words that stands in more than max(20, 5 % of the clusters) clusters is boilerplate: counted, not held
   against anybody. The same whole text is never boilerplate.
4. Runs are compared by 64-bit hashes, in batches of numpy arrays: about 12 bytes a word in memory. Two different runs
   share a hash once in 10^19 pairs.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import polars as pl

from evalkit.splits.items import Naming

WORDS = 13
BOILERPLATE_CLUSTERS = 20
BOILERPLATE_PERCENT = 5
BATCH = 8192
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Overlaps:
    """Groups of items in different clusters that overlap."""

    groups: pl.DataFrame
    """Columns `group`, `item` (its row in the frame), `kind` (`text` or `words`)."""
    n_boilerplate: int
    """Runs of words that stand in too many clusters to mean anything."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two items that overlap, by their rows in the frame, first < second."""

    first: int
    second: int
    kind: str
    """`text` or `words`."""


def normalised(text: str) -> str:
    """NFKC, casefold, whitespace collapsed."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def pieces(fields: Mapping[str, Any], naming: Naming) -> list[str]:
    """The texts of an item that are compared (rule 1)."""
    if naming.text_fields is not None:
        named = {name: fields[name] for name in naming.text_fields}
        return [text for value in named.values() for text in _texts(value, with_numbers=True)]
    labels = naming.labels
    rest = {name: value for name, value in fields.items() if name not in labels}
    return list(_texts(rest)) or [orjson.dumps(rest, option=orjson.OPT_SORT_KEYS).decode()]


def _texts(value: Any, with_numbers: bool = False) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item, with_numbers)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, with_numbers)
    elif with_numbers:
        yield orjson.dumps(value).decode()


def same_before_normalising(left: str, right: str, naming: Naming) -> bool:
    """Whether the compared texts of two items, given as their `fields`, agree letter by letter."""
    return pieces(orjson.loads(left), naming) == pieces(orjson.loads(right), naming)


def find_overlaps(items: pl.DataFrame, naming: Naming) -> Overlaps:
    """All overlaps between items of different clusters.

    Args:
        items: columns of `ITEMS`; rows are named by their place in this frame.
        naming: which fields are compared.
    """
    clusters = items["cluster_id"].rank("dense").cast(pl.Int32).to_numpy()
    keys: list[bytes] = []
    runs, owners = [np.empty(0, np.uint64)], [np.empty(0, np.int32)]
    for start in range(0, items.height, BATCH):
        texts = [
            [normalised(piece) for piece in pieces(orjson.loads(fields), naming)]
            for fields in items["fields"].slice(start, BATCH)
        ]
        keys += [hashlib.blake2b("\n".join(text).encode(), digest_size=16).digest() for text in texts]
        hashes, places = _runs_of_words(texts, start)
        runs.append(hashes)
        owners.append(places)
    same = _groups(pl.Series(keys, dtype=pl.Binary), np.arange(items.height, dtype=np.int32), clusters)
    repeated, places = _repeated(np.concatenate(runs), np.concatenate(owners))
    del runs, owners
    shared = _groups(pl.Series(repeated), places, clusters)
    limit = boilerplate_limit(int(clusters.max(initial=0)))
    boilerplate = shared.filter(pl.col("n_clusters") > limit)["key"].n_unique()
    shared = shared.filter(pl.col("n_clusters") <= limit)
    return Overlaps(pl.concat([_numbered(same, 0, "text"), _numbered(shared, items.height, "words")]), boilerplate)


def boilerplate_limit(n_clusters: int) -> int:
    """The most clusters in which a run of words may stand and still count: max(20, 5 %)."""
    return max(BOILERPLATE_CLUSTERS, n_clusters * BOILERPLATE_PERCENT // 100)


def _runs_of_words(
    texts: Sequence[Sequence[str]], first_row: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]:
    flat = pl.Series([piece for text in texts for piece in text], dtype=pl.String)
    rows = np.repeat(np.arange(first_row, first_row + len(texts), dtype=np.int32), [len(text) for text in texts])
    words = flat.str.split(" ")
    lengths = words.list.len().to_numpy()
    hashes = words.explode().hash().to_numpy()
    n = len(hashes) - WORDS + 1
    if n <= 0:
        return np.empty(0, np.uint64), np.empty(0, np.int32)
    run = np.zeros(n, np.uint64)
    for offset in range(WORDS):
        run *= MULTIPLIER
        run += hashes[offset : offset + n]
    piece = np.repeat(np.arange(len(flat), dtype=np.int32), lengths)
    whole = piece[:n] == piece[WORDS - 1 :]
    return run[whole], rows[piece[:n][whole]]


def _repeated(
    runs: npt.NDArray[np.uint64], owners: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]:
    """The runs that stand in more than one place, with their items; most stand in one and leave memory here."""
    order = np.argsort(runs)
    runs, owners = runs[order], owners[order]
    same = runs[1:] == runs[:-1]
    keep = np.zeros(len(runs), bool)
    keep[1:] |= same
    keep[:-1] |= same
    return runs[keep], owners[keep]


def _groups(keys: pl.Series, items: npt.NDArray[np.int32], clusters: npt.NDArray[np.int32]) -> pl.DataFrame:
    """Rows (key, item) of the keys that stand in more than one cluster, with the number of clusters."""
    frame = pl.DataFrame({"key": keys, "item": items, "cluster": clusters[items]}).unique(["key", "item"])
    counted = frame.with_columns(pl.col("cluster").n_unique().over("key").alias("n_clusters"))
    return counted.filter(pl.col("n_clusters") > 1)


def _numbered(groups: pl.DataFrame, start: int, kind: str) -> pl.DataFrame:
    """Groups by number instead of key, those with the first item first."""
    ordered = groups.with_columns(pl.col("item").min().over("key").alias("first")).sort("first", "key", "item")
    return ordered.select(
        (pl.col("key").rle_id().cast(pl.Int64) + start).alias("group"), "item", pl.lit(kind).alias("kind")
    )


def pairs_across(overlaps: Overlaps, sides: Sequence[int]) -> list[Pair]:
    """Overlapping items on different sides, each with the first item of another side in its group.

    Args:
        overlaps: what was found.
        sides: the side of every row of the frame; negative for rows that do not count.
    """
    side = np.asarray(sides, dtype=np.int32)
    groups = overlaps.groups
    frame = groups.with_columns(pl.Series("side", side[groups["item"].to_numpy()])).filter(pl.col("side") >= 0)
    first = frame.group_by("group").agg(
        pl.col("item").min().alias("first"), pl.col("side").sort_by("item").first().alias("first_side")
    )
    crossed = (
        frame.join(first, on="group")
        .filter(pl.col("side") != pl.col("first_side"))
        .sort("kind", "first", "item")
        .unique(["first", "item"], keep="first", maintain_order=True)
    )
    return [Pair(row["first"], row["item"], row["kind"]) for row in crossed.iter_rows(named=True)]


def count_within(overlaps: Overlaps, sides: Sequence[int]) -> int:
    """Items that overlap with another cluster's on their own side; arguments as for `pairs_across`."""
    side = np.asarray(sides, dtype=np.int32)
    frame = overlaps.groups.with_columns(pl.Series("side", side[overlaps.groups["item"].to_numpy()]))
    shared = frame.filter(pl.col("side") >= 0).filter(pl.len().over("group", "side") > 1)
    return shared["item"].n_unique()


def merged_clusters(items: pl.DataFrame, overlaps: Overlaps) -> dict[str, str]:
    """For each cluster that overlaps with others, the id of the cluster they become: the first of their ids."""
    parent: dict[str, str] = {}

    def root(cluster: str) -> str:
        while (above := parent.get(cluster, cluster)) != cluster:
            parent[cluster] = parent.get(above, above)
            cluster = above
        return cluster

    names = items["cluster_id"].to_list()
    group, first = -1, ""
    for number, item in overlaps.groups.sort("group", "item").select("group", "item").iter_rows():
        cluster = names[item]
        if number != group:
            group, first = number, cluster
        low, high = sorted((root(first), root(cluster)))
        parent[high] = parent[low] = low
    return {cluster: root(cluster) for cluster in parent}
