"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ProtocolOption = Annotated[
    str | None, typer.Option("--protocol", "-p", help="NAME@VERSION; needed where a run is scored under several.")
]
Concurrency = Annotated[int | None, typer.Option(min=1, max=4096, help="Requests in flight; the batch of hf:.")]
EngineArguments = Annotated[
    list[str] | None, typer.Option(help="NAME=VALUE for vllm: or hf:, such as dtype=bfloat16; may be repeated.")
]
Step = Annotated[int | None, typer.Option(help="Training step of the model.")]
TrainSeed = Annotated[int | None, typer.Option(help="Training seed of the model.")]


def show(as_json: bool, content: Any, text: str) -> None:
    """Print `content` as JSON, or `text`; names and model output in it cannot drive the terminal."""
    from evalkit.report import to_json, visible

    print(to_json(content) if as_json else visible(text))


def sizes_of(text: str) -> dict[str, int]:
    """`smoke=20,dev=300` as role → items, in this order.

    Raises:
        BadInput: not of that form.
    """
    from evalkit.errors import BadInput

    found: dict[str, int] = {}
    for part in text.split(","):
        role, equals, size = part.strip().partition("=")
        if not equals or not size.strip().isdecimal():
            raise BadInput(f"--sizes {part.strip()!r}: not ROLE=N; write such as smoke=20,dev=300,public=500")
        if role in found:
            raise BadInput(f"--sizes {role}: given twice; keep one")
        found[role] = int(size)
    return found
