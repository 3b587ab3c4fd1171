"""Roles of a split, and what each may be opened for.

1. `smoke` finds bugs, `dev` is tuned on, `public` shows the trend, `private` is for the release gate alone, `audit` is
   the human-label set.
2. What a split was opened for is a purpose; the ledger keeps it.
3. The check comes before anything of the split is read: see `check_purpose`.
"""

from __future__ import annotations

from evalkit.errors import BadInput, Refused
from evalkit.splits.words import nearest

ROLES = ("smoke", "dev", "public", "private", "audit")
SECRET_ROLES = ("private", "audit")
"""Roles whose items only their owner may read (0600)."""
PURPOSES = ("smoke", "prompt", "reward", "kl", "checkpoint", "debug", "report", "audit", "gate")
DEFAULT_PURPOSE = "checkpoint"
PUBLIC_LOOKS = 20
"""Models that may be looked at on a public split before every further look comes with a warning."""


def check_purpose(name: str, role: str, purpose: str | None) -> str:
    """The purpose to record for opening `name/role` with `evalkit run`.

    Args:
        name: the split set.
        role: one of `ROLES`.
        purpose: what the user said; None where nothing was said.

    Raises:
        BadInput: no such purpose.
        Refused: this role may not be opened so.
    """
    if purpose is not None and purpose not in PURPOSES:
        raise BadInput(
            f"--purpose {purpose}: no such purpose{nearest(purpose, PURPOSES)}; one of {', '.join(PURPOSES)}"
        )
    if role == "private":
        raise Refused(
            f"{name}/private is for the release gate alone: `evalkit run` never opens it; "
            f"use {name}/dev or {name}/public while tuning, and `evalkit gate` to release"
        )
    if purpose == "gate":
        raise Refused(f"--purpose gate: only `evalkit gate` opens a split for that; leave it out for {name}/{role}")
    if role == "audit":
        if purpose != "audit":
            raise Refused(
                f"{name}/audit is the human-label set, which tuning would wear out: it needs --purpose audit; "
                f"use {name}/dev while tuning"
            )
        return "audit"
    return "smoke" if role == "smoke" else purpose or DEFAULT_PURPOSE
