"""A strict reader of YAML 1.2: what is written is what is read, or it is refused with its row.

1. Built from the parser's events, so a number keeps its literal text: whole numbers are `int`, others exact `Decimal`.
2. Only null, true and false are words with a meaning: `no`, `on` and `2024-01-01` are text.
3. Refused: duplicate keys, anchors, aliases, merge keys, tags, directives, a second document, .inf and .nan, and
   numbers that readers disagree about (012, 0x1F, 1_000).
4. Every value's row is kept, so that a later error can name it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from evalkit.errors import BadInput

WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*)")
DECIMAL = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
DISPUTED = re.compile(
    r"[-+]?(0[0-9_]+(\.[0-9_]*)?|0[xob][0-9a-fA-F_]+|[0-9][0-9_]*_[0-9_]*(\.[0-9_]*)?|[0-9]+(:[0-5]?[0-9])+)"
)
NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
MAX_DEPTH = 40
MAX_EXPONENT = 300


@dataclass(frozen=True, slots=True)
class Document:
    """A document's content and where each of its values stands."""

    content: Any
    rows: dict[tuple[str | int, ...], int]
    """Row (from 1) of every value, by its path of keys and indexes."""
    source: str

    def row(self, path: tuple[str | int, ...]) -> int:
        """Row of the value at `path`, or of the nearest enclosing value that is there."""
        while path and path not in self.rows:
            path = path[:-1]
        return self.rows.get(path, 1)


def read_yaml(path: Path) -> Document:
    """Read one strict YAML document from a UTF-8 file.

    Raises:
        BadInput: the file is not there, not UTF-8, or breaks a rule of this module.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}; name a protocol file in YAML") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8") from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, source: str) -> Document:
    """Parse one strict YAML document; `source` names it in messages."""
    reader = _Reader(source)
    try:
        content = reader.document(iter(YAML(typ="rt", pure=True).parse(text)))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        row = mark.line + 1 if mark else 1
        raise BadInput(f"{source}, row {row}: not YAML: {error.problem or error.context}") from None
    except YAMLError as error:
        raise BadInput(f"{source}: not YAML: {str(error).splitlines()[0]}") from None
    return Document(content, reader.rows, source)


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.rows: dict[tuple[str | int, ...], int] = {}

    def refuse(self, event: Event, what: str, mend: str) -> BadInput:
        return BadInput(f"{self.source}, row {event.start_mark.line + 1}: {what}; {mend}")

    def document(self, events: Iterator[Event]) -> Any:
        content: Any = None
        seen = False
        for event in events:
            if isinstance(event, DocumentStartEvent):
                if seen:
                    raise self.refuse(event, "a second document", "keep one document to a file")
                if event.version or event.tags:
                    raise self.refuse(event, "a %-directive", "remove it: the file is read as YAML 1.2")
                content, seen = self.value(next(events), events, ()), True
            elif isinstance(event, StreamEndEvent):
                break
        if not seen:
            raise BadInput(f"{self.source}: the file is empty; `evalkit protocol new NAME` writes a starter")
        return content

    def value(self, event: Event, events: Iterator[Event], path: tuple[str | int, ...]) -> Any:
        if isinstance(event, AliasEvent):
            raise self.refuse(event, "an alias", "write the value out")
        if anchor := getattr(event, "anchor", None):
            raise self.refuse(event, f"anchor &{anchor}", "remove it: aliases are not read")
        if tag := getattr(event, "tag", None):
            raise self.refuse(event, f"tag {tag}", "remove it: kinds follow from the field")
        if len(path) > MAX_DEPTH:
            raise self.refuse(event, f"more than {MAX_DEPTH} levels", "flatten it")
        self.rows[path] = event.start_mark.line + 1
        if isinstance(event, ScalarEvent):
            return self.scalar(event)
        if isinstance(event, SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(inner := next(events), SequenceEndEvent):
                items.append(self.value(inner, events, (*path, len(items))))
            return items
        if isinstance(event, MappingStartEvent):
            return self.mapping(events, path)
        raise self.refuse(event, f"unexpected {type(event).__name__}", "check the indentation")

    def mapping(self, events: Iterator[Event], path: tuple[str | int, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(inner := next(events), MappingEndEvent):
            if not isinstance(inner, ScalarEvent):
                raise self.refuse(inner, "a key that is not plain text", "use a word as the key")
            key = self.value(inner, events, (*path, "<key>"))
            name = inner.value
            if name == "<<" and inner.style is None:
                raise self.refuse(inner, "merge key <<", "write the fields out")
            if not isinstance(key, str) and inner.style is None and key is not None:
                raise self.refuse(inner, f"key {name} reads as {type(key).__name__}", f'quote it: "{name}"')
            if name in found:
                raise self.refuse(inner, f"duplicate key {name} (first at row {self.rows[(*path, name)]})", "keep one")
            found[name] = self.value(next(events), events, (*path, name))
        return found

    def scalar(self, event: ScalarEvent) -> Any:
        text: str = event.value
        if event.style is not None:
            return text
        if text in WORDS:
            return WORDS[text]
        if WHOLE.fullmatch(text):
            return int(text)
        if NOT_FINITE.fullmatch(text):
            raise self.refuse(event, f"{text} is not a finite number", "give a finite one, or quote it if it is text")
        if DISPUTED.fullmatch(text):
            raise self.refuse(event, f"readers disagree about {text}", "write a plain decimal, or quote it")
        if DECIMAL.fullmatch(text):
            number = Decimal(text)
            if abs(number.adjusted()) > MAX_EXPONENT:
                raise self.refuse(event, f"{text} is out of range", f"keep exponents within ±{MAX_EXPONENT}")
            return number
        return text
