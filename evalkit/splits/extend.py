"""Extending: what is there already stays exactly as it is, and only new clusters are placed.

1. The source may hold the old items or not. An old item in it must be the item that was built.
2. An item that is new in an old cluster is refused: it is a changed item or would change a cluster that is placed.
3. With merging, new clusters are joined among themselves; a new item that overlaps an old one is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from evalkit.errors import Refused
from evalkit.splits.items import Naming
from evalkit.splits.load import load_split
from evalkit.splits.manifest import Manifest, RoleEntry
from evalkit.splits.overlap import Overlaps, Pair, pairs_across
from evalkit.splits.secret import Secret
from evalkit.splits.wording import how
from evalkit.splits.words import MOST_NAMED, several
from evalkit.tables import ITEMS
from evalkit.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Old:
    """What a split set holds before a build."""

    naming: Naming
    items: pl.DataFrame
    """Columns of `ITEMS` and `role`; empty for a new split."""
    entries: Mapping[str, RoleEntry]
    assignment: Mapping[str, str]
    merged: Mapping[str, str]

    @classmethod
    def nothing(cls, naming: Naming) -> Old:
        """A split that is not there yet."""
        return cls(naming, pl.DataFrame(schema={**ITEMS.polars(), "role": pl.String}), {}, {}, {})


def load_old(workspace: Workspace, manifest: Manifest, naming: Naming, seed: int) -> Old:
    """The verified items of all roles of a split set that is to be extended.

    Raises:
        Refused: built with other settings, or its items are not here or not as built.
    """
    for what in ("seed", "cluster_by", "stratify", "id_field", "text_fields"):
        there = manifest.seed if what == "seed" else getattr(manifest.naming, what)
        now = seed if what == "seed" else getattr(naming, what)
        if there != now:
            raise Refused(
                f"{manifest.name}: cannot be extended with other settings: {what}, there "
                f"{'none' if there is None else there}, now {'none' if now is None else now}; extend it as it was built"
            )
    frames = [
        load_split(workspace, f"{manifest.name}/{role}").items.with_columns(pl.lit(role).alias("role"))
        for role in manifest.roles
    ]
    return Old(naming, pl.concat(frames), manifest.roles, manifest.assignment, manifest.merged)


def check_old(items: pl.DataFrame, old: Old, secret: Secret, source: str) -> pl.DataFrame:
    """The items that are new, after those that are not were found unchanged.

    Raises:
        Refused: an old item was changed, or a new one stands in an old cluster.
    """
    stored = {row["item_id"]: row for row in old.items.iter_rows(named=True)}
    if not stored:
        return items
    changed, intruding, new = [], [], []
    for row, item in enumerate(items.iter_rows(named=True)):
        placed = secret.cluster_digest(item["cluster_id"])
        placed = old.merged.get(placed, placed)
        if (there := stored.get(item["item_id"])) is not None:
            same = placed == secret.cluster_digest(there["cluster_id"])
            if not same or any(item[name] != there[name] for name in ("stratum", "fields")):
                changed.append(f"{item['item_id']} ({there['role']})")
        elif placed in old.assignment:
            intruding.append(f"{item['item_id']} (cluster {item['cluster_id']}, {old.assignment[placed]})")
        else:
            new.append(row)
    if changed:
        raise Refused(
            f"{source}: items were changed since the split was built: {several(changed)}; "
            "restore them, or build under another name"
        )
    if intruding:
        raise Refused(
            f"{source}: items are new in clusters that are placed already, or were changed: {several(intruding)}; "
            "--extend takes new clusters only: restore these items, or give them a cluster of their own"
        )
    return items[new]


def merge_new(together: pl.DataFrame, overlaps: Overlaps, merged: Mapping[str, str], old: Old) -> dict[str, str]:
    """The merges whose cluster gets another id.

    Args:
        together: old items, then new ones.
        overlaps: what was found among them.
        merged: cluster → the cluster it becomes part of.
        old: what is there.

    Raises:
        Refused: a new item overlaps an old one.
    """
    n_old = old.items.height
    pairs = pairs_across(overlaps, [0] * n_old + [1] * (together.height - n_old))
    if pairs:
        named = [_named(together, pair, old) for pair in pairs[:MOST_NAMED]]
        raise Refused(
            f"new items overlap items that are placed already: {several(named, '; ', len(pairs))}; "
            "--extend never changes an old cluster: leave these items out"
        )
    return {cluster: into for cluster, into in merged.items() if cluster != into}


def _named(together: pl.DataFrame, pair: Pair, old: Old) -> str:
    there, new = together["item_id"][pair.first], together["item_id"][pair.second]
    return f"{new} and {there} ({old.items['role'][pair.first]}) {how(together, pair, old.naming)}"
