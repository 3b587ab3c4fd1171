"""How often an interval of an agreement holds the truth, over simulated audits with clusters and ties.

    python -m benchmarks.coverage [--quick]      writes docs/coverage.md

1. A data set is G clusters of samples; a cluster shifts reward and label of all its samples. The truth is the statistic
   of a million samples of the same design.
2. The default method sees every design; bootstraps and the interval that ignores clusters see one, for they are slow.
3. Seeds are fixed: the same numbers come out again.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from evalkit.stats import Estimate, cohen_kappa, correlation, influence, ordering_accuracy
from evalkit.stats.arrays import FloatArray
from evalkit.stats.bootstrap import Rows, cluster_resamples, from_draws
from evalkit.stats.clusters import clusters_of
from evalkit.stats.correlation import Kind
from evalkit.stats.jackknife import without_each_block
from evalkit.stats.means import cluster_mean

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "coverage.md"
SETS = 2000
CLUSTERS = (12, 30, 100, 300)
BOOTSTRAPPED = (12, 30, 100)
LEVEL = 0.95
DRAWS = 400
TRUTH = 1_000_000
CORRELATIONS: tuple[Kind, ...] = ("pearson", "spearman", "kendall_b")
STATISTICS = (*CORRELATIONS, "ordering accuracy", "accuracy", "kappa")
METHODS = ("default", "percentile", "BCa", "clusters ignored")


@dataclass(frozen=True, slots=True)
class Design:
    """How samples come about."""

    name: str
    rho: float
    """Correlation of reward and label before ties."""
    icc: float
    """Share of the variance of either that whole clusters have."""
    unequal: bool
    """Cluster sizes 1, 2, 3 … (geometric, mean 5) instead of 5 each."""
    tied: bool
    """Labels of five values and rewards of seven."""
    skew: float = 0.0
    """Rewards are exp(skew · normal), so lognormal; 0 for normal ones."""


DESIGNS = [
    replace(design, rho=rho)
    for design in (
        Design("continuous, equal clusters", 0, 0.3, False, False),
        Design("tied, unequal clusters", 0, 0.3, True, True),
        Design("tied, unequal, strong clusters", 0, 0.6, True, True),
        Design("skewed rewards, tied labels", 0, 0.3, True, True, 0.5),
        Design("heavy-tailed rewards, tied labels", 0, 0.3, True, True, 1.0),
    )
    for rho in (0.3, 0.8)
]
BESIDE = replace(DESIGNS[2], rho=0.6)
"""The design on which the other methods stand beside the default."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One data set."""

    reward: FloatArray
    human: FloatArray
    clusters: np.ndarray


@dataclass(frozen=True, slots=True)
class Cell:
    """A design at a number of clusters, and how many of its intervals held the truth."""

    design: Design
    clusters: int
    held: dict[tuple[str, str], tuple[int, int]]
    """By method and statistic: intervals that held the truth, and intervals there were."""


def drawn(design: Design, clusters: int, rng: np.random.Generator) -> Sample:
    """A data set of a design."""
    sizes = rng.geometric(0.2, clusters) if design.unequal else np.full(clusters, 5)
    of = np.repeat(np.arange(clusters), sizes)
    shape = np.array([[1.0, 0.0], [design.rho, math.sqrt(1 - design.rho**2)]])
    whole, own = rng.normal(size=(clusters, 2)) @ shape.T, rng.normal(size=(of.size, 2)) @ shape.T
    both = math.sqrt(design.icc) * whole[of] + math.sqrt(1 - design.icc) * own
    reward, human = both[:, 0], both[:, 1]
    if design.tied:
        human = np.clip(np.round(human), -2, 2)
        reward = reward if design.skew else np.clip(np.round(1.5 * reward), -3, 3)
    return Sample(np.exp(design.skew * reward) if design.skew else reward, human, of)


def graded(sample: Sample) -> tuple[list[int], list[int]]:
    """Verdict and label of three words each, at fixed cuts."""
    cuts = [0.8, 1.3] if sample.reward.min() > 0 else [-0.5, 0.5]
    return np.digitize(sample.reward, cuts).tolist(), np.digitize(sample.human, [-0.5, 0.5]).tolist()


def default(sample: Sample, statistic: str) -> Estimate:
    """Influence functions by cluster with t(G − 1); Fisher's z for correlations."""
    if statistic in CORRELATIONS:
        return correlation(sample.reward, sample.human, sample.clusters, kind=statistic, level=LEVEL)
    if statistic == "ordering accuracy":
        return ordering_accuracy(sample.reward, sample.human, sample.clusters, ties="half", level=LEVEL)
    said, true = graded(sample)
    if statistic == "kappa":
        return cohen_kappa(said, true, sample.clusters, level=LEVEL)
    return cluster_mean(np.equal(said, true), sample.clusters, level=LEVEL)


def value_of(statistic: str) -> Callable[[Sample], float]:
    """The statistic alone, for resamples."""

    def value(sample: Sample) -> float:
        if statistic in CORRELATIONS:
            found = influence(sample.reward, sample.human, kind=statistic)[0]
        else:
            found = default(sample, statistic).value
        return math.nan if found is None else found

    return value


def bootstraps(sample: Sample, statistic: str, rng: np.random.Generator) -> tuple[Estimate, Estimate]:
    """Percentile and BCa, from the same resamples of whole clusters."""
    groups, value = clusters_of(sample.clusters, sample.clusters.size), value_of(statistic)

    def of_rows(rows: Rows) -> float:
        return value(Sample(sample.reward[rows], sample.human[rows], sample.clusters[rows]))

    drawn_values = np.array([of_rows(rows) for rows in cluster_resamples(groups, DRAWS, rng)])
    without = without_each_block(lambda rows: np.float64(of_rows(rows)), groups, rng)
    whole, n, g = value(sample), sample.reward.size, groups.count
    plain = from_draws(whole, drawn_values, n=n, n_clusters=g, method=statistic, level=LEVEL)
    corrected = from_draws(whole, drawn_values, n=n, n_clusters=g, method=statistic, level=LEVEL, without=without)
    return plain, corrected


def intervals(
    sample: Sample, statistics: Iterable[str], beside: bool, seed: Sequence[int]
) -> Iterable[tuple[tuple[str, str], Estimate]]:
    """Every interval of one data set, with its method and statistic."""
    for statistic in statistics:
        yield ("default", statistic), default(sample, statistic)
        if beside:
            alone = replace(sample, clusters=np.arange(sample.clusters.size))
            yield ("clusters ignored", statistic), default(alone, statistic)
            if statistic in CORRELATIONS:
                plain, corrected = bootstraps(sample, statistic, np.random.default_rng([*seed, 1]))
                yield ("percentile", statistic), plain
                yield ("BCa", statistic), corrected


def simulate(design: Design, number: int, clusters: Sequence[int], sets: int, beside: bool) -> list[Cell]:
    """A row of the table: a design at each number of clusters."""
    huge = drawn(design, TRUTH // 5, np.random.default_rng([number, 0]))
    truth = {statistic: value_of(statistic)(huge) for statistic in STATISTICS}
    cells = []
    for count in clusters:
        rng = np.random.default_rng([number, count])
        held: dict[tuple[str, str], tuple[int, int]] = {}
        for one in range(sets):
            for key, found in intervals(drawn(design, count, rng), STATISTICS, beside, [number, count, one]):
                inside, there = held.get(key, (0, 0))
                if found.low is not None and found.high is not None:
                    inside, there = inside + (found.low <= truth[key[1]] <= found.high), there + 1
                held[key] = inside, there
        cells.append(Cell(design, count, held))
    return cells


def share(found: tuple[int, int]) -> str:
    """Coverage in per cent."""
    inside, there = found
    return f"{100 * inside / there:.1f}" if there else "–"


def report(cells: Sequence[Cell], beside: Sequence[Cell], sets: int) -> str:
    """The page."""
    error = 100 * math.sqrt(LEVEL * (1 - LEVEL) / sets)
    lines = [
        "# How often an interval holds the truth",
        "",
        "Written by `python -m benchmarks.coverage`; not edited by hand. Share in per cent of 95 % intervals that hold",
        f"the value of a million samples of the same design, over {sets:,} simulated data sets a cell (Monte-Carlo",
        f"standard error {error:.1f}). G is the number of clusters. They hold 5 samples or, unequal, 1, 2, 3 … with",
        "mean 5, and have .3 (strong: .6) of the variance of reward and label. Tied: labels of five values, rewards of",
        "seven. Skewed: lognormal rewards, σ .5; heavy-tailed: σ 1. Accuracy and kappa are of verdicts of three words.",
        "",
        "## The default: influence functions by cluster, t(G − 1), Fisher's z for correlations",
        "",
        "| design | ρ | statistic | " + " | ".join(f"G = {clusters}" for clusters in CLUSTERS) + " |",
        "|---|---|---|" + "---|" * len(CLUSTERS),
    ]
    found = {(cell.design, cell.clusters): cell.held for cell in cells}
    for design in DESIGNS:
        for statistic in STATISTICS:
            row = [share(found[design, clusters]["default", statistic]) for clusters in CLUSTERS]
            lines.append(f"| {design.name} | {design.rho} | {statistic} | " + " | ".join(row) + " |")
    lines += [
        "",
        f"## Other methods on “{BESIDE.name}”, ρ = {BESIDE.rho}",
        "",
        f"Bootstraps draw whole clusters, {DRAWS} times. An audit gives none below 12 clusters.",
        "",
        "| statistic | method | " + " | ".join(f"G = {cell.clusters}" for cell in beside) + " |",
        "|---|---|" + "---|" * len(beside),
    ]
    for statistic in STATISTICS:
        for method in METHODS:
            row = [share(cell.held.get((method, statistic), (0, 0))) for cell in beside]
            if set(row) != {"–"}:
                lines.append(f"| {statistic} | {method} | " + " | ".join(row) + " |")
    advice = (
        "Pearson's interval covers too little for heavy tails however many clusters there are: take ranks. Clusters of",
        "very unequal size count for less than their number.",
    )
    return "\n".join([*lines, "", *verdicts(cells), "", *advice, ""])


def verdicts(cells: Sequence[Cell]) -> list[str]:
    """The targets, and the cells that miss them."""
    lines = ["## Targets", ""]
    for clusters, low, high in ((30, 0.92, 1.0), (100, 0.93, 0.97), (300, 0.93, 0.97)):
        missed = [
            f"{cell.design.name}, ρ = {cell.design.rho}, {statistic}: {share(found)}"
            for cell in cells
            if cell.clusters == clusters
            for (_, statistic), found in cell.held.items()
            if found[1] and not low <= found[0] / found[1] <= high
        ]
        wanted = f"at least {100 * low:g} %" if high == 1 else f"{100 * low:g} to {100 * high:g} %"
        lines.append(
            f"- G = {clusters}: {wanted}: {'missed by ' + '; '.join(missed) if missed else 'met by every cell'}."
        )
    return lines


def main() -> None:
    """Simulate, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few data sets, printed only")
    quick = parser.parse_args().quick
    sets = 40 if quick else SETS
    with ProcessPoolExecutor(2) as pool:
        beside = pool.submit(simulate, BESIDE, len(DESIGNS), BOOTSTRAPPED, sets, True)
        rows = [pool.submit(simulate, design, i, CLUSTERS, sets, False) for i, design in enumerate(DESIGNS)]
        text = report([cell for row in rows for cell in row.result()], beside.result(), sets)
    sys.stdout.write(text)
    if not quick:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
