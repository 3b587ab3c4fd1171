"""Verification of a ledger's rows: what was edited, removed or inserted, by row number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from evalkit.canonical import canonical_bytes, leaf_hash, tree_root
from evalkit.canonical.digests import SCHEME
from evalkit.ledger.events import event_of
from evalkit.ledger.tree import START, chain_hash, push, root_of

Row = tuple[int, bytes, bytes, bytes, bytes | None]
"""seq, content, leaf, chain, look key."""


@dataclass(frozen=True, slots=True)
class LedgerReport:
    """What verification found."""

    ok: bool
    n: int
    """Rows that are there."""
    root: str
    """RFC 6962 root over the content that is there, `ek1:sha256:…`."""
    faults: list[str]
    """One line each, with the row; empty when all is well."""


def verify_rows(rows: Sequence[Row], head: tuple[int, bytes, bytes] | None, missing_guards: list[str]) -> LedgerReport:
    """Check rows against their leaves, the chain and the head.

    Args:
        rows: in the order of seq.
        head: size, root and peaks of the tree; None where its row was removed.
        missing_guards: triggers that are not there.
    """
    faults = [f"trigger {name} is missing: rows could be changed" for name in missing_guards]
    expected, before = 1, START
    for seq, content, leaf, chain, look in rows:
        if seq > expected:
            lost = str(expected) if seq == expected + 1 else f"{expected} to {seq - 1}"
            faults.append(f"row {lost}: missing")
        elif seq < expected:
            faults.append(f"row {seq}: inserted before the first row")
        elif fault := _row_fault(content, leaf, chain, look, before):
            faults.append(f"row {seq}: {fault}")
        expected, before = seq + 1, chain
    leaves = [leaf_hash(content) for _, content, _, _, _ in rows]
    root = tree_root(leaves)
    faults += _head_faults(expected - 1, leaves, root, head, bool(faults))
    return LedgerReport(not faults, len(rows), f"{SCHEME}:sha256:{root.hex()}", faults)


def _row_fault(content: bytes, leaf: bytes, chain: bytes, look: bytes | None, before: bytes) -> str | None:
    if leaf_hash(content) != leaf:
        return "edited: its content is not what was written"
    if chain_hash(before, leaf) != chain:
        return "edited or inserted: it does not follow from the row before"
    try:
        event = event_of(content, 0)
        canonical = canonical_bytes(json.loads(content)) == content
    except (ValueError, TypeError):
        return "inserted: its content is no event"
    if not canonical:
        return "inserted: its content is not canonical JSON"
    return None if event.look_key == look else "edited: its look key is not that of its content"


def _head_faults(
    last: int, leaves: list[bytes], root: bytes, head: tuple[int, bytes, bytes] | None, known: bool
) -> list[str]:
    if head is None:
        return ["head: missing"]
    size, stated, packed = head
    if size > last:
        lost = str(size) if size == last + 1 else f"{last + 1} to {size}"
        return [f"row {lost}: missing at the end (the head counts {size} rows)"]
    if size < last:
        more = str(last) if last == size + 1 else f"{size + 1} to {last}"
        return [f"row {more}: inserted at the end (the head counts {size} rows)"]
    if root != stated and not known:
        return ["head: its root is not that of the rows"]
    peaks: list[bytes] = []
    for number, leaf in enumerate(leaves):
        peaks = push(peaks, number, leaf)
    if not known and (b"".join(peaks) != packed or root_of(peaks) != root):
        return ["head: its peaks are not those of the rows"]
    return []
