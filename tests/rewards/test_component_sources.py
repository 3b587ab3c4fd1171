"""The source digest: what changes it, what does not, and what it refuses to miss."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from evalkit.errors import BadInput, EvalkitError, Refused
from evalkit.rewards import NAMES
from evalkit.rewards.sources import built_in_closure, built_in_source, project_closure, project_source

SCORER = (
    "import math\nfrom helper import f\nimport pkg.inner\nDATA_FILES = ('words.txt',)\n"
    "def score(c, t, i): return f(c)\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "one"
    (root / "rewards" / "pkg").mkdir(parents=True)
    (root / "rewards" / "mine.py").write_text(SCORER)
    (root / "rewards" / "helper.py").write_text("import pytest\nimport deeper\ndef f(c): return 1\n")
    (root / "rewards" / "pkg" / "__init__.py").write_text("")
    (root / "rewards" / "pkg" / "inner.py").write_text("from . import side\nfrom .side import A\n")
    (root / "rewards" / "pkg" / "side.py").write_text("A = 1\n")
    (root / "rewards" / "words.txt").write_text("a\n")
    (root / "deeper.py").write_text("X = 1\n")
    return root


def source(root: Path) -> str:
    return project_source(root / "rewards" / "mine.py", root)


def refusal_of(tmp_path: Path, text: str) -> EvalkitError:
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(EvalkitError) as error:
        project_closure(tmp_path / "mine.py", tmp_path)
    return error.value


def test_a_closure_holds_project_files_data_files_and_distributions(project: Path) -> None:
    closure = project_closure(project / "rewards" / "mine.py", project)
    assert sorted(closure.files) == [
        "deeper.py",
        "evalkit/rewards/base.py",
        "rewards/helper.py",
        "rewards/mine.py",
        "rewards/pkg/__init__.py",
        "rewards/pkg/inner.py",
        "rewards/pkg/side.py",
        "rewards/words.txt",
    ]
    assert closure.packages == {"pytest": pytest.__version__}


@pytest.mark.parametrize(
    "name",
    [
        "rewards/mine.py",
        "rewards/helper.py",
        "rewards/pkg/__init__.py",
        "rewards/pkg/inner.py",
        "rewards/pkg/side.py",
        "rewards/words.txt",
        "deeper.py",
    ],
)
def test_any_changed_byte_of_any_file_changes_the_digest(project: Path, name: str) -> None:
    before = source(project)
    path = project / name
    path.write_bytes(path.read_bytes() + b" ")
    assert source(project) != before


def test_the_place_of_the_workspace_and_files_not_imported_change_nothing(project: Path, tmp_path: Path) -> None:
    before = source(project)
    (project / "rewards" / "other.py").write_text("Y = 2\n")
    shutil.copytree(project, tmp_path / "elsewhere")
    assert source(project) == before == source(tmp_path / "elsewhere")


def test_a_new_version_of_an_imported_package_changes_the_digest(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = source(project)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "999")
    assert source(project) != before


FILES = {
    "constraints": ["constraints.py", "instructions.py", "language.py", "segments.py"],
    "math": ["math_answer.py"],
    "refusal": ["refusal.py", "refusal_phrases_v1.txt"],
}
PACKAGES = {
    "constraints": ["langdetect"],
    "json_schema": ["jsonschema", "referencing"],
    "math": ["latex2sympy2-extended", "math-verify", "sympy"],
}


@pytest.mark.parametrize("use", NAMES)
def test_a_built_in_rests_on_its_own_files_and_base_alone(use: str) -> None:
    closure = built_in_closure(NAMES[use].partition(":")[0])
    files = ["base.py", *FILES.get(use, [f"{use}.py"])]
    assert sorted(closure.files) == sorted(f"evalkit/rewards/{name}" for name in files)
    assert sorted(closure.packages) == PACKAGES.get(use, [])


def test_evalkits_own_version_changes_no_source_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = built_in_source("evalkit.rewards.number")
    monkeypatch.setattr("evalkit.__version__", "99.0")
    assert built_in_source("evalkit.rewards.number") == before


def test_a_scorer_that_uses_a_component_of_evalkits_rests_on_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from evalkit.rewards import Score\nfrom evalkit.rewards.number import Number\n")
    assert sorted(project_closure(tmp_path / "mine.py", tmp_path).files) == [
        "evalkit/rewards/base.py",
        "evalkit/rewards/number.py",
        "mine.py",
    ]


def test_imports_for_type_checkers_and_of_the_standard_library_are_left_out(tmp_path: Path) -> None:
    text = (
        "from __future__ import annotations\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import nowhere\n"
    )
    (tmp_path / "mine.py").write_text(text + "import json, re, importlib\nimportlib.import_module('json')\n")
    closure = project_closure(tmp_path / "mine.py", tmp_path)
    assert (sorted(closure.files), closure.packages) == (["evalkit/rewards/base.py", "mine.py"], {})


def test_an_optional_package_that_is_absent_is_on_record(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("try:\n    import nowhere_at_all\nexcept ImportError:\n    pass\n")
    assert project_closure(tmp_path / "mine.py", tmp_path).packages == {"nowhere_at_all": "absent"}


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "import nowhere_at_all\n",
            BadInput,
            "mine.py, line 1: 'nowhere_at_all' is neither installed nor in the workspace; install or mend it",
        ),
        (
            "import importlib\nimportlib.import_module(name)\n",
            Refused,
            "mine.py, line 2: import_module(…) decides at run time what it imports; import plainly",
        ),
        (
            "m = __import__('a' + 'b')\n",
            Refused,
            "mine.py, line 1: __import__(…) decides at run time what it imports; import plainly",
        ),
        (
            "from . import helper\n",
            Refused,
            "mine.py, line 1: a relative import in a scorer's file; import 'helper' by name",
        ),
        (
            "DATA_FILES = ('gone.txt',)\n",
            BadInput,
            "mine.py: data file 'gone.txt': cannot be read: No such file or directory: gone.txt",
        ),
        (
            "DATA_FILES = glob()\n",
            Refused,
            "mine.py, line 1: DATA_FILES: write a plain tuple of texts; it is read, not run",
        ),
        (
            "def score(c, t, i:\n",
            BadInput,
            "mine.py, line 1: not Python: '(' was never closed (<unknown>, line 1); mend the file",
        ),
        (
            "import evalkit.rewards\n",
            Refused,
            "mine.py, line 1: imports evalkit.rewards as a whole; import from the module that defines what you use",
        ),
    ],
)
def test_what_cannot_be_followed_is_refused(tmp_path: Path, text: str, kind: type[EvalkitError], message: str) -> None:
    error = refusal_of(tmp_path, text)
    assert (type(error), str(error)) == (kind, message)


def test_a_project_import_inside_a_function_is_refused_because_it_could_not_be_found_there(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("")
    error = refusal_of(tmp_path, "def score(c, t, i):\n    import helper\n")
    assert str(error) == "mine.py, line 2: imports 'helper' inside a function; move it to the top of the file"
