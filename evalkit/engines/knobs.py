"""Every sampling knob of a protocol by the names that vLLM and its server give them: one table for all engines."""

from __future__ import annotations

from typing import Any

from evalkit.protocol import Sampling


def knobs_of(sampling: Sampling) -> dict[str, Any]:
    """All that shapes the distribution and the length; seed and stop strings go their own ways."""
    return {
        "max_tokens": sampling.max_tokens,
        "temperature": float(sampling.temperature),
        "top_p": float(sampling.top_p),
        "top_k": sampling.top_k,
        "min_p": float(sampling.min_p),
        "repetition_penalty": float(sampling.repetition_penalty),
        "presence_penalty": float(sampling.presence_penalty),
        "frequency_penalty": float(sampling.frequency_penalty),
    }
