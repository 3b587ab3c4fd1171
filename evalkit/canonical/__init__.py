"""Canonical bytes, digests and Merkle roots."""

from evalkit.canonical.digests import (
    Canonical,
    canonical_bytes,
    canonical_form,
    digest,
    digest_bytes,
    plain_decimal,
    short,
)
from evalkit.canonical.merkle import leaf_hash, tree_root

__all__ = [
    "Canonical",
    "canonical_bytes",
    "canonical_form",
    "digest",
    "digest_bytes",
    "leaf_hash",
    "plain_decimal",
    "short",
    "tree_root",
]
