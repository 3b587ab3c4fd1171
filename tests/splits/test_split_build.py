"""Building, restoring, extending, opening and verifying a split set."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalkit.canonical import canonical_bytes, digest_bytes
from evalkit.errors import BadInput, DiskRefused, EvalkitError, Refused
from evalkit.ledger import Ledger
from evalkit.splits import build_split, check_purpose, list_splits, load_split, resolve_reference, verify_split
from evalkit.splits import store as store_module
from evalkit.splits.secret import Secret
from evalkit.workspace import Workspace, create_workspace
from tests.splits.support import assigned, build, rows, write

SIZES = {"smoke": 5, "dev": 20, "public": 20, "private": 20, "audit": 15}
SECRET_TEXT = "5e" * 32


def said(call: Any, *args: Any, **more: Any) -> str:
    with pytest.raises(EvalkitError) as error:
        call(*args, **more)
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)
    return str(error.value)


def manifest_bytes(workspace: Workspace) -> bytes:
    return (workspace.splits / "s" / "manifest.json").read_bytes()


def everything(folder: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: content for name, content in found.items() if "ledger" not in name and not name.endswith(".lock")}


def edit_role(workspace: Workspace, role: str, change: Any) -> None:
    path = workspace.items / "s" / f"{role}.parquet"
    change(pl.read_parquet(path)).write_parquet(path)


# --- building -------------------------------------------------------------------------------------------------------


def test_a_split_has_the_sizes_asked_for_and_loads(workspace: Workspace) -> None:
    report = build(workspace, rows(100), SIZES)
    assert (report.asked, report.got, report.outcome) == (SIZES, SIZES, "built")
    assert (report.n_items, report.n_clusters, report.n_left_over) == (100, 100, 20)
    split = load_split(workspace, "s/dev")
    assert (split.name, split.set_name, split.role) == ("s/dev", "s", "dev")
    assert re.fullmatch(r"ek1:sha256:[0-9a-f]{64}", split.root)
    assert split.items.columns == ["item_id", "cluster_id", "stratum", "fields"]
    assert split.items["item_id"].is_sorted()
    item = split.items.row(0, named=True)
    expected = next(row for row in rows(100) if row["id"] == item["item_id"])
    assert json.loads(item["fields"]) == expected
    assert (item["cluster_id"], item["stratum"]) == (expected["topic"], None)


def test_the_root_of_a_published_secret_is_the_same_for_everybody(
    workspace: Workspace, demo_secret: Path, tmp_path: Path
) -> None:
    report = build(workspace, rows(30), {"dev": 10, "private": 10}, secret=demo_secret, stratify="kind")
    assert report.manifest.root == "ek1:sha256:2754f40a83b3e4b1a96dfff59634a9a8872f2d8f16f8f8fa0816dc69fe755e7e"
    assert report.manifest.secret == "demo"
    other = create_workspace(tmp_path / "other")
    assert build(other, rows(30), {"dev": 10, "private": 10}, secret=demo_secret, stratify="kind").manifest.root == (
        report.manifest.root
    )
    assert manifest_bytes(other) == manifest_bytes(workspace)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 99), per_cluster=st.integers(1, 4), rng=st.randoms(use_true_random=True))
def test_the_order_of_the_source_changes_nothing_and_no_cluster_straddles(
    tmp_path_factory: pytest.TempPathFactory, demo_secret: Path, seed: int, per_cluster: int, rng: random.Random
) -> None:
    sizes = {"dev": 12, "public": 12, "private": 12}
    source = rows(60, per_cluster)
    found = []
    for order in (source, rng.sample(source, len(source))):
        place = create_workspace(tmp_path_factory.mktemp("ws"))
        report = build(place, order, sizes, seed=seed, stratify="kind", secret=demo_secret)
        found.append(manifest_bytes(place))
        where = assigned(report, place)
        roles: dict[str, set[str]] = {}
        for row in source:
            if row["id"] in where:
                roles.setdefault(row["topic"], set()).add(where[row["id"]])
        assert all(len(mine) == 1 for mine in roles.values())
        counts = {cluster: sum(row["topic"] == cluster for row in source) for cluster in roles}
        assert sum(counts.values()) == len(where)
    assert found[0] == found[1]


def test_formatting_and_number_spelling_change_no_root(workspace: Workspace, demo_secret: Path, tmp_path: Path) -> None:
    left = [{"id": f"i{n}", "x": n / 4, "y": "a" * n} for n in range(1, 9)]
    build(workspace, left, {"dev": 8}, cluster_by=None, secret=demo_secret)
    other = create_workspace(tmp_path / "other")
    path = other.root / "source.jsonl"
    lines = [f'{{ "y": "{"a" * n}" , "x": {n * 25}e-2, "id": "i{n}"}}' for n in range(1, 9)]
    path.write_text("\n".join(lines))
    build_split(other, path, name="s", sizes={"dev": 8}, cluster_by=None, seed=7, id_field="id", secret=demo_secret)
    assert manifest_bytes(other) == manifest_bytes(workspace)


def test_csv_parquet_and_jsonl_of_the_same_texts_give_one_root(workspace: Workspace, demo_secret: Path) -> None:
    source = rows(20)
    frame = pl.DataFrame(source)
    frame.write_csv(workspace.root / "a.csv")
    frame.write_parquet(workspace.root / "a.parquet")
    write(workspace.root / "a.jsonl", source)
    manifests = [
        build_split(
            workspace,
            workspace.root / f"a.{kind}",
            name=f"s-{kind}",
            sizes={"dev": 10},
            cluster_by="topic",
            seed=1,
            id_field="id",
            secret=demo_secret,
        ).manifest
        for kind in ("csv", "parquet", "jsonl")
    ]
    assert len({manifest.root for manifest in manifests}) == 1


def test_without_an_id_field_the_id_is_the_contents_digest(workspace: Workspace) -> None:
    build(workspace, rows(20), {"dev": 10}, id_field=None)
    ids = load_split(workspace, "dev").items["item_id"].to_list()
    assert all(re.fullmatch("[0-9a-f]{32}", item_id) for item_id in ids)


def test_strata_are_kept_in_proportion(workspace: Workspace) -> None:
    source = [{**row, "kind": "rare" if number % 5 == 0 else "usual"} for number, row in enumerate(rows(100))]
    report = build(workspace, source, {"dev": 20, "private": 50}, stratify="kind")
    strata = {role: dict(entry.strata) for role, entry in report.manifest.roles.items()}
    assert strata == {"dev": {"rare": 4, "usual": 16}, "private": {"rare": 10, "usual": 40}}


def test_a_size_that_clusters_do_not_allow_is_reported(workspace: Workspace) -> None:
    report = build(workspace, rows(30, per_cluster=3), {"dev": 10, "public": 9})
    assert (report.asked["dev"], report.got["dev"]) == (10, 9)
    entry = report.manifest.roles["dev"]
    assert (entry.asked, entry.n_items, entry.n_clusters) == (10, 9, 3)


def test_one_item_is_a_split(workspace: Workspace) -> None:
    assert build(workspace, rows(1), {"dev": 1}).got == {"dev": 1}


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({}, "--sizes: empty; give ROLE=N for one or more of smoke, dev, public, private, audit"),
        (
            {"pubic": 3},
            "--sizes pubic=3: no such role (did you mean public?); one of smoke, dev, public, private, audit",
        ),
        ({"dev": 0}, "--sizes dev=0: at least 1; leave the role out where it gets no items"),
        ({"dev": 1.5}, "--sizes dev: number where a whole number belongs"),
        ({"dev": True}, "--sizes dev: true/false where a whole number belongs"),
    ],
)
def test_sizes_are_checked(workspace: Workspace, sizes: dict[str, Any], message: str) -> None:
    assert said(build, workspace, rows(9), sizes) == message


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b", "x" * 65])
def test_a_name_is_a_plain_file_name(workspace: Workspace, name: str) -> None:
    assert said(build, workspace, rows(9), {"dev": 1}, name=name) == (
        f"--name {name!r}: use up to 64 letters, digits, dots, dashes and underscores, a letter or digit first"
    )
    assert said(build, workspace, rows(9), {"dev": 1}, name="dev") == (
        "--name dev: is the name of a role; choose another"
    )


def test_too_few_items_are_refused_with_their_number(workspace: Workspace) -> None:
    message = said(build, workspace, rows(12, per_cluster=2), {"dev": 10, "public": 5})
    assert message == (
        f"{workspace.root}/source.jsonl: 12 items in 6 clusters, --sizes asks for 15; ask for fewer, or give more items"
    )
    assert not (workspace.items / "s").exists()


def test_one_cluster_larger_than_every_size_is_refused(workspace: Workspace) -> None:
    message = said(build, workspace, rows(12, per_cluster=12), {"dev": 10})
    assert message == (
        f"{workspace.root}/source.jsonl: no cluster is left that fits dev=10 (the smallest of all has 12 items); "
        "ask for more, or name a field that makes smaller clusters"
    )


def test_the_same_build_again_changes_nothing(workspace: Workspace) -> None:
    build(workspace, rows(100), SIZES)
    before = everything(workspace.root)
    shuffled = random.Random(1).sample(rows(100), 100)
    assert build(workspace, shuffled, SIZES).outcome == "unchanged"
    after = everything(workspace.root)
    del before["source.jsonl"], after["source.jsonl"]
    assert after == before
    assert len(Ledger(workspace.ledger).events("split")) == 1


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"seed": 8}, "seed, there 7, now 8"),
        ({"stratify": "kind"}, "stratify, there none, now kind"),
        ({"cluster_by": None}, "cluster_by, there topic, now none"),
        ({"text_fields": ["question"]}, "text_fields, there none, now ['question']"),
        ({"sizes": {**SIZES, "dev": 21}}, "roles.dev.asked, there 20, now 21"),
        ({"sizes": {"dev": 20}}, "roles, there audit, dev, private, public, smoke, now dev"),
    ],
)
def test_another_split_under_the_same_name_is_refused_with_the_first_difference(
    workspace: Workspace, change: dict[str, Any], fact: str
) -> None:
    build(workspace, rows(100), SIZES)
    before = everything(workspace.root)
    settings = {"sizes": SIZES, **change}
    assert said(build, workspace, rows(100), **settings) == (
        f"s: there is another split of this name: {fact}; build under another name, or add new clusters with --extend"
    )
    assert everything(workspace.root) == before


def test_changed_items_under_the_same_name_are_refused(workspace: Workspace) -> None:
    build(workspace, rows(100), SIZES)
    changed = [{**row, "answer": row["answer"] + "!"} for row in rows(100)]
    assert "another split of this name: roles.audit.root, there ek1:sha256:" in said(build, workspace, changed, SIZES)


# --- secret ---------------------------------------------------------------------------------------------------------


def test_a_fresh_clone_rebuilds_the_items_and_leaves_the_manifest(
    workspace: Workspace, demo_secret: Path, tmp_path: Path
) -> None:
    root = build(workspace, rows(100), SIZES, secret=demo_secret).manifest.root
    clone = create_workspace(tmp_path / "clone")
    (clone.splits / "s").mkdir()
    target = clone.splits / "s" / "manifest.json"
    target.write_bytes(manifest_bytes(workspace))
    os.utime(target, ns=(1, 1))
    assert said(load_split, clone, "s/dev") == (
        "s/dev: its items are not on this machine (items are never in git); build s again from the same source and secret"
    )
    assert [report.here for report in verify_split(clone, "s").roles] == [False] * 5
    report = build(clone, rows(100), SIZES, secret=demo_secret)
    assert (report.outcome, report.manifest.root) == ("restored", root)
    assert target.stat().st_mtime_ns == 1
    assert verify_split(clone, "s").ok


def test_a_clone_without_the_secret_is_refused(workspace: Workspace, demo_secret: Path, tmp_path: Path) -> None:
    build(workspace, rows(100), SIZES, secret=demo_secret)
    (workspace.items / "s" / "secret").unlink()
    assert said(build, workspace, rows(100), SIZES) == (
        "s: its secret is not on this machine, and no other gives its root; give --secret FILE"
    )
    assert said(load_split, workspace, "s/dev") == (
        f"{workspace.items}/s/secret: not there, and without it nothing can be verified; "
        "build s again from the same source with --secret FILE"
    )
    other = tmp_path / "other-secret"
    other.write_text("ab" * 32)
    assert said(build, workspace, rows(100), SIZES, secret=other) == (
        f"{other}: another secret than the one s was built with; name the file of that one"
    )


@pytest.mark.parametrize("content", ["", "5e5e", SECRET_TEXT + "00", "hello\n" + SECRET_TEXT, "é", SECRET_TEXT.upper()])
def test_a_file_that_is_no_secret_is_refused_without_its_content(
    workspace: Workspace, tmp_path: Path, content: str
) -> None:
    path = tmp_path / "secret"
    path.write_text(content)
    message = said(build, workspace, rows(9), {"dev": 1}, secret=path)
    assert message == (
        f"{path}: not a split's secret; it is one line of 64 characters 0-9 a-f, under a DEMO line if any"
    )


def test_a_secret_is_labelled_and_kept(workspace: Workspace, demo_secret: Path, tmp_path: Path) -> None:
    build(workspace, rows(9), {"dev": 1}, secret=demo_secret)
    assert (workspace.items / "s" / "secret").read_text() == demo_secret.read_text()
    plain = tmp_path / "plain"
    plain.write_text(SECRET_TEXT + "\n")
    assert build(workspace, rows(9), {"dev": 1}, secret=plain, name="p").manifest.secret == "private"
    random_ones = {build(workspace, rows(9), {"dev": 1}, name=f"r{n}").manifest.secret_digest for n in range(3)}
    assert len(random_ones) == 3


def test_the_manifest_holds_no_text_no_id_no_cluster_and_no_secret(workspace: Workspace, demo_secret: Path) -> None:
    source = [{**row, "topic": f"topic-{row['topic']}", "question": f"sesame {row['id']}"} for row in rows(100)]
    build(workspace, source, SIZES, secret=demo_secret)
    text = manifest_bytes(workspace).decode()
    for word in ("sesame", "topic-", "i00", SECRET_TEXT):
        assert word not in text
    ledger = b"".join(event.content for event in Ledger(workspace.ledger).events()).decode()
    for word in ("sesame", "topic-", "i00", SECRET_TEXT):
        assert word not in ledger
    assert SECRET_TEXT not in repr(Secret(bytes.fromhex(SECRET_TEXT), demo=False))


def test_a_digest_cannot_be_confirmed_without_the_secret(workspace: Workspace, tmp_path: Path) -> None:
    first = build(workspace, rows(20), {"private": 20})
    second = build(create_workspace(tmp_path / "other"), rows(20), {"private": 20})
    assert not set(first.manifest.roles["private"].items) & set(second.manifest.roles["private"].items)
    assert not set(first.manifest.assignment) & set(second.manifest.assignment)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(TEXT, TEXT, st.none() | TEXT, TEXT)
def test_an_item_digest_is_over_salt_and_rfc_8785_bytes(
    item_id: str, cluster: str, stratum: str | None, text: str
) -> None:
    import hmac

    item = {"item_id": item_id, "cluster_id": cluster, "stratum": stratum, "fields": text}
    salt = hmac.new(bytes.fromhex(SECRET_TEXT), b"item\x00" + item_id.encode(), "sha256").digest()
    expected = digest_bytes("split-item", salt + canonical_bytes(item))
    assert Secret(bytes.fromhex(SECRET_TEXT), demo=True).item_digest(item) == expected


def test_files_of_secret_roles_are_for_their_owner_only(workspace: Workspace) -> None:
    old = os.umask(0o000)
    try:
        build(workspace, rows(100), SIZES)
    finally:
        os.umask(old)
    folder = workspace.items / "s"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {
        ".lock": 0o600,
        "audit.parquet": 0o600,
        "dev.parquet": 0o644,
        "index.parquet": 0o600,
        "private.parquet": 0o600,
        "public.parquet": 0o644,
        "secret": 0o600,
        "smoke.parquet": 0o644,
    }


# --- opening --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "purpose", "recorded"),
    [
        ("smoke", None, "smoke"),
        ("smoke", "debug", "smoke"),
        ("dev", None, "checkpoint"),
        ("dev", "reward", "reward"),
        ("public", None, "checkpoint"),
        ("public", "report", "report"),
        ("audit", "audit", "audit"),
    ],
)
def test_purposes(role: str, purpose: str | None, recorded: str) -> None:
    assert check_purpose("s", role, purpose) == recorded


PRIVATE = (
    "s/private is for the release gate alone: `evalkit run` never opens it; use s/dev or s/public while tuning, and "
    "`evalkit gate` to release"
)
AUDIT = "s/audit is the human-label set, which tuning would wear out: it needs --purpose audit; use s/dev while tuning"


@pytest.mark.parametrize(
    ("role", "purpose", "message"),
    [
        ("private", None, PRIVATE),
        ("private", "gate", PRIVATE),
        ("private", "audit", PRIVATE),
        ("audit", None, AUDIT),
        ("audit", "checkpoint", AUDIT),
        ("dev", "gate", "--purpose gate: only `evalkit gate` opens a split for that; leave it out for s/dev"),
        (
            "dev",
            "checkpont",
            "--purpose checkpont: no such purpose (did you mean checkpoint?); one of smoke, prompt, reward, kl, "
            "checkpoint, debug, report, audit, gate",
        ),
    ],
)
def test_refused_purposes(role: str, purpose: str | None, message: str) -> None:
    assert said(check_purpose, "s", role, purpose) == message


def test_references(workspace: Workspace) -> None:
    assert said(resolve_reference, workspace, "dev") == (
        f"{workspace.root}: no split here; `evalkit split build SOURCE --name N` makes one"
    )
    build(workspace, rows(20), {"dev": 5, "private": 5}, name="first")
    assert resolve_reference(workspace, "dev") == ("first", "dev")
    assert resolve_reference(workspace, "first/private") == ("first", "private")
    assert said(resolve_reference, workspace, "first") == (
        "--split first: names no role; write first/dev or another of its roles"
    )
    assert said(resolve_reference, workspace, "div") == (
        "--split div: no such role (did you mean dev?); write NAME/ROLE with one of smoke, dev, public, private, audit"
    )
    assert said(resolve_reference, workspace, "public") == (
        "--split public: first has no role public; it has dev, private"
    )
    build(workspace, rows(20), {"dev": 5}, name="second")
    assert said(resolve_reference, workspace, "dev") == (
        "--split dev: there are 2 split sets; write one of first/dev, second/dev"
    )
    assert said(resolve_reference, workspace, "frist/dev") == (
        "--split frist/dev: no split set frist (did you mean first?); there: first, second"
    )
    assert [manifest.name for manifest in list_splits(workspace)] == ["first", "second"]


def test_resolving_a_private_reference_reads_no_items(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    build(workspace, rows(20), {"private": 5})
    monkeypatch.setattr(store_module, "_read", lambda path: pytest.fail(f"read {path}"))
    assert resolve_reference(workspace, "private") == ("s", "private")


# --- verifying ------------------------------------------------------------------------------------------------------


def test_a_split_as_built_verifies(workspace: Workspace) -> None:
    build(workspace, rows(100), SIZES)
    report = verify_split(workspace, "s")
    assert (report.ok, report.faults) == (True, [])
    assert {role.role: role.n_items for role in report.roles} == SIZES


@pytest.fixture(scope="module")
def built_once(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    workspace = create_workspace(tmp_path_factory.mktemp("ws"))
    build(workspace, rows(30), {"dev": 10, "private": 10}, stratify="kind")
    return workspace


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_changed_field_of_any_item_is_named(built_once: Workspace, data: st.DataObject) -> None:
    workspace = built_once
    role = data.draw(st.sampled_from(["dev", "private"]))
    row = data.draw(st.integers(0, 9))
    frame = load_split(workspace, f"s/{role}").items
    column = data.draw(st.sampled_from(["cluster_id", "stratum", "fields"]))
    fields = json.loads(frame["fields"][row])
    name = data.draw(st.sampled_from(sorted(fields)))
    fields[name] += "\u200b"
    value = json.dumps(fields, ensure_ascii=False) if column == "fields" else "other"
    values = frame[column].to_list()
    values[row] = value
    path = workspace.items / "s" / f"{role}.parquet"
    before = path.read_bytes()
    edit_role(workspace, role, lambda stored: stored.with_columns(pl.Series(column, values)))
    report = next(report for report in verify_split(workspace, "s").roles if report.role == role)
    item_id = frame["item_id"][row]
    assert (report.changed, report.missing, report.extra, report.root_differs) == ((item_id,), (), (), True)
    assert said(load_split, workspace, f"s/{role}").startswith(f"s/{role}: not as built: changed {item_id}; ")
    path.write_bytes(before)


def test_missing_extra_and_renamed_items_are_named(workspace: Workspace) -> None:
    build(workspace, rows(30), {"dev": 10, "public": 10})
    ids = load_split(workspace, "s/dev").items["item_id"].to_list()
    intruder = pl.DataFrame({"item_id": ["zz"], "cluster_id": ["c"], "stratum": [None], "fields": ["{}"]})
    edit_role(workspace, "dev", lambda frame: pl.concat([frame[1:], intruder.cast(dict(frame.schema))]))
    report = verify_split(workspace, "s")
    assert not report.ok
    assert report.faults == [
        f"s/dev: missing {ids[0]}",
        "s/dev: extra zz",
        "s/dev: assigned elsewhere c",
        "s/dev: its root is not the manifest's",
    ]
    assert said(load_split, workspace, "s/dev") == (
        f"s/dev: not as built: missing {ids[0]}; extra zz; assigned elsewhere c; its root is not the manifest's; "
        "build s again from the same source and secret"
    )
    assert load_split(workspace, "s/public").items.height == 10


def test_a_missing_item_is_reported_even_when_the_index_is_lost(workspace: Workspace) -> None:
    build(workspace, rows(30), {"dev": 10})
    edit_role(workspace, "dev", lambda frame: frame[1:])
    (workspace.items / "s" / "index.parquet").write_bytes(b"junk")
    (missing,) = verify_split(workspace, "s").roles[0].missing
    assert re.fullmatch("digest [0-9a-f]{12}", missing)


def test_a_damaged_file_is_refused_and_a_rebuild_restores_it(workspace: Workspace) -> None:
    build(workspace, rows(30), {"dev": 10})
    path = workspace.items / "s" / "dev.parquet"
    path.write_bytes(path.read_bytes()[:100])
    assert said(load_split, workspace, "s/dev") == (
        f"{path}: damaged; build the split again from the same source and secret"
    )
    assert build(workspace, rows(30), {"dev": 10}).outcome == "restored"
    assert verify_split(workspace, "s").ok


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda data: data["roles"]["dev"]["items"].pop(),
            "field roles.dev: edited, its root is not that of its items",
        ),
        (lambda data: data["roles"]["dev"].update(root="ek1:sha256:00"), "field roles.dev: edited, its root is not"),
        (lambda data: data.update(root="ek1:sha256:00"), "field root: edited, it is not that of the roles"),
        (lambda data: data.update(format="evalkit-split/9"), "field format: 'evalkit-split/9' is not evalkit-split/1"),
        (lambda data: data.pop("seed"), "not a complete manifest; restore it from git"),
        (lambda data: data["roles"]["dev"].update(items=["xyz"]), "not a complete manifest; restore it from git"),
    ],
)
def test_an_edited_manifest_is_refused(workspace: Workspace, change: Any, message: str) -> None:
    build(workspace, rows(30), {"dev": 10})
    path = workspace.splits / "s" / "manifest.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    found = said(load_split, workspace, "s/dev")
    assert found.startswith(str(path))
    assert message in found
    path.write_text("{")
    assert said(load_split, workspace, "s/dev").startswith(f"{path}: not JSON")


def test_an_edited_assignment_is_found(workspace: Workspace) -> None:
    build(workspace, rows(30), {"dev": 10, "public": 10})
    path = workspace.splits / "s" / "manifest.json"
    data = json.loads(path.read_text())
    data["assignment"] = dict.fromkeys(data["assignment"], "public")
    path.write_text(json.dumps(data))
    faults = verify_split(workspace, "s").faults
    assert len(faults) == 1
    assert faults[0].startswith("s/dev: assigned elsewhere t")


# --- extending ------------------------------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 99), per_cluster=st.integers(1, 3), grow=st.integers(0, 15), whole=st.booleans())
def test_extending_never_moves_an_old_item(
    tmp_path_factory: pytest.TempPathFactory, seed: int, per_cluster: int, grow: int, whole: bool
) -> None:
    workspace = create_workspace(tmp_path_factory.mktemp("ws"))
    before = build(workspace, rows(60, per_cluster), {"dev": 12, "public": 12}, seed=seed)
    old = assigned(before, workspace)
    new = rows(90, per_cluster)[0 if whole else 60 :]
    # what was left over before has no place yet and may be placed now
    sizes = {"dev": 12 + grow, "public": 12, "private": 6}
    after = build(workspace, new, sizes, seed=seed, extend=True)
    now = assigned(after, workspace)
    assert all(now[item_id] == role for item_id, role in old.items())
    assert set(before.manifest.assignment.items()) <= set(after.manifest.assignment.items())
    if per_cluster == 1:
        assert after.got == sizes
    assert verify_split(workspace, "s").ok
    topics: dict[str, set[str]] = {}
    for row in rows(90, per_cluster):
        if row["id"] in now:
            topics.setdefault(row["topic"], set()).add(now[row["id"]])
    assert all(len(roles) == 1 for roles in topics.values())


def test_extending_by_nothing_changes_nothing(workspace: Workspace) -> None:
    build(workspace, rows(60), {"dev": 12, "public": 12})
    before = manifest_bytes(workspace)
    assert build(workspace, rows(60), {"dev": 12, "public": 12}, extend=True).outcome == "unchanged"
    assert manifest_bytes(workspace) == before


@pytest.fixture
def extendable(workspace: Workspace) -> Workspace:
    build(workspace, rows(30, per_cluster=3), {"dev": 15, "public": 15})
    return workspace


def extend(workspace: Workspace, source: list[dict[str, Any]], sizes: Mapping[str, int], **more: Any) -> str:
    before = manifest_bytes(workspace)
    message = said(build, workspace, source, sizes, extend=True, **more)
    assert manifest_bytes(workspace) == before
    assert verify_split(workspace, "s").ok
    return message.replace(f"{workspace.root}/source.jsonl", "FILE")


def test_a_changed_old_item_is_named(extendable: Workspace) -> None:
    source = rows(60, per_cluster=3)
    source[4]["answer"] = "changed"
    role = assigned_role(extendable, "i0004")
    assert extend(extendable, source, {"dev": 30}) == (
        f"FILE: items were changed since the split was built: i0004 ({role}); restore them, or build under another name"
    )
    source = rows(60, per_cluster=3)
    source[4]["topic"] = "t19"
    assert "items were changed since the split was built: i0004" in extend(extendable, source, {"dev": 30})


def assigned_role(workspace: Workspace, item_id: str) -> str:
    return next(role for role in ("dev", "public") if item_id in load_split(workspace, f"s/{role}").items["item_id"])


def test_a_new_item_in_an_old_cluster_is_named(extendable: Workspace) -> None:
    source = rows(60, per_cluster=3)
    source[50]["topic"] = "t2"
    assert extend(extendable, source, {"dev": 30}) == (
        f"FILE: items are new in clusters that are placed already, or were changed: i0050 (cluster t2, "
        f"{assigned_role(extendable, 'i0006')}); --extend takes new clusters only: restore these items, or give them a "
        "cluster of their own"
    )


def test_other_refusals_of_extending(extendable: Workspace) -> None:
    source = rows(60, per_cluster=3)
    assert extend(extendable, source, {"dev": 10}) == (
        "--sizes dev=10: dev has 15 items, and --extend takes none away; ask for 15 or more"
    )
    assert extend(extendable, source, {"dev": 100}) == (
        "FILE: 30 items in 10 clusters are new, --sizes asks for 85; ask for fewer, or give more items"
    )
    assert extend(extendable, source, {"dev": 30}, seed=8) == (
        "s: cannot be extended with other settings: seed, there 7, now 8; extend it as it was built"
    )
    assert extend(extendable, source, {"dev": 30}, stratify="kind") == (
        "s: cannot be extended with other settings: stratify, there none, now kind; extend it as it was built"
    )
    assert said(build, extendable, source, {"dev": 30}, name="none", extend=True) == (
        "none: no split of this name to extend; leave --extend out to build it"
    )


def test_a_new_item_that_overlaps_an_old_one_is_refused(extendable: Workspace) -> None:
    source = rows(60, per_cluster=3)
    for row in source[30:]:
        row.update(question=source[0]["question"], answer=source[0]["answer"], kind=source[0]["kind"])
    there = assigned_role(extendable, "i0000")
    other = "public" if there == "dev" else "dev"
    message = extend(extendable, source[30:33], {other: 18})
    assert message.startswith(
        f"s: 3 pairs of items overlap across roles: i0000 ({there}) and i0030 ({other}) have the same"
    )
    message = extend(extendable, source[30:33], {other: 18}, merge_overlaps=True)
    assert message == (
        f"new items overlap items that are placed already: i0030 and i0000 ({there}) have the same text; "
        f"i0031 and i0000 ({there}) have the same text; i0032 and i0000 ({there}) have the same text; "
        "--extend never changes an old cluster: leave these items out"
    )


def test_a_merged_split_extends_from_the_whole_source(workspace: Workspace) -> None:
    source = rows(60)
    for number in range(10):
        source[30 + number].update(question=source[number]["question"], answer="1", kind="same")
        source[number].update(answer="1", kind="same")
    first = build(workspace, source[:40], {"dev": 10, "public": 10}, merge_overlaps=True)
    assert first.manifest.merged
    old = assigned(first, workspace)
    after = build(workspace, source, {"dev": 15, "public": 15}, merge_overlaps=True, extend=True)
    now = assigned(after, workspace)
    assert {item_id: now[item_id] for item_id in old} == old
    assert after.got == {"dev": 15, "public": 15}


# --- interruption and disk ------------------------------------------------------------------------------------------


def leftovers(workspace: Workspace) -> list[str]:
    return [
        path.name for path in workspace.root.rglob("*") if path.name.endswith(".tmp") or path.name.startswith("next-")
    ]


@pytest.mark.parametrize("extending", [False, True])
@pytest.mark.parametrize("fails_at", range(12))
def test_a_full_disk_leaves_the_old_split_whole(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, fails_at: int, extending: bool
) -> None:
    if extending:
        build(workspace, rows(40), {"dev": 10, "private": 10})
    before = everything(workspace.items) | everything(workspace.splits)
    calls = 0
    sync = os.fsync

    def full(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls == fails_at + 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(handle)

    monkeypatch.setattr(os, "fsync", full)
    try:
        build(workspace, rows(40), {"dev": 15, "private": 15}, extend=extending)
    except DiskRefused as refusal:
        assert refusal.exit_code == 74
        assert "No space left on device; free or unlock the disk, then run the same command again" in str(refusal)
    monkeypatch.undo()
    after = everything(workspace.items) | everything(workspace.splits)
    if after.keys() == before.keys() and after == before:
        assert leftovers(workspace) == []
    else:  # the manifest was in place: the new split holds
        assert verify_split(workspace, "s").ok
        assert {role: entry.n_items for role, entry in list_splits(workspace)[0].roles.items()} == {
            "dev": 15,
            "private": 15,
        }
        assert leftovers(workspace) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.splits.support import build, rows
from evalkit.workspace import Workspace
at, calls = int(sys.argv[2]), 0
replace = os.replace
def killing(a, b):
    global calls
    calls += 1
    if calls == at:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(a, b)
os.replace = killing
build(Workspace(Path(sys.argv[1])), rows(40), {"dev": 15, "private": 15}, extend=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("at", range(1, 11))
def test_a_build_that_is_killed_leaves_the_old_split_or_the_new(workspace: Workspace, at: int) -> None:
    build(workspace, rows(40), {"dev": 10, "private": 10})
    old = manifest_bytes(workspace)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(workspace.root), str(at)], cwd=root, check=False, capture_output=True
    )
    assert done.returncode in (0, -9), done.stderr
    size = 10 if manifest_bytes(workspace) == old else 15
    assert load_split(workspace, "s/private").items.height == size
    assert verify_split(workspace, "s").ok
    build(workspace, rows(40), {"dev": 15, "private": 15}, extend=True)
    assert verify_split(workspace, "s").ok
    assert leftovers(workspace) == []
    assert len(Ledger(workspace.ledger).events("split")) >= 1


def test_a_second_build_at_once_is_refused(workspace: Workspace) -> None:
    with store_module.building(workspace, "s"):
        assert said(build, workspace, rows(9), {"dev": 1}) == (
            f"{workspace.items}/s: another build of s is running; wait for it"
        )


def test_the_ledger_records_a_build(workspace: Workspace) -> None:
    report = build(workspace, rows(30), {"dev": 10})
    (event,) = Ledger(workspace.ledger).events()
    assert (event.event, event.split) == ("split", "s")
    assert event.details == {
        "what": "built",
        "root": report.manifest.root,
        "roots": {"dev": report.manifest.roles["dev"].root},
        "secret": "private",
    }


def test_a_build_whose_event_was_lost_is_recorded_by_the_next(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "append", lambda self, event: (_ for _ in ()).throw(DiskRefused("full")))
        with pytest.raises(DiskRefused):
            build(workspace, rows(30), {"dev": 10})
    assert build(workspace, rows(30), {"dev": 10}).outcome == "unchanged"
    assert [event.details["what"] for event in Ledger(workspace.ledger).events("split")] == ["unchanged"]


@pytest.mark.slow
def test_200_000_items_of_60_words_are_split_in_less_than_a_minute(workspace: Workspace) -> None:
    import time

    rng = random.Random(0)
    words = [f"w{number}" for number in range(50_000)]
    source = [
        {"id": f"i{number}", "topic": number, "q": " ".join(rng.choices(words, k=60))} for number in range(200_000)
    ]
    source[1]["q"] = source[0]["q"] + " and more"
    start = time.monotonic()
    report = build(workspace, source, {"dev": 50_000, "private": 150_000}, merge_overlaps=True)
    assert time.monotonic() - start < 60
    assert (report.n_clusters, dict(report.merged)) == (199_999, {"1": "0"})


def test_stored_fields_read_back_with_orjson(workspace: Workspace) -> None:
    build(workspace, [{"id": "a", "x": 0.25, "n": 2**63, "q": "\u2028"}], {"dev": 1}, cluster_by=None)
    assert orjson.loads(load_split(workspace, "dev").items["fields"][0]) == {
        "id": "a",
        "x": 0.25,
        "n": 2**63,
        "q": "\u2028",
    }


def test_errors_are_of_the_kinds_a_user_can_cause(workspace: Workspace) -> None:
    with pytest.raises(BadInput):
        build(workspace, [], {"dev": 1})
    with pytest.raises(Refused):
        build(workspace, rows(1), {"dev": 2})
