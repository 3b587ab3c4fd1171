"""The event loop that runs are driven by: uvloop where there is one, which halves the cost of a request."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def drive(work: Coroutine[Any, Any, Result]) -> Result:
    """Run `work` to its end; Ctrl-C cancels it and raises KeyboardInterrupt, as with `asyncio.run`."""
    try:
        from uvloop import new_event_loop
    except ImportError:  # not made for this platform
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)
