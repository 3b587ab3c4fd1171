"""A model's tokenizer folder: its chat template, its special tokens, and token counts.

Files only, no code of the model: `tokenizer.json`, `tokenizer_config.json`, `chat_template.jinja`. Counting needs the
extra `tokenizer`; reading the template needs nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evalkit.canonical import digest_bytes
from evalkit.errors import BadInput
from evalkit.protocol import ChatTemplate


class TokenizerFolder:
    """The tokenizer of a model folder.

    Raises:
        BadInput: not a folder, or without `tokenizer.json`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise BadInput(f"{folder}: no tokenizer.json; --tokenizer takes the folder of a model or its tokenizer")
        self._config = self._json("tokenizer_config.json")
        self.digest = digest_bytes("tokenizer", path.read_bytes())
        self.bos_token = self._token("bos_token")
        self.eos_token = self._token("eos_token")
        self._tokenizer: Any = None

    def _json(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        if not path.is_file():
            return {}
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise BadInput(f"{path}: not JSON: {error}; copy the file again from the model") from None
        return content if isinstance(content, dict) else {}

    def _token(self, name: str) -> str | None:
        for source in (self._config, self._json("special_tokens_map.json")):
            value = source.get(name)
            if isinstance(value, dict):
                value = value.get("content")
            if isinstance(value, str):
                return value
        return None

    def chat_template(self) -> ChatTemplate | None:
        """The model's chat template, from its own file or the configuration; None where it has none.

        Raises:
            BadInput: several named templates and none called `default`.
        """
        path = self.folder / "chat_template.jinja"
        text = path.read_text(encoding="utf-8") if path.is_file() else self._config.get("chat_template")
        if isinstance(text, list):
            named = {entry.get("name"): entry.get("template") for entry in text if isinstance(entry, dict)}
            if "default" not in named:
                raise BadInput(f"{self.folder}: chat templates {', '.join(map(str, named))} and no default; inline one")
            text = named["default"]
        return ChatTemplate(text, self.bos_token, self.eos_token) if isinstance(text, str) else None

    @property
    def _loaded(self) -> Any:
        if self._tokenizer is None:
            try:
                from tokenizers import Tokenizer
            except ModuleNotFoundError:
                raise BadInput("the model's tokenizer needs the extra: pip install 'evalkit-rl[tokenizer]'") from None
            try:
                self._tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
            except Exception as error:  # noqa: BLE001 - the library raises plain Exception for a file it cannot read
                raise BadInput(f"{self.folder}/tokenizer.json: {error}; copy it again from the model") from None
            self._tokenizer.no_truncation()
            self._tokenizer.no_padding()
        return self._tokenizer

    def encode(self, text: str) -> list[int]:
        """Token ids of `text` as it stands: special tokens written in it are recognised, none is added."""
        ids: list[int] = self._loaded.encode(text, add_special_tokens=False).ids
        return ids

    def token(self, number: int) -> str:
        """The token with this id as the vocabulary spells it (`Ġthe`, `▁the`, `<s>`)."""
        return str(self._loaded.id_to_token(number))

    def token_id(self, token: str) -> int | None:
        """Id of one token by its text; None where the vocabulary lacks it."""
        found: int | None = self._loaded.token_to_id(token)
        return found

    def special_tokens(self) -> set[str]:
        """Texts that are special tokens: they are left out when a completion is made into text."""
        return {token.content for token in self._loaded.get_added_tokens_decoder().values() if token.special}

    def affixes(self) -> tuple[list[int], list[int]]:
        """Ids that the tokenizer itself puts in front of a text and after it, as it then did in training."""
        plain, whole = self.encode("a"), list(self._loaded.encode("a").ids)
        at = next((i for i in range(len(whole)) if whole[i : i + len(plain)] == plain), 0)
        return whole[:at], whole[at + len(plain) :]

    def adds_bos(self) -> bool:
        """Whether the tokenizer itself puts its BOS in front of a text, as it then did in training."""
        if self.bos_token is None:
            return False
        return bool(self._loaded.encode("a").ids[:1] == [self.token_id(self.bos_token)])
