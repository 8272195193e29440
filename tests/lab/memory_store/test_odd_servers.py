"""Servers with other limits, of other releases, that report late, or were restored from a copy."""

import asyncio
import random

import pytest

from broker_ctl.errors import HistoryBehind, StoreClosed
from broker_ctl.lab.memory_store.ensemble import EnsembleRules, MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store.interface import CreateMode, Notification, SessionEvent

TIMEOUT_S = 4.0
TICK_S = 0.5
_SHORTLY_S = 0.05


class OnServer(random.Random):
    """Draws that connect every client to the server with this number."""

    number = 0

    def choice(self, seq: object) -> object:  # type: ignore[override]
        assert isinstance(seq, list)
        return seq[self.number]


async def connected(ensemble: MemoryEnsemble) -> MemoryStore:
    store = MemoryStore(ensemble, session_timeout_s=TIMEOUT_S, operation_timeout_s=30.0)
    await store.start()
    await store.wait_connected()
    return store


@in_virtual_time
async def test_the_timeout_shrinks_with_a_server_that_grants_less_and_never_grows_again() -> None:
    draws = OnServer()
    ensemble = MemoryEnsemble(EnsembleRules(2, TICK_S), draws)
    ensemble.servers[1].most_timeout_s = 3.0
    store = await connected(ensemble)
    granted = [store.session_timeout_s]
    events: list[SessionEvent] = []
    store.listen(events.append)
    for draws.number in (1, 0):
        ensemble.servers[1 - draws.number].drop_all("it restarts")
        await asyncio.sleep(TICK_S)
        granted.append(store.session_timeout_s)
    assert granted == [TIMEOUT_S, 3.0, 3.0]
    assert events == [SessionEvent.SUSPENDED, SessionEvent.RECONNECTED] * 2
    session_id = store.session_id
    store._session.disconnect()
    await asyncio.sleep(3.0 + 2 * TICK_S)
    assert session_id not in ensemble.session_ids
    store._session.reconnect()
    await asyncio.sleep(TICK_S)
    # The next session asks for the whole timeout again.
    assert store.session_timeout_s == TIMEOUT_S
    await store.close()


@pytest.mark.parametrize(("held_s", "ends_s"), [(0.0, 5.0), (0.7, 4.5)])
def test_contacts_that_a_server_held_back_are_lost_with_its_leader(
    held_s: float, ends_s: float
) -> None:
    @in_virtual_time
    async def story() -> None:
        draws = OnServer()
        draws.number = 1
        ensemble = MemoryEnsemble(EnsembleRules(2, TICK_S, ping_s=100.0), draws)
        loop = asyncio.get_running_loop()
        store = MemoryStore(
            ensemble, session_timeout_s=TIMEOUT_S, operation_timeout_s=30.0, pulse=loop.time
        )
        await asyncio.sleep(1.0 - loop.time() % 1.0)
        await store.start()
        await store.wait_connected()
        began_s, session_id = loop.time(), store.session_id
        ensemble.servers[1].held_s = held_s
        for _ in range(12):
            await asyncio.sleep(0.1)
            await store.exists("/a")
        ensemble.cut_off(ensemble.servers[1])
        await asyncio.sleep(began_s + ends_s - _SHORTLY_S - loop.time())
        assert session_id in ensemble.session_ids
        await asyncio.sleep(2 * _SHORTLY_S)
        assert session_id not in ensemble.session_ids
        await store.close()

    story()


@in_virtual_time
async def test_a_server_from_before_3_9_names_no_transaction_in_its_events() -> None:
    ensemble = MemoryEnsemble()
    store = await connected(ensemble)
    seen: list[Notification] = []
    await store.watch("/a", seen.append)
    await store.create("/a")
    ensemble.servers[0].is_old = True
    await store.create("/a/b")
    assert [one.zxid > 0 for one in seen] == [True, False]
    await store.close()


@in_virtual_time
async def test_a_client_that_has_seen_more_than_a_copy_ends_and_others_find_the_copy() -> None:
    ensemble = MemoryEnsemble(EnsembleRules(3, TICK_S))
    store = await connected(ensemble)
    owner = store.session_id
    await store.create("/kept", b"", CreateMode.EPHEMERAL)
    copy = ensemble.copy()
    await store.create("/lost")
    last_zxid = ensemble.tree.zxid
    ensemble.restore(copy)
    await asyncio.sleep(TICK_S)
    assert isinstance(store.ended_by, HistoryBehind)
    with pytest.raises((HistoryBehind, StoreClosed)):
        await store.exists("/kept")
    ensemble.restore(copy, (last_zxid >> 32) + 100)
    other = await connected(ensemble)
    assert await other.exists("/lost") is None
    assert (await other.create("/new")).stat.czxid > last_zxid
    # The session of the copy is gone for good, and ends as any other.
    assert await other.exists("/kept") is not None
    await asyncio.sleep(TIMEOUT_S + 2 * TICK_S)
    assert owner not in ensemble.session_ids
    assert await other.exists("/kept") is None
    await other.close()
