"""Who looked at what, when: an append-only file with a Merkle tree over its rows."""

from evalkit.ledger.events import Event, Look
from evalkit.ledger.store import Ledger
from evalkit.ledger.verify import LedgerReport

__all__ = ["Event", "Ledger", "LedgerReport", "Look"]
