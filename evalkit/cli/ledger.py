"""`evalkit ledger`: verify, list."""

from __future__ import annotations

import typer

from evalkit.cli.common import Json, show

app = typer.Typer(help="The ledger: who did what when.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def verify(as_json: Json = False) -> None:
    """Check that no row was edited, removed or inserted."""
    from evalkit.ledger import Ledger
    from evalkit.workspace import find_workspace

    with Ledger(find_workspace().ledger) as ledger:
        report = ledger.verify()
    text = "\n".join(
        [f"{report.n} rows, tree root {report.root}", *report.faults]
        if report.faults
        else [f"{report.n} rows, tree root {report.root}: intact"]
    )
    show(as_json, report, text)
    raise typer.Exit(0 if report.ok else 2)


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List all rows, the oldest first."""
    from evalkit.ledger import Ledger
    from evalkit.report import events_text
    from evalkit.workspace import find_workspace

    with Ledger(find_workspace().ledger) as ledger:
        found = ledger.events()
    show(as_json, found, events_text(found))
