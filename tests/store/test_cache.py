"""The cache over both stores: what it remembers, and when it forgets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from broker_ctl.errors import ConnectionLoss, CorruptRecord
from broker_ctl.store.cache import ValueCache
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.memory.ensemble import MemoryEnsemble
from broker_ctl.store.memory.store import MemoryStore
from tests.contract.backends import Backend, MemoryBackend, ZooKeeperBackend
from tests.support.waiting import eventually


def decode(node: Versioned) -> str:
    if node.data == b"corrupt":
        raise CorruptRecord("no such text")
    return node.data.decode()


class SlowStore(MemoryStore):
    """Answers a read with what was there when it was asked, and not before it is let."""

    reads = 0

    def __init__(self, ensemble: MemoryEnsemble) -> None:
        super().__init__(ensemble)
        self.gate = asyncio.Event()
        self.gate.set()
        self.failure: Exception | None = None

    async def get(self, path: str) -> Versioned | None:
        self.reads += 1
        node = await super().get(path)
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return node


@pytest.fixture
async def ensemble() -> MemoryEnsemble:
    return MemoryEnsemble()


@pytest.fixture
async def slow(ensemble: MemoryEnsemble) -> AsyncIterator[SlowStore]:
    store = SlowStore(ensemble)
    await store.start()
    await store.wait_connected()
    yield store
    store.gate.set()
    await store.close()


@pytest.fixture
async def cache(slow: SlowStore) -> ValueCache[str]:
    cache = ValueCache(slow, "/", decode)
    await cache.start()
    return cache


async def test_a_value_is_read_once_and_read_again_after_a_change(
    slow: SlowStore,
    cache: ValueCache[str],
) -> None:
    await slow.create("/a", b"1")
    assert [await cache.get("/a") for _ in range(3)] == ["1"] * 3
    assert (slow.reads, cache.hits, cache.misses) == (1, 2, 1)
    await slow.set("/a", b"2")
    assert cache.peek("/a") is None
    assert await cache.get("/a") == "2"
    assert cache.peek("/a") == "2"
    await slow.delete("/a")
    assert await cache.get("/a") is None


async def test_that_a_node_is_absent_is_remembered_until_it_is_created(
    slow: SlowStore,
    cache: ValueCache[str],
) -> None:
    assert [await cache.get("/a") for _ in range(2)] == [None, None]
    assert slow.reads == 1
    await slow.create("/a", b"1")
    assert await cache.get("/a") == "1"


async def test_a_read_that_began_before_a_change_does_not_overwrite_what_came_after(
    slow: SlowStore,
    cache: ValueCache[str],
) -> None:
    await slow.create("/a", b"old")
    slow.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        early = tasks.create_task(cache.get("/a"), name="early")
        await eventually(lambda: slow.reads == 1)
        await slow.sync("/")  # the early read has its answer, and waits with it
        await slow.set("/a", b"new")
        late = tasks.create_task(cache.get("/a"), name="late")
        await eventually(lambda: slow.reads == 2)
        await slow.sync("/")
        slow.gate.set()
    assert early.result() == "old"
    assert late.result() == "new"
    assert cache.peek("/a") == "new"


async def test_a_read_that_ends_after_a_newer_one_is_forgotten(
    slow: SlowStore,
    cache: ValueCache[str],
) -> None:
    await slow.create("/a", b"old")
    slow.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(cache.get("/a"), name="early")
        await eventually(lambda: slow.reads == 1)
        await slow.sync("/")
        await slow.set("/a", b"new")
        slow.gate.set()
    assert cache.peek("/a") is None
    assert await cache.get("/a") == "new"


async def test_readers_of_one_node_share_one_read(
    slow: SlowStore,
    cache: ValueCache[str],
) -> None:
    await slow.create("/a", b"1")
    async with asyncio.TaskGroup() as tasks:
        readers = [tasks.create_task(cache.get("/a"), name="get") for _ in range(20)]
    assert [reader.result() for reader in readers] == ["1"] * 20
    assert slow.reads == 1


async def test_who_shares_a_read_is_not_cancelled_with_who_began_it(
    slow: SlowStore,
    cache: ValueCache[str],
) -> None:
    await slow.create("/a", b"1")
    slow.gate.clear()
    async with asyncio.TaskGroup() as tasks:
        readers = [tasks.create_task(cache.get("/a"), name="get") for _ in range(5)]
        await eventually(lambda: slow.reads == 1)
        readers[0].cancel()
        readers[3].cancel()
        await eventually(lambda: slow.reads == 2)
        slow.gate.set()
    assert [reader.cancelled() for reader in readers] == [True, False, False, True, False]
    assert {reader.result() for reader in readers if not reader.cancelled()} == {"1"}
    assert slow.reads == 2
    assert not cache._loading


async def test_who_shares_a_read_that_fails_hears_of_it_and_the_next_reads_again(
    slow: SlowStore,
    cache: ValueCache[str],
) -> None:
    await slow.create("/a", b"1")
    slow.failure = ConnectionLoss("gone")

    async def fails() -> bool:
        try:
            await cache.get("/a")
        except ConnectionLoss:
            return True
        return False

    async with asyncio.TaskGroup() as tasks:
        readers = [tasks.create_task(fails(), name="get") for _ in range(3)]
    assert all(reader.result() for reader in readers)
    assert slow.reads == 1
    slow.failure = None
    assert await cache.get("/a") == "1"


async def test_what_does_not_decode_is_counted_and_not_remembered(
    slow: SlowStore,
    cache: ValueCache[str],
) -> None:
    await slow.create("/a", b"corrupt")
    for _ in range(2):
        with pytest.raises(CorruptRecord):
            await cache.get("/a")
    assert (slow.reads, cache.corrupt, len(cache)) == (2, 2, 0)
    await slow.set("/a", b"1")
    assert await cache.get("/a") == "1"


async def test_the_least_recently_used_leave_when_there_are_too_many(slow: SlowStore) -> None:
    cache = ValueCache(slow, "/", decode, max_entries=3)
    await cache.start()
    for path in ("/a", "/b", "/c"):
        await slow.create(path, path.encode())
        await cache.get(path)
    await cache.get("/a")
    await cache.get("/d")
    assert [cache.peek(path) for path in ("/a", "/b", "/c")] == ["/a", None, "/c"]
    assert len(cache) == 3


async def test_nothing_is_remembered_before_the_start_and_after_the_end(slow: SlowStore) -> None:
    await slow.create("/a", b"1")
    cache = ValueCache(slow, "/", decode)
    assert await cache.get("/a") == "1"
    assert len(cache) == 0
    await cache.start()
    await cache.get("/a")
    assert len(cache) == 1
    cache.close()
    assert len(cache) == 0
    await cache.get("/a")
    assert len(cache) == 0


async def test_a_forgotten_value_is_read_again_by_whoever_comes(
    slow: SlowStore,
    cache: ValueCache[str],
) -> None:
    await slow.create("/a", b"1")
    await cache.get("/a")
    cache.forget("/a")
    assert cache.peek("/a") is None
    assert await cache.get("/a") == "1"
    assert slow.reads == 2


# What follows is held on both stores.

Cut = Callable[[MetadataStore], None]
Expire = Callable[[MetadataStore], Awaitable[None]]


@pytest.fixture(params=["memory", "zookeeper"])
async def backend(request: pytest.FixtureRequest) -> AsyncIterator[Backend]:
    backend: Backend = MemoryBackend()
    if request.param == "zookeeper":
        hosts: str = request.getfixturevalue("zookeeper").connect_string
        backend = ZooKeeperBackend(hosts, request.getfixturevalue("chroot"))
    yield backend
    await backend.close()


async def test_a_change_by_another_is_seen_after_whatever_follows_it(backend: Backend) -> None:
    store, other = await backend.open(10, 10), await backend.open(10, 10)
    cache = ValueCache(store, "/c", decode)
    await cache.start()
    await other.create("/c")
    for number in range(20):
        stat = await other.set("/c", str(number).encode())
        await store.sync("/")
        assert await cache.get("/c") == str(number)
        assert stat.version == number + 1


@pytest.mark.parametrize("is_lost", [False, True], ids=["cut", "expired"])
async def test_everything_is_read_again_after_the_connection_was_gone(
    backend: Backend,
    is_lost: bool,
) -> None:
    store, other = await backend.open(10, 10), await backend.open(10, 10)
    cache = ValueCache(store, "/", decode)
    await cache.start()
    await other.create("/a", b"1")
    await store.sync("/")
    assert await cache.get("/a") == "1"
    assert await cache.get("/none") is None
    assert len(cache) == 2
    if is_lost:
        await backend.expire(store)
    else:
        backend.cut(store)
    # Missed while there was no connection: no event will ever tell of it.
    await other.set("/a", b"2")
    await eventually(lambda: len(cache) == 0)
    await store.wait_connected()
    await store.sync("/")
    assert await cache.get("/a") == "2"
    assert len(cache) == 1
    # The watch stands again.
    await other.set("/a", b"3")
    await store.sync("/")
    assert await cache.get("/a") == "3"


async def test_readers_and_a_writer_never_see_a_value_go_back(backend: Backend) -> None:
    store, other = await backend.open(10, 10), await backend.open(10, 10)
    cache = ValueCache(store, "/", decode)
    await cache.start()
    await other.create("/n", b"0")
    rounds = 60

    async def write() -> None:
        for number in range(1, rounds + 1):
            await other.set("/n", str(number).encode())
            if number % 10 == 0:
                backend.cut(store)

    async def read(seen: list[int]) -> None:
        while not seen or seen[-1] < rounds:
            value = await cache.get("/n")
            assert value is not None
            seen.append(int(value))
            await asyncio.sleep(0)

    readings: list[list[int]] = [[], [], []]
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        for seen in readings:
            tasks.create_task(read(seen), name="read")
        tasks.create_task(write(), name="write")
    for seen in readings:
        assert seen == sorted(seen)
