"""The manifest of a split set: what is in git, and what the items are verified against.

Layout of `splits/NAME/manifest.json` (keys sorted, indent 1, so that git stores a change as a few lines):

    format         evalkit-split/1
    name, seed, cluster_by, stratify, id_field, text_fields     what it was built with; null as for `build_split`
    secret         demo | private             secret_digest     tells the secret from another
    root           digest over the roots of all roles
    roles          ROLE → asked, n_items, n_clusters, strata (items by stratum), root, items
                   items are salted item digests in the order of item_id; root is RFC 6962 over their 32 bytes each
    assignment     salted cluster digest → role
    merged         salted cluster digest → salted digest of the cluster it was merged into; empty without merging

Nothing in it can be confirmed by guessing an item, and it holds no text of any, except the names of the strata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from evalkit.canonical import digest, leaf_hash, tree_root
from evalkit.canonical.digests import SCHEME
from evalkit.errors import BadInput
from evalkit.files import read_json
from evalkit.splits.items import Naming
from evalkit.splits.secret import Secret

FORMAT = "evalkit-split/1"
FILE = "manifest.json"


@dataclass(frozen=True, slots=True)
class RoleEntry:
    """One role in a manifest."""

    asked: int
    """Items asked for; more than `n_items` where cluster sizes did not allow it."""
    n_items: int
    n_clusters: int
    strata: Mapping[str, int]
    """Items by stratum; empty where the split has no strata."""
    root: str
    items: tuple[str, ...]
    """Salted item digests in the order of item_id."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A split set as git knows it."""

    name: str
    seed: int
    naming: Naming
    secret: str
    """`demo` or `private`."""
    secret_digest: str
    roles: Mapping[str, RoleEntry]
    assignment: Mapping[str, str]
    """Salted cluster digest → role."""
    merged: Mapping[str, str]
    """Salted digest of a cluster that was merged → of the cluster it became part of."""

    @property
    def root(self) -> str:
        """Digest over the roots of all roles."""
        return digest("split", {role: entry.root for role, entry in self.roles.items()})


def root_of(item_digests: Sequence[str]) -> str:
    """RFC 6962 root over salted item digests in the order of item_id."""
    leaves = [leaf_hash(bytes.fromhex(text.rpartition(":")[2])) for text in item_digests]
    return f"{SCHEME}:sha256:{tree_root(leaves).hex()}"


def role_entry(items: pl.DataFrame, digests: Sequence[str], asked: int) -> RoleEntry:
    """The entry of a role.

    Args:
        items: its items, sorted by item_id.
        digests: their salted digests.
        asked: items asked for.
    """
    counted = items.drop_nulls("stratum")["stratum"].value_counts().sort("stratum")
    return RoleEntry(
        asked=asked,
        n_items=items.height,
        n_clusters=items["cluster_id"].n_unique(),
        strata=dict(counted.iter_rows()),
        root=root_of(digests),
        items=tuple(digests),
    )


def check_secret(manifest: Manifest, secret: Secret, place: object) -> None:
    """Refuse a secret that is not the manifest's.

    Raises:
        BadInput: it is another one.
    """
    if secret.digest != manifest.secret_digest:
        raise BadInput(
            f"{place}: another secret than the one {manifest.name} was built with; name the file of that one"
        )


def manifest_json(manifest: Manifest) -> dict[str, Any]:
    """A manifest as JSON content."""
    roles = {
        role: {
            "asked": entry.asked,
            "n_items": entry.n_items,
            "n_clusters": entry.n_clusters,
            "strata": dict(entry.strata),
            "root": entry.root,
            "items": list(entry.items),
        }
        for role, entry in manifest.roles.items()
    }
    fields = manifest.naming.text_fields
    return {
        "format": FORMAT,
        "name": manifest.name,
        "seed": manifest.seed,
        "cluster_by": manifest.naming.cluster_by,
        "stratify": manifest.naming.stratify,
        "id_field": manifest.naming.id_field,
        "text_fields": None if fields is None else list(fields),
        "secret": manifest.secret,
        "secret_digest": manifest.secret_digest,
        "roles": roles,
        "root": manifest.root,
        "assignment": dict(manifest.assignment),
        "merged": dict(manifest.merged),
    }


def manifest_text(manifest: Manifest) -> str:
    """The content of the manifest's file."""
    return json.dumps(manifest_json(manifest), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def load_manifest(path: Path) -> Manifest:
    """Read a manifest and check that its roots are those of its digests.

    Raises:
        BadInput: not there, not a manifest, or edited.
    """
    data = read_json(path, FORMAT, "restore it from git, or build it with `evalkit split build`")
    try:
        manifest = _parsed(data)
        roots = {role: root_of(entry.items) for role, entry in manifest.roles.items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BadInput(f"{path}: not a complete manifest; restore it from git") from None
    for role, entry in manifest.roles.items():
        if entry.root != roots[role] or entry.n_items != len(entry.items):
            raise BadInput(
                f"{path}, field roles.{role}: edited, its root is not that of its items; restore it from git"
            )
    if data["root"] != manifest.root:
        raise BadInput(f"{path}, field root: edited, it is not that of the roles; restore it from git")
    return manifest


def _parsed(data: Mapping[str, Any]) -> Manifest:
    fields = data["text_fields"]
    naming = Naming(data["id_field"], data["cluster_by"], data["stratify"], None if fields is None else tuple(fields))
    roles = {
        role: RoleEntry(
            asked=entry["asked"],
            n_items=entry["n_items"],
            n_clusters=entry["n_clusters"],
            strata=dict(entry["strata"]),
            root=entry["root"],
            items=tuple(entry["items"]),
        )
        for role, entry in data["roles"].items()
    }
    return Manifest(
        name=data["name"],
        seed=data["seed"],
        naming=naming,
        secret=data["secret"],
        secret_digest=data["secret_digest"],
        roles=roles,
        assignment=dict(data["assignment"]),
        merged=dict(data["merged"]),
    )


SETTINGS = ("seed", "cluster_by", "stratify", "id_field", "text_fields", "secret_digest")


def first_difference(old: Manifest, new: Manifest) -> str | None:
    """The first fact in which two manifests differ, settings first, as `FACT, there OLD, now NEW`; None if in none."""
    ours, theirs = manifest_json(old), manifest_json(new)
    for name in SETTINGS:
        if ours[name] != theirs[name]:
            return _brief(name, ours[name], theirs[name])
    if list(ours["roles"].keys() - theirs["roles"].keys()) or list(theirs["roles"].keys() - ours["roles"].keys()):
        return _brief("roles", ", ".join(sorted(ours["roles"])), ", ".join(sorted(theirs["roles"])))
    for name in ("asked", "n_items", "n_clusters", "strata", "root"):
        for role in sorted(ours["roles"]):
            if ours["roles"][role][name] != theirs["roles"][role][name]:
                return _brief(f"roles.{role}.{name}", ours["roles"][role][name], theirs["roles"][role][name])
    return next(
        (_brief(name, "other", "these") for name in ("assignment", "merged") if ours[name] != theirs[name]), None
    )


def _brief(name: str, old: object, new: object) -> str:
    return f"{name}, there {'none' if old is None else old}, now {'none' if new is None else new}"
