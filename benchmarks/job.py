"""The job that every client does: one question an item, one answer, the number in it compared with 42."""

from __future__ import annotations

import json
from pathlib import Path

PROMPT = (
    "Question {i}: A farmer has {i} crates, and each crate holds the same number of apples. After selling some of "
    "them on the market she brings the rest home, gives a third to her neighbours, and bakes pies with what is "
    "left. Think step by step about what the question asks, keep track of the units, and do not guess. Give the "
    "final answer as a single whole number after four hash signs, and write nothing after it."
)


def write_items(path: Path, n: int) -> None:
    """`n` items as JSONL with id, question and answer."""
    with open(path, "w", encoding="utf-8") as file:
        for i in range(n):
            file.write(json.dumps({"id": f"q{i:06}", "question": PROMPT.format(i=i), "answer": "42"}) + "\n")
