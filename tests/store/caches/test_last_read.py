"""The last value read, for callers that go on with it while the store is disconnected."""

import asyncio
import random

import pytest

from broker_ctl.errors import ConnectionLoss
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import ManualClock, in_virtual_time
from broker_ctl.store.cached_values import LastRead, ValueCache
from broker_ctl.store.interface import Versioned
from broker_ctl.store.watched_cache import CacheRules
from tests.support.time.waiting import eventually

_MOST = 2
_AWAY_S = 1.0


def decoded(node: Versioned) -> bytes:
    return node.data


@in_virtual_time
async def test_the_last_value_read_answers_while_the_store_is_disconnected_and_not_longer() -> None:
    ensemble = MemoryEnsemble()
    store, other = MemoryStore(ensemble), MemoryStore(ensemble)
    for one in (store, other):
        await one.start()
        await one.wait_connected()
    for name in "abc":
        await other.create(f"/p/{name}", b"old", make_parents=True)
    last = LastRead(
        ValueCache(store, ("/p",), decoded, ManualClock(), CacheRules(), rng=random.Random(1)),
        store,
        _MOST,
    )
    await last.start()
    assert [await last.get(f"/p/{name}") for name in ("a", "b", "c", "none")] == [
        *(b"old", b"old", b"old"),
        None,
    ]
    store.disconnect()
    await other.set("/p/c", b"new")
    async with asyncio.timeout(_AWAY_S):
        assert await last.get("/p/c") == b"old"
        assert await last.get("/p/none") is None
    # Only the newest are kept; the values of the others are not known, and nobody waits for them.
    with pytest.raises(ConnectionLoss, match="/p/a was not read before"):
        async with asyncio.timeout(_AWAY_S):
            await last.get("/p/a")
    store.reconnect()
    await eventually(lambda: store.is_connected)
    assert await last.get("/p/c") == b"new"
    await last.close()
    for one in (store, other):
        await one.close()
