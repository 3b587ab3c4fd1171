"""Floors and controls."""

import asyncio
from pathlib import Path

import pytest

from evalkit.engines import EngineOptions, Gold, Request, make_engine
from evalkit.errors import BadInput
from tests.protocol.specs import FULL, changed, lock_of

GOLD = Gold(["a", "b", "c"], lambda: {"a": "1", "b": "2", "c": "3"})


def say(kind: str, gold: Gold = GOLD) -> list[str | None]:
    async def go() -> list[str | None]:
        engine = make_engine(f"baseline:{kind}", lock_of(FULL), gold, EngineOptions(Path()))
        await engine.open()
        wanted = (Request(item, item, 0, 0, f"Q{item}", None, {}) for item in gold.item_ids)
        return [completion.text async for completion in engine.generate(wanted)]

    return asyncio.run(go())


def test_null_says_nothing_echo_the_prompt_constant_its_text_and_gold_the_answer() -> None:
    assert say("null") == ["", "", ""]
    assert say("echo") == ["Qa", "Qb", "Qc"]
    assert say("constant:42: yes") == ["42: yes"] * 3
    assert say("gold") == ["1", "2", "3"]


def test_shuffled_says_another_items_gold_each_once_and_the_same_every_time() -> None:
    found = say("shuffled")
    assert sorted(map(str, found)) == ["1", "2", "3"]
    assert all(said != own for said, own in zip(found, GOLD.completions().values(), strict=True))
    assert found == say("shuffled")


def test_shuffled_needs_two_items() -> None:
    with pytest.raises(BadInput, match="one item has no other to borrow from"):
        say("shuffled", Gold(["a"], lambda: {"a": "1"}))


@pytest.mark.parametrize("kind", ["nil", "constant", "null:x", ""])
def test_an_unknown_kind_is_refused(kind: str) -> None:
    with pytest.raises(BadInput, match=r"--model baseline"):
        say(kind)


def test_another_gold_is_another_model() -> None:
    async def digest(lock) -> str:  # type: ignore[no-untyped-def]
        return (await make_engine("baseline:gold", lock, GOLD, EngineOptions(Path())).open()).model_digest

    assert asyncio.run(digest(lock_of(FULL))) != asyncio.run(digest(lock_of(changed("gold_completion", "x"))))


@pytest.mark.parametrize("reference", ["gpt", "vlm:x", "openai:", ":x", ""])
def test_a_reference_that_names_no_engine_is_refused_with_the_forms(reference: str) -> None:
    with pytest.raises(
        BadInput, match="not a model; give vllm:PATH, hf:PATH, openai:NAME@URL, replay:FILE, baseline:null"
    ):
        make_engine(reference, lock_of(FULL), GOLD, EngineOptions(Path()))
