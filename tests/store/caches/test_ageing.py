"""Refresh and expiry."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from broker_ctl.errors import OperationTimeout
from broker_ctl.lab.time import ManualClock
from broker_ctl.store.cached_values import ValueCache
from broker_ctl.store.watched_cache import CacheRules
from broker_ctl.tasks import TaskFaults
from tests.store.caches.conftest import decode
from tests.store.caches.steered_store import SteeredStore
from tests.support.time.waiting import eventually


@pytest.fixture
async def cache(store: SteeredStore, clock: ManualClock) -> AsyncIterator[ValueCache[str]]:
    """Has read /c/a and gets no events: a changed value shows when an answer was read."""
    cache = ValueCache(
        store, ("/c",), decode, clock, CacheRules.expiring(100), rng=random.Random(1)
    )
    await cache.start()
    cache._stops.pop()()
    await store.create("/c/a", b"1")
    assert await cache.get("/c/a") == "1"
    await store.set("/c/a", b"2")
    yield cache
    await cache.close()


def test_refresh_is_at_half_of_the_expiry() -> None:
    rules = CacheRules.expiring(300)
    assert (rules.refresh_s, rules.expiry_s) == (150, 300)


async def test_an_old_answer_is_given_once_more_and_read_again_once(
    store: SteeredStore,
    clock: ManualClock,
    cache: ValueCache[str],
) -> None:
    clock.time_s += 49.9
    assert await cache.get("/c/a") == "1"
    assert cache.refreshes == 0
    clock.time_s += 0.1
    store.gate.clear()
    assert [await cache.get("/c/a") for _ in range(5)] == ["1"] * 5
    assert cache.refreshes == 1
    version = cache.version
    await eventually(lambda: store.reads == 2)
    assert [await cache.get("/c/a") for _ in range(5)] == ["1"] * 5
    clock.time_s += 10
    store.gate.set()
    await eventually(lambda: cache.peek("/c/a") == "2")
    assert (cache.refreshes, cache.loads, cache.misses) == (1, 2, 1)
    # Whoever keeps what it was given has to know, though no event came.
    assert cache.version == version + 1
    # Its age counts from the time of the request.
    clock.time_s += 39.9
    assert await cache.get("/c/a") == "2"
    assert cache.refreshes == 1
    clock.time_s += 0.1
    assert await cache.get("/c/a") == "2"
    assert cache.refreshes == 2


async def test_a_refresh_that_fails_keeps_the_old_answer_until_it_expires(
    store: SteeredStore,
    clock: ManualClock,
    cache: ValueCache[str],
) -> None:
    faults = TaskFaults()
    with faults.collecting():
        store.failure = OperationTimeout("no answer")
        clock.time_s += 60
        assert await cache.get("/c/a") == "1"
        await eventually(lambda: cache.load_failures == 1)
        assert await cache.get("/c/a") == "1"
        await eventually(lambda: cache.load_failures == 2)
        clock.time_s += 40
        with pytest.raises(OperationTimeout):
            await cache.get("/c/a")
        store.failure = None
        assert await cache.get("/c/a") == "2"
    assert faults.failures == 0


async def test_an_expired_value_is_read_again_and_can_still_be_peeked(
    clock: ManualClock,
    cache: ValueCache[str],
) -> None:
    clock.time_s += 100
    assert cache.peek("/c/a") == "1"
    assert await cache.get("/c/a") == "2"
    assert (cache.refreshes, cache.misses) == (0, 2)


async def test_no_refresh_is_tried_while_disconnected(
    store: SteeredStore,
    clock: ManualClock,
    cache: ValueCache[str],
) -> None:
    clock.time_s += 60
    store.disconnect()
    async with asyncio.TaskGroup() as tasks:
        reader = tasks.create_task(cache.get("/c/a"), name="get")
        await asyncio.sleep(0)
        store.reconnect()
    assert reader.result() == "2"
    assert cache.refreshes == 0


async def test_an_event_ends_a_refresh_and_a_later_reader_does_not_join_it(
    store: SteeredStore,
    clock: ManualClock,
) -> None:
    cache = ValueCache(
        store, ("/c",), decode, clock, CacheRules.expiring(100), rng=random.Random(1)
    )
    await cache.start()
    await store.create("/c/b", b"old")
    await cache.get("/c/b")
    clock.time_s += 60
    store.gate.clear()
    assert await cache.get("/c/b") == "old"
    await eventually(lambda: store.reads == 2)
    await store.sync("/")  # the refresh has its answer, and waits with it
    await store.set("/c/b", b"new")
    async with asyncio.TaskGroup() as tasks:
        reader = tasks.create_task(cache.get("/c/b"), name="get")
        await eventually(lambda: store.reads == 3)
        store.gate.set()
    assert reader.result() == "new"
    await eventually(lambda: not len(cache._tasks))
    assert cache.peek("/c/b") == "new"
    await cache.close()


async def test_a_server_that_lags_behind_takes_no_value_back(
    store: SteeredStore,
    clock: ManualClock,
    cache: ValueCache[str],
) -> None:
    store.lagging = await store.get("/c/a")
    await store.set("/c/a", b"3")
    newest, store.lagging = store.lagging, None
    cache.forget("/c/a")
    assert await cache.get("/c/a") == "3"
    store.lagging = newest
    clock.time_s += 60
    await cache.get("/c/a")
    await eventually(lambda: cache.loads == 3 and not len(cache._tasks))
    assert cache.peek("/c/a") == "3"
    clock.time_s += 60
    assert await cache.get("/c/a") == "3"
    assert cache.loads == 4
    # Its age is that of the answer that was kept, not that of the refused one.
    store.lagging = None
    await store.set("/c/a", b"4")
    assert await cache.get("/c/a") == "4"


async def test_a_refresh_notices_that_the_node_was_deleted(
    store: SteeredStore,
    clock: ManualClock,
    cache: ValueCache[str],
) -> None:
    await store.delete("/c/a")
    clock.time_s += 60
    assert await cache.get("/c/a") == "1"
    await eventually(lambda: cache.peek("/c/a") is None)
    assert await cache.get("/c/a") is None
    assert (len(cache), cache.loads) == (1, 2)


async def test_a_read_that_joined_a_refresh_ends_when_the_cache_is_closed(
    clock: ManualClock,
    cache: ValueCache[str],
) -> None:
    clock.time_s += 60
    assert await cache.get("/c/a") == "1"
    reading = cache._reads["/c/a"]
    # The task of the refresh is cancelled before its first step.
    await cache.close()
    await eventually(reading.done)


async def test_a_refresh_that_finds_the_same_changes_no_version(
    clock: ManualClock, cache: ValueCache[str]
) -> None:
    cache.forget("/c/a")
    assert await cache.get("/c/a") == "2"
    version = cache.version
    clock.time_s += 50
    assert await cache.get("/c/a") == "2"
    await eventually(lambda: cache.refreshes == 1 and not cache._reads)
    assert cache.version == version
