"""One sync for all who asked before it was sent, and never one that was sent before."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from broker_ctl.coordination.children_cache import SyncBarrier
from broker_ctl.errors import StoreClosed, StoreError
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store.interface import MetadataStore
from tests.support.clusters.sessions import parties
from tests.support.time.waiting import eventually


class Held:
    """A store whose answers to syncs are held back; ``sent`` are the paths."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.sent: list[str] = []
        self.answers = asyncio.Semaphore(0)

    async def sync(self, path: str) -> None:
        self.sent.append(path)
        await self._store.sync(path)
        await self.answers.acquire()


@asynccontextmanager
async def catching_up() -> AsyncIterator[tuple[Held, SyncBarrier]]:
    async with parties(1) as (one,):
        held = Held(one.store)
        catching = SyncBarrier(cast("MetadataStore", held))
        try:
            yield held, catching
        finally:
            await catching.close()


def ask(group: asyncio.TaskGroup, catching: SyncBarrier, path: str) -> asyncio.Task[None]:
    return group.create_task(catching.wait(path))


async def turns() -> None:
    """Whatever can go on has gone on."""
    for _ in range(10):
        await asyncio.sleep(0)


@in_virtual_time
async def test_callers_that_ask_at_once_share_one_sync() -> None:
    async with catching_up() as (held, catching), asyncio.TaskGroup() as group:
        asked = [ask(group, catching, f"/{number}") for number in range(100)]
        await eventually(lambda: held.sent)
        held.answers.release()
        await asyncio.wait(asked)
        assert held.sent == ["/0"]


@in_virtual_time
async def test_a_caller_that_comes_during_a_sync_waits_for_the_next() -> None:
    async with catching_up() as (held, catching), asyncio.TaskGroup() as group:
        first = ask(group, catching, "/first")
        await eventually(lambda: held.sent)
        # What was committed since may not be in the answer that is on its way.
        later = [ask(group, catching, f"/later-{number}") for number in range(3)]
        await turns()
        held.answers.release()
        await first
        await eventually(lambda: len(held.sent) == 2)
        assert not any(task.done() for task in later)
        held.answers.release()
        await asyncio.wait(later)
        assert held.sent == ["/first", "/later-0"]


@in_virtual_time
async def test_a_sync_survives_the_cancellation_of_its_first_caller() -> None:
    async with catching_up() as (held, catching), asyncio.TaskGroup() as group:
        first, second = (ask(group, catching, path) for path in ("/a", "/b"))
        await eventually(lambda: held.sent)
        first.cancel()
        held.answers.release()
        await second
        assert first.cancelled()


@in_virtual_time
async def test_a_failed_sync_fails_its_callers_and_no_later_one() -> None:
    async with catching_up() as (held, catching):
        original, failing = held.sync, [True]

        async def fail_once(path: str) -> None:
            if failing:
                failing.clear()
                raise StoreError("no answer")
            await original(path)

        cast("Any", held).sync = fail_once
        with pytest.raises(StoreError, match="no answer"):
            await catching.wait("/a")
        held.answers.release()
        await catching.wait("/b")
        assert held.sent == ["/b"]


@in_virtual_time
async def test_after_the_end_nobody_waits() -> None:
    async with catching_up() as (_, catching):
        await catching.close()
        with pytest.raises(StoreClosed):
            await catching.wait("/a")


@in_virtual_time
async def test_the_end_does_not_leave_a_sync_behind() -> None:
    async with catching_up() as (held, catching), asyncio.TaskGroup() as group:
        waiting = ask(group, catching, "/a")
        await eventually(lambda: held.sent)
        await catching.close()
        await turns()
        # Its caller ends with it, and does not wait for an answer that nobody reads.
        assert waiting.cancelled()
