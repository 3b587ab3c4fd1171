"""The bare loop: aiohttp and orjson, 64 requests in flight, answers counted and thrown away.

`python -m benchmarks.bare URL N [uvloop]`
"""

from __future__ import annotations

import asyncio
import sys

import aiohttp
import orjson

from benchmarks.job import PROMPT


async def main(url: str, n: int) -> int:
    """Complete `n` prompts; how many were answered."""
    numbers = iter(range(n))
    answered = 0
    connector = aiohttp.TCPConnector(limit=64)
    async with aiohttp.ClientSession(connector=connector, headers={"Content-Type": "application/json"}) as session:

        async def work() -> None:
            nonlocal answered
            for i in numbers:
                message = {"role": "user", "content": PROMPT.format(i=i)}
                body = {"model": "fixed", "messages": [message], "max_tokens": 256, "temperature": 0.0, "seed": i}
                async with session.post(f"{url}/chat/completions", data=orjson.dumps(body)) as response:
                    answered += len(orjson.loads(await response.read())["choices"])

        await asyncio.gather(*(work() for _ in range(64)))
    return answered


def drive(url: str, n: int, loop: str) -> int:
    """`main` under asyncio's own loop, or under uvloop."""
    if loop != "uvloop":
        return asyncio.run(main(url, n))
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main(url, n))


if __name__ == "__main__":
    assert drive(sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "asyncio") == int(sys.argv[2])
