"""Engines by their prefix. A new engine is one new file and one line here."""

from __future__ import annotations

from importlib import import_module

from evalkit.engines.base import Engine, EngineFactory, EngineOptions, Gold
from evalkit.errors import BadInput
from evalkit.protocol import Lock

ENGINES = {
    "openai": "evalkit.engines.openai:OpenAIEngine",
    "replay": "evalkit.engines.replay:ReplayEngine",
    "baseline": "evalkit.engines.baseline:BaselineEngine",
}
FORMS = "openai:NAME@URL, replay:FILE, baseline:null|echo|constant:TEXT|gold|shuffled"


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
