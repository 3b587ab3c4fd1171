"""Opening a split: find what is meant, then read its items and check every one against the manifest.

Call `resolve_reference`, then `check_purpose`, then `load_split`: only the last reads items.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from evalkit.errors import BadInput, Refused
from evalkit.splits.manifest import FILE, Manifest, load_manifest
from evalkit.splits.roles import ROLES
from evalkit.splits.store import manifest_path, settle
from evalkit.splits.verify import RoleReport, read_verified
from evalkit.splits.words import nearest
from evalkit.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Split:
    """The items of one role, as the manifest says they are."""

    name: str
    """`NAME/ROLE`."""
    set_name: str
    role: str
    root: str
    """RFC 6962 root over the salted digests of its items, `ek1:sha256:…`."""
    items: pl.DataFrame = field(compare=False, repr=False)
    """The columns of `ITEMS`, sorted by item_id."""


def list_splits(workspace: Workspace) -> list[Manifest]:
    """The split sets of a workspace, by name.

    Raises:
        BadInput: a manifest is damaged.
    """
    return [load_manifest(workspace.splits / name / FILE) for name in _names(workspace)]


def _names(workspace: Workspace) -> list[str]:
    return sorted(path.parent.name for path in workspace.splits.glob(f"*/{FILE}"))


def resolve_reference(workspace: Workspace, reference: str) -> tuple[str, str]:
    """Split set and role that `NAME/ROLE` means, or `ROLE` where the workspace has one split set. Reads no items.

    Raises:
        BadInput: no such split, or several could be meant.
    """
    names = _names(workspace)
    if not names:
        raise BadInput(f"{workspace.root}: no split here; `evalkit split build SOURCE --name N` makes one")
    name, slash, role = reference.rpartition("/")
    if not slash and reference in names:
        raise BadInput(f"--split {reference}: names no role; write {reference}/dev or another of its roles")
    if not slash and role not in ROLES:
        raise BadInput(
            f"--split {reference}: no such role{nearest(role, ROLES)}; write NAME/ROLE with one of {', '.join(ROLES)}"
        )
    if not slash and len(names) > 1:
        written = ", ".join(f"{known}/{role}" for known in names)
        raise BadInput(f"--split {reference}: there are {len(names)} split sets; write one of {written}")
    name = name if slash else names[0]
    if name not in names:
        raise BadInput(f"--split {reference}: no split set {name}{nearest(name, names)}; there: {', '.join(names)}")
    roles = load_manifest(manifest_path(workspace, name)).roles
    if role not in roles:
        has = ", ".join(known for known in ROLES if known in roles)
        raise BadInput(f"--split {reference}: {name} has no role {role}{nearest(role, roles)}; it has {has}")
    return name, role


def load_split(workspace: Workspace, reference: str) -> Split:
    """The items of a split, each checked against the manifest.

    Raises:
        BadInput: no such split.
        Refused: the items are not on this machine, or one was changed, is missing or was added.
    """
    name, role = resolve_reference(workspace, reference)
    manifest = load_manifest(manifest_path(workspace, name))
    settle(workspace, manifest)
    report, items = read_verified(workspace, manifest, role)
    if items is None or not report.here:
        raise Refused(
            f"{name}/{role}: its items are not on this machine (items are never in git); "
            f"build {name} again from the same source and secret"
        )
    if not report.ok:
        raise Refused(f"{_described(name, report)}; build {name} again from the same source and secret")
    return Split(f"{name}/{role}", name, role, manifest.roles[role].root, items)


def _described(name: str, report: RoleReport) -> str:
    return f"{name}/{report.role}: not as built: " + "; ".join(report.faults)
