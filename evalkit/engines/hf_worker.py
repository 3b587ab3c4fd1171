"""`hf:` in its process: transformers, one batch after the other, padded on the left.

1. Nothing of `generation_config.json` is used: `generate` runs over a blank one, with our own draw and stop rules.
2. A batch that does not fit into the memory of the device is cut in halves; one request that does not is an error.
3. With the first batch it is measured how much padding and batching move the next token's log-probabilities.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, GenerationConfig, LogitsProcessorList, StoppingCriteriaList

from evalkit.engines.hf_sampling import RowSampler, RowsEnded, RowText
from evalkit.engines.worker import Channel, one_line

ARGUMENTS = ("attn_implementation", "device", "device_map", "dtype")
PROBED = 8
"""Requests of the first batch that are looked at alone, too."""
HEARTBEAT = 5.0
"""Seconds between signs of life within a batch."""

Rows = list[list[Any]]
Requests = Sequence[tuple[str, list[int], int]]


def main() -> None:
    """Serve until the parent ends."""
    channel = Channel()
    load = channel.next()
    for name in load["args"]:
        if name not in ARGUMENTS:
            near = difflib.get_close_matches(name, ARGUMENTS, 1, 0.5)
            mend = f"did you mean {near[0]}?" if near else "known: " + ", ".join(ARGUMENTS)
            channel.send({"refused": f"--engine-arg {name}: unknown to hf; {mend}"})
            return
    try:
        model = Model(load, channel)
    except (MemoryError, torch.OutOfMemoryError) as error:
        channel.send({"failed": one_line(error)})
        return
    except Exception as error:  # noqa: BLE001 - said to the parent
        channel.send({"refused": one_line(error)})
        return
    channel.send({"ready": model.facts})
    first = True
    while True:
        requests = channel.next()["requests"]
        if first:
            channel.send({"batch_effect": model.batch_effect(requests[:PROBED])})
            first = False
        for rows in model.answer(requests):
            channel.send({"done": rows})


class Model:
    """A loaded model and the rules of the protocol."""

    def __init__(self, load: Mapping[str, Any], channel: Channel) -> None:
        import transformers

        arguments = dict(load["args"])
        device = arguments.pop("device", None) or ("cuda" if torch.cuda.is_available() else "cpu")
        dtype = getattr(torch, str(arguments.pop("dtype", None) or load["dtype"]), None)
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"dtype {load['dtype']} is none of torch; give --engine-arg dtype=bfloat16")
        model = AutoModelForCausalLM.from_pretrained(
            load["model"], dtype=dtype, use_safetensors=True, trust_remote_code=False, **arguments
        )
        # `generate` fills what is None from the model's own.
        model.generation_config = GenerationConfig()
        if load["adapter"]:
            from peft import PeftModel

            model = PeftModel.from_pretrained(model, load["adapter"])
        self._model = model.eval() if "device_map" in arguments else model.eval().to(device)
        self._tokenizer = Tokenizer.from_file(load["tokenizer"] + "/tokenizer.json")
        self._load, self._channel = load, channel
        self._sign_of_life = time.monotonic()
        config = self._model.config.get_text_config()
        self._pad = load["stop_token_ids"][0] if load["stop_token_ids"] else 0
        self.facts = {
            "room": getattr(config, "max_position_embeddings", None),
            "dtype": str(dtype).removeprefix("torch."),
            "device": str(self._model.device),
            "attention": getattr(self._model.config, "_attn_implementation", None),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }

    def answer(self, requests: Requests) -> Iterator[Rows]:
        """Rows of a batch, in parts where it does not fit as a whole."""
        try:
            rows = self._generate(requests)
        except torch.OutOfMemoryError:
            rows = None
        if rows is not None:
            yield rows
            return
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if len(requests) == 1:
            yield [[requests[0][0], None, None, None, "out_of_memory"]]
            return
        half = len(requests) // 2
        for part in (requests[:half], requests[half:]):
            yield from self.answer(part)

    @torch.inference_mode()
    def _generate(self, requests: Requests) -> Rows:
        knobs = self._load["knobs"]
        ids, mask = self._padded([tokens for _, tokens, _ in requests])
        texts = [RowText(self._tokenizer, tokens, self._load) for _, tokens, _ in requests]
        sampler = RowSampler(knobs, [seed for _, _, seed in requests], ids, mask)
        self._model.generate(
            input_ids=ids,
            attention_mask=mask,
            generation_config=GenerationConfig(
                do_sample=False, num_beams=1, max_new_tokens=knobs["max_tokens"], pad_token_id=self._pad, use_cache=True
            ),
            logits_processor=LogitsProcessorList([sampler]),
            stopping_criteria=StoppingCriteriaList([RowsEnded(texts, self._tick)]),
        )
        return [
            [sample_id, row.text, "stop" if row.ended else "length", row.n_tokens, None]
            for (sample_id, _, _), row in zip(requests, texts, strict=True)
        ]

    def _padded(self, prompts: Sequence[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        longest = max(map(len, prompts))
        ids = [[self._pad] * (longest - len(prompt)) + prompt for prompt in prompts]
        mask = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
        return torch.tensor(ids, device=self._model.device), torch.tensor(mask, device=self._model.device)

    @torch.inference_mode()
    def batch_effect(self, requests: Requests) -> dict[str, Any]:
        """How far batching moves the next token: the same prompts together, padded, and each alone."""
        prompts = [tokens for _, tokens, _ in requests]
        longest = max(prompts, key=len)
        longer = longest + longest[-min(8, self._load["knobs"]["max_tokens"]) :]
        together = self._next_logprobs([*prompts, longer])[:-1]
        alone = torch.cat([self._next_logprobs([prompt]) for prompt in prompts])
        return {
            "prompts": len(prompts),
            "largest_logprob_difference": float((together - alone).abs().max()),
            "likeliest_token_differs": int((together.argmax(-1) != alone.argmax(-1)).sum()),
        }

    def _next_logprobs(self, prompts: Sequence[list[int]]) -> torch.Tensor:
        ids, mask = self._padded(prompts)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        logits = self._model(input_ids=ids, attention_mask=mask, position_ids=positions, logits_to_keep=1).logits
        return logits[:, -1].float().log_softmax(-1)

    def _tick(self) -> None:
        now = time.monotonic()
        if now - self._sign_of_life > HEARTBEAT:
            self._sign_of_life = now
            self._channel.send({"alive": True})


if __name__ == "__main__":
    main()
