"""Small runs with completions written by hand: every item's right answer is 1."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalkit import api
from evalkit.runs import Summary
from evalkit.workspace import Workspace, create_workspace

PROTOCOL = """\
name: {name}
version: 1
prompt: {{messages: [{{role: user, content: "{{{{ question }}}}"}}], chat_template: none, bos: never}}
sampling: {{max_tokens: {max_tokens}, temperature: 1, n: {n}}}
limits: {{error_budget: 1}}
target: "1"
reward:
  components:
    correct: {correct}
    brief: {{use: conciseness, role: conciseness, weight: 0.5, params: {{budget: 2, limit: 4}}}}
success: {{component: correct}}
metrics: {metrics}
{more}
"""
CORRECT = "{use: number, role: correctness, weight: 1}"
Said = str | tuple[str | None, str] | None
"""A completion; (completion, `length`) for one that was cut; (None, cause) for one that the infrastructure failed."""


@dataclass(frozen=True, slots=True)
class Lab:
    """A workspace with one split of the items `a`, `b`, `c`, … in the clusters given."""

    workspace: Workspace

    def protocol(
        self, name: str = "p", n: int = 1, metrics: str = "[{name: mean}]", more: str = "", max_tokens: int = 9,
        correct: str = CORRECT,
    ) -> str:  # fmt: skip
        """Freeze a protocol; its reference."""
        text = PROTOCOL.format(name=name, n=n, metrics=metrics, more=more, max_tokens=max_tokens, correct=correct)
        path = self.workspace.protocols / f"{name}.yaml"
        path.write_text(text, encoding="utf-8")
        return api.freeze(path, self.workspace).lock.id

    def run(
        self,
        protocol: str,
        said: Mapping[str, Sequence[Said]],
        model: str = "m",
        header: Mapping[str, Any] | None = None,
    ) -> str:
        """Run recorded completions; the run's id. `n_completion_tokens` is the number of characters."""
        path = self.workspace.root / f"{model}.jsonl"
        lines: list[dict[str, Any]] = [{"evalkit": {"name": model, **(header or {})}}]
        for item, completions in said.items():
            for trial, completion in enumerate(completions):
                lines.append({"item_id": item, "trial": trial, **_row(completion)})
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return api.run(protocol, "s/dev", f"replay:{path}", workspace=self.workspace).run.run_id

    def summary(self, protocol: str, said: Mapping[str, Sequence[Said]], **more: Any) -> Summary:
        """Run, and summarise."""
        return api.summarize(self.run(protocol, said, **more), workspace=self.workspace)


def _row(said: Said) -> dict[str, Any]:
    text, reason = said if isinstance(said, tuple) else (said, "stop")
    row = {"completion": text, "finish_reason": reason, "n_completion_tokens": None if text is None else len(text),
           "outcome": None, "cause": None}  # fmt: skip
    return row if text is not None else {**row, "finish_reason": None, "outcome": "errored", "cause": reason}


def lab(root: Path, clusters: str) -> Lab:
    """A lab with an item for each letter of `clusters`, in the cluster of that letter: `xxy` is a, b in x and c in y."""
    workspace = create_workspace(root)
    source = root / "items.jsonl"
    rows = [{"id": chr(97 + i), "question": f"number {i}", "cluster": cluster} for i, cluster in enumerate(clusters)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    api.build_split(
        source, name="s", sizes={"dev": len(rows)}, cluster_by="cluster", id_field="id", workspace=workspace
    )
    return Lab(workspace)
