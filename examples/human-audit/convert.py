"""How the tables of this example were made from the published files: numbers, verdicts and anonymous ids, no text.

    python examples/human-audit/convert.py FOLDER

FOLDER holds `pandalm/` (PandaLM's data/*-testset-v1.json) and `unieval/topical_chat_result.json`; NOTICE says where
they are from. An instruction, a dialogue and a fact become a number, by first appearance; an answer becomes its length
in characters (six answers in the published file are the JSON value true; their length is 4).
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
VERDICTS = {"0": "tie", "1": "1", "2": "2", "Tie": "tie"}
DIMENSIONS = ("overall", "understandability", "naturalness", "coherence", "engagingness", "groundedness")


def read(*parts: str) -> list[dict[str, Any]]:
    """The rows of a published file."""
    rows: list[dict[str, Any]] = json.loads(Path(*parts).read_text(encoding="utf-8"))
    return rows


def numbered(texts: Iterable[str]) -> list[int]:
    """Equal texts have equal numbers, from 0 by first appearance."""
    found: dict[str, int] = {}
    return [found.setdefault(text, len(found)) for text in texts]


def write(name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """One table of the example."""
    with (HERE / name).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def judge(folder: str) -> None:
    """PandaLM: 999 pairs of answers, three annotators, two judges; a verdict that could not be read stays as it is."""
    pairs = read(folder, "pandalm", "testset-v1.json")
    gpt = read(folder, "pandalm", "gpt-3.5-turbo-testset-v1.json")
    own = read(folder, "pandalm", "pandalm-7b-testset-v1.json")
    if not [row["idx"] for row in pairs] == [row["idx"] for row in gpt] == [row["idx"] for row in own]:
        sys.exit(f"{folder}/pandalm: the three files do not list the same pairs")
    instructions = numbered(row["instruction"] for row in pairs)
    write(
        "judge/verdicts.csv",
        ["pair", "instruction", "models", "length_a", "length_b", "gpt-3.5-turbo", "pandalm-7b"],
        [
            [
                row["idx"],
                instruction,
                row["cmp_key"],
                len(str(row["response1"])),
                len(str(row["response2"])),
                VERDICTS.get(str(one["gpt_result"]), one["gpt_result"]),
                VERDICTS[str(other["pandalm_result"])],
            ]
            for row, instruction, one, other in zip(pairs, instructions, gpt, own, strict=True)
        ],
    )
    people = ["annotator1", "annotator2", "annotator3"]
    write(
        "judge/labels.csv",
        ["pair", *people],
        [[row["idx"], *(VERDICTS[str(row[one])] for one in people)] for row in pairs],
    )


def reward(folder: str) -> None:
    """UniEval on Topical-Chat: 60 dialogues of six replies, the mean of three annotators, UniEval's own scores."""
    replies = read(folder, "unieval", "topical_chat_result.json")
    dialogues = numbered(row["source"] for row in replies)
    facts = numbered(row["context"] for row in replies)
    write(
        "reward/scores.csv",
        ["reply", "dialogue", "fact", "system", "length", *DIMENSIONS],
        [
            [i, dialogue, fact, row["system_id"], len(row["system_output"])]
            + [row["predict_scores"][name] for name in DIMENSIONS]
            for i, (row, dialogue, fact) in enumerate(zip(replies, dialogues, facts, strict=True))
        ],
    )
    write(
        "reward/labels.csv",
        ["reply", *(f"human_{name}" for name in DIMENSIONS)],
        [[i, *(row["scores"][name] for name in DIMENSIONS)] for i, row in enumerate(replies)],
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    judge(sys.argv[1])
    reward(sys.argv[1])
