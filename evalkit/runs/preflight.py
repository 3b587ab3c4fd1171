"""Preflight: everything that can be found out about a protocol, a model and a scorer before the expensive run.

1. One engine is opened, and everything is done with it: two runs, and a few requests again.
2. The two runs are ordinary: kept, resumed, and reused by the next preflight and by `evalkit run`.
3. Every part stands with its n or with the reason why it cannot be told; `verdict.py` decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from evalkit.engines import EngineOptions, Fingerprint, engine_name
from evalkit.engines.tokenizer import TokenizerFolder
from evalkit.errors import Refused
from evalkit.ledger import Event, Ledger
from evalkit.protocol import Lock, Renderer
from evalkit.rewards.findings import Finding
from evalkit.runs.alarms import Alarm, run_alarms
from evalkit.runs.comparable import Side
from evalkit.runs.controls import Control, controls
from evalkit.runs.evidence import SUCCESS, load_evidence
from evalkit.runs.execute import OnProgress
from evalkit.runs.loop import drive
from evalkit.runs.plan import Plan, check_runnable
from evalkit.runs.probe import (
    Completions,
    Determinism,
    Failing,
    Reading,
    ShownPrompt,
    completions,
    determinism,
    first_trials,
    fixed,
    readings,
    shown_prompt,
)
from evalkit.runs.run import RunResult, engine_for, plan_with, run_with
from evalkit.runs.scoring import check_sources
from evalkit.runs.stability import Stability, stability
from evalkit.runs.verdict import judge
from evalkit.splits import Split
from evalkit.workspace import Workspace

PREFLIGHT = "preflight"
"""Kind of the ledger's row."""
ROLES = ("smoke", "dev")
"""Roles that may be looked at so closely."""
Verdict = Literal["go", "no-go"]


@dataclass(frozen=True, slots=True)
class Preflight:
    """What was found, and the verdict."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    """What stops first, then warnings, then what cannot be told."""
    protocol: str
    protocol_digest: str
    split: str
    split_root: str
    engine: str
    """`openai` and the like: the reference's prefix."""
    model: str
    model_digest: str
    reference: str
    runs: tuple[str, ...]
    """Ids of the runs it rests on: two repeats, or one of a model that makes no completions."""
    prompt: ShownPrompt | None
    """None where it is rendered by a tokenizer that is not at hand."""
    determinism: Determinism
    completions: Completions
    judged: int
    """Samples of the first run with a verdict on success."""
    successes: int
    alarms: tuple[Alarm, ...]
    """Of the first run."""
    readings: tuple[Reading, ...]
    failing: tuple[Failing, ...]
    controls: tuple[Control, ...]
    stability: Stability | None
    """None where there is one run only."""


def check_role(name: str, role: str) -> None:
    """Refuse a split that preflight, which reads its gold and its completions, would wear out.

    Raises:
        Refused: neither smoke nor dev.
    """
    if role not in ROLES:
        raise Refused(
            f"{name}/{role}: preflight prints items, gold and completions, so it opens {' and '.join(ROLES)} only; "
            f"give --split {name}/smoke"
        )


def preflight_model(
    workspace: Workspace,
    lock: Lock,
    split: Split,
    model: str,
    *,
    repeat: int,
    options: EngineOptions,
    on_progress: OnProgress,
) -> tuple[Preflight, tuple[RunResult, ...]]:
    """Look at everything once; the findings, and the runs they rest on.

    Args:
        workspace: where the runs lie.
        lock: the frozen protocol.
        split: loaded items; the caller has checked its role.
        model: `engine:locator`.
        repeat: of the first run; the second has the next.
        options: tokenizer, concurrency, training step and seed.
        on_progress: called after every journaled batch of either run.

    Raises:
        As `run_model`.
    """
    check_runnable(lock, split)
    check_sources(lock, workspace.root)
    return drive(_preflight(workspace, lock, split, model, repeat, options, on_progress))


async def _preflight(
    workspace: Workspace,
    lock: Lock,
    split: Split,
    model: str,
    repeat: int,
    options: EngineOptions,
    on_progress: OnProgress,
) -> tuple[Preflight, tuple[RunResult, ...]]:
    engine = engine_for(lock, split, model, options)
    try:
        mark = await engine.open()
        plan = plan_with(lock, split, engine, mark, repeat)
        renderer = plan.renderer or _own_renderer(lock, options)
        prompt = shown_prompt(plan, engine, renderer) if renderer else None
        floors = await controls(lock, plan.items, first_trials(plan, renderer), workspace.root)
        repeats = (repeat,) if fixed(mark) else (repeat, repeat + 1)
        runs = [await run_with(workspace, lock, split, engine, mark, number, on_progress) for number in repeats]
        probe = await determinism(engine, plan, runs[0].run)
    finally:
        await engine.close()
    found = _found(plan, mark, prompt, renderer, floors, runs, probe)
    findings = judge(lock, found)
    stopped = any(finding.level == "no-go" for finding in findings)
    return replace(found, findings=findings, verdict="no-go" if stopped else "go"), tuple(runs)


def _own_renderer(lock: Lock, options: EngineOptions) -> Renderer | None:
    """A renderer beside an engine that needs no prompts; None where only the model's tokenizer could render them."""
    if options.tokenizer is not None:
        folder = TokenizerFolder(options.tokenizer)
        return Renderer(lock.spec, folder.chat_template(), folder.bos_token)
    return None if lock.spec.prompt.chat_template == "model" else Renderer(lock.spec)


def _found(
    plan: Plan,
    mark: Fingerprint,
    prompt: ShownPrompt | None,
    renderer: Renderer | None,
    floors: tuple[Control, ...],
    runs: Sequence[RunResult],
    probe: Determinism,
) -> Preflight:
    """All sections; not judged yet."""
    lock, first = plan.lock, runs[0].run
    sides = [Side(done.run, lock, done.run.header()) for done in runs]
    seen = [load_evidence(done.run, lock, plan.items.frame) for done in runs]
    success = seen[0].frame[SUCCESS]
    answers, failing = readings(first, lock)
    return Preflight(
        verdict="no-go",
        findings=(),
        protocol=lock.id,
        protocol_digest=lock.digests.protocol,
        split=plan.split.name,
        split_root=plan.split.root,
        engine=engine_name(mark.reference),
        model=mark.name,
        model_digest=mark.model_digest,
        reference=mark.reference,
        runs=tuple(done.run.run_id for done in runs),
        prompt=prompt,
        determinism=probe,
        completions=completions(first, lock, renderer),
        judged=success.len() - success.null_count(),
        successes=int(success.sum()),
        alarms=run_alarms(first, seen[0]),
        readings=answers,
        failing=failing,
        controls=floors,
        stability=stability(sides[0], sides[1], seen[0], seen[1]) if len(runs) > 1 else None,
    )


def record_preflight(workspace: Workspace, found: Preflight) -> None:
    """Write what was looked at, and the verdict, into the ledger. Call it before anything reaches a person."""
    details = {
        "protocol_digest": found.protocol_digest,
        "split_root": found.split_root,
        "engine": found.engine,
        "model_digest": found.model_digest,
        "runs": list(found.runs),
        "verdict": found.verdict,
        "codes": sorted({finding.code for finding in found.findings if finding.level == "no-go"}),
    }
    event = Event.now(
        PREFLIGHT, split=found.split, protocol=found.protocol, model=found.model, purpose="debug", details=details
    )
    with Ledger(workspace.ledger) as ledger:
        ledger.append(event)


def last_verdict(workspace: Workspace, lock: Lock, engine: str) -> Verdict | None:
    """The verdict of the last preflight of this protocol with this engine; None where there was none."""
    with Ledger(workspace.ledger) as ledger:
        rows = [row.details for row in ledger.events(PREFLIGHT)]
    mine = [row for row in rows if (row["protocol_digest"], row["engine"]) == (lock.digests.protocol, engine)]
    return mine[-1]["verdict"] if mine else None
