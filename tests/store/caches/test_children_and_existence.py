"""The caches of names and of existence."""

from collections.abc import AsyncIterator

import pytest

from broker_ctl.store.caches.children import ChildrenCache
from broker_ctl.store.caches.existence import ExistenceCache
from broker_ctl.store.caches.rules import CacheRules
from broker_ctl.store.interface import Change, Notification
from broker_ctl.store.memory.store import MemoryStore
from tests.store.caches.steered_store import SteeredStore
from tests.support.manual_clock import ManualClock


@pytest.fixture
async def children(store: SteeredStore, clock: ManualClock) -> AsyncIterator[ChildrenCache]:
    cache = ChildrenCache(store, ("/c",), clock, CacheRules())
    await cache.start()
    yield cache
    await cache.close()


@pytest.fixture
async def existence(store: SteeredStore, clock: ManualClock) -> AsyncIterator[ExistenceCache]:
    cache = ExistenceCache(store, ("/c",), clock, CacheRules())
    await cache.start()
    yield cache
    await cache.close()


async def test_names_are_read_once_and_again_after_one_came_or_went(
    store: SteeredStore,
    other: MemoryStore,
    children: ChildrenCache,
) -> None:
    assert [await children.get("/c") for _ in range(3)] == [()] * 3
    assert (store.reads, children.hits) == (1, 2)
    for name in ("b", "a"):
        await other.create(f"/c/{name}")
    await store.sync("/")
    assert [await children.get("/c") for _ in range(3)] == [("a", "b")] * 3
    await other.delete("/c/b")
    await store.sync("/")
    assert await children.get("/c") == ("a",)
    assert store.reads == 3


async def test_new_data_changes_no_names_and_no_existence(
    store: SteeredStore,
    children: ChildrenCache,
    existence: ExistenceCache,
) -> None:
    await store.create("/c/a", b"1")
    assert await children.get("/c") == ("a",)
    assert await existence.get("/c/a")
    reads = store.reads
    await store.set("/c/a", b"2")
    assert await children.get("/c") == ("a",)
    assert await existence.get("/c/a")
    assert store.reads == reads


async def test_an_absent_node_has_no_children_until_it_and_they_come(
    store: SteeredStore,
    children: ChildrenCache,
) -> None:
    assert await children.get("/c/a") == ()
    assert await children.get("/c/a") == ()
    assert store.reads == 1
    await store.create("/c/a")
    await store.create("/c/a/x")
    assert await children.get("/c/a") == ("x",)


async def test_a_server_that_says_that_children_changed_is_believed(
    store: SteeredStore,
    children: ChildrenCache,
) -> None:
    assert await children.get("/c") == ()
    children._notified(Notification(Change.CHILDREN_CHANGED, "/c", 1))
    assert await children.get("/c") == ()
    assert store.reads == 2


async def test_existence_is_read_once_and_again_after_the_node_came_or_went(
    store: SteeredStore,
    other: MemoryStore,
    existence: ExistenceCache,
) -> None:
    assert [await existence.get("/c/a") for _ in range(3)] == [False] * 3
    await other.create("/c/a")
    await store.sync("/")
    assert [await existence.get("/c/a") for _ in range(3)] == [True] * 3
    await other.delete("/c/a")
    await store.sync("/")
    assert [await existence.get("/c/a") for _ in range(3)] == [False] * 3
    assert (store.reads, existence.hits, existence.misses) == (3, 6, 3)


async def test_an_own_write_is_told_to_its_parent_too(
    store: SteeredStore,
    children: ChildrenCache,
) -> None:
    children._stops.pop()()  # no watch tells of it
    assert await children.get("/c") == ()
    with children.writing("/c/a"):
        await store.create("/c/a")
    assert await children.get("/c") == ("a",)
