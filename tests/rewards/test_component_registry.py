"""Names, parameters and what a lock holds of a component."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import BadInput
from evalkit.rewards import NAMES, build, resolve
from evalkit.rewards.parameters import coerce


def refusal_of(use: str, params: dict[str, Any]) -> str:
    with pytest.raises(BadInput) as error:
        build(use, params, Path())
    return str(error.value)


def test_an_unknown_component_is_refused_with_the_nearest() -> None:
    assert refusal_of("nubmer", {}) == (
        "component 'nubmer': unknown; did you mean 'number'?; your own is python:FILE.py:FUNCTION"
    )


def test_there_are_eleven_components() -> None:
    assert sorted(NAMES) == [
        "choice",
        "conciseness",
        "constraints",
        "exact",
        "formatting",
        "json_schema",
        "math",
        "number",
        "refusal",
        "regex",
        "repetition",
    ]


@pytest.mark.parametrize(
    ("use", "params", "message"),
    [
        ("exact", {"strip": 1}, "component exact: strip: whole number found; give true/false"),
        ("repetition", {"n": True}, "component repetition: n: true/false found; give a whole number"),
        ("repetition", {"n": "2.5"}, "component repetition: n: 2.5 is not whole; give a whole number"),
        ("repetition", {"n": None}, "component repetition: n: null found; give a whole number"),
        (
            "repetition",
            {"n": float("nan")},
            "component repetition: n: not a finite number of sensible size; give a whole number",
        ),
        (
            "repetition",
            {"n": "1e999999999"},
            "component repetition: n: not a finite number of sensible size; give a whole number",
        ),
        ("choice", {"letters": "AB"}, "component choice: letters: text found; give a list"),
        ("choice", {"letters": ["A", 1]}, "component choice: letters[1]: whole number found; give text"),
        ("json_schema", {"schema": 5}, "component json_schema: schema: whole number found; give an object"),
    ],
)
def test_a_parameter_of_another_kind_is_refused(use: str, params: dict[str, Any], message: str) -> None:
    assert refusal_of(use, params) == message


def test_resolved_parameters_hold_every_default_in_canonical_kinds() -> None:
    resolved = resolve("number", {"tolerance": 0.1, "marker": "A:"}, Path())
    assert resolved.params == {"marker": "A:", "target_marker": None, "tolerance": Decimal("0.1")}
    assert resolved.declared_range == (Decimal(0), Decimal(1))
    assert resolved.source.startswith("ek1:sha256:")
    assert resolve("choice", {}, Path()).params["letters"] == ["A", "B", "C", "D"]


@pytest.mark.parametrize("spelling", ["0.70", "7e-1", Decimal("0.7"), 0.7])
def test_spelling_of_a_number_changes_nothing(spelling: object) -> None:
    assert resolve("number", {"tolerance": spelling}, Path()) == resolve("number", {"tolerance": "0.7"}, Path())


def test_resolved_parameters_build_the_same_component_again() -> None:
    params = {"schema": {"type": "number", "maximum": Decimal("1.5"), "enum": [1, None]}}
    resolved = resolve("json_schema", params, Path()).params
    assert resolved == params
    assert resolve("json_schema", resolved, Path()).params == resolved


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ("0.1", float, 0.1),
        (Decimal("2"), int, 2),
        (3, float, 3.0),
        ("3", int, 3),
        (None, str | None, None),
        ([1, "2"], list[int], [1, 2]),
        (("a",), tuple[str, ...], ("a",)),
    ],
)
def test_kinds_are_coerced_by_what_is_declared(value: object, kind: object, expected: object) -> None:
    found = coerce(value, kind, "x")
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("use", "module", "name", "message"),
    [
        (
            "math",
            "evalkit.rewards.math_answer",
            "math_verify",
            "component math: needs the package math-verify; pip install 'evalkit-rl[math]'",
        ),
        (
            "constraints",
            "evalkit.rewards.language",
            "DetectorFactory",
            "component constraints: needs the package langdetect; pip install 'evalkit-rl[constraints]'",
        ),
    ],
)
def test_a_missing_extra_is_bad_input_that_names_it(
    monkeypatch: pytest.MonkeyPatch, use: str, module: str, name: str, message: str
) -> None:
    monkeypatch.setattr(f"{module}.{name}", None)
    assert refusal_of(use, {}) == message
