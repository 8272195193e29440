"""Three servers whose commits are slow, and a client that moves between them meanwhile.

A follower pairs a commit with the request that waits for it by session and xid alone (docs:
zookeeper-xids). If a client used a number twice, the first test would hold the lock of another
node, and in the second one the follower would end itself: it takes the transaction for the `sync`.
"""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from broker_ctl.coordination.locks import LockBusy, Locks
from broker_ctl.lab.embedded.ensemble import Ensemble
from broker_ctl.lab.embedded.server import Role, ZooKeeperServer
from broker_ctl.store.interface import Check, Create, CreateMode
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from broker_ctl.tasks import TaskScope
from tests.chaos.cluster.links import Link, Links
from tests.support.time.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

SESSION_S = 20.0


class World:
    """An ensemble, a client at its leader, and one behind a link to each follower."""

    def __init__(self, links: Links, ensemble: Ensemble) -> None:
        self.links, self.ensemble = links, ensemble
        self.ways: list[Link] = []

    async def followers(self) -> list[ZooKeeperServer]:
        roles = {server: await server.role() for server in self.ensemble.servers}
        return [server for server, role in roles.items() if role is Role.FOLLOWER]

    async def client(self) -> ZooKeeperStore:
        """Behind links to both followers, of which only the first lets it pass."""
        hosts = self.links.connect_string(1, await self.followers())
        self.ways = self.links.of_daemon(1)
        await self.ways[1].cut()
        return await opened(hosts)

    async def has_sessions(self, count: int) -> bool:
        """Whether there are no others; one whose connection broke at its close expires later."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.ensemble.servers[0].client_port
        )
        writer.write(b"mntr")
        figures = dict(line.split("\t", 1) for line in (await reader.read()).decode().splitlines())
        writer.close()
        return int(figures["zk_global_sessions"]) == count

    async def move(self, store: ZooKeeperStore, of: int, to: int) -> None:
        """End the connection with one follower, and let the other pass, or the same again."""
        await self.ways[of].cut()
        await eventually(lambda: not store.is_connected, what="the end of the connection")
        await self.ways[to].heal()
        await store.wait_connected()

    async def held(self, count: int) -> list[int]:
        await eventually(lambda: len(self.links.held_zxids) >= count, what="proposals")
        return sorted(self.links.held_zxids)


async def opened(hosts: str) -> ZooKeeperStore:
    store = ZooKeeperStore(StoreOptions(hosts, session_timeout_s=SESSION_S))
    await store.start()
    await store.wait_connected()
    return store


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    directory, links = tmp_path_factory.mktemp("held-acks"), Links()
    async with links, Ensemble.of(directory, servers=3, heap_mb=128, seen_by=links.seen_by) as ours:
        yield World(links, ours)


@pytest_asyncio.fixture(loop_scope="module")
async def other(world: World) -> AsyncIterator[ZooKeeperStore]:
    """A client that nothing stands before."""
    store = await opened(world.ensemble.connect_string)
    for path in ("/t", "/t/ring", "/t/own"):
        if await store.exists(path) is None:
            await store.create(path, b"")
    yield store
    await store.close()


async def test_an_acquisition_is_not_answered_by_the_commit_of_an_earlier_one(
    world: World, other: ZooKeeperStore
) -> None:
    ring = Check("/t/ring", 0)
    await other.multi([ring, Create("/t/own/Y", b"OTHER", CreateMode.EPHEMERAL)])
    mine = await world.client()
    locks = Locks(mine, "/t/own", broker_id="me", broker_of=lambda _: None, rng=random.Random(1))
    world.links.hold_acks()
    async with TaskScope("acquisitions") as tasks:
        first = mine.multi([ring, Create("/t/own/X", b"ME", CreateMode.EPHEMERAL)])
        given_up = tasks.start(first, "given up", is_joined=True)
        await world.held(1)
        given_up.cancel()
        await world.move(mine, of=0, to=1)
        second = locks.acquire("/t/own/Y", b"ME", lambda _: None, [ring])
        acquiring = tasks.start(second, "acquire", is_joined=True)
        await eventually(lambda: mine.in_flight > 0, what="the second acquisition")
        await world.links.release_acks()
        with pytest.raises(LockBusy):
            await acquiring
    node = await other.get("/t/own/X")
    assert node is not None
    assert node.data == b"ME"
    await mine.close()


async def test_a_write_whose_reply_was_lost_is_resolved_behind_its_commit(
    world: World, other: ZooKeeperStore
) -> None:
    mine = await world.client()
    before = await mine.get("/t/own")  # from here on it has seen a zxid
    assert before is not None
    await world.move(mine, of=0, to=0)
    # The end of a session would be a proposal among those that are counted.
    await eventually(lambda: world.has_sessions(2), what="the sessions of this test alone")
    world.links.hold_acks()
    async with TaskScope("writes") as tasks:
        given_up = tasks.start(mine.set("/t/ring", b"a"), "given up", is_joined=True)
        (first,) = await world.held(1)
        write = mine.set("/t/own", b"mine", before.stat.version)
        lost = tasks.start(write, "lost", is_joined=True)
        await world.held(2)
        given_up.cancel()
        await world.move(mine, of=0, to=1)
        # The commit of the first does not answer the `sync` that resolves the second.
        await world.links.release_acks(first)
        await eventually(lambda: is_set(other), what="the first commit")
        assert not lost.done()
        await world.links.release_acks()
        stat = await lost
    assert stat.version == before.stat.version + 1
    assert len(await world.followers()) == 2
    await mine.close()


async def is_set(store: ZooKeeperStore) -> bool:
    node = await store.get("/t/ring")
    return node is not None and node.data == b"a"
