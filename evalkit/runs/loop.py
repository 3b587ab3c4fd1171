"""The event loop that runs are driven by: uvloop where there is one, which halves the cost of a request."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")


def drive(work: Coroutine[Any, Any, Result]) -> Result:
    """Run `work` to its end; Ctrl-C cancels it and raises KeyboardInterrupt, as with `asyncio.run`.

    Where a loop is running already, as in a notebook, the work gets a thread and a loop of its own.

    Requests make many short-lived objects and hardly a cycle, so what was imported before is not searched for garbage
    meanwhile, and new objects less often.
    """
    if _inside_a_loop():
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: drive(work)).result()
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(20_000, *before[1:])
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(work)
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _inside_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        from uvloop import new_event_loop
    except ImportError:  # not made for this platform
        return None
    return new_event_loop
