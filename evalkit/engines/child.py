"""The process that a local engine runs in, seen from evalkit: start it, talk to it, and leave nothing of it behind.

1. A crash of the engine, or the out-of-memory killer, takes the child and not the run.
2. The child is the first of a process group: ended together with everything it started, however it ends.
3. Where evalkit itself is killed, the child notices the end of its input and ends its group (`worker.py`).
4. Prompts go through pipes, never through arguments, environment or files. What libraries print goes to a log, which
   is kept where the engine failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalkit.errors import InfrastructureFailed
from evalkit.files import disk
from evalkit.frames import HEAD, pack, unpack

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
"""Nothing is looked up or reported over a network."""
LAST_WORDS = 200
"""Characters of the log's last error that a message shows."""


class ChildDied(Exception):
    """The child ended, or stopped answering; the message says how."""


class EngineChild:
    """One child process. One user at a time."""

    def __init__(self, module: str, log: Path) -> None:
        self._module = module
        self.log = log
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, load: Mapping[str, Any]) -> Any:
        """Start the child, have it load, and return what it says of itself.

        Raises:
            ChildDied: it ended while it loaded.
            InfrastructureFailed: no process can be started.
        """
        with disk(self.log):
            self.log.parent.mkdir(parents=True, exist_ok=True)
            log = open(self.log, "ab")  # noqa: SIM115 - closed below; the child keeps its own
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                self._module,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                limit=2**22,
                env={**os.environ, **ENVIRONMENT},
            )
        except OSError as error:
            raise InfrastructureFailed(f"engine process: cannot start: {error}; try again") from error
        finally:
            log.close()
        await self.send(load)
        return await self.receive(None)

    async def send(self, message: object) -> None:
        """Send one message; where the child is gone, the next `receive` says so."""
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(pack(message))
            await self._process.stdin.drain()

    async def receive(self, deadline: float | None) -> Any:
        """The next message.

        Raises:
            ChildDied: the child ended, or said nothing for `deadline` seconds; it is gone then.
        """
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(deadline):
                length, codec = HEAD.unpack(await self._process.stdout.readexactly(HEAD.size))
                return unpack(codec, await self._process.stdout.readexactly(length))
        except TimeoutError:
            await self.stop()
            raise ChildDied(f"no answer within {deadline:g} s") from None
        except (asyncio.IncompleteReadError, ConnectionError):
            code = await self._ended()
            raise ChildDied(f"it ended by signal {-code}" if code < 0 else f"it ended with code {code}") from None

    async def _ended(self) -> int:
        process = self._process
        assert process is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5.0):
                await process.wait()
        await self.stop()
        return process.returncode or 0

    async def stop(self) -> None:
        """Kill the child and all it started, and forget it."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        if process.stdin is not None:
            process.stdin.close()

    def last_words(self) -> str:
        """The last line of the log that names an error; empty where none does."""
        with contextlib.suppress(OSError):
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
            said = [line.strip() for line in lines[-400:] if "Error" in line and "root cause" not in line]
            return said[-1][-LAST_WORDS:] if said else ""
        return ""
