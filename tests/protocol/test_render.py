"""Prompts: what the protocol says, byte for byte, with one beginning-of-sequence token or none."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from evalkit.errors import BadInput
from evalkit.protocol import ChatTemplate, ItemTemplate, Protocol, Renderer, parse_spec, request_seed
from tests.protocol.specs import FULL, to_yaml

ITEM = {"item_id": "i1", "question": "3+5=", "answer": "8"}


def protocol(**prompt: object) -> Protocol:
    content = copy.deepcopy(FULL)
    content["prompt"] = {"messages": [{"role": "user", "content": "{{ question }}"}], **prompt}
    return parse_spec(to_yaml(content))


def test_none_joins_contents_as_they_stand() -> None:
    spec = protocol(chat_template="none", bos="once", bos_token="<s>", few_shot=[{"user": "1+1=", "assistant": "2\n"}])
    assert Renderer(spec).text(ITEM) == "<s>1+1=2\n3+5="


def test_inline_renders_the_template_of_the_lock() -> None:
    template = "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
    spec = protocol(chat_template="inline", template=template, bos="once", bos_token="<s>", system="Be brief.")
    assert Renderer(spec).text(ITEM) == "<s>[system] Be brief.\n[user] 3+5=\n[assistant]"


def test_model_renders_the_tokenizers_own_template() -> None:
    spec = protocol(chat_template="model", bos="once", template_arguments={"enable_thinking": False})
    own = ChatTemplate("{{ bos_token }}{{ messages[0]['content'] }}{% if not enable_thinking %} /no{% endif %}", "<s>")
    assert Renderer(spec, own, "<s>").text(ITEM) == "<s>3+5= /no"


def test_model_without_a_tokenizer_is_refused() -> None:
    with pytest.raises(
        BadInput,
        match="chat_template: model needs the model's chat template, and there is none; give --tokenizer FOLDER",
    ):
        Renderer(protocol(chat_template="model", bos="never"))


def test_server_sends_messages_and_no_text() -> None:
    renderer = Renderer(protocol(system="Be brief.", few_shot=[{"user": "1+1=", "assistant": "2"}]))
    assert renderer.text(ITEM) is None
    assert renderer.messages(ITEM) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "1+1="},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "3+5="},
    ]


def test_two_bos_tokens_are_refused() -> None:
    spec = protocol(chat_template="inline", template="<s><s>{{ messages[0].content }}", bos="once", bos_token="<s>")
    with pytest.raises(BadInput) as error:
        Renderer(spec).text(ITEM)
    assert str(error.value) == "prompt of item i1: begins with two <s>; remove one from the template or the text"


def test_a_bos_token_under_never_is_refused() -> None:
    spec = protocol(chat_template="inline", template="<s>{{ messages[0].content }}", bos="never", bos_token="<s>")
    with pytest.raises(BadInput, match="begins with <s> under bos: never; say bos: once"):
        Renderer(spec).text(ITEM)


def test_once_without_a_known_token_is_refused() -> None:
    with pytest.raises(BadInput, match=r"field prompt\.bos: once, but no beginning-of-sequence token is known"):
        Renderer(protocol(chat_template="none", bos="once"))


def test_a_field_the_item_lacks_is_an_error_not_empty_text() -> None:
    with pytest.raises(BadInput) as error:
        Renderer(protocol(chat_template="none", bos="never")).text({"item_id": "i1", "qestion": "3+5="})
    assert str(error.value) == (
        "protocol, field prompt.messages.0.content, item i1: 'question' is undefined; did you mean qestion?"
    )


@pytest.mark.parametrize(
    "text", ["{{ question.__class__.__mro__ }}", "{{ ''.__class__ }}", "{{ cycler.__init__.__globals__ }}"]
)
def test_a_template_cannot_reach_python(text: str) -> None:
    content = copy.deepcopy(FULL)
    content["prompt"] = {"messages": [{"role": "user", "content": text}], "chat_template": "none", "bos": "never"}
    with pytest.raises(BadInput, match="field prompt"):
        Renderer(parse_spec(to_yaml(content))).text(ITEM)


def test_a_template_that_asks_for_todays_date_is_refused() -> None:
    own = ChatTemplate("{{ strftime_now('%Y') }}", None)
    with pytest.raises(BadInput, match=r"it asks for today's date; freeze one in prompt\.template_arguments"):
        Renderer(protocol(chat_template="model", bos="never"), own).text(ITEM)


def test_chat_templates_differ_in_digest_by_text_and_tokens() -> None:
    first = ChatTemplate("{{ a }}", "<s>", "</s>")
    assert first.digest != ChatTemplate("{{ a }} ", "<s>", "</s>").digest
    assert first.digest != ChatTemplate("{{ a }}", "<bos>", "</s>").digest


def test_seeds_are_31_bits_and_those_of_the_first_version() -> None:
    """Golden: SHA-256 of the RFC 8785 bytes of [protocol seed, repeat, item, trial] under a domain tag."""
    assert request_seed(0, 0, "12+34", 0) == 418181704
    seeds = {request_seed(s, r, i, t) for s in range(3) for r in range(3) for i in ("a", "b") for t in range(8)}
    assert len(seeds) == 3 * 3 * 2 * 8
    assert all(0 <= seed < 2**31 for seed in seeds)


@given(
    st.lists(
        st.sampled_from(["{{ a }}", "{{b}}", "{{  a}}", " text\n", "é}", "\n", "}}", "{{ item_id }}"]), max_size=6
    ),
    st.text(max_size=5) | st.integers() | st.none() | st.booleans() | st.floats() | st.lists(st.integers(), max_size=2),
)
def test_a_simple_template_says_what_jinja_says(pieces: list[str], value: object) -> None:
    text, fields = "".join(pieces), {"a": value, "b": "B", "item_id": "i"}
    jinja = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    assert ItemTemplate(text, "f")(fields) == jinja.from_string(text).render(fields)


@pytest.mark.parametrize(("text", "said"), [("{{ none }}", "None"), ("{{ true }}", "True"), ("a\r\n{{ b }}", "a\nB")])
def test_words_and_line_ends_mean_what_jinja_means(text: str, said: str) -> None:
    assert ItemTemplate(text, "f")({"none": "x", "true": "y", "b": "B"}) == said
