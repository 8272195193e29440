"""The bounds of a cache."""

import random
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.lab.time import ManualClock
from broker_ctl.store.cached_values import ValueCache
from broker_ctl.store.records.ownership import NamespaceEphemeralData
from broker_ctl.store.watched_cache import CacheEntry, CacheRules, Entries
from tests.store.caches.conftest import decode
from tests.store.caches.steered_store import SteeredStore

MOST_ENTRIES, MOST_BYTES = 5, 3_000

puts = st.tuples(st.just("put"), st.sampled_from("abcdefgh"), st.integers(0, 3_500))
drops = st.tuples(st.sampled_from(["drop", "touch"]), st.sampled_from("abcdefgh"), st.just(0))


@given(st.lists(puts | drops, max_size=60))
def test_the_bounds_hold_after_every_step(steps: list[tuple[str, str, int]]) -> None:
    entries: Entries[str] = Entries(MOST_ENTRIES, MOST_BYTES)
    came = went = 0
    for what, path, size_bytes in steps:
        before = len(entries)
        is_there = entries.find(path) is not None
        if what == "put":
            entries.put(path, CacheEntry(path, size_bytes))
            came += 1
            went += is_there
        elif what == "drop":
            entries.drop(path)
            went += is_there
        elif is_there:
            entries.touch(path)
            assert len(entries) == before
        assert len(entries) == came - went - entries.evictions <= MOST_ENTRIES
        held = [entry for name in "abcdefgh" if (entry := entries.find(name))]
        assert sum(entry.payload_bytes for entry in held) <= entries.size_bytes <= MOST_BYTES
    entries.clear()
    assert entries.size_bytes == 0


async def test_the_least_recently_used_leave_when_there_are_too_many(
    store: SteeredStore,
    clock: ManualClock,
) -> None:
    cache = ValueCache(
        store, ("/c",), decode, clock, CacheRules(most_entries=3), rng=random.Random(1)
    )
    await cache.start()
    for path in ("/c/a", "/c/b", "/c/d"):
        await store.create(path, path.encode())
        await cache.get(path)
    await cache.get("/c/a")
    await cache.get("/c/e")
    assert [cache.peek(path) for path in ("/c/a", "/c/b", "/c/d")] == ["/c/a", None, "/c/d"]
    assert (len(cache), cache.evictions) == (3, 1)
    await cache.close()


async def test_large_values_evict_others_and_too_large_ones_are_not_kept(
    store: SteeredStore,
    clock: ManualClock,
) -> None:
    cache = ValueCache(
        store, ("/c",), decode, clock, CacheRules(most_bytes=20_000), rng=random.Random(1)
    )
    await cache.start()
    for name, size_bytes in (("a", 2_200), ("b", 2_200), ("d", 4_400), ("e", 20)):
        await store.create(f"/c/{name}", b"x" * size_bytes)
    for name in ("a", "b", "e"):
        await cache.get(f"/c/{name}")
    assert (len(cache), cache.evictions) == (3, 0)
    await cache.get("/c/d")
    assert (len(cache), cache.evictions) == (2, 2)
    assert cache.size_bytes <= 20_000
    await cache.close()
    # One value is larger than the bound of all together.
    small = ValueCache(
        store, ("/c",), decode, clock, CacheRules(most_bytes=10_000), rng=random.Random(1)
    )
    await small.start()
    await small.get("/c/e")
    assert await small.get("/c/d") == 4_400 * "x"
    assert (len(small), small.evictions) == (1, 1)
    await small.close()


def test_the_estimate_is_near_what_python_takes() -> None:
    urls = BrokerUrls("broker-1:8080", "http://broker-1:8080", None, "pulsar://broker-1:6650")
    data = NamespaceEphemeralData(urls).encode()
    entries: Entries[NamespaceEphemeralData] = Entries(10_000, 1 << 30)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(2_000):
            path = f"/namespace/t/ns{number:05d}/0x00000000_0xffffffff"
            record = NamespaceEphemeralData.decode(path, data)
            entries.put(path, CacheEntry(record, 3 * len(data), number, number, float(number)))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.5 < entries.size_bytes / (after - before) < 2
