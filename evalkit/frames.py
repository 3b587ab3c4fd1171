"""Frames between a process and its child, such as a scorer or an engine: 4 bytes of length, 1 byte of codec, JSON.

1. orjson where it can; the standard library where a text holds a lone surrogate or a number more than 64 bits, which
   orjson refuses and models produce. NaN in an item arrives as null.
2. A child has descriptors of its own for them, so that nothing it runs can print into a frame.
"""

from __future__ import annotations

import json
import os
import struct
from typing import Any, BinaryIO

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


def own_descriptors() -> tuple[BinaryIO, BinaryIO]:
    """In a child: pipes of its own; then stdin is empty and stdout is stderr, for everyone else in this process."""
    frames_in, frames_out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return frames_in, frames_out


def read_frame(stream: BinaryIO) -> Any:
    """The next message; `None` at end of input."""
    head = stream.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    length, codec = HEAD.unpack(head)
    body = stream.read(length)
    return None if len(body) < length else unpack(codec, body)


def write_frame(stream: BinaryIO, message: object) -> None:
    """Send a message; where nobody reads any more, the process ends."""
    try:
        stream.write(pack(message))
        stream.flush()
    except BrokenPipeError:
        os._exit(0)
