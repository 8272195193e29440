"""Read, change, write back: what is tried again, from where, and until when."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from broker_ctl.errors import Ambiguous, BadVersion, CorruptRecord, NoNode
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import LoopClock, in_virtual_time
from broker_ctl.store.cached_values import Updates, ValueCache
from broker_ctl.store.interface import ANY_VERSION, Stat, Versioned
from broker_ctl.store.watched_cache import CacheRules, UpdateRules

STOP_S = 3.0


def decode(node: Versioned) -> int:
    try:
        return int(node.data)
    except ValueError:
        raise CorruptRecord("no number") from None


class ContendedStore(MemoryStore):
    """Another client writes first, before the next ``conflicts`` writes."""

    def __init__(self, ensemble: MemoryEnsemble) -> None:
        super().__init__(ensemble)
        self.conflicts = 0
        self.attempts_s: list[float] = []
        self.reads = 0
        self.failure: Exception | None = None

    async def get(self, path: str) -> Versioned | None:
        self.reads += 1
        return await super().get(path)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        self.attempts_s.append(asyncio.get_running_loop().time())
        if self.failure is not None:
            raise self.failure
        if self.conflicts:
            self.conflicts -= 1
            await super().set(path, b"100")
        return await super().set(path, data, version)


class Longest(random.Random):
    """A random source that always draws the longest pause."""

    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


class Scene:
    def __init__(self, rng: random.Random) -> None:
        self.store = ContendedStore(MemoryEnsemble())
        clock = LoopClock()
        self.cache = ValueCache(
            self.store, ("/c",), decode, clock, CacheRules(), rng=random.Random(1)
        )
        self.updates = Updates(
            self.store,
            self.cache,
            lambda number: b"%d" % number,
            clock=clock,
            rng=rng,
            rules=UpdateRules(stop_s=STOP_S),
        )

    async def number(self) -> int | None:
        node = await self.store.get("/c/n")
        return None if node is None else decode(node)


@asynccontextmanager
async def scene(rng: random.Random | None = None) -> AsyncIterator[Scene]:
    built = Scene(rng or random.Random(1))
    await built.store.start()
    await built.store.wait_connected()
    await built.cache.start()
    yield built
    await built.cache.close()
    await built.store.close()


def plus_one(number: int) -> int:
    return number + 1


def count(number: int | None) -> int:
    return 0 if number is None else number + 1


@in_virtual_time
async def test_a_change_is_based_on_what_the_cache_knows() -> None:
    async with scene() as built:
        await built.store.create("/c/n", b"1", make_parents=True)
        await built.cache.get("/c/n")
        built.store.reads = 0
        stat = await built.updates.read_modify_update("/c/n", plus_one)
        assert (stat.version, built.store.reads) == (1, 0)
        # What was written is not remembered before it was read.
        assert built.cache.peek("/c/n") is None
        assert await built.cache.get("/c/n") == 2


@in_virtual_time
async def test_an_update_that_lost_a_race_reads_the_store_and_changes_that_value() -> None:
    async with scene() as built:
        await built.store.create("/c/n", b"1", make_parents=True)
        built.cache._stops.pop()()  # the cache gets no event of the other writes
        await built.cache.get("/c/n")
        built.store.conflicts, built.store.reads = 3, 0
        await built.updates.read_modify_update("/c/n", plus_one)
        assert len(built.store.attempts_s) == 4
        # Past the cache, which another reader may have filled again in between.
        assert (built.store.reads, built.cache.misses) == (3, 1)
        assert await built.number() == 101


@in_virtual_time
async def test_an_absent_node_is_an_error_or_is_made() -> None:
    async with scene() as built:
        with pytest.raises(NoNode):
            await built.updates.read_modify_update("/c/n", plus_one)
        stat = await built.updates.read_modify_update_or_create("/c/n", count)
        assert stat.version == 0
        assert await built.cache.get("/c/n") == 0
        await built.updates.read_modify_update_or_create("/c/n", count)
        assert await built.cache.get("/c/n") == 1


@in_virtual_time
async def test_an_update_or_create_follows_a_node_that_another_client_made_or_deleted() -> None:
    async with scene() as built:
        await built.store.create("/c")
        built.cache._stops.pop()()
        assert await built.cache.get("/c/n") is None
        await built.store.create("/c/n", b"7")
        await built.updates.read_modify_update_or_create("/c/n", count)
        assert await built.number() == 8
        assert await built.cache.get("/c/n") == 8
        await built.store.delete("/c/n")
        await built.updates.read_modify_update_or_create("/c/n", count)
        assert await built.number() == 0
        assert await built.cache.get("/c/n") == 0
        await built.store.delete("/c/n")
        with pytest.raises(NoNode):
            await built.updates.read_modify_update("/c/n", plus_one)


@in_virtual_time
async def test_pauses_double_up_to_the_longest_and_the_last_one_ends_at_the_stop() -> None:
    async with scene(Longest()) as built:
        await built.store.create("/c/n", b"1", make_parents=True)
        built.store.conflicts = 1_000
        began_s = asyncio.get_running_loop().time()
        with pytest.raises(BadVersion, match=r"/c/n: others were quicker 11 times in 3\.0 s"):
            await built.updates.read_modify_update("/c/n", plus_one)
        assert asyncio.get_running_loop().time() - began_s == pytest.approx(STOP_S)
        pauses = [later - earlier for earlier, later in pairwise(built.store.attempts_s)]
        doubling = [0.005 * 2**number for number in range(9)]
        assert pauses == pytest.approx([*doubling, STOP_S - sum(doubling)])
        assert await built.number() == 100


@in_virtual_time
async def test_no_pause_is_longer_than_the_longest() -> None:
    async with scene(Longest()) as built:
        built.updates._rules = UpdateRules()
        await built.store.create("/c/n", b"1", make_parents=True)
        built.store.conflicts = 1_000
        with pytest.raises(BadVersion):
            await built.updates.read_modify_update("/c/n", plus_one)
        pauses = [later - earlier for earlier, later in pairwise(built.store.attempts_s)]
        assert max(pauses) == pytest.approx(3.0)
        assert sum(pauses) == pytest.approx(30.0)


@in_virtual_time
async def test_pauses_are_drawn_from_nothing_up_to_their_longest() -> None:
    async with scene(random.Random(3)) as built:
        await built.store.create("/c/n", b"1", make_parents=True)
        built.store.conflicts = 9
        await built.updates.read_modify_update("/c/n", plus_one)
        pauses = [later - earlier for earlier, later in pairwise(built.store.attempts_s)]
        ratios = [pause / (0.005 * 2**number) for number, pause in enumerate(pauses)]
        assert all(0 <= ratio <= 1 for ratio in ratios)
        assert min(ratios) < 0.3
        assert max(ratios) > 0.7


@pytest.mark.parametrize("failure", [Ambiguous("lost"), ConnectionError("no such thing")])
def test_no_other_error_is_tried_again(failure: Exception) -> None:
    @in_virtual_time
    async def run() -> None:
        async with scene() as built:
            await built.store.create("/c/n", b"1", make_parents=True)
            await built.cache.get("/c/n")
            built.store.failure = failure
            with pytest.raises(type(failure)):
                await built.updates.read_modify_update("/c/n", plus_one)
            assert len(built.store.attempts_s) == 1
            # Whether it was written is unknown, so the cached value is dropped.
            assert built.cache.peek("/c/n") is None

    run()


@in_virtual_time
async def test_what_a_change_raises_ends_the_call_and_writes_nothing() -> None:
    async with scene() as built:
        await built.store.create("/c/n", b"0", make_parents=True)
        with pytest.raises(ZeroDivisionError):
            await built.updates.read_modify_update("/c/n", lambda number: 1 // number)
        assert built.store.attempts_s == []
        await built.store.create("/c/x", b"x")
        with pytest.raises(CorruptRecord):
            await built.updates.read_modify_update_or_create("/c/x", count)
        assert built.store.attempts_s == []
