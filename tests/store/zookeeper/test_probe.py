"""What a probe learns from a server, in a session that it opens for that."""

import asyncio
from dataclasses import replace

import pytest

from broker_ctl.addresses import look_up_all
from broker_ctl.errors import Unsupported
from broker_ctl.lab.embedded.ports import port_of, reserve_port
from broker_ctl.lab.embedded.server import TICK_MS
from broker_ctl.store.interface import Change, CreateMode, Notification
from broker_ctl.store.zookeeper.server_status import least_timeouts_s, probe
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore, parse_hosts
from tests.store.zookeeper.conftest import OpenStore
from tests.support.zookeeper.ensemble import SharedEnsemble
from tests.support.zookeeper.fake_zookeeper import FakeZooKeeper, Peer, before_3_6
from tests.support.zookeeper.keeper_like import KeeperLike

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


async def test_the_watches_of_a_server_are_tried_in_a_node_of_which_nothing_is_left(
    zookeeper: SharedEnsemble, rooted: StoreOptions, open_store: OpenStore, observer: ZooKeeperStore
) -> None:
    store = await open_store(zookeeper.connect_string, rooted)
    seen: list[Notification] = []
    await observer.watch("/", seen.append)
    assert await store.least_timeouts_s() == [2 * TICK_MS / 1000]
    await observer.sync("/")
    names = {one.path for one in seen}
    assert len(names) == 1
    assert [one.change for one in seen] == [Change.CREATED, Change.MODIFIED, Change.DELETED]
    assert await observer.exists(names.pop()) is None


async def test_a_server_that_reports_the_watch_in_place_of_the_node_is_named(
    zookeeper: SharedEnsemble, rooted: StoreOptions, open_store: OpenStore
) -> None:
    async with KeeperLike.before(zookeeper.servers[0].client_port) as keeper:
        store = await open_store(keeper.address, rooted)
        with pytest.raises(Unsupported, match=f"^{keeper.address}: below a recursive .*Keeper"):
            await store.least_timeouts_s()


async def test_the_watch_is_set_above_a_chroot_that_does_not_exist(
    zookeeper: SharedEnsemble, rooted: StoreOptions, open_store: OpenStore
) -> None:
    missing = replace(rooted, chroot=f"{rooted.chroot}/not/there")
    store = await open_store(zookeeper.connect_string, missing)
    assert await store.least_timeouts_s() == [2 * TICK_MS / 1000]
    assert await store.exists("/") is None


async def test_a_probe_without_a_trial_writes_nothing(
    zookeeper: SharedEnsemble, observer: ZooKeeperStore
) -> None:
    seen: list[Notification] = []
    await observer.watch("/", seen.append)
    servers = await look_up_all(parse_hosts(zookeeper.connect_string), 1.0)
    assert await least_timeouts_s(servers, max_frame_bytes=FRAME) == [2 * TICK_MS / 1000]
    await observer.sync("/")
    assert seen == []
