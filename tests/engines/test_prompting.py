"""Token ids of prompts, BOS faults, and what ends a completion."""

import json
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from evalkit.engines.base import Request
from evalkit.engines.prompting import PromptEncoder, cut_left, stop_rules
from evalkit.engines.tokenizer import TokenizerFolder
from evalkit.errors import BadInput
from tests.protocol.specs import lock_of

EXAMPLE = Path("examples/arithmetic-grpo/checkpoints/hackable-s0-step-240")
TURN = [{"role": "user", "content": "1+2="}]


def encoder(tokenizer: TokenizerFolder, **prompt: Any) -> PromptEncoder:
    return PromptEncoder(spec(prompt=prompt), tokenizer)


def spec(**changes: Any) -> Any:
    small = {
        "name": "p",
        "version": 1,
        "prompt": {"messages": TURN, "chat_template": "none", "bos": "never"},
        "sampling": {"max_tokens": 4},
        "reward": {"components": {"c": {"use": "number", "role": "correctness"}}},
        "success": {"component": "c"},
    }
    for part, fields in changes.items():
        small[part] = (
            fields
            if part == "prompt" and fields.get("chat_template") == "server"
            else {**small.get(part, {}), **fields}
        )
    return lock_of(small).spec


def request(prompt: str | None, messages: Any = None) -> Request:
    return Request("s", "item-1", 0, 0, prompt, messages, {})


def test_the_prompts_text_decides_the_tokens() -> None:
    assert encoder(TokenizerFolder(EXAMPLE)).encode(request("<s>1+2=")) == [1, 4, 13, 5, 14]


def test_two_bos_tokens_are_an_error_that_names_the_fix() -> None:
    with pytest.raises(BadInput, match=r"item item-1: begins with two <s> \(id 1\); .* remove the other"):
        encoder(TokenizerFolder(EXAMPLE)).encode(request("<s><s>1+2="))


def test_no_bos_where_the_tokenizer_puts_one_is_an_error_that_names_the_fix() -> None:
    with pytest.raises(BadInput, match=r'no <s> \(id 1\) in front, .* freeze prompt.bos: once with bos_token: "<s>"'):
        encoder(TokenizerFolder(EXAMPLE)).encode(request("1+2="))


def test_an_empty_prompt_is_an_error() -> None:
    with pytest.raises(BadInput, match="item item-1: no token in it"):
        encoder(TokenizerFolder(EXAMPLE)).encode(request(""))


def test_under_server_the_models_own_template_is_rendered_as_a_server_would(tmp_path: Path) -> None:
    folder = Path(copytree(EXAMPLE, tmp_path / "chat"))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["chat_template"] = "{{ bos_token }}{{ messages[0].content }}{% if add_generation_prompt %}0{% endif %}"
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    server = {"messages": TURN, "chat_template": "server"}
    assert encoder(TokenizerFolder(folder), **server).encode(request(None, TURN)) == [1, 4, 13, 5, 14, 3]


def test_under_server_a_model_without_a_template_is_an_error() -> None:
    with pytest.raises(BadInput, match="no chat template for chat_template: server; for a base model freeze"):
        encoder(TokenizerFolder(EXAMPLE), messages=TURN, chat_template="server")


def test_a_stop_string_that_is_a_special_token_stops_by_its_id() -> None:
    rules = stop_rules(spec(sampling={"stop": ["<pad>", "+"]}), TokenizerFolder(EXAMPLE), (2,))
    assert (rules.strings, rules.token_ids, rules.skip_special) == (("+",), (0, 2), True)


def test_reasoning_markers_that_are_special_tokens_stay_in_the_text() -> None:
    marked = spec(reasoning={"start": "<pad>", "end": "</think>"})
    assert not stop_rules(marked, TokenizerFolder(EXAMPLE), (2,)).skip_special


def test_cutting_at_the_left_keeps_the_bos() -> None:
    assert cut_left([1, 5, 6, 7, 8], 3, has_bos=True) == [1, 7, 8]
    assert cut_left([4, 5, 6, 7, 8], 3, has_bos=False) == [6, 7, 8]
    assert cut_left([1, 5], 3, has_bos=True) == [1, 5]
