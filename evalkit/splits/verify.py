"""Verification of stored items against the manifest: every salted digest, and the root.

The manifest tells that an item was changed, is missing or was added; the local index tells its name where it is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from evalkit.canonical import short
from evalkit.errors import Refused
from evalkit.splits.manifest import Manifest, check_secret, load_manifest, root_of
from evalkit.splits.secret import Secret
from evalkit.splits.store import items_folder, local_secret, manifest_path, read_index, read_role, settle
from evalkit.splits.words import several
from evalkit.workspace import Workspace


@dataclass(frozen=True, slots=True)
class RoleReport:
    """What verification found in one role."""

    role: str
    here: bool
    """Whether its items are on this machine."""
    n_items: int
    """Items stored."""
    root: str
    """Of the items stored."""
    root_differs: bool
    """Whether that is not the manifest's."""
    changed: tuple[str, ...]
    """Items whose id is known and whose content, cluster or stratum is not as built."""
    missing: tuple[str, ...]
    """Items that were built and are not stored; `digest …` where the index is lost too."""
    extra: tuple[str, ...]
    """Items that were not built."""
    misplaced: tuple[str, ...]
    """Clusters that the manifest's assignment puts elsewhere."""

    @property
    def ok(self) -> bool:
        """Whether it is as built."""
        return self.here and not self.faults

    @property
    def faults(self) -> list[str]:
        """One phrase each."""
        if not self.here:
            return ["its items are not on this machine"]
        named = {"changed": self.changed, "missing": self.missing, "extra": self.extra}
        found = [f"{what} {several(names)}" for what, names in named.items() if names]
        if self.misplaced:
            found.append(f"assigned elsewhere {several(self.misplaced)}")
        return [*found, "its root is not the manifest's"] if self.root_differs else found


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What verification of a split set found."""

    name: str
    roles: tuple[RoleReport, ...]

    @property
    def ok(self) -> bool:
        """Whether every role is as built."""
        return all(role.ok for role in self.roles)

    @property
    def faults(self) -> list[str]:
        """One line each: `NAME/ROLE: …`."""
        return [f"{self.name}/{report.role}: {fault}" for report in self.roles for fault in report.faults]


def verify_split(workspace: Workspace, name: str) -> VerifyReport:
    """Check every stored item of a split set against its manifest.

    Raises:
        BadInput: no such split set, a damaged file, or another secret.
        Refused: the secret is not on this machine, so nothing can be checked.
    """
    manifest = load_manifest(manifest_path(workspace, name))
    settle(workspace, manifest)
    return VerifyReport(name, tuple(read_verified(workspace, manifest, role)[0] for role in manifest.roles))


def read_verified(workspace: Workspace, manifest: Manifest, role: str) -> tuple[RoleReport, pl.DataFrame | None]:
    """The report on one role, and its items as stored (None where they are not here)."""
    items = read_role(workspace, manifest.name, role)
    if items is None:
        return RoleReport(role, False, 0, root_of([]), True, (), (), (), ()), None
    secret = local_secret(workspace, manifest.name)
    place = items_folder(workspace, manifest.name) / "secret"
    if secret is None:
        raise Refused(
            f"{place}: not there, and without it nothing can be verified; "
            f"build {manifest.name} again from the same source with --secret FILE"
        )
    check_secret(manifest, secret, place)
    digests = [secret.item_digest(row) for row in items.iter_rows(named=True)]
    entry, misplaced = manifest.roles[role], _misplaced(manifest, role, items, secret)
    if tuple(digests) == entry.items:
        return RoleReport(role, True, items.height, entry.root, False, (), (), (), misplaced), items
    index = read_index(workspace, manifest.name).filter(pl.col("role") == role)
    known = dict(index.select("item_id", "digest").iter_rows())
    return _compare(manifest, role, items, digests, known, misplaced), items


def _compare(
    manifest: Manifest,
    role: str,
    items: pl.DataFrame,
    digests: Sequence[str],
    index: dict[str, str],
    misplaced: tuple[str, ...],
) -> RoleReport:
    """The report on a role whose items are not those of the manifest: which are what."""
    built, stored = set(manifest.roles[role].items), set(digests)
    strangers = [item_id for item_id, found in zip(items["item_id"], digests, strict=True) if found not in built]
    known = {item_id: found for item_id, found in index.items() if found in built and found not in stored}
    unnamed = built - stored - set(known.values())
    root = root_of(digests)
    return RoleReport(
        role=role,
        here=True,
        n_items=items.height,
        root=root,
        root_differs=root != manifest.roles[role].root,
        changed=tuple(item_id for item_id in strangers if item_id in known),
        missing=(*_without(known, strangers), *sorted(f"digest {short(found)}" for found in unnamed)),
        extra=tuple(item_id for item_id in strangers if item_id not in known),
        misplaced=misplaced,
    )


def _without(known: dict[str, str], strangers: Sequence[str]) -> list[str]:
    there = set(strangers)
    return sorted(item_id for item_id in known if item_id not in there)


def _misplaced(manifest: Manifest, role: str, items: pl.DataFrame, secret: Secret) -> tuple[str, ...]:
    clusters = items["cluster_id"].unique().sort()
    return tuple(name for name in clusters if manifest.assignment.get(secret.cluster_digest(name)) != role)
