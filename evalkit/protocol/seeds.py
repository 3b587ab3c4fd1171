"""Seeds of requests: one per completion, known before anything runs."""

from __future__ import annotations

import hashlib

import orjson


def request_seed(protocol_seed: int, repeat: int, item_id: str, trial: int) -> int:
    """Seed in [0, 2³¹): the first 31 bits of SHA-256 over (protocol seed, repeat, item, trial).

    n trials are n requests with n seeds, so a server that honours seeds cannot return one completion n times, and a
    resumed run asks with the seeds of the first.
    """
    content = orjson.dumps([protocol_seed, repeat, item_id, trial])  # RFC 8785 bytes: no object, no float is in it
    return int.from_bytes(hashlib.sha256(b"evalkit/seed\x00" + content).digest()[:4], "big") & 0x7FFFFFFF
