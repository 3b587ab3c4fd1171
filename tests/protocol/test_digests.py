"""What each digest covers: every field that can change a number, and nothing else."""

import random
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.protocol import Digests, parse_lock, parse_spec, resolve
from evalkit.protocol.lock import content_of, lock_json, part_of
from tests.protocol.specs import FULL, TOOL, changed, lock_of, resolver, to_yaml

OTHER = {
    "name": "other",
    "version": 4,
    "description": "",
    "prompt.messages": [{"role": "user", "content": "{{ question }}"}, {"role": "assistant", "content": "So"}],
    "prompt.messages.0.role": "assistant",
    "prompt.messages.0.content": "{{ question }} ",
    "prompt.system": None,
    "prompt.few_shot": [{"user": "2+2=", "assistant": "4"}, {"user": "1+1=", "assistant": "2"}],
    "prompt.few_shot.0.user": "1+1 =",
    "prompt.few_shot.0.assistant": "two",
    "prompt.template": "{% for m in messages %}{{ m.content }}{% endfor %}",
    "prompt.template_arguments": {"enable_thinking": True},
    "prompt.add_generation_prompt": False,
    "prompt.bos": "never",
    "prompt.bos_token": "<bos>",
    "sampling.max_tokens": 49,
    "sampling.temperature": Decimal("0.71"),
    "sampling.top_p": 1,
    "sampling.top_k": -1,
    "sampling.min_p": 0,
    "sampling.repetition_penalty": 1,
    "sampling.presence_penalty": 0,
    "sampling.frequency_penalty": Decimal("0.5"),
    "sampling.stop": ["\n\n"],
    "sampling.n": 9,
    "sampling.seed": 18,
    "reasoning.start": "<thought>",
    "reasoning.end": "</thought>",
    "reasoning.unterminated": "no_verdict",
    "tools": [],
    "tools.0.name": "find",
    "tools.0.permission": "deny",
    "tools.0.schema_digest": TOOL.replace("0000", "0001"),
    "tools.0.max_calls": 4,
    "tools.0.timeout": 11,
    "limits.request_timeout": 61,
    "limits.retries": 5,
    "limits.error_budget": Decimal("0.03"),
    "limits.overflow": "error",
    "target": "{{ answer }}.",
    "gold_completion": "{{ answer }}",
    "reward.components.correct.use": "exact",
    "reward.components.correct.role": "other",
    "reward.components.correct.weight": 2,
    "reward.components.correct.params": {"marker": "A:", "tolerance": Decimal("0.5")},
    "reward.components.correct.params.marker": None,
    "reward.components.correct.params.tolerance": 0,
    "reward.components.correct.range": [0, 2],
    "reward.deadline": 6,
    "success.component": "reward",
    "success.at_least": Decimal("0.5"),
    "truncation": "no_verdict",
    "missing": "worst",
    "metrics": [{"name": "mean"}],
    "metrics.1.name": "pass^k",
    "metrics.1.k": [1, 8],
    "metrics.1.estimator": "verl_best",
    "cluster_key": "item_id",
}
"""Another valid value for every field. Where one field forces another, the list around it is changed instead."""
FORCED = {"prompt.chat_template", "metrics.0.name", "metrics.0.k", "metrics.0.estimator"}
BASE = lock_of(FULL)


def leaves(value: object, path: str = "") -> list[str]:
    """Dotted paths of all values that are neither list nor object."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [leaf for key, item in pairs for leaf in leaves(item, f"{path}.{key}" if path else str(key))]
    return found or [path]


def test_every_field_of_the_protocol_is_in_this_test() -> None:
    for leaf in leaves(content_of(BASE.spec)):
        covered = any(leaf == path or leaf.startswith(path + ".") for path in OTHER)
        assert covered or leaf in FORCED, f"{leaf} has no other value here: add one"


@pytest.mark.parametrize("path", OTHER)
def test_a_changed_field_changes_its_own_digest_and_the_protocol_or_nothing(path: str) -> None:
    now, before = lock_of(changed(path, OTHER[path])).digests, BASE.digests
    part = part_of(path)
    assert (now.generation != before.generation) == (part == "generation")
    assert (now.scoring != before.scoring) == (part == "scoring")
    assert (now.protocol != before.protocol) == (part != "none")


def test_the_design_says_which_digest_a_field_belongs_to() -> None:
    top = {path: part_of(path) for path in FULL}
    assert {path for path, part in top.items() if part == "none"} == {"name", "version", "description"}
    assert {path for path, part in top.items() if part == "generation"} == {"prompt", "sampling", "tools", "limits"}
    assert {path for path, part in top.items() if part == "scoring"} == {
        "target", "gold_completion", "reasoning", "reward", "success",
    }  # fmt: skip
    assert {path for path, part in top.items() if part == "protocol"} == {
        "truncation", "missing", "metrics", "cluster_key",
    }  # fmt: skip


def test_the_chat_template_policy_is_part_of_generation() -> None:
    content = changed("prompt.chat_template", "none")
    del content["prompt"]["template"]
    now = lock_of(content).digests
    assert now.generation != BASE.digests.generation
    assert now.scoring == BASE.digests.scoring


def test_a_changed_source_of_a_scorer_changes_scoring_and_protocol_only() -> None:
    spec = parse_spec(to_yaml(FULL))

    def edited(name, component):  # type: ignore[no-untyped-def]
        found = resolver(name, component)
        return type(found)(found.params, found.declared_range, "ek1:sha256:" + "2" * 64)

    now = resolve(spec, edited).digests
    assert now.generation == BASE.digests.generation
    assert now.scoring != BASE.digests.scoring
    assert now.protocol != BASE.digests.protocol


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_formatting_key_order_and_number_spelling_change_no_digest(seed: int) -> None:
    assert resolve(parse_spec(to_yaml(FULL, random.Random(seed))), resolver).digests == BASE.digests


def test_a_default_left_out_and_written_out_are_one_protocol() -> None:
    short = """
name: a
version: 1
prompt: {messages: [{role: user, content: "{{ q }}"}]}
sampling: {max_tokens: 5}
reward: {components: {correct: {use: number, role: correctness}}}
success: {component: correct}
"""
    long = (
        short.replace("max_tokens: 5", "max_tokens: 5, temperature: 0.0, top_k: -1, n: 1, stop: []")
        + "missing: exclude\n"
    )
    assert resolve(parse_spec(short), resolver).digests == resolve(parse_spec(long), resolver).digests


def test_digests_are_those_of_the_first_version() -> None:
    """Golden: if these move, every number ever recorded loses its protocol. Change the scheme's name instead."""
    assert BASE.digests == Digests(
        generation="ek1:sha256:82952b1fb9c1a1caae570d2e05f49526c7a7391721b03bbdce28c68db5975242",
        scoring="ek1:sha256:ba5a239e57ae91f10b7d19b0322c928170b54421d8d1f75a242204ceb30fc7a8",
        protocol="ek1:sha256:58cb806bf702a8bccd0f7df6aa869a199aff72b9add07d864da6b67ee7b93bd1",
    )


def test_a_lock_read_back_has_the_same_digests_and_content() -> None:
    again = parse_lock(lock_json(BASE), "lock")
    assert again.digests == BASE.digests
    assert content_of(again.spec) == content_of(BASE.spec)
