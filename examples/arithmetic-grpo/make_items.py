"""Choose the evaluation items and, by exclusion, the training prompts.

1. A cluster is an unordered pair of operands: `12+34=` and `34+12=` are one question asked twice.
2. 1,410 of the 4,950 pairs with different operands are held out; both orders become items (2,820).
3. All other pairs, and every double (`7+7=`), are for training. The two sides share no cluster, and
   `check_disjoint` raises if they ever do.

    python make_items.py            # writes items.jsonl beside this file
"""

from __future__ import annotations

import json
import random
from pathlib import Path

HERE = Path(__file__).parent
OPERANDS = range(100)
HELD_OUT_PAIRS = 1410
SPLIT_SEED = 20240607

Pair = tuple[int, int]


def cluster(a: int, b: int) -> str:
    """The unordered pair, smaller operand first."""
    return f"{min(a, b)}+{max(a, b)}"


def held_out_pairs() -> list[Pair]:
    """The pairs of different operands that training never sees, in ascending order."""
    pairs = [(a, b) for a in OPERANDS for b in OPERANDS if a < b]
    return sorted(random.Random(SPLIT_SEED).sample(pairs, HELD_OUT_PAIRS))


def training_pairs() -> list[Pair]:
    """Every ordered pair whose unordered pair is not held out, doubles included."""
    held_out = set(held_out_pairs())
    return [(a, b) for a in OPERANDS for b in OPERANDS if (min(a, b), max(a, b)) not in held_out]


def items() -> list[dict[str, str]]:
    """Both orders of every held-out pair."""
    return [
        {"id": f"{x}+{y}", "question": f"{x}+{y}=", "answer": str(x + y), "cluster": cluster(x, y)}
        for a, b in held_out_pairs()
        for x, y in ((a, b), (b, a))
    ]


def check_disjoint(rows: list[dict[str, str]], train: list[Pair]) -> None:
    """Raise unless items and training prompts are complete and share no cluster."""
    item_clusters = {row["cluster"] for row in rows}
    train_clusters = {cluster(a, b) for a, b in train}
    shared = item_clusters & train_clusters
    if shared:
        raise AssertionError(f"{len(shared)} clusters are in both items and training, e.g. {min(shared)}")
    if len(rows) != 2 * HELD_OUT_PAIRS or len({row["id"] for row in rows}) != len(rows):
        raise AssertionError(f"expected {2 * HELD_OUT_PAIRS} items with distinct ids, got {len(rows)}")
    if len(rows) + len(train) != len(OPERANDS) ** 2:
        raise AssertionError("items and training prompts do not add up to all ordered pairs")


def main() -> None:
    rows, train = items(), training_pairs()
    check_disjoint(rows, train)
    path = HERE / "items.jsonl"
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.writelines(json.dumps(row) + "\n" for row in rows)
    print(f"{path.name}: {len(rows)} items in {HELD_OUT_PAIRS} clusters; {len(train)} training prompts")


if __name__ == "__main__":
    main()
