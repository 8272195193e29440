"""Each fault of a link alone, in front of real servers."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from broker_ctl.errors import Ambiguous, StoreError
from broker_ctl.lab.embedded.ensemble import Ensemble
from broker_ctl.lab.embedded.server import Role
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.chaos.cluster.links import Link, Links
from tests.support.time.waiting import eventually

SESSION_S = 4.0
SET = 5


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[Links, Ensemble]]:
    directory = tmp_path_factory.mktemp("links")
    links = Links()
    async with links, Ensemble.of(directory, servers=3, heap_mb=128, seen_by=links.seen_by) as ours:
        yield links, ours


@pytest_asyncio.fixture(loop_scope="module")
async def links(world: tuple[Links, Ensemble]) -> AsyncIterator[Links]:
    yield world[0]
    await world[0].heal_all()
    await asyncio.wait_for(wait_whole(world[1]), 30)


@pytest_asyncio.fixture(loop_scope="module")
async def direct(world: tuple[Links, Ensemble]) -> AsyncIterator[ZooKeeperStore]:
    """A client that no link stands before."""
    store = ZooKeeperStore(StoreOptions(world[1].connect_string))
    await store.start()
    await store.wait_connected()
    yield store
    await store.close()


@pytest_asyncio.fixture(loop_scope="module")
async def behind(
    world: tuple[Links, Ensemble], links: Links, direct: ZooKeeperStore
) -> AsyncIterator[tuple[ZooKeeperStore, list[Link]]]:
    """A client behind links to one server, and these links."""
    hosts = links.connect_string(1, world[1].servers[:1])
    options = StoreOptions(hosts, session_timeout_s=SESSION_S, operation_timeout_s=1.0)
    store = ZooKeeperStore(options)
    await store.start()
    await store.wait_connected()
    if await direct.exists("/n") is None:
        await direct.create("/n", b"0")
    yield store, links.of_daemon(1)
    await links.heal_all()
    await store.close()


async def wait_whole(ensemble: Ensemble) -> None:
    for server in ensemble.servers:
        await server.wait_serving()


async def version(store: ZooKeeperStore) -> int:
    await store.sync("/n")
    stat = await store.exists("/n")
    assert stat is not None
    return stat.version


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_an_eaten_reply_is_executed_once(
    behind: tuple[ZooKeeperStore, list[Link]], direct: ZooKeeperStore
) -> None:
    store, (link,) = behind
    before = await version(direct)
    link.eat_reply(SET)
    # Another client could have written the same: only the writer knows.
    with pytest.raises(Ambiguous):
        await store.set("/n", b"eaten", before)
    assert link.proxy.lost == 1
    assert await version(direct) == before + 1


async def test_a_half_open_link_says_nothing(behind: tuple[ZooKeeperStore, list[Link]]) -> None:
    _, (link,) = behind
    reader, writer = await asyncio.open_connection("127.0.0.1", link.proxy.port)
    link.fall_silent()
    writer.write(b"\0\0\0\4ruok")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(1), 0.5)  # neither an answer nor an end
    await link.heal()
    with pytest.raises(ConnectionResetError):  # a stream never goes on with a hole
        await reader.read(1)
    writer.close()


async def test_a_cut_link_is_reset_and_lets_no_connection_through(
    behind: tuple[ZooKeeperStore, list[Link]],
) -> None:
    store, (link,) = behind
    await link.cut()
    await eventually(lambda: not store.is_connected, what="the client to be notified")
    with pytest.raises(StoreError):
        await store.set("/n", b"cut")
    await link.heal()
    await store.wait_connected()
    await store.set("/n", b"healed")


async def test_a_slow_link_delays_each_reply(behind: tuple[ZooKeeperStore, list[Link]]) -> None:
    store, (link,) = behind
    link.slow_down(0.3)
    begin_s = time.monotonic()
    await store.set("/n", b"slow")
    assert time.monotonic() - begin_s >= 0.3


async def test_a_follower_that_is_cut_from_its_leader_still_talks_to_its_clients(
    world: tuple[Links, Ensemble], links: Links
) -> None:
    _, ensemble = world
    leader = await ensemble.leader()
    follower = (await ensemble.followers())[0]
    store = ZooKeeperStore(
        StoreOptions(f"127.0.0.1:{follower.client_port}", operation_timeout_s=0.5)
    )
    await store.start()
    await store.wait_connected()
    try:
        for link in links.between(leader.id, follower.id):
            link.fall_silent()
        assert await store.exists("/") is not None  # a local read is answered
        with pytest.raises(StoreError):
            await store.set("/", b"")  # a write needs the leader

        async def gave_up() -> bool:
            return await follower.role() is not Role.FOLLOWER

        await eventually(gave_up, what="the follower to notice, after its syncLimit")
        assert await leader.role() is Role.LEADER  # with the other follower
    finally:
        await store.close(end_session=False)
