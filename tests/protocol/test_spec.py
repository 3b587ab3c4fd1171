"""A faulty protocol is refused in one line with file, row, field and mend."""

import copy
from decimal import Decimal
from pathlib import Path

import pytest

from evalkit.errors import BadInput
from evalkit.protocol import load_spec, parse_spec, write_starter
from tests.protocol.specs import FULL, changed, to_yaml


def refusal(text: str) -> str:
    with pytest.raises(BadInput) as error:
        parse_spec(text, "p.yaml")
    assert "\n" not in str(error.value)
    return str(error.value)


def without(path: str) -> str:
    content = copy.deepcopy(FULL)
    *parents, last = path.split(".")
    place = content
    for part in parents:
        place = place[part]
    del place[last]
    return to_yaml(content)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("sampling.temperature", "0.7", "row 5, field sampling.temperature: text where a number belongs; write it without quotes"),
        ("sampling.max_tokens", Decimal("4.5"), "row 5, field sampling.max_tokens: decimal number where a whole number belongs; change the value"),
        ("sampling.n", "8", "row 5, field sampling.n: text where a whole number belongs; change the value"),
        ("sampling.top_k", 0, "row 5, field sampling: top_k: 0 means different things to different engines; write -1 for no limit"),
        ("sampling.temperature", 0, "row 5, field sampling: temperature: 0 with n: 8 gives 8 times the same; set n: 1 or raise temperature"),
        ("sampling.stop", [""], "row 5, field sampling: an empty stop string would stop every completion; remove it"),
        ("sampling.max_tokens", 0, "row 5, field sampling.max_tokens: whole number: input should be greater than or equal to 1"),
        ("prompt.chat_template", "none", "row 4, field prompt: template goes with chat_template: inline, and only there"),
        ("prompt.bos", None, "row 4, field prompt: bos is missing; say once or never"),
        ("prompt.bos", "twice", "row 4, field prompt.bos: text 'twice' is not one of 'once' or 'never'"),
        ("prompt.messages", [], "row 4, field prompt.messages: list: tuple should have at least 1 item after validation, not 0"),
        ("reasoning.end", None, "row 6, field reasoning: reasoning needs both markers, start and end, or neither"),
        ("success.component", "corect", "row 1: success.component corect is not a component; did you mean correct?"),
        ("metrics.1.k", [1, 16], "row 1: pass@k with k = 16 needs sampling.n of at least that; n is 8"),
        ("metrics.1.k", [], "row 15, field metrics.1: pass@k needs k, a list such as [1, 8]"),
        ("metrics.1.estimator", "openrlhf_max", "row 1: estimator openrlhf_max looks at all n completions; write k: [8]"),
        ("reward.components.correct.range", [1, 0], "row 11, field reward.components.correct.range: range [1, 0] is empty; give the lower end first"),
        ("name", "Has Space", "row 1, field name: text: string should match pattern '^[a-z0-9][a-z0-9._-]{0,63}$'"),
    ],
)  # fmt: skip
def test_a_faulty_value_is_named_with_row_field_and_mend(path: str, value: object, message: str) -> None:
    assert refusal(to_yaml(changed(path, value))) == f"p.yaml, {message}"


def test_max_tokens_is_required_because_no_backend_agrees_on_a_default() -> None:
    assert refusal(without("sampling.max_tokens")) == "p.yaml, row 5, field sampling.max_tokens: missing; add it"


def test_an_unknown_field_names_the_nearest_known_one() -> None:
    text = to_yaml(FULL).replace("max_tokens:", "max_token:")
    assert refusal(text) == "p.yaml, row 5, field sampling: unknown field max_token; did you mean max_tokens?"


def test_a_component_may_not_be_called_reward_or_success() -> None:
    text = to_yaml(FULL).replace("correct:", "reward:").replace('component: "correct"', 'component: "reward"')
    assert "reward names a whole, not a component" in refusal(text)


def test_a_document_that_is_no_mapping_is_refused() -> None:
    assert refusal("- a") == ("p.yaml, row 1: list where a mapping of fields belongs; "
                              "`evalkit protocol new NAME` writes a starter")  # fmt: skip


def test_a_greedy_protocol_may_not_carry_sampling_knobs() -> None:
    content = changed("sampling.temperature", 0)
    content["sampling"]["n"] = 1
    content["metrics"] = [{"name": "mean"}]
    assert "temperature: 0 is greedy; remove top_p, top_k and min_p, or raise temperature" in refusal(to_yaml(content))


def test_the_starter_is_a_valid_protocol(tmp_path: Path) -> None:
    spec = load_spec(write_starter(tmp_path, "mine"))
    assert spec.id == "mine@1"
    assert spec.sampling.temperature == 0
    assert spec.sampling.stop == ()
