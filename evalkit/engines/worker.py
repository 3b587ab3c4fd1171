"""The child's side of a local engine: messages in and out, and an end together with its parent.

First message in: what to load. First out: `{"ready": facts}`, `{"refused": message}` or `{"failed": message}`. Then in,
`{"requests": [[id, token ids, seed], …]}`, and out, as they finish, `{"done": [[id, text, finish reason, completion
tokens, cause], …]}`; `{"alive": true}` now and then from an engine that works in batches; `{"dead": message}` where the
engine cannot go on. Text is null where there is a cause.
"""

from __future__ import annotations

import os
import queue
import resource
import signal
import threading
from typing import Any

from evalkit.frames import own_descriptors, read_frame, write_frame

LONGEST_MESSAGE = 300


class Channel:
    """Messages from and to evalkit."""

    def __init__(self) -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        self._in, self._out = own_descriptors()
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        # A process that the engine forks must not hold our pipes open: their end is how a death is noticed.
        os.register_at_fork(after_in_child=self._let_go)
        threading.Thread(target=self._read, daemon=True).start()

    def next(self) -> Any:
        """The next message; waits for it."""
        return self._queue.get()

    def send(self, message: object) -> None:
        """Send a message; from any thread."""
        with self._lock:
            write_frame(self._out, message)

    def _read(self) -> None:
        while (message := read_frame(self._in)) is not None:
            self._queue.put(message)
        end_group()

    def _let_go(self) -> None:
        os.close(self._in.fileno())
        os.close(self._out.fileno())


def end_group() -> None:
    """End this process and all it started, at once."""
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def one_line(error: BaseException) -> str:
    """Type and first line of an exception."""
    text = str(error).strip().split("\n")[0][:LONGEST_MESSAGE]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
