"""Copy out of the training folder what the example keeps: trainer states, completions logs, one checkpoint.

Nothing is edited: a log is the trainer's own Parquet files put one after the other, in order of step.

    python collect.py --work WORK --checkpoint hackable-s0/checkpoint-240
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import polars as pl
from record import HERE, MODEL_FILES

KEPT_FILES = (*MODEL_FILES, "generation_config.json")


def collect_run(run: Path, out: Path) -> None:
    """`trainer_state.json` as written by the trainer, and its completions logs in one file."""
    out.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(run / "trainer_state.json", out / "trainer_state.json")
    logs = [pl.read_parquet(path) for path in sorted((run / "completions").glob("*.parquet"))]
    pl.concat(logs).write_parquet(out / "completions.parquet", compression="zstd", compression_level=22)


def main() -> None:
    parser = argparse.ArgumentParser(description="Copy what the example keeps out of the training folder.")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--checkpoint", required=True, help="RUN/checkpoint-NNN to keep")
    args = parser.parse_args()
    for run in sorted(args.work.glob("*-s*")):
        collect_run(run, HERE / "runs" / run.name)
    run_name, _, step = args.checkpoint.replace("/checkpoint-", "-step-").rpartition("-")
    kept = HERE / "checkpoints" / f"{run_name}-{int(step):03d}"
    kept.mkdir(parents=True, exist_ok=True)
    for name in KEPT_FILES:
        shutil.copyfile(args.work / args.checkpoint / name, kept / name)
    print(f"runs/ and {kept.relative_to(HERE)} written")


if __name__ == "__main__":
    main()
