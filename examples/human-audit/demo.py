"""Three audits of rewards against real human ratings, in a fresh workspace: freeze first, then look.

Every command is printed as it is run, so that it can be typed again in `build/demo-audit`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
WORKSPACE = HERE.parent.parent / "build" / "demo-audit"
TABLES = ("scores.csv", "labels.csv", "few-labels.csv", "verdicts.csv", "preferences.csv")
SPECS = ("chat.yaml", "judge.yaml")
STEPS = (
    ("1. Freeze both specs before looking: what decides cannot change afterwards.", "audit freeze protocols/chat.yaml"),
    ("", "audit freeze protocols/judge.yaml"),
    (
        "2. A reward of numbers: does it rank the responses to a dialogue as people do?",
        "audit reward --scores scores.csv --labels labels.csv --spec protocols/chat.yaml --map sample_id=response",
    ),
    (
        "3. Labels of 20 dialogues only: what would people say of each system? 'human scale' has it.",
        "audit reward --scores scores.csv --labels few-labels.csv --spec protocols/chat.yaml --map sample_id=response",
    ),
    (
        "4. A judge of pairs, beside the three people who judged the same pairs, and beside another judge.",
        "audit reward --verdicts verdicts.csv --labels preferences.csv --annotators ann1,ann2,ann3 "
        "--spec protocols/judge.yaml --map sample_id=pair",
    ),
)


def lay_out(workspace: Path) -> None:
    """The tables, and the specs under protocols/, in a workspace that is there."""
    for name in TABLES:
        shutil.copy(HERE / name, workspace / name)
    for name in SPECS:
        shutil.copy(HERE / name, workspace / "protocols" / name)


def main() -> None:
    """Play the demo."""
    shutil.rmtree(WORKSPACE, ignore_errors=True)
    WORKSPACE.mkdir(parents=True)
    run("init")
    lay_out(WORKSPACE)
    for note, command in STEPS:
        if note:
            print(f"\n# {note}")
        print(f"\n$ evalkit {command}", flush=True)
        run(command)
    print("\n# The workspace is build/demo-audit; add --details to a command for every number it computed.")


def run(command: str) -> None:
    """One command of evalkit in the workspace; the demo ends where it does not end well."""
    done = subprocess.run([sys.executable, "-m", "evalkit", *command.split()], cwd=WORKSPACE, check=False)
    if done.returncode:
        sys.exit(f"demo: expected exit code 0, got {done.returncode}")


if __name__ == "__main__":
    main()
