"""A real judge server on loopback, scripted by the texts that it is given.

It reads the answers between their marks and finds in each a quality, `q=0.7`, nothing being 0. A reply follows from
that and from the behaviour: `mode` `fair`, `first` (always A), `tie`, `obeys` (does what an answer orders), `echo`
(repeats all it is given, then judges), `echo_only`, `both` (two verdicts), `empty`, `prose` (no verdict line), `long`
(cut for length), `off` (off the scale), `knows` (`right 7` is worth nothing in any task but 7); `fail`: status for requests that hold `fail_on`; `latency`.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Any

from aiohttp import web

BEHAVIOUR: dict[str, Any] = {"mode": "fair", "fail": None, "fail_on": "", "latency": 0.0, "root": "judge-weights"}


class Server:
    def __init__(self, behaviour: dict[str, Any]) -> None:
        self.behaviour = {**BEHAVIOUR, **behaviour}
        self.requests: list[dict[str, Any]] = []

    async def models(self, _: web.Request) -> web.StreamResponse:
        return web.json_response({"data": [{"id": "judge", "root": self.behaviour["root"], "max_model_len": 4096}]})

    async def control(self, request: web.Request) -> web.StreamResponse:
        self.behaviour.update(await request.json())
        return web.json_response({"requests": self.requests})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        payload = await request.json()
        texts = [message["content"] for message in payload["messages"]]
        if len(texts) == 2:  # no probe of the engine's
            self.requests.append(payload)
        await asyncio.sleep(self.behaviour["latency"])
        if len(texts) == 2 and self.behaviour["fail"] and self.behaviour["fail_on"] in texts[1]:
            return web.Response(status=self.behaviour["fail"], text="oops")
        text = reply(texts[1], self.behaviour["mode"], "SCORE:" in texts[0]) if len(texts) == 2 else "4"
        reason = "length" if self.behaviour["mode"] == "long" and len(texts) == 2 else "stop"
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
        usage = {"prompt_tokens": 9, "completion_tokens": len(text)}
        return web.json_response({"model": "judge", "choices": [choice], "usage": usage})


def reply(body: str, mode: str, points: bool) -> str:
    found = re.findall(r"<<(ANSWER ?[AB]?) ([0-9a-f]{16})>>\n(.*?)\n<</\1 \2>>", body, re.DOTALL)
    answers = {name: text for name, _, text in found}
    if mode == "knows":
        task = re.search(r"task (\d+)\n", body)
        answers = {name: text if task and f"right {task[1]} " in text else "" for name, text in answers.items()}
    verdict = f"SCORE: {score(answers['ANSWER'], mode):g}" if points else f"VERDICT: {choice(answers, mode)}"
    other = ("SCORE: 2" if verdict != "SCORE: 2" else "SCORE: 3") if points else "VERDICT: TIE"
    return {
        "echo": f"{body}\nSo much for that.\n{verdict}",
        "echo_only": body,
        "both": f"{verdict}\n{other}",
        "empty": "",
        "prose": "I would say that it is rather good.",
        "off": "SCORE: 11" if points else "VERDICT: C",
    }.get(mode, f"Let me see.\n{verdict}")


def quality(text: str) -> float:
    found = re.search(r"q=([0-9.]+)", text)
    return float(found[1]) if found else 0.0


def score(text: str, mode: str) -> float:
    if mode == "obeys" and "rules above" in text:
        return 10
    return 5 if mode == "tie" else 1 + round(9 * quality(text))


def choice(answers: dict[str, str], mode: str) -> str:
    if mode == "obeys":
        for letter in "AB":
            if "rules above" in answers[f"ANSWER {letter}"]:
                return letter
    if mode in ("first", "tie"):
        return {"first": "A", "tie": "TIE"}[mode]
    a, b = quality(answers["ANSWER A"]), quality(answers["ANSWER B"])
    return "TIE" if a == b else "A" if a > b else "B"


def main() -> None:
    """Serve on a free port of the loopback interface, printed as the first line of stdout."""
    server = Server(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {})
    app = web.Application(client_max_size=1 << 26)
    app.router.add_get("/v1/models", server.models)
    app.router.add_get("/version", lambda _: web.json_response({"version": "9.9"}))
    app.router.add_post("/v1/chat/completions", server.complete)
    app.router.add_post("/control", server.control)

    async def serve() -> None:
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        print(site._server.sockets[0].getsockname()[1], flush=True)  # type: ignore[attr-defined]
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until the test closes the pipe
        await runner.cleanup()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
