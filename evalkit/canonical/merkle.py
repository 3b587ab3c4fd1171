"""Merkle tree hash of RFC 6962 §2.1: one root that commits to an ordered list of leaves.

A leaf is hashed with a 0x00 prefix and an inner node with 0x01, so that no leaf can pass for a node.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def leaf_hash(data: bytes) -> bytes:
    """SHA-256(0x00 ‖ data), 32 bytes."""
    return hashlib.sha256(b"\x00" + data).digest()


def tree_root(leaves: Sequence[bytes]) -> bytes:
    """Merkle tree hash of leaf hashes (32 bytes each), in their order; SHA-256 of nothing for an empty list.

    Source: RFC 6962 §2.1. Splitting at the largest power of two below n equals pairing level by level with an odd
    last node carried up unchanged, which is what is done here.
    """
    if not leaves:
        return hashlib.sha256(b"").digest()
    level = list(leaves)
    while len(level) > 1:
        pairs = [hashlib.sha256(b"\x01" + level[i] + level[i + 1]).digest() for i in range(0, len(level) - 1, 2)]
        level = pairs + ([level[-1]] if len(level) % 2 else [])
    return level[0]
