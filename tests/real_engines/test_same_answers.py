"""One checkpoint, three ways to run it, one answer; and nothing of the folder's own sampling defaults."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.real_engines.support import CHECKPOINT, EAGER, ITEMS, Lab, ask

TIE = 1e-3
"""Logits closer than this may change places between two ways to add up the same numbers in float32."""


@pytest.mark.parametrize("protocol", ["greedy", "penalised"])
def test_greedy_answers_are_equal_between_hf_vllm_and_a_served_vllm(
    lab: Lab, checkpoint: Path, served: str, protocol: str
) -> None:
    plain = lab.run(protocol, f"hf:{CHECKPOINT}")
    assert plain.height == ITEMS
    others = {
        "hf": lab.run(protocol, f"hf:{checkpoint}", "--concurrency", "7"),
        "vllm": lab.run(protocol, f"vllm:{checkpoint}", *EAGER),
        "openai": lab.run(protocol, served),
    }
    for name, found in others.items():
        columns = ["outcome", "n_prompt_tokens", "n_completion_tokens"]
        differ = plain["completion"] != found["completion"]
        assert plain.filter(~differ).select(columns).equals(found.filter(~differ).select(columns)), name
        for item, one, other in zip(
            plain["item_id"].filter(differ), plain["completion"].filter(differ), found["completion"].filter(differ),
            strict=True,
        ):  # fmt: skip
            assert protocol == "greedy", (name, item, one, other)
            assert gap_where_they_part(item, one, other) < TIE, (name, item, one, other)


def gap_where_they_part(item: str, one: str, other: str) -> float:
    """Difference of the logits of the two tokens at the first place where two completions differ."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINT)
    model = AutoModelForCausalLM.from_pretrained(CHECKPOINT, dtype=torch.float32)
    questions = pl.read_ndjson(CHECKPOINT.parents[1] / "items.jsonl")
    prompt = questions.filter(pl.col("id") == item)["question"][0]
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id] for text in (one, other)]
    place = next(i for i, (a, b) in enumerate(zip(*ids, strict=False)) if a != b)
    with torch.no_grad():
        logits = model(torch.tensor([tokenizer(prompt)["input_ids"] + ids[0][:place]])).logits[0, -1]
    return float((logits[ids[0][place]] - logits[ids[1][place]]).abs())


def test_the_servers_own_defaults_would_have_changed_the_answers(served: str) -> None:
    """The control of the test above: what leaks where a client does not set every knob."""
    url = served.partition("@")[2] + "/completions"
    bare = {"model": "tiny", "max_tokens": 48, "add_special_tokens": False, "temperature": 0}
    differ = 0
    for a in range(10, 30):
        prompt = {"prompt": f"<s>{a}+{a + 7}="}
        set_off = ask(url, {**bare, **prompt, "repetition_penalty": 1.0})["choices"][0]["text"]
        differ += ask(url, {**bare, **prompt})["choices"][0]["text"] != set_off
    assert differ > 0


@pytest.mark.parametrize("engine", ["hf", "vllm"])
def test_sampling_is_a_function_of_the_seed_and_of_nothing_else(
    lab: Lab, own_lab: Lab, checkpoint: Path, engine: str
) -> None:
    flags = EAGER if engine == "vllm" else ()
    first = lab.run("sampled", f"{engine}:{checkpoint}", *flags, split="public")
    again = own_lab.run("sampled", f"{engine}:{checkpoint}", *flags, "--concurrency", "5", split="public")
    assert first["completion"].equals(again["completion"])
    assert first.group_by("item_id").agg(pl.col("completion").n_unique())["completion"].mean() > 2
    other = lab.run("sampled", f"{engine}:{checkpoint}", *flags, "--repeat", "1", split="public")
    assert (first["completion"] != other["completion"]).mean() > 0.5


def test_a_local_run_records_what_it_was_made_with(lab: Lab, checkpoint: Path) -> None:
    (run,) = lab.run("greedy", f"hf:{checkpoint}")["run_id"].unique()
    facts: dict[str, Any] = json.loads((lab.folder(run) / "engine.json").read_text())
    assert facts["first_token_ids"][0] == 1
    assert (facts["dtype"], facts["device"], facts["restarts"], facts["room"]) == ("float32", "cpu", 0, 96)
    assert facts["batch_effect"]["likeliest_token_differs"] == 0
    assert facts["batch_effect"]["largest_logprob_difference"] < TIE
