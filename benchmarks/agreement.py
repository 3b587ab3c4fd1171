"""Intervals of a million rows: influence functions, a cluster bootstrap of the same, and `scipy.stats.bootstrap`.

    python -m benchmarks.agreement [--quick]      writes benchmarks/AGREEMENT.md

1. Six components are held against one label by Pearson, Spearman, tau-b and pairwise accuracy; clusters have ten rows.
2. Every way is a process of its own, so that its peak memory is its own. Ways take turns; medians are of seven rounds.
3. A bootstrap of 1,000 draws would take hours. A few draws are timed, and the time of 1,000 is theirs times 1,000 over
   their number; making the data is in no figure.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.measure import MAXRSS_UNIT, ROOT
from evalkit.stats import correlation, influence, ordering_accuracy
from evalkit.stats.arrays import FloatArray
from evalkit.stats.bootstrap import Rows, cluster_resamples
from evalkit.stats.clusters import clusters_of
from evalkit.stats.correlation import Kind

RESULTS = Path(__file__).with_name("AGREEMENT.md")
ROWS, PER_CLUSTER, COMPONENTS = 1_000_000, 10, 6
ROUNDS = 7
DRAWS = 1000
TIMED = 2
"""Draws of a bootstrap that are timed in a round."""
KINDS: tuple[Kind, ...] = ("pearson", "spearman", "kendall_b")
MOST_SECONDS, MOST_BYTES, LEAST_RATIO = 30, 4 * 10**9, 50
Data = tuple[list[FloatArray], FloatArray, np.ndarray]


def made(rows: int) -> Data:
    """Components, label and cluster of each row; labels lie on a grid of halves, components of quarters."""
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(rows // PER_CLUSTER), PER_CLUSTER)
    quality = rng.normal(size=rows // PER_CLUSTER)[clusters] + rng.normal(size=rows)
    components = [np.round(4 * (quality + noise * rng.normal(size=rows))) / 4 for noise in range(1, COMPONENTS + 1)]
    return components, np.round(2 * quality) / 2, clusters


def influence_functions(data: Data) -> float:
    """All 24 intervals as an audit has them. Returns 1: it is whole."""
    components, human, clusters = data
    for component in components:
        found = [correlation(component, human, clusters, kind=kind) for kind in KINDS]
        found.append(ordering_accuracy(component, human, clusters, ties="half"))
        assert all(estimate.low is not None for estimate in found)
    return 1


def cluster_bootstrap(data: Data) -> float:
    """A few draws of whole clusters, each with all 24 values. Returns what 1,000 draws are of them."""
    components, human, clusters = data

    def values(rows: Rows) -> None:
        label = human[rows]
        for component in components:
            score = component[rows]
            for kind in KINDS:
                influence(score, label, kind=kind)
            ordering_accuracy(score, label, clusters, ties="half")

    for rows in cluster_resamples(clusters_of(clusters, clusters.size), TIMED, np.random.default_rng(1)):
        values(rows)
    return DRAWS / TIMED


def scipy_bootstrap(data: Data) -> float:
    """`scipy.stats.bootstrap` of Pearson alone; it knows no clusters and draws rows. Returns as above."""
    from scipy.stats import bootstrap

    def pearson(x: FloatArray, y: FloatArray) -> float:
        return float(np.corrcoef(x, y)[0, 1])

    components, human, _ = data
    for component in components:
        bootstrap(
            (component, human), pearson, paired=True, vectorized=False, n_resamples=TIMED, batch=1,
            method="percentile", rng=np.random.default_rng(1),
        )  # fmt: skip
    return DRAWS / TIMED


WAYS: dict[str, Callable[[Data], float]] = {
    "influence functions": influence_functions,
    "cluster bootstrap, 1,000 draws": cluster_bootstrap,
    "scipy.stats.bootstrap, 1,000 draws, Pearson only, no clusters": scipy_bootstrap,
}


def one(way: str, rows: int) -> None:
    """Time one way in this process and print its seconds and peak."""
    data = made(rows)
    start = time.perf_counter()
    factor = WAYS[way](data)
    seconds = (time.perf_counter() - start) * factor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT
    print(json.dumps({"seconds": seconds, "peak": peak}))


def main() -> None:
    """Measure in turns, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agreement", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rows, one round, printed only")
    parser.add_argument("--one", choices=list(WAYS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    rows = ROWS // 20 if options.quick else ROWS
    if options.one:
        return one(options.one, rows)
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(1 if options.quick else ROUNDS):
        for way, rounds in found.items():
            command = [sys.executable, "-m", "benchmarks.agreement", "--one", way]
            command += ["--quick"] if options.quick else []
            done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
            rounds.append(json.loads(done.stdout))
    text = report(found, rows)
    sys.stdout.write(text)
    if not options.quick:
        RESULTS.write_text(text, encoding="utf-8")
    return None


def report(found: dict[str, list[dict[str, float]]], rows: int) -> str:
    """The page, with the targets and whether they are met."""
    ours, other = (found[way] for way in list(WAYS)[:2])
    seconds = statistics.median(one["seconds"] for one in ours)
    peak = max(one["peak"] for one in ours)
    ratio = statistics.median(b["seconds"] / a["seconds"] for a, b in zip(ours, other, strict=True))
    lines = [
        "# What intervals of a million rows cost",
        "",
        "Written by `make bench`; not edited by hand. Pearson, Spearman, tau-b and pairwise accuracy of",
        f"{COMPONENTS} components against a label: {rows:,} rows in {rows // PER_CLUSTER:,} clusters. Median of "
        f"{len(ours)} rounds (least to most);",
        f"bootstraps are timed over {TIMED} draws a round and scaled to {DRAWS:,}. Python {platform.python_version()}, "
        f"numpy {np.__version__}.",
        "",
        "| way | seconds | peak GB |",
        "|---|---|---|",
    ]
    for way, rounds in found.items():
        times = sorted(one["seconds"] for one in rounds)
        middle = f"{statistics.median(times):,.1f} ({times[0]:,.1f} to {times[-1]:,.1f})"
        lines.append(f"| {way} | {middle} | {max(one['peak'] for one in rounds) / 1e9:.2f} |")
    targets = (
        (f"at most {MOST_SECONDS} s", seconds <= MOST_SECONDS, f"{seconds:.1f} s"),
        (f"at most {MOST_BYTES // 10**9} GB", peak <= MOST_BYTES, f"{peak / 1e9:.2f} GB"),
        (f"at least {LEAST_RATIO} × faster than the cluster bootstrap", ratio >= LEAST_RATIO, f"{ratio:.0f} ×"),
    )
    lines += ["", *(f"- {wanted}: {got}, {'met' if met else 'MISSED'}" for wanted, met, got in targets), ""]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
