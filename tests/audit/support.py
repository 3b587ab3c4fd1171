"""Tables and specs of audits, and the public command on them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalkit.audit import freeze_audit
from evalkit.workspace import create_workspace
from tests.servers.forked import forked


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Desk:
    """A workspace with tables in it."""

    root: Path

    def table(self, name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
        path = self.root / name
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *rows])
        return path

    def spec(self, frozen: bool = True, **fields: Any) -> Path:
        """A frozen spec; fields as YAML flow values, which JSON is."""
        base: Mapping[str, Any] = {
            "name": "audit",
            "version": 1,
            "reward": "reward",
            "label": "label",
            "statistic": "spearman",
            "level": "pooled",
            "cluster_by": "none",
            "thresholds": {"usable": 0.3, "trustworthy": 0.6},
        }
        path = self.root / "protocols" / "audit.yaml"
        path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in {**base, **fields}.items()))
        (self.root / "protocols" / "audit.v1.audit.lock.json").unlink(missing_ok=True)
        if frozen:
            freeze_audit(path)
        return path

    def evalkit(self, *arguments: str) -> Done:
        return Done(**forked(self.root, *arguments))

    def audit(self, scores: Path, labels: Path, spec: Path, *flags: str, verdicts: bool = False) -> Done:
        table = "--verdicts" if verdicts else "--scores"
        return self.evalkit("audit", "reward", table, str(scores), "--labels", str(labels), "--spec", str(spec), *flags)


def new_desk(root: Path) -> Desk:
    return Desk(create_workspace(root).root)
