"""The commands and their groups."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evalkit.cli import audit, ledger, protocol, run, split
from evalkit.cli.common import Json, show

app = typer.Typer(
    help="Freeze evaluation protocols, run checkpoints under them, split the reward, compare only what is comparable.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(protocol.app, name="protocol")
app.add_typer(split.app, name="split")
app.add_typer(audit.app, name="audit")
app.add_typer(ledger.app, name="ledger")
run.add_to(app)


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Folder to make a workspace; made if it is not there.")] = Path(),
    as_json: Json = False,
) -> None:
    """Make a folder a workspace."""
    from evalkit.workspace import create_workspace

    made = create_workspace(folder)
    text = f"workspace {made.root}: protocols/, splits/, and .evalkit/ for what git does not keep"
    show(as_json, {"root": made.root}, f"{text}\nnext: evalkit protocol new NAME")
