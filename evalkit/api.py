"""The Python API: what the command line does, as typed functions. The command line only parses, calls and prints.

Every function that returns results writes the look into the ledger first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from evalkit import audit as audits
from evalkit import protocol as protocols
from evalkit import runs, splits
from evalkit.audit import Audit, AuditLock, AuditPlan, AuditSpec, PairsAudit, Scorer, Wish
from evalkit.engines import EngineOptions as EngineOptions
from evalkit.engines import engine_name, generates
from evalkit.errors import BadInput
from evalkit.ledger import Event, Ledger, Look
from evalkit.protocol import Lock
from evalkit.runs import (
    Comparison,
    Evidence,
    Optimism,
    Preflight,
    Progress,
    RunFolder,
    RunResult,
    Selected,
    Side,
    Summary,
)
from evalkit.splits import BuildReport
from evalkit.workspace import Workspace, find_workspace

TABLE_KINDS = (".csv", ".jsonl", ".ndjson", ".parquet")
"""Endings of files that are read as tables."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """A frozen protocol and its file."""

    lock: Lock
    path: Path
    written: bool
    """False where the same content was frozen before."""


def freeze(path: Path | str, workspace: Workspace | None = None) -> Frozen:
    """Freeze a YAML protocol: complete it, compute its digests, write `NAME.vN.lock.json` beside it.

    Raises:
        BadInput: the protocol is faulty; the message names file, row and field.
        Refused: this version is frozen with other content.
    """
    home = workspace or find_workspace()
    lock, target, written = protocols.freeze_file(Path(path), runs.resolver(home.root))
    if written:
        details = {"scoring": lock.digests.scoring, "generation": lock.digests.generation}
        with Ledger(home.ledger) as ledger:
            ledger.append(Event.now("freeze", protocol=lock.id, details={"protocol": lock.digests.protocol, **details}))
    return Frozen(lock, target, written)


def load_protocol(reference: str, workspace: Workspace | None = None) -> Lock:
    """The frozen protocol `NAME@VERSION`, `NAME` (where it has one version) or a lock's path, verified."""
    return protocols.load_protocol((workspace or find_workspace()).protocols, reference)


def verify_protocol(lock: Lock, workspace: Workspace | None = None) -> None:
    """Check that the code that scores is what was frozen.

    Raises:
        Refused: a component's code has changed.
    """
    runs.check_sources(lock, (workspace or find_workspace()).root)


def build_split(
    source: Path | str,
    *,
    name: str,
    sizes: Mapping[str, int],
    cluster_by: str | None,
    stratify: str | None = None,
    seed: int = 0,
    id_field: str | None = None,
    text_fields: Sequence[str] | None = None,
    secret: Path | None = None,
    extend: bool = False,
    merge_overlaps: bool = False,
    workspace: Workspace | None = None,
) -> BuildReport:
    """Assign the items of a data set to splits by cluster, and record it; see `evalkit.splits.build_split`."""
    return splits.build_split(
        workspace or find_workspace(),
        source,
        name=name,
        sizes=sizes,
        cluster_by=cluster_by,
        stratify=stratify,
        seed=seed,
        id_field=id_field,
        text_fields=text_fields,
        secret=secret,
        extend=extend,
        merge_overlaps=merge_overlaps,
    )


def run(
    protocol: str | Lock,
    split: str,
    model: str,
    *,
    repeat: int = 0,
    purpose: str | None = None,
    options: EngineOptions | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
    workspace: Workspace | None = None,
) -> RunResult:
    """Run a frozen protocol on a split with a model; the same call resumes. See `evalkit.runs.run_model`.

    Raises:
        Refused: the split's role forbids it: `private` always, `audit` without that purpose.
    """
    home = workspace or find_workspace()
    lock = load_protocol(protocol, home) if isinstance(protocol, str) else protocol
    set_name, role = splits.resolve_reference(home, split)
    splits.check_purpose(set_name, role, purpose)
    loaded = splits.load_split(home, f"{set_name}/{role}")
    return runs.run_model(home, lock, loaded, model, repeat=repeat, options=options, on_progress=on_progress)


def preflight(
    protocol: str | Lock,
    model: str,
    *,
    split: str = "smoke",
    repeat: int = 0,
    options: EngineOptions | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
    workspace: Workspace | None = None,
) -> Preflight:
    """Look at protocol, model and scorer before an expensive run: go or no-go. See `evalkit.runs.preflight`.

    Raises:
        Refused: neither a smoke nor a dev split.
    """
    home = workspace or find_workspace()
    lock = load_protocol(protocol, home) if isinstance(protocol, str) else protocol
    set_name, role = splits.resolve_reference(home, split)
    runs.check_role(set_name, role)
    loaded = splits.load_split(home, f"{set_name}/{role}")
    chosen = options or EngineOptions(root=home.root)
    found, done = runs.preflight_model(
        home, lock, loaded, model, repeat=repeat, options=chosen, on_progress=on_progress
    )
    for result in done:
        runs.record_look(home, result.run, lock, "debug")
    runs.record_preflight(home, found)
    return found


@dataclass(frozen=True, slots=True)
class MissingPreflight:
    """An engine with which no preflight of a protocol said `go`."""

    engine: str
    model: str
    """The model that is to be run with it."""
    last: str | None
    """The verdict of the last preflight; None where there was none."""


def missing_preflight(lock: Lock, models: Sequence[str], workspace: Workspace | None = None) -> MissingPreflight | None:
    """The first of these models whose engine makes completions and has no `go` as its last preflight of `lock`."""
    home = workspace or find_workspace()
    for model in models:
        engine = engine_name(model)
        if generates(model) and (last := runs.last_verdict(home, lock, engine)) != "go":
            return MissingPreflight(engine, model, last)
    return None


def find_run(reference: str, workspace: Workspace | None = None) -> RunFolder:
    """The run that the beginning of an id or a path names."""
    return runs.find_run((workspace or find_workspace()).runs, reference)


def summarize(
    run: str | RunFolder | RunResult,
    protocol: str | None = None,
    *,
    purpose: str | None = None,
    workspace: Workspace | None = None,
) -> Summary:
    """Results of a finished run under the protocol named, or its only one."""
    home = workspace or find_workspace()
    if isinstance(run, RunResult):
        folder, items = run.run, run.split.items
        lock = folder.protocol(protocol) if protocol else run.lock
    else:
        folder = find_run(run, home) if isinstance(run, str) else run
        items = _items(home, folder)
        lock = folder.protocol(protocol)
    _look(home, folder, lock, purpose)
    summary = runs.summarize(folder, lock, items)
    alarm = runs.worn_out(home, folder)
    return replace(summary, alarms=(*summary.alarms, alarm)) if alarm else summary


def score(run: str | RunFolder, protocol: str | Lock, workspace: Workspace | None = None) -> bool:
    """Score the stored completions of a run under another protocol; False where that was done before.

    Raises:
        Refused: the protocol would generate otherwise, so these completions are not its own.
    """
    home = workspace or find_workspace()
    folder = find_run(run, home) if isinstance(run, str) else run
    lock = load_protocol(protocol, home) if isinstance(protocol, str) else protocol
    return runs.score_stored(folder, lock, _items(home, folder), home.root)


def compare(
    left: str,
    right: str,
    *,
    protocol: str | None = None,
    force: bool = False,
    workspace: Workspace | None = None,
) -> Comparison:
    """Hold two runs against each other, `right` minus `left`; refused results are empty unless `force`.

    Args:
        left: the reference: RUN, or RUN:PROTOCOL where it is scored under several.
        right: what is held against it.
        protocol: read both under this one.
        force: compare what is not comparable; the result says so.
        workspace: by default the one around the current folder.
    """
    home = workspace or find_workspace()
    sides = [_side(reference, protocol, home) for reference in (left, right)]
    items = _items(home, sides[0].run)
    for side in sides:
        _look(home, side.run, side.lock, None)

    def rescore(folder: RunFolder, lock: Lock) -> None:
        runs.rescore(folder, lock, items, home.root)

    return runs.compare_runs(sides[0], sides[1], items, rescore, force)


def _side(reference: str, protocol: str | None, home: Workspace) -> Side:
    name, _, own = reference.partition(":")
    return runs.side_of(find_run(name, home), own or protocol)


def samples(
    run: str,
    *,
    top: int = 0,
    bottom: int = 0,
    random: int = 0,
    protocol: str | None = None,
    workspace: Workspace | None = None,
) -> list[Selected]:
    """Samples of a run to read: highest and lowest by reward, and a random few."""
    home = workspace or find_workspace()
    folder = find_run(run, home)
    lock = folder.protocol(protocol)
    items = _items(home, folder)
    _look(home, folder, lock, "debug")
    return runs.select_samples(
        folder, runs.load_evidence(folder, lock, items), items, top=top, bottom=bottom, random=random
    )


def evidence(run: str, protocol: str | None = None, workspace: Workspace | None = None) -> Evidence:
    """A run's samples with success, reward and component values, one row each, for analyses of your own."""
    home = workspace or find_workspace()
    folder = find_run(run, home)
    lock = folder.protocol(protocol)
    items = _items(home, folder)
    _look(home, folder, lock, "debug")
    return runs.load_evidence(folder, lock, items)


@dataclass(frozen=True, slots=True)
class SplitLooks:
    """Looks at one split under one protocol, and what choosing the best of them buys by chance."""

    split: str
    protocol: str
    looks: tuple[Look, ...]
    optimism: Optimism


def looks(name: str, workspace: Workspace | None = None) -> list[SplitLooks]:
    """All looks at the splits of set `name`, by split and protocol."""
    home = workspace or find_workspace()
    with Ledger(home.ledger) as ledger:
        found = ledger.looks(split=name)
    groups: dict[tuple[str, str, str, str], list[Look]] = {}
    for look in found:
        groups.setdefault((look.split, look.protocol, look.protocol_digest, look.split_root), []).append(look)
    result = []
    for (split, protocol, digest, root), members in groups.items():
        m = runs.models_looked_at(members)
        try:
            items = splits.load_split(home, split).items
        except BadInput as error:
            luck = Optimism(m, None, None, 0, str(error))
        else:
            luck = runs.optimism(home, digest, root, items, m)
        result.append(SplitLooks(split, protocol, tuple(members), luck))
    return result


def _items(home: Workspace, folder: RunFolder) -> pl.DataFrame:
    """The items of a run's split, if they are still those it was run on."""
    stated = folder.header()["split"]
    loaded = splits.load_split(home, stated["name"])
    if loaded.root != stated["root"]:
        raise BadInput(
            f"run {folder.run_id}: made on another {stated['name']} than the one that is here now; "
            "bring its items back, or run again"
        )
    return loaded.items


def _look(home: Workspace, folder: RunFolder, lock: Lock, purpose: str | None) -> None:
    set_name, role = folder.header()["split"]["name"].rsplit("/", 1)
    why = purpose or ("audit" if role == "audit" else None)
    runs.record_look(home, folder, lock, splits.check_purpose(set_name, role, why))


def load_audit(reference: Path | str) -> tuple[AuditLock, bool]:
    """An audit spec, from its lock or its YAML, and whether it is frozen: a YAML is where its lock lies beside it.

    Raises:
        BadInput: neither a lock nor a spec.
    """
    path = Path(reference)
    if path.name.endswith(".json"):
        return audits.load_audit_lock(path), True
    lock = audits.lock_of(audits.load_audit_spec(path))
    beside = audits.lock_path(path.parent, lock.spec)
    return lock, beside.is_file() and audits.load_audit_lock(beside).digest == lock.digest


def audit_reward(
    scores: Path | str | Scorer,
    labels: Path | str,
    spec: AuditSpec | Path | str,
    *,
    columns: Mapping[str, str] | None = None,
    annotators: Sequence[str] = (),
    on_scored: Callable[[int, int], None] = lambda _done, _of: None,
    workspace: Workspace | None = None,
) -> Audit:
    """Hold a reward, or a judge's verdicts, against human labels.

    Args:
        scores: CSV, JSONL or Parquet, a column per component or long with `component` and `value`; or a finished run,
            RUN or RUN:PROTOCOL, whose components, `reward` and `success` are read; or a `ModelScorer` or `JudgeScorer`,
            which scores its data first, once.
        labels: a table with a column per annotator, or long, or a filled sheet of `evalkit samples --sheet`. May be the
            file of the scores.
        spec: the audit's contract; a path is that of its lock, or of the YAML beside its lock. A spec that is not
            frozen registers nothing, and its verdict is `cannot tell`.
        columns: role → column of the files (see docs/audit.md); `a+b` joins two to a key.
        annotators: columns of `labels` that hold one annotator each; empty takes the column the spec names as label.
        on_scored: told how many rows are scored, of how many.
        workspace: where runs and kept scores lie; by default the one around the current folder.

    Returns:
        The audit; nothing is written, but for the look at a run, or what a scorer said.

    Raises:
        BadInput: a file, a row, a column or the spec cannot be used as it is.
        Refused: a run on a private split, or a reward model with code in its folder.
        InfrastructureFailed: the scorer fails; the same call goes on where it stopped.
    """
    lock, frozen = (audits.lock_of(spec), False) if isinstance(spec, AuditSpec) else load_audit(spec)
    contract = lock.spec
    needed = [*contract.strata, *contract.controls, contract.group_by, contract.system_by]
    about = list(dict.fromkeys([*needed, contract.cluster_by]))
    read, scoring = None, None
    if isinstance(scores, Path | str):
        said, of_scores, read = _scores(scores, contract, about, columns or {}, workspace)
        source = Path(scores)
    else:
        source, read = scores.data, audits.read_columns(scores.data, columns or {})
        root = (workspace or find_workspace()).root
        scoring = audits.score_data(scores, contract, read, about, root, on_scored)
        said, of_scores = scoring.scores, scoring.digest
    of_labels = read if read and source == Path(labels) else audits.read_columns(Path(labels), columns or {})
    human = audits.labels_of(of_labels, contract.label, annotators, about, categorical=contract.categorical)
    dimensions = audits.dimensions_of(of_labels, contract.dimensions, annotators, about)
    evidence = audits.gather(said, human, contract, dimensions)
    inputs = {"scores": of_scores, "labels": audits.file_digest(Path(labels))}
    inputs["columns"] = audits.mapping_digest(columns or {}, annotators)
    if scoring is None:
        return audits.audit(evidence, lock, frozen=frozen, inputs=inputs)
    evidence = replace(evidence, findings=(*evidence.findings, *scoring.findings))
    inputs["data"] = audits.file_digest(source)
    result = audits.audit(evidence, lock, frozen=frozen, inputs=inputs)
    repeats = {"repeats": scoring.repeats} if scoring.repeats else {}
    return replace(result, sections={**result.sections, **repeats})


def _scores(
    reference: Path | str,
    contract: AuditSpec,
    about: Sequence[str],
    columns: Mapping[str, str],
    workspace: Workspace | None,
) -> tuple[audits.Scores, str, audits.Columns | None]:
    """Scores of a table or a run, the digest of what they were read from, and the table where it is one."""
    components = list(dict.fromkeys([contract.reward, *contract.further]))
    path = Path(reference)
    if path.is_file() or path.suffix.lower() in TABLE_KINDS:
        read = audits.read_columns(path, columns)
        said = audits.scores_of(read, components, about, categorical=contract.categorical)
        return said, audits.file_digest(path), read
    if contract.categorical:
        raise BadInput(f"{reference}: statistic {contract.statistic} takes a table of verdicts; give a file")
    folder, lock, home = _audited_run(str(reference), workspace)
    items = _items(home, folder)
    _look(home, folder, lock, "audit")
    evidence = runs.load_evidence(folder, lock, items)
    said = audits.scores_of_run(folder, evidence, items, components, about)
    return said, audits.run_digest(folder, evidence), None


def _audited_run(reference: str, workspace: Workspace | None) -> tuple[RunFolder, Lock, Workspace]:
    """The run that RUN or RUN:PROTOCOL names, with the protocol it is read under."""
    neither = (
        f"{reference}: neither a table nor a run; name a CSV, JSONL or Parquet file, or a run that `evalkit runs` lists"
    )
    try:
        home = workspace or find_workspace()
    except BadInput as error:
        raise BadInput(f"{neither} ({error})") from None
    name, _, own = reference.partition(":")
    if not (Path(name) / "run.json").is_file() and not any(
        name and folder.run_id.startswith(name) for folder in runs.list_runs(home.runs)
    ):
        raise BadInput(neither)
    folder = find_run(name, home)
    return folder, folder.protocol(own or None), home


def audit_pairs(file: Path | str, *, columns: Mapping[str, str] | None = None) -> PairsAudit:
    """Look at a preference set: repeats, contradictions, empty answers, length preference, sources that are turned.

    Args:
        file: CSV, JSONL or Parquet with `chosen` and `rejected`, text or turns; see docs/audit.md for the others.
        columns: role → column.

    Raises:
        BadInput: the file, a row or a column cannot be used as it is.
    """
    return audits.audit_pairs(audits.read_columns(Path(file), columns or {}))


def audit_plan(wish: Wish, audit: Path | str | None = None, workspace: Workspace | None = None) -> AuditPlan:
    """How many clusters, items and labels a wanted interval or difference needs.

    Args:
        wish: what is wanted, and what is given; the rest is measured in `audit`, or assumed and said so.
        audit: an audit to plan from: the beginning of its digest, its folder, or its audit.json; None for none.
        workspace: where audits lie; by default the one around the current folder.

    Raises:
        BadInput: no such audit, or what a plan needs is neither given nor measured.
    """
    return audits.plan_audit(wish, None if audit is None else audits.read_measured(_audit_file(str(audit), workspace)))


def _audit_file(reference: str, workspace: Workspace | None) -> Path:
    """The audit.json of an audit."""
    path = Path(reference)
    for found in (path, path / "audit.json"):
        if found.is_file():
            return found
    home = workspace or find_workspace()
    name = reference.removeprefix("ek1:sha256:")
    kept = sorted(folder for folder in home.audits.glob("*") if name and name.startswith(folder.name[: len(name)]))
    if len(kept) == 1:
        return kept[0] / "audit.json"
    if kept:
        raise BadInput(
            f"audit {reference}: several begin so: {', '.join(folder.name for folder in kept[:5])}; give more"
        )
    raise BadInput(f"audit {reference}: none in {home.audits}; `evalkit audit reward` makes one and names its folder")


def freeze_audit(path: Path | str, workspace: Workspace | None = None) -> tuple[AuditLock, Path, bool]:
    """Freeze a YAML audit spec: write `NAME.vN.audit.lock.json` beside it; the last value says whether it was now.

    Raises:
        BadInput: the spec is faulty; the message names file, row and field.
        Refused: this version is frozen with other content.
    """
    home = workspace or find_workspace()
    lock, target, written = audits.freeze_audit(Path(path))
    if written:
        with Ledger(home.ledger) as ledger:
            ledger.append(Event.now("freeze", protocol=lock.spec.id, details={"audit": lock.digest}))
    return lock, target, written
