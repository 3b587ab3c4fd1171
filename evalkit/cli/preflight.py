"""`evalkit preflight`, and what `evalkit run` says where there was none."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evalkit.cli.common import Concurrency, EngineArguments, Json, Step, TrainSeed, show

if TYPE_CHECKING:
    from evalkit.protocol import Lock
    from evalkit.runs import Progress
    from evalkit.runs.execute import OnProgress
    from evalkit.workspace import Workspace


def preflight(
    protocol: Annotated[str, typer.Argument(help="Frozen protocol: NAME@VERSION.")],
    model: Annotated[str, typer.Option(help="vllm:PATH, hf:PATH, openai:NAME@URL, replay:FILE, baseline:KIND.")],
    split: Annotated[str, typer.Option(help="SET/smoke or SET/dev; the role alone where there is one set.")] = "smoke",
    repeat: Annotated[int, typer.Option(min=0, help="Repeat of the first run; the second has the next.")] = 0,
    tokenizer: Annotated[
        Path | None, typer.Option(help="The model's tokenizer folder, to render prompts here and show their tokens.")
    ] = None,
    concurrency: Concurrency = None,
    engine_arg: EngineArguments = None,
    step: Step = None,
    train_seed: TrainSeed = None,
    as_json: Json = False,
) -> None:
    """Check prompt, stops, extraction, floors and noise on the smoke split before an expensive run. Exit 1 is no-go."""
    from evalkit import api
    from evalkit.engines import EngineOptions, engine_arguments
    from evalkit.report import preflight_text, progress_line
    from evalkit.workspace import find_workspace

    home = find_workspace()
    options = EngineOptions(home.root, tokenizer, concurrency, step, train_seed, engine_arguments(engine_arg or []))
    with progress_line(model) as tick:
        found = api.preflight(
            protocol, model, split=split, repeat=repeat, options=options, on_progress=tick, workspace=home
        )
    show(as_json, found, preflight_text(found))
    raise typer.Exit(0 if found.verdict == "go" else 1)


def advised(tick: OnProgress, advice: list[str]) -> OnProgress:
    """`tick`, and at its first call, when completions are really being made, the advice on stderr; taken out then."""

    def say(progress: Progress) -> None:
        while advice:
            print(advice.pop(), file=sys.stderr)
        tick(progress)

    return say


def advice(home: Workspace, lock: Lock, split: str, models: Sequence[str]) -> list[str]:
    """The line that recommends a preflight, or none: on smoke, for recordings and baselines, and after a `go`."""
    from evalkit import api
    from evalkit.errors import EvalkitError

    if split.rpartition("/")[2] == "smoke":
        return []
    try:
        missing = api.missing_preflight(lock, models, home)
    except EvalkitError:
        return []  # a ledger that cannot be read is named by the look that follows
    if missing is None:
        return []
    what = f"no preflight of {lock.id} with {missing.engine}"
    if missing.last is not None:
        what = f"the last preflight of {lock.id} with {missing.engine} said {missing.last}"
    return [f"{what}: evalkit preflight {lock.id} --model {shlex.quote(missing.model)}"]
