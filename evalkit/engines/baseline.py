"""`baseline:KIND`: floors and controls that no model is needed for.

`null` says nothing, `echo` repeats the prompt, `constant:TEXT` always says TEXT: what they reach is what a metric
gives away. `gold` says a completion that must pass: what it misses, the scorer misjudges. `shuffled` says the gold of
another item: what it reaches, any fluent answer reaches.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from typing import Any

from evalkit.canonical import digest
from evalkit.engines.base import Completion, EngineOptions, Fingerprint, Gold, ModelTemplate, Request
from evalkit.errors import BadInput
from evalkit.protocol import Lock

KINDS = ("null", "echo", "constant", "gold", "shuffled")


def lenders(item_ids: Iterable[str]) -> dict[str, str]:
    """Whose gold each item is answered with by `shuffled`: that of the next in a circle ordered by a hash."""
    circle = sorted(item_ids, key=lambda item: hashlib.sha256(item.encode()).digest())
    return {item: circle[(i + 1) % len(circle)] for i, item in enumerate(circle)}


class BaselineEngine:
    """Engine without a model."""

    def __init__(self, locator: str, lock: Lock, gold: Gold, options: EngineOptions) -> None:
        if options.engine_args:
            raise BadInput("--engine-arg: baseline: takes none; they are for vllm: and hf:")
        self._kind, colon, self._text = locator.partition(":")
        if self._kind not in KINDS or bool(colon) != (self._kind == "constant"):
            raise BadInput(f"--model baseline:{locator}: not one of null, echo, constant:TEXT, gold, shuffled")
        if self._kind == "shuffled" and len(gold.item_ids) < 2:
            raise BadInput("--model baseline:shuffled: one item has no other to borrow from; use a larger split")
        self._locator = locator
        self._lock = lock
        self._answers = self._prepare(gold)

    def _prepare(self, gold: Gold) -> dict[str, str]:
        """What each item is answered with: its own gold, or that of the next item in a fixed shuffled circle."""
        if self._kind not in ("gold", "shuffled"):
            return {}
        own = dict(gold.completions())
        if self._kind == "gold":
            return own
        return {item: own[lender] for item, lender in lenders(own).items()}

    @property
    def renders(self) -> bool:
        """Only the echo needs prompts."""
        return self._kind == "echo"

    def model_template(self) -> ModelTemplate:
        """No tokenizer."""
        return ModelTemplate()

    def prompt_tokens(self, request: Request) -> None:
        """No tokenizer."""

    async def open(self) -> Fingerprint:
        """Nothing to load."""
        content = {
            "kind": self._locator,
            "gold_completion": self._lock.spec.gold_completion,
            "target": self._lock.spec.target,
        }
        return Fingerprint(
            reference=f"baseline:{self._locator}",
            name=f"baseline:{self._locator}",
            engine="baseline",
            engine_version="1",
            dtype=None,
            model_digest=digest("baseline", content),
            assurance="control",
        )

    async def start(self, first: Request) -> None:
        """Ready as it is."""

    async def generate(self, requests: Iterator[Request]) -> AsyncGenerator[Completion, None]:
        """One completion for every request, at once."""
        for request in requests:
            yield Completion(request.sample_id, "completed", self._say(request), "stop", None, None)

    def _say(self, request: Request) -> str:
        if self._kind == "null":
            return ""
        if self._kind == "constant":
            return self._text
        if self._kind == "echo":
            return (
                request.prompt if request.prompt is not None else (request.messages or [{"content": ""}])[-1]["content"]
            )
        return self._answers[request.item_id]

    async def verify(self) -> None:
        """Nothing can change."""

    def observed(self) -> Mapping[str, Any]:
        """Nothing."""
        return {}

    async def close(self) -> None:
        """Nothing to let go of."""
