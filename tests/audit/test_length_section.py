"""What an audit says of length: what is left of the agreement without it, and who likes it more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evalkit.api import audit_reward
from evalkit.audit import Audit, Finding
from evalkit.errors import BadInput
from tests.audit.support import Desk
from tests.stats.shared_data import load

RNG = np.random.default_rng(7)
N = 400
ITEM = np.repeat(np.arange(100), 4)
QUALITY, LENGTH_Z, NOISE, ERROR = RNG.normal(size=(4, N))
LENGTH = np.round(300 + 60 * (0.6 * QUALITY + LENGTH_Z))
"""Better answers are longer ones."""
Z = (LENGTH - 300) / 60


def run(desk: Desk, reward: Any, human: Any, lengths: Any = LENGTH, order: Any = range(N), **spec: Any) -> Audit:
    columns = ["sample_id", "item_id", "length", "reward"]
    rows = [(i, ITEM[i], lengths[i], reward[i]) for i in order]
    scores = desk.table("scores.csv", columns, rows)
    labels = desk.table("labels.csv", ["sample_id", "label"], enumerate(human))
    return audit_reward(scores, labels, desk.spec(False, **{"cluster_by": "item_id", "level": "within", **spec}))


def found(result: Audit, code: str) -> Finding | None:
    return next((finding for finding in result.findings if finding.code == code), None)


def figures(result: Audit) -> dict[tuple[str, str], float | None]:
    return {(line.name, line.level): line.estimate.value for line in result.sections["length"]}


def test_an_agreement_that_goes_at_equal_length_is_a_finding_at_the_level_of_the_spec(desk: Desk) -> None:
    human = Z + 0.5 * NOISE
    for level in ("within", "group", "pooled"):
        finding = found(run(desk, Z + 0.3 * ERROR, human, level=level), "LENGTH.EXPLAINS")
        assert finding is not None
        assert ("within item_id" if level != "pooled" else "pooled") in finding.statement
        assert "more than half of it goes" in finding.statement


def test_an_agreement_that_stays_at_equal_length_is_none_though_reward_and_humans_follow_length(desk: Desk) -> None:
    result = run(desk, QUALITY + 0.3 * ERROR, QUALITY + 0.5 * NOISE)
    assert figures(result)["Spearman rho of reward with length", "pooled"] > 0.3
    assert figures(result)["partial Spearman rho", "within item_id"] > 0.6
    assert found(result, "LENGTH.EXPLAINS") is None


def test_a_reward_that_is_length_itself_is_said_to_be(desk: Desk) -> None:
    finding = found(run(desk, 2 * LENGTH, Z + NOISE), "LENGTH.EXPLAINS")
    assert finding is not None
    assert "exactly as their length does" in finding.statement
    assert found(run(desk, 2 * LENGTH, NOISE), "LENGTH.EXPLAINS") is None  # there is no agreement to explain


def test_a_reward_that_likes_length_more_than_humans_do_is_a_finding(desk: Desk) -> None:
    finding = found(run(desk, QUALITY + Z, QUALITY + 0.3 * NOISE), "BIAS.VERBOSITY")
    assert finding is not None
    assert (finding.severity, finding.estimate is not None and finding.estimate.low > 0) == ("warning", True)
    assert "humans want them shorter" in finding.statement


def test_a_reward_that_likes_length_as_humans_do_is_no_finding_however_much_they_like_it(desk: Desk) -> None:
    result = run(desk, QUALITY + 2 * Z + 0.5 * ERROR, QUALITY + 2 * Z + 0.5 * NOISE)
    assert figures(result)["humans prefer the longer", "pairs within item_id"] > 0.8
    assert found(result, "BIAS.VERBOSITY") is None
    assert found(run(desk, QUALITY - Z, QUALITY + 0.5 * NOISE), "BIAS.VERBOSITY") is None  # it likes them shorter


def test_labels_noisier_than_the_reward_make_no_bias_of_length(desk: Desk) -> None:
    finding = found(run(desk, QUALITY, QUALITY + 3 * NOISE), "BIAS.VERBOSITY")
    assert finding is not None
    assert finding.severity == "info"
    assert "noise in the labels alone could make this" in finding.statement


def test_pairs_of_one_prompt_are_one_cluster_whatever_the_spec_takes_as_independent(desk: Desk) -> None:
    lines = run(desk, QUALITY, QUALITY + NOISE, cluster_by="none", level="pooled").sections["length"]
    pairs = next(line for line in lines if line.name == "margin's log odds")
    assert (pairs.estimate.n, pairs.estimate.n_clusters) == (600, 100)
    assert next(line for line in lines if line.level == "pooled").estimate.n_clusters == N


def test_without_a_length_there_is_no_section_and_without_prompts_there_are_no_pairs(desk: Desk) -> None:
    labels = desk.table("labels.csv", ["sample_id", "label"], enumerate(QUALITY))
    bare = desk.table("s.csv", ["sample_id", "reward"], enumerate(QUALITY))
    assert "length" not in audit_reward(bare, labels, desk.spec(False)).sections
    assert "length" not in run(desk, QUALITY, QUALITY, [""] * N).sections
    alone = desk.table("s2.csv", ["sample_id", "reward", "text"], [(i, QUALITY[i], "x" * (i % 90)) for i in range(N)])
    lines = audit_reward(alone, labels, desk.spec(False)).sections["length"]
    assert {line.level for line in lines} == {"pooled"}


def test_samples_without_a_length_are_counted_and_a_negative_length_is_refused(desk: Desk) -> None:
    lengths: list[Any] = ["", "", *LENGTH[2:]]
    lines = run(desk, QUALITY, QUALITY + NOISE, lengths).sections["length"]
    assert lines[0].rules == "2 samples without a length left out"
    assert lines[0].estimate.n == N - 2
    with pytest.raises(BadInput, match=r"scores.csv, row 5, field length: -5 is negative; give characters"):
        run(desk, QUALITY, QUALITY, [*LENGTH[:3], -5, *LENGTH[4:]])


def test_a_missing_score_is_not_filled_in_for_the_section(desk: Desk) -> None:
    reward: list[Any] = ["", *QUALITY[1:]]
    scales = {"reward": {"low": -10, "high": 10}}
    result = run(desk, reward, QUALITY + NOISE, scales=scales, missing="worst", level="pooled")
    assert result.sections["length"][0].estimate.n == N - 1


@pytest.mark.parametrize("what", ["rows in another order", "another unit of length", "a reward on another scale"])
def test_what_says_the_same_gives_the_same(desk: Desk, what: str) -> None:
    reward, human = QUALITY + Z, np.round(QUALITY + NOISE)
    before = run(desk, reward, human)
    if what == "rows in another order":
        after = run(desk, reward, human, order=RNG.permutation(N))
    elif what == "another unit of length":
        after = run(desk, reward, human, LENGTH / 4)
    else:
        after = run(desk, 10 * reward + 3, human)
    assert figures(after) == pytest.approx(figures(before), abs=1e-7)
    assert [f.code for f in after.findings] == [f.code for f in before.findings]


def test_what_length_leaves_of_the_agreement_on_topical_chat(desk: Desk) -> None:
    rows = load("unieval", "topical_chat_result.json")
    scores = desk.table(
        "s.csv", ["sample_id", "length", "reward"],
        [(i, len(r["system_output"]), r["predict_scores"]["overall"]) for i, r in enumerate(rows)],
    )  # fmt: skip
    labels = desk.table("l.csv", ["sample_id", "label"], [(i, r["scores"]["overall"]) for i, r in enumerate(rows)])
    result = audit_reward(scores, labels, desk.spec(False))
    found_figures = figures(result)
    # The survey's recomputation of UniEval's overall scores: .6626 alone, .6005 given length in characters.
    assert found_figures["Spearman rho", "pooled"] == pytest.approx(0.6626, abs=5e-5)
    assert found_figures["partial Spearman rho", "pooled"] == pytest.approx(0.6005, abs=5e-5)
    assert found_figures["Spearman rho of label with length", "pooled"] == pytest.approx(0.3933, abs=5e-5)
    assert found_figures["Spearman rho of reward with length", "pooled"] == pytest.approx(0.3954, abs=5e-5)
    assert not {"LENGTH.EXPLAINS", "BIAS.VERBOSITY"} & {finding.code for finding in result.findings}


@pytest.mark.slow
def test_of_two_hundred_perfect_rewards_with_noisy_labels_hardly_any_is_warned_of(desk: Desk) -> None:
    rng, warned = np.random.default_rng(0), {"perfect": 0, "padded": 0}
    for _ in range(200):
        quality, other, noise, error = rng.normal(size=(4, N))
        lengths = np.round(3000 + 60 * (0.6 * quality + other))
        taste = (lengths - 3000) / 60
        for name, reward, human in (
            ("perfect", quality, quality + 2 * noise),
            ("padded", quality + taste + 0.3 * error, quality + noise),
        ):
            finding = found(run(desk, reward, human, lengths), "BIAS.VERBOSITY")
            warned[name] += finding is not None and finding.severity == "warning"
    assert warned["perfect"] <= 10
    assert warned["padded"] >= 100
