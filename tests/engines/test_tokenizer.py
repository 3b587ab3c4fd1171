"""The tokenizer's folder, and what a client that renders checks against the server."""

import json
from pathlib import Path

import pytest

from evalkit.engines.tokenizer import TokenizerFolder
from evalkit.errors import BadInput, Refused
from tests.engines.test_openai import ask, lock
from tests.servers.process import serve

MODEL = {"messages": [{"role": "user", "content": "{{ question }}"}], "chat_template": "model", "bos": "once"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tokenizer with a token a character, and `<s>` and `</s>` as one token each."""
    from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

    characters = [chr(code) for code in range(32, 127)]
    tokenizer = Tokenizer(
        models.WordLevel({text: i for i, text in enumerate(["<s>", "</s>", "<unk>", *characters])}, "<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.add_special_tokens([AddedToken("<s>", special=True), AddedToken("</s>", special=True)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    config = {
        "bos_token": {"content": "<s>"},
        "eos_token": "</s>",
        "chat_template": "{{ bos_token }}{{ messages[0].content }}",
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    return tmp_path


def test_special_tokens_written_in_the_text_are_one_token_each(folder: Path) -> None:
    assert len(TokenizerFolder(folder).encode("<s>2+2=")) == 5


def test_the_template_comes_from_its_own_file_before_the_configuration(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("own")
    found = TokenizerFolder(folder).chat_template()
    assert found is not None
    assert (found.text, found.bos_token, found.eos_token) == ("own", "<s>", "</s>")


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no tokenizer\.json; --tokenizer takes the folder of a model or its tokenizer"):
        TokenizerFolder(tmp_path)


def test_the_models_template_is_rendered_here_and_its_digest_recorded(folder: Path) -> None:
    with serve() as server:
        mark, _ = ask(server, lock(MODEL), 3, folder)
        sent = server.control()["requests"][-1]["prompt"]
    own = TokenizerFolder(folder).chat_template()
    assert own is not None
    assert mark.chat_template_digest == own.digest
    assert sent in ("<s>0+0=", "<s>1+1=", "<s>2+2=")


def test_a_server_that_adds_a_bos_of_its_own_is_refused_by_the_token_count(folder: Path) -> None:
    protocol = lock({**MODEL, "chat_template": "none", "bos": "never"})
    with serve(count_extra=1) as server, pytest.raises(Refused) as error:
        ask(server, protocol, 3, folder)
    assert "counts 5 tokens in a prompt that is 4 by --tokenizer" in str(error.value)
    assert str(error.value).endswith("honouring add_special_tokens: false")


def test_truncate_left_keeps_the_end_of_the_prompt_and_its_bos(folder: Path) -> None:
    protocol = lock(
        {**MODEL, "chat_template": "none", "messages": [{"role": "user", "content": "1234567890{{ question }}"}]},
        limits={"overflow": "truncate_left"},
        max_tokens=10,
    )
    with serve(max_model_len=16) as server:
        ask(server, protocol, 1, folder)
        sent = server.control()["requests"][-1]["prompt"]
    tokenizer = TokenizerFolder(folder)
    assert sent == [tokenizer.encode("<s>")[0], *tokenizer.encode("1234567890" + "0+0=")[-5:]]


def test_truncate_left_needs_a_tokenizer() -> None:
    with serve() as server, pytest.raises(BadInput, match="overflow: truncate_left needs the prompt's tokens"):
        ask(server, lock(limits={"overflow": "truncate_left"}))
