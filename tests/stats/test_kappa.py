"""What kappa and the scores of a classifier promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score, precision_recall_fscore_support
from statsmodels.stats.inter_rater import cohens_kappa

from evalkit.stats import classification, cohen_kappa, kappa_value, macro_f1_value, unshared_labels
from tests.stats.shared_data import pandalm


@given(st.integers(0, 10_000), st.sampled_from(["none", "linear", "quadratic"]))
def test_kappa_is_sklearns(seed: int, weights: str) -> None:
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 4, 50)
    b = np.where(rng.random(50) < 0.6, a, rng.integers(0, 4, 50))
    ours = cohen_kappa(a.tolist(), b.tolist(), range(50), weights=weights, order=range(4)).value
    theirs = cohen_kappa_score(a, b, labels=range(4), weights=None if weights == "none" else weights)
    assert ours == pytest.approx(theirs, abs=1e-12)


def test_the_error_of_kappa_is_that_of_fleiss_cohen_and_everitt() -> None:
    table = np.array([[44, 5, 1], [7, 20, 3], [9, 5, 6]])
    a = np.repeat(np.arange(3), table.sum(axis=1)).tolist()
    b = np.concatenate([np.repeat(np.arange(3), row) for row in table]).tolist()
    ours, theirs = cohen_kappa(a, b, range(100)), cohens_kappa(table)
    assert ours.value == pytest.approx(theirs.kappa, abs=1e-12)
    cr1_over_cr0, t = np.sqrt(100 / 99), 1.9842169515  # t(99) at .975
    assert ours.half_width == pytest.approx(t * cr1_over_cr0 * theirs.std_kappa, rel=1e-6)


def test_annotators_of_pandalm_have_the_published_kappas() -> None:
    humans = pandalm().humans.astype(int).T.tolist()
    for i, j, expected in ((0, 1, 0.8520226785), (0, 2, 0.8789438113), (1, 2, 0.8616614541)):
        assert cohen_kappa(humans[i], humans[j], range(999)).value == pytest.approx(expected, abs=1e-9)


def test_kappa_between_two_spellings_is_seen_to_be_one() -> None:
    assert unshared_labels(["A", "B", "A"], [1, 2, 2]) == (["A", "B"], [1, 2])
    assert unshared_labels(["1", "2"], ["2", "1", "tie"]) == ([], ["tie"])


def test_raters_who_know_one_label_have_no_kappa() -> None:
    assert cohen_kappa([1, 1], [1, 1], [0, 1]).why == "both give 1 only; nothing could disagree"
    assert cohen_kappa([1, 1], [2, 2], [0, 1]).value == 0


@given(st.integers(0, 10_000))
def test_precision_recall_and_f1_are_sklearns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    actual, said = rng.integers(0, 3, 40).tolist(), rng.integers(0, 4, 40).tolist()
    ours = classification(said, actual, range(40), labels=[0, 1, 2])
    expected = precision_recall_fscore_support(actual, said, labels=[0, 1, 2], average="macro", zero_division=0)
    found = [ours.macro_precision.value, ours.macro_recall.value, ours.macro_f1.value]
    assert found == pytest.approx(expected[:3], abs=1e-12)


def test_judges_of_pandalm_have_the_published_scores_with_unparsed_as_tie() -> None:
    data = pandalm()
    majority = [int(np.argmax(np.bincount(row.astype(int), minlength=3))) for row in data.humans]
    gpt = [0 if np.isnan(v) else int(v) for v in data.gpt]
    for said, expected in (
        (gpt, (0.7107107107, 0.5879186, 0.5736234, 0.5755380)),
        (data.pandalm.astype(int).tolist(), (0.6676676677, 0.5738306, 0.5749687, 0.5743052)),
    ):
        scores = classification(said, majority, range(999), labels=[0, 1, 2])
        found = [e.value for e in (scores.accuracy, scores.macro_precision, scores.macro_recall, scores.macro_f1)]
        assert found == pytest.approx(expected, abs=6e-7)


def test_a_label_never_predicted_has_no_precision() -> None:
    scores = classification(["a", "a"], ["a", "b"], [0, 1], labels=["a", "b"])
    assert (scores.classes["b"].precision.value, scores.classes["b"].precision.why) == (None, "never predicted")
    assert (scores.classes["b"].recall.value, scores.classes["b"].actual) == (0, 1)
    assert "1 of 0 / 0 taken as 0" in scores.macro_precision.method


def test_bad_labels_are_named() -> None:
    with pytest.raises(ValueError, match="None is no label"):
        cohen_kappa([None], ["a"], [0])
    with pytest.raises(ValueError, match="'c' is not in it"):
        cohen_kappa(["a"], ["c"], [0], weights="linear", order=["a", "b"])
    with pytest.raises(ValueError, match="need the order"):
        cohen_kappa(["a"], ["b"], [0], weights="linear")
    with pytest.raises(ValueError, match="'z' is not among"):
        classification(["a"], ["z"], [0], labels=["a"])


@given(pairs=st.lists(st.tuples(st.sampled_from("abc?"), st.sampled_from("abc")), min_size=1, max_size=30))
def test_the_value_alone_is_that_with_an_interval(pairs: list[tuple[str, str]]) -> None:
    said, true = (list(side) for side in zip(*pairs, strict=True))
    kappa = cohen_kappa(said, true, range(len(pairs))).value
    assert kappa_value(np.array(said), np.array(true)) == pytest.approx(np.nan if kappa is None else kappa, nan_ok=True)
    f1 = classification(said, true, range(len(pairs)), labels=list("abc")).macro_f1.value
    assert macro_f1_value(np.array(said), np.array(true), list("abc")) == pytest.approx(f1)
