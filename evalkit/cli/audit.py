"""`evalkit audit`: freeze a spec, hold a reward against human labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evalkit.cli.common import Json, show

if TYPE_CHECKING:
    from evalkit.audit import Scorer

app = typer.Typer(
    help="Audits: how far a reward agrees with humans, and what the data cannot say.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

CANNOT_TELL = 3


@app.command()
def new(name: Annotated[str, typer.Argument(help="Name of the audit.")], as_json: Json = False) -> None:
    """Write a commented starter into protocols/NAME.audit.yaml."""
    from evalkit.audit import write_audit_starter
    from evalkit.workspace import find_workspace

    path = write_audit_starter(find_workspace().protocols, name)
    show(as_json, {"path": path}, f"{path}\nnext: edit it, then evalkit audit freeze {path}")


@app.command()
def freeze(file: Annotated[Path, typer.Argument(help="YAML audit spec.")], as_json: Json = False) -> None:
    """Freeze an audit spec before looking: write its lock beside it."""
    from evalkit import api
    from evalkit.report import rules_text

    lock, path, written = api.freeze_audit(file)
    what = "frozen" if written else "unchanged, frozen before"
    text = f"{lock.spec.statistic} of {lock.spec.reward} against {lock.spec.label}: {rules_text(lock.spec)}"
    show(as_json, {"id": lock.spec.id, "digest": lock.digest, "path": path}, f"{text}\n{lock.spec.id} {what}: {path}")


@app.command()
def reward(
    labels: Annotated[Path, typer.Option(help="Human labels: CSV, JSONL, Parquet, or a filled sheet.")],
    spec: Annotated[Path, typer.Option(help="Audit spec: its lock, or the YAML beside its lock.")],
    scores: Annotated[
        Path | None, typer.Option(help="Rewards: CSV, JSONL or Parquet, wide or long; or RUN, RUN:PROTOCOL.")
    ] = None,
    verdicts: Annotated[Path | None, typer.Option(help="A judge's categorical verdicts, instead of scores.")] = None,
    reward_model: Annotated[str | None, typer.Option(help="hf-rm:PATH: score --data with it first, once.")] = None,
    judge: Annotated[Path | None, typer.Option(help="YAML of a judge: have it judge --data first, once.")] = None,
    data: Annotated[Path | None, typer.Option(help="Prompts and responses to score: CSV, JSONL or Parquet.")] = None,
    as_turn: Annotated[bool, typer.Option("--as-turn", help="A prompt of text is a user's turn.")] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Ask a judge so often about a sample of the rows.")] = 1,
    engine_arg: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE for hf-rm:, such as eos=true; may be repeated.")
    ] = None,
    mapping: Annotated[
        list[str] | None, typer.Option("--map", help="ROLE=COLUMN, such as sample_id=uid or sample_id=doc+system.")
    ] = None,
    annotators: Annotated[str, typer.Option(help="Columns of one annotator each, separated by commas.")] = "",
    fail_on: Annotated[
        str, typer.Option(help="Exit with 1 from this severity on: info, warning, blocking.")
    ] = "blocking",
    details: Annotated[bool, typer.Option("--details", help="Print every number, not only what decides.")] = False,
    as_json: Json = False,
) -> None:
    """Hold a reward against human labels. Exit code 1: a finding of the severity asked for; 3: it cannot tell."""
    from evalkit import api
    from evalkit.audit import SEVERITIES, audit_json, keep, parse_mapping
    from evalkit.errors import BadInput
    from evalkit.report import audit_text, count_line, to_json
    from evalkit.workspace import find_workspace

    if fail_on not in SEVERITIES:
        raise BadInput(f"--fail-on {fail_on}: not one of {', '.join(SEVERITIES)}")
    table = _given(scores, verdicts, reward_model, judge, data, as_turn, repeats, engine_arg or [])
    home = find_workspace()
    columns = [name.strip() for name in annotators.split(",") if name.strip()]
    lock, _ = api.load_audit(spec)
    if (scores or verdicts) and lock.spec.categorical != (verdicts is not None):
        wanted = "--verdicts" if lock.spec.categorical else "--scores"
        raise BadInput(f"{spec}: statistic {lock.spec.statistic} takes {wanted}; give the table under that name")
    with count_line("scored") as tick:
        result = api.audit_reward(
            table, labels, spec, columns=parse_mapping(mapping or []), annotators=columns, on_scored=tick
        )
    content = audit_json(result)
    folder = keep(result, home.audits, to_json(content).encode())
    show(as_json, content, f"{audit_text(result, details)}\n\n{folder / 'audit.json'}")
    worst = result.worst()
    if result.verdict.word == "cannot tell":
        raise typer.Exit(CANNOT_TELL)
    if worst is not None and SEVERITIES.index(worst) >= SEVERITIES.index(fail_on):
        raise typer.Exit(1)


@app.command()
def pairs(
    file: Annotated[Path, typer.Argument(help="Preference set: CSV, JSONL or Parquet with chosen and rejected.")],
    mapping: Annotated[
        list[str] | None, typer.Option("--map", help="ROLE=COLUMN, such as chosen=best or chosen_score=rm_best.")
    ] = None,
    fail_on: Annotated[
        str, typer.Option(help="Exit with 1 from this severity on: info, warning, blocking.")
    ] = "blocking",
    as_json: Json = False,
) -> None:
    """Look at a preference set. Exit code 1: a finding of the severity asked for; 3: no pair says anything."""
    from evalkit import api
    from evalkit.audit import SEVERITIES, parse_mapping
    from evalkit.errors import BadInput
    from evalkit.report import pairs_text

    if fail_on not in SEVERITIES:
        raise BadInput(f"--fail-on {fail_on}: not one of {', '.join(SEVERITIES)}")
    result = api.audit_pairs(file, columns=parse_mapping(mapping or []))
    show(as_json, result, pairs_text(result))
    worst = result.worst()
    if not result.used:
        raise typer.Exit(CANNOT_TELL)
    if worst is not None and SEVERITIES.index(worst) >= SEVERITIES.index(fail_on):
        raise typer.Exit(1)


@app.command()
def plan(
    audit: Annotated[str | None, typer.Argument(help="Audit to plan from: its digest, folder or audit.json.")] = None,
    half_width: Annotated[float | None, typer.Option(help="Half of the interval that is wanted.")] = None,
    difference: Annotated[float | None, typer.Option(help="Difference of two rewards that is to be found.")] = None,
    statistic: Annotated[str | None, typer.Option(help="pearson, spearman, kendall_b or accuracy.")] = None,
    value: Annotated[float | None, typer.Option(help="Its value with one label an item.")] = None,
    items_per_cluster: Annotated[float | None, typer.Option(help="Mean number of items in a cluster.")] = None,
    design_effect: Annotated[float | None, typer.Option(help="How much clusters widen the variance.")] = None,
    reliability: Annotated[float | None, typer.Option(help="Of one label, such as an intraclass correlation.")] = None,
    labels_per_item: Annotated[list[int] | None, typer.Option(help="Plan for so many; may be repeated.")] = None,
    rollouts: Annotated[int | None, typer.Option(help="Rollouts that could be labelled.")] = None,
    cost_per_label: Annotated[float, typer.Option(help="In any unit.")] = 1.0,
    level: Annotated[float, typer.Option(help="Coverage of intervals.")] = 0.95,
    power: Annotated[float, typer.Option(help="Chance to find the difference.")] = 0.8,
    as_json: Json = False,
) -> None:
    """How much to label for an interval or a difference. Exit code 3: no number would be enough."""
    from evalkit import api
    from evalkit.audit import Wish
    from evalkit.report import plan_text

    wish = Wish(
        half_width, difference, statistic, value, items_per_cluster, design_effect, reliability,
        tuple(labels_per_item or ()), rollouts, cost_per_label, level, power,
    )  # fmt: skip
    found = api.audit_plan(wish, audit)
    show(as_json, found, plan_text(found))
    if found.cheapest is None:
        raise typer.Exit(CANNOT_TELL)


def _given(
    scores: Path | None,
    verdicts: Path | None,
    reward_model: str | None,
    judge: Path | None,
    data: Path | None,
    as_turn: bool,
    repeats: int,
    engine_arg: list[str],
) -> Path | Scorer:
    """What is audited: a table, a run, or a scorer of data."""
    from evalkit.audit import JudgeScorer, ModelScorer, model_options
    from evalkit.engines import engine_arguments
    from evalkit.errors import BadInput

    if sum(one is not None for one in (scores, verdicts, reward_model, judge)) != 1:
        raise BadInput("give one of --scores (numbers), --verdicts (labels), --reward-model and --judge")
    if (data is not None) != (reward_model is not None or judge is not None):
        raise BadInput("--data: goes with --reward-model or --judge, which score it; give both, or neither")
    if reward_model is None and (as_turn or engine_arg):
        raise BadInput(f"{'--as-turn' if as_turn else '--engine-arg'}: goes with --reward-model; leave it out")
    if judge is None and repeats > 1:
        raise BadInput("--repeats: goes with --judge; a reward model gives one score")
    if reward_model is not None and data is not None:
        return ModelScorer(reward_model, data, model_options(engine_arguments(engine_arg)), as_turn)
    if judge is not None and data is not None:
        return JudgeScorer(judge, data, repeats)
    found = scores or verdicts
    assert found is not None
    return found
