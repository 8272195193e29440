"""A cache keeps its promises over every store: they rest on the store's notifications."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from broker_ctl.clock import SystemClock
from broker_ctl.store.cached_values import Updates, ValueCache
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.watched_cache import CacheRules, UpdateRules
from tests.contract.backends import Backend
from tests.contract.conftest import OpenStore
from tests.store.caches.interleavings import Interleaving, random_steps
from tests.support.time.waiting import eventually

ROOTS = ("/c",)

Cut = Callable[[MetadataStore], None]
Expire = Callable[[MetadataStore], Awaitable[None]]


def decode(node: Versioned) -> int:
    return int(node.data)


def values_of(store: MetadataStore) -> ValueCache[int]:
    return ValueCache(store, ROOTS, decode, SystemClock(), CacheRules(), rng=random.Random(1))


async def test_a_change_by_another_store_is_seen_after_a_sync(
    store: MetadataStore,
    other: MetadataStore,
) -> None:
    cache = values_of(store)
    await cache.start()
    await other.create("/c")
    for number in range(20):
        await other.set("/c", b"%d" % number)
        await store.sync("/")
        assert await cache.get("/c") == number
    await cache.close()


async def test_a_write_through_a_store_is_seen_at_once_by_each_of_its_caches(
    store: MetadataStore,
) -> None:
    caches = [values_of(store), values_of(store)]
    for cache in caches:
        await cache.start()
    await store.create("/c", b"0")
    for number in range(10):
        for is_there in (False, True):
            seen = [await cache.get("/c/a") for cache in caches]
            assert seen == [number if is_there else None] * 2
            if is_there:
                await store.delete("/c/a")
            else:
                await store.create("/c/a", b"%d" % number)
    for cache in caches:
        await cache.close()


@pytest.mark.parametrize("is_lost", [False, True], ids=["cut", "expired"])
async def test_everything_is_read_again_after_the_connection_was_gone(
    store: MetadataStore,
    other: MetadataStore,
    cut: Cut,
    expire: Expire,
    is_lost: bool,
) -> None:
    cache = values_of(store)
    await cache.start()
    await other.create("/c", b"1")
    await store.sync("/")
    assert await cache.get("/c") == 1
    assert await cache.get("/c/none") is None
    assert len(cache) == 2
    if is_lost:
        await expire(store)
    else:
        cut(store)
    # Missed while there was no connection: no event will ever report it.
    await other.set("/c", b"2")
    await eventually(lambda: len(cache) == 0)
    await store.wait_connected()
    await store.sync("/")
    assert await cache.get("/c") == 2
    assert len(cache) == 1
    # The watch stands again.
    await other.set("/c", b"3")
    await store.sync("/")
    assert await cache.get("/c") == 3
    await cache.close()


async def test_readers_and_a_writer_never_see_a_value_go_back(
    store: MetadataStore,
    other: MetadataStore,
    cut: Cut,
) -> None:
    cache = values_of(store)
    await cache.start()
    await other.create("/c", b"0")
    rounds = 60

    async def write() -> None:
        for number in range(1, rounds + 1):
            await other.set("/c", b"%d" % number)
            if number % 10 == 0:
                cut(store)

    async def read(seen: list[int]) -> None:
        while not seen or seen[-1] < rounds:
            value = await cache.get("/c")
            assert value is not None
            seen.append(value)
            await asyncio.sleep(0)

    readings: list[list[int]] = [[], [], []]
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for seen in readings:
            tasks.create_task(read(seen), name="read")
        tasks.create_task(write(), name="write")
    for seen in readings:
        assert seen == sorted(seen)
    await cache.close()


@pytest.mark.parametrize("seed", range(8))
async def test_no_answer_is_older_than_an_event_before_it_and_each_cached_value_is_current(
    backend: Backend,
    seed: int,
) -> None:
    interleaving = Interleaving(backend)
    await interleaving.run(random_steps(random.Random(seed), 200))
    assert len(interleaving.reads) > 50


async def test_twenty_stores_that_count_at_once_lose_no_count(
    open_store: OpenStore,
) -> None:
    stores = [await open_store() for _ in range(20)]
    caches = [values_of(store) for store in stores]
    clock, rng = SystemClock(), random.Random(1)
    rounds = 5

    async def count(store: MetadataStore, cache: ValueCache[int]) -> None:
        updates = Updates(
            store,
            cache,
            lambda number: b"%d" % number,
            clock=clock,
            rng=rng,
            rules=UpdateRules(),
        )
        for _ in range(rounds):
            await updates.read_modify_update_or_create(
                "/c/n", lambda number: 1 if number is None else number + 1
            )

    for cache in caches:
        await cache.start()
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for store, cache in zip(stores, caches, strict=True):
            tasks.create_task(count(store, cache), name="count")
    for store, cache in zip(stores, caches, strict=True):
        await store.sync("/")
        assert await cache.get("/c/n") == rounds * len(stores)
        await cache.close()
    node = await stores[0].get("/c/n")
    assert node is not None
    assert node.stat.version == rounds * len(stores) - 1
