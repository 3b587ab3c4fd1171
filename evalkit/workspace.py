"""A workspace: the nearest folder above that holds `evalkit.toml`, and where things lie in it.

In git: `protocols/`, `splits/NAME/manifest.json`, `reports/`. Machine state, never in git: `.evalkit/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evalkit.errors import BadInput
from evalkit.files import disk

MARK = "evalkit.toml"
IGNORED = ".evalkit/\n"


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folders of one workspace."""

    root: Path

    @property
    def protocols(self) -> Path:
        """YAML protocols and their locks."""
        return self.root / "protocols"

    @property
    def splits(self) -> Path:
        """One folder a split set, with its manifest."""
        return self.root / "splits"

    @property
    def state(self) -> Path:
        """Everything that is not in git."""
        return self.root / ".evalkit"

    @property
    def items(self) -> Path:
        """Items and secrets of the split sets."""
        return self.state / "items"

    @property
    def runs(self) -> Path:
        """One folder a run."""
        return self.state / "runs"

    @property
    def audits(self) -> Path:
        """One folder an audit."""
        return self.state / "audits"

    @property
    def ledger(self) -> Path:
        """The ledger's file."""
        return self.state / "ledger.sqlite"


def find_workspace(start: Path | None = None) -> Workspace:
    """The workspace that `start` (by default the current folder) lies in.

    Raises:
        BadInput: no folder above holds `evalkit.toml`.
    """
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / MARK).is_file():
            return Workspace(folder)
    raise BadInput(f"{here}: no {MARK} here or above; `evalkit init` makes this folder a workspace")


def create_workspace(root: Path) -> Workspace:
    """Make `root` a workspace; what is there already stays as it is.

    Raises:
        DiskRefused: a folder or file cannot be made.
    """
    workspace = Workspace(root.resolve())
    with disk(workspace.root):
        for folder in (workspace.protocols, workspace.splits, workspace.state):
            folder.mkdir(parents=True, exist_ok=True)
        if not (workspace.root / MARK).exists():
            (workspace.root / MARK).write_text("# This folder is an evalkit workspace.\n", encoding="utf-8")
        ignore = workspace.root / ".gitignore"
        known = ignore.read_text(encoding="utf-8") if ignore.exists() else ""
        if IGNORED.strip() not in known.splitlines():
            ignore.write_text(known + ("" if known.endswith("\n") or not known else "\n") + IGNORED, encoding="utf-8")
    return workspace
