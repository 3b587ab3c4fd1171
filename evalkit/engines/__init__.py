"""Who answers: the engine interface and the engines behind it."""

from evalkit.engines.base import (
    INFRASTRUCTURE,
    Completion,
    Engine,
    EngineOptions,
    Fingerprint,
    Gold,
    ModelTemplate,
    Outcome,
    Request,
)
from evalkit.engines.registry import FORMS, make_engine

__all__ = [
    "FORMS",
    "INFRASTRUCTURE",
    "Completion",
    "Engine",
    "EngineOptions",
    "Fingerprint",
    "Gold",
    "ModelTemplate",
    "Outcome",
    "Request",
    "make_engine",
]
