"""`evalkit audit`: freeze a spec, hold a reward against human labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evalkit.cli.common import Json, show

app = typer.Typer(
    help="Audits: how far a reward agrees with humans, and what the data cannot say.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

CANNOT_TELL = 3


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
    mapping: Annotated[
        list[str] | None, typer.Option("--map", help="ROLE=COLUMN, such as sample_id=uid or sample_id=doc+system.")
    ] = None,
    annotators: Annotated[str, typer.Option(help="Columns of one annotator each, separated by commas.")] = "",
    fail_on: Annotated[
        str, typer.Option(help="Exit with 1 from this severity on: info, warning, blocking.")
    ] = "blocking",
    as_json: Json = False,
) -> None:
    """Hold a reward against human labels. Exit code 1: a finding of the severity asked for; 3: it cannot tell."""
    from evalkit import api
    from evalkit.audit import SEVERITIES, audit_json, keep, parse_mapping
    from evalkit.errors import BadInput
    from evalkit.report import audit_text, to_json
    from evalkit.workspace import find_workspace

    if fail_on not in SEVERITIES:
        raise BadInput(f"--fail-on {fail_on}: not one of {', '.join(SEVERITIES)}")
    table = scores or verdicts
    if table is None or (scores and verdicts):
        raise BadInput("give one of --scores (numbers) and --verdicts (labels)")
    home = find_workspace()
    columns = [name.strip() for name in annotators.split(",") if name.strip()]
    lock, _ = api.load_audit(spec)
    if lock.spec.categorical != (verdicts is not None):
        wanted = "--verdicts" if lock.spec.categorical else "--scores"
        raise BadInput(f"{spec}: statistic {lock.spec.statistic} takes {wanted}; give the table under that name")
    result = api.audit_reward(table, labels, spec, columns=parse_mapping(mapping or []), annotators=columns)
    content = audit_json(result)
    folder = keep(result, home.audits, to_json(content).encode())
    show(as_json, content, f"{audit_text(result)}\n\n{folder / 'audit.json'}")
    worst = result.worst()
    if result.verdict.word == "cannot tell":
        raise typer.Exit(CANNOT_TELL)
    if worst is not None and SEVERITIES.index(worst) >= SEVERITIES.index(fail_on):
        raise typer.Exit(1)
