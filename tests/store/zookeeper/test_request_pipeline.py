"""The queue of requests: its order, its bound, its deadlines, and its clean-up."""

import asyncio
import gc
import sys
import weakref
from collections.abc import Awaitable

import pytest

from broker_ctl.errors import (
    Ambiguous,
    ConnectionLoss,
    MultiFailed,
    OperationTimeout,
    StoreClosed,
    StoreError,
    TooLarge,
)
from broker_ctl.store.interface import CreateMode, Delete
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.store.zookeeper.conftest import OpenStore
from tests.support.time.waiting import eventually
from tests.support.zookeeper.fake_zookeeper import FakeZooKeeper, Peer, node_reply
from tests.support.zookeeper.proxy import Proxy, Way


async def outcome(work: Awaitable[object]) -> object:
    try:
        return await work
    except StoreError as error:
        return error


def is_idle(store: ZooKeeperStore) -> bool:
    """Whether nothing is queued, on the wire, or held for a caller."""
    line = store._session._line
    return not line._waiting and not store.in_flight


async def disconnect(store: ZooKeeperStore, proxy: Proxy) -> None:
    proxy.way = Way.REFUSED
    proxy.cut()
    await eventually(lambda: not store.is_connected)


async def test_what_waits_is_sent_in_its_order_over_the_next_connection(
    open_store: OpenStore,
    proxy: Proxy,
    rooted: StoreOptions,
    observer: ZooKeeperStore,
) -> None:
    # Patient: the fate of a sequential node whose reply is lost cannot be read.
    store = await open_store(proxy.address, StoreOptions("", rooted.chroot))
    await store.create("/q")
    await disconnect(store, proxy)
    async with asyncio.TaskGroup() as tasks:
        for number in range(200):
            path = f"/q/n{number:03}-"
            work = store.create(path, b"", CreateMode.SEQUENTIAL)
            tasks.create_task(work, name=f"create {number}")
        await eventually(lambda: store.in_flight == 200)
        proxy.way = Way.OPEN
    names = await observer.children("/q")
    assert names == [f"n{number:03}-{number:010}" for number in range(200)]
    assert is_idle(store)


async def test_a_request_goes_behind_those_that_already_wait(
    open_store: OpenStore,
    proxy: Proxy,
    rooted: StoreOptions,
) -> None:
    narrow = StoreOptions("", rooted.chroot, operation_timeout_s=5.0, max_in_flight=3)
    store = await open_store(proxy.address, narrow)
    await store.create("/q")
    async with asyncio.TaskGroup() as tasks:
        for number in range(100):
            work = store.create(f"/q/n{number:03}-", b"", CreateMode.SEQUENTIAL)
            tasks.create_task(work, name=f"create {number}")
            if number % 10 == 0:
                await asyncio.sleep(0)
    names = await store.children("/q")
    assert names == [f"n{number:03}-{number:010}" for number in range(100)]


async def test_no_more_requests_are_on_the_wire_than_the_bound_allows(
    open_store: OpenStore,
) -> None:
    seen: list[int] = []
    answer = asyncio.Event()

    async def script(peer: Peer) -> None:
        peer.welcome(1)
        while True:
            request = await peer.request()
            seen.append(request.xid)
            await answer.wait()
            peer.send(node_reply(request.xid, b"1"))

    async with FakeZooKeeper.playing(script) as fake:
        store = await open_store(fake.address, StoreOptions("", max_in_flight=5))
        connection = store._session._connection
        assert connection is not None
        async with asyncio.TaskGroup() as tasks:
            reads = [tasks.create_task(store.get("/a"), name="get") for _ in range(20)]
            await eventually(lambda: seen)
            assert (connection.in_flight, store.in_flight) == (5, 20)
            # Cancelled callers free no place: the server has not answered their requests.
            for read in reads[:4]:
                read.cancel()
            await asyncio.sleep(0)
            assert (connection.in_flight, store.in_flight) == (5, 20)
            # A request that has not been sent is removed at once.
            reads[-1].cancel()
            await asyncio.sleep(0)
            assert (connection.in_flight, store.in_flight) == (5, 19)
            answer.set()
        assert [read.cancelled() for read in reads] == [True] * 4 + [False] * 15 + [True]
        assert len(seen) == 19
        assert is_idle(store)
        await store.close(end_session=False)


async def test_what_was_lost_with_its_connection_goes_before_what_came_later(
    open_store: OpenStore,
) -> None:
    asked: list[bytes] = []
    cut = asyncio.Event()

    async def loses(peer: Peer) -> None:
        peer.welcome(1)
        for _ in range(2):
            await peer.request()
        await cut.wait()

    async def answers(peer: Peer) -> None:
        peer.welcome(1)
        while True:
            request = await peer.request()
            asked.append(request.body[4:6])
            peer.send(node_reply(request.xid, b"1"))

    async with FakeZooKeeper.playing(loses, answers) as fake:
        store = await open_store(fake.address, StoreOptions("", max_in_flight=2))
        async with asyncio.TaskGroup() as tasks:
            for path in ("/a", "/b", "/c"):
                tasks.create_task(store.get(path), name=path)
            await eventually(lambda: store.in_flight == 3)
            cut.set()
        assert asked == [b"/a", b"/b", b"/c"]
        await store.close(end_session=False)


async def test_a_request_that_waits_too_long_fails_as_not_sent_and_leaves_nothing_behind(
    open_store: OpenStore,
    proxy: Proxy,
    rooted: StoreOptions,
    observer: ZooKeeperStore,
) -> None:
    hurried = StoreOptions("", rooted.chroot, session_timeout_s=20.0, operation_timeout_s=0.3)
    store = await open_store(proxy.address, hurried)
    await disconnect(store, proxy)
    payload = b"x" * 1000
    held = sys.getrefcount(payload)
    errors = await wait_in_vain(store, payload)
    assert [type(error) for error in errors] == [ConnectionLoss] * 3
    assert all("not sent" in str(error) for error in errors)
    assert is_idle(store)
    del errors
    gc.collect()
    assert sys.getrefcount(payload) == held
    proxy.way = Way.OPEN
    await store.wait_connected()
    assert await store.children("/") == []


async def wait_in_vain(store: ZooKeeperStore, payload: bytes) -> list[object]:
    works = [store.create("/a", payload), store.set("/b", payload), store.get("/c")]
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(outcome(work), name="wait") for work in works]
        await eventually(lambda: store.in_flight == 3)
    return [task.result() for task in waiting]


async def test_cancelled_callers_leave_nothing_behind(
    store: ZooKeeperStore,
    proxy: Proxy,
    observer: ZooKeeperStore,
) -> None:
    await disconnect(store, proxy)
    async with asyncio.TaskGroup() as tasks:
        creating = [tasks.create_task(store.create(f"/n{n}"), name="create") for n in range(50)]
        await eventually(lambda: store.in_flight == 50)
        for task in creating[::2]:
            task.cancel()
        await eventually(lambda: store.in_flight == 25)
        proxy.way = Way.OPEN
    # A request whose caller was cancelled before it was sent is never done.
    assert len(await observer.children("/")) == 25
    assert is_idle(store)


async def test_an_answer_that_comes_too_late_leaves_the_connection_as_it_is(
    open_store: OpenStore,
) -> None:
    late = asyncio.Event()

    async def script(peer: Peer) -> None:
        peer.welcome(1, 60_000)
        while True:
            request = await peer.request()
            if not late.is_set():
                await late.wait()
            peer.send(node_reply(request.xid, str(request.xid).encode()))

    async with FakeZooKeeper.playing(script) as fake:
        store = await open_store(fake.address, StoreOptions("", operation_timeout_s=0.2))
        assert isinstance(await outcome(store.get("/a")), OperationTimeout)
        lost = await outcome(store.set("/a", b""))
        assert isinstance(lost, Ambiguous)
        assert lost.session_id == store.session_id == 1
        late.set()
        # The third request gets the third answer.
        node = await store.get("/a")
        assert node is not None
        assert node.data == b"3"
        assert len(fake.connects) == 1
        assert is_idle(store)
        await store.close(end_session=False)


async def test_a_request_that_is_too_large_costs_neither_connection_nor_place(
    store: ZooKeeperStore,
    proxy: Proxy,
) -> None:
    await store.create("/a", b"1")
    # A real server takes a request that just fits.
    await store.set("/a", bytes(0xFFFFF - 100))
    node = await store.get("/a")
    assert node is not None
    assert len(node.data) == 0xFFFFF - 100
    with pytest.raises(TooLarge):
        await store.set("/a", bytes(1 << 20))
    assert proxy.accepted == 1
    assert is_idle(store)
    stat = await store.exists("/a")
    assert stat is not None
    assert stat.version == 1


async def test_nodes_that_are_too_many_for_one_reply_are_read_in_parts(
    store: ZooKeeperStore,
    proxy: Proxy,
) -> None:
    paths = [f"/n{number}" for number in range(5)]
    for path in paths:
        await store.create(path, bytes(700_000))
    session_id = store.session_id
    nodes = await store.get_many([*paths, "/none"])
    assert [node and node.path for node in nodes] == [*paths, None]
    assert store.session_id == session_id
    # The sizes are known now: no connection is lost again.
    accepted = proxy.accepted
    assert accepted > 1
    assert len(await store.get_many(paths)) == len(paths)
    assert proxy.accepted == accepted


async def test_a_closed_store_refuses_what_waits_and_what_comes(
    store: ZooKeeperStore,
    proxy: Proxy,
) -> None:
    await disconnect(store, proxy)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(outcome(store.get("/a")), name="get")
        await eventually(lambda: store.in_flight)
        await store.close()
    assert isinstance(waiting.result(), StoreClosed)
    assert isinstance(await outcome(store.get("/a")), StoreClosed)
    assert is_idle(store)


async def test_the_error_of_a_request_is_freed_without_a_search_for_garbage(
    store: ZooKeeperStore,
) -> None:
    """Its functions, and those around them, would stay with all that they know."""
    failed: list[weakref.ref[MultiFailed]] = []
    gc.disable()
    try:
        try:
            await store.multi([Delete("/missing"), Delete("/missing")])
        except MultiFailed as error:
            failed.append(weakref.ref(error))
        await eventually(lambda: [error() for error in failed] == [None], 5.0)
    finally:
        gc.enable()


async def test_no_task_outlives_the_store(store: ZooKeeperStore, proxy: Proxy) -> None:
    for _ in range(5):
        proxy.cut()
        await store.get("/a")
    assert len(store._session._tasks) >= 2
    await store.close()
    assert len(store._session._tasks) == 0
