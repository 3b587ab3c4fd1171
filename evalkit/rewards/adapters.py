"""Trainers' reward functions as components: `trl:MODULE:FUNCTION`, `verl:MODULE:FUNCTION`, `openrlhf:MODULE:FUNCTION`.

1. MODULE is a `path/to/file.py` inside the workspace, loaded as `python:` loads it, or a dotted module: an installed
   one, else one of the workspace.
2. FUNCTION is a function, plain or async, a `functools.partial`, or another object that can be called; no class.
3. A component's parameters are the adapter's own (`OPTIONS`), and those of the function's named parameters that the
   protocol sets: annotated, so that a lock's decimals arrive as the kind that is meant.
4. What the trainer passes and an evaluation does not have is refused here where the function requires it, so that a
   protocol that cannot score is not frozen.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evalkit.errors import BadInput
from evalkit.rewards.base import Component, describe
from evalkit.rewards.parameters import coerce, is_supported, nearest
from evalkit.rewards.python import function_of, importable, load_file, scorer_file
from evalkit.rewards.trainers import TRL_OWN, TRL_RESERVED, Accepts, OpenRlhfReward, TrlReward, VerlReward

SHAPES = {
    "trl": "f(prompts, completions, **columns)",
    "verl": "f(data_source, solution_str, ground_truth, extra_info=None, **kwargs)",
    "openrlhf": "f(queries, prompts, labels, **kwargs)",
}
OPTIONS: dict[str, dict[str, tuple[Any, Any]]] = {
    "trl": {"conversational": (bool, False), "prompt_field": (str, "prompt")},
    "verl": {"data_source": (str | None, None)},
    "openrlhf": {"prompt_field": (str, "prompt")},
}
"""Parameters of the adapters: kind and default."""
PASSED = {
    "trl": TRL_RESERVED | set(TRL_OWN),
    "verl": {"solution_str", "ground_truth", "extra_info"},
    "openrlhf": {"queries", "prompts", "labels"},
}
"""Arguments that are the trainer's to pass, and no parameters of a protocol."""
_THROUGH = "evalkit.rewards.trainers"
_TRAINERS_OWN = {
    "completion_ids": "the trainer's token ids, which an evaluation does not have",
    "environments": "the trainer's environments, which an evaluation does not have",
}


def is_adapter(use: str) -> bool:
    """Whether `use` names a trainer's function; it is then run without network (`network.py`)."""
    return use.partition(":")[0] in SHAPES and ":" in use


def takes_groups(use: str) -> bool:
    """Whether the component that `use` names is a `GroupComponent`, so that it must be given whole groups."""
    return is_adapter(use) and not use.startswith("verl:")


def load_adapter(use: str, params: Mapping[str, Any], root: Path) -> tuple[Component, dict[str, Any]]:
    """The component that `use` names, and all its parameters, coerced, defaults included.

    Raises:
        BadInput: the module, the function, its signature or a parameter cannot be used.
        Refused: the path leaves the workspace.
    """
    kind = use.partition(":")[0]
    function = _function(use, root)
    options = {name: coerce(params.get(name, default), wanted, f"{use}: parameter {name!r}")
               for name, (wanted, default) in OPTIONS[kind].items()}  # fmt: skip
    signature = _signature(function, use)
    given = _given(function, signature, {name: params[name] for name in params if name not in options}, use)
    accepts = _accepts(signature)
    component: Component
    if kind == "trl":
        _check_trl(signature, accepts, given, use)
        component = TrlReward(function, accepts, given, **options)
    elif kind == "verl":
        _check_call(signature, use, **_verl_arguments(accepts), **given)
        component = VerlReward(function, accepts, given, **options)
    else:
        _check_call(signature, use, [], [], [], **given)
        component = OpenRlhfReward(function, given, **options)
    return component, {**options, **given}


def adapter_source(use: str, root: Path) -> str:
    """Source digest of what `use` names.

    Raises:
        BadInput, Refused: as `sources.project_source`.
    """
    from evalkit.rewards.sources import module_source, project_source

    kind, location, _ = _parts(use)
    if location.endswith(".py"):
        return project_source(scorer_file(use, root, f"{kind}:")[0], root, _THROUGH)
    return module_source(location, root, _THROUGH)


def _parts(use: str) -> tuple[str, str, str]:
    kind, _, rest = use.partition(":")
    location, _, name = rest.rpartition(":")
    is_module = location.endswith(".py") or all(part.isidentifier() for part in location.split("."))
    if not name.isidentifier() or not is_module:
        raise BadInput(f"{use}: write {kind}:path/to/file.py:function or {kind}:package.module:function")
    return kind, location, name


def _function(use: str, root: Path) -> Callable[..., object]:
    kind, location, name = _parts(use)
    if location.endswith(".py"):
        path, name = scorer_file(use, root, f"{kind}:")
        module = load_file(path, root, use)
    else:
        with importable(root):
            try:
                module = importlib.import_module(location)
            except (Exception, SystemExit) as error:  # the boundary to the team's code
                raise BadInput(f"{use}: the module does not load: {describe(error)}") from error
    function = function_of(module, name, use)
    if isinstance(function, type):
        raise BadInput(f"{use}: {name} is a class; name a function, or an object that can be called")
    return function


def _signature(function: Callable[..., object], use: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{use}: the signature cannot be read: {describe(error)}") from error


def _accepts(signature: inspect.Signature) -> Accepts:
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    named = {name: each for name, each in signature.parameters.items() if each.kind in by_name}
    return Accepts(
        named=frozenset(named),
        required=frozenset(name for name, each in named.items() if each.default is inspect.Parameter.empty),
        anything=any(each.kind is inspect.Parameter.VAR_KEYWORD for each in signature.parameters.values()),
    )


def _given(
    function: Callable[..., object], signature: inspect.Signature, params: Mapping[str, Any], use: str
) -> dict[str, Any]:
    """The function's own parameters that the protocol sets, as their annotations say."""
    if not params:
        return {}
    kind = use.partition(":")[0]
    kinds, known = _annotations(function, use), _accepts(signature).named - PASSED[kind]
    given = {}
    for name, value in params.items():
        if name not in known:
            raise BadInput(f"{use}: no parameter {name!r}; {nearest(name, [*known, *OPTIONS[kind]])}")
        if name not in kinds or not is_supported(kinds[name]):
            raise BadInput(f"{use}: parameter {name!r}: annotate it as bool, int, float, str or a list of one of these")
        given[name] = coerce(value, kinds[name], f"{use}: parameter {name!r}")
    return given


def _annotations(function: Callable[..., object], use: str) -> dict[str, Any]:
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function):
        function = type(function).__call__
    try:
        return typing.get_type_hints(function)
    except (TypeError, NameError, AttributeError) as error:
        raise BadInput(f"{use}: the signature cannot be read: {describe(error)}") from error


def _check_trl(signature: inspect.Signature, accepts: Accepts, given: Mapping[str, Any], use: str) -> None:
    """TRL passes everything by name; the rest of what a function requires must be columns."""
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY and parameter.default is inspect.Parameter.empty:
            raise BadInput(f"{use}: parameter {name!r} is positional only, and TRL passes names; write {SHAPES['trl']}")
    if "completions" not in accepts:
        raise BadInput(f"{use}: takes no 'completions', which TRL passes; write {SHAPES['trl']}")
    for name in sorted(accepts.required & (TRL_RESERVED - {"prompts", "completions"}) - set(given)):
        why = _TRAINERS_OWN.get(name, "which TRL does not pass")
        raise BadInput(f"{use}: requires {name!r}, {why}; give it a default, or write {SHAPES['trl']}")


def _verl_arguments(accepts: Accepts) -> dict[str, object]:
    names = ("data_source", "solution_str", "ground_truth", "extra_info")
    return {name: None for name in names if name in accepts or name in ("solution_str", "ground_truth")}


def _check_call(signature: inspect.Signature, use: str, *arguments: object, **named: object) -> None:
    """Whether the function can be called as its trainer calls it."""
    try:
        signature.bind(*arguments, **named)
    except TypeError as error:
        shape = SHAPES[use.partition(":")[0]]
        raise BadInput(f"{use}: cannot be called as the trainer does: {error}; write {shape}") from error
