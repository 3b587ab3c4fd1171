"""What `evalkit audit pairs` sees in a preference set, and what it leaves out of its statistics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.api import audit_pairs
from evalkit.audit import PairsAudit
from evalkit.audit.inputs import Columns
from evalkit.audit.pairs import audit_pairs as audit_columns
from evalkit.errors import BadInput
from tests.audit.support import Desk

RNG = np.random.default_rng(7)
N = 400


def rows(n: int = N, longer: float = 0.5, agree: float = 0.8, **sources: dict[str, float]) -> list[list[Any]]:
    """Pairs with two to a prompt; `longer` of the chosen are the longer, `agree` of the scores order as the set does."""
    found = []
    for i in range(n):
        source = sorted(sources)[i % len(sources)] if sources else "all"
        of = {"longer": longer, "agree": agree, **sources.get(source, {})}
        short, long = f"answer {i}", f"a longer answer {i}"
        chosen, rejected = (long, short) if RNG.random() < of["longer"] else (short, long)
        margin = RNG.exponential() * (1 if RNG.random() < of["agree"] else -1)
        found.append([f"prompt {i // 2}", chosen, rejected, source, margin, 0.0])
    return found


HEADER = ["prompt", "chosen", "rejected", "source", "chosen_score", "rejected_score"]


def look(desk: Desk, table: list[list[Any]], header: list[str] = HEADER, **columns: str) -> PairsAudit:
    return audit_pairs(desk.table("pairs.csv", header, [row[: len(header)] for row in table]), columns=columns)


def codes(result: PairsAudit) -> dict[str, str]:
    return {finding.code: finding.severity for finding in result.findings}


def test_a_clean_set_has_no_finding_and_its_intervals_know_the_prompts(desk: Desk) -> None:
    result = look(desk, rows(a={}, b={}))
    assert codes(result) == {}
    assert (result.rows, result.used, result.left_out) == (N, N, {})
    assert (result.longer.n, result.longer.n_clusters) == (N, N // 2)
    assert result.agreement.low > 0.7


def test_pairs_that_say_nothing_are_left_out_by_cause_and_named_by_row(desk: Desk) -> None:
    table = rows()
    table[0][1], table[1][2] = "", "  "
    table[2][1] = table[2][2] + " "
    table[4] = [table[3][0], table[3][2], table[3][1], *table[3][3:]]
    table[6] = table[5]
    result = look(desk, table)
    assert result.left_out == {
        "preferred both ways": 2, "chosen is empty": 1, "rejected is empty": 1, "chosen is rejected": 1, "repeated": 1,
    }  # fmt: skip
    assert result.used == N - 6
    found = {finding.code: finding for finding in result.findings}
    assert found["GOLD.CONTRADICTION"].severity == "warning"
    assert [row.rpartition(":")[2] for row in found["GOLD.CONTRADICTION"].evidence] == ["5", "6"]
    assert found["PAIRS.DUPLICATE"].severity == "info"
    assert found["PAIRS.IDENTICAL"].evidence[0].endswith("pairs.csv:4")


def test_the_same_two_answers_to_another_prompt_are_no_contradiction(desk: Desk) -> None:
    table = [["p", "x", "y"], ["q", "y", "x"]]
    assert look(desk, table, HEADER[:3]).left_out == {}
    assert look(desk, [["p", "x", "y"], ["p", "y", "x"]], HEADER[:3]).left_out == {"preferred both ways": 2}


def test_more_than_a_tenth_of_contradictions_block(desk: Desk) -> None:
    table = rows(40)
    table += [[row[0], row[2], row[1], *row[3:]] for row in table[:5]]
    assert codes(look(desk, table))["GOLD.CONTRADICTION"] == "blocking"


def test_a_taste_for_length_is_said_with_its_share_and_interval(desk: Desk) -> None:
    result = look(desk, rows(longer=0.75))
    assert codes(result)["LENGTH.PREFERENCE"] == "warning"
    assert 0.65 < result.longer.low < 0.75 < result.longer.high < 0.85
    shorter = look(desk, rows(longer=0.25))
    assert "the shorter answer is chosen in 7" in shorter.findings[0].statement
    assert codes(look(desk, rows(2000, longer=0.56)))["LENGTH.PREFERENCE"] == "info"


def test_a_source_with_chosen_and_rejected_exchanged_is_found_by_the_scores(desk: Desk) -> None:
    result = look(desk, rows(600, a={}, b={"agree": 0.2}, c={}))
    (finding,) = result.findings
    assert (finding.code, finding.severity) == ("PAIRS.SOURCE_REVERSED", "blocking")
    assert "of the pairs of b as the set does" in finding.statement
    assert [source.name for source in result.sources if source.agreement.high < 0.5] == ["b"]
    turned = look(desk, rows(agree=0.2, a={}, b={}))
    assert codes(turned)["PAIRS.REVERSED"] == "blocking"
    assert "PAIRS.SOURCE_REVERSED" not in codes(turned)


def test_without_scores_lengths_only_raise_the_question_and_it_says_so(desk: Desk) -> None:
    table = rows(600, longer=0.8, a={}, b={"longer": 0.2}, c={})
    result = look(desk, table, HEADER[:4])
    assert codes(result)["PAIRS.SOURCE_LENGTH"] == "warning"
    assert codes(result)["PAIRS.NO_SCORES"] == "info"
    assert "PAIRS.NO_SOURCE" in codes(look(desk, table, HEADER[:3]))


def test_turns_are_read_as_prompt_and_answer(desk: Desk) -> None:
    path = desk.root / "turns.jsonl"
    lines = []
    for i in range(20):
        asked = [{"role": "user", "content": f"question {i // 2}"}]
        chosen, rejected = ([*asked, {"role": "assistant", "content": text}] for text in (f"yes {i}", "no"))
        lines.append({"chosen": chosen, "rejected": rejected})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = audit_pairs(path)
    assert (result.used, result.longer.n_clusters) == (20, 10)
    path.write_text(json.dumps({**lines[0], "chosen": None}) + "\n")
    assert audit_pairs(path).left_out == {"chosen is empty": 1}
    path.write_text(json.dumps({**lines[0], "chosen": 3}) + "\n")
    with pytest.raises(BadInput, match=r"row 1, field chosen: .*; give text, or turns with content"):
        audit_pairs(path)
    path.write_text(json.dumps({"chosen": chosen, "rejected": lines[0]["rejected"]}) + "\n")
    with pytest.raises(BadInput, match=r"row 1, fields chosen and rejected: the turns before the answers differ"):
        audit_pairs(path)


@given(st.lists(st.tuples(*[st.sampled_from(["", "a", "b", "bb"])] * 3), min_size=1, max_size=30), st.randoms())
def test_neither_order_nor_exchanging_every_pair_changes_what_is_left_out(table: list[Any], random: Any) -> None:
    def of(pairs: list[Any]) -> PairsAudit:
        cells = {name: [pair[i] for pair in pairs] for i, name in enumerate(("prompt", "chosen", "rejected"))}
        return audit_columns(Columns("t", list(range(len(pairs))), cells, {name: name for name in cells}))

    found = of(table)
    assert found.used + sum(found.left_out.values()) == found.rows == len(table)
    shuffled = random.sample(table, len(table))
    assert of(shuffled).left_out == found.left_out
    exchanged = of([(prompt, b, a) for prompt, a, b in table])
    assert exchanged.used == found.used
    if found.longer.value is not None:
        assert exchanged.longer.value == pytest.approx(1 - found.longer.value)


def test_the_command_prints_a_table_and_exits_by_its_findings(desk: Desk) -> None:
    path = desk.table("mine.csv", ["q", "best", "worst", "file", "s1", "s2"], rows(600, a={}, b={"agree": 0.2}, c={}))
    flags = [part for pair in ("prompt=q", "chosen=best", "rejected=worst", "source=file", "chosen_score=s1",
                               "rejected_score=s2") for part in ("--map", pair)]  # fmt: skip
    done = desk.evalkit("audit", "pairs", str(path), *flags)
    assert done.code == 1
    assert "!! PAIRS.SOURCE_REVERSED" in done.out
    assert "source" in done.out.splitlines()[-4]
    assert desk.evalkit("audit", "pairs", str(path), *flags, "--json").json["rows"] == 600
    clean = desk.table("clean.csv", HEADER, rows(a={}, b={}))
    assert desk.evalkit("audit", "pairs", str(clean)).code == 0
    nothing = desk.table("nothing.csv", HEADER[:3], [["p", "x", "x"]])
    assert desk.evalkit("audit", "pairs", str(nothing)).code == 3


def test_half_characters_in_a_file_are_printed_and_not_stumbled_over(desk: Desk) -> None:
    path = desk.root / "half.jsonl"
    path.write_text(json.dumps({"chosen": "a\ud800", "rejected": "b", "source": "s\ud800"}) + "\n")
    assert desk.evalkit("audit", "pairs", str(path), "--json").json["sources"][0]["name"] == "s\\ud800"
    assert desk.evalkit("audit", "pairs", str(path)).code == 0


MISTAKES = [
    (["prompt", "better", "rejected"], r"no column chosen; .*--map chosen=COLUMN"),
    (["prompt", "chosen", "rejected", "source", "chosen_score"], "chosen_score without rejected_score; name both"),
]


@pytest.mark.parametrize(("header", "message"), MISTAKES)
def test_a_mistake_is_one_line_with_its_mend(desk: Desk, header: list[str], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        look(desk, rows(4), header)
    with pytest.raises(BadInput, match="no such file"):
        audit_pairs(Path("nowhere.csv"))
