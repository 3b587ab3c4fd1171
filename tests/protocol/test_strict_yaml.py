"""What is written is what is read, or it is refused with its row."""

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.errors import BadInput
from evalkit.protocol.strict_yaml import parse_yaml, read_yaml


def test_numbers_keep_their_literal_value() -> None:
    found = parse_yaml("a: 0.70\nb: 7e-1\nc: 3\nd: -0.5\ne: .5\nf: 1e3", "f").content
    assert found == {"a": Decimal("0.70"), "b": Decimal("0.7"), "c": 3, "d": Decimal("-0.5"), "e": Decimal("0.5"),
                     "f": Decimal("1000")}  # fmt: skip
    assert type(found["c"]) is int


def test_only_null_true_and_false_are_words() -> None:
    found = parse_yaml("[no, on, yes, 2024-01-01, 12:x, ~, null, true, False, '1', \"0.7\"]", "f").content
    assert found == ["no", "on", "yes", "2024-01-01", "12:x", None, None, True, False, "1", "0.7"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2", "f, row 2: duplicate key a (first at row 1); keep one"),
        ("x:\n  b: 1\n  b: 1", "f, row 3: duplicate key b (first at row 2); keep one"),
        ("a: &x 1\nb: 2", "f, row 1: anchor &x; remove it: aliases are not read"),
        ("a: *x", "f, row 1: an alias; write the value out"),
        ("<<: {a: 1}", "f, row 1: merge key <<; write the fields out"),
        ("a: !!str 1", "f, row 1: tag tag:yaml.org,2002:str; remove it: kinds follow from the field"),
        ("%YAML 1.1\n---\na: 1", "f, row 2: a %-directive; remove it: the file is read as YAML 1.2"),
        ("a: 1\n---\nb: 2", "f, row 2: a second document; keep one document to a file"),
        ("a: 012", "f, row 1: readers disagree about 012; write a plain decimal, or quote it"),
        ("a: 0x1F", "f, row 1: readers disagree about 0x1F; write a plain decimal, or quote it"),
        ("a: 1_000", "f, row 1: readers disagree about 1_000; write a plain decimal, or quote it"),
        ("a: 1:30", "f, row 1: readers disagree about 1:30; write a plain decimal, or quote it"),
        ("a: .nan", "f, row 1: .nan is not a finite number; give a finite one, or quote it if it is text"),
        ("a: -.inf", "f, row 1: -.inf is not a finite number; give a finite one, or quote it if it is text"),
        ("1: a", 'f, row 1: key 1 reads as int; quote it: "1"'),
        ("a: 1e999", "f, row 1: 1e999 is out of range; keep exponents within ±300"),
        ("a: b: c", "f, row 1: not YAML: mapping values are not allowed here"),
        ("", "f: the file is empty; `evalkit protocol new NAME` writes a starter"),
        ("[" * 60 + "]" * 60, "f, row 1: more than 40 levels; flatten it"),
    ],
)
def test_what_readers_disagree_about_is_refused_with_its_row(text: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        parse_yaml(text, "f")
    assert str(error.value) == message


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(b"name: caf\xe9")
    with pytest.raises(BadInput, match=r"p\.yaml: not UTF-8 at byte 9; save the file as UTF-8"):
        read_yaml(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"nope\.yaml: No such file or directory; name a protocol file in YAML"):
        read_yaml(tmp_path / "nope.yaml")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        parse_yaml(text, "f")
    except BadInput as error:
        assert "\n" not in str(error)


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=6))
def test_any_decimal_is_read_exactly(value: Decimal) -> None:
    assert parse_yaml(f"a: {format(value, 'f')}", "f").content["a"] == value
