"""Record 8 sampled completions per item from the start model and every checkpoint.

1. A completion is a function of (weights, prompt, seed). The noise of a row is a counter-based hash of
   (seed, step, token), never a shared random state, so batch size and order change nothing but float rounding.
2. A row's seed is `request_seed(0, 0, item_id, trial)`: the same for every checkpoint, as in a paired evaluation.
3. One Parquet file a model, sorted by (item_id, trial). Its key-value metadata `evalkit` says which weights, run and
   step it is. `--stamp` rewrites that metadata and leaves the rows equal.

    python record.py --work WORK            # WORK/start and WORK/ARM-sSEED/checkpoint-NNN → recordings/
    python record.py --stamp ek1:sha256:…   # write the generation digest into every recording
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import polars as pl
import rfc8785
from numpy.typing import NDArray

from evalkit.canonical import digest

HERE = Path(__file__).parent
RECORDINGS = HERE / "recordings"
METADATA_KEY = "evalkit"
TRIALS = 8
TEMPERATURE = 1.0
MAX_TOKENS = 48
PROTOCOL_SEED = 0
REPEAT = 0
BATCH = 1880
MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")

Seeds = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Header:
    """What a recording was made from."""

    name: str
    arm: str
    step: int
    train_seed: int | None
    """`None` for the start model, which every run shares."""
    model_digest: str
    generation_digest: str | None = None
    """Digest of the protocol's generation fields; `None` until stamped."""


@dataclass(frozen=True, slots=True)
class Request:
    """One completion to sample."""

    item_id: str
    trial: int
    prompt: str


def request_seed(protocol_seed: int, repeat: int, item_id: str, trial: int) -> int:
    """31 bits of SHA-256 over what identifies a request. A copy of evalkit's own function, to keep this file whole."""
    identity = rfc8785.dumps([protocol_seed, repeat, item_id, trial])
    return int.from_bytes(hashlib.sha256(b"evalkit/seed\x00" + identity).digest()[:4], "big") & 0x7FFFFFFF


def splitmix64(x: Seeds) -> Seeds:
    """One output of SplitMix64 from each state (Steele, Lea and Flood 2014). Wraps around on purpose."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def gumbel_noise(seeds: Seeds, step: int, n_tokens: int) -> NDArray[np.float64]:
    """Gumbel(0, 1) noise of shape (rows, tokens), a function of (seed, step, token) only."""
    at_step = splitmix64(splitmix64(seeds) ^ np.uint64(step))
    bits = splitmix64(at_step[:, None] ^ np.arange(n_tokens, dtype=np.uint64)[None, :])
    uniform = ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return -np.log(-np.log(uniform))


def sample_batch(
    model: Any, prompt_ids: list[list[int]], seeds: Seeds, eos: int, temperature: float
) -> list[list[int]]:
    """Token ids of one completion per row, EOS included where it was drawn. Prompts have one length: no padding.

    The argmax of logits / T + Gumbel noise is a draw from softmax(logits / T). Rows that are done leave the batch.
    """
    import torch

    done: list[list[int]] = [[] for _ in prompt_ids]
    rows = np.arange(len(prompt_ids))
    step_input, cache = torch.tensor(prompt_ids), None
    for step in range(MAX_TOKENS):
        out = model(input_ids=step_input, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = out.past_key_values
        logits = out.logits[:, -1].numpy().astype(np.float64)
        drawn = (logits / temperature + gumbel_noise(seeds[rows], step, logits.shape[1])).argmax(axis=1)
        for row, token in zip(rows, drawn, strict=True):
            done[row].append(int(token))
        going = np.flatnonzero(drawn != eos)
        if not len(going):
            break
        if len(going) < len(rows):
            cache.batch_select_indices(torch.from_numpy(going))
        rows, step_input = rows[going], torch.from_numpy(drawn[going])[:, None]
    return done


def _batches(requests: list[Request], lengths: list[int]) -> Iterator[list[int]]:
    """Indices of requests whose prompts have the same number of tokens, at most `BATCH` at a time."""
    for length in sorted(set(lengths)):
        same = [index for index, n in enumerate(lengths) if n == length]
        for start in range(0, len(same), BATCH):
            yield same[start : start + BATCH]


def sample(folder: Path, requests: list[Request], temperature: float = TEMPERATURE) -> pl.DataFrame:
    """Completions of `requests` by the model in `folder`, as rows of a recording."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = [tokenizer(request.prompt)["input_ids"] for request in requests]
    seeds = np.array([request_seed(PROTOCOL_SEED, REPEAT, r.item_id, r.trial) for r in requests], dtype=np.uint64)
    outputs: list[list[int]] = [[] for _ in requests]
    with torch.inference_mode():
        for chosen in _batches(requests, [len(row) for row in ids]):
            done = sample_batch(model, [ids[i] for i in chosen], seeds[chosen], tokenizer.eos_token_id, temperature)
            for index, tokens in zip(chosen, done, strict=True):
                outputs[index] = tokens
    return pl.DataFrame(
        {
            "item_id": [request.item_id for request in requests],
            "trial": [request.trial for request in requests],
            "completion": tokenizer.batch_decode(outputs, skip_special_tokens=True),
            "finish_reason": ["stop" if out[-1] == tokenizer.eos_token_id else "length" for out in outputs],
            "n_prompt_tokens": [len(row) for row in ids],
            "n_completion_tokens": [len(out) for out in outputs],
        },
        schema_overrides={"trial": pl.Int32, "n_prompt_tokens": pl.Int32, "n_completion_tokens": pl.Int32},
    ).sort("item_id", "trial")


def item_requests() -> list[Request]:
    """Every item, `TRIALS` times."""
    lines = (HERE / "items.jsonl").read_text(encoding="utf-8").split("\n")
    items = [json.loads(line) for line in lines if line]
    return [Request(item["id"], trial, item["question"]) for item in items for trial in range(TRIALS)]


def model_digest(folder: Path) -> str:
    """Digest of the files that decide what the model says: weights, configuration, tokenizer."""
    files = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in MODEL_FILES}
    return digest("model", {"files": files})


def write(path: Path, rows: pl.DataFrame, header: Header) -> None:
    """The recording, whole or not at all."""
    partial = path.with_suffix(".partial")
    metadata = {METADATA_KEY: json.dumps(asdict(header))}
    rows.write_parquet(partial, compression="zstd", compression_level=22, metadata=metadata)
    partial.replace(path)


def read_header(path: Path) -> Header:
    return Header(**json.loads(pl.read_parquet_metadata(path)[METADATA_KEY]))


def models(work: Path) -> Iterator[tuple[Path, Header]]:
    """The start model, then every checkpoint of every run under `work`."""
    yield work / "start", Header("start", "start", 0, None, model_digest(work / "start"))
    for folder in sorted(work.glob("*-s*/checkpoint-*"), key=lambda f: (f.parent.name, int(f.name.split("-")[1]))):
        match = re.fullmatch(r"(hackable|clean)-s([0-9]+)", folder.parent.name)
        if match is None:
            raise ValueError(f"{folder.parent.name} is not ARM-sSEED")
        step = int(folder.name.split("-")[1])
        name = f"{folder.parent.name}-step-{step:03d}"
        yield folder, Header(name, match[1], step, int(match[2]), model_digest(folder))


def record(work: Path, out: Path) -> None:
    """Record every model under `work` that has no recording of these weights yet."""
    out.mkdir(parents=True, exist_ok=True)
    requests = item_requests()
    for folder, header in models(work):
        path = out / f"{header.name}.parquet"
        if path.exists() and read_header(path).model_digest == header.model_digest:
            continue
        began = time.monotonic()
        write(path, sample(folder, requests), header)
        print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB, {time.monotonic() - began:.0f} s", flush=True)


def stamp(out: Path, generation_digest: str) -> None:
    """Write the generation digest into every recording; the rows stay equal."""
    for path in sorted(out.glob("*.parquet")):
        rows = pl.read_parquet(path)
        write(path, rows, replace(read_header(path), generation_digest=generation_digest))
        if not pl.read_parquet(path).equals(rows):
            raise RuntimeError(f"{path.name}: rows changed while stamping")
        print(f"{path.name}: stamped")


def main() -> None:
    parser = argparse.ArgumentParser(description="Record the models of a training run, or stamp the recordings.")
    todo = parser.add_mutually_exclusive_group(required=True)
    todo.add_argument("--work", type=Path, help="folder with start/ and ARM-sSEED/checkpoint-NNN/")
    todo.add_argument("--stamp", metavar="DIGEST", help="generation digest to write into every recording")
    parser.add_argument("--out", type=Path, default=RECORDINGS)
    args = parser.parse_args()
    if args.stamp:
        stamp(args.out, args.stamp)
    else:
        record(args.work, args.out)


if __name__ == "__main__":
    main()
