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
from evalkit.engines.checkpoint import is_complete, step_of, weights_folder
from evalkit.engines.registry import FORMS, engine_arguments, engine_name, generates, make_engine

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
    "engine_arguments",
    "engine_name",
    "generates",
    "is_complete",
    "make_engine",
    "step_of",
    "weights_folder",
]
