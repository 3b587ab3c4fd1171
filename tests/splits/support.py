"""Sources for the tests of splits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from evalkit.splits import BuildReport, build_split
from evalkit.workspace import Workspace

WORDS = "amber birch cedar delta ember fjord glade haven inlet jetty knoll larch maple north ocean prism quartz".split()  # noqa: SIM905


def rows(n: int, per_cluster: int = 1, start: int = 0) -> list[dict[str, Any]]:
    """`n` items that share nothing, `per_cluster` to a cluster, in strata `even` and `odd` by cluster."""
    return [
        {
            "id": f"i{number:04d}",
            "question": f"What is the secret of number {number}?",
            "answer": str(number),
            "topic": f"t{number // per_cluster}",
            "kind": "odd" if number // per_cluster % 2 else "even",
        }
        for number in range(start, start + n)
    ]


def write(path: Path, items: Iterable[Mapping[str, Any]]) -> Path:
    """A JSONL file."""
    path.write_text("".join(json.dumps(item, ensure_ascii=False) + "\n" for item in items), encoding="utf-8")
    return path


def build(
    workspace: Workspace, items: Iterable[Mapping[str, Any]], sizes: Mapping[str, int], **more: Any
) -> BuildReport:
    """Build `s` from rows written to `source.jsonl` in the workspace."""
    source = write(workspace.root / "source.jsonl", items)
    settings = {"name": "s", "cluster_by": "topic", "seed": 7, "id_field": "id", **more}
    return build_split(workspace, source, sizes=sizes, **settings)


def assigned(report: BuildReport, workspace: Workspace) -> dict[str, str]:
    """Role of every stored item."""
    from evalkit.splits import load_split

    return {
        item_id: role
        for role in report.manifest.roles
        for item_id in load_split(workspace, f"{report.manifest.name}/{role}").items["item_id"]
    }
