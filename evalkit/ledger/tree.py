"""The RFC 6962 tree of a growing list: its root after each append without reading the rows before.

Kept between appends are the roots of the perfect subtrees that the list's length is made of, largest first: a list of
13 = 8 + 4 + 1 leaves keeps three. Folding them from the right gives the root of `canonical.tree_root`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

EMPTY_ROOT = hashlib.sha256(b"").digest()
START = bytes(32)
"""Chain value before the first row."""


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256(0x01 ‖ left ‖ right)."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def push(peaks: Sequence[bytes], size: int, leaf: bytes) -> list[bytes]:
    """The peaks of the list of `size` leaves after `leaf` is appended."""
    grown = [*peaks, leaf]
    while size & 1:
        right, left = grown.pop(), grown.pop()
        grown.append(node_hash(left, right))
        size >>= 1
    return grown


def root_of(peaks: Sequence[bytes]) -> bytes:
    """The tree's root; SHA-256 of nothing for an empty list."""
    if not peaks:
        return EMPTY_ROOT
    root = peaks[-1]
    for peak in reversed(peaks[:-1]):
        root = node_hash(peak, root)
    return root


def chain_hash(before: bytes, leaf: bytes) -> bytes:
    """A row's chain value, SHA-256(value of the row before ‖ leaf): tells at which row an edit begins."""
    return hashlib.sha256(before + leaf).digest()
