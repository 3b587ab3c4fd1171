"""What a row of the ledger says: who did what when. Never a result, a prompt or an item.

A row's content is the RFC 8785 bytes of one JSON object with the fields of `Event`, all of them, null where a field
does not apply. These bytes are the leaf of the tree that the gate signs, so they are never rewritten.
"""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from evalkit.canonical import canonical_bytes

LOOK = "look"
MAX_BYTES = 8192
"""Largest content of a row: room for digests and ids, not for results."""


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the ledger."""

    when: str
    """UTC, to the second: `2026-07-01T09:30:00Z`."""
    who: str
    """The operating system's user."""
    event: str
    """`freeze`, `split`, `look`, `preflight`, `gate…`."""
    split: str | None = None
    """`NAME/ROLE`, or `NAME` for the whole set; None where no split is concerned."""
    protocol: str | None = None
    """`name@version`; None where no protocol is concerned."""
    model: str | None = None
    """The model as the user named it; None where no model is concerned."""
    purpose: str | None = None
    """Why the split was opened; None for events that open none."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """A small JSON object: digests, ids, counts. No floats."""
    seq: int | None = None
    """Number of the row, from 1; None before it is written. Not part of the content: its place in the tree says it."""

    @classmethod
    def now(
        cls,
        event: str,
        *,
        split: str | None = None,
        protocol: str | None = None,
        model: str | None = None,
        purpose: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> Event:
        """An event of this moment by this user."""
        when = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return cls(when, current_user(), event, split, protocol, model, purpose, details or {})

    @property
    def content(self) -> bytes:
        """The canonical bytes of the row.

        Raises:
            ValueError: more than `MAX_BYTES`.
        """
        content = canonical_bytes(
            {
                "when": self.when,
                "who": self.who,
                "event": self.event,
                "split": self.split,
                "protocol": self.protocol,
                "model": self.model,
                "purpose": self.purpose,
                "details": self.details,
            }
        )
        if len(content) > MAX_BYTES:
            raise ValueError(f"a ledger row of {len(content)} bytes (at most {MAX_BYTES}); record digests, not content")
        return content

    @property
    def look_key(self) -> bytes | None:
        """What makes a look the same look: protocol digest, split root, model digest, repeat. None for other events."""
        if self.event != LOOK:
            return None
        names = ("protocol_digest", "split_root", "model_digest", "repeat")
        return canonical_bytes([self.details.get(name) for name in names])


@dataclass(frozen=True, slots=True)
class Look:
    """The first time the results of one (protocol, split root, model, repeat) were shown."""

    seq: int
    when: str
    who: str
    protocol: str
    """`name@version`."""
    protocol_digest: str
    split: str
    """`NAME/ROLE`."""
    split_root: str
    model: str
    """The model as the user named it."""
    model_digest: str
    repeat: int
    purpose: str
    run_id: str


def look_of(event: Event) -> Look:
    """The look that a row of kind `look` records."""
    details = event.details
    return Look(
        seq=event.seq or 0,
        when=event.when,
        who=event.who,
        protocol=event.protocol or "",
        protocol_digest=details["protocol_digest"],
        split=event.split or "",
        split_root=details["split_root"],
        model=event.model or "",
        model_digest=details["model_digest"],
        repeat=details["repeat"],
        purpose=event.purpose or "",
        run_id=details["run_id"],
    )


def event_of(content: bytes, seq: int) -> Event:
    """The event in the bytes of row `seq`.

    Raises:
        ValueError: not the content of an event.
    """
    data = json.loads(content)
    if not isinstance(data, dict) or not isinstance(data.get("details"), dict):
        raise ValueError("not an event")
    try:
        return Event(**data, seq=seq)
    except TypeError:
        raise ValueError("not an event") from None


def current_user() -> str:
    """Name of the user the process runs as, from the operating system and not from the environment."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"
