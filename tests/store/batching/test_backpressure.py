"""Requests that wait for their batch: how many may wait, how long, and how the wait ends."""

import asyncio
from collections.abc import Awaitable
from contextlib import AsyncExitStack

import pytest

from broker_ctl.errors import ConnectionLoss, SessionExpired, StoreClosed, StoreError, Throttled
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.store.batching.batch_rules import BatchRules
from broker_ctl.store.batching.store import BatchedStore
from broker_ctl.store.interface import Create, CreateMode
from tests.store.batching.recording_store import bench

FEW = BatchRules(max_in_flight=1, max_operations=2, max_waiting=10)


async def failure_of(work: Awaitable[object]) -> StoreError | None:
    try:
        await work
    except StoreError as error:
        return error
    return None


@in_virtual_time
async def test_one_more_than_may_wait_is_refused_and_there_is_room_again_later() -> None:
    async with bench(FEW) as built, asyncio.TaskGroup() as tasks:
        gate = asyncio.Event()

        async def wait_for_gate() -> None:
            await gate.wait()

        built.transit = wait_for_gate
        asked = [
            tasks.create_task(failure_of(built.store.get("/a")), name="get") for _ in range(12)
        ]
        await asyncio.sleep(0.001)
        # One was sent, and ten found room behind it on its path.
        assert [task.done() for task in asked] == [False] * 11 + [True]
        assert built.store.waiting == 10
        with pytest.raises(Throttled):
            await built.store.get("/b")
        gate.set()
        assert await built.is_left_idle()
        failures = [task.result() for task in asked]
        assert [type(failure) for failure in failures if failure] == [Throttled]


@in_virtual_time
async def test_reads_that_do_not_all_find_room_are_refused_together() -> None:
    async with bench(BatchRules(max_waiting=10)) as built:
        with pytest.raises(Throttled):
            await built.store.get_many([f"/{number}" for number in range(11)])
        await asyncio.sleep(0.1)
        assert built.under.reads == []
        assert await built.is_left_idle()


@in_virtual_time
async def test_a_cancelled_request_frees_its_place_in_the_queue() -> None:
    async with bench(FEW) as built, asyncio.TaskGroup() as tasks:
        hold_off = asyncio.Event()

        async def wait_for_it() -> None:
            await hold_off.wait()

        built.transit = wait_for_it
        asked = [
            tasks.create_task(failure_of(built.store.set("/a", b"")), name="set") for _ in range(5)
        ]
        asked += [
            tasks.create_task(failure_of(built.store.get("/b")), name="get") for _ in range(5)
        ]
        await asyncio.sleep(0.001)
        for task in asked:
            task.cancel()
        hold_off.set()
        await asyncio.sleep(0.1)
        assert built.store.waiting == 0
        assert len(built.under.writes) == 1
        assert await built.is_left_idle()


@in_virtual_time
async def test_a_request_that_cannot_be_sent_fails_at_its_deadline() -> None:
    rules = BatchRules(max_in_flight=1, max_operations=1, operation_timeout_s=10.0)
    async with bench(rules) as built:
        built.under.disconnect()
        began_s = asyncio.get_running_loop().time()
        failures: list[StoreError | None] = []
        ended_s: list[float] = []

        async def ask(number: int) -> None:
            path = f"/{number % 3}"
            work = built.store.get(path) if number % 2 else built.store.set(path, b"")
            failures.append(await failure_of(work))
            ended_s.append(asyncio.get_running_loop().time() - began_s)

        async with asyncio.TaskGroup() as tasks:
            for number in range(12):
                tasks.create_task(ask(number), name="ask")
        assert all(isinstance(failure, ConnectionLoss) for failure in failures)
        assert any("not sent" in str(failure) for failure in failures)
        assert 10.0 <= min(ended_s) <= max(ended_s) <= 10.5 + 0.01
        built.under.reconnect()
        await built.under.wait_connected()
        await built.store.create("/1")
        assert await built.is_left_idle()
        assert built.created() == [("/1", b"")]


@in_virtual_time
async def test_a_write_that_waits_is_not_done_in_the_name_of_the_next_session() -> None:
    async with bench(BatchRules(max_in_flight=1, max_operations=1)) as built:
        session_id = built.under.session_id
        built.under.disconnect()
        works = [built.store.create(f"/{number}", b"", CreateMode.EPHEMERAL) for number in range(3)]
        works += [built.store.create("/0", b"behind another")]
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(failure_of(work), name="create") for work in works]
            reading = tasks.create_task(built.store.get("/"), name="get")
            await asyncio.sleep(0.001)
            built.ensemble.expire(session_id)
            built.under.reconnect()
        assert [type(task.result()) for task in asked] == [SessionExpired] * 4
        assert reading.result() is not None
        assert built.under.session_id not in {0, session_id}
        assert built.ensemble.committed == []
        await built.store.create("/0")
        assert await built.is_left_idle()


@in_virtual_time
async def test_what_is_sent_again_is_not_sent_in_the_name_of_the_next_session() -> None:
    async with bench(BatchRules(max_in_flight=1)) as built:
        await built.under.create("/1")
        session_id, loop = built.under.session_id, asyncio.get_running_loop()

        async def slow() -> None:
            await asyncio.sleep(0.01)

        built.transit = slow
        async with asyncio.TaskGroup() as tasks:
            asked = [
                tasks.create_task(failure_of(work), name="create")
                for work in [
                    built.store.create(f"/{number}", b"", CreateMode.EPHEMERAL)
                    for number in range(8)
                ]
            ]
            # One part of what is sent again is on its way, the others wait for its reply.
            loop.call_later(0.025, built.under.disconnect)
            loop.call_later(0.026, built.ensemble.expire, session_id)
            loop.call_later(0.027, built.under.reconnect)
        kinds = [type(task.result()).__name__ for task in asked]
        assert kinds == ["SessionExpired", "NodeExists", *["SessionExpired"] * 6]
        assert len(built.ensemble.committed) == 1
        assert await built.is_left_idle()


@in_virtual_time
async def test_waiting_requests_fail_with_store_closed_and_leave_nothing_behind() -> None:
    async with bench(FEW) as built:
        built.under.disconnect()
        async with asyncio.TaskGroup() as tasks:
            asked = [
                tasks.create_task(failure_of(work), name="ask")
                for work in [
                    *(built.store.get(f"/{number}") for number in range(4)),
                    *(built.store.create("/a", b"%d" % number) for number in range(4)),
                ]
            ]
            await asyncio.sleep(0.001)
            await built.store.close()
        assert [type(task.result()) for task in asked] == [StoreClosed] * 8
        assert isinstance(await failure_of(built.store.get("/")), StoreClosed)
        assert isinstance(await failure_of(built.store.multi([Create("/")])), StoreClosed)
        await asyncio.sleep(0.01)
        assert await built.is_left_idle()


@pytest.mark.parametrize("turns", range(6))
@in_virtual_time
async def test_no_caller_is_forgotten_where_the_store_underneath_is_closed_already(
    turns: int,
) -> None:
    async with AsyncExitStack() as stack:
        under = MemoryStore(MemoryEnsemble())
        stack.push_async_callback(under.close)
        store = BatchedStore(under, BatchRules(), LoopClock())
        await under.start()
        await under.wait_connected()
        await under.close()
        async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(failure_of(store.get("/")), name="get")
            writing = tasks.create_task(failure_of(store.create("/a")), name="create")
            for _ in range(turns):
                await asyncio.sleep(0)
            await store.close()
        assert isinstance(reading.result(), StoreError)
        assert isinstance(writing.result(), StoreError)
