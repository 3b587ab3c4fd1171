"""`hf-rm:` in its process: one logit for each row of token ids, as the library's own forward pass reads it.

First message in: what to load. First out: `{"ready": facts}`, `{"refused": message}` or `{"failed": message}`. Then in,
`{"rows": [token ids, …], "side": "right" | "left", "at_end": bool}`, and out `{"scores": [number or null, …]}`: null
where a row alone does not fit into the memory of the device, NaN and infinity as text.

1. The process has no network. Nothing is downloaded, no code of the model's own is run, no pickle is opened.
2. A head that the checkpoint does not hold would be drawn at random: such a model is refused.
3. The library reads the score at the last token that is not the padding token. `at_end` reads it at the last token.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from evalkit.engines.worker import Channel, one_line
from evalkit.rewards.network import block


def main() -> None:
    """Serve until the parent ends."""
    network = block()  # before torch, which starts threads
    channel = Channel()
    load = channel.next()
    import torch

    try:
        model = Model(load)
    except (MemoryError, torch.OutOfMemoryError) as error:
        channel.send({"failed": one_line(error)})
        return
    except Exception as error:  # noqa: BLE001 - said to the parent
        channel.send({"refused": one_line(error)})
        return
    channel.send({"ready": {**model.facts, "network": network.extent}})
    while True:
        asked = channel.next()
        scores = model.scores(asked["rows"], asked["side"], asked["at_end"])
        channel.send({"scores": [_sent(score) for score in scores]})


def _sent(score: float | None) -> float | str | None:
    return score if score is None or math.isfinite(score) else str(score)


class Model:
    """A loaded reward model."""

    def __init__(self, load: Mapping[str, Any]) -> None:
        import torch
        import transformers
        from transformers import AutoModelForSequenceClassification

        dtype = getattr(torch, str(load["dtype"]), None)
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"dtype {load['dtype']} is none of torch; give dtype bfloat16, float16 or float32")
        model, info = AutoModelForSequenceClassification.from_pretrained(
            load["model"], dtype=dtype, use_safetensors=True, trust_remote_code=False, output_loading_info=True
        )
        if missing := sorted(info["missing_keys"]):
            raise ValueError(
                f"the weights lack {missing[0]}, which would be drawn at random; give a trained reward model, not the "
                "language model it started from"
            )
        if model.config.num_labels != 1:
            raise ValueError(f"{model.config.num_labels} logits, a classifier; a reward model has one (num_labels: 1)")
        self._device = load["device"] or ("cuda" if torch.cuda.is_available() else "cpu")
        self._model = model.eval().to(self._device)
        self._config = model.config.get_text_config()
        self._pad: int | None = self._config.pad_token_id
        self.facts = {
            "pad_token_id": self._pad,
            "dtype": str(dtype).removeprefix("torch."),
            "device": str(self._model.device),
            "attention": getattr(model.config, "_attn_implementation", None),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }

    def scores(self, rows: Sequence[list[int]], side: str, at_end: bool) -> list[float | None]:
        """One score for each row; one by one where there is no padding token, or where padding must not matter."""
        if (at_end or self._pad is None) and len(rows) > 1:
            return [score for row in rows for score in self.scores([row], side, at_end)]
        import torch

        try:
            return self._forward(rows, side, None if at_end else self._pad)
        except torch.OutOfMemoryError:
            pass
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if len(rows) == 1:
            return [None]
        half = len(rows) // 2
        return self.scores(rows[:half], side, at_end) + self.scores(rows[half:], side, at_end)

    def _forward(self, rows: Sequence[list[int]], side: str, pad: int | None) -> list[float | None]:
        import torch

        longest = max(map(len, rows))
        ids, mask = [], []
        for row in rows:
            gap = longest - len(row)
            filler, unseen = [pad or 0] * gap, [0] * gap
            ids.append(row + filler if side == "right" else filler + row)
            mask.append([1] * len(row) + unseen if side == "right" else unseen + [1] * len(row))
        self._config.pad_token_id = pad
        try:
            with torch.inference_mode():
                logits = self._model(
                    input_ids=torch.tensor(ids, device=self._device),
                    attention_mask=torch.tensor(mask, device=self._device),
                ).logits
        finally:
            self._config.pad_token_id = self._pad
        return [float(value) for value in logits[:, 0].float().cpu()]


if __name__ == "__main__":
    main()
