"""What a store tells of itself: waits, round trips, and what became of lost replies."""

import asyncio
from dataclasses import replace

import pytest

from broker_ctl.errors import Ambiguous, NoNode, SessionExpired
from broker_ctl.store.interface import Create, CreateMode, SetData
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.store.zookeeper.conftest import OpenStore
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble
from tests.support.zookeeper.proxy import Loss, Proxy, Way
from tests.support.zookeeper.session_faults import expire_session

CREATE, SET, MULTI = 15, 5, 14

Told = list[tuple[str, str]]


@pytest.fixture
def resolved() -> Told:
    return []


@pytest.fixture
async def store(
    open_store: OpenStore, proxy: Proxy, rooted: StoreOptions, resolved: Told
) -> ZooKeeperStore:
    def told(what: str, resolution: str) -> None:
        resolved.append((what, resolution))

    return await open_store(proxy.address, replace(rooted, on_resolved=told))


async def test_of_a_lost_request_it_is_told_that_it_was_not_applied(
    store: ZooKeeperStore, proxy: Proxy, resolved: Told
) -> None:
    await store.create("/a")
    assert resolved == []
    proxy.lose(Loss.REQUEST, SET)
    await store.set("/a", b"1")
    assert resolved == [("set", "not_applied")]


async def test_of_a_lost_reply_it_is_told_that_it_was_applied(
    store: ZooKeeperStore, proxy: Proxy, resolved: Told
) -> None:
    proxy.lose(Loss.REPLY, CREATE)
    await store.create("/a")
    proxy.lose(Loss.REPLY, MULTI)
    await store.multi([SetData("/a", b"1"), Create("/b")])
    assert resolved == [("create", "applied"), ("multi", "applied")]


async def test_what_nobody_can_tell_is_told_as_unknown(
    store: ZooKeeperStore, proxy: Proxy, resolved: Told
) -> None:
    await store.create("/q")
    proxy.lose(Loss.REPLY, CREATE)
    with pytest.raises(Ambiguous):
        await store.create("/q/n-", b"1", CreateMode.SEQUENTIAL)
    assert resolved == [("create", "unknown")]


async def test_what_ended_with_its_session_is_told_so(
    store: ZooKeeperStore, proxy: Proxy, zookeeper: SharedEnsemble, resolved: Told
) -> None:
    async def write() -> None:
        with pytest.raises(SessionExpired):
            await store.create("/e", b"1", CreateMode.EPHEMERAL)

    proxy.way = Way.REFUSED
    proxy.lose(Loss.REQUEST, CREATE)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(write(), name="write")
        await eventually(lambda: proxy.lost)
        session_id = store.session_id
        await expire_session(zookeeper.connect_string, session_id, store.session_password)
        proxy.way = Way.OPEN
    assert resolved == [("create", "session_expired")]


async def test_each_reply_is_told_with_its_request_and_its_time(
    open_store: OpenStore, zookeeper: SharedEnsemble, rooted: StoreOptions
) -> None:
    replies: list[tuple[str, float]] = []

    def told(what: str, took_s: float) -> None:
        replies.append((what, took_s))

    store = await open_store(zookeeper.connect_string, replace(rooted, on_reply=told))
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await store.create("/a")
    await store.get("/a")
    with pytest.raises(NoNode):
        await store.delete("/b")
    total_s = loop.time() - began_s
    assert [what for what, _ in replies] == ["create", "get", "delete"]
    assert all(took_s > 0 for _, took_s in replies)
    assert sum(took_s for _, took_s in replies) <= total_s
