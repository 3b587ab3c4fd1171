"""Running a protocol on a split with a model: the same command starts, resumes and reuses."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evalkit.engines import Engine, EngineOptions, Fingerprint, Gold, make_engine
from evalkit.errors import ModelChanged
from evalkit.files import disk
from evalkit.protocol import Lock, Renderer, lock_json
from evalkit.runs.environment import environment
from evalkit.runs.execute import OnProgress, Progress, execute
from evalkit.runs.folder import FORMAT, RunFolder
from evalkit.runs.loop import drive
from evalkit.runs.plan import Address, Items, Plan, Targets, check_runnable, check_templates
from evalkit.runs.scoring import check_budget, check_sources, score_run
from evalkit.splits import Split
from evalkit.workspace import Workspace


@dataclass(frozen=True, slots=True)
class RunResult:
    """A finished run."""

    run: RunFolder
    lock: Lock
    split: Split
    reused: bool
    """Whether all completions were there before."""


def _silent(_: Progress) -> None:
    """No progress display."""


def run_model(
    workspace: Workspace,
    lock: Lock,
    split: Split,
    model: str,
    *,
    repeat: int = 0,
    options: EngineOptions | None = None,
    on_progress: OnProgress = _silent,
) -> RunResult:
    """Run `model` under `lock` on `split`, resuming what an earlier attempt left.

    A finished run is reused only when its address is the same, that is, when every input that can change a completion
    is. Its scores are added where the scoring digest is new.

    Args:
        workspace: where the run lies.
        lock: the frozen protocol.
        split: loaded items; the caller has checked its role.
        model: `engine:locator`.
        repeat: index of the whole run; another repeat has other seeds.
        options: tokenizer, concurrency, training step and seed.
        on_progress: called after every journaled batch.

    Raises:
        Refused: tools, changed scorer code, another runner, or a knob the server does not know.
        InfrastructureFailed: the engine failed more often than the error budget allows; the same command resumes.
        ModelChanged: the server turned into another model; the run is marked invalid.
        DiskRefused: the disk is full or read-only; what was journaled stays.
    """
    check_runnable(lock, split)
    check_sources(lock, workspace.root)
    chosen = options or EngineOptions(root=workspace.root)
    return drive(_run(workspace, lock, split, model, repeat, chosen, on_progress))


async def _run(
    workspace: Workspace,
    lock: Lock,
    split: Split,
    model: str,
    repeat: int,
    options: EngineOptions,
    on_progress: OnProgress,
) -> RunResult:
    engine = engine_for(lock, split, model, options)
    try:
        fingerprint = await engine.open()
        return await run_with(workspace, lock, split, engine, fingerprint, repeat, on_progress)
    finally:
        await engine.close()


def engine_for(lock: Lock, split: Split, model: str, options: EngineOptions) -> Engine:
    """The engine of `model`, not yet opened, once every template is known to fit the items.

    Raises:
        BadInput: no such engine, or a template asks for a field that an item does not have.
    """
    items = Items(split.items)
    targets = Targets(lock)
    engine = make_engine(model, lock, Gold(items.ids, lambda: targets.gold(items)), options)
    check_templates(_renderer(lock, engine), targets, items)
    return engine


async def run_with(
    workspace: Workspace,
    lock: Lock,
    split: Split,
    engine: Engine,
    fingerprint: Fingerprint,
    repeat: int,
    on_progress: OnProgress,
) -> RunResult:
    """One run with an engine that is open; it stays open. Arguments and errors are those of `run_model`."""
    plan = plan_with(lock, split, engine, fingerprint, repeat)
    run = RunFolder(workspace.runs / plan.run_id)
    if run.invalid is not None:
        _set_aside(workspace, run)
    if run.finished:
        check_budget(run, lock)
        await score_run(run, lock, plan.items, workspace.root)
        run.add_protocol(lock)
        return RunResult(run, lock, split, reused=True)
    await engine.start(next(plan.requests(())))
    with run.writing():
        if not (run.path / "run.json").exists():
            run.write_json("run.json", _header(plan, workspace.root))
        try:
            await execute(plan, engine, run, workspace.root, on_progress)
        except ModelChanged as error:
            run.write_json("invalid.json", {"why": str(error)})
            raise
        finally:
            if seen := engine.observed():
                run.write_json("engine.json", dict(seen))
    return RunResult(run, lock, split, reused=False)


def _renderer(lock: Lock, engine: Engine) -> Renderer | None:
    if not engine.renders:
        return None
    tokenizer = engine.model_template()
    return Renderer(lock.spec, tokenizer.chat_template, tokenizer.bos_token)


def plan_with(lock: Lock, split: Split, engine: Engine, fingerprint: Fingerprint, repeat: int) -> Plan:
    """What a run with an engine that is open has to do."""
    address = Address(
        generation=lock.digests.generation,
        chat_template=fingerprint.chat_template_digest,
        split_root=split.root,
        model=fingerprint.model_digest,
        engine=fingerprint.engine,
        engine_version=fingerprint.engine_version,
        dtype=fingerprint.dtype,
        repeat=repeat,
        engine_args=fingerprint.engine_args,
    )
    items, renderer = Items(split.items), _renderer(lock, engine)
    return Plan(lock, split, items, fingerprint, repeat, address, address.digest, renderer)


def _header(plan: Plan, root: Path) -> Mapping[str, Any]:
    return {
        "format": FORMAT,
        "run_id": plan.run_id,
        "address": asdict(plan.address),
        "protocol": plan.lock.id,
        "lock": lock_json(plan.lock),
        "split": {"name": plan.split.name, "role": plan.split.role, "root": plan.split.root, "items": len(plan.items)},
        "planned": plan.n_planned,
        "repeat": plan.repeat,
        "fingerprint": {**asdict(plan.fingerprint), "details": dict(plan.fingerprint.details)},
        "environment": environment(root),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _set_aside(workspace: Workspace, run: RunFolder) -> None:
    """Move an invalid run out of the way of the next one; it is kept for whoever wants to know why."""
    folder = workspace.state / "invalid"
    with disk(folder):
        folder.mkdir(parents=True, exist_ok=True)
        number = 1 + sum(1 for _ in folder.glob(f"{run.run_id}-*"))
        os.replace(run.path, folder / f"{run.run_id}-{number}")
