"""The report: what was measured, on what, and which targets are met. Markdown."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.clients import Client
from benchmarks.figures import Costs, Figure, Target, figure, marginals, ratios
from benchmarks.measure import Cost

MIB = 2**20
METHOD = (
    "The job: one user message of 80 words an item, one answer of 160 words that ends in `#### 42`, max_tokens 256, "
    "temperature 0, 64 requests in flight, over loopback. The server has one fixed reply, and a process of its own "
    "that no figure counts.",
    "Each figure is of a whole process as a user starts it. CPU is user + system of it and of every child it waited "
    "for, so scorer processes count. Peak is that of the largest process of its tree.",
    "Clients and sizes take turns within a round, so what else the machine does hits all of them. Slow clients run "
    "in the first rounds only. Figures are medians (smallest – largest, n rounds); ratios are taken round by round.",
    "Every run has a fresh folder with nothing to reuse, made before the clock starts, and each client a small run "
    "first that is not counted. A client that did not answer and score every sample, each of them right, has no "
    "figure: the benchmark stops.",
    "evalkit runs on uvloop. The bare loop of the target is on asyncio, its default; the one on uvloop is there for "
    "comparison.",
)


@dataclass(frozen=True, slots=True)
class Measured:
    """Everything that one run of the benchmark found."""

    sizes: tuple[int, int]
    """Samples of the small and the large job."""
    costs: Costs
    long_sizes: tuple[int, int]
    """Samples of the large job and of one ten times as large."""
    long_costs: Costs
    """Of the clients that are quick enough for it."""
    help_walls: Sequence[float]
    """Seconds of `evalkit --help`."""
    load_before: float
    """Load average over a minute when it began."""
    seconds: float
    """Of the whole benchmark."""


def targets(found: Measured) -> list[Target]:
    """The promises of the project, held against the figures."""
    per_sample = {name: marginals(found.costs, name, found.sizes) for name, size in found.costs if size in found.sizes}
    ours = per_sample["evalkit"]
    bare = figure(ratios(ours, per_sample["bare loop"]))
    made = [Target("marginal CPU ≤ 1.5 × the bare loop", f"{_times(bare)}", 0 < bare.middle <= 1.5)]
    if "Inspect" in per_sample:
        ratio = figure(ratios(per_sample["Inspect"], ours))
        made.append(Target("marginal CPU ≥ 40 × less than Inspect", f"{_times(ratio)} less", ratio.middle >= 40))
    if "lm-eval" in per_sample:
        ratio = figure(ratios(ours, per_sample["lm-eval"]))
        made.append(Target("marginal CPU below lm-eval", f"{_times(ratio)}", 0 < ratio.middle < 1))
    few, many = found.long_sizes
    low, high = _peak(found.long_costs["evalkit", few]), _peak(found.long_costs["evalkit", many])
    grown = high.middle - low.middle
    said = f"{low.middle:.0f} → {high.middle:.0f} MiB: {grown:+.0f} MiB"
    made.append(Target(f"peak memory flat from {few:,} to {many:,} samples (± 50 MB)", said, abs(grown * MIB) <= 50e6))
    wall = figure([1000 * seconds for seconds in found.help_walls])
    made.append(Target("`evalkit --help` ≤ 200 ms", f"{_spread(wall, 0)} ms", wall.middle <= 200))
    return made


def report(found: Measured, clients: Sequence[Client], versions: Mapping[str, str]) -> str:
    """The whole report."""
    small, large = found.sizes
    return "\n".join([
        "# What evalkit costs beside other harnesses",
        "",
        "Written by `make bench`; not edited by hand.",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {machine()}, load {found.load_before:.1f} before it began, "
        f"{found.seconds / 60:.0f} minutes in all.",
        f"{', '.join(f'{name} {version}' for name, version in versions.items())}.",
        "",
        "## Targets",
        "",
        *table(
            ("target", "found", ""),
            ((t.promise, t.found, "met" if t.met else "**not met**") for t in targets(found)),
        ),
        "",
        "## Figures",
        "",
        *table(
            ("client", "marginal CPU, ms a sample", f"CPU at {large:,}, s", f"wall at {large:,}, s", "peak, MiB"),
            (_row(found, client.name) for client in clients),
        ),
        "",
        f"From {found.long_sizes[0]:,} to {found.long_sizes[1]:,} samples:",
        "",
        *_long_table(found, [client.name for client in clients]),
        "",
        "## What was done",
        "",
        *(f"- **{client.name}**: {client.does}." for client in clients),
        "",
        "## How it was measured",
        "",
        *(f"- {line}" for line in METHOD),
        f"- Marginal CPU = (CPU at {large:,} − CPU at {small:,}) ÷ {large - small:,}: imports and whatever else is "
        "paid once cancel out.",
        "",
    ])  # fmt: skip


def machine() -> str:
    """The machine in a few words: cores, processor, system, Python. No names of hosts or folders."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"{os.cpu_count()} cores ({model}), {platform.system()}, Python {sys.version.split()[0]}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table."""
    return [_line(head), _line(["---"] * len(head)), *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _row(found: Measured, name: str) -> tuple[str, ...]:
    costs = found.costs[name, found.sizes[1]]
    return (
        name,
        _spread(figure([1000 * seconds for seconds in marginals(found.costs, name, found.sizes)]), 3),
        _spread(figure([cost.cpu for cost in costs]), 1),
        _spread(figure([cost.wall for cost in costs]), 1),
        _spread(_peak(costs), 0),
    )


def _long_table(found: Measured, names: Sequence[str]) -> list[str]:
    head = (
        "client",
        "marginal CPU, ms a sample",
        "× the bare loop",
        *(f"peak at {n:,}, MiB" for n in found.long_sizes),
    )
    there = (name for name in names if (name, found.long_sizes[0]) in found.long_costs)
    return table(head, (_long_row(found, name) for name in there))


def _long_row(found: Measured, name: str) -> tuple[str, ...]:
    ours, bare = (marginals(found.long_costs, client, found.long_sizes) for client in (name, "bare loop"))
    return (
        name,
        _spread(figure([1000 * seconds for seconds in ours]), 3),
        _times(figure(ratios(ours, bare))),
        *(_spread(_peak(found.long_costs[name, size]), 0) for size in found.long_sizes),
    )


def _peak(costs: Sequence[Cost]) -> Figure:
    return figure([cost.peak / MIB for cost in costs])


def _spread(found: Figure, digits: int) -> str:
    return f"{found.middle:,.{digits}f} ({found.low:,.{digits}f} – {found.high:,.{digits}f}, n = {found.n})"


def _times(found: Figure) -> str:
    return f"{found.middle:.2f} × ({found.low:.2f} – {found.high:.2f}, n = {found.n})"
