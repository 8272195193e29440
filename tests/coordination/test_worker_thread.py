import asyncio
import threading

import pytest

from broker_ctl.coordination.worker_thread import WorkerThread


async def test_the_event_loop_goes_on_while_a_function_runs() -> None:
    may_end = threading.Event()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(WorkerThread("worker").run(may_end.wait), name="running")
        await asyncio.sleep(0)
        may_end.set()
    assert running.result()


async def test_an_error_of_the_function_is_raised_to_the_caller() -> None:
    def failing(number: int, *, base: int) -> int:
        raise ValueError(f"{number} to {base}")

    with pytest.raises(ValueError, match="3 to 10"):
        await WorkerThread("worker").run(failing, 3, base=10)


async def test_a_cancelled_function_ends_before_the_next_one_starts() -> None:
    worker = WorkerThread("worker")
    started, may_end = threading.Event(), threading.Event()
    order: list[str] = []

    def first() -> None:
        order.append("first starts")
        started.set()
        may_end.wait()
        order.append("first ends")

    async with asyncio.TaskGroup() as group:
        cancelled = group.create_task(worker.run(first), name="first")
        await asyncio.to_thread(started.wait)
        cancelled.cancel()
        group.create_task(worker.run(order.append, "second"), name="second")
        await asyncio.sleep(0)
        may_end.set()
    assert cancelled.cancelled()
    assert order == ["first starts", "first ends", "second"]


async def test_a_function_that_waits_is_not_run_once_its_caller_is_cancelled() -> None:
    worker = WorkerThread("worker")
    may_end = threading.Event()
    order: list[str] = []
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run(may_end.wait), name="running")
        waiting = group.create_task(worker.run(order.append, "cancelled"), name="waiting")
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        may_end.set()
    await worker.run(order.append, "next")
    assert order == ["next"]
