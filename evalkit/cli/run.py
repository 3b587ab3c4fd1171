"""`evalkit preflight`, `run`, `score`, `compare`, `samples`, `runs`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evalkit.cli.common import Concurrency, EngineArguments, Json, ProtocolOption, Step, TrainSeed, show
from evalkit.cli.preflight import advice, advised, preflight

if TYPE_CHECKING:
    from evalkit.runs import Summary


def add_to(app: typer.Typer) -> None:
    """Put these commands at the top level."""
    for command in (preflight, run, score, compare, samples, runs):
        app.command()(command)


def run(
    protocol: Annotated[str, typer.Argument(help="Frozen protocol: NAME@VERSION.")],
    split: Annotated[str, typer.Option(help="SET/ROLE, or ROLE where there is one set.")],
    model: Annotated[
        list[str],
        typer.Option(help="vllm:PATH, hf:PATH, openai:NAME@URL, replay:FILE, baseline:KIND; may be repeated."),
    ],
    repeat: Annotated[int, typer.Option(min=0, help="Index of the whole run; another one has other seeds.")] = 0,
    purpose: Annotated[str | None, typer.Option(help="Why you look: checkpoint, debug, report, audit, …")] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help="The model's tokenizer folder, to render prompts here.")
    ] = None,
    concurrency: Concurrency = None,
    engine_arg: EngineArguments = None,
    step: Step = None,
    train_seed: TrainSeed = None,
    watch: Annotated[
        Path | None, typer.Option(help="A training folder: its checkpoints are run in step order, as they appear.")
    ] = None,
    idle: Annotated[
        float | None, typer.Option(min=0, help="With --watch: end after so many seconds without a new checkpoint.")
    ] = None,
    details: Annotated[bool, typer.Option("--details", help="Print what is behind every number.")] = False,
    as_json: Json = False,
) -> None:
    """Run models under a protocol on a split. The same command resumes, and reuses what is finished."""
    from evalkit import api
    from evalkit.engines import EngineOptions, engine_arguments
    from evalkit.errors import EvalkitError
    from evalkit.report import progress_line, result_line
    from evalkit.workspace import find_workspace

    home = find_workspace()
    options = EngineOptions(home.root, tokenizer, concurrency, step, train_seed, engine_arguments(engine_arg or []))
    lock = api.load_protocol(protocol, home)
    recommended = advice(home, lock, split, model if watch is None else [f"{model[0].removesuffix(':')}:CHECKPOINT"])
    summaries: list[Summary] = []
    try:
        for reference in _references(model, watch, idle):
            try:
                with progress_line(reference) as tick:
                    done = api.run(
                        lock,
                        split,
                        reference,
                        repeat=repeat,
                        purpose=purpose,
                        options=options,
                        on_progress=advised(tick, recommended),
                        workspace=home,
                    )
            except EvalkitError as failure:
                if watch is None or Path(reference.partition(":")[2]).is_dir():
                    raise
                # A trainer that keeps only its last checkpoints may remove one before its turn; the watch goes on.
                print(f"{reference}: removed before it was evaluated; it has no result ({failure})", file=sys.stderr)
                continue
            if done.reused:
                print(f"{reference}: finished before, run {done.run.run_id} is reused", file=sys.stderr)
            summaries.append(api.summarize(done, purpose=purpose, workspace=home))
            if watch is not None:
                print(result_line(summaries[-1]), file=sys.stderr, flush=True)
    finally:
        if summaries:  # what is finished is shown also where a later model fails
            _print(summaries, as_json, details or len(model) == 1)


def _references(model: list[str], watch: Path | None, idle: float | None) -> Iterator[str]:
    """What is run: the models given, or the checkpoints of a training folder as they appear."""
    from evalkit.errors import BadInput
    from evalkit.runs import watch as checkpoints

    if watch is None:
        if idle is not None:
            raise BadInput("--idle: goes with --watch DIR; leave it out")
        yield from model
        return
    engine = model[0].removesuffix(":")
    if len(model) > 1 or engine not in ("vllm", "hf"):
        raise BadInput(f"--model {' '.join(model)}: with --watch name the engine alone: --model vllm, or --model hf")
    for path in checkpoints(watch, idle, lambda what: print(f"waiting for {what}", file=sys.stderr, flush=True)):
        yield f"{engine}:{path}"


def _print(summaries: list[Summary], as_json: bool, with_details: bool) -> None:
    from evalkit.report import checkpoint_table, details

    tables = checkpoint_table(summaries)
    parts = [tables, *(details(summary) for summary in summaries if with_details)]
    show(as_json, summaries, "\n\n".join(parts))


def score(
    run: Annotated[list[str], typer.Argument(help="Beginning of a run's id, or its path; may be repeated.")],
    protocol: Annotated[str, typer.Option("--protocol", "-p", help="NAME@VERSION to score under.")],
    as_json: Json = False,
) -> None:
    """Score stored completions under another protocol. Completions do not change, scores are added."""
    from evalkit import api

    summaries = []
    for reference in run:
        api.score(reference, protocol)
        summaries.append(api.summarize(reference, protocol))
    _print(summaries, as_json, len(run) == 1)


def compare(
    left: Annotated[str, typer.Argument(help="The reference: RUN, or RUN:PROTOCOL where it is scored under several.")],
    right: Annotated[str, typer.Argument(help="The run held against it.")],
    protocol: ProtocolOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Compare what is not comparable; the output is stamped.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare two runs by item: first whether they may be compared, then the difference. Exit 2 where they may not."""
    from evalkit import api
    from evalkit.report import comparison_text

    found = api.compare(left, right, protocol=protocol, force=force)
    show(as_json, found, comparison_text(found))
    raise typer.Exit(0 if found.results else 2)


def samples(
    run: Annotated[str, typer.Argument(help="Beginning of a run's id, or its path.")],
    top: Annotated[int | None, typer.Option(min=0, help="Samples with the highest reward.")] = None,
    bottom: Annotated[int | None, typer.Option(min=0, help="Samples with the lowest reward.")] = None,
    random: Annotated[int | None, typer.Option(min=0, help="Samples by chance; the same each time.")] = None,
    sheet: Annotated[
        Path | None, typer.Option(help="Write them as a blinded CSV sheet for human labels instead.")
    ] = None,
    protocol: ProtocolOption = None,
    as_json: Json = False,
) -> None:
    """Show samples to read (3 of each kind unless counts are given), or write a blinded sheet (50 by chance)."""
    from evalkit import api
    from evalkit.errors import Refused
    from evalkit.files import write_whole
    from evalkit.report import samples_text
    from evalkit.runs import label_sheet

    counts = (top, bottom, random)
    if counts == (None, None, None):
        counts = (3, 3, 3) if sheet is None else (0, 0, 50)
    if sheet is not None and sheet.exists():
        raise Refused(f"{sheet}: is there already, perhaps with labels in it; name another file")
    highest, lowest, chance = (count or 0 for count in counts)
    found = api.samples(run, top=highest, bottom=lowest, random=chance, protocol=protocol)
    if sheet is not None:
        write_whole(sheet, label_sheet(found))
        text = f"{sheet}: {len(found)} samples to label, blinded"
        show(as_json, {"sheet": sheet, "samples": len(found)}, text)
        return
    show(as_json, found, samples_text(found))


def runs(
    run: Annotated[
        list[str] | None, typer.Argument(help="Runs to show in full; all are listed where none is given.")
    ] = None,
    protocol: ProtocolOption = None,
    as_json: Json = False,
) -> None:
    """List the runs of the workspace, or show the results of some."""
    from evalkit import api
    from evalkit.report import run_entry, runs_text
    from evalkit.runs import list_runs
    from evalkit.workspace import find_workspace

    if run:
        summaries = [api.summarize(reference, protocol) for reference in run]
        _print(summaries, as_json, len(run) == 1)
        return
    found = list_runs(find_workspace().runs)
    show(as_json, [run_entry(folder) for folder in found], runs_text(found))
