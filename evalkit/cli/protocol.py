"""`evalkit protocol`: new, freeze, show, list, diff, verify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evalkit.cli.common import Json, show

app = typer.Typer(
    help="Protocols: everything that can change an evaluation's numbers, frozen.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Reference = Annotated[str, typer.Argument(help="NAME@VERSION, NAME, or the path of a lock.")]


@app.command()
def new(name: Annotated[str, typer.Argument(help="Name of the protocol.")], as_json: Json = False) -> None:
    """Write a commented starter into protocols/NAME.yaml."""
    from evalkit.protocol import write_starter
    from evalkit.workspace import find_workspace

    path = write_starter(find_workspace().protocols, name)
    show(as_json, {"path": path}, f"{path}\nnext: edit it, then evalkit protocol freeze {path}")


@app.command()
def freeze(file: Annotated[Path, typer.Argument(help="YAML protocol.")], as_json: Json = False) -> None:
    """Freeze a YAML protocol: write its lock beside it, print what it resolves to and its digests."""
    from evalkit import api
    from evalkit.protocol import lock_json, resolved_text

    frozen = api.freeze(file)
    what = "frozen" if frozen.written else "unchanged, frozen before"
    show(as_json, lock_json(frozen.lock), f"{resolved_text(frozen.lock)}\n{frozen.lock.id} {what}: {frozen.path}")


@app.command("show")
def show_(reference: Reference, as_json: Json = False) -> None:
    """Print a frozen protocol, every field, and its digests."""
    from evalkit import api
    from evalkit.protocol import lock_json, resolved_text

    lock = api.load_protocol(reference)
    show(as_json, lock_json(lock), resolved_text(lock))


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List the frozen protocols of the workspace."""
    from evalkit.canonical import short
    from evalkit.protocol import list_locks, load_lock
    from evalkit.report import table
    from evalkit.workspace import find_workspace

    locks = [load_lock(path) for path in list_locks(find_workspace().protocols)]
    rows = [
        [lock.id, short(lock.digests.protocol), short(lock.digests.generation), short(lock.digests.scoring)]
        for lock in locks
    ]
    text = (
        table(["protocol", "digest", "generation", "scoring"], rows)
        if rows
        else "no frozen protocols; evalkit protocol new NAME"
    )
    show(as_json, [{"id": lock.id, "digests": lock.digests} for lock in locks], text)


@app.command()
def diff(left: Reference, right: Reference, as_json: Json = False) -> None:
    """Show every field in which two protocols differ, and which digest it belongs to."""
    from evalkit import api
    from evalkit.protocol import differences
    from evalkit.report import table

    found = differences(api.load_protocol(left), api.load_protocol(right))
    rows = [[item.field, item.part, str(item.left), str(item.right)] for item in found]
    show(as_json, found, table(["field", "digest", left, right], rows) if rows else "no field differs")


@app.command()
def verify(reference: Reference, as_json: Json = False) -> None:
    """Check that a lock is what was frozen, and that the code that scores is too."""
    from evalkit import api

    lock = api.load_protocol(reference)
    api.verify_protocol(lock)
    text = f"{lock.id}: content and scorers are what was frozen ({lock.digests.protocol})"
    show(as_json, {"id": lock.id, "ok": True, "digests": lock.digests}, text)
