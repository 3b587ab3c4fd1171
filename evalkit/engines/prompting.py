"""From a request to the token ids that a local engine is given, and what ends a completion. No torch.

1. Text is made into tokens here, once for all local engines: special tokens written in it count, none is added.
2. Under `chat_template: server` the model's own chat template is rendered here, as a server would do it.
3. Two beginning-of-sequence tokens, or none in front of a text where the tokenizer itself puts one, are an error: the
   model would be measured on prompts unlike those it was trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evalkit.engines.base import Request
from evalkit.engines.tokenizer import TokenizerFolder
from evalkit.errors import BadInput
from evalkit.protocol import ChatRenderer, Protocol


@dataclass(frozen=True, slots=True)
class StopRules:
    """What ends a completion before `max_tokens`, and which tokens become text."""

    strings: tuple[str, ...]
    """Texts; a completion is cut before the first."""
    token_ids: tuple[int, ...]
    """The model's end-of-sequence ids, and stop strings that are one special token."""
    skip_special: bool
    """Whether special tokens are left out of the text; False where a reasoning marker is one."""


def stop_rules(spec: Protocol, tokenizer: TokenizerFolder, eos_token_ids: Sequence[int]) -> StopRules:
    """The rules of a protocol for a model.

    A stop string that is a special token never appears in the text, so its id stops instead.
    """
    special = tokenizer.special_tokens()
    named = {tokenizer.token_id(text) for text in spec.sampling.stop if text in special}
    return StopRules(
        strings=tuple(text for text in spec.sampling.stop if text not in special),
        token_ids=tuple(sorted({*eos_token_ids, *(one for one in named if one is not None)})),
        skip_special=not {spec.reasoning.start, spec.reasoning.end} & special,
    )


class PromptEncoder:
    """Token ids of the requests of one run.

    Raises:
        BadInput: the protocol leaves rendering to the server, and the model has no chat template.
    """

    def __init__(self, spec: Protocol, tokenizer: TokenizerFolder) -> None:
        self._tokenizer = tokenizer
        self._prompt = spec.prompt
        self._bos = tokenizer.token_id(tokenizer.bos_token) if tokenizer.bos_token else None
        self._trained_with_bos = tokenizer.adds_bos()
        self._chat: ChatRenderer | None = None
        if spec.prompt.chat_template == "server":
            template = tokenizer.chat_template()
            if template is None:
                raise BadInput(
                    f"{tokenizer.folder}: no chat template for chat_template: server; for a base model freeze "
                    "chat_template: none, else inline"
                )
            self._chat = ChatRenderer(template, spec.prompt)

    def encode(self, request: Request) -> list[int]:
        """Token ids of a request, whole.

        Raises:
            BadInput: an empty prompt, two BOS tokens, or none where the tokenizer puts one.
        """
        text = request.prompt
        if text is None:
            assert self._chat is not None
            text = self._chat(request.messages or [], request.item_id)
        ids = self._tokenizer.encode(text)
        if not ids:
            raise BadInput(f"prompt of item {request.item_id}: no token in it; write something into prompt.messages")
        bos, token = self._bos, self._tokenizer.bos_token
        if bos is not None and ids[:2] == [bos, bos]:
            raise BadInput(
                f"prompt of item {request.item_id}: begins with two {token} (id {bos}); the template writes one: "
                "remove the other from the messages"
            )
        if bos is not None and self._trained_with_bos and self._chat is None and ids[0] != bos:
            raise BadInput(
                f"prompt of item {request.item_id}: no {token} (id {bos}) in front, where the model's tokenizer puts "
                f'one; freeze prompt.bos: once with bos_token: "{token}"'
            )
        return ids

    def cut_left(self, ids: Sequence[int], keep: int) -> list[int]:
        """The last `keep` tokens; a BOS in front stays."""
        return cut_left(ids, keep, bool(ids) and ids[0] == self._bos)


def cut_left(ids: Sequence[int], keep: int, has_bos: bool) -> list[int]:
    """The last `keep` ≥ 2 token ids, the first of them the BOS where there is one."""
    if len(ids) <= keep:
        return list(ids)
    return [ids[0], *ids[-(keep - 1) :]] if has_bos else list(ids[-keep:])
