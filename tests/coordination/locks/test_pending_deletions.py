"""The deletion queue: done in the end, and only to the very node that was meant."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from broker_ctl.coordination import bulk_acquire as module
from broker_ctl.coordination.bulk_acquire import Deletions
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store.interface import ANY_VERSION, CreateMode
from broker_ctl.tasks import TaskScope
from tests.support.clusters.sessions import Party, lagging, parties
from tests.support.time.waiting import eventually


@asynccontextmanager
async def queues(
    ensemble: MemoryEnsemble | None = None,
) -> AsyncIterator[tuple[Party, Party, Deletions]]:
    """A party with a queue, and another one."""
    async with parties(2, ensemble=ensemble) as (one, other):
        queue = Deletions(one.store, rng=random.Random(1))
        yield one, other, queue
        await queue.close()


async def stands(party: Party, path: str) -> bool:
    return await party.store.exists(path) is not None


@in_virtual_time
async def test_a_queued_node_is_deleted_and_leaves_the_queue() -> None:
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
async def test_a_server_that_lags_does_not_have_a_successor_s_node_deleted() -> None:
    async with queues(lagging(5.0)) as (one, other, queue):
        node = await one.store.create("/a")
        await other.store.delete("/a")
        await other.store.create("/a")
        seen = await one.store.exists("/a")
        assert seen is not None
        assert seen.czxid == node.stat.czxid
        queue.add("/a", node.stat.czxid)
        await eventually(lambda: len(queue) == 0)
        assert await stands(other, "/a")


@in_virtual_time
async def test_a_node_that_is_replaced_while_its_deletion_is_sent_is_spared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with queues() as (one, other, queue):
        node = await one.store.create("/a")
        await one.store.set("/a", b"changed since")
        delete = one.store.delete

        async def replace_then_delete(path: str, version: int = ANY_VERSION) -> None:
            monkeypatch.undo()
            await other.store.delete(path)
            await other.store.create(path)
            await delete(path, version)

        monkeypatch.setattr(one.store, "delete", replace_then_delete)
        queue.add("/a", node.stat.czxid)
        await eventually(lambda: len(queue) == 0)
        assert await stands(one, "/a")


@in_virtual_time
async def test_a_deletion_is_tried_again_until_the_store_answers() -> None:
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
async def test_a_deletion_that_fails_does_not_hold_up_the_others() -> None:
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
async def test_the_age_is_that_of_the_oldest_deletion_and_zero_when_none_is_left() -> None:
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


@in_virtual_time
async def test_a_node_of_the_own_session_is_deleted_and_one_of_another_stays() -> None:
    async with queues() as (one, other, queue):
        await one.store.create("/own", mode=CreateMode.EPHEMERAL)
        await other.store.create("/theirs", mode=CreateMode.EPHEMERAL)
        for path in ("/own", "/theirs"):
            queue.add_own(path, one.store.session_id)
        async with asyncio.timeout(5.0):
            await queue.wait_gone("/own")
            await queue.wait_gone("/theirs")
        assert not await stands(one, "/own")
        assert await stands(one, "/theirs")


@in_virtual_time
async def test_a_creation_that_is_under_way_goes_too() -> None:
    async with queues() as (one, other, queue):
        async with TaskScope("test") as tasks:
            tasks.start(one.store.create("/a", mode=CreateMode.EPHEMERAL), "create")
            await asyncio.sleep(0)  # sent, and not answered yet
        queue.add_own("/a", one.store.session_id)
        await queue.wait_gone("/a")
        assert not await stands(other, "/a")


@in_virtual_time
async def test_a_wait_ends_when_its_deletion_is_given_up_or_the_queue_closes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_MAX_ENTRIES", 2)
    async with queues() as (one, _, queue), TaskScope("test") as tasks:
        one.store.disconnect()
        queue.add("/0", 1)
        waiting = tasks.start(queue.wait_gone("/0"), "wait")
        for number in range(1, 3):
            queue.add(f"/{number}", 1)
        async with asyncio.timeout(1.0):
            await waiting
        draining = tasks.start(queue.drain(), "drain")
        await queue.close()
        async with asyncio.timeout(1.0):
            await draining
        queue.add("/late", 1)
        assert len(queue) == 0


@in_virtual_time
async def test_with_the_store_the_queue_ends() -> None:
    async with queues() as (one, _, queue):
        one.store.disconnect()
        queue.add("/a", 1)
        await one.close()
        async with asyncio.timeout(5.0):
            await queue.drain()


@in_virtual_time
async def test_a_wait_for_a_path_lasts_until_the_deletion_that_was_queued_last_there() -> None:
    async with queues() as (one, _, queue), TaskScope("test") as tasks:
        node = await one.store.create("/a")
        one.store.disconnect()
        queue.add("/a", node.stat.czxid)
        waiting = tasks.start(queue.wait_gone("/a"), "wait")
        await asyncio.sleep(1.0)
        queue.add("/a", node.stat.czxid)
        await asyncio.sleep(1.0)
        assert not waiting.done()
        one.store.reconnect()
        async with asyncio.timeout(5.0):
            await waiting
        assert not await stands(one, "/a")
