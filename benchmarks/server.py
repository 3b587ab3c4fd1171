"""A server with one fixed reply, as cheap as asyncio allows, so that the clients are what is measured.

Prints its port, and serves until standard input closes. Speaks just enough HTTP/1.1 and OpenAI API for every client.
"""

from __future__ import annotations

import asyncio
import json
import sys

TEXT = "Let me think about this step by step. " * 20 + "#### 42"
MODEL = "fixed"


def reply(body: dict[str, object]) -> bytes:
    """A whole HTTP response."""
    data = json.dumps(body).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data)


USAGE = {"prompt_tokens": 100, "completion_tokens": 200, "total_tokens": 300}
COMMON = {"id": "c", "created": 0, "model": MODEL, "usage": USAGE}
MESSAGE = {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
CHAT = reply({**COMMON, "object": "chat.completion", "choices": [MESSAGE]})
COMPLETION = reply(
    {**COMMON, "object": "text_completion", "choices": [{"index": 0, "text": TEXT, "finish_reason": "stop"}]}
)
MODELS = reply({"object": "list", "data": [{"id": MODEL, "object": "model", "root": MODEL, "max_model_len": 4096}]})
VERSION = reply({"version": "1"})


class Connection(asyncio.Protocol):
    """One keep-alive connection; requests are answered by their path, bodies are skipped."""

    def __init__(self) -> None:
        self.buffer = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self.buffer) < end + 4 + length:
                return
            self.buffer = self.buffer[end + 4 + length :]
            assert self.transport is not None
            path = head.split(b" ", 2)[1]
            answer = (
                CHAT if path.endswith(b"chat/completions") else COMPLETION if path.endswith(b"completions") else MODELS
            )
            self.transport.write(VERSION if path == b"/version" else answer)


async def main() -> None:
    """Serve on loopback until standard input closes."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
