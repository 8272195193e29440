"""Many requests at a time, and the outcome of all when one fails (docs: kafka-pipelining)."""

import asyncio

import pytest

from broker_ctl.controller.store.loader import Pauses, pipelined
from broker_ctl.errors import OperationTimeout
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.tasks import TaskScope


@in_virtual_time
async def test_the_first_error_ends_all_of_it_and_is_raised() -> None:
    done: list[int] = []

    async def work(item: int) -> None:
        await asyncio.sleep(1.0 if item else 0.1)
        if not item:
            raise OperationTimeout("no answer")
        done.append(item)

    with pytest.raises(OperationTimeout):
        await pipelined(range(20), work, "items")
    assert done == []


@in_virtual_time
async def test_a_caller_that_is_cancelled_while_an_item_fails_ends_as_cancelled() -> None:
    is_failing = asyncio.Event()

    async def work(item: int) -> None:
        if not item:
            is_failing.set()
            raise OperationTimeout("no answer")
        try:
            await asyncio.sleep(10.0)
        finally:
            await asyncio.sleep(1.0)  # it takes its time to end

    async def keep_working() -> None:
        while True:
            try:
                await pipelined(range(6), work, "items")
            except OperationTimeout:
                await asyncio.sleep(0.25)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(keep_working(), name="keep working")
        await is_failing.wait()
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.wait([task], timeout=3.0)
        was_cancelled = task.cancelled()
        while not task.done():
            task.cancel()
            await asyncio.sleep(0.1)
    assert was_cancelled


@in_virtual_time
async def test_work_that_does_not_wait_lets_the_loop_go_on_from_time_to_time() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with TaskScope("work") as tasks:
        tasks.start(count_turns(), "turns")
        pauses = Pauses()
        for _ in range(5000):
            await pauses.after(1)
        await pauses.after(5000)
    assert 5 <= turns < 10
