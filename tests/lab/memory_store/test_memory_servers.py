"""Several servers in memory: followers that are behind or cut off, a leader that goes, expiry."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from broker_ctl.lab.memory_store.ensemble import EnsembleRules, MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.memory_store.transport import Fault, FaultPoint, MemoryRequest, RequestKind
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store.interface import CreateMode, SessionEvent

TIMEOUT_S = 4.0
TICK_S = 0.5


class OnServer(random.Random):
    """Draws that connect every client to one server."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def choice(self, seq: object) -> object:  # type: ignore[override]
        assert isinstance(seq, list)
        return seq[min(self._number, len(seq) - 1)]


@asynccontextmanager
async def stores(ensemble: MemoryEnsemble, count: int) -> AsyncIterator[list[MemoryStore]]:
    opened = [
        MemoryStore(ensemble, session_timeout_s=TIMEOUT_S, operation_timeout_s=30.0)
        for _ in range(count)
    ]
    for store in opened:
        await store.start()
        await store.wait_connected()
    yield opened
    for store in opened:
        await store.close()


def new_ensemble(server: int, lag_s: float = 0.0) -> MemoryEnsemble:
    return MemoryEnsemble(EnsembleRules(3, TICK_S, lag=lambda: lag_s), OnServer(server))


@in_virtual_time
async def test_a_follower_shows_what_it_has_applied_and_a_sync_waits_for_the_rest() -> None:
    ensemble = new_ensemble(1, lag_s=1.0)
    async with stores(ensemble, 2) as (reader, writer):
        # The one that writes is on the leader.
        ensemble.servers[1].clients.pop(next(reversed(ensemble.servers[1].clients)))
        ensemble._sessions[writer.session_id].client.server = ensemble.leader  # type: ignore[union-attr]
        await writer.create("/a")
        assert await reader.exists("/a") is None
        await reader.sync("/")
        assert await reader.exists("/a") is not None


@in_virtual_time
async def test_a_session_behind_a_cut_follower_expires_while_its_reads_are_answered() -> None:
    ensemble = new_ensemble(1)
    async with stores(ensemble, 1) as (store,):
        await store.create("/e", b"", CreateMode.EPHEMERAL)
        old = store.session_id
        ensemble.cut_off(ensemble.servers[1])
        for _ in range(round((TIMEOUT_S + 2 * TICK_S) / TICK_S)):
            await asyncio.sleep(TICK_S)
            assert await store.exists("/e") is not None
        assert old not in ensemble.session_ids
        assert ensemble.tree.find("/e") is None
        ensemble.link(ensemble.servers[1])
        await asyncio.sleep(TICK_S)
        await store.wait_connected()
        assert store.session_id not in {0, old}


@in_virtual_time
async def test_a_new_leader_gives_every_session_its_whole_timeout() -> None:
    ensemble = new_ensemble(0)
    async with stores(ensemble, 1) as (store,):
        events: list[SessionEvent] = []
        store.listen(events.append)
        await store.create("/e", b"", CreateMode.EPHEMERAL)
        zxid = ensemble.tree.zxid
        ensemble.change_leader(2 * TIMEOUT_S)
        await asyncio.sleep(2 * TIMEOUT_S + 1.0)
        assert events == [SessionEvent.SUSPENDED, SessionEvent.RECONNECTED]
        assert await store.exists("/e") is not None
        assert ensemble.tree.zxid >> 32 == (zxid >> 32) + 1


@in_virtual_time
async def test_a_client_that_is_silent_expires_although_it_is_connected() -> None:
    ensemble = new_ensemble(0)
    loop = asyncio.get_running_loop()
    stopped_s = loop.time()
    store = MemoryStore(ensemble, session_timeout_s=TIMEOUT_S, pulse=lambda: stopped_s)
    await store.start()
    await store.wait_connected()
    old = store.session_id
    await asyncio.sleep(TIMEOUT_S - TICK_S)
    assert old in ensemble.session_ids
    await asyncio.sleep(3 * TICK_S)
    assert old not in ensemble.session_ids
    await store.close()


@in_virtual_time
async def test_a_reply_that_is_too_large_costs_the_connection_and_is_asked_for_in_parts() -> None:
    ensemble = new_ensemble(0)
    asked: list[RequestKind] = []

    def fault(request: MemoryRequest, point: FaultPoint) -> Fault | None:
        if point is FaultPoint.AFTER:
            asked.append(request.kind)
        is_first = asked.count(RequestKind.READ_MANY) == 1 and request.kind is RequestKind.READ_MANY
        return Fault.TOO_LARGE if is_first and point is FaultPoint.AFTER else None

    store = MemoryStore(ensemble, faults=fault)
    await store.start()
    await store.wait_connected()
    events: list[SessionEvent] = []
    store.listen(events.append)
    assert await store.get_many(["/a", "/b", "/c", "/d"]) == [None] * 4
    assert asked == [RequestKind.READ_MANY] * 3
    assert events == [SessionEvent.SUSPENDED, SessionEvent.RECONNECTED]
    await store.close()
