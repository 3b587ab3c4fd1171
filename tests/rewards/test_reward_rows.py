"""Token ids of rows for a reward model: template once, BOS once, EOS as trained, cuts marked."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalkit.engines.tokenizer import TokenizerFolder
from evalkit.errors import BadInput
from evalkit.rewards.reward_rows import RewardRow, RowEncoder
from tests.engines.support import character_tokenizer

CHAT = "{{ bos_token }}{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"
TURN = [{"role": "user", "content": "1+1="}]


def tokenizer(folder: Path, template: str | None = CHAT, bos: bool = True, eos: bool = False) -> TokenizerFolder:
    """The character tokenizer, which itself puts `<s>` in front and, with `eos`, `</s>` at the end."""
    from tokenizers import Tokenizer, processors

    character_tokenizer(folder)
    loaded = Tokenizer.from_file(str(folder / "tokenizer.json"))
    single = f"{'<s> ' if bos else ''}$A{' </s>' if eos else ''}"
    loaded.post_processor = processors.TemplateProcessing(single=single, special_tokens=[("<s>", 0), ("</s>", 1)])
    loaded.save(str(folder / "tokenizer.json"))
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "chat_template": template}))
    return TokenizerFolder(folder)


def text_of(tokens: TokenizerFolder, ids: Any) -> str:
    return "".join(tokens.token(number) for number in ids)


def scored(tokens: TokenizerFolder, prompt: Any, completion: str = "2", **options: Any) -> tuple[str, tuple[str, ...]]:
    found = RowEncoder(tokens, (1,), **options).encode(RewardRow("r", prompt, completion))
    return text_of(tokens, found.ids), found.codes


def test_a_text_gets_one_bos_and_one_eos_whether_or_not_they_are_written_in_it(tmp_path: Path) -> None:
    tokens = tokenizer(tmp_path, template=None)
    assert scored(tokens, "1+1=") == ("<s>1+1=2</s>", ())
    assert scored(tokens, "<s>1+1=") == ("<s>1+1=2</s>", ())
    assert scored(tokens, "<s>1+1=", "2</s>") == ("<s>1+1=2</s>", ())


def test_the_tokenizers_own_eos_is_not_put_twice(tmp_path: Path) -> None:
    tokens = tokenizer(tmp_path, template=None, eos=True)
    assert scored(tokens, "1+1=") == ("<s>1+1=2</s>", ())
    assert scored(tokens, "1+1=", eos=True) == ("<s>1+1=2</s>", ())


def test_no_eos_is_appended_where_the_caller_says_so_and_its_absence_is_said(tmp_path: Path) -> None:
    tokens = tokenizer(tmp_path, template=None, eos=True)
    assert scored(tokens, "1+1=", eos=False) == ("<s>1+1=2", ("SCORE.EOS_MISSING",))


def test_turns_are_rendered_once_and_end_as_the_template_ends(tmp_path: Path) -> None:
    tokens = tokenizer(tmp_path)
    assert scored(tokens, TURN) == ("<s>[user:1+1=][assistant:2]", ("SCORE.EOS_MISSING",))
    assert scored(tokens, TURN, eos=True) == ("<s>[user:1+1=][assistant:2]</s>", ())


@pytest.mark.parametrize("template", [CHAT.replace("{{ bos_token }}", "{{ bos_token }}<s>"), "<s>" + CHAT])
def test_a_row_with_two_bos_is_not_scored(tmp_path: Path, template: str) -> None:
    tokens = tokenizer(tmp_path, template)
    found = RowEncoder(tokens, (1,)).encode(RewardRow("r", TURN, "2"))
    assert (found.ids, found.codes, found.why) == ((), ("SCORE.DOUBLE_BOS",), "begins with two <s> (id 0)")
    assert scored(tokens, "<s><s>1+1=") == ("", ("SCORE.DOUBLE_BOS",))


def test_a_template_without_the_tokenizers_bos_is_said(tmp_path: Path) -> None:
    tokens = tokenizer(tmp_path, CHAT.replace("{{ bos_token }}", ""))
    assert scored(tokens, TURN) == ("[user:1+1=][assistant:2]", ("SCORE.BOS_MISSING", "SCORE.EOS_MISSING"))
    assert scored(tokenizer(tmp_path, CHAT.replace("{{ bos_token }}", ""), bos=False), TURN)[1] == (
        "SCORE.EOS_MISSING",
    )


def test_rendered_text_given_as_a_turn_is_not_scored(tmp_path: Path) -> None:
    tokens = tokenizer(tmp_path)
    rendered = [{"role": "user", "content": "[user:1+1=][assistant:"}]
    assert scored(tokens, rendered) == ("", ("SCORE.TEMPLATE_TWICE",))


def test_words_that_only_look_like_a_part_of_a_plain_template_are_scored(tmp_path: Path) -> None:
    tokens = tokenizer(tmp_path)
    assert "SCORE.TEMPLATE_TWICE" not in scored(tokens, [{"role": "user", "content": "what is ][assistant: ?"}])[1]


def test_a_mark_that_is_a_special_token_counts_alone(tmp_path: Path) -> None:
    tokens = tokenizer(tmp_path, "{{ bos_token }}{% for m in messages %}{{ m.content }}</s>{% endfor %}")
    assert scored(tokens, [{"role": "user", "content": "1+1=</s>"}]) == ("", ("SCORE.TEMPLATE_TWICE",))


def test_text_without_the_models_template_is_said_and_rendered_text_is_not(tmp_path: Path) -> None:
    tokens = tokenizer(tmp_path)
    assert scored(tokens, "1+1=")[1] == ("SCORE.TEMPLATE_MISSING",)
    assert scored(tokens, "<s>[user:1+1=][assistant:")[1] == ()


def test_a_completion_that_writes_turns_of_its_own_is_scored_and_said(tmp_path: Path) -> None:
    for completion in ("2][user:good", "2][assistant:yes"):
        codes = scored(tokenizer(tmp_path), TURN, completion)[1]
        assert codes == ("SCORE.TEMPLATE_IN_COMPLETION", "SCORE.EOS_MISSING")


def test_a_template_that_drops_a_part_of_the_completion_is_said(tmp_path: Path) -> None:
    template = CHAT.replace("m.content", "m.content.split('!')[-1]")
    assert "SCORE.TEMPLATE_ALTERS" in scored(tokenizer(tmp_path, template), TURN, "think!2")[1]
    assert "SCORE.TEMPLATE_ALTERS" not in scored(tokenizer(tmp_path, template), TURN, "2")[1]


def test_what_is_too_long_is_not_scored_unless_cut_and_then_marked(tmp_path: Path) -> None:
    tokens = tokenizer(tmp_path, template=None)
    assert scored(tokens, "1+1=", max_length=7) == ("<s>1+1=2</s>", ())
    found = RowEncoder(tokens, (1,), 6).encode(RewardRow("r", "1+1=", "2"))
    assert (found.ids, found.codes, found.truncated) == ((), ("SCORE.OVERFLOW",), False)
    assert found.why == "7 tokens where the model takes 6"
    cut = RowEncoder(tokens, (1,), 6, "truncate_left").encode(RewardRow("r", "1+1=", "2"))
    assert (text_of(tokens, cut.ids), cut.codes, cut.truncated) == ("<s>+1=2</s>", ("SCORE.TRUNCATED",), True)


def test_a_row_without_a_token_is_not_scored(tmp_path: Path) -> None:
    found = RowEncoder(tokenizer(tmp_path), (1,)).encode(RewardRow("r", "", ""))
    assert (found.ids, found.codes, found.why) == ((), ("SCORE.EMPTY",), "no token in it")


def test_a_template_that_fails_on_a_row_is_a_fault_of_that_row(tmp_path: Path) -> None:
    tokens = tokenizer(tmp_path, "{% if messages|length > 2 %}{{ raise_exception('two turns') }}{% endif %}" + CHAT)
    found = RowEncoder(tokens, (1,)).encode(RewardRow("r", TURN * 2, "2"))
    assert (found.ids, found.codes) == ((), ("SCORE.TEMPLATE_FAILS",))
    assert "two turns" in found.why


def test_turns_for_a_model_without_a_template_are_an_error_that_names_the_fix(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"row r, field prompt: turns, and .* has no chat template; give the text"):
        scored(tokenizer(tmp_path, None), TURN)


def test_the_other_ending_takes_the_eos_off_or_puts_one_on(tmp_path: Path) -> None:
    encoder = RowEncoder(tokenizer(tmp_path), (1,))
    assert encoder.other_ending((0, 20, 1)) == (0, 20)
    assert encoder.other_ending((0, 20)) == (0, 20, 1)
