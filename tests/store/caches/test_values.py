"""What a value cache remembers, and when it forgets."""

import asyncio
import random

import pytest

from broker_ctl.errors import BadVersion, ConnectionLoss, CorruptRecord
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import ManualClock
from broker_ctl.store.cached_values import Found, ValueCache
from broker_ctl.store.interface import SessionEvent
from broker_ctl.store.watched_cache import CacheRules
from tests.store.caches.conftest import decode
from tests.store.caches.steered_store import SteeredStore
from tests.support.time.waiting import eventually


async def test_a_value_is_read_once_and_read_again_after_a_change(
    store: SteeredStore,
    cache: ValueCache[str],
) -> None:
    await store.create("/c/a", b"1")
    assert [await cache.get("/c/a") for _ in range(3)] == ["1"] * 3
    assert (store.reads, cache.loads, cache.hits, cache.misses) == (1, 1, 2, 1)
    await store.set("/c/a", b"2")
    assert cache.peek("/c/a") is None
    assert await cache.get("/c/a") == "2"
    assert cache.peek("/c/a") == "2"
    await store.delete("/c/a")
    assert await cache.get("/c/a") is None


async def test_the_absence_of_a_node_is_remembered_until_it_is_created(
    store: SteeredStore,
    cache: ValueCache[str],
) -> None:
    assert [await cache.get("/c/a") for _ in range(2)] == [None, None]
    assert store.reads == 1
    await store.create("/c/a", b"1")
    assert await cache.get("/c/a") == "1"


async def test_a_value_comes_with_its_version_where_that_is_asked_for(
    store: SteeredStore,
    cache: ValueCache[str],
) -> None:
    assert await cache.find("/c/a") is None
    await store.create("/c/a", b"1")
    await store.set("/c/a", b"2")
    assert await cache.find("/c/a") == Found("2", 1)
    reads = store.reads
    assert await cache.find("/c/a") == Found("2", 1)
    assert store.reads == reads
    assert await cache.find_in_store("/c/a") == Found("2", 1)
    assert store.reads == reads + 1


async def test_a_read_that_began_before_a_change_does_not_overwrite_what_came_after(
    store: SteeredStore,
    cache: ValueCache[str],
) -> None:
    await store.create("/c/a", b"old")
    store.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        early = tasks.create_task(cache.get("/c/a"), name="early")
        await eventually(lambda: store.reads == 1)
        await store.sync("/")  # the early read has its answer, and waits with it
        await store.set("/c/a", b"new")
        late = tasks.create_task(cache.get("/c/a"), name="late")
        await eventually(lambda: store.reads == 2)
        await store.sync("/")
        store.gate.set()
    assert early.result() == "old"
    assert late.result() == "new"
    assert cache.peek("/c/a") == "new"


async def test_a_read_that_ends_after_the_change_is_forgotten(
    store: SteeredStore,
    cache: ValueCache[str],
) -> None:
    await store.create("/c/a", b"old")
    store.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(cache.get("/c/a"), name="early")
        await eventually(lambda: store.reads == 1)
        await store.sync("/")
        await store.set("/c/a", b"new")
        store.gate.set()
    assert cache.peek("/c/a") is None
    assert await cache.get("/c/a") == "new"


async def test_a_read_that_began_before_the_watch_stood_is_not_remembered(
    store: SteeredStore,
    clock: ManualClock,
) -> None:
    await store.create("/c/a", b"old")
    cache = ValueCache(store, ("/c",), decode, clock, CacheRules(), rng=random.Random(1))
    store.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        early = tasks.create_task(cache.get("/c/a"), name="early")
        await eventually(lambda: store.reads == 1)
        await store.sync("/")
        await store.set("/c/a", b"new")
        await cache.start()
        store.gate.set()
    assert early.result() == "old"
    assert await cache.get("/c/a") == "new"
    await cache.close()


@pytest.mark.parametrize("is_refused", [False, True], ids=["done", "refused"])
async def test_a_read_after_an_own_write_joins_no_read_from_before_it(
    store: SteeredStore,
    clock: ManualClock,
    is_refused: bool,
) -> None:
    await store.create("/c/a", b"old")
    cache = ValueCache(store, ("/c",), decode, clock, CacheRules(), rng=random.Random(1))
    await cache.start()
    # The cache gets no event: only the write itself can invalidate the value.
    cache._stops.pop()()
    assert await cache.get("/c/a") == "old"
    try:
        with cache.writing("/c/a"):
            await store.set("/c/a", b"new", 7 if is_refused else 0)
    except BadVersion:
        assert is_refused
    assert cache.peek("/c/a") is None
    reads = store.reads
    assert await cache.get("/c/a") == ("old" if is_refused else "new")
    assert store.reads == reads + 1
    await cache.close()


async def test_readers_of_one_node_share_one_read(
    store: SteeredStore,
    cache: ValueCache[str],
) -> None:
    await store.create("/c/a", b"1")
    async with asyncio.TaskGroup() as tasks:
        readers = [tasks.create_task(cache.get("/c/a"), name="get") for _ in range(20)]
    assert [reader.result() for reader in readers] == ["1"] * 20
    assert store.reads == 1


async def test_a_shared_read_survives_the_cancellation_of_its_first_reader(
    store: SteeredStore,
    cache: ValueCache[str],
) -> None:
    await store.create("/c/a", b"1")
    store.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        readers = [tasks.create_task(cache.get("/c/a"), name="get") for _ in range(5)]
        await eventually(lambda: store.reads == 1)
        readers[0].cancel()
        readers[3].cancel()
        await eventually(lambda: store.reads == 2)
        store.gate.set()
    assert [reader.cancelled() for reader in readers] == [True, False, False, True, False]
    assert {reader.result() for reader in readers if not reader.cancelled()} == {"1"}
    assert (store.reads, cache.load_failures) == (2, 0)
    assert not cache._reads


async def test_a_shared_read_fails_for_every_reader_and_the_next_reads_again(
    store: SteeredStore,
    cache: ValueCache[str],
) -> None:
    await store.create("/c/a", b"1")
    store.failure = ConnectionLoss("gone")

    async def fails() -> bool:
        try:
            await cache.get("/c/a")
        except ConnectionLoss:
            return True
        return False

    async with asyncio.TaskGroup() as tasks:
        readers = [tasks.create_task(fails(), name="get") for _ in range(3)]
    assert all(reader.result() for reader in readers)
    assert (store.reads, cache.loads, cache.load_failures) == (1, 1, 1)
    store.failure = None
    assert await cache.get("/c/a") == "1"


async def test_what_does_not_decode_is_counted_and_not_remembered(
    store: SteeredStore,
    cache: ValueCache[str],
) -> None:
    await store.create("/c/a", b"corrupt")
    for _ in range(2):
        with pytest.raises(CorruptRecord):
            await cache.get("/c/a")
    assert (store.reads, cache.corrupt, cache.load_failures, len(cache)) == (2, 2, 2, 0)
    await store.set("/c/a", b"1")
    assert await cache.get("/c/a") == "1"


async def test_nothing_is_remembered_before_the_start_and_after_the_end(
    store: SteeredStore,
    clock: ManualClock,
) -> None:
    await store.create("/c/a", b"1")
    cache = ValueCache(store, ("/c",), decode, clock, CacheRules(), rng=random.Random(1))
    assert await cache.get("/c/a") == "1"
    assert len(cache) == 0
    await cache.start()
    await cache.get("/c/a")
    assert len(cache) == 1
    await cache.close()
    assert len(cache) == cache.size_bytes == 0
    await cache.get("/c/a")
    assert len(cache) == 0


async def test_no_listener_finds_anything_from_before_an_outage(
    store: SteeredStore,
    clock: ManualClock,
) -> None:
    found: list[tuple[SessionEvent, str | None]] = []
    # This listener is called before that of the cache.
    store.listen(lambda event: found.append((event, cache.peek("/c/a"))))
    cache = ValueCache(store, ("/c",), decode, clock, CacheRules(), rng=random.Random(1))
    await cache.start()
    await store.create("/c/a", b"1")
    await cache.get("/c/a")
    store.disconnect()
    assert len(cache) == 0
    store.reconnect()
    await store.wait_connected()
    assert found == [(SessionEvent.SUSPENDED, "1"), (SessionEvent.RECONNECTED, None)]
    assert cache.invalidations == 2
    await cache.close()


async def test_during_an_outage_readers_wait_for_the_store_and_nothing_is_remembered(
    store: SteeredStore,
    other: MemoryStore,
    cache: ValueCache[str],
) -> None:
    await store.create("/c/a", b"1")
    assert await cache.get("/c/a") == "1"
    store.disconnect()
    async with asyncio.TaskGroup() as tasks:
        reader = tasks.create_task(cache.get("/c/a"), name="get")
        await other.set("/c/a", b"2")
        assert not reader.done()
        store.reconnect()
    assert reader.result() == "2"
    # It was asked for before the watch stood again.
    assert len(cache) == 0
    assert await cache.get("/c/a") == "2"
    assert len(cache) == 1


async def test_a_watch_that_was_set_just_before_an_outage_is_not_trusted_in_it(
    store: SteeredStore,
    clock: ManualClock,
) -> None:
    await store.create("/c/a", b"1")
    cache = ValueCache(store, ("/c",), decode, clock, CacheRules(), rng=random.Random(1))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(cache.start(), name="start")
        # The outage is reported between the answer of the server and the next step of the cache.
        await eventually(lambda: store._session._link and store._session._link.roots, poll_s=0)
        cache._on_session_event(SessionEvent.SUSPENDED)
    assert await cache.get("/c/a") == "1"
    assert len(cache) == 0
    await cache.close()


async def test_the_whole_tree_is_not_watched_and_what_is_not_watched_is_not_cached(
    store: SteeredStore,
    clock: ManualClock,
    cache: ValueCache[str],
) -> None:
    with pytest.raises(ValueError, match="whole tree"):
        ValueCache(store, ("/c", "/"), decode, clock, CacheRules(), rng=random.Random(1))
    with pytest.raises(ValueError, match="/cc/a is not below /c"):
        await cache.get("/cc/a")
    assert await cache.get("/c") == ""
    assert len(cache) == 1
