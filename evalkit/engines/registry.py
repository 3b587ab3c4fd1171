"""Engines by their prefix. A new engine is one new file and one line here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from evalkit.engines.base import Engine, EngineFactory, EngineOptions, Gold
from evalkit.errors import BadInput
from evalkit.protocol import Lock

ENGINES = {
    "vllm": "evalkit.engines.local:VllmEngine",
    "hf": "evalkit.engines.local:HfEngine",
    "openai": "evalkit.engines.openai:OpenAIEngine",
    "replay": "evalkit.engines.replay:ReplayEngine",
    "baseline": "evalkit.engines.baseline:BaselineEngine",
}
MAKES_NONE = ("replay", "baseline")
"""Engines that make no completions of their own: what they answer is fixed."""
FORMS = "vllm:PATH, hf:PATH, openai:NAME@URL, replay:FILE, baseline:null|echo|constant:TEXT|gold|shuffled"


def generates(reference: str) -> bool:
    """Whether the engine of `engine:locator` makes completions: not a recording, not a baseline."""
    return engine_name(reference) not in MAKES_NONE


def engine_name(reference: str) -> str:
    """The engine of `engine:locator`."""
    return reference.partition(":")[0]


def make_engine(reference: str, lock: Lock, gold: Gold, options: EngineOptions) -> Engine:
    """The engine that `engine:locator` names; nothing is loaded before `open`.

    Raises:
        BadInput: no such engine, or a locator it cannot read.
    """
    prefix, colon, locator = reference.partition(":")
    if not colon or not locator or prefix not in ENGINES:
        raise BadInput(f"--model {reference}: not a model; give {FORMS}")
    module, _, name = ENGINES[prefix].partition(":")
    factory: EngineFactory = getattr(import_module(module), name)
    return factory(locator, lock, gold, options)


def engine_arguments(given: Sequence[str]) -> dict[str, Any]:
    """Engine options from `NAME=VALUE`; a value is JSON where it can be, else text.

    Raises:
        BadInput: not of that form, or a name twice.
    """
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        name = name.strip().removeprefix("--").replace("-", "_")
        if not equals or not name.isidentifier():
            raise BadInput(f"--engine-arg {text}: not NAME=VALUE; such as dtype=bfloat16")
        if name in found:
            raise BadInput(f"--engine-arg {name}: given twice; keep one")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = {"True": True, "False": False, "None": None}.get(value, value)
    return found
