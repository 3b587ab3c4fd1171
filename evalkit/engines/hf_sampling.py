"""Drawing tokens with transformers so that a row does not know its batch.

1. `generate` runs greedily over scores in which one token is left: the row's own draw. So transformers keeps the cache,
   the masks and the batch, and every row keeps its own randomness: one uniform number a step from Philox(seed).
2. The knobs act in vLLM's order: penalties, temperature, min_p, top_k, top_p. Repetition counts the prompt and the
   completion, presence and frequency the completion alone. Padding counts for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream
from transformers import LogitsProcessor, StoppingCriteria

Tensor: TypeAlias = torch.Tensor


class RowSampler(LogitsProcessor):
    """Leaves one token a row: the most likely one at temperature 0, else the row's draw."""

    def __init__(self, knobs: Mapping[str, Any], seeds: Sequence[int], prompts: Tensor, mask: Tensor) -> None:
        self._knobs = knobs
        self._prompt_length = prompts.shape[1]
        self._prompts, self._mask = prompts, mask.bool()
        self._greedy = knobs["temperature"] == 0
        self._uniforms = None if self._greedy else _uniforms(seeds, knobs["max_tokens"])

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Scores of the next token, shape (rows, vocabulary), with all but one at −∞."""
        scores = self._penalised(input_ids[:, self._prompt_length :], scores.float())
        if self._uniforms is None:
            chosen = scores.argmax(dim=-1)
        else:
            step = input_ids.shape[1] - self._prompt_length
            chosen = draw(filtered(scores, self._knobs), self._uniforms[:, step])
        alone = torch.full_like(scores, -torch.inf)
        return alone.scatter_(1, chosen[:, None], 0.0)

    def _penalised(self, made: Tensor, scores: Tensor) -> Tensor:
        repetition = self._knobs["repetition_penalty"]
        presence, frequency = self._knobs["presence_penalty"], self._knobs["frequency_penalty"]
        if repetition == 1 and presence == 0 and frequency == 0:
            return scores
        counts = torch.zeros_like(scores).scatter_add_(1, made, torch.ones_like(made, dtype=scores.dtype))
        if repetition != 1:
            prompt = torch.zeros_like(scores).scatter_add_(1, self._prompts, self._mask.to(scores.dtype))
            seen = (counts + prompt) > 0
            scores = torch.where(seen, torch.where(scores > 0, scores / repetition, scores * repetition), scores)
        return scores - frequency * counts - presence * (counts > 0)


def _uniforms(seeds: Sequence[int], steps: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """One number in [0, 1) for every row and step, a function of the row's seed alone; shape (rows, steps)."""
    return np.stack([np.random.Generator(np.random.Philox(seed)).random(steps) for seed in seeds])


def filtered(scores: Tensor, knobs: Mapping[str, Any]) -> Tensor:
    """Scores after temperature, min_p, top_k and top_p; what is cut has −∞. Ties with the last one kept stay."""
    scores = scores / knobs["temperature"]
    if knobs["min_p"] > 0:
        least = scores.max(dim=-1, keepdim=True).values + float(np.log(knobs["min_p"]))
        scores = scores.masked_fill(scores < least, -torch.inf)
    if 0 < knobs["top_k"] < scores.shape[-1]:
        least = scores.topk(knobs["top_k"], dim=-1).values[:, -1:]
        scores = scores.masked_fill(scores < least, -torch.inf)
    if knobs["top_p"] < 1:
        ordered, order = scores.sort(dim=-1, descending=True)
        shares = ordered.softmax(dim=-1)
        # A token stays while those before it have not reached top_p: at least one does.
        cut = shares.cumsum(dim=-1) - shares >= knobs["top_p"]
        scores = scores.masked_fill(torch.zeros_like(cut).scatter(1, order, cut), -torch.inf)
    return scores


def draw(scores: Tensor, uniforms: np.ndarray[Any, np.dtype[np.float64]]) -> Tensor:
    """A token a row, by inverting the distribution function at the row's uniform number."""
    mass = scores.double().softmax(dim=-1).cumsum(dim=-1)
    wanted = torch.as_tensor(uniforms, device=mass.device)[:, None] * mass[:, -1:]
    # The first token whose cumulated mass exceeds the number; one without mass never does.
    return torch.searchsorted(mass, wanted, right=True).squeeze(1).clamp_(max=mass.shape[1] - 1)


class RowText:
    """The completion of one row as it grows, made into text as vLLM does it: token by token after the prompt."""

    def __init__(self, tokenizer: Tokenizer, prompt: Sequence[int], rules: Mapping[str, Any]) -> None:
        self._tokenizer = tokenizer
        self._stops: list[str] = rules["stop"]
        self._ends = frozenset(rules["stop_token_ids"])
        self._skip = rules["skip_special"]
        self._stream = DecodeStream(ids=list(prompt), skip_special_tokens=self._skip)
        self.text = ""
        self.n_tokens = 0
        self.ended = False
        """By an end-of-sequence id or a stop string."""

    def add(self, token: int) -> bool:
        """Take in a token; whether the completion has ended."""
        if self.ended:
            return True
        self.n_tokens += 1
        if token in self._ends:
            self.ended = True
            return True
        piece = self._step(token)
        self.text += piece
        for stop in self._stops:
            at = self.text.find(stop, max(0, len(self.text) - len(piece) - len(stop) + 1))
            if at >= 0:
                self.text, self.ended = self.text[:at], True
                break
        return self.ended

    def _step(self, token: int) -> str:
        try:
            return self._stream.step(self._tokenizer, token) or ""
        except Exception as error:
            if "Invalid prefix" not in str(error):
                raise
            # Bytes that no continuation makes valid: start again behind them, as vLLM does.
            self._stream = DecodeStream(skip_special_tokens=self._skip)
            return self._stream.step(self._tokenizer, token) or ""


class RowsEnded(StoppingCriteria):
    """Which rows have ended; calls `tick` at every step."""

    def __init__(self, rows: Sequence[RowText], tick: Any) -> None:
        self._rows, self._tick = rows, tick

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        """True for a row that is done, shape (rows,)."""
        self._tick()
        last = input_ids[:, -1].tolist()
        ended = [row.add(token) for row, token in zip(self._rows, last, strict=True)]
        return torch.tensor(ended, device=input_ids.device)
