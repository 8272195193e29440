"""What a probe learns from a server, in a session that it opens for that."""

import asyncio

import pytest

from broker_ctl.addresses import look_up_all
from broker_ctl.embedded.config import TICK_MS
from broker_ctl.embedded.ports import port_of, reserve_port
from broker_ctl.errors import Unsupported
from broker_ctl.store.interface import CreateMode
from broker_ctl.store.zookeeper.probe import least_timeouts_s, probe
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore, parse_hosts
from tests.store.zookeeper.conftest import OpenStore
from tests.support.zookeeper.ensemble import SharedEnsemble
from tests.support.zookeeper.fake_zookeeper import FakeZooKeeper, Peer, before_3_6

FRAME = 0xFFFFF


async def test_a_real_server_grants_two_ticks_and_answers_its_latest_zxid(
    zookeeper: SharedEnsemble, observer: ZooKeeperStore
) -> None:
    node = await observer.create("/a", b"", CreateMode.EPHEMERAL)
    (server,) = await look_up_all(parse_hosts(zookeeper.connect_string), 1.0)
    found = await probe(server, max_frame_bytes=FRAME)
    assert found.least_timeout_s == 2 * TICK_MS / 1000
    # To open the session is a transaction of its own, later than all that was answered before.
    assert found.zxid > node.stat.czxid


async def test_every_server_is_asked_and_one_that_is_not_there_is_left_out(
    open_store: OpenStore, rooted: StoreOptions, zookeeper: SharedEnsemble
) -> None:
    with reserve_port() as nobody:
        hosts = f"{zookeeper.connect_string},127.0.0.1:{port_of(nobody)}"
        store = await open_store(hosts, rooted)
        assert await store.least_timeouts_s() == [2 * TICK_MS / 1000]


async def test_a_server_that_is_too_old_is_named(zookeeper: SharedEnsemble) -> None:
    async with FakeZooKeeper.playing(before_3_6) as fake:
        hosts = parse_hosts(f"{zookeeper.connect_string},{fake.address}")
        servers = await look_up_all(hosts, 1.0)
        with pytest.raises(Unsupported, match=f"^{fake.address}: .* 3.6 or newer is needed"):
            await least_timeouts_s(servers, max_frame_bytes=FRAME)


async def test_a_server_that_says_nothing_is_not_waited_for_for_long() -> None:
    async def silent(peer: Peer) -> None:
        await peer.wait_end()

    async with FakeZooKeeper.playing(silent) as fake, asyncio.timeout(30.0):
        servers = await look_up_all(parse_hosts(fake.address), 1.0)
        assert await least_timeouts_s(servers, max_frame_bytes=FRAME) == []
