"""What goes over the wire to an OpenAI-compatible server, and how its answers are read. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalkit.engines.base import Outcome
from evalkit.engines.http import BadShape
from evalkit.engines.knobs import knobs_of
from evalkit.protocol import Protocol

NOT_OPENAI: Mapping[str, Any] = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
"""Sampling knobs beyond the OpenAI API, with the value that means off."""
CLIENT_ONLY = ("add_special_tokens", "add_generation_prompt", "chat_template_kwargs")
"""Other fields beyond the OpenAI API that a protocol may need."""
OUTCOMES: Mapping[str, Outcome] = {"stop": "completed", "length": "truncated", "content_filter": "filtered"}


def fields_of(spec: Protocol, name: str) -> dict[str, Any]:
    """Every field of a request but the prompt and the seed."""
    sampling, prompt = spec.sampling, spec.prompt
    knobs: dict[str, Any] = {"model": name, **knobs_of(sampling), "n": 1, "stream": False}
    if sampling.stop:
        knobs["stop"] = list(sampling.stop)
    if prompt.chat_template != "server":
        knobs["add_special_tokens"] = False
    else:
        if not prompt.add_generation_prompt:
            knobs["add_generation_prompt"] = False
        if prompt.template_arguments:
            knobs["chat_template_kwargs"] = plain_json(prompt.template_arguments)
    return knobs


def accept(body: Mapping[str, Any]) -> None:
    """One choice with text and a finish reason we know, or `BadShape`."""
    choices = body.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise BadShape(f"{len(choices) if isinstance(choices, list) else 'no'}_choices")
    choice = choices[0]
    if choice.get("finish_reason") not in OUTCOMES:
        raise BadShape(f"finish_reason_{choice.get('finish_reason')}")
    if choice["finish_reason"] != "content_filter" and not isinstance(_content(choice), str):
        raise BadShape("no_text")


def _content(choice: Mapping[str, Any]) -> Any:
    if "text" in choice:
        return choice["text"]
    message = choice.get("message")
    if not isinstance(message, dict):
        return None
    content = message.get("content")
    return "" if content is None and _reasoning(message) else content


def _reasoning(message: Mapping[str, Any]) -> str:
    found = message.get("reasoning_content") or message.get("reasoning")
    return found if isinstance(found, str) else ""


def text_of(choice: Mapping[str, Any], start: str | None, end: str | None) -> str:
    """The completion; reasoning that the server cut out is put back between the protocol's markers."""
    content: str = _content(choice) or ""
    message = choice.get("message")
    thought = _reasoning(message) if isinstance(message, dict) else ""
    if not thought or start is None or end is None:
        return content
    unfinished = not content and choice.get("finish_reason") == "length"
    return f"{start}{thought}" if unfinished else f"{start}{thought}{end}{content}"


def count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def plain_json(value: Any) -> Any:
    """Protocol values as JSON for a server: decimals as floats."""
    if isinstance(value, Mapping):
        return {key: plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    return value if value is None or isinstance(value, bool | int | str) else float(value)
