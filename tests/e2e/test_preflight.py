"""`evalkit preflight`: what is healthy says go, and what would make a run's numbers wrong is found before it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evalkit import api
from evalkit.cli.preflight import advice
from evalkit.engines import EngineOptions
from evalkit.ledger import Event, Ledger
from evalkit.report import preflight_text
from evalkit.runs import Preflight
from tests.e2e.support import PROTOCOL, Bench, Forked
from tests.engines.support import character_tokenizer
from tests.servers.process import RunningServer, serve

LENIENT = """\
def passes(completion: str, target: str, item: dict) -> float:
    return float(completion.strip() in ("", target))
"""
GREEDY = PROTOCOL.replace("temperature: 0.7, n: 4", "temperature: 0").replace(
    "[{name: mean}, {name: pass@k, k: [1, 4]}, {name: maj@k, k: [3]}]", "[{name: mean}]"
)


def refrozen(bench: Bench, *changes: tuple[str, str], base: str = PROTOCOL) -> Bench:
    """The protocol once more, with texts replaced."""
    text = base
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    (bench.root / "protocols/arithmetic.v1.lock.json").unlink()
    bench.protocol(text, "arithmetic.yaml")
    return bench


def codes(found: Preflight, level: str) -> dict[str, str]:
    """Statement by code."""
    return {row.code: row.statement for row in found.findings if row.level == level}


@pytest.fixture(scope="module")
def calm_server() -> Iterator[RunningServer]:
    with serve() as running:
        yield running


@pytest.fixture
def server(calm_server: RunningServer) -> Iterator[Callable[..., str]]:
    """Change what the server does, until the test ends; the model it serves."""

    def behave(**changes: Any) -> str:
        calm_server.control(**changes)
        return calm_server.model

    yield behave
    calm_server.control(length=None, runs_on="", honours_stop=True)


@pytest.fixture
def preflight(bench: Bench) -> Callable[..., Preflight]:
    def run(model: str, split: str = "smoke", tokenizer: Path | None = None) -> Preflight:
        options = EngineOptions(bench.root, tokenizer)
        return api.preflight("arithmetic@1", model, split=split, options=options, workspace=bench.workspace)

    return run


def rows(bench: Bench) -> list[Event]:
    with Ledger(bench.workspace.ledger) as ledger:
        return ledger.events("preflight")


def test_a_healthy_protocol_is_a_go_and_its_runs_are_kept(
    bench: Bench, preflight: Callable[..., Preflight], runner: Forked
) -> None:
    with serve() as server:
        once = preflight(server.model)
        made = server.control()["completed"]
        assert made == 3 + 2 * 16 + 2 * 4, "one engine: its three probes, two runs, four requests together and alone"
        again = runner(bench, "preflight", "arithmetic@1", "--model", server.model, "--json")
        assert server.control()["completed"] == 2 * made - 32  # two runs of 16 are not made again
        assert api.run("arithmetic@1", "smoke", server.model, workspace=bench.workspace).reused
    assert (again.code, again.err) == (0, "")
    assert "verdict: go" in preflight_text(once)
    assert "one by one: 4 of 4 say what they said in the run" in preflight_text(once)
    found = json.loads(again.out)
    assert found["verdict"] == "go"
    controls = {row["kind"]: (row["successes"], row["judged"]) for row in found["controls"]}
    # echo: a sum's last number is the second operand; constant: two of the four sums are 12
    assert controls == {"null": (0, 4), "echo": (0, 4), "constant": (2, 4), "shuffled": (0, 4), "gold": (4, 4)}
    assert found["stability"]["repeats"] == [0, 1]
    assert found["stability"]["retest"]["flip_rate"]["n"] == 16
    assert [(look.purpose, look.repeat) for look in bench.looks()] == [("debug", 0), ("debug", 1)]
    first, second = rows(bench)
    assert (first.protocol, first.split, first.model, first.purpose) == ("arithmetic@1", "sums/smoke", "tiny", "debug")
    assert {"verdict": "go", "engine": "openai", "codes": []}.items() <= first.details.items()
    assert first.details["runs"] == second.details["runs"] == found["runs"]
    assert first.details["protocol_digest"] == found["protocol_digest"]
    assert first.details["model_digest"] == found["model_digest"]


def test_gold_that_the_scorer_rejects_is_a_no_go_and_exit_1(bench: Bench, runner: Forked) -> None:
    refrozen(bench, ('target: "{{ answer }}"', 'target: "{{ answer }}"\ngold_completion: "it is known"'))
    done = runner(bench, "preflight", "arithmetic@1", "--model", "baseline:constant:12")
    assert (done.code, done.err) == (1, "")
    assert "no-go GOLD: the gold completion succeeds on 0 of 4 items; first not on 3+9: correct 0" in done.out
    assert "gold fails on 3+9: correct 0, no number; said 'it is known', target '12'" in done.out
    assert rows(bench)[0].details["codes"] == ["GOLD"]


def test_a_scorer_that_passes_silence_is_a_no_go(bench: Bench, preflight: Callable[..., Preflight]) -> None:
    (bench.root / "lenient.py").write_text(LENIENT)
    refrozen(bench, ("{use: number,", "{use: 'python:lenient.py:passes', range: [0, 1],"))
    found = preflight("baseline:gold")
    assert found.verdict == "no-go"
    assert codes(found, "no-go") == {"NULL": "saying nothing succeeds on 4 of 4 items"}
    assert codes(found, "cannot tell")["UNREAD"] == "no component says which answer it read"


def test_completions_all_cut_are_a_no_go(
    bench: Bench, preflight: Callable[..., Preflight], server: Callable[..., str]
) -> None:
    refrozen(bench, ("max_tokens: 16", "max_tokens: 1"))
    found = preflight(server(length=1))
    assert found.verdict == "no-go"
    assert codes(found, "no-go") == {"TRUNCATED": "100.0% of 16 completions were cut at max_tokens"}
    text = preflight_text(found)
    assert "cut at max_tokens: 16 of 16 (100.0 %)" in text
    assert "were cut at max_tokens; raise sampling.max_tokens, or add the stop string that ends an answer" in text


def test_a_stop_string_that_empties_completions_is_a_no_go(
    bench: Bench, preflight: Callable[..., Preflight], server: Callable[..., str]
) -> None:
    refrozen(bench, ("max_tokens: 16,", 'max_tokens: 16, stop: ["s", "1"],'))
    found = preflight(server())
    assert found.verdict == "no-go"
    empty = found.completions.empty.n
    assert found.completions.empty_at_stop == empty > 8
    assert codes(found, "no-go")["EMPTY"].endswith(
        f"of 16 completions are empty, {empty} of them ended by a stop string or the end of sequence"
    )


def test_a_pattern_that_reads_nothing_is_a_no_go_with_an_example(
    bench: Bench, preflight: Callable[..., Preflight], server: Callable[..., str]
) -> None:
    refrozen(
        bench,
        ("{use: number,", "{use: regex, params: {pattern: 'it is ([0-9]+)'},"),
        ('target: "{{ answer }}"', 'target: "{{ answer }}"\ngold_completion: "it is {{ target }}"'),
    )
    found = preflight(server())
    assert codes(found, "no-go") == {"UNREAD": "correct (regex) read no answer in 16 of 16 completions"}
    assert "none in item 3+9, trial 0 (no match):\n    " in preflight_text(found)


def test_a_scorer_that_fails_is_a_no_go_with_its_first_reason(
    bench: Bench, preflight: Callable[..., Preflight]
) -> None:
    (bench.root / "broken.py").write_text("def f(completion, target, item):\n    return 1 / 0\n")
    change = ("{use: conciseness,", "{use: 'python:broken.py:f', range: [0, 1],")
    refrozen(bench, change, (", params: {budget: 4, limit: 16}", ""))
    found = preflight("baseline:gold")
    assert found.verdict == "no-go"
    line = "no-go SCORER: brief failed on 16 of 16 completions; first so: ZeroDivisionError: division by zero"
    assert line in preflight_text(found)


def test_greedy_repeats_that_agree_show_no_noise(
    bench: Bench, preflight: Callable[..., Preflight], server: Callable[..., str]
) -> None:
    refrozen(bench, base=GREEDY)
    found = preflight(server())
    assert found.verdict == "go"
    text = preflight_text(found)
    assert "temperature 0: both repeats should be the same, any flip is noise of the engine" in text
    assert "identical texts: 4 of 4" in text
    assert "deviation of one run's mean: cannot tell: the mean of none of 2 clusters moved" in text


def test_a_server_that_does_not_repeat_itself_is_flagged_with_its_rate(
    bench: Bench, preflight: Callable[..., Preflight]
) -> None:
    refrozen(bench, base=GREEDY)
    with serve(drift=True) as server:
        found = preflight(server.model)
    assert found.verdict == "go"
    text = preflight_text(found)
    assert "warning DETERMINISM: 4 of 4 requests made again together, same seed, gave another text" in text
    assert "warning DETERMINISM: 4 of 4 requests made again alone, same seed, gave another text" in text
    assert "warning GREEDY: the server gave two texts to one prompt at temperature 0" in text
    assert "identical texts: 0 of 4" in text


def test_two_beginnings_of_sequence_are_one_line_and_exit_2(bench: Bench, runner: Forked) -> None:
    refrozen(bench, ("bos: never", 'bos: once\n  bos_token: "<s>"'), ("{{ question }}", "<s><s>{{ question }}"))
    nowhere = "openai:tiny@http://127.0.0.1:9/v1"
    line = bench.refused("preflight", "arithmetic@1", "--model", nowhere, by=runner)
    assert line == "evalkit: prompt of item 3+9: begins with two <s>; remove one from the template or the text"


def test_completions_that_run_on_or_past_a_stop_are_said(
    bench: Bench, preflight: Callable[..., Preflight], server: Callable[..., str]
) -> None:
    refrozen(bench, ('"{{ question }}"', '"Q: {{ question }}"'), ("max_tokens: 16,", 'max_tokens: 16, stop: ["A"],'))
    warnings = codes(preflight(server(runs_on="\nQ: 1+1=\nA: 2", honours_stop=False)), "warning")
    assert warnings["RUNS_ON"] == "16 of 16 completions run on into another turn or question ('Q:')"
    assert warnings["STOP"] == "16 of 16 completions go on after a stop string"


def test_one_item_is_looked_at_and_what_it_cannot_tell_is_said(
    bench: Bench, preflight: Callable[..., Preflight], server: Callable[..., str]
) -> None:
    bench.split([{"id": "1+1", "question": "1+1=", "answer": "2", "cluster": "1+1"}], "one", {"smoke": 1})
    found = preflight(server(), "one/smoke")
    assert found.verdict == "go"
    unknown = codes(found, "cannot tell")
    assert unknown["SHUFFLED"] == "what shuffled reaches: one item has no other to borrow from; use a larger split"
    assert unknown["CONSTANT"].endswith("on one item a constant is as good as gold; use a larger split")
    assert unknown["AA"] == "deviation of a run's mean: all 4 pairs are in one cluster; a spread needs two or more"


def test_the_smoke_split_is_found_and_other_roles_than_dev_are_refused(
    bench: Bench, preflight: Callable[..., Preflight], runner: Forked
) -> None:
    command = ("preflight", "arithmetic@1", "--model", "baseline:gold")
    assert bench.refused(*command, "--split", "public", by=runner) == (
        "evalkit: sums/public: preflight prints items, gold and completions, so it opens smoke and dev only; "
        "give --split sums/smoke"
    )
    assert preflight("baseline:gold", "dev").split == "sums/dev"
    bench.split([{"id": "x", "question": "1+1=", "answer": "2", "cluster": "x"}], "more", {"smoke": 1})
    assert bench.refused(*command, by=runner) == (
        "evalkit: --split smoke: there are 2 split sets; write one of more/smoke, sums/smoke"
    )


def test_a_run_recommends_a_preflight_until_one_said_go(
    bench: Bench, preflight: Callable[..., Preflight], runner: Forked, server: Callable[..., str]
) -> None:
    model, home = server(), bench.workspace
    lock = api.load_protocol("arithmetic@1", home)
    command = ("run", "arithmetic@1", "--split", "dev", "--model", model, "--json", "--repeat")
    line = f"no preflight of arithmetic@1 with openai: evalkit preflight arithmetic@1 --model {model}"
    first = runner(bench, *command, "0")
    assert (first.code, first.err) == (0, line + "\n")
    assert advice(home, lock, "sums/dev", ["baseline:gold", model]) == [line]
    assert advice(home, lock, "sums/smoke", [model]) == []
    assert advice(home, lock, "dev", ["baseline:gold", "replay:x"]) == []
    assert preflight(server(length=1)).verdict == "no-go"
    [after] = advice(home, lock, "dev", [model])
    assert after.startswith("the last preflight of arithmetic@1 with openai said no-go: evalkit preflight ")
    refrozen(bench, ("max_tokens: 16", "max_tokens: 17"))
    assert preflight(server(length=None)).verdict == "go"
    second = runner(bench, *command, "0")
    assert (second.code, second.err) == (0, "")
    assert json.loads(second.out)[0].keys() == json.loads(first.out)[0].keys()
    assert advice(home, lock, "dev", [model]) == [after], "a go of another digest is none of this one"


def test_a_recording_says_nothing_of_noise(
    bench: Bench, preflight: Callable[..., Preflight], server: Callable[..., str]
) -> None:
    recorded = api.run("arithmetic@1", "smoke", server(), workspace=bench.workspace).run
    found = preflight(f"replay:{recorded.path}")
    assert (found.stability, len(found.runs)) == (None, 1)
    assert found.prompt is not None
    assert found.prompt.text == "3+9="
    unknown = codes(found, "cannot tell")
    for code in ("AA", "DETERMINISM"):
        assert unknown[code].endswith("makes no completions: what it answers is fixed")


def test_the_prompt_is_shown_as_it_is_sent_with_its_first_tokens(
    bench: Bench, preflight: Callable[..., Preflight], server: Callable[..., str]
) -> None:
    refrozen(bench, ("bos: never", "bos: once"), ('"{{ question }}"', '"add \\x1b up \\n{{ question }}"'))
    found = preflight(server(), tokenizer=character_tokenizer(bench.root))
    assert found.prompt is not None
    assert (found.prompt.text, found.prompt.bos, found.prompt.n_tokens) == ("<s>add \x1b up \n3+9=", 1, 15)
    text = preflight_text(found)
    assert "  | <s>add \\x1b up·\\n\n  | 3+9=\n" in text
    assert "15 tokens: 0:<s> 68:a 71:d 71:d 3:" in text
    assert "beginning-of-sequence tokens: 1 (<s>)" in text
    assert "BOS" not in codes(found, "cannot tell")


@pytest.mark.parametrize(
    ("bos", "begins", "statement"),
    [
        ("once", "{{ '<s> <s>' }}", "the prompt begins with 2 × <s>"),
        ('once\n  bos_token: "[BOS]"', "", "the prompt begins with 0 × [BOS] under bos: once"),
    ],
    ids=["two with a space between", "a text that is no token"],
)
def test_a_wrong_beginning_of_sequence_is_a_no_go(
    bos: str,
    begins: str,
    statement: str,
    bench: Bench,
    preflight: Callable[..., Preflight],
    server: Callable[..., str],
) -> None:
    refrozen(bench, ("bos: never", f"bos: {bos}"), ('"{{ question }}"', f'"{begins}{{{{ question }}}}"'))
    found = preflight(server(), tokenizer=character_tokenizer(bench.root))
    assert codes(found, "no-go") == {"BOS": statement}


def test_another_turn_is_known_by_the_chat_template(
    bench: Bench, preflight: Callable[..., Preflight], server: Callable[..., str]
) -> None:
    template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>"
    refrozen(bench, ("chat_template: none", f"chat_template: inline\n  template: '{template}'"))
    found = preflight(server(runs_on="<|end|><|user|>1+1="))
    assert found.completions.turn == "<|end|><|user|>"
    assert (found.completions.runs_on.n, found.completions.runs_on.of) == (16, 16)  # type: ignore[union-attr]


def test_prompts_that_show_nothing_of_the_item_are_a_warning(bench: Bench, preflight: Callable[..., Preflight]) -> None:
    refrozen(bench, ("{{ question }}", "add"))
    assert codes(preflight("baseline:gold"), "warning")["PROMPTS"] == "4 items have 1 different prompts"
