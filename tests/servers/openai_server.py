"""A real server process that speaks the OpenAI API and misbehaves on request.

It answers `a+b=` prompts: right or wrong, long or short, as a hash of (prompt, seed) says, so the same request has the
same answer whatever went wrong before. Behaviour comes as JSON on the command line and can be changed over /control.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
import sys
from typing import Any

from aiohttp import web

FAULTS = ("429", "500", "reset", "stall", "truncated_body", "empty", "html", "two_choices", "no_choices")
BEHAVIOUR: dict[str, Any] = {
    "name": "tiny",
    "root": "weights-a",
    "max_model_len": 256,
    "fault_rate": 0.0,
    "faults": list(FAULTS),
    "fault_seed": 0,
    "stall_seconds": 3600.0,
    "unknown_knobs": [],
    "swap_after": None,
    "answers_as": None,
    "no_models": False,
    "context": None,
    "filter": False,
    "length": None,
    "count_extra": 0,
    "drift": False,
    "status": None,
    "reasoning": None,
    "retry_after": "0",
    "latency": 0.0,
    "honours_stop": True,
    "runs_on": "",
}


class Server:
    """State of the process."""

    def __init__(self, behaviour: dict[str, Any]) -> None:
        self.behaviour = {**BEHAVIOUR, **behaviour}
        self.rng = random.Random(self.behaviour["fault_seed"])
        self.requests: list[dict[str, Any]] = []
        self.completed = 0
        self.faults = 0

    @property
    def root(self) -> str:
        after = self.behaviour["swap_after"]
        return "weights-b" if after is not None and self.completed >= after else self.behaviour["root"]

    async def models(self, _: web.Request) -> web.StreamResponse:
        if self.behaviour["no_models"]:
            return web.json_response({"error": {"message": "no such path"}}, status=404)
        entry = {"id": self.behaviour["name"], "root": self.root, "max_model_len": self.behaviour["max_model_len"]}
        return web.json_response({"data": [entry]})

    async def control(self, request: web.Request) -> web.StreamResponse:
        self.behaviour.update(await request.json())
        return web.json_response({"requests": self.requests, "completed": self.completed, "faults": self.faults})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        payload = await request.json()
        self.requests.append(payload)
        if self.behaviour["latency"]:
            await asyncio.sleep(self.behaviour["latency"])
        refused = self.refusal(payload)
        if refused is not None:
            return web.json_response({"error": {"message": refused}}, status=self.behaviour["status"] or 400)
        if self.rng.random() < self.behaviour["fault_rate"]:
            self.faults += 1
            return await self.fault(request, self.rng.choice(self.behaviour["faults"]))
        self.completed += 1
        return web.json_response(self.answer(payload, request.path.endswith("chat/completions")))

    def refusal(self, payload: dict[str, Any]) -> str | None:
        if self.behaviour["status"]:
            return "no"
        for knob in self.behaviour["unknown_knobs"]:
            if knob in payload:
                return f"Unrecognized request argument supplied: {knob}"
        text = prompt_text(payload)
        if self.behaviour["context"] is not None and len(text) > self.behaviour["context"]:
            return f"This model's maximum context length is {self.behaviour['context']} tokens."
        return None

    async def fault(self, request: web.Request, kind: str) -> web.StreamResponse:
        if kind == "429":
            headers = {"Retry-After": self.behaviour["retry_after"]}
            return web.json_response({"error": {"message": "slow down"}}, status=429, headers=headers)
        if kind == "500":
            return web.Response(status=500, text="oops")
        if kind == "stall":
            await asyncio.sleep(self.behaviour["stall_seconds"])
        if kind in ("reset", "stall"):
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if kind == "truncated_body":
            response = web.StreamResponse(headers={"Content-Length": "500", "Content-Type": "application/json"})
            await response.prepare(request)
            await response.write(b'{"choices": [{"te')
            assert request.transport is not None
            request.transport.abort()
            return response
        bodies = {"empty": "", "html": "<html>gateway</html>", "no_choices": json.dumps({"choices": []})}
        choice = {"text": "1", "finish_reason": "stop"}
        return web.Response(text=bodies.get(kind, json.dumps({"choices": [choice, choice]})), content_type="text/plain")

    def answer(self, payload: dict[str, Any], chat: bool) -> dict[str, Any]:
        text, prompt = answer_text(payload), prompt_text(payload)
        if self.behaviour["drift"]:
            text += f" {self.completed}"
        reason = "stop"
        text += self.behaviour["runs_on"]
        if self.behaviour["honours_stop"]:
            text = text[: min([at for stop in payload.get("stop", ()) if (at := text.find(stop)) >= 0], default=None)]
        if self.behaviour["length"] is not None and len(prompt) % self.behaviour["length"] == 0:
            reason, text = "length", text[: payload["max_tokens"]]
        if self.behaviour["filter"] and len(prompt) % 2:
            reason = "content_filter"
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if self.behaviour["reasoning"]:
            message["reasoning_content"] = self.behaviour["reasoning"]
        choice = {"index": 0, "message": message} if chat else {"index": 0, "text": text}
        usage = {
            "prompt_tokens": len(prompt.replace("<s>", "#")) + self.behaviour["count_extra"],
            "completion_tokens": len(text),
        }
        as_name = self.behaviour["answers_as"] or self.behaviour["name"]
        return {"model": as_name, "choices": [{**choice, "finish_reason": reason}], "usage": usage}


def prompt_text(payload: dict[str, Any]) -> str:
    """The prompt, or all turns."""
    if "prompt" in payload:
        return payload["prompt"] if isinstance(payload["prompt"], str) else "".join(map(chr, payload["prompt"]))
    return "\n".join(message["content"] for message in payload["messages"])


def answer_text(payload: dict[str, Any]) -> str:
    """A sum, right two times in three, for the last `a+b=` of the prompt; else a hash."""
    prompt = prompt_text(payload)
    seed = payload.get("seed") if payload.get("temperature") else None  # greedy decoding draws nothing
    chance = hashlib.sha256(f"{prompt}\x00{seed}".encode()).digest()
    found = re.findall(r"(\d+)\+(\d+)=", prompt)
    if not found:
        return chance.hex()[:8]
    total = int(found[-1][0]) + int(found[-1][1])
    return f"{'sure ' * (chance[1] % 3)}{total if chance[0] < 170 else total + 1}"


def main() -> None:
    """Serve on a free port of the loopback interface, printed as the first line of stdout."""
    server = Server(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {})
    app = web.Application(client_max_size=1 << 26)
    app.router.add_get("/v1/models", server.models)
    app.router.add_get("/version", lambda _: web.json_response({"version": "9.9"}))
    app.router.add_post("/v1/completions", server.complete)
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
