"""The main job on the recorded example, in a fresh workspace: freeze, split, run, compare, and be refused once.

Every command is printed as it is run, so that it can be typed again in `build/demo`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
WORKSPACE = REPOSITORY / "build" / "demo"
EXAMPLE = HERE.relative_to(REPOSITORY)


def evalkit(*arguments: str, expect: int = 0, show: str = "", shown: bool = True) -> str:
    """Run one command in the workspace, print it and what it says; its standard output."""
    print(f"\n$ evalkit {show or ' '.join(arguments)}", flush=True)
    command = [sys.executable, "-m", "evalkit", *arguments]
    done = subprocess.run(command, cwd=WORKSPACE, text=True, stdout=subprocess.PIPE, check=False)
    if shown:
        print(done.stdout, end="", flush=True)
    if done.returncode != expect:
        sys.exit(f"demo: expected exit code {expect}, got {done.returncode}")
    return done.stdout


def note(text: str) -> None:
    """Say what comes next."""
    print(f"\n# {text}")


def main() -> None:
    """Play the demo."""
    start = time.monotonic()
    shutil.rmtree(WORKSPACE, ignore_errors=True)
    evalkit_init()
    note("1. Freeze the protocol: every field written out, and its digests.")
    evalkit("protocol", "freeze", "protocols/arithmetic.yaml")

    note("2. Split the items by cluster: 3+5 and 5+3 never part. The secret is a DEMO, so every clone gets one root.")
    sizes = "smoke=20,dev=300,public=500,audit=500,private=1500"
    evalkit("split", "build", f"{EXAMPLE}/items.jsonl", "--name", "arithmetic", "--id", "id", "--cluster-by", "cluster",
            "--text", "question", "--sizes", sizes, "--secret", f"{EXAMPLE}/DEMO-SECRET.txt")  # fmt: skip

    note("3. Run the start model and every checkpoint of both arms from their recordings.")
    models = [f"replay:{EXAMPLE}/recordings/{path.name}" for path in sorted((HERE / "recordings").glob("*.parquet"))]
    flags = [text for model in models for text in ("--model", model)]
    shown = f"run arithmetic@1 --split dev --model replay:{EXAMPLE}/recordings/….parquet (× {len(models)})"
    evalkit("run", "arithmetic@1", "--split", "dev", *flags, show=shown)

    note(
        "4. Compare the start model with the last checkpoint of the flawed reward, and that with the clean arm's last."
    )
    runs = {run["model"]: run["run_id"] for run in json.loads(evalkit("runs", "--json", shown=False))}
    first, last, clean = runs["start"], runs["hackable-s0-step-240"], runs["clean-s0-step-240"]
    evalkit("compare", first, last)
    evalkit("compare", clean, last)
    note("Same start, same steps: the flawed reward ended with more reward and less success than the clean one.")

    note("5. Read a few of its samples.")
    evalkit("samples", last, "--top", "2", "--bottom", "1", "--random", "1")

    note("6. Another success rule is another protocol: stored completions are scored, comparing across is refused.")
    strict = (WORKSPACE / "protocols" / "arithmetic.yaml").read_text(encoding="utf-8")
    strict = strict.replace("version: 1", "version: 2").replace(
        "success: {component: correct}", "success: {component: strict}"
    )
    (WORKSPACE / "protocols" / "arithmetic-2.yaml").write_text(strict, encoding="utf-8")
    evalkit("protocol", "freeze", "protocols/arithmetic-2.yaml", shown=False)
    evalkit("score", last, "--protocol", "arithmetic@2")
    evalkit("compare", f"{first}:arithmetic@1", f"{last}:arithmetic@2", expect=2)

    note("7. Every look is in the ledger, and choosing the best of many has a price.")
    evalkit("split", "looks", "arithmetic")
    evalkit("ledger", "verify")
    print(f"\n# {time.monotonic() - start:.0f} s. The workspace is build/demo: go on from there.")


def evalkit_init() -> None:
    """A new workspace with the example's files in the places that the protocol names."""
    WORKSPACE.parent.mkdir(exist_ok=True)
    WORKSPACE.mkdir()
    evalkit("init")
    target = WORKSPACE / EXAMPLE
    target.mkdir(parents=True)
    for name in ("items.jsonl", "rewards.py", "DEMO-SECRET.txt"):
        shutil.copy(HERE / name, target / name)
    shutil.copytree(HERE / "recordings", target / "recordings")
    shutil.copy(REPOSITORY / "protocols" / "arithmetic.yaml", WORKSPACE / "protocols" / "arithmetic.yaml")


if __name__ == "__main__":
    main()
