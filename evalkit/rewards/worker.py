"""The child process that runs components: `python -m evalkit.rewards.worker`, driven by `pool.py`.

1. First frame in: root and components. First frame out: `{"ready": true}`, or `{"refused": message}`.
2. Then per batch a frame in, `{"only": component or null, "samples": [[completion, target, item, tokens], …]}`, and a
   frame out, per sample a list of [value, status, answer, evidence], in the order of the components.
3. Frames have descriptors of their own: what a scorer prints goes to stderr, what it reads is empty.
4. It ends at end of input, and with its parent even while a scorer hangs (Linux). It leaves no core file.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from evalkit.errors import EvalkitError
from evalkit.frames import own_descriptors, read_frame, write_frame
from evalkit.rewards.base import Component, Response, evaluate
from evalkit.rewards.registry import build


def main() -> None:
    """Serve batches until end of input."""
    _die_with_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    frames_in, frames_out = own_descriptors()
    spec = read_frame(frames_in)
    if spec is None:
        return
    try:
        root = Path(spec["root"])
        components = {name: build(use, params, root) for name, use, params in spec["components"]}
    except EvalkitError as error:
        write_frame(frames_out, {"refused": str(error)})
        return
    write_frame(frames_out, {"ready": True})
    while (batch := read_frame(frames_in)) is not None:
        write_frame(frames_out, _scored(batch, components))


def _scored(batch: dict[str, Any], components: dict[str, Component]) -> list[list[list[Any]]]:
    only = batch["only"]
    chosen = list(components.values()) if only is None else [components[only]]
    rows = []
    for sample in batch["samples"]:
        response = Response(*sample)
        scores = [evaluate(component, response) for component in chosen]
        rows.append([[score.value, score.status, score.answer, score.evidence] for score in scores])
    return rows


def _die_with_parent() -> None:
    """Ask Linux to kill this process with its parent; elsewhere end of input has to do."""
    if sys.platform != "linux":
        return
    import ctypes

    parent_death_signal = 1
    try:
        ctypes.CDLL(None).prctl(parent_death_signal, signal.SIGKILL)
    except (OSError, AttributeError):
        return
    if os.getppid() == 1:
        os._exit(0)


if __name__ == "__main__":
    main()
