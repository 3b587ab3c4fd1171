"""The bare loop: aiohttp and orjson, 64 requests in flight, answers counted and thrown away."""

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


if __name__ == "__main__":
    assert asyncio.run(main(sys.argv[1], int(sys.argv[2]))) == int(sys.argv[2])
