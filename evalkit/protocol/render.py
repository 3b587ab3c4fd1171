"""From an item to what the model is sent: messages, and where the protocol says so, the text itself.

1. Templates run in a sandbox and see the item's fields only; a field that is not there is an error, never empty text.
2. `none` joins the contents as they stand. `inline` and `model` render a chat template here, in the client.
3. A beginning-of-sequence token stands in the text, exactly once or never, as the protocol says.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from jinja2 import StrictUndefined, Template, TemplateError, UndefinedError
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from evalkit.canonical import digest
from evalkit.errors import BadInput
from evalkit.protocol.spec import Prompt, Protocol

Messages: TypeAlias = list[dict[str, str]]

_SIMPLE = re.compile(r"\{\{ *([A-Za-z_][A-Za-z0-9_]*) *\}\}")
_WORDS = frozenset({"true", "false", "none", "True", "False", "None", "not", "self", "loop"})
"""Names that mean something to Jinja even where the item has such a field."""
_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A chat template and the special tokens it may print."""

    text: str
    bos_token: str | None = None
    eos_token: str | None = None

    @property
    def digest(self) -> str:
        """Digest of the template and its special tokens."""
        return digest("chat-template", {"text": self.text, "bos_token": self.bos_token, "eos_token": self.eos_token})


class ItemTemplate:
    """A template over an item's fields, compiled once.

    Raises:
        BadInput: the template does not compile; `field` names it in messages.
    """

    def __init__(self, text: str, field: str) -> None:
        self.field = field
        self._pieces = _simple_pieces(text)
        try:
            self._template = _ENVIRONMENT.from_string(text)
        except TemplateError as error:
            raise BadInput(f"protocol, field {field}: not a Jinja template: {error}") from None

    def __call__(self, fields: Mapping[str, Any]) -> str:
        """The text for one item.

        Raises:
            BadInput: the template asks for a field the item does not have, or fails on its value.
        """
        if self._pieces is not None:
            try:
                return "".join([str(fields[piece]) if i % 2 else piece for i, piece in enumerate(self._pieces)])
            except KeyError:
                pass  # Jinja says what is missing
        try:
            return self._template.render(fields)
        except UndefinedError as error:
            raise BadInput(
                f"protocol, field {self.field}, item {fields.get('item_id', '?')}: {_missing(error, fields)}"
            ) from None
        except (TemplateError, SecurityError, TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise BadInput(
                f"protocol, field {self.field}, item {fields.get('item_id', '?')}: "
                f"{type(error).__name__}: {error}; mend the template or the item"
            ) from None


def _simple_pieces(text: str) -> list[str] | None:
    """Text and names by turns where a template is no more than text and `{{ name }}`; None for any other.

    Such a template is joined without Jinja, which does the same (`str` of the value) in ten times the time.
    """
    pieces = _SIMPLE.split(text)
    plain = all("{" not in piece and "\r" not in piece for piece in pieces[::2])
    return pieces if plain and not _WORDS.intersection(pieces[1::2]) else None


def _missing(error: UndefinedError, fields: Mapping[str, Any]) -> str:
    name = str(error).split("'")[1] if "'" in str(error) else ""
    near = difflib.get_close_matches(name, fields, 1, 0.5)
    return f"{error}; " + (f"did you mean {near[0]}?" if near else "the item has: " + ", ".join(fields))


class ChatRenderer:
    """A chat template, compiled, with what the protocol gives it besides the turns.

    Raises:
        BadInput: the template does not compile.
    """

    def __init__(self, template: ChatTemplate, prompt: Prompt) -> None:
        self._template = compile_chat_template(template.text)
        self._given = {
            **prompt.template_arguments,
            "bos_token": template.bos_token or "",
            "eos_token": template.eos_token or "",
            "add_generation_prompt": prompt.add_generation_prompt,
        }

    def __call__(self, messages: Messages, item: str) -> str:
        """The turns as one text; `item` is for the message.

        Raises:
            BadInput: the template fails on these turns.
        """
        try:
            return self._template.render({**self._given, "messages": messages})
        except (TemplateError, SecurityError, TypeError, ValueError, LookupError) as error:
            raise BadInput(
                f"chat template, item {item}: {error}; mend the template or prompt.template_arguments"
            ) from None


class Renderer:
    """Renders the prompts of one protocol.

    Args:
        protocol: the frozen protocol.
        model_template: the tokenizer's chat template; required by `chat_template: model` and only there.
        bos_token: the tokenizer's beginning-of-sequence token, where a tokenizer is at hand.

    Raises:
        BadInput: a template does not compile, or a token the protocol needs is not known.
    """

    def __init__(
        self, protocol: Protocol, model_template: ChatTemplate | None = None, bos_token: str | None = None
    ) -> None:
        prompt = protocol.prompt
        self.policy = prompt.chat_template
        self._prompt = prompt
        self._turns = [
            (turn.role, ItemTemplate(turn.content, f"prompt.messages.{i}.content"))
            for i, turn in enumerate(prompt.messages)
        ]
        self._before: Messages = [{"role": "system", "content": prompt.system}] if prompt.system is not None else []
        for shot in prompt.few_shot:
            self._before += [{"role": "user", "content": shot.user}, {"role": "assistant", "content": shot.assistant}]
        self.bos_token = prompt.bos_token or bos_token or (model_template.bos_token if model_template else None)
        if prompt.bos == "once" and not self.bos_token:
            raise BadInput(
                "protocol, field prompt.bos: once, but no beginning-of-sequence token is known; "
                "give prompt.bos_token or --tokenizer FOLDER, or say bos: never"
            )
        self._chat: ChatRenderer | None = None
        if self.policy == "model" and model_template is None:
            raise BadInput(
                "protocol, field prompt.chat_template: model needs the model's chat template, and there is none; give "
                "--tokenizer FOLDER, or freeze chat_template: none or inline for a model without one"
            )
        if self.policy in ("model", "inline"):
            text = model_template.text if self.policy == "model" and model_template else prompt.template or ""
            eos_token = model_template.eos_token if model_template else None
            self._chat = ChatRenderer(ChatTemplate(text, self.bos_token, eos_token), prompt)

    def messages(self, fields: Mapping[str, Any]) -> Messages:
        """System turn, few-shot turns in their order, then the item's own."""
        return [*self._before, *({"role": role, "content": template(fields)} for role, template in self._turns)]

    def prompt(self, fields: Mapping[str, Any]) -> tuple[str | None, Messages | None]:
        """What is sent for one item: the prompt's text, or the turns where the server renders; the other is None."""
        text = self.text(fields)
        return (text, None) if text is not None else (None, self.messages(fields))

    def text(self, fields: Mapping[str, Any]) -> str | None:
        """The whole prompt as text; None where the server renders."""
        if self.policy == "server":
            return None
        return self._with_bos(self.joined(self.messages(fields), str(fields.get("item_id", "?"))), fields)

    def joined(self, messages: Messages, item_id: str) -> str:
        """Turns as one text: by the chat template where there is one here, else their contents as they stand."""
        if self._chat is None:
            return "".join(message["content"] for message in messages)
        return self._chat(messages, item_id)

    def _with_bos(self, body: str, fields: Mapping[str, Any]) -> str:
        bos, item = self.bos_token, fields.get("item_id", "?")
        if bos and body.startswith(bos + bos):
            raise BadInput(f"prompt of item {item}: begins with two {bos}; remove one from the template or the text")
        if self._prompt.bos == "once" and bos:
            return body if body.startswith(bos) else bos + body
        if bos and body.startswith(bos):
            raise BadInput(f"prompt of item {item}: begins with {bos} under bos: never; say bos: once")
        return body


def compile_chat_template(text: str) -> Template:
    """A chat template as Hugging Face tokenizers run it: trimmed blocks, loop controls, `raise_exception`.

    `strftime_now` is refused when it is called: a prompt that holds today's date is another prompt tomorrow.
    """
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = _no_clock
    environment.filters["tojson"] = _to_json
    try:
        return environment.from_string(text)
    except TemplateError as error:
        raise BadInput(f"chat template: not a Jinja template: {error}") from None


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


def _no_clock(_format: str) -> NoReturn:
    raise TemplateError("it asks for today's date; freeze one in prompt.template_arguments")


def _to_json(value: Any, indent: int | None = None, **_: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
