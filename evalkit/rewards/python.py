"""Project scorers: `python:PATH.py:FUNCTION`, a function of the team's own as a component.

1. `FUNCTION(completion: str, target: str | None, item: Mapping, *, name: kind = default, …) -> float | bool | None`.
   `None` abstains; NaN and exceptions are handled as for every component (`base.evaluate`).
2. PATH is relative to the workspace and stays inside it, so that a lock means the same on another machine.
3. The scorer's folder and the workspace are importable while the file loads, after everything installed, and not later;
   the project's modules then leave `sys.modules`, so that two scorers with a `util.py` each get their own.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any, ClassVar, cast

from evalkit.errors import BadInput, Refused
from evalkit.rewards.base import Response, Score, as_score, describe
from evalkit.rewards.parameters import coerce, is_supported, nearest

PREFIX = "python:"
SHAPE = "(completion, target, item, *, name: kind = default, …)"


@dataclass(frozen=True, slots=True)
class PythonScorer:
    """A project's function with its parameters."""

    function: Callable[..., object]
    parameters: Mapping[str, Any]

    declared_range: ClassVar[tuple[float, float] | None] = None

    def score(self, response: Response) -> Score:
        return as_score(self.function(response.completion, response.target, response.item, **self.parameters))


def load_scorer(use: str, params: Mapping[str, Any], root: Path) -> PythonScorer:
    """The scorer that `use` names, with `params` coerced by annotation and defaults filled in.

    Raises:
        BadInput: the file, the function, its signature or a parameter cannot be used.
        Refused: the path leaves the workspace.
    """
    path, name = scorer_file(use, root)
    function = function_of(load_file(path, root, use), name, use)
    return PythonScorer(function, _bound(function, params, use))


def function_of(module: ModuleType, name: str, use: str) -> Callable[..., object]:
    """The module's function, or anything else of that name that can be called.

    Raises:
        BadInput: none of that name.
    """
    function = getattr(module, name, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise BadInput(f"{use}: no function {name!r} in the file; {nearest(name, known)}")
    return cast(Callable[..., object], function)


def scorer_file(use: str, root: Path, prefix: str = PREFIX) -> tuple[Path, str]:
    """File and function name of a `python:PATH:FUNCTION`, or of the same with another prefix.

    Raises:
        BadInput: another shape, or no such file.
        Refused: the path is absolute or leaves the workspace.
    """
    location, _, name = use.removeprefix(prefix).rpartition(":")
    if not location.endswith(".py") or not name.isidentifier():
        raise BadInput(f"{use}: write {prefix}path/to/file.py:function")
    relative = PurePosixPath(location)
    if relative.is_absolute() or ".." in relative.parts:
        raise Refused(f"{use}: the path leaves the workspace; put the file, or a link to it, inside")
    path = root / relative
    if not path.is_file():
        raise BadInput(f"{use}: no file {location} in the workspace; give a path relative to it")
    return path, name


def load_file(path: Path, root: Path, use: str) -> ModuleType:
    """The file as a module of its own.

    Raises:
        BadInput: it does not load.
    """
    name = f"evalkit_scorer_{abs(hash(path.resolve())):x}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadInput(f"{use}: the file cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with importable(path.parent, root):
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:  # the boundary to the team's code
            del sys.modules[name]
            raise BadInput(f"{use}: the file does not load: {describe(error)}") from error
    return module


@contextmanager
def importable(*folders: Path) -> Iterator[None]:
    """Folders to import from, after everything installed; what was imported from them is forgotten afterwards."""
    before, added = set(sys.modules), [str(folder.resolve()) for folder in folders]
    sys.path.extend(added)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        ours = [name for name in set(sys.modules) - before if _is_ours(name, added)]
        for folder in added:
            if folder in sys.path:
                del sys.path[len(sys.path) - 1 - sys.path[::-1].index(folder)]
        for name in ours:
            del sys.modules[name]


def _is_ours(name: str, folders: list[str]) -> bool:
    """Whether a loaded module came from one of these folders; a package without `__init__` has a path and no file."""
    file = getattr(sys.modules[name], "__file__", None) or next(iter(getattr(sys.modules[name], "__path__", ())), None)
    return bool(file) and name.partition(".")[0] != "evalkit" and _is_project_file(Path(str(file)), folders)


def _is_project_file(file: Path, folders: list[str]) -> bool:
    return any(file.is_relative_to(folder) for folder in folders) and "site-packages" not in file.parts


def _bound(function: Callable[..., object], params: Mapping[str, Any], use: str) -> dict[str, Any]:
    """Every parameter of the function by name: the protocol's value, or the default."""
    if inspect.iscoroutinefunction(function):
        raise BadInput(f"{use}: an async function; write a plain one {SHAPE}")
    try:
        signature = inspect.signature(function)
        kinds = typing.get_type_hints(function)
    except (TypeError, ValueError, NameError, AttributeError) as error:
        raise BadInput(f"{use}: the signature cannot be read: {describe(error)}") from error
    options = _keyword_only(signature, use)
    unknown = [name for name in params if name not in options]
    if unknown:
        raise BadInput(f"{use}: no parameter {unknown[0]!r}; {nearest(unknown[0], options)}")
    bound = {}
    for name, option in options.items():
        if name not in kinds:
            raise BadInput(f"{use}: parameter {name!r} has no annotation; write {name}: float, or another kind")
        if not is_supported(kinds[name]):
            raise BadInput(f"{use}: parameter {name!r}: annotate it as bool, int, float, str or a list of one of these")
        if name not in params and option.default is inspect.Parameter.empty:
            raise BadInput(f"{use}: parameter {name!r} has no default; set it in the protocol")
        bound[name] = coerce(params.get(name, option.default), kinds[name], f"{use}: parameter {name!r}")
    return bound


def _keyword_only(signature: inspect.Signature, use: str) -> dict[str, inspect.Parameter]:
    """The keyword-only parameters; everything else must be the three that evalkit passes."""
    first, options = [], {}
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            options[name] = parameter
        elif parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise BadInput(f"{use}: takes *{name}, so its parameters cannot be recorded; write {SHAPE}")
        else:
            first.append(name)
    if len(first) < 3:
        raise BadInput(f"{use}: takes {len(first)} positional parameters; write {SHAPE}")
    if len(first) > 3:
        raise BadInput(f"{use}: parameter {first[3]!r} is positional; put it after a * to make it keyword-only")
    return options
