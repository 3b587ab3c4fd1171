"""The job as an Inspect task: one user message, one generation, the text after the last marker matched."""

from __future__ import annotations

from inspect_ai import Task, task
from inspect_ai.dataset import FieldSpec, json_dataset
from inspect_ai.scorer import match
from inspect_ai.solver import generate


@task
def farmer(items: str = "items.jsonl") -> Task:
    """Questions from `items`, scored by the number at the end."""
    dataset = json_dataset(items, FieldSpec(input="question", target="answer", id="id"))
    return Task(dataset=dataset, solver=generate(), scorer=match(location="end", numeric=True))
