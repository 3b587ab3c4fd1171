"""Building a split set: read, merge or refuse overlaps, assign, digest, write.

1. The result depends on the items, the settings and the secret; not on the order of the source.
2. Under a name that has a manifest, the same result is no change, or restores items that are not on this machine;
   another result is refused. `extend` adds new clusters to the roles and leaves every old one where it is.
3. Nothing is written before everything is checked; see `store` for how it is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl

from evalkit.errors import BadInput, Refused
from evalkit.ledger import Event, Ledger
from evalkit.splits.assign import assign, clusters_of
from evalkit.splits.extend import Old, check_old, load_old, merge_new
from evalkit.splits.items import Naming, read_items
from evalkit.splits.manifest import Manifest, check_secret, first_difference, load_manifest, role_entry
from evalkit.splits.overlap import Overlaps, count_within, find_overlaps, merged_clusters, pairs_across
from evalkit.splits.secret import Secret, new_secret, read_secret
from evalkit.splits.settings import check_name, check_sizes
from evalkit.splits.store import building, commit, local_secret, manifest_path
from evalkit.splits.verify import verify_split
from evalkit.splits.wording import overlap_refusal
from evalkit.workspace import Workspace

Outcome = Literal["built", "unchanged", "restored", "extended"]


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did."""

    manifest: Manifest
    outcome: Outcome
    """`unchanged`: the same split was here; `restored`: its manifest was, and now its items are too."""
    asked: Mapping[str, int]
    """Items asked for by role, in the order in which roles were served."""
    got: Mapping[str, int]
    """Items each of these roles has; fewer than asked where cluster sizes do not allow the size."""
    n_items: int
    """Items of the source."""
    n_clusters: int
    """Clusters of the source, after merging."""
    n_left_over: int
    """Items of the source beyond all sizes: not stored."""
    n_boilerplate: int
    """Runs of 13 words in so many clusters that they were not held against any item."""
    n_overlap_within: int
    """Items that overlap with another cluster's in their own role and still count as independent; 0 after merging."""
    merged: Mapping[str, str]
    """Cluster → the cluster it became part of; only clusters whose id changed."""


@dataclass(frozen=True, slots=True)
class _Built:
    manifest: Manifest
    items: dict[str, pl.DataFrame]
    n_clusters: int
    n_boilerplate: int
    n_overlap_within: int
    merged: dict[str, str]


def build_split(
    workspace: Workspace,
    source: Path | str,
    *,
    name: str,
    sizes: Mapping[str, int],
    cluster_by: str | None,
    stratify: str | None = None,
    seed: int,
    id_field: str | None = None,
    text_fields: Sequence[str] | None = None,
    secret: Path | None = None,
    extend: bool = False,
    merge_overlaps: bool = False,
) -> BuildReport:
    """Build, restore or extend a split set, and record it in the ledger.

    Args:
        workspace: where it goes.
        source: a file or data set (see `read_rows`).
        name: of the split set.
        sizes: items by role, in the order in which roles are served; with `extend`, the size after extending.
        cluster_by: field whose value items of one cluster share; None: every item is its own cluster.
        stratify: field whose values every role gets in proportion; None: no strata.
        seed: key of the clusters' order.
        id_field: field with the items' ids; None: the digest of the content.
        text_fields: fields compared for overlap; None: all text.
        secret: file of the split's secret; None: the one this machine keeps, or 32 random bytes for a new split.
        extend: add new clusters to a split that is there.
        merge_overlaps: join clusters that overlap instead of refusing them.

    Raises:
        BadInput: a fault in the source or an argument.
        Refused: too few items, overlaps across roles, or another split under this name.
        DiskRefused: the disk is full or read-only; the old split is as it was.
    """
    check_name(name)
    check_sizes(sizes)
    naming = Naming(id_field, cluster_by, stratify, None if text_fields is None else tuple(text_fields))
    known = _known(workspace, name)
    if extend and known is None:
        raise Refused(f"{name}: no split of this name to extend; leave --extend out to build it")
    key = _secret(workspace, name, known, secret)
    items = read_items(source, naming)
    old = load_old(workspace, known, naming, seed) if extend and known is not None else Old.nothing(naming)
    new = check_old(items, old, key, str(source))
    built = _build(name, seed, key, old, new, dict(sizes), str(source), merge_overlaps)
    outcome = _outcome(workspace, built.manifest, known, extend)
    if outcome != "unchanged":
        _write(workspace, built, known, key, outcome)
    _record(workspace, built.manifest, outcome)
    got = {role: built.manifest.roles[role].n_items for role in sizes}
    stored = sum(entry.n_items for entry in built.manifest.roles.values()) - old.items.height
    return BuildReport(
        manifest=built.manifest,
        outcome=outcome,
        asked=dict(sizes),
        got=got,
        n_items=items.height,
        n_clusters=built.n_clusters,
        n_left_over=new.height - stored,
        n_boilerplate=built.n_boilerplate,
        n_overlap_within=built.n_overlap_within,
        merged=built.merged,
    )


def _secret(workspace: Workspace, name: str, known: Manifest | None, path: Path | None) -> Secret:
    local = local_secret(workspace, name)
    given = read_secret(path) if path is not None else None
    if known is not None:
        if given is not None:
            check_secret(known, given, path)
        elif local is None:
            raise Refused(f"{name}: its secret is not on this machine, and no other gives its root; give --secret FILE")
        else:
            check_secret(known, local, workspace.items / name / "secret")
    return given or local or new_secret()


def _build(
    name: str,
    seed: int,
    secret: Secret,
    old: Old,
    new: pl.DataFrame,
    sizes: dict[str, int],
    source: str,
    merge_overlaps: bool,
) -> _Built:
    together = pl.concat([old.items.select(new.columns), new])
    overlaps = find_overlaps(together, old.naming)
    merged: dict[str, str] = {}
    if merge_overlaps:
        merged = merge_new(together, overlaps, merged_clusters(together, overlaps), old)
        new = new.with_columns(pl.col("cluster_id").replace(merged))
    roles = _assign(old, new, sizes, seed, source)
    placed = {
        role: _sorted(old, new, roles, role) for role in (*old.entries, *(r for r in sizes if r not in old.entries))
    }
    within = 0 if merge_overlaps else _check_overlaps(name, together, overlaps, roles, old)
    entries = {
        role: role_entry(
            frame, [secret.item_digest(row) for row in frame.iter_rows(named=True)], _asked(role, sizes, old)
        )
        for role, frame in placed.items()
    }
    assignment = {
        secret.cluster_digest(c): role for role, frame in placed.items() for c in frame["cluster_id"].unique()
    }
    kept = {secret.cluster_digest(a): secret.cluster_digest(b) for a, b in merged.items() if b in roles}
    manifest = Manifest(
        name=name,
        seed=seed,
        naming=old.naming,
        secret=secret.label,
        secret_digest=secret.digest,
        roles=entries,
        assignment=assignment,
        merged={**old.merged, **kept},
    )
    return _Built(manifest, placed, new["cluster_id"].n_unique(), overlaps.n_boilerplate, within, merged)


def _asked(role: str, sizes: Mapping[str, int], old: Old) -> int:
    return sizes[role] if role in sizes else old.entries[role].asked


def _assign(old: Old, new: pl.DataFrame, sizes: Mapping[str, int], seed: int, source: str) -> dict[str, str]:
    """Role of every new cluster that gets one; refuses sizes that the source cannot fill."""
    wanted: dict[str, int] = {}
    for role, size in sizes.items():
        have = old.entries[role].n_items if role in old.entries else 0
        if size < have:
            raise Refused(
                f"--sizes {role}={size}: {role} has {have} items, and --extend takes none away; ask for {have} or more"
            )
        wanted[role] = size - have
    clusters = clusters_of(new)
    if sum(wanted.values()) > new.height:
        raise Refused(
            f"{source}: {new.height} items in {len(clusters)} clusters{' are new' if old.entries else ''}, "
            f"--sizes asks for {sum(wanted.values())}; ask for fewer, or give more items"
        )
    roles = assign(clusters, wanted, seed)
    filled = set(roles.values()) | set(old.entries)
    if empty := [role for role in sizes if role not in filled]:
        smallest = min(cluster.n_items for cluster in clusters)
        raise Refused(
            f"{source}: no cluster is left that fits {empty[0]}={sizes[empty[0]]} "
            f"(the smallest of all has {smallest} items); "
            "ask for more, or name a field that makes smaller clusters"
        )
    return roles


def _sorted(old: Old, new: pl.DataFrame, roles: Mapping[str, str], role: str) -> pl.DataFrame:
    mine = [cluster for cluster, where in roles.items() if where == role]
    added = new.filter(pl.col("cluster_id").is_in(pl.Series(mine, dtype=pl.String).implode()))
    kept = old.items.filter(pl.col("role") == role).select(new.columns)
    return pl.concat([kept, added]).sort("item_id")


def _check_overlaps(name: str, together: pl.DataFrame, overlaps: Overlaps, roles: Mapping[str, str], old: Old) -> int:
    """Refuse overlaps across roles; how many items overlap within one."""
    where = [*old.items["role"], *(roles.get(cluster) for cluster in together["cluster_id"][old.items.height :])]
    number = {role: side for side, role in enumerate(sorted({role for role in where if role is not None}))}
    sides = [-1 if role is None else number[role] for role in where]
    if pairs := pairs_across(overlaps, sides):
        raise Refused(overlap_refusal(name, together, where, pairs, old.naming))
    return count_within(overlaps, sides)


def _outcome(workspace: Workspace, manifest: Manifest, known: Manifest | None, extend: bool) -> Outcome:
    if known is None:
        return "built"
    if (difference := first_difference(known, manifest)) is None:
        return "unchanged" if _is_here(workspace, manifest.name) else "restored"
    if extend:
        return "extended"
    raise Refused(
        f"{manifest.name}: there is another split of this name: {difference}; "
        "build under another name, or add new clusters with --extend"
    )


def _is_here(workspace: Workspace, name: str) -> bool:
    try:
        return local_secret(workspace, name) is not None and verify_split(workspace, name).ok
    except BadInput:  # a damaged file: it is written again
        return False


def _write(workspace: Workspace, built: _Built, known: Manifest | None, secret: Secret, outcome: Outcome) -> None:
    manifest = built.manifest
    with building(workspace, manifest.name):
        if _known(workspace, manifest.name) != known:
            raise Refused(f"{manifest.name}: was built by another process meanwhile; run the same command again")
        commit(workspace, manifest, built.items, secret, write_manifest=outcome != "restored")


def _record(workspace: Workspace, manifest: Manifest, outcome: Outcome) -> None:
    """Write the build into the ledger; one that changed nothing only where the event is not there."""
    ledger = Ledger(workspace.ledger)
    known = [event.details.get("root") for event in ledger.events("split") if event.split == manifest.name]
    if outcome == "unchanged" and manifest.root in known:
        return
    roots = {role: entry.root for role, entry in manifest.roles.items()}
    details = {"what": outcome, "root": manifest.root, "roots": roots, "secret": manifest.secret}
    ledger.append(Event.now("split", split=manifest.name, details=details))


def _known(workspace: Workspace, name: str) -> Manifest | None:
    path = manifest_path(workspace, name)
    return load_manifest(path) if path.exists() else None
