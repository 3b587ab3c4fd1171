"""`evalkit split`: build, verify, looks, list."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evalkit.cli.common import Json, show

app = typer.Typer(
    help="Splits: which items are for what, and who looked at them.", no_args_is_help=True, rich_markup_mode=None
)


@app.command()
def build(
    source: Annotated[
        str, typer.Argument(help="JSONL, Parquet or CSV file, a data set folder, or HUB-ID@REVISION:SPLIT.")
    ],
    name: Annotated[str, typer.Option(help="Name of the split set.")],
    sizes: Annotated[
        str, typer.Option(help="Items for each role: smoke=20,dev=300,public=500,private=1500,audit=500.")
    ],
    cluster_by: Annotated[str, typer.Option(help="Field whose equal values belong together, or none.")],
    stratify: Annotated[str | None, typer.Option(help="Field whose proportions every role keeps.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the assignment.")] = 0,
    id_field: Annotated[
        str | None, typer.Option("--id", help="Field that identifies an item; else its content does.")
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="Fields compared for overlap, comma-separated; else all text fields.")
    ] = None,
    secret: Annotated[Path | None, typer.Option(help="File with the split's secret; else one is made.")] = None,
    extend: Annotated[bool, typer.Option("--extend", help="Place new clusters only; nothing moves.")] = False,
    merge_overlaps: Annotated[
        bool, typer.Option("--merge-overlaps", help="Join overlapping clusters instead of refusing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Assign the items of a data set to roles, by cluster, and write the manifest."""
    from evalkit import api
    from evalkit.cli.common import sizes_of
    from evalkit.report import build_text

    report = api.build_split(
        source,
        name=name,
        sizes=sizes_of(sizes),
        cluster_by=None if cluster_by == "none" else cluster_by,
        stratify=stratify,
        seed=seed,
        id_field=id_field,
        text_fields=text.split(",") if text else None,
        secret=secret,
        extend=extend,
        merge_overlaps=merge_overlaps,
    )
    show(as_json, report, build_text(report))


@app.command()
def verify(name: Annotated[str, typer.Argument(help="Name of the split set.")], as_json: Json = False) -> None:
    """Check that the stored items are those of the manifest; name any that changed."""
    from evalkit.report import verify_text
    from evalkit.splits import verify_split
    from evalkit.workspace import find_workspace

    report = verify_split(find_workspace(), name)
    show(as_json, report, verify_text(report))
    raise typer.Exit(0 if report.ok else 2)


@app.command()
def looks(name: Annotated[str, typer.Argument(help="Name of the split set.")], as_json: Json = False) -> None:
    """List the looks at a split set, and what choosing the best of them buys by chance."""
    from evalkit import api
    from evalkit.report import looks_text

    found = api.looks(name)
    show(as_json, found, looks_text(name, found))


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List the split sets of the workspace."""
    from evalkit.report import splits_text
    from evalkit.splits import list_splits
    from evalkit.workspace import find_workspace

    found = list_splits(find_workspace())
    show(as_json, found, splits_text(found))
