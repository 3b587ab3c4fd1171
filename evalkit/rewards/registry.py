"""The components there are: a new one is one new file and one line here."""

from __future__ import annotations

import dataclasses
import importlib
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

from evalkit.errors import BadInput
from evalkit.rewards.adapters import adapter_source, is_adapter, load_adapter
from evalkit.rewards.base import Component
from evalkit.rewards.parameters import canonical_kinds, coerce, nearest
from evalkit.rewards.python import PREFIX, PythonScorer, load_scorer, scorer_file

NAMES: dict[str, str] = {
    "choice": "evalkit.rewards.choice:Choice",
    "conciseness": "evalkit.rewards.conciseness:Conciseness",
    "constraints": "evalkit.rewards.constraints:Constraints",
    "exact": "evalkit.rewards.exact:Exact",
    "formatting": "evalkit.rewards.formatting:Formatting",
    "json_schema": "evalkit.rewards.json_schema:JsonSchema",
    "math": "evalkit.rewards.math_answer:Math",
    "number": "evalkit.rewards.number:Number",
    "refusal": "evalkit.rewards.refusal:Refusal",
    "regex": "evalkit.rewards.regex:Regex",
    "repetition": "evalkit.rewards.repetition:Repetition",
}
IGNORES_ITEM = frozenset(NAMES) - {"constraints", "refusal"}
"""Components that look at the completion and the target only, so that the item need not be sent to them."""
READS_ANSWER = frozenset({"choice", "exact", "math", "number", "regex"})
"""Components that read an answer from the completion; it can be missing, and the answers of an item can be voted on."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a lock holds of a component."""

    params: dict[str, Any]
    """All parameters, defaults included: true/false, int, Decimal for what is not whole, text, null, lists, objects."""
    declared_range: tuple[Decimal, Decimal] | None
    """`None` = unbounded."""
    source: str
    """Source digest: changes with every byte of code or version of a package that can change a score."""


def build(use: str, params: Mapping[str, Any], root: Path) -> Component:
    """The component that `use` names (`number`, `python:mine.py:score`), with parameters as in a protocol or a lock.

    Raises:
        BadInput: no such component, or a parameter that is unknown, missing or wrong.
        Refused: a path that leaves the workspace.
    """
    if is_adapter(use):
        return load_adapter(use, params, root)[0]
    if use.startswith(PREFIX):
        return load_scorer(use, params, root)
    if use not in NAMES:
        raise BadInput(f"component {use!r}: unknown; {nearest(use, NAMES)}; your own is python:FILE.py:FUNCTION")
    module, _, name = NAMES[use].partition(":")
    return _built_in(use, getattr(importlib.import_module(module), name), params)


def resolve(use: str, params: Mapping[str, Any], root: Path) -> Resolved:
    """What a lock must hold so that the same component can be built again, and any change of it seen.

    Raises:
        BadInput, Refused: as `build`; and for imports that cannot be followed (`sources.py`).
    """
    from evalkit.rewards.sources import built_in_source, project_source

    given: Mapping[str, Any]
    if is_adapter(use):
        component, given = load_adapter(use, params, root)
        source = adapter_source(use, root)
    elif isinstance(component := build(use, params, root), PythonScorer):
        given, source = component.parameters, project_source(scorer_file(use, root)[0], root)
    else:
        given = {name: getattr(component, name) for name in _fields(type(component))}
        source = built_in_source(NAMES[use].partition(":")[0])
    return Resolved(
        params={name: canonical_kinds(value) for name, value in given.items()},
        declared_range=_exact(component.declared_range),
        source=source,
    )


def _built_in(use: str, kind: type, params: Mapping[str, Any]) -> Component:
    fields, kinds = _fields(kind), typing.get_type_hints(kind)
    for name in params:
        if name not in fields:
            raise BadInput(f"component {use}: no parameter {name!r}; {nearest(name, fields)}")
    for name, field in fields.items():
        if name not in params and field.default is dataclasses.MISSING:
            raise BadInput(f"component {use}: parameter {name!r} is missing; set it in the protocol")
    values = {name: coerce(value, kinds[name], f"component {use}: {name}") for name, value in params.items()}
    try:
        return cast(Component, kind(**values))
    except ValueError as error:
        raise BadInput(f"component {use}: {error}") from error


def _fields(kind: type) -> dict[str, dataclasses.Field[Any]]:
    return {field.name: field for field in dataclasses.fields(kind) if field.init}


def _exact(declared: tuple[float, float] | None) -> tuple[Decimal, Decimal] | None:
    return None if declared is None else (Decimal(repr(declared[0])), Decimal(repr(declared[1])))
