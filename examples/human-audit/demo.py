"""Two audits of real human ratings by the public command, as one would type it in this folder.

The specs were frozen before: their locks are committed beside them.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
JUDGE = [
    "evalkit audit reward --spec judge.audit.yaml --verdicts judge/verdicts.csv --labels judge/labels.csv",
    "--map sample_id=pair --annotators annotator1,annotator2,annotator3",
]
REWARD = [
    "evalkit audit reward --spec reward.audit.yaml --scores reward/scores.csv --labels reward/labels.csv",
    "--map sample_id=reply --map policy=system",
]


def run(command: list[str], expect: int) -> None:
    """Print a command, run it here, and print what it says."""
    print("\n$ " + " \\\n    ".join(command), flush=True)
    arguments = shlex.split(" ".join(command))[1:]
    done = subprocess.run(
        [sys.executable, "-m", "evalkit", *arguments], cwd=HERE, text=True, stdout=subprocess.PIPE, check=False
    )
    print(done.stdout, end="", flush=True)
    if done.returncode != expect:
        sys.exit(f"demo: expected exit code {expect}, got {done.returncode}")


def main() -> None:
    """Run both audits."""
    print(
        "\n# A judge of two answers, against three people: 999 pairs of 170 instructions. Exit code 3: it cannot tell."
    )
    run(JUDGE, expect=3)
    print("\n# A reward for replies in a dialogue, against people's overall rating: 360 replies, six to a dialogue.")
    run(REWARD, expect=0)


if __name__ == "__main__":
    main()
