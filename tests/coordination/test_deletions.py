"""The deletion queue: done in the end, and only to the very node that was meant."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from broker_ctl.coordination import deletions as module
from broker_ctl.coordination.deletions import Deletions
from tests.support.sessions import Party, parties
from tests.support.virtual_time import in_virtual_time
from tests.support.waiting import eventually


@asynccontextmanager
async def queues() -> AsyncIterator[tuple[Party, Party, Deletions]]:
    """A party with a queue, and another one."""
    async with parties(2) as (one, other):
        queue = Deletions(one.store)
        queue.start()
        yield one, other, queue
        await queue.close()


async def stands(party: Party, path: str) -> bool:
    return await party.store.exists(path) is not None


@in_virtual_time
async def test_what_is_queued_goes_and_leaves_the_queue() -> None:
    async with queues() as (one, _, queue):
        node = await one.store.create("/a")
        await one.store.set("/a", b"changed since")
        queue.add("/a", node.stat.czxid)
        assert "/a" in queue
        await eventually(lambda: len(queue) == 0)
        assert not await stands(one, "/a")
        assert "/a" not in queue


@in_virtual_time
async def test_another_node_on_the_same_path_is_spared() -> None:
    async with queues() as (one, other, queue):
        node = await one.store.create("/a")
        await one.store.delete("/a")
        await other.store.create("/a")
        queue.add("/a", node.stat.czxid)
        queue.add("/never-was", 5)
        await eventually(lambda: len(queue) == 0)
        assert await stands(one, "/a")


@in_virtual_time
async def test_it_is_tried_again_until_the_store_answers() -> None:
    async with queues() as (one, other, queue):
        node = await one.store.create("/a")
        one.store.disconnect()
        queue.add("/a", node.stat.czxid)
        await asyncio.sleep(45.0)
        assert len(queue) == 1
        assert await stands(other, "/a")
        one.store.reconnect()
        await eventually(lambda: len(queue) == 0)
        assert not await stands(other, "/a")


@in_virtual_time
async def test_one_that_cannot_go_does_not_hold_up_the_others() -> None:
    async with queues() as (one, _, queue):
        stubborn = await one.store.create("/stubborn")
        await one.store.create("/stubborn/child")
        easy = await one.store.create("/easy")
        queue.add("/stubborn", stubborn.stat.czxid)
        queue.add("/easy", easy.stat.czxid)
        await eventually(lambda: len(queue) == 1, deadline_s=5.0)
        assert not await stands(one, "/easy")
        await one.store.delete("/stubborn/child")
        await eventually(lambda: len(queue) == 0)


@in_virtual_time
async def test_a_full_queue_gives_the_oldest_up_and_counts_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_MAX_ENTRIES", 2)
    async with queues() as (one, _, queue):
        one.store.disconnect()
        for number in range(3):
            queue.add(f"/{number}", 1)
        assert len(queue) == 2
        assert "/0" not in queue
        assert queue.given_up == 1


@in_virtual_time
async def test_it_tells_how_long_the_oldest_waits_and_when_nothing_is_left() -> None:
    async with queues() as (one, _, queue):
        assert queue.age_s == 0.0
        node = await one.store.create("/a")
        one.store.disconnect()
        queue.add("/a", node.stat.czxid)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3.0):
                await queue.drain()
        assert queue.age_s == pytest.approx(3.0)
        one.store.reconnect()
        await queue.drain()
        assert queue.age_s == 0.0
        assert not await stands(one, "/a")
