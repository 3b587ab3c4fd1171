"""How trainers call the reward functions they train with, so that an evaluation calls the very same ones.

1. `TrlReward`: `f(prompts=…, completions=…, **columns) -> list`, once per group, by name, as `GRPOTrainer` of TRL
   1.16.0 does in `_calculate_rewards`. Columns are the item's fields, a list as long as the group each.
2. `OpenRlhfReward`: `f(queries, prompts, labels, **kwargs) -> tensor | list | {"rewards": …}`, once per group.
3. `VerlReward`: `f(data_source=…, solution_str=…, ground_truth=…, extra_info=…) -> number | {"score": …}`, per sample.
4. Nothing of the trainer's is invented: there are no token ids, no environments and no trainer state, and what a
   function logs into the trainer's tables goes nowhere. A column that a function requires and an item lacks is a
   failed score that names it.
5. The completion is the text that the protocol judges: where it splits reasoning off, what follows the reasoning.
6. This file imports the standard library, `base.py` and `group.py` only (`sources.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from evalkit.rewards.base import Response, Score, Status, as_score, no_verdict
from evalkit.rewards.group import WrongResult, call, evaluate_group, group_scores, plain

TRL_RESERVED = frozenset({"prompt", "completion", "prompts", "completions", "completion_ids", "environments"})
"""Names that TRL passes itself or leaves out; an item's field of such a name is no column."""


def _discard(*_: object) -> None:
    """TRL's `log_extra` and `log_metric`, where there is no trainer's table to log into."""


TRL_OWN: Mapping[str, object] = {"trainer_state": None, "log_extra": _discard, "log_metric": _discard}
"""What TRL passes of its own to every function; here to those that name it."""


@dataclass(frozen=True, slots=True)
class Accepts:
    """Arguments that a function takes by name."""

    named: frozenset[str]
    required: frozenset[str]
    """Those without a default."""
    anything: bool
    """Whether it takes `**kwargs`."""

    def __contains__(self, name: str) -> bool:
        return self.anything or name in self.named


@dataclass(frozen=True, slots=True)
class TrlReward:
    """A reward function of TRL's shape."""

    function: Callable[..., object]
    accepts: Accepts
    given: Mapping[str, Any]
    """Parameters of the function's own that the protocol sets."""
    conversational: bool
    """Prompts and completions as lists of messages, as TRL passes them for a conversational data set."""
    prompt_field: str
    """The item's field that is the prompt: text, or a list of messages where conversational."""

    declared_range: ClassVar[tuple[float, float] | None] = None

    def score(self, response: Response) -> Score:
        return evaluate_group(self, [response])[0]

    def score_group(self, responses: Sequence[Response]) -> list[Score]:
        arguments: dict[str, object] = self._columns(responses)
        arguments |= {name: value for name, value in TRL_OWN.items() if name in self.accepts.named}
        if "prompts" in self.accepts:
            arguments["prompts"] = [self._prompt(response) for response in responses]
        arguments["completions"] = [self._completion(response) for response in responses]
        arguments |= self.given
        return group_scores(call(self.function, **arguments), len(responses))

    def _columns(self, responses: Sequence[Response]) -> dict[str, object]:
        names = [name for name in responses[0].item if name not in TRL_RESERVED and name in self.accepts]
        columns: dict[str, object] = {name: [response.item[name] for response in responses] for name in names}
        if "target" not in columns and "target" in self.accepts and responses[0].target is not None:
            columns["target"] = [response.target for response in responses]
        known = {*columns, *self.given, *TRL_OWN, "prompts", "completions"}
        if missing := sorted(self.accepts.required - known):
            raise WrongResult(f"the function asks for the column {missing[0]!r}, which this item does not have")
        return columns

    def _prompt(self, response: Response) -> object:
        prompt = _field(response, self.prompt_field, "prompt_field")
        if not self.conversational:
            return _text(prompt, self.prompt_field, "set conversational: true where functions take messages")
        if isinstance(prompt, list):
            return prompt
        return [{"role": "user", "content": _text(prompt, self.prompt_field, "give text or a list of messages")}]

    def _completion(self, response: Response) -> object:
        if not self.conversational:
            return response.completion
        return [{"role": "assistant", "content": response.completion}]


@dataclass(frozen=True, slots=True)
class OpenRlhfReward:
    """A reward function of OpenRLHF's shape. A query is prompt and completion put together; a label is the target."""

    function: Callable[..., object]
    given: Mapping[str, Any]
    prompt_field: str

    declared_range: ClassVar[tuple[float, float] | None] = None

    def score(self, response: Response) -> Score:
        return evaluate_group(self, [response])[0]

    def score_group(self, responses: Sequence[Response]) -> list[Score]:
        mend = "give the prompt's text"
        prompts = [
            _text(_field(each, self.prompt_field, "prompt_field"), self.prompt_field, mend) for each in responses
        ]
        queries = [prompt + response.completion for prompt, response in zip(prompts, responses, strict=True)]
        result = call(self.function, queries, prompts, [response.target for response in responses], **self.given)
        if isinstance(result, Mapping):
            if "rewards" not in result:
                raise WrongResult(f"the function returned an object without 'rewards': {_keys(result)}")
            result = result["rewards"]
        return group_scores(result, len(responses))


@dataclass(frozen=True, slots=True)
class VerlReward:
    """A score function of verl's shape, called for one sample at a time as its naive reward manager does."""

    function: Callable[..., object]
    accepts: Accepts
    given: Mapping[str, Any]
    data_source: str | None
    """`None` takes the item's field `data_source`."""

    declared_range: ClassVar[tuple[float, float] | None] = None

    def score(self, response: Response) -> Score:
        source = response.item.get("data_source") if self.data_source is None else self.data_source
        if source is None and "data_source" in self.accepts:
            return no_verdict(Status.FAILED, _lacks("data_source", "data_source"))
        arguments: dict[str, object] = {
            "data_source": source,
            "solution_str": response.completion,
            "ground_truth": response.target,
            "extra_info": response.item.get("extra_info", response.item),
        }
        named = {name: value for name, value in arguments.items() if name in self.accepts}
        result = call(self.function, **named, **self.given)
        if not isinstance(result, Mapping):
            return as_score(plain(result))
        if "score" not in result:
            return no_verdict(Status.FAILED, f"the function returned an object without 'score': {_keys(result)}")
        found = as_score(plain(result["score"]))
        more = {key: value for key, value in result.items() if key != "score"}
        return Score(found.value, found.status, None, _line(more) if more and not found.evidence else found.evidence)


def _field(response: Response, name: str, parameter: str) -> object:
    if name not in response.item:
        raise WrongResult(_lacks(name, parameter))
    return response.item[name]


def _lacks(field: str, parameter: str) -> str:
    return f"the item has no field {field!r}; set the component's parameter {parameter}"


def _text(value: object, field: str, mend: str) -> str:
    if not isinstance(value, str):
        raise WrongResult(f"the item's field {field!r} is {type(value).__name__}, not text; {mend}")
    return value


def _keys(result: Mapping[Any, Any]) -> str:
    return ", ".join(str(key) for key in result) or "it is empty"


def _line(more: Mapping[Any, Any]) -> str:
    return " ".join(", ".join(f"{key}: {plain(value)}" for key, value in more.items()).split())
