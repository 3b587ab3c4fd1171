"""How the tables here were made from the public files: ids and numbers kept, every text dropped.

    python collect.py --unieval topical_chat_result.json --pandalm testset-v1.json \\
        --gpt gpt-3.5-turbo-testset-v1.json --judge pandalm-7b-testset-v1.json

NOTICE names the repositories, commits and paths of these files.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DIMENSIONS = ("naturalness", "coherence", "engagingness", "groundedness", "understandability", "overall")
SYSTEMS = {
    "Original Ground Truth": "human-original",
    "New Human Generated": "human-new",
    "Argmax Decoding": "argmax",
    "Nucleus Decoding (p = 0.3)": "nucleus-0.3",
    "Nucleus Decoding (p = 0.5)": "nucleus-0.5",
    "Nucleus Decoding (p = 0.7)": "nucleus-0.7",
}
LABELLED = 20
"""Dialogues in few-labels.csv, drawn at random."""
SEED = 0
WORDS = {"0": "tie", "1": "first", "2": "second", "Tie": "tie"}


def main() -> None:
    """Write the tables beside this file."""
    parser = argparse.ArgumentParser()
    for name in ("unieval", "pandalm", "gpt", "judge"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    files = parser.parse_args()
    chat(json.loads(files.unieval.read_text(encoding="utf-8")))
    pairs(*(json.loads(path.read_text(encoding="utf-8")) for path in (files.pandalm, files.gpt, files.judge)))


def chat(rows: list[dict[str, Any]]) -> None:
    """Six responses to each of 60 dialogues: UniEval's scores, and mean human ratings."""
    dialogue: dict[str, int] = {}
    systems = [SYSTEMS[row["system_id"]] for row in rows]
    ids = [f"d{dialogue.setdefault(row['source'], len(dialogue)):02}-{s}" for row, s in zip(rows, systems, strict=True)]
    rated = [name for name in DIMENSIONS if name in rows[0]["scores"]]
    scored = [name for name in DIMENSIONS if name in rows[0]["predict_scores"]]
    about = [[key, key.partition("-")[0], system] for key, system in zip(ids, systems, strict=True)]
    table("scores.csv", ["response", "dialogue", "system", *scored],
          ([*a, *(row["predict_scores"][d] for d in scored)] for a, row in zip(about, rows, strict=True)))  # fmt: skip
    labels = [[key, *(row["scores"][d] for d in rated)] for key, row in zip(ids, rows, strict=True)]
    table("labels.csv", ["response", *rated], labels)
    few = {f"d{i:02}" for i in random.Random(SEED).sample(range(len(dialogue)), LABELLED)}
    overall = rated.index("overall") + 1
    table("few-labels.csv", ["response", "overall"], ([row[0], row[overall]] for row in labels if row[0][:3] in few))


def pairs(people: list[dict[str, Any]], gpt: list[dict[str, Any]], judge: list[dict[str, Any]]) -> None:
    """999 pairs of responses to 170 instructions: what three annotators and two judges preferred."""
    number: dict[str, int] = {}
    table(
        "preferences.csv",
        ["pair", "ann1", "ann2", "ann3"],
        ([row["idx"], *(WORDS[str(row[f"annotator{j}"])] for j in (1, 2, 3))] for row in people),
    )
    said = (
        {row["idx"]: str(row["gpt_result"]) for row in gpt},
        {row["idx"]: str(row["pandalm_result"]) for row in judge},
    )
    table(
        "verdicts.csv",
        ["pair", "instruction", "gpt-3.5-turbo", "pandalm-7b"],
        (
            [
                row["idx"],
                f"i{number.setdefault(row['instruction'], len(number)):03}",
                *(WORDS.get(verdicts[row["idx"]], "unread") for verdicts in said),
            ]
            for row in people
        ),
    )


def table(name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write one CSV."""
    with (HERE / name).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


if __name__ == "__main__":
    main()
