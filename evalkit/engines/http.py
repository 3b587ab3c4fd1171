"""One JSON request to a server that may fail: bounded retries, and a typed cause for every way to fail.

1. Worth another attempt: 408, 409, 425, 429, 5xx, a lost or refused connection, a stall, and an answer that is not
   the JSON it should be. Not worth one: any other 4xx, which says that the request itself is wrong.
2. `Retry-After` is obeyed up to `LONGEST_WAIT`; otherwise the wait doubles, with full jitter, from half a second.
3. A failure is a value, not an exception: the caller decides what it means for a sample or for the run.
"""

from __future__ import annotations

import asyncio
import email.utils
import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import aiohttp
import orjson

RETRIED = frozenset({408, 409, 425, 429, *range(500, 600)})
FIRST_WAIT = 0.5
LONGEST_BACKOFF = 30.0
LONGEST_WAIT = 300.0


@dataclass(frozen=True, slots=True)
class Answer:
    """A JSON object from the server."""

    body: dict[str, Any]
    attempts: int
    seconds: float
    lost_connection: bool
    """Whether an attempt before this one lost or could not make its connection: the server may have come back
    another."""


@dataclass(frozen=True, slots=True)
class Failure:
    """No usable answer after all attempts."""

    cause: str
    """`http_STATUS`, `timeout`, `connection_lost`, `not_json`, `empty_body`, `html_body`, `bad_shape:…`."""
    message: str
    """The server's own words, one line, shortened; empty where it said nothing."""
    attempts: int
    seconds: float
    status: int | None = None


class BadShape(ValueError):
    """JSON of another shape than asked for; raised by a caller's `accept`."""


class JsonClient:
    """POST and GET of JSON with retries over one session.

    Args:
        session: an open session; its limits are the caller's.
        timeout: seconds for one attempt.
        retries: attempts after the first.
    """

    def __init__(self, session: aiohttp.ClientSession, timeout: float, retries: int) -> None:
        self._session = session
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._retries = retries
        self._jitter = random.Random()

    async def post(self, url: str, content: Any, accept: Any) -> Answer | Failure:
        """POST `content`; `accept(body)` may raise `BadShape` to have the attempt repeated."""
        return await self._request("POST", url, orjson.dumps(content), accept)

    async def get(self, url: str) -> Answer | Failure:
        """GET a JSON object."""
        return await self._request("GET", url, None, None)

    async def _request(self, method: str, url: str, data: bytes | None, accept: Any) -> Answer | Failure:
        start = time.monotonic()
        lost = False
        attempts = 0
        while True:
            attempts += 1
            result, retry_after = await self._attempt(method, url, data, accept)
            if isinstance(result, dict):
                return Answer(result, attempts, time.monotonic() - start, lost)
            cause, message, status, again = result
            lost = lost or cause == "connection_lost"
            if not again or attempts > self._retries:
                return Failure(cause, message, attempts, time.monotonic() - start, status)
            await asyncio.sleep(self._wait(attempts, retry_after))

    def _wait(self, attempts: int, retry_after: float | None) -> float:
        if retry_after is not None:
            return min(retry_after, LONGEST_WAIT)
        return self._jitter.uniform(0, min(LONGEST_BACKOFF, FIRST_WAIT * 2.0 ** (attempts - 1)))

    async def _attempt(
        self, method: str, url: str, data: bytes | None, accept: Any
    ) -> tuple[dict[str, Any] | tuple[str, str, int | None, bool], float | None]:
        try:
            async with self._session.request(method, url, data=data, timeout=self._timeout) as response:
                body = await response.read()
                status = response.status
                if status != 200:
                    again = status in RETRIED
                    return (f"http_{status}", _words(body), status, again), _seconds(
                        response.headers.get("Retry-After")
                    )
        except TimeoutError:
            return ("timeout", "", None, True), None
        except aiohttp.ClientPayloadError:
            return ("not_json", "the body ended early", None, True), None
        except (aiohttp.ClientError, ConnectionError, OSError) as error:
            return ("connection_lost", _line(str(error) or type(error).__name__), None, True), None
        return _read(body, accept), None


def _read(body: bytes, accept: Any) -> dict[str, Any] | tuple[str, str, int | None, bool]:
    if not body.strip():
        return ("empty_body", "", 200, True)
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        cause = "html_body" if body.lstrip()[:1] == b"<" else "not_json"
        return (cause, _line(body[:200].decode("utf-8", "replace")), 200, True)
    if not isinstance(content, dict):
        return ("bad_shape:not_an_object", "", 200, True)
    if accept is not None:
        try:
            accept(content)
        except BadShape as error:
            return (f"bad_shape:{error}", "", 200, True)
    return content


def _words(body: bytes) -> str:
    """The server's message: the `message` of an OpenAI-style error, else the body's beginning."""
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _line(body[:200].decode("utf-8", "replace"))
    error = content.get("error", content) if isinstance(content, dict) else content
    found = error.get("message", error) if isinstance(error, dict) else error
    return _line(str(found))


def _line(text: str, limit: int = 300) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def _seconds(header: str | None) -> float | None:
    """`Retry-After` in seconds: a number or an HTTP date; None where it is neither."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        when = email.utils.parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (when - datetime.now(UTC)).total_seconds())
