"""ZooKeeper is restored from a copy: commits that clients have seen are gone."""

import asyncio
from pathlib import Path

import pytest

from broker_ctl.errors import HistoryBehind
from broker_ctl.store.interface import CreateMode, SessionEvent
from broker_ctl.store.zookeeper.store import ZooKeeperStore
from tests.store.zookeeper.conftest import OpenStore
from tests.support.time.waiting import eventually
from tests.support.zookeeper.fake_zookeeper import FakeZooKeeper, Peer, Script, node_reply, reply
from tests.support.zookeeper.restorable import Servers, restorable

CLOSE_SESSION = -11


async def seen_more_than_copied(servers: Servers, store: ZooKeeperStore) -> int:
    """Copy, write on, stop; returns a token that is newer than the copy."""
    await store.create("/a", b"")
    await servers.stop()
    servers.copy()
    await servers.start()
    await store.wait_connected()
    for _ in range(20):
        await store.set("/a", b"more")
    node = await store.create("/owned", b"", CreateMode.EPHEMERAL)
    await servers.stop()
    return node.stat.czxid


async def test_a_client_that_has_seen_later_commits_fails_with_history_behind(
    open_store: OpenStore, tmp_path: Path
) -> None:
    async with restorable(tmp_path, 1) as servers:
        store = await open_store(servers.ensemble.connect_string)
        events: list[SessionEvent] = []
        store.listen(events.append)
        token = await seen_more_than_copied(servers, store)
        servers.restore()
        await servers.start()
        await eventually(lambda: SessionEvent.CLOSED in events, deadline_s=60.0)
        with pytest.raises(HistoryBehind, match=f"0x{token:x} was seen: .*restored from a copy"):
            await store.wait_connected()
        with pytest.raises(HistoryBehind):
            await store.get("/a")
        # The procedure prevents this: a client that has seen no zxid takes a lower token.
        fresh = await open_store(servers.ensemble.connect_string)
        node = await fresh.create("/owned", b"", CreateMode.EPHEMERAL)
        assert node.stat.czxid < token


@pytest.mark.slow
async def test_with_a_raised_epoch_the_servers_are_ahead_of_all_that_was_seen(
    open_store: OpenStore, tmp_path: Path
) -> None:
    async with restorable(tmp_path, 3) as servers:
        store = await open_store(servers.ensemble.connect_string)
        token = await seen_more_than_copied(servers, store)
        await eventually(lambda: not store.is_connected)
        servers.restore(epoch=(token >> 32) + 100)
        await servers.start()
        # In the session that the copy knew, or in another.
        await store.wait_connected()
        node = await store.create("/owned", b"", CreateMode.EPHEMERAL)
        assert node.stat.czxid > token
        assert node.stat.czxid >> 32 > (token >> 32) + 100


def answering(zxid: int, *, is_taking: bool) -> Script:
    """A server that opens sessions at ``zxid``, and refuses clients that have seen a zxid."""

    async def script(peer: Peer) -> None:
        if peer.connect.zxid and not is_taking:
            return
        peer.welcome(peer.connect.session_id or 0x77)
        while True:
            request = await peer.request()
            if request.opcode == CLOSE_SESSION:
                peer.send(reply(request.xid, zxid))
                return
            peer.send(node_reply(request.xid, b"", zxid))

    return script


@pytest.mark.parametrize("zxid", [0x500, 0x501])
async def test_servers_that_refuse_for_another_reason_are_tried_on(
    open_store: OpenStore, zxid: int
) -> None:
    cut = asyncio.Event()

    async def first(peer: Peer) -> None:
        peer.welcome(0x11)
        peer.send(node_reply((await peer.request()).xid, b"", 0x500))
        await cut.wait()

    refusing = answering(zxid, is_taking=False)
    taking = answering(zxid, is_taking=True)
    async with FakeZooKeeper.playing(first, *[refusing] * 30, taking) as fake:
        store = await open_store(fake.address)
        await store.get("/a")
        assert store.last_zxid == 0x500
        cut.set()
        await eventually(lambda: len(fake.connects) > 30 and store.is_connected, deadline_s=60.0)
        # Connects with zxid 0 are probes, which ask the server for its zxid.
        assert [connect.zxid for connect in fake.connects[:31]].count(0) > 1
        await store.close(end_session=False)
