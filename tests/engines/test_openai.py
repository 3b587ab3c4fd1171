"""The OpenAI engine against a real server process that misbehaves."""

import asyncio
import copy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evalkit.engines import Completion, EngineOptions, Fingerprint, Gold, Request, make_engine
from evalkit.engines.openai import parse_locator
from evalkit.errors import BadInput, InfrastructureFailed, ModelChanged, Refused
from evalkit.protocol import Lock, Renderer
from tests.protocol.specs import FULL, lock_of
from tests.servers.process import RunningServer, serve

NONE = {"messages": [{"role": "user", "content": "{{ question }}"}], "chat_template": "none", "bos": "never"}
SERVER = {"messages": [{"role": "user", "content": "{{ question }}"}]}


def lock(prompt: dict[str, Any] = NONE, limits: dict[str, Any] | None = None, **sampling: Any) -> Lock:
    content = copy.deepcopy(FULL)
    content["prompt"] = prompt
    content["sampling"].update(sampling)
    content["limits"].update(limits or {})
    return lock_of(content)


def ask(
    server: RunningServer, protocol: Lock, n: int = 40, tokenizer: Path | None = None
) -> tuple[Fingerprint, list[Completion]]:
    async def go() -> tuple[Fingerprint, list[Completion]]:
        engine = make_engine(server.model, protocol, Gold([], dict), EngineOptions(Path(), tokenizer, concurrency=8))
        try:
            mark = await engine.open()
            renderer = Renderer(protocol.spec, engine.model_template().chat_template, engine.model_template().bos_token)
            found = [completion async for completion in engine.generate(requests(renderer, n))]
            await engine.verify()
            return mark, found
        finally:
            await engine.close()

    return asyncio.run(go())


def requests(renderer: Renderer, n: int) -> Any:
    for i in range(n):
        fields = {"item_id": str(i), "question": f"{i}+{i}="}
        text = renderer.text(fields)
        messages = renderer.messages(fields) if text is None else None
        yield Request(f"s{i}", str(i), 0, 1000 + i, text, messages, fields)


def test_every_sampling_knob_is_sent_the_non_openai_ones_too() -> None:
    with serve() as server:
        ask(server, lock(), 3)
        sent = server.control()["requests"][-1]
    assert {name: value for name, value in sent.items() if name not in ("prompt", "seed")} == {
        "model": "tiny",
        "max_tokens": 48,
        "temperature": 0.7,
        "top_p": 0.95,
        "top_k": 50,
        "min_p": 0.01,
        "repetition_penalty": 1.1,
        "presence_penalty": 0.5,
        "frequency_penalty": -0.5,
        "stop": ["\n\n", "0.7"],
        "n": 1,
        "stream": False,
        "add_special_tokens": False,
    }
    assert sent["seed"] in (1000, 1001, 1002)


def test_server_rendering_goes_to_chat_completions_and_is_provider_asserted() -> None:
    with serve() as server:
        mark, found = ask(server, lock({**SERVER, "template_arguments": {"enable_thinking": False}}), 3)
        sent = server.control()["requests"][-1]
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}
    assert sent["messages"][0]["role"] == "user"
    assert mark.details["chat_template"] == "provider-asserted"
    assert {completion.outcome for completion in found} == {"completed"}


def test_identity_is_the_name_and_what_the_server_says_never_the_url() -> None:
    with serve() as one, serve() as two, serve(root="weights-b") as other:
        first, second, third = (ask(server, lock(), 1)[0] for server in (one, two, other))
    assert first.model_digest == second.model_digest != third.model_digest
    assert first.engine_version == "9.9"


def test_every_fault_is_survived_and_every_request_ends_with_one_completion() -> None:
    protocol = lock(limits={"retries": 10, "request_timeout": 1})
    with serve(fault_rate=0.2, fault_seed=3) as server:
        found = ask(server, protocol, 150)[1]
        faults = server.control()["faults"]
    with serve() as server:
        calm = ask(server, protocol, 150)[1]
    assert faults > 10
    assert {c.sample_id: c.text for c in found} == {c.sample_id: c.text for c in calm}
    assert len(found) == 150
    assert max(c.attempts for c in found) > 1


@pytest.mark.parametrize(
    ("fault", "outcome", "cause"),
    [
        ("429", "errored", "http_429"),
        ("500", "errored", "http_500"),
        ("reset", "errored", "connection_lost"),
        ("stall", "timed_out", "timeout"),
        ("truncated_body", "errored", "not_json"),
        ("empty", "errored", "empty_body"),
        ("html", "errored", "html_body"),
        ("two_choices", "errored", "bad_shape:2_choices"),
        ("no_choices", "errored", "bad_shape:0_choices"),
    ],
)
def test_a_fault_that_does_not_end_has_its_typed_cause(fault: str, outcome: str, cause: str) -> None:
    protocol = lock(limits={"retries": 1, "request_timeout": 1})

    async def go(server: RunningServer) -> list[Completion]:
        engine = make_engine(server.model, protocol, Gold([], dict), EngineOptions(Path(), concurrency=4))
        try:
            await engine.open()
            server.control(fault_rate=1.0, faults=[fault])
            return [completion async for completion in engine.generate(requests(Renderer(protocol.spec), 4))]
        finally:
            await engine.close()

    with serve() as server:
        found = asyncio.run(go(server))
    assert Counter((c.outcome, c.cause, c.attempts, c.text) for c in found) == {(outcome, cause, 2, None): 4}


def test_retry_after_is_obeyed() -> None:
    protocol = lock(limits={"retries": 3})
    with serve(fault_rate=0.5, faults=["429"], retry_after="1", fault_seed=1) as server:
        found = ask(server, protocol, 8)[1]
    waited = [c for c in found if c.attempts > 1]
    assert waited
    assert all(c.seconds >= c.attempts - 1 for c in waited)


def test_a_server_that_comes_back_with_other_weights_ends_the_run() -> None:
    with serve(swap_after=20) as server, pytest.raises(ModelChanged) as error:
        ask(server, lock())
    assert error.value.exit_code == 75
    assert "the server now serves another model (root weights-a → weights-b)" in str(error.value)
    assert str(error.value).endswith("this run is invalid: serve the first model again and start over")


def test_a_server_that_answers_under_another_name_ends_the_run() -> None:
    async def go(server: RunningServer) -> None:
        protocol = lock()
        engine = make_engine(server.model, protocol, Gold([], dict), EngineOptions(Path(), concurrency=4))
        try:
            await engine.open()
            server.control(answers_as="other")
            _ = [completion async for completion in engine.generate(requests(Renderer(protocol.spec), 20))]
        finally:
            await engine.close()

    with serve() as server, pytest.raises(ModelChanged, match="answered as other, before as tiny"):
        asyncio.run(go(server))


def test_a_model_the_server_does_not_serve_is_refused_with_those_it_does() -> None:
    with serve(name="big") as server, pytest.raises(BadInput, match="serves big, not tiny; name one of these"):
        ask(server, lock())


def test_no_server_is_infrastructure() -> None:
    with serve() as server:
        model = server
    with pytest.raises(InfrastructureFailed) as error:
        ask(model, lock(limits={"retries": 0}))
    assert "connection_lost" in str(error.value)
    assert "start the server, or correct the URL" in str(error.value)


def test_a_knob_that_is_off_may_stay_unsent_where_the_server_does_not_know_it() -> None:
    protocol = lock(top_k=-1, min_p=0, repetition_penalty=1)
    with serve(unknown_knobs=["top_k", "min_p"]) as server:
        mark, found = ask(server, protocol, 4)
        sent = server.control()["requests"][-1]
    assert mark.details["knobs_not_sent"] == ["top_k", "min_p"]
    assert "top_k" not in sent
    assert len(found) == 4


def test_a_knob_in_use_that_the_server_does_not_know_is_refused() -> None:
    with serve(unknown_knobs=["repetition_penalty"]) as server, pytest.raises(Refused) as error:
        ask(server, lock())
    assert "does not know repetition_penalty, which the protocol sets to 1.1" in str(error.value)


def test_whether_temperature_zero_repeats_itself_is_recorded() -> None:
    with serve() as steady, serve(drift=True) as drifting:
        assert ask(steady, lock(), 1)[0].details["greedy_repeats"] is True
        assert ask(drifting, lock(), 1)[0].details["greedy_repeats"] is False


def test_truncated_and_filtered_completions_are_told_apart_from_wrong_ones() -> None:
    with serve(length=4) as server:
        found = ask(server, lock(), 40)[1]
    assert Counter(c.outcome for c in found) == {"completed": 30, "truncated": 10}
    with serve(filter=True) as server:
        found = ask(server, lock({**NONE, "messages": [{"role": "user", "content": "{{ question }}x"}]}), 40)[1]
    assert Counter((c.outcome, c.text is None) for c in found) == {("filtered", True): 40}


@pytest.mark.parametrize(("rule", "outcome"), [("skip", "skipped"), ("error", "errored")])
def test_a_prompt_that_does_not_fit_is_skipped_or_an_error_as_the_protocol_says(rule: str, outcome: str) -> None:
    with serve(context=4) as server:
        found = ask(server, lock(limits={"overflow": rule}), 40)[1]
    assert Counter((c.outcome, c.cause) for c in found) == {("completed", None): 10, (outcome, "overflow"): 30}


def test_reasoning_that_the_server_cut_out_is_put_back_between_the_markers() -> None:
    with serve(reasoning="hm") as server:
        found = ask(server, lock(SERVER), 1)[1]
    assert found[0].text is not None
    assert found[0].text.startswith("<think>hm</think>")


def test_a_key_in_the_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(BadInput) as error:
        parse_locator("m@http://user:secret@host/v1")
    assert "secret" not in str(error.value)
    assert "OPENAI_API_KEY" in str(error.value)


@pytest.mark.parametrize("locator", ["m", "m@", "@http://h/v1", "m@ftp://h", "m@http://"])
def test_a_locator_that_is_not_name_at_url_is_refused(locator: str) -> None:
    with pytest.raises(BadInput, match="not NAME@URL"):
        parse_locator(locator)


def test_the_api_key_goes_into_the_header_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    with serve() as server:
        mark, _ = ask(server, lock(), 1)
        assert "sk-secret" not in str(server.control()["requests"])
    assert "sk-secret" not in str(mark)


def test_checkpoints_served_in_turn_under_one_name_are_told_apart_by_their_step() -> None:
    async def digest(server: RunningServer, step: int | None) -> str:
        engine = make_engine(server.model, lock(), Gold([], dict), EngineOptions(Path(), step=step))
        try:
            return (await engine.open()).model_digest
        finally:
            await engine.close()

    with serve() as server:
        found = [asyncio.run(digest(server, step)) for step in (None, 100, 200, 200)]
    assert len(set(found)) == 3
    assert found[2] == found[3]
