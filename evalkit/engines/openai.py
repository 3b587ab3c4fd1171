"""`openai:NAME@URL`: any server that speaks the OpenAI API.

1. Every sampling knob of the protocol is sent, also those OpenAI does not have, so that no server default is left.
   A knob the server does not know may stay unsent only where its value means "off".
2. The model's identity is NAME, what the server says of it (id, root, max_model_len) and the training step and seed
   that the user gives, never the URL. A server
   that comes back with another identity ends the run: nobody can say which samples are whose.
3. Prompts that the client renders go to `/completions` as text, special tokens written in; the token count that the
   server reports is held against the tokenizer's.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from evalkit.canonical import digest
from evalkit.engines.base import Completion, EngineOptions, Fingerprint, Gold, ModelTemplate, Outcome, Request
from evalkit.engines.http import Answer, Failure, JsonClient
from evalkit.engines.openai_wire import CLIENT_ONLY, NOT_OPENAI, OUTCOMES, accept, count, fields_of, text_of
from evalkit.engines.prompting import cut_left
from evalkit.engines.tokenizer import TokenizerFolder
from evalkit.errors import BadInput, InfrastructureFailed, ModelChanged, Refused
from evalkit.protocol import Lock

OVERFLOW = re.compile(r"context length|context window|max_model_len|maximum.{0,40}tokens|too long", re.IGNORECASE)
PROBE = "2+2="
CONCURRENCY = 64
"""Requests in flight where the user says nothing."""
WAS_SWAPPED = "this run is invalid: serve the first model again and start over"
FIRST_RETRIES = 2
"""Of the first request, so that a wrong URL is said soon."""
CHECKED_PROMPTS = 8
"""Prompts whose token count is held against the tokenizer's."""


def parse_locator(locator: str) -> tuple[str, str]:
    """NAME and URL of `NAME@URL`; the URL without query, ending before any slash.

    Raises:
        BadInput: not of that form, or the URL holds credentials.
    """
    name, at, url = locator.rpartition("@http")
    parts = urlsplit("http" + url)
    if not at or not name or parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadInput(f"--model openai:{locator}: not NAME@URL; such as openai:my-model@http://127.0.0.1:8000/v1")
    if parts.username or parts.password:
        raise BadInput("--model openai: the URL holds credentials; put the key into OPENAI_API_KEY instead")
    return name, urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))


class OpenAIEngine:
    """Engine over HTTP. See the module's rules."""

    def __init__(self, locator: str, lock: Lock, gold: Gold, options: EngineOptions) -> None:
        self._name, self._url = parse_locator(locator)
        self._spec = lock.spec
        self._options = options
        self._concurrency = options.concurrency or CONCURRENCY
        if options.engine_args:
            raise BadInput("--engine-arg: openai:NAME@URL takes none; give them to the server")
        self._chat = lock.spec.prompt.chat_template == "server"
        self._tokenizer = TokenizerFolder(options.tokenizer) if options.tokenizer else None
        if lock.spec.prompt.chat_template == "model" and self._tokenizer is None:
            raise BadInput(
                "chat_template: model is rendered here, in the client; give --tokenizer FOLDER, the model's tokenizer"
            )
        cuts = lock.spec.limits.overflow == "truncate_left"
        if cuts and (self._chat or self._tokenizer is None):
            raise BadInput(
                "overflow: truncate_left needs the prompt's tokens; give --tokenizer FOLDER and a chat_template other "
                "than server, or freeze overflow: skip"
            )
        self._constant = fields_of(lock.spec, self._name)
        self._session: aiohttp.ClientSession | None = None
        self._identity: dict[str, Any] = {}
        self._answers_as: str | None = None
        self._verifying = asyncio.Lock()
        self._unchecked = CHECKED_PROMPTS

    @property
    def renders(self) -> bool:
        """Prompts or messages are sent."""
        return True

    def model_template(self) -> ModelTemplate:
        """The template and tokens of `--tokenizer`."""
        if self._tokenizer is None:
            return ModelTemplate()
        return ModelTemplate(self._tokenizer.chat_template(), self._tokenizer.bos_token)

    def prompt_tokens(self, request: Request) -> Sequence[tuple[int, str]] | None:
        """By `--tokenizer`, of the prompt as it is sent; None without one, or where the server renders."""
        if self._tokenizer is None or request.prompt is None:
            return None
        sent = self._fit(request.prompt)
        ids = self._tokenizer.encode(sent) if isinstance(sent, str) else sent
        return [(number, self._tokenizer.token(number)) for number in ids]

    async def open(self) -> Fingerprint:
        """Ask the server who it is and what it accepts, and whether temperature 0 repeats itself.

        Raises:
            InfrastructureFailed: no server answers.
            BadInput: the server does not serve NAME.
            Refused: the server does not know a knob the protocol sets.
        """
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get("OPENAI_API_KEY"):
            headers["Authorization"] = f"Bearer {key}"
        connector = aiohttp.TCPConnector(limit=self._concurrency, ttl_dns_cache=300)
        self._session = aiohttp.ClientSession(connector=connector, headers=headers, cookie_jar=aiohttp.DummyCookieJar())
        limits = self._spec.limits
        self._client = JsonClient(self._session, float(limits.request_timeout), limits.retries)
        impatient = JsonClient(self._session, float(limits.request_timeout), min(limits.retries, FIRST_RETRIES))
        self._identity = await self._ask_identity(impatient)
        version = await self._client.get(urlunsplit((*urlsplit(self._url)[:2], "/version", "", "")))
        dropped = await self._probe_knobs()
        details = {
            "served": self._identity,
            "chat_template": "provider-asserted" if self._chat else self._spec.prompt.chat_template,
            "knobs_not_sent": dropped,
            "greedy_repeats": await self._greedy_repeats(),
            "tokenizer": self._tokenizer.digest if self._tokenizer else None,
        }
        template = self.model_template().chat_template if self._spec.prompt.chat_template == "model" else None
        return Fingerprint(
            reference=f"openai:{self._name}@{self._url}",
            name=self._name,
            engine="openai",
            engine_version=str(version.body.get("version", "unknown")) if isinstance(version, Answer) else "unknown",
            dtype=None,
            model_digest=digest("model", {"name": self._name, **self._identity, **self._said()}),
            assurance="provider-asserted",
            chat_template_digest=template.digest if template else None,
            step=self._options.step,
            train_seed=self._options.train_seed,
            details=details,
        )

    async def _ask_identity(self, client: JsonClient) -> dict[str, Any]:
        answer = await client.get(f"{self._url}/models")
        if isinstance(answer, Failure):
            if answer.status in (404, 405, 501):
                return {"id": None, "root": None, "max_model_len": None}
            if answer.status in (401, 403):
                raise BadInput(f"{self._url}: {answer.cause} {answer.message}; set OPENAI_API_KEY")
            raise InfrastructureFailed(
                f"{self._url}/models: {answer.cause} {answer.message} after {answer.attempts} attempts; "
                "start the server, or correct the URL, and run the same command again"
            )
        models = answer.body.get("data")
        models = [model for model in models if isinstance(model, dict)] if isinstance(models, list) else []
        for model in models:
            if model.get("id") == self._name:
                room = count(model.get("max_model_len"))
                return {"id": self._name, "root": model.get("root") and str(model["root"]), "max_model_len": room}
        served = ", ".join(str(model.get("id")) for model in models) or "no model"
        if self._identity:
            raise ModelChanged(f"{self._url}: came back serving {served}, not {self._name}; {WAS_SWAPPED}")
        raise BadInput(f"{self._url}: serves {served}, not {self._name}; name one of these")

    def _said(self) -> dict[str, int]:
        """What the user says of the model: it tells checkpoints apart that are served in turn under one name."""
        said = {"step": self._options.step, "train_seed": self._options.train_seed}
        return {name: value for name, value in said.items() if value is not None}

    async def _probe_knobs(self) -> list[str]:
        """Send every knob once; leave out those the server refuses and the protocol does not use."""
        dropped: list[str] = []
        while True:
            answer = await self._client.post(self._endpoint, self._probe_payload(), accept)
            if isinstance(answer, Answer):
                self._answers_as = answer.body.get("model")
                self._checkcount(PROBE, answer.body)
                return dropped
            if answer.status not in (400, 422):
                raise _run_failure(self._url, answer)
            knob = next(
                (name for name in (*NOT_OPENAI, *CLIENT_ONLY) if name in self._constant and name in answer.message),
                None,
            )
            if knob is None:
                raise Refused(
                    f"{self._url}: refuses the protocol's request: {answer.message or answer.cause}; "
                    "freeze one it accepts"
                )
            used = self._constant.pop(knob)
            if NOT_OPENAI.get(knob) != used and not (knob == "add_special_tokens" and self._tokenizer):
                raise Refused(
                    f"{self._url}: does not know {knob}, which the protocol sets to {used}; serve the model "
                    "with an engine that does, such as vLLM, or freeze a protocol without it"
                )
            dropped.append(knob)

    def _probe_payload(self, **changes: Any) -> dict[str, Any]:
        what = {"messages": [{"role": "user", "content": PROBE}]} if self._chat else {"prompt": PROBE}
        return {**self._constant, **what, "seed": 0, "max_tokens": min(4, self._spec.sampling.max_tokens), **changes}

    async def _greedy_repeats(self) -> bool | None:
        """Whether two requests at temperature 0 say the same; None where the server would not answer them."""
        texts = []
        for _ in range(2):
            payload = self._probe_payload(temperature=0.0, max_tokens=min(16, self._spec.sampling.max_tokens))
            answer = await self._client.post(self._endpoint, payload, accept)
            if isinstance(answer, Failure):
                return None
            texts.append(text_of(answer.body["choices"][0], None, None))
        return texts[0] == texts[1]

    @property
    def _endpoint(self) -> str:
        return f"{self._url}/chat/completions" if self._chat else f"{self._url}/completions"

    async def start(self, first: Request) -> None:
        """Ready as it is."""

    async def generate(self, requests: Iterator[Request]) -> AsyncGenerator[Completion, None]:
        """Complete all requests, at most `concurrency` at a time."""
        done: asyncio.Queue[Completion | BaseException | None] = asyncio.Queue(self._concurrency)

        async def work() -> None:
            try:
                for request in requests:
                    await done.put(await self._complete(request))
                await done.put(None)
            except Exception as error:  # noqa: BLE001 - handed to the consumer, which raises it
                await done.put(error)

        tasks = [asyncio.create_task(work()) for _ in range(self._concurrency)]
        try:
            running = len(tasks)
            while running:
                result = await done.get()
                if isinstance(result, BaseException):
                    raise result
                if result is None:
                    running -= 1
                else:
                    yield result
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _complete(self, request: Request) -> Completion:
        payload = self._payload(request)
        result = await self._client.post(self._endpoint, payload, accept)
        if isinstance(result, Failure):
            return self._failed(request, result)
        if result.lost_connection:
            await self.verify()
        body = result.body
        if self._answers_as is not None and body.get("model") != self._answers_as:
            raise ModelChanged(
                f"{self._url}: answered as {body.get('model')}, before as {self._answers_as}; {WAS_SWAPPED}"
            )
        if self._unchecked and request.prompt is not None and isinstance(payload["prompt"], str):
            self._unchecked -= 1
            self._checkcount(request.prompt, body)
        return self._read(request, result)

    def _payload(self, request: Request) -> dict[str, Any]:
        if request.messages is not None:
            return {**self._constant, "messages": request.messages, "seed": request.seed}
        return {**self._constant, "prompt": self._fit(request.prompt or ""), "seed": request.seed}

    def _fit(self, prompt: str) -> str | list[int]:
        """The prompt, cut at its left to leave room for max_tokens where the protocol says so; its BOS stays."""
        room = self._identity.get("max_model_len")
        if self._spec.limits.overflow != "truncate_left" or self._tokenizer is None or not isinstance(room, int):
            return prompt
        ids = self._tokenizer.encode(prompt)
        keep = room - self._spec.sampling.max_tokens
        if len(ids) <= keep:
            return prompt
        if keep < 2:
            raise Refused(
                f"max_tokens {self._spec.sampling.max_tokens} leaves no room in the model's {room} tokens; lower it"
            )
        bos = self._tokenizer.bos_token
        return cut_left(ids, keep, bos is not None and prompt.startswith(bos))

    def _failed(self, request: Request, failure: Failure) -> Completion:
        if failure.status in (401, 403):
            raise InfrastructureFailed(f"{self._url}: {failure.cause} {failure.message}; check OPENAI_API_KEY")
        outcome: Outcome = "timed_out" if failure.cause == "timeout" else "errored"
        cause = failure.cause
        if failure.status in (400, 413, 422) and OVERFLOW.search(failure.message):
            cause = "overflow"
            outcome = "skipped" if self._spec.limits.overflow == "skip" else "errored"
        return Completion(
            request.sample_id, outcome, None, cause=cause, attempts=failure.attempts, seconds=failure.seconds
        )

    def _read(self, request: Request, answer: Answer) -> Completion:
        choice = answer.body["choices"][0]
        usage = answer.body.get("usage") or {}
        reason = choice.get("finish_reason")
        outcome = OUTCOMES[reason]
        reasoning = self._spec.reasoning
        return Completion(
            sample_id=request.sample_id,
            outcome=outcome,
            text=None if outcome == "filtered" else text_of(choice, reasoning.start, reasoning.end),
            finish_reason=reason,
            n_prompt_tokens=count(usage.get("prompt_tokens")),
            n_completion_tokens=count(usage.get("completion_tokens")),
            cause="content_filter" if outcome == "filtered" else None,
            attempts=answer.attempts,
            seconds=answer.seconds,
        )

    def _checkcount(self, prompt: str, body: Mapping[str, Any]) -> None:
        """Hold the server's count of prompt tokens against the tokenizer's: a difference is a BOS too many or few."""
        told = count((body.get("usage") or {}).get("prompt_tokens"))
        if self._chat or self._tokenizer is None or told is None:
            return
        ours = len(self._tokenizer.encode(prompt))
        if told != ours:
            raise Refused(
                f"{self._url}: counts {told} tokens in a prompt that is {ours} by --tokenizer; the server adds or "
                "loses special tokens, or has another tokenizer: serve the model with this tokenizer, honouring "
                "add_special_tokens: false"
            )

    async def verify(self) -> None:
        """Ask again who serves.

        Raises:
            InfrastructureFailed: it is another model, or nobody answers.
        """
        async with self._verifying:
            now = await self._ask_identity(self._client)
        if now != self._identity:
            changed = ", ".join(
                f"{key} {self._identity[key]} → {now[key]}" for key in now if now[key] != self._identity[key]
            )
            raise ModelChanged(f"{self._url}: the server now serves another model ({changed}); {WAS_SWAPPED}")

    def observed(self) -> Mapping[str, Any]:
        """Nothing."""
        return {}

    async def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def _run_failure(url: str, failure: Failure) -> InfrastructureFailed | BadInput:
    what = f"{url}: {failure.cause} {failure.message}".rstrip()
    if failure.status in (401, 403):
        return BadInput(f"{what}; set OPENAI_API_KEY")
    if failure.status == 404:
        return BadInput(f"{what}; give the URL up to and with /v1")
    return InfrastructureFailed(
        f"{what} after {failure.attempts} attempts; see the server's log, then run the same command again"
    )
