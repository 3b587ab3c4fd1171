"""A process without network, for code that is not evalkit's: what a trainer's function may not reach while it scores.

1. On Linux the process moves into a network namespace of its own (unprivileged: and a user namespace around it), with
   no interface up, not even loopback.
   That covers it and every process it starts, in whatever language, and all of IPv4 and IPv6. It does not cover
   sockets that are files (`AF_UNIX`).
2. Everywhere an audit hook refuses `EVENTS` in Python. That covers Python code of this process, the C extensions that
   go through Python's `socket`, and processes that it forks; not a program that it starts, not a C library with
   sockets of its own. `AF_UNIX` is let through: Python's worker pools talk over it, and it stays on this machine.
3. Where the system does not permit 1, only 2 holds, and the caller is told so (`PYTHON_ONLY`).
4. It cannot be undone, and it guards against habit and accident, not against code that means to break out.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

BLOCKED = "blocked"
PYTHON_ONLY = "blocked in Python only"
OPEN = "open"
EVENTS = frozenset(
    f"socket.{name}"
    for name in (
        "connect", "bind", "sendto", "sendmsg", "getaddrinfo", "gethostbyname", "gethostbyaddr", "getnameinfo",
    )
)  # fmt: skip
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000


class NetworkRefused(RuntimeError):
    """Python code asked for the network. No `OSError`, so that it is not taken for a server that happens to be down."""


@dataclass(slots=True)
class Network:
    """What a process has of the network."""

    extent: str = OPEN
    """`OPEN`, `BLOCKED` (rules 1 and 2) or `PYTHON_ONLY` (rule 2)."""
    refused: list[str] = field(default_factory=list)
    """Events that were refused in this process so far."""


def block() -> Network:
    """Take the network away from this process. Call it before any thread is started and any foreign code imported."""
    network = Network(BLOCKED if _unshare() else PYTHON_ONLY)

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event in EVENTS and not _is_local(event, arguments):
            network.refused.append(event)
            raise NetworkRefused(f"{event}: a reward function has no network here; score from its arguments alone")

    sys.addaudithook(refuse)
    return network


def _is_local(event: str, arguments: tuple[Any, ...]) -> bool:
    """Whether a call is on an `AF_UNIX` socket, whose address is a path."""
    on_a_socket = event in ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg")
    return on_a_socket and getattr(getattr(arguments[0], "family", None), "name", "") == "AF_UNIX"


def _unshare() -> bool:
    """Leave the network by a namespace of our own; False where the system does not permit it."""
    if sys.platform != "linux":
        return False
    user, group = os.geteuid(), os.getegid()
    try:
        unshare = ctypes.CDLL(None, use_errno=True).unshare
    except (OSError, AttributeError):
        return False
    if unshare(_NEW_NETWORK) == 0:  # where we are privileged; every file stays as readable as it was
        return True
    if unshare(_NEW_USER | _NEW_NETWORK) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with suppress(OSError), open(f"/proc/self/{name}", "w") as file:  # else our own ids would read as nobody's
            file.write(text)
    return True
