"""Sources: what is read, and the wording of every fault."""

from __future__ import annotations

import json
import sys
import types
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.errors import BadInput, Refused
from evalkit.splits import read as read_module
from evalkit.splits.content import content_id, plain, row_text
from evalkit.splits.items import Naming, read_items
from evalkit.splits.read import read_rows

PLAIN = Naming("id", None, None, None)


def jsonl(tmp_path: Path, content: bytes | str) -> Path:
    path = tmp_path / "items.jsonl"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refusal(source: Path | str, naming: Naming = PLAIN) -> str:
    with pytest.raises((BadInput, Refused)) as error:
        read_items(source, naming)
    return str(error.value).replace(str(source), "FILE")


def fields(path: Path) -> list[dict[str, Any]]:
    return [row.fields for row in read_rows(path)]


def test_jsonl_is_split_on_newline_only(tmp_path: Path) -> None:
    path = jsonl(tmp_path, '{"id":"a\u2028b\u2029\x85\x0c"}\r\n\n{"id":"c"}'.replace("\x0c", "\\f"))
    assert [(row.number, row.fields["id"]) for row in read_rows(path)] == [(1, "a\u2028b\u2029\x85\x0c"), (3, "c")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "FILE: no items in it; give a source with at least one row"),
        (b"\n\n", "FILE: no items in it; give a source with at least one row"),
        (b'\xef\xbb\xbf{"id":"a"}', "FILE, row 1: begins with a byte-order mark; save it as UTF-8 without one"),
        (b'{"id":"a"}\n{"id":"\xff"}', "FILE, row 2: not UTF-8 at byte 8; save it as UTF-8"),
        (
            b'{"id":"a"}\n{"id" "b"}',
            "FILE, row 2: not JSON at character 7 (Expecting ':' delimiter); write one object to a line",
        ),
        (b'["a"]', "FILE, row 1: list where an object belongs; write one object to a line"),
        (b'"sesame"', "FILE, row 1: text where an object belongs; write one object to a line"),
        (b'{"id":"a","x":{"k":1,"k":2}}', "FILE, row 1: field k stands twice in one object; keep one"),
        (b'{"id":"a","x":NaN}', "FILE, row 1: NaN is not JSON; use null where there is no value"),
        (b'{"id":"a","x":-Infinity}', "FILE, row 1: -Infinity is not JSON; use null where there is no value"),
        (b'{"id":"a","x":1e400}', "FILE, row 1: a number beyond 1e±300; write it as text"),
        (b'{"id":"a","x":18446744073709551616}', "FILE, row 1: a whole number beyond 64 bits; write it as text"),
        (b'{"id":"a","x":' + b"9" * 5000 + b"}", "FILE, row 1: a whole number beyond 64 bits; write it as text"),
        (
            b'{"id":"a","x":"\\ud800"}',
            "FILE, row 1: half of a surrogate pair (such as \\ud800) in a text; correct the encoding",
        ),
        (b'{"id":"a","x":' + b"[" * 300 + b"]" * 300 + b"}", "FILE, row 1: more than 250 levels; flatten it"),
        (b'{"id":"a","x":' + b"[" * 9999 + b"]" * 9999 + b"}", "FILE, row 1: more than 250 levels; flatten it"),
        (b'{"id":null}', "FILE, row 1, field id: null where text belongs; name it with text"),
        (b'{"id":1.5}', "FILE, row 1, field id: decimal number where text belongs; name it with text"),
        (b'{"id":true}', "FILE, row 1, field id: true/false where text belongs; name it with text"),
        (b'{"id":["a"]}', "FILE, row 1, field id: list where text belongs; name it with text"),
        (b'{"id":""}', "FILE, row 1, field id: empty text; fill it in"),
        (
            b'{"id":"a"}\n\n{"id":"a"}',
            "FILE, row 3, field id: id a stands at row 1 already; give every item its own id",
        ),
        (
            b'{"id":"a"}\n{"idd":"b","q":1}',
            "FILE, row 2, field id: not there (did you mean idd?); its fields are idd, q",
        ),
        (b'{"id":"a"}\n{}', "FILE, row 2, field id: not there; its fields are none"),
    ],
)
def test_faults_of_jsonl_name_file_row_and_mend(tmp_path: Path, content: bytes, message: str) -> None:
    assert refusal(jsonl(tmp_path, content)) == message


@pytest.mark.parametrize("where", ["cluster_by", "stratify"])
def test_a_missing_cluster_or_stratum_field_suggests_the_nearest(tmp_path: Path, where: str) -> None:
    path = jsonl(tmp_path, '{"id":"a","topic":"t"}')
    naming = Naming(**{"id_field": "id", "cluster_by": None, "stratify": None, "text_fields": None, where: "topik"})
    message = "FILE, row 1, field topik: not there (did you mean topic?); its fields are id, topic"
    assert refusal(path, naming) == message


def test_a_missing_text_field_suggests_the_nearest(tmp_path: Path) -> None:
    naming = Naming("id", None, None, ("questions",))
    path = jsonl(tmp_path, '{"id":"a","question":"t"}')
    assert refusal(path, naming) == (
        "FILE, row 1, field questions: not there (did you mean question?); its fields are id, question"
    )


def test_the_same_content_twice_without_an_id_field_names_both_rows(tmp_path: Path) -> None:
    path = jsonl(tmp_path, '{"q":0.7,"r":1}\n{"r":1.0,"q":7e-1}')
    assert refusal(path, Naming(None, None, None, None)) == (
        "FILE, row 2, field id: the same content stands at row 1 already; keep one of them, or name an id field"
    )


def test_whole_numbers_are_ids_and_clusters_by_their_text(tmp_path: Path) -> None:
    path = jsonl(tmp_path, '{"id":7,"c":3}\n{"id":"8","c":"3"}')
    items = read_items(path, Naming("id", "c", None, None))
    assert items["item_id"].to_list() == ["7", "8"]
    assert items["cluster_id"].to_list() == ["3", "3"]


def test_messages_hold_no_value_of_a_row(tmp_path: Path) -> None:
    for content in ('{"id":"a","x":"sesame"', '"sesame"', '{"id":["sesame"]}', '{"id":"a","x":NaN,"y":"sesame"}'):
        assert "sesame" not in refusal(jsonl(tmp_path, content))


def test_a_line_of_50_mb_is_read(tmp_path: Path) -> None:
    path = jsonl(tmp_path, '{"id":"a","q":"' + "x" * 50_000_000 + '"}\n{"id":"b","q":""}')
    assert read_items(path, PLAIN)["fields"].str.len_bytes().to_list() == [50_000_017, 17]


def test_a_longer_line_is_refused_with_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = jsonl(tmp_path, '{"id":"a"}\n{"id":"b","q":"' + "x" * 2**20 + '"}')
    monkeypatch.setattr(read_module, "MAX_LINE", 2**20)
    assert refusal(path) == "FILE, row 2: longer than 1 MiB; an item this long is no prompt"
    assert 64 * 2**20 > 50_000_000


def test_a_file_that_is_not_there_or_of_unknown_kind(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.jsonl") == (
        "FILE: no such file; name a .jsonl, .ndjson, .csv or .parquet file, or a Hugging Face data set as "
        "ID@REVISION:SPLIT"
    )
    (tmp_path / "items.txt").write_text("x")
    assert refusal(tmp_path / "items.txt") == (
        "FILE: a file of unknown kind; name a .jsonl, .ndjson, .csv or .parquet file"
    )


def test_csv_cells_are_text_as_written(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_bytes(b'id,q,n\r\na,"two\nlines, and ""quotes""",0.70\r\nb,,007\r\n')
    assert fields(path) == [
        {"id": "a", "q": 'two\nlines, and "quotes"', "n": "0.70"},
        {"id": "b", "q": "", "n": "007"},
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "FILE: no items in it; give a source with at least one row"),
        (b"id,q\n", "FILE: no items in it; give a source with at least one row"),
        (b"\xef\xbb\xbfid\na\n", "FILE, row 1: begins with a byte-order mark; save it as UTF-8 without one"),
        (b"id;q\na;b\n", "FILE, row 1: one heading, parted by ';'; save the table with commas"),
        (b"id\tq\na\tb\n", r"FILE, row 1: one heading, parted by '\t'; save the table with commas"),
        (b"id,id\na,b\n", "FILE, row 1: heading id stands twice; keep one"),
        (b"id,\na,b\n", "FILE, row 1: column 2 has no heading; name it"),
        (b"id,q\na,b\nc,d,e\n", "FILE, row 3: 3 cells under 2 headings; quote commas"),
        (b"id,q\na,\xff\n", "FILE, row 2: not UTF-8 at byte 3; save it as UTF-8"),
        (b'id,q\na,"b\n', "FILE, row 2: not CSV (unexpected end of data); correct its quotes, or use JSONL"),
        (b"id,q\n,b\n", "FILE, row 2, field id: empty text; fill it in"),
    ],
)
def test_faults_of_csv_name_file_and_row(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "items.csv"
    path.write_bytes(content)
    assert refusal(path) == message


def test_parquet_keeps_kinds_and_floats_by_their_shortest_text(tmp_path: Path) -> None:
    path = tmp_path / "items.parquet"
    pl.DataFrame(
        {
            "id": ["a"],
            "x": [0.1],
            "n": [3],
            "none": pl.Series([None], dtype=pl.String),
            "when": [date(2026, 7, 1)],
            "chat": [[{"role": "user", "content": "hi", "w": 2.0}]],
            "exact": [Decimal("1.50")],
        }
    ).write_parquet(path)
    assert read_items(path, PLAIN)["fields"].to_list() == [
        '{"chat":[{"content":"hi","role":"user","w":2}],"exact":1.5,"id":"a","n":3,"none":null,'
        '"when":"2026-07-01","x":0.1}'
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, float("nan")], "FILE, row 2, field x: NaN or infinity; use null where there is no value"),
        ([1.0, float("-inf")], "FILE, row 2, field x: NaN or infinity; use null where there is no value"),
        (
            [b"", b"sesame"],
            "FILE, row 1, field x: bytes where text, numbers, lists or objects belong; convert it to text",
        ),
        (
            [[{"v": 1.0}], [{"v": float("nan")}]],
            "FILE, row 2, field x[0].v: NaN or infinity; use null where there is no value",
        ),
    ],
)
def test_faults_of_parquet_name_row_and_field(tmp_path: Path, values: list[Any], message: str) -> None:
    path = tmp_path / "items.parquet"
    pl.DataFrame({"id": ["a", "b"], "x": values}).write_parquet(path)
    assert refusal(path) == message


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "items.parquet"
    path.write_bytes(b"PAR1 sesame")
    assert refusal(path) == "FILE: not readable as Parquet; write it again"


def test_the_text_of_a_row_depends_on_its_values_alone(tmp_path: Path) -> None:
    spellings = [
        '{"a":0.70,"b":[1.0,-0.0,1e2],"c":{"y":"é","x":null}}',
        '{ "c": {"x":null, "y":"\\u00e9"}, "b":[1, 0, 100], "a": 7e-1 }',
    ]
    texts = {row_text(row.fields) for row in read_rows(jsonl(tmp_path, "\n".join(spellings)))}
    assert texts == {'{"a":0.7,"b":[1,0,100],"c":{"x":null,"y":"é"}}'}
    assert content_id(texts.pop()) == "29824aeee7c826b98a5f0d368318ead2"


def test_numbers_are_exact_and_differ_from_their_text(tmp_path: Path) -> None:
    long = "0.12345678901234567890123456789012345678901"
    lines = [f'{{"x":{long}}}', f'{{"x":{long}2}}', f'{{"x":"{long}"}}', '{"x":1e-7}', '{"x":-1.50e3}']
    texts = [row_text(row.fields) for row in read_rows(jsonl(tmp_path, "\n".join(lines)))]
    assert texts == [f'{{"x":{long}}}', f'{{"x":{long}2}}', f'{{"x":"{long}"}}', '{"x":0.0000001}', '{"x":-1500}']


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), JSON, max_size=4))
def test_the_text_of_a_row_reads_back_as_the_row(row: dict[str, Any]) -> None:
    try:
        text = row_text(row)
    except ValueError:
        assert any(0xD800 <= ord(letter) < 0xE000 for letter in json.dumps(row, ensure_ascii=False))
        return
    assert json.loads(text) == row


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300))
def test_a_float_comes_back_as_the_same_double(value: float) -> None:
    if value == 0 or abs(value) > 1e-300:
        assert float(json.loads(row_text(plain({"x": value})))["x"]) == value


class FakeData(list[dict[str, Any]]):
    pass


def fake_datasets(monkeypatch: pytest.MonkeyPatch, version: str, data: Any) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []
    module = types.ModuleType("datasets")
    module.__version__ = version  # type: ignore[attr-defined]
    module.load_dataset = lambda *args, **more: calls.append((args, more)) or data  # type: ignore[attr-defined, func-returns-value]
    module.load_from_disk = lambda *args, **more: calls.append((args, more)) or data  # type: ignore[attr-defined, func-returns-value]
    monkeypatch.setitem(sys.modules, "datasets", module)
    return calls


HUB_ID = "org/name@" + "0f" * 20 + ":test"


@pytest.mark.parametrize(("version", "code"), [("3.6.0", {"trust_remote_code": False}), ("4.1.0", {})])
def test_a_pinned_hub_id_is_read_without_its_code(
    monkeypatch: pytest.MonkeyPatch, version: str, code: dict[str, bool]
) -> None:
    data = FakeData([{"id": "a", "x": 0.5, "t": datetime(2026, 7, 1, tzinfo=UTC)}])
    calls = fake_datasets(monkeypatch, version, data)
    assert read_items(HUB_ID, PLAIN)["fields"].to_list() == ['{"id":"a","t":"2026-07-01T00:00:00+00:00","x":0.5}']
    assert calls == [(("org/name",), {"revision": "0f" * 20, "split": "test", **code})]


@pytest.mark.parametrize("source", ["org/name@main:test", "org/name:test", "gsm8k@abc:test", "org/name@" + "0F" * 20])
def test_an_unpinned_hub_id_is_refused(monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    calls = fake_datasets(monkeypatch, "4.0.0", FakeData())
    assert refusal(source) == (
        "FILE: not pinned to a revision, so its items can change; name the 40 hex characters of a commit: "
        "ID@REVISION:SPLIT"
    )
    assert calls == []


def test_a_hub_id_without_a_split_is_refused() -> None:
    assert refusal("org/name@" + "0f" * 20) == "FILE: names no split; write FILE:SPLIT"


def test_without_the_extra_the_mend_is_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert refusal(HUB_ID) == "Hugging Face data sets need the extra: pip install 'evalkit-rl[hf]'"


def test_a_folder_with_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fake_datasets(monkeypatch, "3.0.0", FakeData())
    (tmp_path / "build.py").write_text("print('pwned')")
    assert refusal(tmp_path) == (
        "FILE: holds code (build.py), which is never run; keep its data files in a folder alone"
    )
    assert calls == []


def test_a_folder_of_several_splits_needs_one_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_datasets(monkeypatch, "4.0.0", {"train": FakeData([{"id": "a"}]), "test": FakeData([{"id": "b"}])})
    assert read_items(f"{tmp_path}:test", PLAIN)["item_id"].to_list() == ["b"]
    assert refusal(tmp_path) == "FILE: several splits; name one of train, test as FILE:SPLIT"
    message = refusal(f"{tmp_path}:tset").replace(str(tmp_path), "FOLDER")
    assert message == "FOLDER: no split tset (did you mean test?); name one of train, test as FOLDER:SPLIT"
