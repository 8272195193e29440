"""A store to read from, and a clock that the test moves."""

import random
from collections.abc import AsyncIterator

import pytest

from broker_ctl.errors import CorruptRecord
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import ManualClock
from broker_ctl.store.cached_values import ValueCache
from broker_ctl.store.interface import Versioned
from broker_ctl.store.watched_cache import CacheRules
from tests.store.caches.steered_store import SteeredStore


def decode(node: Versioned) -> str:
    if node.data == b"corrupt":
        raise CorruptRecord("no such text")
    return node.data.decode()


@pytest.fixture
async def ensemble() -> MemoryEnsemble:
    return MemoryEnsemble()


@pytest.fixture
async def store(ensemble: MemoryEnsemble) -> AsyncIterator[SteeredStore]:
    store = SteeredStore(ensemble)
    await store.start()
    await store.wait_connected()
    await store.create("/c")
    yield store
    store.gate.set()
    await store.close()


@pytest.fixture
async def other(ensemble: MemoryEnsemble, store: SteeredStore) -> AsyncIterator[MemoryStore]:
    """Another client."""
    other = MemoryStore(ensemble)
    await other.start()
    await other.wait_connected()
    yield other
    await other.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def cache(store: SteeredStore, clock: ManualClock) -> AsyncIterator[ValueCache[str]]:
    """Texts below /c."""
    cache = ValueCache(store, ("/c",), decode, clock, CacheRules(), rng=random.Random(1))
    await cache.start()
    yield cache
    await cache.close()
