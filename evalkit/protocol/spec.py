"""The protocol: every choice that can change an evaluation's numbers, as one frozen object.

1. A field that is not written takes the default named here, and the default is written into the lock: nothing is left
   to a server, a backend or a later version.
2. Unknown fields are refused with the nearest known one. Numbers are exact decimals, never binary floats.
3. `PARTS` says of every field which digest it belongs to; a field in none of them changes no number.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from evalkit.errors import kind_of

NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"
ROLES = ("correctness", "constraints", "safety", "conciseness", "formatting", "tool_results", "preference", "other")

Role = Literal[
    "correctness", "constraints", "safety", "conciseness", "formatting", "tool_results", "preference", "other"
]
Estimator = Literal["unbiased", "verl_best", "openrlhf_max", "skyrl_any"]
Part = Literal["generation", "scoring", "protocol", "none"]

PARTS: dict[str, Part] = {
    "name": "none",
    "version": "none",
    "description": "none",
    "prompt": "generation",
    "sampling": "generation",
    "tools": "generation",
    "limits": "generation",
    # Decides whether a run is valid, never what a completion says: changing it must not cost a new generation.
    "limits.error_budget": "protocol",
    "target": "scoring",
    "gold_completion": "scoring",
    "reasoning": "scoring",
    "reward": "scoring",
    "success": "scoring",
    "truncation": "protocol",
    "missing": "protocol",
    "metrics": "protocol",
    "cluster_key": "protocol",
}


def _exact(value: Any, info: ValidationInfo) -> Any:
    """A number as it was written; text only where a lock is read, which writes decimals as text."""
    from_lock = bool(info.context and info.context.get("lock"))
    if isinstance(value, bool) or not isinstance(value, (int, Decimal, str) if from_lock else (int, Decimal)):
        raise ValueError(f"{kind_of(value)} where a number belongs; write it without quotes")
    return Decimal(value)


Number = Annotated[Decimal, BeforeValidator(_exact)]
Whole = Annotated[int, Field(strict=True)]
Text = Annotated[str, Field(strict=True)]
Flag = Annotated[bool, Field(strict=True)]


class Section(BaseModel):
    """Base of all parts of a protocol: frozen, no unknown fields, text kept as written."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            for key in data:
                if key not in cls.model_fields:
                    near = difflib.get_close_matches(str(key), cls.model_fields, 1, 0.5)
                    mend = f"did you mean {near[0]}?" if near else "known: " + ", ".join(cls.model_fields)
                    raise ValueError(f"unknown field {key}; {mend}")
        return data


class Message(Section):
    """One turn; `content` is a Jinja template over the item's fields."""

    role: Literal["system", "user", "assistant"]
    content: Text


class Shot(Section):
    """One worked example, shown in this order before the item. Plain text, no template."""

    user: Text
    assistant: Text


class Prompt(Section):
    """What the model is shown."""

    messages: Annotated[tuple[Message, ...], Field(min_length=1)]
    system: Text | None = None
    """A system turn put first; null for none."""
    few_shot: tuple[Shot, ...] = ()
    chat_template: Literal["model", "inline", "none", "server"] = "server"
    """Who turns messages into text: the tokenizer's own template, the one below, nobody (contents are joined as
    they stand), or the server (which then only asserts what it did)."""
    template: Text | None = None
    """The chat template's text; required by `inline` and only there."""
    template_arguments: dict[str, Any] = Field(default_factory=dict)
    """Further variables for the chat template, such as `enable_thinking`."""
    add_generation_prompt: Flag = True
    bos: Literal["once", "never"] | None = Field(default=None, validate_default=True)
    """`once`: the text begins with exactly one beginning-of-sequence token; `never`: with none. Required unless the
    server renders, which then decides."""
    bos_token: Text | None = None
    """Text of that token where no tokenizer is at hand to name it."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.template is not None) != (self.chat_template == "inline"):
            raise ValueError("template goes with chat_template: inline, and only there")
        if self.chat_template == "server":
            if self.bos is not None or self.bos_token is not None:
                raise ValueError("bos is the server's business under chat_template: server; remove it")
        elif self.bos is None:
            raise ValueError("bos is missing; say once or never")
        if self.system is not None and self.messages[0].role == "system":
            raise ValueError("system is given twice; keep the field or the first message")
        return self


class Sampling(Section):
    """How tokens are drawn. Every knob is sent to the engine, whatever the engine's own default."""

    max_tokens: Annotated[Whole, Field(ge=1)]
    temperature: Annotated[Number, Field(ge=0)] = Decimal(0)
    top_p: Annotated[Number, Field(gt=0, le=1)] = Decimal(1)
    top_k: Annotated[Whole, Field(ge=-1)] = -1
    """-1 for no limit."""
    min_p: Annotated[Number, Field(ge=0, le=1)] = Decimal(0)
    repetition_penalty: Annotated[Number, Field(gt=0)] = Decimal(1)
    presence_penalty: Annotated[Number, Field(ge=-2, le=2)] = Decimal(0)
    frequency_penalty: Annotated[Number, Field(ge=-2, le=2)] = Decimal(0)
    stop: tuple[Text, ...] = ()
    """Stop strings; none but these."""
    n: Annotated[Whole, Field(ge=1)] = 1
    """Completions (trials) of each item; each is a request of its own with a seed of its own."""
    seed: Annotated[Whole, Field(ge=0, lt=2**53)] = 0

    @model_validator(mode="after")
    def _not_contradictory(self) -> Self:
        if self.top_k == 0:
            raise ValueError("top_k: 0 means different things to different engines; write -1 for no limit")
        if self.temperature == 0:
            if self.n > 1:
                raise ValueError(
                    f"temperature: 0 with n: {self.n} gives {self.n} times the same; set n: 1 or raise temperature"
                )
            if self.top_p != 1 or self.top_k != -1 or self.min_p != 0:
                raise ValueError("temperature: 0 is greedy; remove top_p, top_k and min_p, or raise temperature")
        if any(not text for text in self.stop):
            raise ValueError("an empty stop string would stop every completion; remove it")
        return self


class Reasoning(Section):
    """How the answer is told from the reasoning before it."""

    start: Text | None = None
    end: Text | None = None
    unterminated: Literal["wrong", "no_verdict"] = "wrong"
    """What a completion is worth whose reasoning never ends: its answer is empty and judged so, or not judged."""

    @model_validator(mode="after")
    def _both_markers(self) -> Self:
        if (self.start is None) != (self.end is None) or self.start == "" or self.end == "":
            raise ValueError("reasoning needs both markers, start and end, or neither")
        return self


class Tool(Section):
    """One tool the model may call."""

    name: Text
    permission: Literal["allow", "ask", "deny"]
    schema_digest: Annotated[Text, Field(pattern=r"^ek1:sha256:[0-9a-f]{64}$")]
    """Digest of the JSON schema of its arguments."""
    max_calls: Annotated[Whole, Field(ge=1)]
    timeout: Annotated[Number, Field(gt=0)]
    """Seconds."""


class Limits(Section):
    """What a request may cost, and what happens beyond."""

    request_timeout: Annotated[Number, Field(gt=0)] = Decimal(600)
    """Seconds for one attempt; then the attempt is retried, and at last the outcome is `timed_out`."""
    retries: Annotated[Whole, Field(ge=0, le=100)] = 5
    """Attempts after the first."""
    error_budget: Annotated[Number, Field(ge=0, le=1)] = Decimal("0.01")
    """Share of planned samples that may end without a completion before the run is invalid (exit code 75)."""
    overflow: Literal["error", "skip", "truncate_left"] = "error"
    """A prompt that does not fit beside max_tokens: an error, a skipped item, or cut at its left."""


class ComponentSpec(Section):
    """One named part of the reward."""

    use: Text
    """A built-in component, `python:FILE:FUNCTION` of the project, or a trainer's function: `trl:`, `verl:` or
    `openrlhf:MODULE:FUNCTION`."""
    role: Role
    weight: Number = Decimal(1)
    """Its factor in the reward; 0 logs it only."""
    params: dict[str, Any] = Field(default_factory=dict)
    range: tuple[Number, Number] | Literal["unbounded"] | None = None
    """Lowest and highest value; null takes the component's own."""

    @field_validator("range")
    @classmethod
    def _ordered(cls, value: Any) -> Any:
        if isinstance(value, tuple) and not value[0] < value[1]:
            raise ValueError(f"range [{value[0]}, {value[1]}] is empty; give the lower end first")
        return value


class Reward(Section):
    """Σ weight · value over the components, not normalised."""

    components: Annotated[dict[Annotated[str, Field(pattern=NAME)], ComponentSpec], Field(min_length=1)]
    deadline: Annotated[Number, Field(gt=0)] = Decimal(10)
    """Seconds one component may take for one sample, a function that scores whole groups for one group; then its status
    is `timeout`."""

    @field_validator("components")
    @classmethod
    def _not_reserved(cls, value: dict[str, ComponentSpec]) -> dict[str, ComponentSpec]:
        for reserved in ("reward", "success"):
            if reserved in value:
                raise ValueError(f"{reserved} names a whole, not a component; call it something else")
        return value


class Success(Section):
    """When a sample counts as solved."""

    component: Text
    """A component, or `reward` for the composite."""
    at_least: Number = Decimal(1)


class Metric(Section):
    """A statistic of success: `mean`, or one of the k-metrics with its k and estimator."""

    name: Literal["mean", "pass@k", "pass^k", "maj@k"]
    k: tuple[Annotated[Whole, Field(ge=1)], ...] = ()
    estimator: Estimator = "unbiased"
    """`unbiased`, or a trainer's own convention, to reproduce its number under its own name: `verl_best` (best of k
    drawn with replacement, of success), `openrlhf_max` (mean of maximal rewards) and `skyrl_any` (any reward > 0), the
    last two over all n completions."""

    @model_validator(mode="after")
    def _k_where_needed(self) -> Self:
        if (self.name == "mean") != (not self.k):
            raise ValueError(f"{self.name} {'takes no k' if self.k else 'needs k, a list such as [1, 8]'}")
        if self.estimator != "unbiased" and self.name != "pass@k":
            raise ValueError(f"estimator {self.estimator} is a convention of pass@k; {self.name} has only unbiased")
        if len(set(self.k)) != len(self.k):
            raise ValueError("k is listed twice; keep one")
        return self


class Protocol(Section):
    """A whole protocol. Frozen: a change is a new version."""

    name: Annotated[Text, Field(pattern=NAME)]
    version: Annotated[Whole, Field(ge=1)]
    description: Text = ""
    prompt: Prompt
    sampling: Sampling
    reasoning: Reasoning = Reasoning()
    tools: tuple[Tool, ...] = ()
    limits: Limits = Limits()
    target: Text = "{{ target }}"
    """Template over the item's fields: what a right answer says."""
    gold_completion: Text = "{{ target }}"
    """Template of a completion that must pass, for the control `baseline:gold`; sees `target` too."""
    reward: Reward
    success: Success
    truncation: Literal["wrong", "no_verdict"] = "wrong"
    """Whether a completion cut at max_tokens is no success, or no verdict on success. Components describe its text."""
    missing: Literal["exclude", "worst", "undefined"] = "exclude"
    """A sample without a verdict: left out of the mean (bounds are printed), counted at the low end of the range, or
    making the mean undefined."""
    metrics: Annotated[tuple[Metric, ...], Field(min_length=1)] = (Metric(name="mean"),)
    cluster_key: Text = "cluster_id"
    """Item field whose equal values are one unit of independence; `cluster_id` is the split's own, `item_id` none."""

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.success.component != "reward" and self.success.component not in self.reward.components:
            near = difflib.get_close_matches(self.success.component, self.reward.components, 1, 0.5)
            mend = f"did you mean {near[0]}?" if near else "known: reward, " + ", ".join(self.reward.components)
            raise ValueError(f"success.component {self.success.component} is not a component; {mend}")
        n = self.sampling.n
        for metric in self.metrics:
            if metric.k and max(metric.k) > n:
                raise ValueError(f"{metric.name} with k = {max(metric.k)} needs sampling.n of at least that; n is {n}")
            if metric.estimator in ("openrlhf_max", "skyrl_any") and metric.k != (n,):
                raise ValueError(f"estimator {metric.estimator} looks at all n completions; write k: [{n}]")
        names = [(metric.name, metric.estimator) for metric in self.metrics]
        if len(set(names)) != len(names):
            raise ValueError("a metric is listed twice with one estimator; join their k")
        if len({tool.name for tool in self.tools}) != len(self.tools):
            raise ValueError("a tool is listed twice; keep one")
        return self

    @property
    def id(self) -> str:
        """`name@version`."""
        return f"{self.name}@{self.version}"
