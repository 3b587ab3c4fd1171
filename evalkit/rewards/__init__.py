"""What an answer is worth: components, the processes that run them, the composite, and side metrics.

Light on purpose: a name is imported when it is first used, so that a scorer process loads what it runs and no more.
Scorers that are models need the engines, so they are not named here: `reward_model` and `judging` are their surface.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evalkit.rewards.adapters import is_adapter, takes_groups
    from evalkit.rewards.base import Component, Response, Score, Status, evaluate
    from evalkit.rewards.group import GroupComponent, evaluate_group
    from evalkit.rewards.pool import ScoringPool
    from evalkit.rewards.reasoning import Split, split_reasoning
    from evalkit.rewards.registry import IGNORES_ITEM, NAMES, READS_ANSWER, Resolved, build, resolve
    from evalkit.rewards.reward import composite
    from evalkit.rewards.side import SideMetrics, side_metrics

_HOMES = {
    "adapters": ("is_adapter", "takes_groups"),
    "base": ("Component", "Response", "Score", "Status", "evaluate"),
    "group": ("GroupComponent", "evaluate_group"),
    "pool": ("ScoringPool",),
    "reasoning": ("Split", "split_reasoning"),
    "registry": ("IGNORES_ITEM", "NAMES", "READS_ANSWER", "Resolved", "build", "resolve"),
    "reward": ("composite",),
    "side": ("SideMetrics", "side_metrics"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "IGNORES_ITEM",
    "NAMES",
    "READS_ANSWER",
    "Component",
    "GroupComponent",
    "Resolved",
    "Response",
    "Score",
    "ScoringPool",
    "SideMetrics",
    "Split",
    "Status",
    "build",
    "composite",
    "evaluate",
    "evaluate_group",
    "is_adapter",
    "resolve",
    "side_metrics",
    "split_reasoning",
    "takes_groups",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
