"""Overlap: what counts as the same text, 13 words in a row, boilerplate, and merging."""

from __future__ import annotations

import json
import random
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.errors import Refused
from evalkit.splits import load_split
from evalkit.splits.items import Naming
from evalkit.splits.overlap import Overlaps, boilerplate_limit, find_overlaps, merged_clusters, normalised, pairs_across
from evalkit.workspace import Workspace
from tests.splits.support import assigned, build, rows

NAMING = Naming("id", "topic", None, None)
THIRTEEN = "one two three four five six seven eight nine ten eleven twelve thirteen"


def frame(texts: list[Any], clusters: list[str] | None = None) -> pl.DataFrame:
    names = clusters or [f"c{number}" for number in range(len(texts))]
    return pl.DataFrame(
        {
            "item_id": [f"i{number:05d}" for number in range(len(texts))],
            "cluster_id": names,
            "stratum": pl.Series([None] * len(texts), dtype=pl.String),
            "fields": [json.dumps(text if isinstance(text, dict) else {"q": text}) for text in texts],
        }
    )


def found(items: pl.DataFrame, naming: Naming = NAMING) -> Overlaps:
    return find_overlaps(items, naming)


def pairs(items: pl.DataFrame, naming: Naming = NAMING) -> list[tuple[int, int, str]]:
    return [(pair.first, pair.second, pair.kind) for pair in pairs_across(found(items, naming), range(items.height))]


def unique_words(seed: int, n: int) -> str:
    return " ".join(f"w{seed}x{number}" for number in range(n))


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("What is 2+2?", "What is 2+2?", True),
        ("What is 2+2?", "  what IS\t2+2?\n", True),
        ("Straße ﬁne １２", "STRASSE fine 12", True),
        ("a\u2003b\u00a0c", "a b c", True),
        ("What is 2+2?", "What is 2+2", False),
        ("What is 2+2?", "What is 2-2?", False),
        ("ab c", "a bc", False),
    ],
)
def test_normalised_text_ignores_width_case_and_spaces_but_not_punctuation(left: str, right: str, same: bool) -> None:
    assert pairs(frame([left, right])) == ([(0, 1, "text")] if same else [])


def test_normalising_is_nfkc_casefold_and_single_spaces() -> None:
    assert normalised(" Ａ\u00a0ﬃ  İ\n") == "a ffi i̇"


def test_items_of_one_cluster_do_not_overlap() -> None:
    assert pairs(frame(["same", "same", "same"], ["a", "a", "b"])) == [(0, 1, "text"), (0, 2, "text")]
    assert pairs(frame(["same", "same"], ["a", "a"])) == []


def test_thirteen_words_in_a_row_overlap_and_twelve_do_not() -> None:
    twelve = THIRTEEN.rpartition(" ")[0]
    assert pairs(frame([f"aa {THIRTEEN} bb", f"cc dd {THIRTEEN.upper()}"])) == [(0, 1, "words")]
    assert pairs(frame([f"aa {twelve} bb", f"cc dd {twelve} ee"])) == []
    assert pairs(frame([f"aa {twelve}", f"cc {twelve}"])) == []


def test_words_in_a_row_do_not_cross_fields_or_items() -> None:
    words = THIRTEEN.split()
    halves = {"a": " ".join(words[:6]), "b": " ".join(words[6:])}
    assert pairs(frame([halves, f"xx {THIRTEEN}", " ".join(words[:7]), " ".join(words[7:])])) == []


def test_labels_are_not_compared_and_nested_text_is() -> None:
    chat = {"messages": [{"role": "user", "content": "hello there"}]}
    items = frame([{**chat, "id": "1", "topic": "a"}, {**chat, "id": "2", "topic": "b"}])
    assert pairs(items) == [(0, 1, "text")]


def test_numbers_count_only_in_named_fields() -> None:
    items = frame([{"q": "add", "n": 1}, {"q": "add", "n": 2}])
    assert pairs(items) == [(0, 1, "text")]
    assert pairs(items, Naming("id", None, None, ("q", "n"))) == []
    assert pairs(frame([{"q": "a", "meta": "1"}, {"q": "a", "meta": "2"}]), Naming("id", None, None, ("q",))) != []


def test_items_without_text_are_compared_as_a_whole() -> None:
    assert pairs(frame([{"a": 3, "b": 5}, {"b": 5, "a": 3}, {"a": 3, "b": 6}])) == [(0, 1, "text")]


def test_the_boilerplate_limit_is_20_clusters_or_5_percent() -> None:
    assert [boilerplate_limit(n) for n in (1, 400, 419, 420, 440, 10_000)] == [20, 20, 20, 21, 22, 500]


@pytest.mark.parametrize(("n_clusters", "n_sharing", "counts"), [(100, 20, True), (100, 21, False)])
@pytest.mark.parametrize("per_cluster", [1, 3])
def test_boilerplate_begins_above_20_clusters(n_clusters: int, n_sharing: int, counts: bool, per_cluster: int) -> None:
    texts, clusters = [], []
    for cluster in range(n_clusters):
        for item in range(per_cluster):
            shared = f" {THIRTEEN}" if cluster < n_sharing else ""
            texts.append(unique_words(cluster * 10 + item, 3) + shared)
            clusters.append(f"c{cluster}")
    overlaps = found(frame(texts, clusters))
    assert overlaps.groups["item"].n_unique() == (n_sharing * per_cluster if counts else 0)
    assert overlaps.n_boilerplate == (0 if counts else 1)


@pytest.mark.parametrize(("n_sharing", "counts"), [(25, True), (26, False)])
def test_boilerplate_begins_above_5_percent_of_many_clusters(n_sharing: int, counts: bool) -> None:
    texts = [unique_words(item, 3) + (f" {THIRTEEN}" if item < n_sharing else "") for item in range(500)]
    overlaps = found(frame(texts))
    assert (overlaps.groups.height, overlaps.n_boilerplate) == ((25, 0) if counts else (0, 1))


def test_the_same_whole_text_is_never_boilerplate() -> None:
    overlaps = found(frame([THIRTEEN] * 40))
    assert overlaps.n_boilerplate == 1
    assert overlaps.groups.filter(pl.col("kind") == "text").height == 40


def test_merging_joins_chains_into_the_first_cluster_by_name() -> None:
    items = frame(["b same", "a same", "a SAME", "b same", "alone"], ["c3", "c1", "c2", "c2", "c9"])
    assert merged_clusters(items, found(items)) == {"c1": "c1", "c2": "c1", "c3": "c1"}


def reference_overlaps(texts: list[str]) -> set[tuple[int, int]]:
    """Pairs that share 13 words, by the definition."""
    runs = []
    for text in texts:
        words = normalised(text).split(" ")
        runs.append({tuple(words[at : at + 13]) for at in range(len(words) - 12)})
    return {(a, b) for b in range(len(texts)) for a in range(b) if runs[a] & runs[b]}


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_shared_words_are_those_of_the_definition(seed: int) -> None:
    rng = random.Random(seed)
    texts = [" ".join(rng.choice("ab") for _ in range(rng.randint(0, 22))) + f" z{n}" for n in range(12)]
    merged = found(frame(texts)).groups.filter(pl.col("kind") == "words")
    linked = {(a, b) for _, group in merged.group_by("group") for a in group["item"] for b in group["item"] if a < b}
    assert linked == reference_overlaps(texts)


def test_the_batches_do_not_decide_what_overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{unique_words(number % 37, 15)} end{number}" for number in range(100)]
    whole = found(frame(texts)).groups
    monkeypatch.setattr("evalkit.splits.overlap.BATCH", 7)
    assert found(frame(texts)).groups.equals(whole)


def overlapping(n: int) -> list[dict[str, Any]]:
    items = rows(40)
    for number in range(n):
        items[20 + number] = {
            **items[20 + number],
            "question": items[number]["question"].upper(),
            "answer": str(number),
        }
    return items


def test_overlap_across_roles_is_refused_with_the_pairs(workspace: Workspace) -> None:
    items = rows(2)
    items[1]["question"] = items[0]["question"]
    with pytest.raises(Refused) as refusal:
        build(workspace, items, {"dev": 1, "public": 1}, text_fields=["question"])
    text = str(refusal.value)
    first, second = ("dev", "public") if "i0000 (dev)" in text else ("public", "dev")
    assert text == (
        f"s: a pair of items overlaps across roles: i0000 ({first}) and i0001 ({second}) have the same text; "
        "join such pairs into one cluster with --merge-overlaps, remove one of each, or name the fields to compare with "
        "--text"
    )
    assert refusal.value.exit_code == 2
    assert not (workspace.splits / "s").exists()
    assert not (workspace.items / "s").exists()


def test_normalised_and_word_overlaps_are_told_apart_and_counted(workspace: Workspace) -> None:
    items = rows(40)
    items[1]["question"] = items[0]["question"].upper()
    items[3]["question"] = f"First {THIRTEEN}"
    items[2]["question"] = f"Second {THIRTEEN}"
    messages = []
    for seed in range(12):
        try:
            build(workspace, items, {"dev": 20, "public": 20}, seed=seed, name=f"s{seed}", text_fields=["question"])
        except Refused as refusal:
            messages.append(str(refusal))
    assert any("have the same text but for case, width or spaces" in message for message in messages)
    assert any("i0002 (dev) and i0003 (public) share 13 words in a row" in message for message in messages)
    assert any("2 pairs of items overlap across roles" in message for message in messages)


def test_three_pairs_are_named_and_the_rest_counted(workspace: Workspace) -> None:
    with pytest.raises(Refused) as refusal:
        build(workspace, overlapping(20), {"dev": 20, "public": 20})
    text = str(refusal.value)
    total = int(text.removeprefix("s: ").partition(" ")[0])
    assert text.count(" and i") == 3
    assert f" and {total - 3} more; join such pairs" in text


def test_items_that_are_left_over_overlap_nobody(workspace: Workspace) -> None:
    items = rows(2)
    items[1]["question"] = items[0]["question"]
    assert build(workspace, items, {"dev": 1}, text_fields=["question"]).n_left_over == 1


def test_merging_puts_overlapping_items_into_one_cluster_and_role(workspace: Workspace) -> None:
    report = build(workspace, overlapping(20), {"dev": 10, "public": 10, "audit": 20}, merge_overlaps=True)
    where = assigned(report, workspace)
    assert all(where[f"i{number:04d}"] == where[f"i{number + 20:04d}"] for number in range(20))
    assert report.got == {"dev": 10, "public": 10, "audit": 20}
    assert report.n_clusters == 20
    assert report.merged["t20"] == "t0"
    stored = load_split(workspace, f"s/{where['i0020']}").items
    assert stored.filter(pl.col("item_id") == "i0020")["cluster_id"].to_list() == ["t0"]


def test_boilerplate_is_counted_in_the_report(workspace: Workspace) -> None:
    items = [{**row, "question": f"{THIRTEEN} {row['question']}"} for row in rows(30)]
    report = build(workspace, items, {"dev": 10, "public": 10})
    # 30 clusters share the 13 words and the 6 runs that end in `what is the secret of number`
    assert report.n_boilerplate == 7


def test_duplicates_within_one_role_are_counted_and_merging_leaves_none(workspace: Workspace) -> None:
    twice = [*rows(10), {**rows(11)[10], "question": rows(1)[0]["question"]}]
    report = build(workspace, twice, {"dev": 11}, text_fields=["question"])
    assert report.n_overlap_within == 2
    other = build(workspace, twice, {"dev": 11}, name="merged", text_fields=["question"], merge_overlaps=True)
    assert other.n_overlap_within == 0
    assert other.n_clusters == 10
