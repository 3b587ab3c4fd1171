"""The source digest of a component: everything that can change what it computes, and nothing that cannot.

1. In it: the bytes of the component's file, of every project file that it imports, directly or not, of the data files
   they declare (`DATA_FILES = ("phrases.txt",)` at the top of a module, beside it); name and version of every installed
   distribution that they import.
2. Not in it: evalkit's version, its package `__init__` files (they only re-export), Python's, any absolute path.
3. Imports are read from the syntax tree, nothing is run. An import that cannot be followed is refused: a digest that
   misses a file would let two different scorers share a number.
4. Names are looked up as the loader does (`python.py`): standard library, then what is installed, then the file's
   folder, then the workspace. An editable install is followed like project files, for its version says little.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from evalkit.canonical import digest
from evalkit.errors import BadInput, Refused

_EVALKIT = Path(__file__).resolve().parents[1]
BASE = "evalkit.rewards.base"
_ABSENT = "absent"
"""Version of an optional package (imported under `try … except ImportError`) that is not installed."""
_ABSENCE = frozenset({"ImportError", "ModuleNotFoundError", "Exception"})
_DYNAMIC = frozenset({"__import__", "import_module", "spec_from_file_location", "run_path", "run_module"})


@dataclass(frozen=True, slots=True)
class Closure:
    """What a component is made of."""

    files: Mapping[str, str]
    """Path relative to the workspace (or to where evalkit is installed) → SHA-256 of the bytes."""
    packages: Mapping[str, str]
    """Distribution → version."""


def built_in_source(module: str) -> str:
    """Source digest of a component of evalkit's, by its module's dotted name."""
    return _digest(built_in_closure(module))


def project_source(path: Path, root: Path, through: str = BASE) -> str:
    """Source digest of a project scorer's file; `through` as in `project_closure`.

    Raises:
        BadInput: a file that is missing or is no Python; an import that leads nowhere.
        Refused: an import that cannot be followed without running the code.
    """
    return _digest(project_closure(path, root, through))


def module_source(module: str, root: Path, through: str) -> str:
    """Source digest of a function in a module that is importable; `through` as in `project_closure`.

    An installed module is its distribution and version; one of the workspace, or of an editable install, is its files.

    Raises:
        BadInput, Refused: as `project_source`; and for a module of Python's own.
    """
    return _digest(module_closure(module, root, through))


def built_in_closure(module: str) -> Closure:
    """Files and packages of a component of evalkit's."""
    walk = _Walk(root=_EVALKIT.parent, folder=None)
    walk.evalkit_module(module, "component")
    return Closure(walk.files, walk.packages)


def project_closure(path: Path, root: Path, through: str = BASE) -> Closure:
    """Files and packages of a project scorer, and `through`, evalkit's own module that makes a score of its result."""
    walk = _Walk(root=root.resolve(), folder=path.parent)
    walk.file(path, package=None)
    walk.evalkit_module(through, "scorer")
    return Closure(walk.files, walk.packages)


def module_closure(module: str, root: Path, through: str) -> Closure:
    """Files and packages of an importable module, and `through` as in `project_closure`."""
    walk = _Walk(root=root.resolve(), folder=root.resolve())
    walk.imported(module)
    walk.evalkit_module(through, "scorer")
    return Closure(walk.files, walk.packages)


def _digest(closure: Closure) -> str:
    return digest("source", {"files": dict(closure.files), "packages": dict(closure.packages)})


@dataclass(frozen=True, slots=True)
class _Import:
    """One import statement, or one name of it."""

    module: str
    """Dotted, absolute where `level` is 0."""
    name: str | None
    """Of `from module import name`."""
    level: int
    line: int
    is_optional: bool
    """Under `try` with a handler for ImportError."""
    is_late: bool
    """Inside a function."""


@dataclass
class _Walk:
    """A walk over files; `files` and `packages` fill up."""

    root: Path
    folder: Path | None
    """Of the scorer's file; `None` for evalkit's own components."""
    files: dict[str, str] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)
    homes: list[Path] = field(default_factory=list)
    """Folders of editable installs outside the workspace."""

    @cached_property
    def _distributions(self) -> Mapping[str, list[str]]:
        return importlib.metadata.packages_distributions()

    def file(self, path: Path, package: str | None) -> None:
        """Take in one file and follow its imports. `package`: dotted name of its package, `None` at the top."""
        label = self._label(path)
        if label in self.files:
            return
        data = self._bytes(path, label, "imported file")
        if path.suffix != ".py":
            return
        try:
            tree = ast.parse(data)
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None) or 1
            raise BadInput(f"{label}, line {line}: not Python: {error}; mend the file") from error
        for name in _data_files(tree, label):
            self._bytes(path.parent / name, self._label(path.parent / name), f"{label}: data file {name!r}")
        for found in _imports(tree, label):
            self._follow(found, path, package, label)

    def evalkit_module(self, module: str, label: str) -> None:
        """Take in a module of evalkit's; its packages' `__init__` files only re-export and stay out."""
        path = _EVALKIT.parent.joinpath(*module.split(".")).with_suffix(".py")
        if not path.is_file():
            raise Refused(f"{label}: imports {module} as a whole; import from the module that defines what you use")
        self.file(path, module.rpartition(".")[0])

    def imported(self, module: str) -> None:
        """Take in a module by its dotted name, as an import of it from the workspace would find it."""
        if module.partition(".")[0] in sys.stdlib_module_names:
            raise BadInput(f"{module}: a module of Python's own; name one of the project's, or an installed one")
        self._follow(_Import(module, None, 0, 1, is_optional=False, is_late=False), self.root, None, module)

    def _bytes(self, path: Path, label: str, what: str) -> bytes:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise BadInput(f"{what}: cannot be read: {error.strerror}: {label}") from error
        self.files[label] = hashlib.sha256(data).hexdigest()
        return data

    def _label(self, path: Path) -> str:
        if path.is_relative_to(_EVALKIT):
            return path.relative_to(_EVALKIT.parent).as_posix()
        for base, prefix in ((self.root, ""), *((home, "(editable)/") for home in self.homes)):
            for spelling in (path, path.resolve()):
                if spelling.is_relative_to(base):
                    return prefix + spelling.relative_to(base).as_posix()
        raise Refused(f"{path.name}: imported from outside the workspace; install it as a package, or move it inside")

    def _follow(self, found: _Import, path: Path, package: str | None, label: str) -> None:
        where = f"{label}, line {found.line}"
        module = found.module
        if found.level:
            if package is None:
                raise Refused(f"{where}: a relative import in a scorer's file; import {module or found.name!r} by name")
            base = package.split(".")[: len(package.split(".")) - found.level + 1]
            module = ".".join([*base, module] if module else base)
        top = module.partition(".")[0]
        if top in sys.stdlib_module_names or top == "__future__":
            return
        if top == "evalkit":
            self._follow_evalkit(module, found.name, where)
        elif base_folder := self._project_folder(top):
            if found.is_late:
                raise Refused(f"{where}: imports {module!r} inside a function; move it to the top of the file")
            self._take_module(base_folder, module, found.name, where)
        elif top in self._distributions:
            for name in self._distributions[top]:
                self.packages[re.sub(r"[-_.]+", "-", name).lower()] = importlib.metadata.version(name)
        elif found.is_optional:
            self.packages[top] = _ABSENT
        else:
            raise BadInput(f"{where}: {module!r} is neither installed nor in the workspace; install or mend it")

    def _project_folder(self, top: str) -> Path | None:
        """The folder that holds the project's `top`, where the loader would find it there."""
        for finder in sys.meta_path:
            spec = finder.find_spec(top, None) if hasattr(finder, "find_spec") else None
            if spec is None or spec.origin is None:
                continue
            origin = Path(spec.origin).resolve()
            home = origin.parent.parent if spec.submodule_search_locations else origin.parent
            if self.folder is None or {"site-packages", "dist-packages"} & set(home.parts):
                return None
            self.homes.append(home)
            return home
        for folder in (self.folder, self.root):
            if self.folder is not None and folder is not None and _module_file(folder, [top]) is not None:
                return folder
        return None

    def _take_module(self, folder: Path, module: str, name: str | None, where: str) -> None:
        """Take in a project module, the packages above it, and `name` if that is a module too."""
        parts = module.split(".")
        for depth in range(1, len(parts) + 1):
            path = _module_file(folder, parts[:depth])
            if path is None:
                raise BadInput(f"{where}: no module {'.'.join(parts[:depth])!r} in the workspace; mend the import")
            if path.is_file():
                is_package = path.name == "__init__.py"
                self.file(path, ".".join(parts[:depth] if is_package else parts[: depth - 1]))
        if name is None:
            return
        inner = _module_file(folder, [*parts, name]) if name != "*" else None
        if inner is not None and inner.is_file():
            self.file(inner, ".".join([*parts, name] if inner.name == "__init__.py" else parts))

    def _follow_evalkit(self, module: str, name: str | None, where: str) -> None:
        """Take in the module of evalkit's that defines what is imported, through re-exports."""
        folder = _EVALKIT.parent.joinpath(*module.split("."))
        if folder.is_dir() and name is not None:
            if (folder / f"{name}.py").is_file():
                module = f"{module}.{name}"
            elif (home := _reexported_from(folder / "__init__.py", name)) is not None:
                self._follow_evalkit(home, name, where)
                return
        self.evalkit_module(module, where)


def _module_file(folder: Path, parts: list[str]) -> Path | None:
    """The file of a module, the folder of a namespace package, or `None`."""
    stem = folder.joinpath(*parts)
    for path in (stem / "__init__.py", stem.with_name(stem.name + ".py")):
        if path.is_file():
            return path
    extension = next(iter(sorted(stem.parent.glob(f"{stem.name}.*.so"))), None) if stem.parent.is_dir() else None
    if extension is not None:
        return extension
    return stem if stem.is_dir() and next(stem.rglob("*.py"), None) is not None else None


def _reexported_from(path: Path, name: str) -> str | None:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and any((alias.asname or alias.name) == name for alias in node.names):
            return node.module
    return None


def _data_files(tree: ast.Module, label: str) -> list[str]:
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if not any(isinstance(target, ast.Name) and target.id == "DATA_FILES" for target in targets):
            continue
        try:
            names = ast.literal_eval(node.value)
        except ValueError:
            names = None
        if not isinstance(names, tuple | list) or not all(isinstance(name, str) for name in names):
            raise Refused(f"{label}, line {node.lineno}: DATA_FILES: write a plain tuple of texts; it is read, not run")
        return list(names)
    return []


def _imports(tree: ast.Module, label: str) -> Iterator[_Import]:
    """Every import of a file, but those for type checkers only."""
    yield from _imports_in(tree, label, is_optional=False, is_late=False)


def _imports_in(node: ast.AST, label: str, is_optional: bool, is_late: bool) -> Iterator[_Import]:
    if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
        for child in node.orelse:
            yield from _imports_in(child, label, is_optional, is_late)
        return
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield _Import(alias.name, None, 0, node.lineno, is_optional, is_late)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield _Import(node.module or "", alias.name, node.level, node.lineno, is_optional, is_late)
    elif isinstance(node, ast.Call) and (module := _dynamic(node, label)):
        yield _Import(module, None, 0, node.lineno, is_optional, is_late)
    is_late = is_late or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    guarded: list[ast.AST] = [*node.body] if isinstance(node, ast.Try) and _forgives_absence(node) else []
    for inner in ast.iter_child_nodes(node):
        yield from _imports_in(inner, label, is_optional or inner in guarded, is_late)


def _dynamic(call: ast.Call, label: str) -> str | None:
    """Module of a dynamic import whose name stands there as text; `None` for other calls."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)
    if name not in _DYNAMIC:
        return None
    first = call.args[0] if len(call.args) == 1 and name in ("__import__", "import_module") else None
    module = first.value if isinstance(first, ast.Constant) else None
    if not isinstance(module, str) or module.startswith("."):
        raise Refused(f"{label}, line {call.lineno}: {name}(…) decides at run time what it imports; import plainly")
    return module


def _forgives_absence(node: ast.Try) -> bool:
    caught = [part for handler in node.handlers if handler.type is not None for part in ast.walk(handler.type)]
    names = {part.id for part in caught if isinstance(part, ast.Name)}
    return not names.isdisjoint(_ABSENCE) or any(handler.type is None for handler in node.handlers)
