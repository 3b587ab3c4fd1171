"""From a YAML file to a validated protocol, with every fault named by file, row and field."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from evalkit.errors import BadInput, kind_of
from evalkit.protocol.spec import Protocol
from evalkit.protocol.strict_yaml import Document, parse_yaml, read_yaml

Spec = TypeVar("Spec", bound=BaseModel)


def load_spec(path: Path) -> Protocol:
    """The protocol of a YAML file, validated and with defaults filled in; not yet frozen.

    Raises:
        BadInput: one line with file, row, field and mend.
    """
    return spec_of(read_yaml(path))


def parse_spec(text: str, source: str = "protocol") -> Protocol:
    """The protocol of a YAML text."""
    return spec_of(parse_yaml(text, source))


def spec_of(document: Document) -> Protocol:
    """The protocol of a parsed document."""
    return validated(document, Protocol, "`evalkit protocol new NAME` writes a starter")


def validated(document: Document, model: type[Spec], mend: str) -> Spec:
    """A parsed document as `model`, or one line with file, row, field and mend.

    Args:
        document: what the file says.
        model: the spec it must be.
        mend: where to get one, for a file that holds no mapping at all.
    """
    if not isinstance(document.content, dict):
        raise BadInput(
            f"{document.source}, row 1: {kind_of(document.content)} where a mapping of fields belongs; {mend}"
        )
    try:
        return model.model_validate(document.content)
    except ValidationError as error:
        raise BadInput(_one_line(error, document)) from None


def _one_line(error: ValidationError, document: Document) -> str:
    first = error.errors(include_url=False)[0]
    path = tuple(first["loc"])
    row, field = document.row(path), ".".join(str(part) for part in path)
    more = error.error_count() - 1
    return f"{document.source}, row {row}{', field ' + field if field else ''}: {explain(first)}" + (
        f" (and {more} more)" if more else ""
    )


def explain(fault: Any) -> str:
    """One pydantic fault in plain words: what was found, and the mend."""
    kind, found = fault["type"], kind_of(fault["input"])
    context = fault.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "missing":
        return "missing; add it"
    if kind in ("literal_error", "enum"):
        return f"{found} {fault['input']!r} is not one of {context['expected']}"
    if kind.endswith(("_type", "_parsing")) or kind == "int_from_float":
        wanted = {
            "string": "text",
            "int": "a whole number",
            "bool": "true or false",
            "dict": "a mapping",
            "tuple": "a list",
            "model": "a mapping",
        }
        return f"{found} where {wanted.get(kind.split('_')[0], 'another kind')} belongs; change the value"
    return f"{found}: {fault['msg'][0].lower()}{fault['msg'][1:]}"
