"""The items: roles, reading, clustered assignment, overlap, manifest."""

from evalkit.splits.build import BuildReport, build_split
from evalkit.splits.load import Split, list_splits, load_split, resolve_reference
from evalkit.splits.manifest import Manifest, RoleEntry
from evalkit.splits.read import read_measurements
from evalkit.splits.roles import PUBLIC_LOOKS, PURPOSES, ROLES, check_purpose
from evalkit.splits.verify import RoleReport, VerifyReport, verify_split

__all__ = [
    "PUBLIC_LOOKS",
    "PURPOSES",
    "ROLES",
    "BuildReport",
    "Manifest",
    "RoleEntry",
    "RoleReport",
    "Split",
    "VerifyReport",
    "build_split",
    "check_purpose",
    "list_splits",
    "load_split",
    "read_measurements",
    "resolve_reference",
    "verify_split",
]
