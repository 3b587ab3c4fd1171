"""Work is driven to its end also where a loop is running already."""

import asyncio

from evalkit.runs.loop import drive


async def answer() -> int:
    await asyncio.sleep(0)
    return 42


def test_work_is_driven_to_its_end() -> None:
    assert drive(answer()) == 42


def test_a_notebook_has_a_loop_running_and_can_still_run() -> None:
    async def cell() -> int:
        return drive(answer())

    assert asyncio.run(cell()) == 42
