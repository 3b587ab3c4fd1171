"""Tokens a second through `vllm:` and `hf:` against the bare library on the same checkpoint and prompts, interleaved.

    python -m benchmarks.engines [vllm] [hf]      in the environment of `make test-engines`

The evalkit side is a whole run with the engine loaded: rendering, journal, scoring, tables. The bare side is what a
script without evalkit would do. Rounds alternate; the median of the pairs' ratios is printed with its spread.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from evalkit.api import load_protocol
from evalkit.engines import EngineOptions
from evalkit.engines.checkpoint import read_checkpoint
from evalkit.runs.loop import drive
from evalkit.runs.plan import Plan
from evalkit.runs.run import engine_for, plan_with, run_with
from evalkit.splits import load_split
from evalkit.workspace import Workspace
from tests.real_engines.support import CHECKPOINT, SAMPLING, new_lab

ROUNDS = 7
TARGET = 0.85
BATCH = 32
LIBRARIES = {"vllm": "vllm", "hf": "transformers"}
RESULTS = Path(__file__).with_name("ENGINES.md")
TITLE = (
    "# What evalkit costs beside the bare engine",
    "",
    "Written by `make bench`; not edited by hand. The example checkpoint, interleaved pairs of a whole run with the",
    "engine loaded (rendering, journal, scoring, tables) and of the bare library on the same prompts, 2 cores.",
    "",
)
Bare = Callable[[int], Coroutine[Any, Any, int]]
"""One round without evalkit: the tokens that were made."""


@asynccontextmanager
async def bare_vllm(plan: Plan) -> AsyncIterator[Bare]:
    """`AsyncLLM`, every request at once."""
    from vllm import AsyncEngineArgs, SamplingParams, TokensPrompt
    from vllm.sampling_params import RequestOutputKind
    from vllm.v1.engine.async_llm import AsyncLLM

    llm = AsyncLLM.from_engine_args(
        AsyncEngineArgs(model=str(CHECKPOINT), dtype="float32", enforce_eager=True, disable_log_stats=True)
    )
    requests = [(ids, seed) for ids, seed in _prompts(plan)]

    async def one(name: str, ids: list[int], seed: int) -> int:
        params = SamplingParams(
            temperature=1.0, seed=seed, max_tokens=48, output_kind=RequestOutputKind.FINAL_ONLY, stop_token_ids=[2]
        )
        made = 0
        async for output in llm.generate(TokensPrompt(prompt_token_ids=ids), params, name):
            made = len(output.outputs[0].token_ids)
        return made

    async def round_(number: int) -> int:
        return sum(await asyncio.gather(*(one(f"{number}-{i}", *pair) for i, pair in enumerate(requests))))

    try:
        yield round_
    finally:
        llm.shutdown()  # its processes would outlive this one


@asynccontextmanager
async def bare_hf(plan: Plan) -> AsyncIterator[Bare]:
    """`model.generate` in batches sorted by length, sampling as transformers does it."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINT)
    model = AutoModelForCausalLM.from_pretrained(CHECKPOINT, dtype=torch.float32).eval()
    prompts = sorted((ids for ids, _ in _prompts(plan)), key=len)

    async def round_(number: int) -> int:
        torch.manual_seed(number)
        made = 0
        for start in range(0, len(prompts), BATCH):
            batch = tokenizer.pad({"input_ids": prompts[start : start + BATCH]}, return_tensors="pt")
            with torch.inference_mode():
                out = model.generate(**batch, do_sample=True, temperature=1.0, top_k=0, max_new_tokens=48)
            new = out[:, batch["input_ids"].shape[1] :]
            texts = tokenizer.batch_decode(new, skip_special_tokens=True)
            made += sum(int((row != tokenizer.pad_token_id).sum()) for row in new)
            assert len(texts) == len(new)
        return made

    yield round_


def _prompts(plan: Plan) -> list[tuple[list[int], int]]:
    tokenizer = read_checkpoint(str(CHECKPOINT), Path(), "").tokenizer
    return [(tokenizer.encode(request.prompt or ""), request.seed) for request in plan.requests(())]


async def measure(name: str, home: Workspace) -> list[float]:
    """Ratios of tokens a second, evalkit over bare, a pair a round."""
    lock = load_protocol("sampled@1", home)
    split = load_split(home, "arithmetic/dev")
    arguments = {"enforce_eager": True} if name == "vllm" else {}
    engine = engine_for(lock, split, f"{name}:{CHECKPOINT}", EngineOptions(home.root, engine_args=arguments))
    mark = await engine.open()
    plan = plan_with(lock, split, engine, mark, 0)
    await engine.start(next(plan.requests(())))
    ratios = []
    async with (bare_vllm if name == "vllm" else bare_hf)(plan) as bare:
        for number in range(ROUNDS + 1):
            began = time.perf_counter()
            done = await run_with(home, lock, split, engine, mark, number, lambda _: None)
            ours = time.perf_counter() - began
            tokens = int(done.run.samples(["n_completion_tokens"])["n_completion_tokens"].sum())
            began = time.perf_counter()
            made = await bare(number)
            theirs = time.perf_counter() - began
            if number:  # the first pair warms up
                ratios.append((tokens / ours) / (made / theirs))
                rates = f"evalkit {tokens / ours:,.0f} tokens/s, bare {made / theirs:,.0f}"
                print(f"{name} round {number}: {rates}", flush=True)
    await engine.close()
    return ratios


def record(name: str, line: str) -> None:
    """Put the figure of one engine into ENGINES.md, in the place of its last one."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else [*TITLE]
    kept = [old for old in lines if not old.startswith(f"- {name}: ")]
    RESULTS.write_text("\n".join([*kept, f"- {line}"]) + "\n", encoding="utf-8")


def main() -> None:
    """Measure what is asked for, or both."""
    for name in sys.argv[1:] or ("vllm", "hf"):
        with tempfile.TemporaryDirectory() as folder:
            lab = new_lab(Path(folder) / "ws")
            ratios = sorted(drive(measure(name, Workspace(lab.root))))
        median = statistics.median(ratios)
        line = (
            f"{name}: evalkit/bare tokens a second, median of {ROUNDS} pairs {median:.2f} "
            f"({ratios[0]:.2f} to {ratios[-1]:.2f}); target {TARGET}: {'met' if median >= TARGET else 'not met'}; "
            f"{LIBRARIES[name]} {import_module(LIBRARIES[name]).__version__}; "
            f"sampling {SAMPLING['sampled']}, float32, CPU"
        )
        print(line)
        record(name, line)


if __name__ == "__main__":
    main()
