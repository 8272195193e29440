"""Hangs and false ends that users of kazoo have reported, by the number of the issue there.

https://github.com/python-zk/kazoo/issues has each under its number.
"""

import asyncio
from pathlib import Path

import pytest

from broker_ctl.errors import HistoryBehind, StoreClosed
from broker_ctl.tasks import TaskScope
from broker_ctl.zookeeper import (
    Client,
    CreateMode,
    Lock,
    ReadWriteLock,
    SessionEvent,
    SessionState,
    connect,
)
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble
from tests.support.zookeeper.proxy import Proxy, Way
from tests.support.zookeeper.restorable import restorable
from tests.zookeeper.conftest import TICK_S, TIMEOUT_S, OpenClient
from tests.zookeeper.test_locks import PATH, expire, standing


@pytest.mark.parametrize("way", [Way.REFUSED, Way.HALF_OPEN])
@pytest.mark.parametrize("is_waiting", [False, True])
async def test_282_a_lock_is_had_after_a_lost_connection_has_come_back(
    open_client: OpenClient,
    client: Client,
    proxy: Proxy,
    tasks: TaskScope,
    way: Way,
    *,
    is_waiting: bool,
) -> None:
    user = await open_client(proxy.address)
    lock = Lock(user, PATH)
    await (await lock.acquire()).release()
    blocking = await Lock(client, PATH).acquire() if is_waiting else None
    waiting = tasks.start(lock.acquire(), "wait", is_joined=True) if is_waiting else None
    if is_waiting:
        await standing(client, 2)
    proxy.way = way
    if way is Way.REFUSED:
        proxy.cut()
    await eventually(lambda: user.state is not SessionState.CONNECTED)
    proxy.way = Way.OPEN
    if way is Way.HALF_OPEN:
        proxy.cut()
    if blocking is not None:
        await blocking.release()
    async with asyncio.timeout(PATIENCE_S):
        held = await (lock.acquire() if waiting is None else waiting)
        held.check()
        await held.release()


async def test_241_what_is_set_up_again_in_a_new_session_does_not_hang(
    open_client: OpenClient, client: Client, proxy: Proxy
) -> None:
    user = await open_client(proxy.address)
    await user.create("/registered", b"", CreateMode.EPHEMERAL)
    before = user.session_id
    async with asyncio.timeout(PATIENCE_S), user.events() as events:
        # As a machine that sleeps: nothing ends, nothing arrives.
        proxy.way = Way.HALF_OPEN
        await eventually(lambda: _is_gone(client, "/registered"))
        proxy.way = Way.OPEN
        proxy.cut()
        async for event in events:
            if event is SessionEvent.CONNECTED:
                await user.create("/registered", b"", CreateMode.EPHEMERAL)
                break
        assert user.session_id != before
        await user.close()


async def _is_gone(client: Client, path: str) -> bool:
    return await client.exists(path) is None


async def test_482_a_lock_of_a_closed_client_says_so(open_client: OpenClient) -> None:
    user = await open_client()
    lock = Lock(user, PATH)
    await user.close()
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(StoreClosed):
            await lock.acquire()


async def test_600_a_client_whose_session_has_expired_connects_again(
    client: Client, zookeeper: SharedEnsemble
) -> None:
    before = client.session_id
    await expire(client, zookeeper)
    async with asyncio.timeout(PATIENCE_S):
        await client.ensure("/after")
        await (await Lock(client, PATH).acquire()).release()
    assert client.session_id not in {0, before}


async def test_649_a_reader_between_two_writers_is_no_deadlock(
    client: Client, tasks: TaskScope
) -> None:
    lock = ReadWriteLock(client, PATH)
    first = await lock.write.acquire()
    reading = tasks.start(lock.read.acquire(), "read", is_joined=True)
    await standing(client, 2)
    writing = tasks.start(lock.write.acquire(), "write", is_joined=True)
    await standing(client, 3)
    await first.release()
    async with asyncio.timeout(PATIENCE_S):
        read = await reading
        assert not writing.done()
        await read.release()
        await (await writing).release()


@pytest.mark.slow
async def test_374_a_server_that_dies_ends_no_session(ensemble3: SharedEnsemble) -> None:
    async with connect(
        ensemble3.connect_string,
        chroot="/374",
        session_timeout_s=2 * TIMEOUT_S,
        tick_time_s=TICK_S,
    ) as user:
        held, session_id = await Lock(user, PATH).acquire(), user.session_id
        seen: list[SessionEvent] = []
        user.store.listen(seen.append)
        for server in ensemble3.servers:
            await server.kill()
            # It was this one if the connection is lost; otherwise it has nothing to do with us.
            await user.set(held.path, b"after a death", timeout_s=TIMEOUT_S)
            await server.restart()
        assert (user.session_id, SessionEvent.SUSPENDED in seen) == (session_id, True)
        held.check()


@pytest.mark.slow
async def test_42_servers_that_have_lost_their_data_end_the_client_and_say_why(
    tmp_path: Path,
) -> None:
    async with restorable(tmp_path, 1) as servers:
        user = await connect(
            servers.ensemble.connect_string, session_timeout_s=TIMEOUT_S, tick_time_s=TICK_S
        ).start()
        try:
            await user.ensure("/a")
            await servers.stop()
            servers.copy()
            await servers.start()
            for _ in range(20):
                await user.set("/a", b"more", timeout_s=PATIENCE_S)
            await servers.stop()
            servers.restore()
            await servers.start()
            async with asyncio.timeout(2 * PATIENCE_S):
                with pytest.raises(HistoryBehind, match="restored from a copy"):
                    await Lock(user, PATH).acquire()
        finally:
            await user.close()
