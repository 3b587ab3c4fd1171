"""`vllm:` in its process: one `AsyncLLM`, continuous batching, final outputs only.

Every knob comes from the protocol. `generation_config="vllm"` keeps the model's own sampling defaults out, and the
dtype is the one the weights are stored in unless the user says another: vLLM's `auto` would halve float32.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from evalkit.engines.worker import Channel, one_line

OURS = frozenset(
    {
        "model",
        "tokenizer",
        "tokenizer_mode",
        "skip_tokenizer_init",
        "trust_remote_code",
        "load_format",
        "generation_config",
        "override_generation_config",
        "hf_config_path",
        "hf_overrides",
        "enable_lora",
        "max_lora_rank",
        "revision",
        "code_revision",
        "tokenizer_revision",
        "disable_log_stats",
        "enable_log_requests",
    }
)
"""Engine arguments that evalkit sets, so that what is loaded is what was hashed."""


def main() -> None:
    """Serve until the parent ends."""
    import uvloop

    channel = Channel()
    uvloop.run(serve(channel, channel.next()))


async def serve(channel: Channel, load: Mapping[str, Any]) -> None:
    """Load, then answer."""
    from vllm import AsyncEngineArgs

    known = {field.name for field in fields(AsyncEngineArgs)}
    for name in load["args"]:
        if name in OURS or name not in known:
            near = difflib.get_close_matches(name, known - OURS, 1, 0.5)
            what = "is evalkit's to set" if name in OURS else "unknown to vLLM"
            mend = f"did you mean {near[0]}?" if near else "leave it out"
            channel.send({"refused": f"--engine-arg {name}: {what}; {mend}"})
            return
    try:
        engine = _Engine(channel, load)
    except (ValueError, TypeError, KeyError, ImportError, AssertionError) as error:
        channel.send({"refused": one_line(error)})
        return
    except Exception as error:  # noqa: BLE001 - said to the parent, which decides
        channel.send({"failed": one_line(error)})
        return
    channel.send({"ready": engine.facts})
    loop = asyncio.get_running_loop()
    while True:
        message = await loop.run_in_executor(None, channel.next)
        engine.take(message["requests"])


class _Engine:
    def __init__(self, channel: Channel, load: Mapping[str, Any]) -> None:
        import torch
        import vllm
        from vllm.v1.engine.async_llm import AsyncLLM

        self._channel = channel
        self._tasks: set[asyncio.Task[None]] = set()
        self._finished: list[Sequence[Any]] = []
        self._load = load
        self._lora = None
        arguments = {"dtype": load["dtype"], "disable_log_stats": True, **load["args"]}
        if load["adapter"]:
            from vllm.lora.request import LoRARequest

            arguments |= {"enable_lora": True, "max_lora_rank": _rank_allowed(load["rank"])}
            self._lora = LoRARequest("adapter", 1, load["adapter"])
        self._llm = AsyncLLM.from_engine_args(
            vllm.AsyncEngineArgs(
                model=load["model"],
                tokenizer=load["tokenizer"],
                load_format="safetensors",
                generation_config="vllm",
                trust_remote_code=False,
                enable_log_requests=False,
                **arguments,
            )
        )
        config = self._llm.vllm_config
        self.facts = {
            "room": config.model_config.max_model_len,
            "dtype": str(config.model_config.dtype).removeprefix("torch."),
            "device": config.device_config.device_type,
            "torch": torch.__version__,
            "vllm": vllm.__version__,
            "enforce_eager": config.model_config.enforce_eager,
            "max_num_seqs": config.scheduler_config.max_num_seqs,
            "prefix_caching": config.cache_config.enable_prefix_caching,
        }

    def take(self, requests: Sequence[Sequence[Any]]) -> None:
        """Start requests; each is sent back when it is done."""
        for sample_id, token_ids, seed in requests:
            task = asyncio.create_task(self._one(sample_id, token_ids, seed))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _one(self, sample_id: str, token_ids: list[int], seed: int) -> None:
        from vllm.v1.engine.exceptions import EngineDeadError

        try:
            row = await self._complete(sample_id, token_ids, seed)
        except EngineDeadError as error:
            self._channel.send({"dead": one_line(error)})
            return
        except Exception as error:  # noqa: BLE001 - a request that cannot be answered is data
            row = [sample_id, None, None, None, one_line(error)]
        if not self._finished:
            asyncio.get_running_loop().call_soon(self._flush)
        self._finished.append(row)

    async def _complete(self, sample_id: str, token_ids: list[int], seed: int) -> list[Any]:
        from vllm import SamplingParams, TokensPrompt
        from vllm.sampling_params import RequestOutputKind

        params = SamplingParams(
            **self._load["knobs"],
            seed=seed,
            stop=self._load["stop"],
            stop_token_ids=self._load["stop_token_ids"],
            skip_special_tokens=self._load["skip_special"],
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        prompt = TokensPrompt(prompt_token_ids=token_ids)
        async for result in self._llm.generate(prompt, params, sample_id, lora_request=self._lora):
            output = result.outputs[0]
            if output.finish_reason in ("stop", "length"):
                return [sample_id, output.text, output.finish_reason, len(output.token_ids), None]
            return [sample_id, None, None, None, f"finish_reason_{output.finish_reason}"]
        return [sample_id, None, None, None, "no_output"]

    def _flush(self) -> None:
        finished, self._finished = self._finished, []
        self._channel.send({"done": finished})


def _rank_allowed(rank: int) -> int:
    """The smallest LoRA rank that vLLM has kernels for and that holds `rank`."""
    return next((allowed for allowed in (1, 8, 16, 32, 64, 128, 256, 320, 512) if allowed >= rank), rank)


if __name__ == "__main__":
    main()
