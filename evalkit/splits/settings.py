"""Checks of what a user asks a build for."""

from __future__ import annotations

import re
from collections.abc import Mapping

from evalkit.errors import BadInput, kind_of
from evalkit.splits.roles import ROLES
from evalkit.splits.words import nearest

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


def check_name(name: str) -> None:
    """Refuse a name that is no plain file name, or that reads as a role.

    Raises:
        BadInput: it is one.
    """
    if not NAME.fullmatch(name):
        raise BadInput(
            f"--name {name!r}: use up to 64 letters, digits, dots, dashes and underscores, a letter or digit first"
        )
    if name in ROLES:
        raise BadInput(f"--name {name}: is the name of a role; choose another")


def check_sizes(sizes: Mapping[str, int]) -> None:
    """Refuse sizes of unknown roles, and sizes that are no whole number from 1 up.

    Raises:
        BadInput: naming the first.
    """
    if not sizes:
        raise BadInput(f"--sizes: empty; give ROLE=N for one or more of {', '.join(ROLES)}")
    for role, size in sizes.items():
        if role not in ROLES:
            raise BadInput(f"--sizes {role}={size}: no such role{nearest(role, ROLES)}; one of {', '.join(ROLES)}")
        if not isinstance(size, int) or isinstance(size, bool):
            raise BadInput(f"--sizes {role}: {kind_of(size)} where a whole number belongs")
        if size < 1:
            raise BadInput(f"--sizes {role}={size}: at least 1; leave the role out where it gets no items")
