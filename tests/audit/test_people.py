"""What an audit says of the people behind the labels: do they agree, and how far could a reward agree with them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from evalkit.api import audit_reward
from evalkit.audit import Audit, Line
from evalkit.report import audit_text
from tests.audit.support import Desk
from tests.stats.shared_data import load, pandalm

N = 120
NAMES = ("ann", "bob", "cat")
SCALE = {"reward": {"low": 1, "high": 5}, "label": {"low": 1, "high": 5}}


def truth(n: int = N) -> np.ndarray:
    return np.random.default_rng(5).integers(1, 6, n).astype(float)


def with_noise(values: np.ndarray, noise: float, seed: int) -> np.ndarray:
    moved = values + noise * np.random.default_rng(seed).normal(size=values.size)
    return np.clip(np.round(moved), 1, 5)


def held(desk: Desk, reward: Any, people: Sequence[Any], **spec: Any) -> Audit:
    names = [f"person{i}" for i in range(len(people))]
    scores = desk.table("scores.csv", ["sample_id", "reward"], enumerate(reward))
    rows = [(i, *labels) for i, labels in enumerate(zip(*people, strict=True))]
    labels = desk.table("labels.csv", ["sample_id", *names], rows)
    return audit_reward(scores, labels, desk.spec(**spec), annotators=names)


def codes(result: Audit) -> list[str]:
    return [finding.code for finding in result.findings]


def statement(result: Audit, code: str) -> str:
    return next(finding.statement for finding in result.findings if finding.code == code)


def line(result: Audit, name: str, level: str | None = None) -> Line:
    found = [one for one in result.sections["people"] if one.name.startswith(name) and level in (None, one.level)]
    assert found, [one.name for one in result.sections["people"]]
    return found[0]


def test_pandalm_by_the_command_has_the_published_and_recomputed_figures(desk: Desk) -> None:
    """`expected_values.json` 14/14, and the recomputed values of people, standard errors and bounds."""
    data, words = pandalm(), {0.0: "tie", 1.0: "1", 2.0: "2"}
    votes = [[words[label] for label in row] for row in data.humans]
    rows = list(enumerate(instruction.strip() or "(empty)" for instruction in data.instruction))
    labels = desk.table("l.csv", ["sample_id", *NAMES], [(i, *votes[i]) for i, _ in rows])
    flags = ("--annotators", ",".join(NAMES), "--map", "cluster_id=instruction", "--json")
    published = {row["quantity"]: row for row in load("expected_values.json") if row["source"] == "PandaLM"}
    found: dict[str, float] = {}
    for judge, verdicts in (("gpt-3.5-turbo", data.gpt), ("PandaLM-7B", data.pandalm)):
        said = [words.get(verdict, "garbage") for verdict in verdicts]
        table = desk.table("v.csv", ["sample_id", "instruction", "reward"], [(*rows[i], said[i]) for i, _ in rows])
        spec = desk.spec(
            statistic="accuracy", cluster_by="cluster_id", labels=["1", "2", "tie"], unparsed="tie",
            annotators="majority", thresholds={"usable": 0.6, "trustworthy": 0.8},
        )  # fmt: skip
        done = desk.audit(table, labels, spec, *flags, verdicts=True)
        assert done.err == ""
        registered, sections = done.json["registered"], done.json["sections"]
        assert registered["rules"].startswith("unparsed tie (25)" if "gpt" in judge else "unparsed tie (0)")
        found[f"{judge} acc"] = 100 * registered["estimate"]["value"]
        for name, key in (("macroP", "precision"), ("macroR", "recall"), ("macroF1", "f1")):
            found[f"{judge} {name}"] = 100 * registered["details"][f"macro_{key}"]["value"]
        for name, label in (("0", "tie"), ("1", "1"), ("2", "2")):
            found[f"majority label {name} count"] = registered["details"]["labels"][label]["actual"]
        people = {(one["name"], one["level"]): one for one in sections["people"]}
        alpha = people["Krippendorff's alpha", "nominal"]
        for i, j in ((0, 1), (0, 2), (1, 2)):
            kappa = alpha["details"]["pairs"][f"{NAMES[i]} with {NAMES[j]}"]["value"]
            found[f"Cohen kappa a{i + 1}-a{j + 1}"] = kappa
        if judge == "PandaLM-7B":
            continue
        assert alpha["estimate"]["value"] == pytest.approx(0.864221, abs=5e-7)
        ceiling = people["ceiling: held-out annotator, accuracy", "pooled"]["details"]["annotators"]
        alone = [round(ceiling[name]["human"]["value"], 4) for name in NAMES]
        assert alone == [0.9209, 0.9154, 0.9234]
        unparsed = {one["rules"]: one for one in sections["unparsed"]}
        wrong = unparsed["unparsed wrong (25)"]
        assert wrong["estimate"]["value"] == pytest.approx(0.6977, abs=5e-5)
        assert unparsed["unparsed right, a bound (25)"]["estimate"]["value"] == pytest.approx(0.7227, abs=5e-5)
        assert unparsed["unparsed exclude (25)"]["estimate"]["value"] == pytest.approx(0.7156, abs=5e-5)
        errors = wrong["details"]["standard_errors"]
        assert wrong["estimate"]["n_clusters"] == 170
        assert errors["CR0"] == pytest.approx(0.02287, abs=5e-6)
        assert errors["CR1"] == pytest.approx(0.02294, abs=5e-6)
        assert errors["independent"] == pytest.approx(0.01454, abs=5e-6)
        assert errors["design_effect_CR0"] == pytest.approx(2.47, abs=5e-3)
        assert errors["design_effect_CR1"] == pytest.approx(2.49, abs=5e-3)
    assert set(found) == set(published)
    assert len(found) == 14
    for name, value in found.items():
        assert value == pytest.approx(published[name]["published"], abs=published[name]["tol"]), name


def test_the_reward_takes_the_place_of_the_held_out_annotator_on_the_items_it_was_read_on(desk: Desk) -> None:
    data = pandalm()
    verdicts = desk.table("v.csv", ["sample_id", "reward"], [(i, v) for i, v in enumerate(data.gpt)])
    labels = desk.table("l.csv", ["sample_id", *NAMES], [(i, *votes) for i, votes in enumerate(data.humans)])
    spec = desk.spec(
        statistic="accuracy", labels=["0.0", "1.0", "2.0"], unparsed="exclude", annotators="majority",
        thresholds={"usable": 0.6, "trustworthy": 0.8},
    )  # fmt: skip
    result = audit_reward(verdicts, labels, spec, annotators=NAMES)
    place = line(result, "ceiling").details["annotators"]
    read = ~np.isnan(data.gpt)
    for i, name in enumerate(NAMES):
        others, alone = np.delete(data.humans[read], i, axis=1), data.humans[read, i]
        assert place[name]["reward"].value == pytest.approx(np.mean(others == data.gpt[read, None]))
        assert place[name]["human"].value == pytest.approx(np.mean(others == alone[:, None]))
    assert line(result, "reward − held-out annotator").estimate.high < -0.1


def test_a_reward_no_worse_than_a_person_is_found_and_a_worse_one_is_not(desk: Desk) -> None:
    people = [with_noise(truth(), 0.6, seed) for seed in (1, 2, 3)]
    good = held(desk, truth(), people)
    assert "CEILING.REACHED" in codes(good)
    assert line(good, "reward − held-out annotator").estimate.low > 0
    assert "CEILING.REACHED" not in codes(held(desk, with_noise(truth(), 1.5, 4), people))


def test_a_threshold_that_people_do_not_reach_is_found_and_one_they_reach_is_not(desk: Desk) -> None:
    people = [with_noise(truth(), 0.8, seed) for seed in (1, 2, 3)]
    reward = with_noise(truth(), 0.8, 4)
    ceiling = line(held(desk, reward, people), "ceiling: held-out annotator, Spearman").estimate
    assert ceiling.high < 0.95
    high = held(desk, reward, people, thresholds={"usable": 0.95, "trustworthy": 0.97})
    assert "below the 0.95 that the spec calls usable" in statement(high, "CEILING.BELOW_THRESHOLD")
    aim = held(desk, reward, people, thresholds={"usable": 0.3, "trustworthy": 0.97})
    assert "below the 0.97 that the spec calls trustworthy" in statement(aim, "CEILING.BELOW_THRESHOLD")
    assert "CEILING.BELOW_THRESHOLD" not in codes(held(desk, reward, people))


def test_labels_by_people_who_do_not_agree_are_found_and_labels_on_the_edge_are_not(desk: Desk) -> None:
    apart = held(desk, truth(), [with_noise(truth(), 2.5, seed) for seed in (1, 2, 3)])
    assert line(apart, "Krippendorff", "interval").estimate.high < 0.667
    assert "GOLD.UNRELIABLE" in codes(apart)
    edge = held(desk, truth(), [with_noise(truth(), 1.1, seed) for seed in (1, 2, 3)])
    alpha = line(edge, "Krippendorff", "interval").estimate
    assert alpha.low < 0.667 < alpha.high
    assert "GOLD.UNRELIABLE" not in codes(edge)


def test_one_annotator_says_nothing_of_people(desk: Desk) -> None:
    assert "people" not in held(desk, truth(), [truth()]).sections


def test_two_annotators_are_held_against_each_other(desk: Desk) -> None:
    a, b = with_noise(truth(), 0.6, 1), with_noise(truth(), 0.6, 2)
    result = held(desk, truth(), [a, b], statistic="pearson")
    ceiling = line(result, "ceiling: held-out annotator, Pearson")
    assert ceiling.estimate.value == pytest.approx(np.corrcoef(a, b)[0, 1])
    with pytest.raises(AssertionError):
        line(result, "annotators the reward could replace")  # the alternative annotator test wants three people


def test_an_annotator_of_few_labels_is_counted_and_not_held_out(desk: Desk) -> None:
    people = [with_noise(truth(), 0.6, seed).tolist() for seed in (1, 2, 3, 4)]
    people[3] = [*people[3][:29], *[""] * (N - 29)]
    ceiling = line(held(desk, truth(), people), "ceiling")
    assert ceiling.rules == "3 annotators held out in turn, 1 with few labels left out"
    assert list(ceiling.details["annotators"]) == ["person0", "person1", "person2"]
    people[3][29] = 3
    assert line(held(desk, truth(), people), "ceiling").rules == "4 annotators held out in turn"


def test_annotators_who_share_no_item_have_no_section(desk: Desk) -> None:
    half = N // 2
    people = [[*truth()[:half], *[""] * half], [*[""] * half, *truth()[half:]]]
    assert "people" not in held(desk, truth(), people).sections


def test_labels_where_less_is_better_give_the_same_ceiling(desk: Desk) -> None:
    people = [with_noise(truth(), 0.6, seed) for seed in (1, 2, 3)]
    reward = with_noise(truth(), 0.6, 4)
    turned = {"label": {"low": 1, "high": 5, "higher_is_better": False}}
    plain = held(desk, reward, people, scales={"label": {"low": 1, "high": 5}})
    other = held(desk, reward, [6 - labels for labels in people], scales=turned)
    for mine, theirs in zip(plain.sections["people"], other.sections["people"], strict=True):
        assert theirs.name == mine.name
        assert theirs.estimate.value == pytest.approx(mine.estimate.value)


@pytest.mark.parametrize(("noise", "word"), [(0.3, "passed: it could replace an annotator"), (2.5, "not passed")])
def test_the_alternative_annotator_test_needs_one_scale_and_says_whether_it_passed(
    desk: Desk, noise: float, word: str
) -> None:
    people = [with_noise(truth(), 0.8, seed) for seed in (1, 2, 3)]
    reward = with_noise(truth(), noise, 4)
    assert line(held(desk, reward, people, scales=SCALE), "annotators the reward could replace").rules == word
    unlike = {**SCALE, "reward": {"low": 0, "high": 5}}
    assert not [
        one for one in held(desk, reward, people, scales=unlike).sections["people"] if "could replace" in one.name
    ]


def test_attenuation_stands_beside_the_raw_correlation_and_is_never_above_one(desk: Desk) -> None:
    people = [with_noise(truth(), 1.0, seed) for seed in (1, 2, 3)]
    result = held(desk, truth(), people, statistic="pearson")
    corrected = line(result, "Pearson r corrected for attenuation").estimate
    assert result.registered.estimate.value < corrected.value <= 1
    assert corrected.high is None or corrected.high <= 1


def test_declared_order_of_labels_gives_weighted_kappa(desk: Desk) -> None:
    human = ["bad", "bad", "fair", "fair", "good", "good", "bad", "fair", "good", "good"]
    judge = ["bad", "fair", "fair", "good", "good", "fair", "bad", "bad", "good", "odd"]
    verdicts = desk.table("v.csv", ["sample_id", "reward"], enumerate(judge))
    labels = desk.table("l.csv", ["sample_id", "label"], enumerate(human))
    spec = desk.spec(statistic="kappa", labels=["bad", "fair", "good"])
    found = {one.name: one for one in audit_reward(verdicts, labels, spec).sections["labels"]}
    sklearn = pytest.importorskip("sklearn.metrics")
    place = {"bad": 0, "fair": 1, "good": 2}
    codes_of = [[place[word] for word in words[:9]] for words in (judge, human)]
    for how in ("linear", "quadratic"):
        mine = found[f"Cohen's kappa, {how} weights"]
        assert mine.estimate.value == pytest.approx(sklearn.cohen_kappa_score(*codes_of, weights=how))
        assert mine.rules == "order of labels as declared; 1 not on it"


def test_many_annotators_of_few_items_each_are_not_compared_pair_by_pair_for_long(desk: Desk) -> None:
    rng = np.random.default_rng(0)
    people = np.where(rng.random((80, N)) < 0.5, [with_noise(truth(), 0.8, s) for s in range(80)], np.nan)
    shown = [["" if np.isnan(value) else value for value in row] for row in people]
    ceiling = line(held(desk, truth(), shown), "ceiling")
    assert ceiling.rules == "50 annotators held out in turn, 30 with few labels left out"


def test_the_summary_shows_the_ceiling_and_says_where_every_other_number_is(desk: Desk) -> None:
    people = [with_noise(truth(), 0.6, seed) for seed in (1, 2, 3)]
    result = held(desk, truth(), people, statistic="pearson")
    short, full = audit_text(result), audit_text(result, details=True)
    assert "ceiling: held-out annotator, Pearson r" in short
    assert "Krippendorff's alpha" in short
    assert "ICC(2,1)" not in short
    assert re.search(r"more numbers with --details, and in audit.json: .*people \d+", short)
    assert "more numbers" not in full
    for lines in result.sections.values():
        for one in lines:
            assert one.name in full
    assert len(short.splitlines()) <= 60
