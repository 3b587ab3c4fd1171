"""The child process that runs components: `python -m evalkit.rewards.worker`, driven by `pool.py`.

1. First frame in: root and components. First frame out: `{"ready": true, "network": extent}`, or
   `{"refused": message}`. Where a component is a trainer's function, the network is gone before any is imported, for
   all of them (`network.py`).
2. Then per batch a frame in, `{"only": [component, …] or null, "samples": [[completion, target, item, tokens], …],
   "groups": [size, …] or null}`, and a frame out, per sample a list of [value, status, answer, evidence], in the order
   of the components. Groups are consecutive; a `GroupComponent` is called once for each.
3. Frames have descriptors of their own: what a scorer prints goes to stderr, what it reads is empty.
4. A value that a component gives after it was refused the network is not its value: it is `failed`.
5. It ends at end of input, and with its parent even while a scorer hangs (Linux). It leaves no core file.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evalkit.errors import EvalkitError
from evalkit.frames import own_descriptors, read_frame, write_frame
from evalkit.rewards.adapters import is_adapter
from evalkit.rewards.base import Component, Response, Score, Status, evaluate, no_verdict
from evalkit.rewards.group import GroupComponent, evaluate_group
from evalkit.rewards.network import OPEN, Network, block
from evalkit.rewards.registry import build


def main() -> None:
    """Serve batches until end of input."""
    _die_with_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    frames_in, frames_out = own_descriptors()
    spec = read_frame(frames_in)
    if spec is None:
        return
    network = Network()
    if any(is_adapter(use) for _, use, _ in spec["components"]):
        network = block()
        _die_with_parent()  # another user namespace can undo it
    try:
        root = Path(spec["root"])
        components = {name: build(use, params, root) for name, use, params in spec["components"]}
    except EvalkitError as error:
        write_frame(frames_out, {"refused": str(error)})
        return
    write_frame(frames_out, {"ready": True, "network": network.extent})
    while (batch := read_frame(frames_in)) is not None:
        write_frame(frames_out, _scored(batch, components, network))


def _scored(batch: dict[str, Any], components: dict[str, Component], network: Network) -> list[list[list[Any]]]:
    only = batch["only"]
    chosen = list(components.values()) if only is None else [components[name] for name in only]
    responses = [Response(*sample) for sample in batch["samples"]]
    columns = [_column(component, responses, batch["groups"], network) for component in chosen]
    return [
        [[score.value, score.status, score.answer, score.evidence] for score in row]
        for row in zip(*columns, strict=True)
    ]


def _column(
    component: Component, responses: Sequence[Response], groups: Sequence[int] | None, network: Network
) -> list[Score]:
    """The scores of one component."""
    if network.extent == OPEN and not isinstance(component, GroupComponent):
        return [evaluate(component, response) for response in responses]
    one_by_one = [1] * len(responses)
    scores: list[Score] = []
    for size in groups if groups is not None and isinstance(component, GroupComponent) else one_by_one:
        part, refused = responses[len(scores) : len(scores) + size], len(network.refused)
        found = (
            evaluate_group(component, part) if isinstance(component, GroupComponent) else [evaluate(component, *part)]
        )
        scores += found if len(network.refused) == refused else [_refused(score, network) for score in found]
    return scores


def _refused(score: Score, network: Network) -> Score:
    """No value, where a component made one although it was refused the network on the way."""
    if score.status is Status.FAILED:
        return score
    return no_verdict(Status.FAILED, f"{network.refused[-1]} was refused, and what the function made of it is no score")


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
