"""Frames between the pool and its workers: 4 bytes of length, 1 byte of codec, JSON.

orjson where it can; the standard library where a text holds a lone surrogate or a number more than 64 bits, which
orjson refuses and models produce. NaN in an item arrives as null.
"""

from __future__ import annotations

import json
import struct
from typing import Any

import orjson

HEAD = struct.Struct(">IB")
_FAST, _FULL = 0, 1
LONGEST = 2**31
"""Bytes of one frame."""


def pack(message: object) -> bytes:
    """One frame.

    Raises:
        TypeError, ValueError: `message` holds something that JSON does not have, or is too long.
    """
    try:
        body, codec = orjson.dumps(message), _FAST
    except TypeError:
        body, codec = json.dumps(message, ensure_ascii=True).encode("ascii"), _FULL
    if len(body) > LONGEST:
        raise ValueError(f"a batch of {len(body)} bytes; the most is {LONGEST}")
    return HEAD.pack(len(body), codec) + body


def unpack(codec: int, body: bytes) -> Any:
    """The message of a frame's body."""
    return orjson.loads(body) if codec == _FAST else json.loads(body)
