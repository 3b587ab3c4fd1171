"""The contract of an evaluation: spec, strict YAML, lock, digests, rendering."""

from evalkit.protocol.compare import Difference, describe, differences
from evalkit.protocol.freeze import freeze_file
from evalkit.protocol.load import load_spec, parse_spec, validated
from evalkit.protocol.lock import (
    Digests,
    Lock,
    ResolvedComponent,
    Resolver,
    digests_of,
    load_lock,
    lock_json,
    lock_path,
    lock_text,
    parse_lock,
    resolve,
)
from evalkit.protocol.render import ChatRenderer, ChatTemplate, ItemTemplate, Messages, Renderer
from evalkit.protocol.seeds import request_seed
from evalkit.protocol.spec import ComponentSpec, Limits, Protocol, Sampling
from evalkit.protocol.store import find_lock, list_locks, load_protocol
from evalkit.protocol.text import copy_starter, resolved_text, write_starter

__all__ = [
    "ChatRenderer",
    "ChatTemplate",
    "ComponentSpec",
    "Difference",
    "Digests",
    "ItemTemplate",
    "Limits",
    "Lock",
    "Messages",
    "Protocol",
    "Renderer",
    "ResolvedComponent",
    "Resolver",
    "Sampling",
    "describe",
    "differences",
    "digests_of",
    "find_lock",
    "freeze_file",
    "list_locks",
    "load_lock",
    "load_protocol",
    "load_spec",
    "lock_json",
    "lock_path",
    "lock_text",
    "parse_lock",
    "parse_spec",
    "request_seed",
    "resolve",
    "resolved_text",
    "validated",
    "copy_starter",
    "write_starter",
]
