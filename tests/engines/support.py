"""A tokenizer small enough to count by hand."""

from __future__ import annotations

import json
from pathlib import Path


def character_tokenizer(folder: Path) -> Path:
    """A tokenizer with a token a character, and `<s>` and `</s>` as one token each, written into `folder`."""
    from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

    characters = [chr(code) for code in range(32, 127)]
    tokenizer = Tokenizer(
        models.WordLevel({text: i for i, text in enumerate(["<s>", "</s>", "<unk>", *characters])}, "<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.add_special_tokens([AddedToken("<s>", special=True), AddedToken("</s>", special=True)])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "bos_token": {"content": "<s>"},
        "eos_token": "</s>",
        "chat_template": "{{ bos_token }}{{ messages[0].content }}",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder
