"""300 files and command lines that nobody meant: an exit code that says who has to act, and never a traceback."""

from __future__ import annotations

import json
import random

import pytest

from tests.e2e.support import PROTOCOL, Bench, Done, Forked, sums

pytestmark = pytest.mark.slow
EACH = 75
CODES = {0, 2, 3, 74, 75, 130}
NASTY = [
    "null", "true", "-1", "0", "1", "3", "1.5", "1e400", "-1e-400", "99999999999999999999999999", "0x1f", "012", "1_000", ".nan", ".inf", "[]",
    "{}", "[[[[]]]]", '""', "''", '"\\u0000"', '"\\ud83d"', '"\\u202e"', "2020-01-01", "yes", "&a 1", "*a", "!!int 1", "{{ x", "'{{ question.a.b }}'",
    "'{% for i in range(9**9) %}{% endfor %}'", "'{{ 1/0 }}'", "'{{ answer * 3 }}'", "'{{ cluster_id }}'", "correct", "reward", "wrong", "python:x.py:f", "regex",
    "[1, 2]", "[2, 1]", "unbounded", "a: b", "{a: {b: c}}", "é", "\t", "#", "---", "...", "%YAML 1.1", "x" * 5000, "{use: exact, role: other}",
]  # fmt: skip


def fault(done: Done, *, help_is_fine: bool = False) -> str | None:
    """What is wrong with how a command ended; None where nothing is."""
    if done.code not in CODES:
        return f"exit {done['code']}: {done['err'][-1500:]}"
    if "Traceback" in done.err or "Exception ignored" in done.err or "Warning" in done.err:
        return done.err[-1500:]
    lines = done.err.splitlines()
    if done.code and len(lines) != 1 and not (help_is_fine and lines[0].startswith("Usage:")):
        is_result = done.code == 2 and done.out and not lines
        if not is_result:
            return f"{len(lines)} lines on stderr: {done['err'][-1500:]}"
    if any(not char.isprintable() for char in done.err.replace("\n", "")):
        return f"control characters on stderr: {done['err']!r}"
    return None


def mutated(text: str, rng: random.Random) -> str:
    """A text with one to three of its parts changed."""
    for _ in range(rng.randint(1, 3)):
        lines = text.split("\n")
        at = rng.randrange(len(lines))
        kind = rng.randrange(8)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(at, lines[rng.randrange(len(lines))])
        elif kind == 2:
            lines[at] = "  " + lines[at]
        elif kind == 3 and lines[at]:
            cut = rng.randrange(len(lines[at]))
            lines[at] = lines[at][:cut] + lines[at][cut + 1 :]
        elif kind == 4:
            cut = rng.randrange(len(lines[at]) + 1)
            lines[at] = (
                lines[at][:cut]
                + rng.choice(["{", "}", "[", "]", ":", ",", '"', "'", "\x00", "\x1b", "\u2028", "é", "\\"])
                + lines[at][cut:]
            )
        else:  # one value of the line for another
            starts = [place + 2 for place in range(len(lines[at]) - 1) if lines[at][place : place + 2] == ": "]
            if starts:
                start = rng.choice(starts)
                ends = [end for mark in ",}" if (end := lines[at].find(mark, start)) >= 0]
                end = min(ends, default=len(lines[at]))
                lines[at] = lines[at][:start] + rng.choice(NASTY) + lines[at][end:]
        text = "\n".join(lines)
    return text


def report(faults: list[tuple[int, str]]) -> None:
    assert not faults, "\n\n".join(f"seed {seed}: {what}" for seed, what in faults)


def test_mutated_protocols(bench: Bench, runner: Forked) -> None:
    faults, frozen = [], 0
    for seed in range(EACH):
        rng = random.Random(seed)
        for lock in bench.workspace.protocols.glob("*.lock.json"):
            lock.unlink()
        path = bench.workspace.protocols / "fuzz.yaml"
        path.write_text(mutated(PROTOCOL, rng), encoding="utf-8")
        done = runner(bench, "protocol", "freeze", str(path))
        if what := fault(done):
            faults.append((seed, f"freeze: {what}\n{path.read_text()}"))
        for lock in bench.workspace.protocols.glob("*.lock.json"):
            frozen += 1
            reference = json.loads(lock.read_text())["id"]
            model = rng.choice(["baseline:gold", "baseline:echo", "baseline:shuffled"])
            done = runner(bench, "run", reference, "--split", "smoke", "--model", model)
            if what := fault(done):
                faults.append((seed, f"run: {what}\n{path.read_text()}"))
    report(faults)
    assert frozen > 5, "hardly anything was left to run"


def test_mutated_items(bench: Bench, runner: Forked) -> None:
    faults, built = [], 0
    good = "\n".join(json.dumps(item) for item in sums(3)) + "\n"
    for seed in range(EACH):
        rng = random.Random(seed)
        data = mutated(good, rng).encode()
        if rng.random() < 0.2:
            at = rng.randrange(len(data))
            data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        (bench.root / "fuzz.jsonl").write_bytes(data)
        name = f"f{seed}"
        cluster = rng.choice(["cluster", "none", "answer"])
        done = runner(
            bench,
            "split",
            "build",
            "fuzz.jsonl",
            "--name",
            name,
            "--sizes",
            "dev=4,smoke=1",
            "--cluster-by",
            cluster,
            "--id",
            "id",
        )
        if what := fault(done):
            faults.append((seed, f"build: {what}\n{data!r}"))
        if done.code == 0:
            built += 1
            done = runner(bench, "run", "arithmetic@1", "--split", f"{name}/dev", "--model", "baseline:echo")
            if what := fault(done):
                faults.append((seed, f"run: {what}\n{data!r}"))
    report(faults)
    assert built > 5


def test_mutated_recordings(bench: Bench, runner: Forked) -> None:
    faults, ran = [], 0
    header = json.dumps({"evalkit": {"name": "m", "step": 3, "train_seed": 1, "lineage": "a"}})
    rows = [{"item_id": item["id"], "trial": trial, "completion": item["answer"], "finish_reason": "stop", "n_completion_tokens": 3}
            for item in sums() for trial in range(4)]  # fmt: skip
    from evalkit.splits import load_split

    smoke = set(load_split(bench.workspace, "sums/smoke").items["item_id"])
    good = "\n".join([header, *(json.dumps(row) for row in rows if row["item_id"] in smoke)]) + "\n"
    for seed in range(EACH):
        rng = random.Random(seed)
        path = bench.root / f"fuzz{seed}.jsonl"
        path.write_text(mutated(good, rng), encoding="utf-8")
        done = runner(bench, "run", "arithmetic@1", "--split", "smoke", "--model", f"replay:{path.name}")
        ran += done.code == 0
        if what := fault(done):
            faults.append((seed, f"{what}\n{path.read_text()[:3000]}"))
    report(faults)
    assert ran > 5


WORDS = [
    "run", "runs", "compare", "samples", "score", "protocol", "split", "ledger", "init", "freeze", "new", "show", "list", "diff", "verify", "build",
    "looks", "arithmetic@1", "arithmetic", "arithmetic@", "@1", "sums", "dev", "smoke", "sums/smoke", "private", "audit", "--split", "--model", "--protocol",
    "-p", "--repeat", "--purpose", "--json", "--details", "--force", "--top", "--sheet", "--tokenizer", "--concurrency", "--step", "--train-seed", "--name",
    "--sizes", "--cluster-by", "--help", "--", "-", "", " ", ".", "..", "/", "/dev/null", "~", "*", "[", "\x1b[31m", "\u202e", "\udcff", "a\nb", "é",
    "-1", "0", "1", "1e9", "99999999999999999999", "x" * 300, "baseline:null", "baseline:constant:\x1b", "baseline:", "replay:", "replay:.", "replay:/",
    "openai:x@http://", "openai:x@http://[", "openai:x@http://127.0.0.1:99999/v1", "dev=1", "dev=x", "evalkit.toml", "protocols/arithmetic.yaml",
    "protocols/arithmetic.v1.lock.json", "sums.jsonl", "checkpoint", "gate", "--bogus", "-x",
]  # fmt: skip
STARTS = [
    ["run", "arithmetic@1", "--split", "smoke", "--model"], ["run", "arithmetic@1", "--split"], ["run"], ["runs"], ["compare"], ["samples"], ["score"],
    ["protocol"], ["protocol", "show"], ["protocol", "diff"], ["protocol", "freeze"], ["split"], ["split", "build", "sums.jsonl", "--name", "n", "--sizes"],
    ["split", "verify"], ["split", "looks"], ["ledger"], ["ledger", "verify"], ["protocol", "new"], [],
]  # fmt: skip


def test_mutated_command_lines(bench: Bench, runner: Forked) -> None:
    faults = []
    for seed in range(EACH):
        rng = random.Random(seed)
        arguments = [*rng.choice(STARTS), *(rng.choice(WORDS) for _ in range(rng.randint(0, 4)))]
        if "init" in arguments:
            continue  # would make workspaces wherever it is pointed at
        done = runner(bench, *arguments)
        if what := fault(done, help_is_fine=True):
            faults.append((seed, f"{arguments}: {what}"))
    report(faults)
