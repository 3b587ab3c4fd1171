"""A run's folder: what lies where, and who may write.

    run.json              address, fingerprint, environment: written once, before the first request
    journal.jsonl         raw completions as they came; never rewritten
    samples/NNNNN.parquet the samples table, sorted by sample_id, a function of the journal
    protocols/P.lock.json the protocols it was run or scored under, by protocol digest
    scores/S/             scores under one scoring digest: journal.jsonl, NNNNN.parquet, floor.json; environment.json
                          where a trainer's function scored: what it had of the network
    done.json             stamp of a finished generation
    invalid.json          why nothing here may be used
    runner.lock           held by the process that is writing

Scores are added beside each other; generations never change.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from evalkit.canonical import short
from evalkit.errors import BadInput, Refused
from evalkit.files import disk, read_json, write_whole
from evalkit.protocol import Lock, load_lock, lock_text
from evalkit.runs.journal import Journal

FORMAT = "evalkit-run/1"


@dataclass(frozen=True, slots=True)
class ScoreFolder:
    """Scores of a run under one scoring digest."""

    path: Path

    @property
    def journal(self) -> Journal:
        """One record a sample: its scores by component."""
        return Journal(self.path / "journal.jsonl", fsync=False)

    @property
    def parts(self) -> list[Path]:
        """Files of the scores table."""
        return sorted(self.path.glob("*.parquet"))

    @property
    def floor(self) -> Path:
        """What the null completion scores, and how values depend on the batch."""
        return self.path / "floor.json"

    @property
    def environment(self) -> Path:
        """What the scorers had of the network, where it was taken from them: recorded, never identity."""
        return self.path / "environment.json"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run on disk."""

    path: Path

    @property
    def run_id(self) -> str:
        """The folder's name is the run's id."""
        return self.path.name

    @property
    def journal(self) -> Journal:
        """The journal of completions."""
        return Journal(self.path / "journal.jsonl")

    @property
    def parts(self) -> list[Path]:
        """Files of the samples table."""
        return sorted((self.path / "samples").glob("*.parquet"))

    @property
    def finished(self) -> bool:
        """Whether every planned sample has its outcome and the samples table stands."""
        return (self.path / "done.json").is_file()

    @property
    def invalid(self) -> str | None:
        """Why the run may not be used; None where it may."""
        path = self.path / "invalid.json"
        return str(json.loads(path.read_text(encoding="utf-8"))["why"]) if path.is_file() else None

    def scores(self, lock: Lock) -> ScoreFolder:
        """Scores under the scoring digest of `lock`."""
        return ScoreFolder(self.path / "scores" / short(lock.digests.scoring, 16))

    def header(self) -> dict[str, Any]:
        """Content of run.json.

        Raises:
            BadInput: not a run's folder, or of another format.
        """
        return read_json(self.path / "run.json", FORMAT, "name a run from `evalkit runs`, or run again")

    def engine_facts(self) -> dict[str, Any]:
        """What a local engine saw of itself (engine.json); empty for other engines."""
        path = self.path / "engine.json"
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}

    def protocols(self) -> list[Lock]:
        """The protocols this run was run or scored under, by id."""
        locks = [load_lock(path) for path in sorted((self.path / "protocols").glob("*.lock.json"))]
        return sorted(locks, key=lambda lock: (lock.spec.name, lock.spec.version))

    def protocol(self, reference: str | None = None) -> Lock:
        """The protocol named `NAME@VERSION` (or NAME) among those of this run; the only one where None.

        Raises:
            BadInput: none of that name, or several to choose from; not finished, or marked invalid.
        """
        self.check_usable()
        locks = self.protocols()
        if reference is not None:
            locks = [lock for lock in locks if reference in (lock.id, lock.spec.name)]
        if len(locks) == 1:
            return locks[0]
        known = ", ".join(lock.id for lock in self.protocols()) or "none"
        what = f"protocol {reference}" if reference else "one protocol"
        raise BadInput(
            f"run {self.run_id}: not scored under {what} (under: {known}); name it with --protocol, or score it: "
            f"`evalkit score {self.run_id} --protocol NAME@VERSION`"
        )

    def add_protocol(self, lock: Lock) -> None:
        """Keep a protocol beside the run, so that its results can be read without the workspace's files."""
        folder = self.path / "protocols"
        with disk(folder):
            folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{short(lock.digests.protocol, 16)}.lock.json"
        if not path.exists():
            write_whole(path, lock_text(lock))

    def write_json(self, name: str, content: Any) -> None:
        """Write one of the run's JSON files whole."""
        write_whole(self.path / name, json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n")

    def check_usable(self) -> None:
        """Refuse a run that is marked invalid or not finished.

        Raises:
            BadInput: it is.
        """
        if (why := self.invalid) is not None:
            raise BadInput(f"run {self.run_id} is invalid: {why}")
        if not self.finished:
            raise BadInput(f"run {self.run_id} is not finished; the command that started it resumes it")

    def samples(self, columns: list[str] | None = None) -> pl.DataFrame:
        """The samples table, sorted by sample_id; some columns only where given.

        Raises:
            BadInput: the run is not finished, or marked invalid.
        """
        return pl.concat(list(self.sample_parts(columns)))

    def sample_parts(self, columns: list[str] | None = None) -> Iterator[pl.DataFrame]:
        """The samples table file by file, for who need not hold all of it; raises as `samples` does."""
        self.check_usable()
        mend = "delete done.json beside its folder and run the same command again"
        for part in self.parts:
            yield read_parts([part], columns, mend)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the run against a second writer.

        Raises:
            Refused: another process is writing; the message names it.
        """
        path = self.path / "runner.lock"
        with disk(path):
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                holder = os.pread(handle, 200, 0).decode(errors="replace").strip() or "another process"
                raise Refused(f"run {self.run_id}: {holder} is writing it; wait for it or stop it") from None
            with disk(path):
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"process {os.getpid()} on {os.uname().nodename}".encode(), 0)
            yield
        finally:
            os.close(handle)


def read_parts(parts: list[Path], columns: list[str] | None, mend: str) -> pl.DataFrame:
    """A table from its files.

    Raises:
        BadInput: a file is damaged or missing; `mend` says what to do.
    """
    try:
        return pl.read_parquet(list(parts), columns=columns)
    except (pl.exceptions.PolarsError, OSError, ValueError):
        raise BadInput(f"{parts[0].parent if parts else 'table'}: damaged; {mend}") from None


def find_run(runs: Path, reference: str) -> RunFolder:
    """The run that a path or the beginning of an id names.

    Raises:
        BadInput: no such run, or several.
    """
    path = Path(reference)
    if (path / "run.json").is_file():
        return RunFolder(path.resolve())
    found = sorted(run.path for run in list_runs(runs) if reference and run.run_id.startswith(reference))
    if len(found) == 1:
        return RunFolder(found[0])
    if found:
        raise BadInput(
            f"run {reference}: several begin so: {', '.join(folder.name for folder in found[:5])}; give more of the id"
        )
    raise BadInput(f"run {reference}: none in {runs}; `evalkit runs` lists them")


def list_runs(runs: Path) -> list[RunFolder]:
    """All runs of a workspace, the newest last."""
    found = [RunFolder(folder) for folder in runs.glob("*") if (folder / "run.json").is_file()]
    return sorted(found, key=lambda run: (run.header()["started"], run.run_id))
