"""What a store reports of itself: round trips, and the outcome of requests whose reply was lost."""

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

Resolutions = list[tuple[str, str]]


@pytest.fixture
def resolved() -> Resolutions:
    return []


@pytest.fixture
async def store(
    open_store: OpenStore, proxy: Proxy, rooted: StoreOptions, resolved: Resolutions
) -> ZooKeeperStore:
    def on_resolved(what: str, resolution: str) -> None:
        resolved.append((what, resolution))

    return await open_store(proxy.address, replace(rooted, on_resolved=on_resolved))


async def test_a_lost_request_is_reported_as_not_applied(
    store: ZooKeeperStore, proxy: Proxy, resolved: Resolutions
) -> None:
    await store.create("/a")
    assert resolved == []
    proxy.lose(Loss.REQUEST, SET)
    await store.set("/a", b"1")
    assert resolved == [("set", "not_applied")]


async def test_a_request_whose_reply_is_lost_is_reported_as_applied(
    store: ZooKeeperStore, proxy: Proxy, resolved: Resolutions
) -> None:
    proxy.lose(Loss.REPLY, CREATE)
    await store.create("/a")
    proxy.lose(Loss.REPLY, MULTI)
    await store.multi([SetData("/a", b"1"), Create("/b")])
    assert resolved == [("create", "applied"), ("multi", "applied")]


async def test_a_lost_sequential_create_is_reported_as_unknown(
    store: ZooKeeperStore, proxy: Proxy, resolved: Resolutions
) -> None:
    await store.create("/q")
    proxy.lose(Loss.REPLY, CREATE)
    with pytest.raises(Ambiguous):
        await store.create("/q/n-", b"1", CreateMode.SEQUENTIAL)
    assert resolved == [("create", "unknown")]


async def test_a_create_that_is_lost_with_its_session_is_reported_as_session_expired(
    store: ZooKeeperStore, proxy: Proxy, zookeeper: SharedEnsemble, resolved: Resolutions
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
        await expire_session(zookeeper.connect_string, session_id, store.saved_session.password)
        proxy.way = Way.OPEN
    assert resolved == [("create", "session_expired")]


async def test_each_reply_is_reported_with_its_request_and_its_time(
    open_store: OpenStore, zookeeper: SharedEnsemble, rooted: StoreOptions
) -> None:
    replies: list[tuple[str, float]] = []

    def on_reply(what: str, took_s: float) -> None:
        replies.append((what, took_s))

    store = await open_store(zookeeper.connect_string, replace(rooted, on_reply=on_reply))
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
