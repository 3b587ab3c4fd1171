"""The tokenizer's folder, and what a client that renders checks against the server."""

from pathlib import Path

import pytest

from evalkit.engines import EngineOptions, Gold, Request, make_engine
from evalkit.engines.tokenizer import TokenizerFolder
from evalkit.errors import BadInput, Refused
from tests.engines.support import character_tokenizer
from tests.engines.test_openai import ask, lock
from tests.servers.process import serve

MODEL = {"messages": [{"role": "user", "content": "{{ question }}"}], "chat_template": "model", "bos": "once"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return character_tokenizer(tmp_path)


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


def prompt_tokens(options: EngineOptions, prompt: str | None, reference: str = "openai:tiny@http://127.0.0.1:9/v1"):  # type: ignore[no-untyped-def]
    engine = make_engine(reference, lock({**MODEL, "chat_template": "none", "bos": "never"}), Gold([], dict), options)
    messages = None if prompt is not None else [{"role": "user", "content": "a"}]
    return engine.prompt_tokens(Request("s", "a", 0, 0, prompt, messages, {}))


def test_the_tokens_of_a_prompt_are_those_that_are_sent_with_their_names(folder: Path) -> None:
    options = EngineOptions(folder, folder)
    assert prompt_tokens(options, "<s>2+=") == [(0, "<s>"), (21, "2"), (14, "+"), (32, "=")]
    assert prompt_tokens(options, None) is None, "the server renders"
    assert prompt_tokens(EngineOptions(folder), "2+=") is None, "no tokenizer"
    for fixed in ("baseline:null", "replay:none.parquet"):
        assert prompt_tokens(options, "2+=", fixed) is None
