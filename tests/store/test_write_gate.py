"""A store that is closed for writes: nothing passes, and what had passed is waited for."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from broker_ctl.errors import ConnectionLoss
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store.instrumented import WriteGate
from broker_ctl.store.interface import Create, Read, SetData

LATER_S = 1e6
WRITES: dict[str, Callable[[WriteGate], Awaitable[object]]] = {
    "create": lambda gate: gate.create("/b"),
    "set": lambda gate: gate.set("/a", b"x"),
    "delete": lambda gate: gate.delete("/a"),
    "multi": lambda gate: gate.multi([SetData("/a", b"x")]),
    "write_many": lambda gate: gate.write_many([Create("/b")], LATER_S),
}


@asynccontextmanager
async def gated() -> AsyncIterator[tuple[WriteGate, MemoryStore]]:
    store = MemoryStore(MemoryEnsemble())
    await store.start()
    await store.wait_connected()
    await store.create("/a", b"before")
    yield WriteGate(store), store
    await store.close()


@pytest.mark.parametrize("name", WRITES)
@in_virtual_time
async def test_a_closed_gate_refuses_every_write_as_not_executed_and_says_why(name: str) -> None:
    async with gated() as (gate, store):
        gate.why_closed = "moving house"
        with pytest.raises(ConnectionLoss, match="not written: moving house"):
            await WRITES[name](gate)
        node = await store.get("/a")
        assert node is not None
        assert node.data == b"before"
        assert await store.exists("/b") is None
        assert (await gate.read_many([Read("/a")], LATER_S)) == [node]
        gate.why_closed = ""
        await WRITES[name](gate)
        assert await store.get("/a") != node or await store.exists("/b") is not None


@in_virtual_time
async def test_it_is_drained_once_the_last_write_is_answered() -> None:
    async with gated() as (gate, store):
        await gate.wait_drained()
        store.disconnect()
        async with asyncio.TaskGroup() as group:
            lost = group.create_task(gate.set("/a", b"1"), name="one that is given up")
            late = group.create_task(gate.set("/a", b"2"), name="one that waits")
            await asyncio.sleep(1.0)
            drained = group.create_task(gate.wait_drained(), name="drained")
            lost.cancel()
            await asyncio.sleep(1.0)
            assert not drained.done()
            store.reconnect()
            await late
            await asyncio.sleep(0)
            assert drained.done()
