"""Engines: who answers. Requests in, completions out as they finish.

1. An engine pulls the next request only when it has room for it, and holds few finished completions that nobody took:
   back-pressure follows from the construction.
2. A completion that could not be had is a completion too, with the outcome and the cause. Only what ends the whole
   run is raised.
3. An engine's fingerprint is taken before the first request. What identifies the model is in its digest, what else
   can change numbers is in the run's address, and the rest is recorded.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from evalkit.protocol import Lock, Messages

Outcome = Literal["completed", "truncated", "filtered", "skipped", "timed_out", "errored"]
Assurance = Literal["artifact", "recorded", "provider-asserted", "control"]
"""How the identity is known: weights that were hashed, a recording that names them, a server's word, a baseline."""

INFRASTRUCTURE: tuple[Outcome, ...] = ("timed_out", "errored")
"""Outcomes that say nothing about the model."""


@dataclass(frozen=True, slots=True)
class Request:
    """One completion to be made."""

    sample_id: str
    item_id: str
    trial: int
    seed: int
    prompt: str | None
    """The whole prompt as text; None where the server renders."""
    messages: Messages | None
    """The turns; None where the client renders."""
    fields: Mapping[str, Any]
    """The item."""


@dataclass(frozen=True, slots=True)
class Completion:
    """What came of one request."""

    sample_id: str
    outcome: Outcome
    text: str | None
    """None where there is no completion."""
    finish_reason: str | None = None
    n_prompt_tokens: int | None = None
    """None where the engine did not say."""
    n_completion_tokens: int | None = None
    cause: str | None = None
    """Typed cause where the outcome is not `completed` or `truncated`, such as `http_429`."""
    attempts: int = 1
    seconds: float = 0.0
    """From the first attempt's start to the end, waits included."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What answered."""

    reference: str
    """`engine:locator` as the user gave it, without credentials."""
    name: str
    """Short name for tables."""
    engine: str
    engine_version: str
    dtype: str | None
    model_digest: str
    assurance: Assurance
    chat_template_digest: str | None = None
    """Digest of the model's own chat template where the client renders with it; None elsewhere."""
    step: int | None = None
    """Training step, where known."""
    train_seed: int | None = None
    lineage: str | None = None
    """Which training run the model comes from, where known."""
    engine_args: Mapping[str, Any] = field(default_factory=dict)
    """Engine options that can change numbers; they enter the run's address."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Recorded, not identity: what the server said of itself and accepts."""


@dataclass(frozen=True, slots=True)
class Gold:
    """What an engine may ask about the items of a run."""

    item_ids: Sequence[str]
    completions: Callable[[], Mapping[str, str]]
    """A completion that must pass, by item id; rendered when a control asks."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What the command line can say about an engine."""

    root: Path
    """Relative paths in a locator start here or at the current folder."""
    tokenizer: Path | None = None
    concurrency: int | None = None
    """Requests in flight, for `hf:` the batch; None for the engine's own default."""
    step: int | None = None
    train_seed: int | None = None
    engine_args: Mapping[str, Any] = field(default_factory=dict)
    """Options of a local engine's own, such as `tensor_parallel_size`."""


class Engine(Protocol):
    """The interface of all engines."""

    @property
    def renders(self) -> bool:
        """Whether it needs prompts; a recording does not."""
        ...

    def model_template(self) -> ModelTemplate:
        """What the tokenizer contributes to rendering."""
        ...

    def prompt_tokens(self, request: Request) -> Sequence[tuple[int, str]] | None:
        """Id and text of every token of the prompt as it is sent, texts as the tokenizer names its tokens (`▁the`,
        `<s>`); None where the engine does not know them."""
        ...

    async def open(self) -> Fingerprint:
        """Say what answers. Called once, before all else; what is dear waits for `start`."""
        ...

    async def start(self, first: Request) -> None:
        """Get ready to answer, such as load weights. Called before `generate`; a second call only looks at `first`.

        Raises:
            BadInput: the engine cannot be started like this, or `first` cannot be sent as it stands.
            InfrastructureFailed: it should start and does not.
        """
        ...

    def generate(self, requests: Iterator[Request]) -> AsyncGenerator[Completion, None]:
        """One completion for every request, in the order they finish. May be called again after it has ended."""
        ...

    async def verify(self) -> None:
        """Raise `InfrastructureFailed` if what answers is not what `open` saw."""
        ...

    def observed(self) -> Mapping[str, Any]:
        """What the engine saw of itself while it answered; recorded with the run, no identity. Empty for most."""
        ...

    async def close(self) -> None:
        """Let go of everything. Safe to call twice."""
        ...


@dataclass(frozen=True, slots=True)
class ModelTemplate:
    """What a tokenizer contributes to rendering; all None where there is no tokenizer."""

    chat_template: Any = None
    bos_token: str | None = None


class EngineFactory(Protocol):
    """How the registry makes an engine."""

    def __call__(self, locator: str, lock: Lock, gold: Gold, options: EngineOptions) -> Engine: ...
