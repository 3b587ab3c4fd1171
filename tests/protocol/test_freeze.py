"""Freezing: once, beside the file, and never again with other content."""

import json
from pathlib import Path

import pytest

from evalkit.errors import BadInput, Refused
from evalkit.protocol import differences, find_lock, freeze_file, load_lock, load_protocol
from tests.protocol.specs import FULL, changed, lock_of, resolver, to_yaml


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "full.yaml"
    path.write_text(to_yaml(FULL))
    return path


def test_freezing_writes_the_lock_beside_the_file(source: Path) -> None:
    lock, path, written = freeze_file(source, resolver)
    assert (path.name, written) == ("full.v3.lock.json", True)
    assert load_lock(path).digests == lock.digests


def test_freezing_the_same_content_again_writes_nothing(source: Path) -> None:
    _, path, _ = freeze_file(source, resolver)
    before = path.read_bytes(), path.stat().st_mtime_ns
    source.write_text("# another comment\n" + to_yaml(FULL).replace("0.7,", "7e-1,"))
    assert freeze_file(source, resolver)[2] is False
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_changed_content_under_the_same_version_is_refused_with_the_fields(source: Path) -> None:
    _, path, _ = freeze_file(source, resolver)
    before = path.read_bytes()
    source.write_text(to_yaml(changed("sampling.max_tokens", 64)))
    with pytest.raises(Refused) as error:
        freeze_file(source, resolver)
    assert str(error.value) == (
        f"{source}: full@3 is frozen with other content: sampling.max_tokens 48 → 64; set version: 4"
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("digest", "edit"),
    [
        ("generation", lambda spec: spec["sampling"].update(max_tokens=49)),
        ("scoring", lambda spec: spec["success"].update(at_least="0.5")),
        ("protocol", lambda spec: spec.update(truncation="no_verdict")),
    ],
)
def test_a_lock_edited_by_hand_is_refused(source: Path, digest: str, edit) -> None:  # type: ignore[no-untyped-def]
    path = freeze_file(source, resolver)[1]
    content = json.loads(path.read_text())
    edit(content["spec"])
    path.write_text(json.dumps(content))
    with pytest.raises(BadInput) as error:
        load_lock(path)
    assert str(error.value) == (
        f"{path}, field digests.{digest}: the content was changed after freezing; restore the file, or freeze the "
        "change as a new version"
    )


def test_differences_name_every_field_and_its_digest() -> None:
    found = differences(lock_of(FULL), lock_of(changed("sampling.stop", ["x"])))
    assert [(item.field, item.part, item.left, item.right) for item in found] == [
        ("sampling.stop", "generation", ["\n\n", "0.7"], ["x"])
    ]


def test_a_protocol_is_found_by_name_where_it_has_one_version(source: Path) -> None:
    freeze_file(source, resolver)
    assert load_protocol(source.parent, "full").id == "full@3"
    source.write_text(to_yaml(changed("version", 4)))
    freeze_file(source, resolver)
    with pytest.raises(BadInput, match="protocol full has versions 3, 4; name one as full@VERSION"):
        find_lock(source.parent, "full")


def test_an_unknown_protocol_is_refused_with_those_there_are(source: Path) -> None:
    freeze_file(source, resolver)
    with pytest.raises(BadInput) as error:
        find_lock(source.parent, "fool@1")
    assert str(error.value) == (
        f"no frozen protocol fool@1 in {source.parent} (there: full@3); `evalkit protocol freeze FILE` makes one"
    )


def test_a_yaml_file_is_not_run_unfrozen(source: Path) -> None:
    with pytest.raises(BadInput, match="a protocol runs only when frozen"):
        find_lock(source.parent, str(source))
