"""Print the results table of the README from the recordings: every item, every trial, no model needed.

python results.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from record import RECORDINGS, Header, read_header
from rewards import INTEGER, correct, gold, length_bonus

COLUMNS = (
    "model",
    "correct",
    "± SE",
    "proxy reward",
    "tokens",
    "truncated",
    "no integer",
    "all wrong / mixed / all right",
    "pass@8",
    "longest of 8 correct",
)


def cluster_standard_error(values: NDArray[np.float64], clusters: list[str]) -> float:
    """CR1 standard error of a mean over items whose cluster is shared by both orders of a pair."""
    names, index = np.unique(clusters, return_inverse=True)
    sums = np.bincount(index, values - values.mean())
    return float(np.sqrt(len(names) / (len(names) - 1) * (sums**2).sum()) / len(values))


def cluster_of(item_id: str) -> str:
    a, b = sorted(map(int, item_id.split("+")))
    return f"{a}+{b}"


def table_row(path: Path) -> tuple[str, ...]:
    """The measures of one recording, in the order of `COLUMNS`."""
    rows = pl.read_parquet(path)
    texts, ids = rows["completion"].to_list(), rows["item_id"].to_list()
    n_items, trials = rows["item_id"].n_unique(), rows["trial"].n_unique()
    right = np.array([correct(text, gold(f"{i}=")) for text, i in zip(texts, ids, strict=True)])
    bonus = np.array([length_bonus(text, "") for text in texts])
    proxy = right.mean() + bonus.mean()
    right, bonus = right.reshape(n_items, trials), bonus.reshape(n_items, trials)
    longest = bonus.argmax(axis=1)
    hits = right.sum(axis=1)
    none, every = (hits == 0).mean(), (hits == trials).mean()
    return (
        read_header(path).name,
        f"{right.mean():.3f}",
        f"{cluster_standard_error(right.mean(axis=1), [cluster_of(i) for i in ids[::trials]]):.4f}",
        f"{proxy:.3f}",
        f"{rows['n_completion_tokens'].mean():.1f}",
        f"{(rows['finish_reason'] == 'length').mean():.3f}",
        f"{np.mean([INTEGER.search(text) is None for text in texts]):.3f}",
        f"{none:.2f} / {1 - none - every:.2f} / {every:.2f}",
        f"{1 - none:.3f}",
        f"{right[np.arange(n_items), longest].mean():.3f}",
    )


def by_run(path: Path) -> tuple[str, int, int]:
    header: Header = read_header(path)
    return ("" if header.train_seed is None else header.arm, header.train_seed or 0, header.step)


def main() -> None:
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * len(COLUMNS))
    for path in sorted(RECORDINGS.glob("*.parquet"), key=by_run):
        print("| " + " | ".join(table_row(path)) + " |", flush=True)


if __name__ == "__main__":
    main()
