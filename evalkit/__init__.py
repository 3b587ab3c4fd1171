"""evalkit: frozen evaluation protocols, honest splits, runs that resume, rewards in components, refused comparisons.

The functions of `evalkit.api` are here by name and imported on first use, so that `evalkit --help` stays quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evalkit.api import (
        EngineOptions,
        audit_pairs,
        audit_plan,
        audit_reward,
        build_split,
        compare,
        evidence,
        find_run,
        freeze,
        freeze_audit,
        load_protocol,
        looks,
        run,
        samples,
        score,
        summarize,
        verify_protocol,
    )

__version__ = "0.1.0"
__all__ = [
    "EngineOptions",
    "audit_pairs",
    "audit_plan",
    "audit_reward",
    "build_split",
    "compare",
    "evidence",
    "find_run",
    "freeze",
    "freeze_audit",
    "load_protocol",
    "looks",
    "run",
    "samples",
    "score",
    "summarize",
    "verify_protocol",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'evalkit' has no attribute {name!r}")
    from evalkit import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted(__all__)
