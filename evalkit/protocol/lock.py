"""Locks: a protocol with its digests, and the one place that says what each digest covers.

1. `generation` covers what can change a completion, `scoring` what can change a score, `protocol` both and the rest
   that can change a printed number. Name, version and description are in none.
2. The content digested is the resolved protocol: defaults written out, components with all their parameters and the
   digest of their source. Formatting, key order and the spelling of numbers are gone by then.
3. A lock is a JSON file; its layout may change, its digests may not. Loading one recomputes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import Protocol as Interface

from pydantic import BaseModel, ValidationError

from evalkit.canonical import canonical_form, digest
from evalkit.errors import BadInput
from evalkit.files import read_json
from evalkit.protocol.load import explain
from evalkit.protocol.spec import PARTS, ComponentSpec, Part, Protocol

FORMAT = "evalkit-lock/1"


@dataclass(frozen=True, slots=True)
class ResolvedComponent:
    """A component with nothing left to defaults."""

    params: Mapping[str, Any]
    """Every parameter it takes."""
    declared_range: tuple[Any, Any] | None
    """None where its values have no bounds."""
    source: str
    """Digest of the code that computes it."""


class Resolver(Interface):
    """Completes a component; lives with the code that scores (`rewards`), above this room."""

    def __call__(self, name: str, component: ComponentSpec) -> ResolvedComponent: ...


@dataclass(frozen=True, slots=True)
class Digests:
    """The three identities of a protocol."""

    generation: str
    scoring: str
    protocol: str


@dataclass(frozen=True, slots=True)
class Lock:
    """A frozen protocol."""

    spec: Protocol
    sources: Mapping[str, str]
    """Source digest of each component."""
    digests: Digests

    @property
    def id(self) -> str:
        """`name@version`."""
        return self.spec.id


def content_of(spec: BaseModel) -> dict[str, Any]:
    """A spec as canonical JSON: every field, decimals as plain text."""
    content = canonical_form(_plain(spec))
    assert isinstance(content, dict)
    return content


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def part_of(path: str) -> Part:
    """Which digest a field belongs to, by the longest entry of `PARTS` that covers its dotted path."""
    while path not in PARTS:
        path = path.rpartition(".")[0]
    return PARTS[path]


def split_parts(content: Mapping[str, Any]) -> dict[Part, dict[str, Any]]:
    """The fields of a protocol's content by the digest they belong to, as dotted paths of the top two levels."""
    parts: dict[Part, dict[str, Any]] = {"generation": {}, "scoring": {}, "protocol": {}, "none": {}}
    for name, value in content.items():
        nested = isinstance(value, Mapping) and any(path.startswith(f"{name}.") for path in PARTS)
        for path, item in (
            {f"{name}.{key}": inner for key, inner in value.items()} if nested else {name: value}
        ).items():
            parts[part_of(path)][path] = item
    return parts


def digests_of(spec: Protocol, sources: Mapping[str, str]) -> Digests:
    """The digests of a resolved protocol (see the module's rules)."""
    parts = split_parts(content_of(spec))
    generation = digest("generation", parts["generation"])
    scoring = digest("scoring", {**parts["scoring"], "sources": dict(sources)})
    whole = {"generation": generation, "scoring": scoring, **parts["protocol"]}
    return Digests(generation, scoring, digest("protocol", whole))


def resolve(spec: Protocol, resolver: Resolver) -> Lock:
    """The lock of a protocol: components completed, digests computed. Nothing is written."""
    resolved = {name: resolver(name, component) for name, component in spec.reward.components.items()}
    components = {
        name: component.model_copy(
            update={
                "params": dict(resolved[name].params),
                "range": resolved[name].declared_range or "unbounded",
            }
        )
        for name, component in spec.reward.components.items()
    }
    complete = spec.model_copy(update={"reward": spec.reward.model_copy(update={"components": components})})
    sources = {name: item.source for name, item in resolved.items()}
    return Lock(complete, sources, digests_of(complete, sources))


def lock_path(folder: Path, spec: Protocol) -> Path:
    """Where a protocol's lock lies: `NAME.vN.lock.json`."""
    return folder / f"{spec.name}.v{spec.version}.lock.json"


def lock_json(lock: Lock) -> dict[str, Any]:
    """A lock as JSON content, for its file and for a run's header."""
    return {
        "format": FORMAT,
        "id": lock.id,
        "digests": {
            "generation": lock.digests.generation,
            "scoring": lock.digests.scoring,
            "protocol": lock.digests.protocol,
        },
        "sources": dict(lock.sources),
        "spec": content_of(lock.spec),
    }


def lock_text(lock: Lock) -> str:
    """A lock as the text of its file: fields in the order of the spec, components in the order they were written."""
    return json.dumps(lock_json(lock), indent=2, ensure_ascii=False) + "\n"


def load_lock(path: Path) -> Lock:
    """Read a lock and check that its digests are those of its content.

    Raises:
        BadInput: no lock, another format, or edited after freezing.
    """
    return parse_lock(read_json(path, FORMAT, "name a lock that `evalkit protocol freeze` wrote"), str(path))


def refuse_other_fields(stated: Mapping[str, Any], spec: BaseModel, source: str) -> None:
    """Refuse a lock that lacks fields which this evalkit fills in: what it was frozen with is not known.

    Raises:
        BadInput: with the fields.
    """
    lost = [name for name in type(spec).model_fields if name not in stated]
    if lost:
        raise BadInput(
            f"{source}, field spec: has no {', '.join(lost)}; another version of evalkit wrote it, or it was edited; "
            "freeze the spec again, as a new version"
        )


def parse_lock(data: Mapping[str, Any], source: str) -> Lock:
    """The lock in the JSON object read from `source`."""
    try:
        spec = Protocol.model_validate(data["spec"], context={"lock": True})
        sources, stated = dict(data["sources"]), Digests(**data["digests"])
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in fault["loc"])
        raise BadInput(f"{source}, field spec.{field}: {explain(fault)}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"{source}: not a complete lock ({error}); freeze the protocol again") from None
    refuse_other_fields(data["spec"], spec, source)
    actual = digests_of(spec, sources)
    for name in ("generation", "scoring", "protocol"):
        if getattr(actual, name) != getattr(stated, name):
            raise BadInput(
                f"{source}, field digests.{name}: the content was changed after freezing; "
                "restore the file, or freeze the change as a new version"
            )
    return Lock(spec, sources, actual)
