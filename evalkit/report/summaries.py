"""Summaries of runs as text: one table for all, and everything behind the numbers of one."""

from __future__ import annotations

from collections.abc import Sequence

from evalkit.report.plain import NONE, interval, number, percent, table
from evalkit.runs import Measure, MetricValue, Summary


def checkpoint_table(summaries: Sequence[Summary]) -> str:
    """Runs of one protocol on one split, a row each, by lineage and step, with the floor below and notes.

    Args:
        summaries: of one protocol and split, at least one.
    """
    ordered = sorted(summaries, key=_order)
    first = ordered[0]
    components = [measure.name for measure in first.components]
    metrics = [metric_label(value) for value in first.metrics]
    header = ["model", "step", "success", "reward", *components, *metrics, "tokens", "cut", "planned/scored/clean"]
    rows = [_row(summary) for summary in ordered]
    floors = [number(measure.floor) for measure in (first.success, first.reward, *first.components)]
    rows.append([f"floor: says nothing ({first.floor_items} items)", "", *floors, *("" for _ in metrics), "", "", ""])
    lines = [f"{first.protocol} on {first.split}", "", table(header, rows), ""]
    lines += _notes(ordered)
    return "\n".join(lines)


def _order(summary: Summary) -> tuple[bool, str, int, int, str, int]:
    """What no seed trained first, then each lineage by seed and step."""
    seed = -1 if summary.train_seed is None else summary.train_seed
    step = -1 if summary.step is None else summary.step
    lineage = "" if seed < 0 else summary.lineage or ""
    return (seed >= 0, lineage, seed, step, summary.model, summary.repeat)


def _row(summary: Summary) -> list[str]:
    side = {measure.name: measure.estimate.value for measure in summary.side}
    return [
        summary.model + (f" r{summary.repeat}" if summary.repeat else ""),
        NONE if summary.step is None else str(summary.step),
        interval(summary.success.estimate),
        interval(summary.reward.estimate),
        *(number(measure.estimate.value) for measure in summary.components),
        *(number(value.estimate.value) for value in summary.metrics),
        number(side["n_completion_tokens"], 1),
        percent(side["truncated"]),
        f"{summary.planned}/{summary.scored}/{summary.clean}",
    ]


def _notes(summaries: Sequence[Summary]) -> list[str]:
    """How the intervals were made, weights, what is missing, alarms, and training seeds."""
    first = summaries[0]
    weights = ", ".join(f"{measure.weight} · {measure.name}" for measure in first.components if measure.weight != "0")
    logged = [measure.name for measure in first.components if measure.weight == "0"]
    lines = [f"  reward = {weights or 'nothing'}" + (f"; logged only: {', '.join(logged)}" if logged else "")]
    methods: dict[str, list[str]] = {}
    for summary in summaries:
        for measure in (summary.success, summary.reward):
            found = measure.estimate
            text = f"{found.method}; n = {found.n}, {found.n_clusters} clusters"
            methods.setdefault(text, []).append(summary.model)
    for text, models in methods.items():
        whose = (
            "" if len(methods) == 1 or len(set(models)) == len(summaries) else f" ({', '.join(dict.fromkeys(models))})"
        )
        lines.append(f"  intervals: {text}{whose}")
    for summary in summaries:
        for measure in (summary.success, summary.reward, *summary.components):
            lines += [f"  {summary.model}: {note}" for note in _measure_notes(measure)]
        lines += [f"  ! {summary.model}: {alarm.statement}" for alarm in summary.alarms]
    lines.append("  " + training_seeds(summaries))
    return lines


def _measure_notes(measure: Measure) -> list[str]:
    notes = []
    estimate = measure.estimate
    missing = measure.planned - estimate.n
    if measure.bounds is not None:
        bounds = f"[{number(measure.bounds.low)}, {number(measure.bounds.high)}]"
        notes.append(f"{measure.name}: {missing or 'some'} of {measure.planned} without a value; whatever they are, "
                     f"the mean over all planned lies in {bounds}")  # fmt: skip
    elif missing:
        notes.append(f"{measure.name}: {missing} of {measure.planned} without a value, and no range to bound it")
    if estimate.why:
        notes.append(f"{measure.name}: {estimate.why}")
    if measure.statuses:
        notes.append(f"{measure.name}: without a value: " + ", ".join(f"{s} {n}" for s, n in measure.statuses.items()))
    return notes


def training_seeds(summaries: Sequence[Summary]) -> str:
    """How many training seeds stand behind the rows: a difference between two single runs may be their seeds'."""
    known = {(summary.lineage, summary.train_seed) for summary in summaries if summary.train_seed is not None}
    if not known:
        return "training seeds: not known; give --train-seed, or recordings that say"
    by_lineage: dict[str | None, int] = {}
    for lineage, _ in known:
        by_lineage[lineage] = by_lineage.get(lineage, 0) + 1
    counts = ", ".join(f"{lineage or 'unnamed'} {count}" for lineage, count in sorted(by_lineage.items(), key=str))
    return f"training seeds: {counts}"


def details(summary: Summary) -> str:
    """Everything behind the numbers of one run."""
    head = f"run {summary.run_id}: {summary.model} under {summary.protocol} on {summary.split}, repeat {summary.repeat}"
    lines = [
        head,
        f"  model: {summary.reference} ({summary.assurance})",
        f"  protocol digest: {summary.protocol_digest}",
        "",
    ]
    rows = [_measure_row(measure) for measure in (summary.success, summary.reward, *summary.components, *summary.side)]
    rows += [_metric_row(value) for value in summary.metrics]
    lines.append(table(["", "role", "mean [95 %]", "floor", "n", "clusters", "bounds", "method"], rows))
    lines += [
        "",
        f"  success with truncated completions as wrong: {interval(summary.truncated_wrong)}",
        f"  success with truncated completions left out: {interval(summary.truncated_excluded)}",
        "  outcomes: " + ", ".join(f"{outcome} {count}" for outcome, count in summary.outcomes.items()),
    ]
    if summary.causes:
        lines.append("  causes: " + ", ".join(f"{cause} {count}" for cause, count in summary.causes.items()))
    lines += _engine_lines(summary)
    lines += [f"  {note}" for measure in (summary.success, *summary.components) for note in _measure_notes(measure)]
    lines += [f"  ! {alarm.code}: {alarm.statement}" for alarm in summary.alarms]
    return "\n".join(lines)


def _engine_lines(summary: Summary) -> list[str]:
    facts = summary.engine_facts
    if not facts:
        return []
    lines = [f"  engine: {facts.get('dtype')} on {facts.get('device')}, restarts {facts.get('restarts')}"]
    if effect := facts.get("batch_effect"):
        lines.append(
            "  batch: alone or in a batch, log-probabilities of the first token move by up to "
            f"{effect['largest_logprob_difference']:.2g}; the likeliest token differs for "
            f"{effect['likeliest_token_differs']} of {effect['prompts']} prompts"
        )
    return lines


def result_line(summary: Summary) -> str:
    """One run in a line: `ckpt/checkpoint-40: success .48 [.43, .53], reward .61 [.55, .67]`."""
    success, reward = interval(summary.success.estimate), interval(summary.reward.estimate)
    return f"{summary.model}: success {success}, reward {reward}, n {summary.planned} ({summary.run_id})"


def _measure_row(measure: Measure) -> list[str]:
    estimate = measure.estimate
    bounds = "" if measure.bounds is None else f"[{number(measure.bounds.low)}, {number(measure.bounds.high)}]"
    floor = "" if measure.floor is None else number(measure.floor)
    n, clusters = f"{estimate.n}/{measure.planned}", str(estimate.n_clusters)
    return [measure.name, measure.role, interval(estimate), floor, n, clusters, bounds, estimate.why or estimate.method]


def _metric_row(value: MetricValue) -> list[str]:
    estimate = value.estimate
    n, clusters = f"{estimate.n}/{value.items} items", str(estimate.n_clusters)
    return [metric_label(value), "", interval(estimate), "", n, clusters, "", estimate.why or estimate.method]


def metric_label(value: MetricValue) -> str:
    """`pass@8`, with the estimator where it is a trainer's."""
    name = value.name.removesuffix("k") + str(value.k)
    return name if value.estimator == "unbiased" else f"{name} {value.estimator}"
