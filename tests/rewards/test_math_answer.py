"""`math`: what is equal, what is read, what is no verdict, and hostile text through the real pool."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalkit.errors import BadInput
from evalkit.rewards import READS_ANSWER, Response, Score, ScoringPool, Status, build, evaluate

COMPONENT = build("math", {}, Path())


def score(completion: str, target: str | None, **params: object) -> Score:
    component = build("math", params, Path()) if params else COMPONENT
    return evaluate(component, Response(completion, target, {}, None))


@pytest.mark.parametrize(
    ("target", "completion"),
    [
        ("1/2", "0.5"),
        (r"\frac{1}{2}", "The answer is 1/2."),
        (r"\frac{1}{3}", r"\boxed{0.333333}"),
        ("1,234", r"\boxed{1{,}234}"),
        ("1000", r"\boxed{1 000}"),
        ("1e5", r"\boxed{100000}"),
        ("18.", "so there are 18 apples left"),
        ("$3", r"It costs \$3 in all."),
        ("1024", r"\boxed{2^{10}}"),
        ("0.5", r"\boxed{50\%}"),
        ("50", r"\boxed{50\%}"),
        (r"5\text{ cm}", "It is $5$ cm long."),
        ("x^2-1", "Thus $(x-1)(x+1)$."),
        (r"2\sqrt{3}", r"\boxed{\sqrt{12}}"),
        ("x=5", r"\boxed{5}"),
        ("5", r"\boxed{x = 5}"),
        (r"\{1,2\}", r"\boxed{2, 1}"),
        ("(1,2)", r"\boxed{(1, 2)}"),
        ("[1,2)", r"\boxed{[1, 2)}"),
        (r"\text{Evelyn}", r"\boxed{\text{evelyn}}"),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", "\\[\\boxed{\\begin{pmatrix}1\\\\\n2\\end{pmatrix}}\\]"),
        (r"\infty", r"\boxed{\infty}"),
        ("The answer is $7$.", r"\boxed{7}"),
    ],
)
def test_what_is_equal_is_right(target: str, completion: str) -> None:
    assert score(completion, target).value == 1.0


@pytest.mark.parametrize(
    ("target", "completion", "answer"),
    [
        ("3", "-3", "-3"),
        (r"\frac{1}{3}", "0.33", "0.33"),
        ("[1,2)", r"\boxed{[1,2]}", "Interval(1, 2)"),
        ("x=5", r"\boxed{y=5}", "Eq(y, 5)"),
        ("2.5", r"\boxed{2,5}", "{2, 5}"),
        ("3.14", r"\boxed{\pi}", "pi"),
        ("5", r"\boxed{1/0}", "zoo"),
        ("2", r"\boxed{1, 2, 3}", "{1, 2, 3}"),
    ],
)
def test_what_is_not_equal_is_wrong_and_the_answer_is_on_record(target: str, completion: str, answer: str) -> None:
    assert score(completion, target) == Score(0.0, Status.OK, answer)


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        (r"First $\boxed{1}$, no: $\boxed{2}$", "2"),
        (r"First \boxed{1}. Wait, \boxed{2}. Check: 2 > 1.", "2"),
        (r"\boxed{1} and \boxed{2}", "{1, 2}"),
        (r"$\boxed{1}$, $\boxed{2}$", "{1, 2}"),
        (r"\boxed{\boxed{2}}", "2"),
        (r"\boxed{2} and then \boxed{3", "2"),
        (r"\fbox{2}", "2"),
        ("I got 1, but the final answer is 2. I hope it is correct", "2"),
        ("Answer: 2, though 3 was close", "2"),
        ("$x = 1$ so that $y = 2$", "Eq(y, 2)"),
        ("2x+1", "2*x + 1"),
    ],
)
def test_the_last_box_counts_else_what_math_verify_picks(completion: str, answer: str) -> None:
    assert score(completion, "7").answer == answer


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (None, "missing"),
        ("", "an empty answer"),
        (" \n", "an empty answer"),
        (r"\boxed{}", "an empty answer"),
        ("no solution", "words outside of a formula"),
        ("The answer is 18", "words outside of a formula"),
        ("2xy + 1", "words outside of a formula"),
        ("...", "no mathematical answer"),
        (r"\frac{1", "no mathematical answer"),
        ("1/0", "a value that equals nothing, itself included"),
        ("9" * 1001, "an answer of more than 1000 characters"),
    ],
)
def test_a_target_that_cannot_be_read_is_no_verdict_whatever_the_completion(target: str | None, why: str) -> None:
    # open-r1 issue 566: a gold that did not parse was a reward of 1.0 for everyone.
    for completion in ("", "5", target or "", r"\boxed{}"):
        evidence = f"target: {why}; give the answer alone, in LaTeX or in \\boxed{{…}}"
        assert score(completion, target) == Score(None, Status.FAILED, None, evidence)


@pytest.mark.parametrize(
    ("completion", "why"),
    [
        ("", "an empty answer"),
        ("I do not know.", "no mathematical answer"),
        (r"\boxed{}", "an empty answer"),
        (r"\boxed{\frac{1}}", "no mathematical answer"),
        (r"\boxed{" + "9" * 1001 + "}", "an answer of more than 1000 characters"),
        (r"\boxed{" + "{" * 20 + "5" + "}" * 20 + "}", "brackets nested more than 12 deep"),
    ],
)
def test_a_completion_that_cannot_be_read_is_wrong(completion: str, why: str) -> None:
    assert score(completion, "5") == Score(0.0, Status.OK, None, why)


def test_precision_is_the_decimal_places_that_must_agree() -> None:
    assert score("0.33", r"\frac{1}{3}", precision=2).value == 1.0
    assert score("0.34", r"\frac{1}{3}", precision=2).value == 0.0
    assert score("0.333333", r"\frac{1}{3}", precision=8).value == 0.0
    with pytest.raises(BadInput, match="precision: 16 decimal places; give a whole number from 0 to 15"):
        build("math", {"precision": 16}, Path())


def test_its_answers_can_be_voted_on() -> None:
    assert "math" in READS_ANSWER


@pytest.mark.parametrize(
    "attack",
    [
        "open('{0}','w')",
        r"\boxed{{open('{0}','w')}}",
        r"$\text{{open('{0}','w')}}$",
        "The answer is open('{0}','w')",
        r"\boxed{{\operatorname{{open}}('{0}', 'w')}}",
        "1+open('{0}','w')+1",
        "final answer is 1*(2)+__import__('os').system('touch {0}')",
    ],
)
def test_no_text_is_run_as_code(tmp_path: Path, attack: str) -> None:
    score(attack.format(tmp_path / "ran"), "5")
    score("5", attack.format(tmp_path / "ran"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        r"\boxed{9^{9^{9^9}}}",
        pytest.param("The answer is 9^9^9^9", marks=pytest.mark.slow),
        pytest.param(r"\boxed{(10^{10})!}", marks=pytest.mark.slow),
    ],
)
async def test_what_never_ends_is_killed_and_the_others_are_scored(tmp_path: Path, text: str) -> None:
    async with ScoringPool({"m": ("math", {})}, tmp_path, deadline=2.0) as pool:
        found = await pool.score([("a", Response(text, "5", {}, None)), ("b", Response("5", "5", {}, None))])
    assert found["a"]["m"] == Score(None, Status.TIMEOUT, None, "no answer within 2 s")
    assert found["b"]["m"] == Score(1.0, Status.OK, "5")
