"""`json_schema`: the completion is JSON and satisfies a schema. Nothing is fetched."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar

import jsonschema.exceptions
import jsonschema.validators
import referencing
import referencing.exceptions
import referencing.jsonschema

from evalkit.rewards.base import Response, Score, ok

_FENCE = re.compile(r"```(?:json|JSON)?[ \t]*\r?\n(.*)\r?\n?```", re.DOTALL)
_NUMERIC = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_LITERAL = frozenset({"const", "enum", "default", "examples"})
_LARGEST_INTEGER = 2**53 - 1


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """1 if the completion parses as JSON and validates, else 0 with the reason: text that is not JSON is a judgement.

    The whole completion must be JSON, alone or inside one code fence; prose around it is 0. Strict: no NaN or Infinity,
    no key twice, no number beyond a float, no nesting beyond Python's stack. `format` is not asserted.
    """

    schema: dict[str, Any] | str
    """The schema, as an object or as JSON text. Draft by `$schema`, 2020-12 without. A number that is not whole inside
    `const`, `enum`, `default` or `examples` needs the text form: an object's decimals become text in a lock."""

    _validator: Any = field(init=False, repr=False, compare=False)

    declared_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __post_init__(self) -> None:
        schema = _schema(self.schema)
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.validators.Draft202012Validator)
        try:
            kind.check_schema(schema)
        except jsonschema.exceptions.SchemaError as error:
            raise ValueError(f"schema: not a JSON Schema: {error.message}") from error
        _refuse_unreachable(schema)
        object.__setattr__(self, "_validator", kind(schema, registry=referencing.Registry()))

    def score(self, response: Response) -> Score:
        text = response.completion.strip()
        fenced = _FENCE.fullmatch(text)
        try:
            value = parse_strict(fenced.group(1) if fenced else text)
            error = next(self._validator.iter_errors(value), None)
        except ValueError as why:
            return ok(0.0, evidence=f"not JSON: {why}")
        except RecursionError:
            return ok(0.0, evidence="nested too deeply")
        if error is None:
            return ok(1.0)
        return ok(0.0, evidence=f"{error.json_path}: fails {error.validator}")


def parse_strict(text: str) -> Any:
    """JSON without NaN, Infinity, duplicate keys, or numbers that overflow.

    Raises:
        ValueError: with the place and the reason.
        RecursionError: nested too deeply.
    """
    return json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant, parse_float=_finite)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number beyond the range of floats")
    return value


def _schema(given: dict[str, Any] | str) -> Any:
    if not isinstance(given, str):
        return _plain(given, "schema")
    try:
        parsed = parse_strict(given)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"schema: not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise ValueError("schema: the text is not a JSON object")
    return parsed


def _plain(value: Any, path: str, keyword: str = "") -> Any:
    """A schema given as an object, with numbers as Python's and decimal texts read where JSON Schema wants a number."""
    if keyword in _NUMERIC and isinstance(value, str | Decimal):
        return _number(value, path)
    if isinstance(value, Mapping):
        inner = "const" if keyword in _LITERAL else ""
        return {str(key): _plain(item, f"{path}.{key}", inner or str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{path}[{at}]", "const" if keyword in _LITERAL else "") for at, item in enumerate(value)]
    if isinstance(value, Decimal) and value == value.to_integral_value() and abs(value) <= _LARGEST_INTEGER:
        return int(value)
    is_large = isinstance(value, int) and not isinstance(value, bool) and abs(value) > _LARGEST_INTEGER
    if isinstance(value, Decimal | float) or is_large:
        raise ValueError(f"{path}: a lock writes this number as text; give the schema as JSON text instead")
    return value


def _number(value: str | Decimal, path: str) -> int | float:
    try:
        number = Decimal(value)
    except ArithmeticError:
        raise ValueError(f"{path}: text where a number belongs") from None
    if not number.is_finite() or abs(number) > Decimal("1e308"):
        raise ValueError(f"{path}: not a finite number")
    return int(number) if number == number.to_integral_value() else float(number)


def _refuse_unreachable(schema: Any) -> None:
    """Refuse references that would have to be fetched, and local ones that lead nowhere."""
    registry = referencing.Registry().with_resource("", referencing.jsonschema.DRAFT202012.create_resource(schema))
    resolver = registry.resolver()
    has_inner_base = any(key == "$id" and path for path, key, _ in _members(schema))
    for path, key, value in _members(schema):
        if key not in ("$ref", "$dynamicRef", "$recursiveRef") or not isinstance(value, str):
            continue
        if not value.startswith("#"):
            raise ValueError(f"schema{path}.{key}: {value!r} is not in the schema, nothing is fetched; put it in $defs")
        if has_inner_base or key != "$ref":
            continue
        try:
            resolver.lookup(value)
        except (referencing.exceptions.Unresolvable, LookupError) as error:
            raise ValueError(f"schema{path}.{key}: {value!r} leads nowhere") from error


def _members(value: Any, path: str = "") -> Iterator[tuple[str, str, Any]]:
    """Every (path of the object, key, value) in a schema, but not inside literals."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield path, key, item
            if key not in _LITERAL:
                yield from _members(item, f"{path}.{key}")
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _members(item, f"{path}[{at}]")
