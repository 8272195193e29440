"""Batches against servers whose replies get lost or are too large."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager

import pytest

from broker_ctl.errors import Ambiguous, NodeExists, NoNode, SessionExpired, StoreError, TooLarge
from broker_ctl.lab.time import LoopClock
from broker_ctl.store.batching.batch_rules import BatchRules
from broker_ctl.store.batching.store import BatchedStore
from broker_ctl.store.interface import CreateMode, SessionEvent, Stat, Versioned
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble
from tests.support.zookeeper.fake_zookeeper import STAT, FakeZooKeeper, Peer, frame, reply
from tests.support.zookeeper.proxy import Loss, Proxy, Way
from tests.support.zookeeper.session_faults import expire_session

EXISTS, GET, MULTI, MULTI_READ = 3, 4, 14, 22
NO_NODE = -101
TIMEOUT_S = 5.0

BOTH = pytest.mark.parametrize("loss", [Loss.REQUEST, Loss.REPLY], ids=lambda loss: loss.name)


@asynccontextmanager
async def opened(
    hosts: str, chroot: str = "", max_frame_bytes: int = 0xFFFFF
) -> AsyncIterator[tuple[BatchedStore, ZooKeeperStore]]:
    options = StoreOptions(
        hosts,
        chroot,
        session_timeout_s=TIMEOUT_S,
        operation_timeout_s=TIMEOUT_S,
        max_frame_bytes=max_frame_bytes,
    )
    under = ZooKeeperStore(options)
    rules = BatchRules(max_frame_bytes=max_frame_bytes, operation_timeout_s=TIMEOUT_S)
    store = BatchedStore(under, rules, LoopClock())
    await under.start()
    await under.wait_connected()
    try:
        yield store, under
    finally:
        await store.close()


@pytest.fixture
async def proxy(zookeeper: SharedEnsemble) -> AsyncIterator[Proxy]:
    async with Proxy.to(zookeeper.servers[0].client_port) as proxy:
        yield proxy


async def outcome_of(work: Awaitable[object]) -> object:
    try:
        return await work
    except StoreError as error:
        return error


async def together(works: list[Awaitable[object]]) -> list[object]:
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(outcome_of(work), name="ask") for work in works]
    return [task.result() for task in asked]


async def test_values_that_are_larger_than_all_limits_together_are_stored_and_read_back(
    zookeeper: SharedEnsemble, chroot: str
) -> None:
    async with opened(zookeeper.connect_string, chroot) as (store, _):
        await store.create("/large-values")
        values = {f"/large-values/{n}": bytes([n]) * 500_000 for n in range(40)}
        created = await together([store.create(path, data) for path, data in values.items()])
        assert all(isinstance(node, Versioned) for node in created)
        found = await together([store.get(path) for path in values])
        assert found == created
        assert len(store._order) == 0
        # The sizes are known by now: no batch has to be divided any more.
        heard: list[SessionEvent] = []
        store.listen(heard.append)
        assert await store.get_many(list(values)) == created
        assert heard == []


async def test_a_read_whose_reply_is_too_large_fails_alone(
    zookeeper: SharedEnsemble, chroot: str
) -> None:
    async with opened(zookeeper.connect_string, chroot, max_frame_bytes=140_000) as (store, _):
        await store.create("/small", b"1")
        await store.create("/many")
        # Names that no reply can hold all of.
        name = "n" * 240
        for start in range(0, 5200, 400):
            works = [store.create(f"/many/{name}{start + n}") for n in range(400)]
            assert all(isinstance(made, Versioned) for made in await together(list(works)))
        too_large, small, missing, stat = await together(
            [store.children("/many"), store.get("/small"), store.get("/no"), store.exists("/many")]
        )
        assert isinstance(too_large, TooLarge)
        assert isinstance(small, Versioned)
        assert missing is None
        assert isinstance(stat, Stat)
        assert stat.children_count == 5200
        assert len(store._order) == 0


async def test_of_a_thousand_creates_those_of_existing_nodes_are_refused(
    zookeeper: SharedEnsemble, chroot: str
) -> None:
    async with opened(zookeeper.connect_string, chroot) as (store, under):
        taken = range(0, 1000, 5)
        await together([under.create(f"/{number}", b"theirs") for number in taken])
        outcomes = await together([store.create(f"/{n}", b"%d" % n) for n in range(1000)])
        nodes = await store.get_many([f"/{number}" for number in range(1000)])
        for number, (outcome, node) in enumerate(zip(outcomes, nodes, strict=True)):
            assert node is not None
            if number in taken:
                assert isinstance(outcome, NodeExists)
                assert node.data == b"theirs"
            else:
                assert outcome == node
        assert len(store._order) == 0


@BOTH
async def test_a_batch_that_got_lost_is_done_exactly_once(
    zookeeper: SharedEnsemble, chroot: str, proxy: Proxy, loss: Loss
) -> None:
    async with (
        opened(proxy.address, chroot) as (store, _),
        opened(zookeeper.connect_string, chroot) as (_, observer),
    ):
        for path in ("/set", "/gone", "/epoch"):
            await observer.create(path)
        await store.sync("/")
        proxy.lose(loss, MULTI)
        created, stat, deleted, refused = await together(
            [
                store.create("/new", b"1"),
                store.set("/set", b"2", 0),
                store.delete("/gone", 0),
                store.create("/epoch" if loss is Loss.REQUEST else "/other", b"3"),
            ]
        )
        assert proxy.lost == 1
        assert created == await observer.get("/new")
        assert stat == await observer.exists("/set")
        assert isinstance(stat, Stat)
        assert stat.version == 1
        assert deleted is None
        assert await observer.exists("/gone") is None
        assert isinstance(refused, NodeExists if loss is Loss.REQUEST else Versioned)
        assert len(store._order) == 0


async def test_of_a_batch_that_was_done_only_the_writes_to_overwritten_nodes_are_ambiguous(
    zookeeper: SharedEnsemble, chroot: str, proxy: Proxy
) -> None:
    async with (
        opened(proxy.address, chroot) as (store, _),
        opened(zookeeper.connect_string, chroot) as (_, observer),
    ):
        for number in range(5):
            await observer.create(f"/{number}")
        await store.sync("/")
        proxy.way = Way.REFUSED  # after the cut, until the other has written
        proxy.lose(Loss.REPLY, MULTI)
        async with asyncio.TaskGroup() as tasks:
            sets: list[Awaitable[object]] = [store.set(f"/{n}", b"ours", 0) for n in range(5)]
            asked = tasks.create_task(together(sets), name="sets")
            await eventually(lambda: proxy.lost)
            await observer.set("/2", b"theirs", 1)
            proxy.way = Way.OPEN
        outcomes = asked.result()
        assert [type(outcome) for outcome in outcomes] == [Stat, Stat, Ambiguous, Stat, Stat]
        assert await together([observer.exists(f"/{n}") for n in (0, 1, 3, 4)]) == [
            *outcomes[:2],
            *outcomes[3:],
        ]
        ambiguous = outcomes[2]
        assert isinstance(ambiguous, Ambiguous)
        assert ambiguous.session_id == store.session_id
        assert ambiguous.zxid_before > 0


@BOTH
async def test_a_lost_batch_over_values_that_became_large_is_resolved(
    zookeeper: SharedEnsemble, chroot: str, proxy: Proxy, loss: Loss
) -> None:
    async with (
        opened(proxy.address, chroot) as (store, _),
        opened(zookeeper.connect_string, chroot) as (_, observer),
    ):
        # The proxy passes frames of 4 MiB, and a reply may have 2.
        for number in range(6):
            await observer.create(f"/{number}", bytes(500_000))
        await store.sync("/")
        if loss is Loss.REPLY:
            proxy.way = Way.REFUSED
        proxy.lose(loss, MULTI)
        works: list[Awaitable[object]] = [store.delete(f"/{n}") for n in range(6)]
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(together(works), name="deletes")
            await eventually(lambda: proxy.lost)
            proxy.way = Way.OPEN
        assert asked.result() == [None] * 6
        assert await observer.children("/") == []


async def test_ephemerals_whose_batch_was_not_done_in_their_session_are_not_made_in_the_next(
    zookeeper: SharedEnsemble, chroot: str, proxy: Proxy
) -> None:
    async with (
        opened(proxy.address, chroot) as (store, under),
        opened(zookeeper.connect_string, chroot) as (_, observer),
    ):
        session_id, password = under.session_id, under.saved_session.password
        proxy.way = Way.REFUSED
        proxy.lose(Loss.REQUEST, MULTI)
        works: list[Awaitable[object]] = [
            store.create(f"/{n}", b"", CreateMode.EPHEMERAL) for n in range(3)
        ]
        works.append(store.create("/0"))
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(together(works), name="creates")
            await eventually(lambda: proxy.lost)
            await expire_session(zookeeper.connect_string, session_id, password)
            proxy.way = Way.OPEN
        ephemerals, behind = asked.result()[:3], asked.result()[3]
        assert [type(outcome) for outcome in ephemerals] == [SessionExpired] * 3
        assert isinstance(behind, SessionExpired)
        assert store.session_id not in {0, session_id}
        assert await observer.children("/") == []


@BOTH
@pytest.mark.parametrize("opcode", [GET, MULTI_READ])
async def test_reads_that_got_lost_are_asked_again_in_order(
    zookeeper: SharedEnsemble, chroot: str, proxy: Proxy, loss: Loss, opcode: int
) -> None:
    async with opened(proxy.address, chroot) as (store, _):
        created = [await store.create(f"/{number}", b"%d" % number) for number in range(6)]
        proxy.lose(loss, opcode)
        heard: list[object] = []

        async def read(path: str) -> None:
            heard.append(await store.get(path))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(read("/0"), name="alone")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for number in range(1, 6):
                tasks.create_task(read(f"/{number}"), name="in a batch")
        assert heard == created
        assert proxy.lost == 1


def asked_for(body: bytes) -> Iterator[str]:
    """The paths of a request for several reads."""
    offset = 0
    while body[offset + 4] == 0:  # not done
        (length,) = struct.unpack_from("!i", body, offset + 9)
        start = offset + 13
        yield body[start : start + length].decode()
        offset = start + length + 1


def answer(paths: list[str]) -> bytes:
    parts = []
    for path in paths:
        data = path.encode()
        stat = STAT.pack(1, 1, 0, 0, 0, 0, 0, 0, len(data), 0, 1)
        parts.append(struct.pack("!ibii", GET, 0, -1, len(data)) + data + stat)
    return b"".join(parts) + struct.pack("!ibi", -1, 1, -1)


async def test_a_reply_that_is_too_large_is_read_in_parts_and_answered_in_order() -> None:
    requests: list[list[str]] = []

    async def play(peer: Peer) -> None:
        peer.welcome(peer.connect.session_id or 0x77)
        while True:
            request = await peer.request()
            if request.opcode == EXISTS:
                peer.send(reply(request.xid, 1, NO_NODE))
                continue
            if request.opcode != MULTI_READ:
                peer.send(reply(request.xid))
                continue
            paths = list(asked_for(request.body))
            requests.append(paths)
            if len(paths) > 3:
                peer.send(frame(bytes(32 << 20))[:100])  # its length announces far more than it has
            else:
                peer.send(reply(request.xid, 1, 0, answer(paths)))

    async with FakeZooKeeper.playing(play) as fake, opened(fake.address) as (store, _):
        heard: list[str] = []

        async def read(path: str) -> None:
            node = await store.get(path)
            assert node is not None
            assert node.data == path.encode()
            heard.append(path)

        paths = [f"/{number}" for number in range(8)]
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
            # Three of the same turn: two leave alone, and with the third the batch begins.
            for path in ("/none-1", "/none-2"):
                tasks.create_task(store.exists(path), name="alone")
            for path in paths:
                tasks.create_task(read(path), name="read")
        assert heard == paths
        assert requests[0] == paths
        assert [path for part in requests if len(part) <= 3 for path in part] == paths
        assert len(store._order) == 0


async def test_a_create_without_its_parent_fails_alone_and_the_batch_is_done(
    zookeeper: SharedEnsemble, chroot: str
) -> None:
    async with opened(zookeeper.connect_string, chroot) as (store, _):
        works: list[Awaitable[object]] = [store.create(f"/{n}") for n in range(20)]
        works.insert(7, store.create("/no/where"))
        works.insert(9, store.create("/deep/er/x", b"x", make_parents=True))
        outcomes = await together(works)
        assert isinstance(outcomes.pop(7), NoNode)
        assert outcomes.pop(8) == await store.get("/deep/er/x")
        assert all(isinstance(outcome, Versioned) for outcome in outcomes)
