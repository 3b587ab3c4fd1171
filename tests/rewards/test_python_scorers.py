"""Project scorers: loading, signatures, parameters, results."""

from __future__ import annotations

import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import BadInput, EvalkitError, Refused
from evalkit.rewards import Response, Score, Status, build, evaluate, resolve

GOOD = """
def score(completion, target, item, *, bonus: float = 0.5, words: list[str] = ["a"], strict: bool = False, n: int = 1,
          unit: str = "x", cap: float | None = None):
    return bonus if completion in words else 0
"""


def write(root: Path, text: str, name: str = "mine.py") -> str:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return f"python:{name}:score"


def run(root: Path, text: str, completion: str = "a", **params: Any) -> Score:
    return evaluate(build(write(root, text), params, root), Response(completion, "t", {"k": 1}, None))


def test_a_function_of_the_team_is_a_component(tmp_path: Path) -> None:
    assert run(tmp_path, GOOD).value == 0.5
    assert run(tmp_path, GOOD, completion="b").value == 0.0


def test_parameters_are_coerced_by_annotation_from_what_a_lock_holds(tmp_path: Path) -> None:
    assert run(tmp_path, GOOD, bonus="0.25").value == 0.25
    resolved = resolve(write(tmp_path, GOOD), {"bonus": "0.25", "cap": 2}, tmp_path)
    assert resolved.params == {"bonus": Decimal("0.25"), "words": ["a"], "strict": False, "n": 1, "unit": "x", "cap": 2}
    assert resolved.declared_range is None


@pytest.mark.parametrize(
    ("body", "status", "evidence"),
    [
        ("return None", Status.ABSTAINED, "the scorer returned None"),
        ("return float('nan')", Status.NAN, "the scorer returned nan"),
        ("return 'yes'", Status.FAILED, "the scorer returned str, not a number"),
        ("return item['missing']", Status.FAILED, "KeyError: 'missing'"),
        ("raise ValueError('one\\ntwo')", Status.FAILED, "ValueError: one"),
        ("import sys; sys.exit('bye')", Status.FAILED, "SystemExit: bye"),
    ],
)
def test_a_result_that_is_no_number_is_no_verdict(tmp_path: Path, body: str, status: Status, evidence: str) -> None:
    found = run(tmp_path, f"def score(completion, target, item):\n    {body}\n")
    assert (found.value, found.status, found.evidence) == (None, status, evidence)


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        (
            "(completion, target, item, bonus=1)",
            "parameter 'bonus' is positional; put it after a * to make it keyword-only",
        ),
        (
            "(completion, target, item, *, bonus=1)",
            "parameter 'bonus' has no annotation; write bonus: float, or another kind",
        ),
        (
            "(completion, target, item, *, bonus: dict = {})",
            "parameter 'bonus': annotate it as bool, int, float, str or a list of one of these",
        ),
        ("(completion, target, item, *, bonus: float)", "parameter 'bonus' has no default; set it in the protocol"),
        ("(completion, target, item, *, bonus: int = 0.5)", "parameter 'bonus': 0.5 is not whole; give a whole number"),
        (
            "(completion, target, item, **more)",
            "takes *more, so its parameters cannot be recorded; write (completion, target, "
            "item, *, name: kind = default, …)",
        ),
        ("(completion)", "takes 1 positional parameters; write (completion, target, item, *, name: kind = default, …)"),
    ],
)
def test_a_signature_that_cannot_be_recorded_is_refused_with_the_mend(
    tmp_path: Path, signature: str, message: str
) -> None:
    use = write(tmp_path, f"def score{signature}:\n    return 1\n")
    with pytest.raises(BadInput) as error:
        build(use, {}, tmp_path)
    assert str(error.value) == f"{use}: {message}"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"bonsu": 1}, "no parameter 'bonsu'; did you mean 'bonus'?"),
        ({"bonus": True}, "parameter 'bonus': true/false found; give a number"),
        ({"words": "a"}, "parameter 'words': text found; give a list"),
        ({"strict": "no"}, "parameter 'strict': text found; give true/false"),
    ],
)
def test_a_parameter_of_another_kind_is_refused(tmp_path: Path, params: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as error:
        build(write(tmp_path, GOOD), params, tmp_path)
    assert str(error.value) == f"python:mine.py:score: {message}"


@pytest.mark.parametrize(
    ("use", "kind", "message"),
    [
        ("python:mine.py", BadInput, "write python:path/to/file.py:function"),
        ("python:other.py:score", BadInput, "no file other.py in the workspace; give a path relative to it"),
        ("python:mine.py:scor", BadInput, "no function 'scor' in the file; did you mean 'score'?"),
        ("python:../mine.py:score", Refused, "the path leaves the workspace; put the file, or a link to it, inside"),
        ("python:/mine.py:score", Refused, "the path leaves the workspace; put the file, or a link to it, inside"),
    ],
)
def test_a_place_that_is_none_is_refused(tmp_path: Path, use: str, kind: type[EvalkitError], message: str) -> None:
    write(tmp_path, GOOD)
    with pytest.raises(kind) as error:
        build(use, {}, tmp_path)
    assert str(error.value) == f"{use}: {message}"


@pytest.mark.parametrize("text", ["def score(:", "1/0", "import nowhere_to_be_found", "raise SystemExit"])
def test_a_file_that_does_not_load_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInput, match="the file does not load: ") as error:
        build(write(tmp_path, text), {}, tmp_path)
    assert "\n" not in str(error.value)


def test_two_scorers_with_helpers_of_one_name_each_get_their_own(tmp_path: Path) -> None:
    text = "from helper_of_test import VALUE\ndef score(completion, target, item):\n    return VALUE\n"
    uses = []
    for value, folder in enumerate(("a", "b")):
        write(tmp_path, f"VALUE = {value}\n", f"{folder}/helper_of_test.py")
        uses.append(write(tmp_path, text, f"{folder}/mine.py"))
    path = list(sys.path)
    components = [build(use, {}, tmp_path) for use in uses]
    assert [evaluate(each, Response("", None, {}, None)).value for each in components] == [0.0, 1.0]
    assert sys.path == path
    assert "helper_of_test" not in sys.modules


def test_a_scorer_may_import_from_the_workspace_and_use_dataclasses(tmp_path: Path) -> None:
    write(tmp_path, "VALUE = 3\n", "rewards_of_test/util.py")
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "from rewards_of_test.util import VALUE\n"
        "@dataclass\nclass A:\n    x: int = VALUE\n"
        "def score(completion: str, target: str | None, item: dict, *, k: int = 1) -> float:\n    return A().x * k\n"
    )
    use = write(tmp_path, text, "rewards_of_test/mine.py")
    assert evaluate(build(use, {"k": 2}, tmp_path), Response("", None, {}, None)).value == 6.0
