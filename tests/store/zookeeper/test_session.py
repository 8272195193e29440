"""A session: its connections, its events, and how it ends."""

import asyncio
import struct
import time
from collections.abc import Awaitable
from dataclasses import replace

import pytest

from broker_ctl.clock import SystemClock
from broker_ctl.errors import (
    AuthFailed,
    ClientFailed,
    ConnectionLoss,
    NodeExists,
    SessionExpired,
    SessionMoved,
    StoreError,
)
from broker_ctl.store.interface import (
    Check,
    Create,
    CreateMode,
    Notification,
    SavedSession,
    SessionEvent,
)
from broker_ctl.store.zookeeper import wire
from broker_ctl.store.zookeeper.access import Identity
from broker_ctl.store.zookeeper.connection import Connection
from broker_ctl.store.zookeeper.dialer import Dialer
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.store.zookeeper.conftest import OpenStore
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble
from tests.support.zookeeper.fake_zookeeper import FakeZooKeeper, Peer, node_reply, reply, serve
from tests.support.zookeeper.proxy import Loss, Proxy, Way
from tests.support.zookeeper.session_faults import expire_session

CONNECTED, SUSPENDED, RECONNECTED, EXPIRED, CLOSED = (
    SessionEvent.CONNECTED,
    SessionEvent.SUSPENDED,
    SessionEvent.RECONNECTED,
    SessionEvent.EXPIRED,
    SessionEvent.CLOSED,
)


async def outcome(work: Awaitable[object]) -> object:
    try:
        return await work
    except StoreError as error:
        return error


async def heard_from(store: ZooKeeperStore) -> list[SessionEvent]:
    events: list[SessionEvent] = []
    store.listen(events.append)
    return events


async def until(
    events: list[SessionEvent],
    *expected: SessionEvent,
    deadline_s: float = PATIENCE_S,
) -> None:
    await eventually(lambda: len(events) >= len(expected), deadline_s)
    assert events == list(expected)


# Silence.


@pytest.mark.parametrize("is_asked", [True, False], ids=["a request waits", "idle"])
async def test_a_half_open_connection_is_noticed_and_the_session_survives(
    open_store: OpenStore,
    proxy: Proxy,
    rooted: StoreOptions,
    is_asked: bool,
) -> None:
    # Leaves a busy machine some seconds to notice it.
    timeout_s = 9.0
    limits = replace(rooted, session_timeout_s=timeout_s, operation_timeout_s=PATIENCE_S)
    store = await open_store(proxy.address, limits)
    await store.create("/e", b"", CreateMode.EPHEMERAL)
    session_id, events = store.session_id, await heard_from(store)
    loop = asyncio.get_running_loop()
    proxy.way = Way.HALF_OPEN
    began_s = loop.time()
    async with asyncio.TaskGroup() as tasks:
        if is_asked:
            tasks.create_task(store.get("/e"), name="get")
        await until(events, SUSPENDED)
        took_s = loop.time() - began_s
        proxy.cut()
        proxy.way = Way.OPEN
    # A third, and a few twelfths until it is pinged and looked at: long before the server gives
    # the session up. A ping may have been swallowed a little earlier.
    assert timeout_s / 4 <= took_s < timeout_s * 0.9
    await until(events, SUSPENDED, RECONNECTED)
    assert store.session_id == session_id
    assert await store.ephemerals("/") == ["/e"]


async def test_an_idle_session_outlives_its_timeout(
    open_store: OpenStore,
    proxy: Proxy,
    rooted: StoreOptions,
) -> None:
    store = await open_store(proxy.address, replace(rooted, session_timeout_s=1.0))
    assert store.session_timeout_s == 1.0
    events = await heard_from(store)
    ping = 11
    await eventually(lambda: proxy.opcodes.count(ping) >= 24)  # two sessions long, nothing else
    assert set(proxy.opcodes) == {ping}
    assert events == []


async def test_a_stall_of_the_loop_is_not_taken_for_a_silent_server(
    open_store: OpenStore,
    zookeeper: SharedEnsemble,
    rooted: StoreOptions,
) -> None:
    timeout_s = 1.5
    options = replace(rooted, session_timeout_s=timeout_s)
    store = await open_store(zookeeper.connect_string, options)
    events = await heard_from(store)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(store.get("/"), name="get")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert store.in_flight == 1
        stall(timeout_s / 2)
    await eventually(lambda: store._session._connection is not None)
    await store.get("/")
    assert events == []


def stall(seconds: float) -> None:
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        pass


# Faults of its own.


@pytest.mark.parametrize(("owner", "name"), [(Dialer, "next_server"), (Connection, "send_ping")])
async def test_a_client_that_fails_by_itself_is_closed_with_client_failed(
    open_store: OpenStore, owner: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise nothing would reconnect or end a silent connection, and no caller would notice."""
    async with FakeZooKeeper.playing(serve) as fake:
        store = await open_store(fake.address)
        events = await heard_from(store)

        def fail(*_: object) -> None:
            raise ValueError("a fault")

        monkeypatch.setattr(owner, name, fail)
        if owner is Dialer:
            store.abort_connection()
        await eventually(lambda: CLOSED in events)
        with pytest.raises(ClientFailed, match="ValueError: a fault"):
            await store.wait_connected()


# Timeouts.


async def test_a_session_asks_each_server_for_no_more_time_than_it_was_granted_last(
    open_store: OpenStore,
) -> None:
    granted_ms = iter([4000, 3000, 3000])
    cut = asyncio.Event()

    async def script(peer: Peer) -> None:
        timeout_ms = next(granted_ms)
        peer.welcome(0x11, timeout_ms)
        if timeout_ms == 4000:
            await cut.wait()
            return
        await peer.wait_end()

    async with FakeZooKeeper.playing(script) as fake:
        store = await open_store(fake.address)
        events = await heard_from(store)
        cut.set()
        await until(events, SUSPENDED, RECONNECTED)
        # A listener already sees it at the event of the connection.
        assert store.session_timeout_s == 3.0
        store.abort_connection()
        await until(events, SUSPENDED, RECONNECTED, SUSPENDED, RECONNECTED)
        assert [connect.timeout_ms for connect in fake.connects] == [5000, 4000, 3000]
        await store.close(end_session=False)


async def test_a_new_session_asks_for_all_of_it_again(open_store: OpenStore) -> None:
    ids = iter([0x11, 0, 0x22])
    cut = asyncio.Event()

    async def script(peer: Peer) -> None:
        session_id = next(ids)
        peer.welcome(session_id, 4000 if session_id else 0)
        if session_id == 0x11:
            await cut.wait()
        elif session_id:
            await peer.wait_end()

    async with FakeZooKeeper.playing(script) as fake:
        store = await open_store(fake.address)
        events = await heard_from(store)
        cut.set()
        await until(events, SUSPENDED, EXPIRED, CONNECTED)
        assert [connect.timeout_ms for connect in fake.connects] == [5000, 4000, 5000]
        await store.close(end_session=False)


# Session ids.


async def test_a_server_that_hands_out_another_session_has_lost_ours(open_store: OpenStore) -> None:
    ids = iter([0x11, 0x22])
    cut = asyncio.Event()

    async def script(peer: Peer) -> None:
        peer.welcome(next(ids))
        if peer.connect.session_id == 0:
            await cut.wait()
            return
        while True:
            peer.send(node_reply((await peer.request()).xid, b"1"))

    async with FakeZooKeeper.playing(script) as fake:
        store = await open_store(fake.address)
        events, seen = await heard_from(store), list[int]()
        store.listen(lambda _: seen.append(store.session_id))
        assert store.session_id == 0x11
        cut.set()
        await until(events, SUSPENDED, EXPIRED, CONNECTED)
        assert seen == [0x11, 0, 0x22]
        assert [connect.session_id for connect in fake.connects] == [0, 0x11]
        assert await store.get("/a") is not None
        await store.close(end_session=False)


async def test_an_expired_session_is_reported_once_and_replaced(open_store: OpenStore) -> None:
    cut = asyncio.Event()

    async def first(peer: Peer) -> None:
        peer.welcome(0x11)
        await cut.wait()

    async def gone(peer: Peer) -> None:
        peer.welcome(0, 0)
        await peer.wait_end()

    async with FakeZooKeeper.playing(first, gone, serve) as fake:
        store = await open_store(fake.address)
        events = await heard_from(store)
        cut.set()
        await until(events, SUSPENDED, EXPIRED, CONNECTED)
        assert [connect.session_id for connect in fake.connects] == [0, 0x11, 0]
        assert store.session_id == 0x1234
        await store.close(end_session=False)


@pytest.mark.parametrize("is_heard", [True, False], ids=["waited for", "given up"])
async def test_a_session_that_moved_is_not_fought_for(
    open_store: OpenStore,
    is_heard: bool,
) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def first(peer: Peer) -> None:
        peer.welcome(0x11)
        request = await peer.request()
        asked.set()
        await answer.wait()
        peer.send(reply(request.xid, 1, -118))
        await peer.wait_end()

    async with FakeZooKeeper.playing(first, serve) as fake:
        store = await open_store(fake.address)
        events = await heard_from(store)
        async with asyncio.TaskGroup() as tasks:
            write = tasks.create_task(outcome(store.set("/a", b"")), name="set")
            await asked.wait()
            if not is_heard:
                write.cancel()
            answer.set()
        assert not is_heard or isinstance(write.result(), SessionMoved)
        await until(events, SUSPENDED, EXPIRED, CONNECTED)
        # The moved session is not asked for again.
        assert [connect.session_id for connect in fake.connects] == [0, 0]
        await store.close(end_session=False)


async def test_a_server_that_speaks_of_expiry_is_asked_again_at_once(
    open_store: OpenStore,
) -> None:
    async def first(peer: Peer) -> None:
        # To notice its silence takes longer than the test.
        peer.welcome(0x11, 1_000_000)
        peer.send(reply((await peer.request()).xid, 1, -112))
        await peer.wait_end()  # it does not close the connection

    async with FakeZooKeeper.playing(first, serve) as fake:
        store = await open_store(fake.address)
        events = await heard_from(store)
        assert isinstance(await outcome(store.set("/a", b"")), SessionExpired)
        # The server knows the session after all: nothing is lost.
        await until(events, SUSPENDED, RECONNECTED)
        assert [connect.session_id for connect in fake.connects] == [0, 0x11]
        await store.close(end_session=False)


async def test_a_multi_that_speaks_of_expiry_ends_the_connection_too(
    open_store: OpenStore,
) -> None:
    async def first(peer: Peer) -> None:
        peer.welcome(0x11)
        # Kind -1, not done, the code; and the code again as the body.
        parts = [struct.pack("!iBii", -1, 0, code, code) for code in (-112, -2)]
        end = struct.pack("!iBi", -1, 1, -1)
        peer.send(reply((await peer.request()).xid, 1, body=b"".join(parts) + end))
        # It does not close the connection, and answers pings.
        await peer.request()

    async with FakeZooKeeper.playing(first, serve) as fake:
        store = await open_store(fake.address)
        events = await heard_from(store)
        found = await outcome(store.multi([Check("/epoch", 3), Create("/a")]))
        assert isinstance(found, SessionExpired)
        await until(events, SUSPENDED, RECONNECTED)
        await store.close(end_session=False)


async def test_what_waits_when_the_session_ends_is_not_done_in_the_next_one(
    store: ZooKeeperStore,
    proxy: Proxy,
    zookeeper: SharedEnsemble,
    observer: ZooKeeperStore,
) -> None:
    await store.create("/a", b"0")
    events, session_id = await heard_from(store), store.session_id
    proxy.way = Way.REFUSED
    proxy.cut()
    await until(events, SUSPENDED)
    async with asyncio.TaskGroup() as tasks:
        works = [store.set("/a", b"1"), store.create("/b"), store.delete("/a")]
        writes = [tasks.create_task(outcome(work), name="write") for work in works]
        read = tasks.create_task(store.get("/a"), name="read")
        await eventually(lambda: store.in_flight == 4)
        await expire_session(zookeeper.connect_string, session_id, store.saved_session.password)
        proxy.way = Way.OPEN
    assert [type(write.result()) for write in writes] == [SessionExpired] * 3
    assert read.result() == await observer.get("/a")
    assert await observer.children("/") == ["a"]
    await until(events, SUSPENDED, EXPIRED, CONNECTED)
    assert store.session_id not in {0, session_id}


async def test_a_write_before_the_first_connection_belongs_to_the_first_session(
    open_store: OpenStore,
    proxy: Proxy,
    rooted: StoreOptions,
) -> None:
    proxy.way = Way.REFUSED
    store = await open_store(proxy.address, rooted, connected=False)
    async with asyncio.TaskGroup() as tasks:
        work = store.create("/e", b"1", CreateMode.EPHEMERAL)
        creation = tasks.create_task(work, name="create")
        await eventually(lambda: store.in_flight)
        # Its reply is lost as well: the session that sent it is known by then.
        create = 15
        proxy.lose(Loss.REPLY, create)
        proxy.way = Way.OPEN
    assert proxy.lost == 1
    assert creation.result().stat.ephemeral_owner == store.session_id


# A session that another process left behind.


async def test_a_session_left_behind_is_taken_up_by_another_process(
    open_store: OpenStore,
    zookeeper: SharedEnsemble,
    rooted: StoreOptions,
) -> None:
    first = await open_store(zookeeper.connect_string, rooted)
    created = await first.create("/e", b"1", CreateMode.EPHEMERAL)
    session_id = first.session_id
    await first.close(end_session=False)
    left = replace(rooted, resumed=first.saved_session)
    second = await open_store(zookeeper.connect_string, left, connected=False)
    events = await heard_from(second)
    assert second.session_id == session_id
    await second.wait_connected()
    assert events == [RECONNECTED]
    assert second.session_id == session_id
    assert await second.ephemerals("/") == ["/e"]
    assert await second.get("/e") == created
    with pytest.raises(NodeExists):
        await second.create("/e", b"2", CreateMode.EPHEMERAL)


@pytest.mark.parametrize("is_known", [True, False], ids=["wrong password", "unknown session"])
async def test_a_session_that_cannot_be_taken_up_is_replaced(
    open_store: OpenStore,
    zookeeper: SharedEnsemble,
    observer: ZooKeeperStore,
    rooted: StoreOptions,
    is_known: bool,
) -> None:
    session_id = observer.session_id if is_known else 0x123456789
    left = replace(rooted, resumed=SavedSession(session_id, b"x" * 16))
    store = await open_store(zookeeper.connect_string, left, connected=False)
    events = await heard_from(store)
    await store.wait_connected()
    assert events == [EXPIRED, CONNECTED]
    assert store.session_id not in {0, session_id}
    # A wrong password does not end the session of another client.
    assert await observer.children("/") == []


# Which server.


async def test_no_server_that_lags_behind_what_was_seen_is_used(open_store: OpenStore) -> None:
    cut = asyncio.Event()

    async def first(peer: Peer) -> None:
        peer.welcome(0x11)
        peer.send(node_reply((await peer.request()).xid, b"1", zxid=0x5_0000_0007))
        peer.send(node_reply((await peer.request()).xid, b"1", zxid=0x5_0000_0003))
        await cut.wait()

    async def lagging(peer: Peer) -> None:
        # What a real one does when the zxid of a client is ahead of its own.
        assert peer.connect.zxid == 0x5_0000_0007

    async def ahead(peer: Peer) -> None:
        # Asked where the servers' history stands: a session of its own, which was committed.
        assert (peer.connect.session_id, peer.connect.zxid) == (0, 0)
        peer.welcome(0x22)
        while True:
            peer.send(node_reply((await peer.request()).xid, b"", zxid=0x5_0000_0008))

    async with FakeZooKeeper.playing(first, lagging, lagging, ahead, serve) as fake:
        store = await open_store(fake.address)
        events = await heard_from(store)
        await store.get("/a")
        await store.get("/a")
        assert store.last_zxid == 0x5_0000_0007
        cut.set()
        await until(events, SUSPENDED, RECONNECTED)
        assert [(each.session_id, each.zxid) for each in fake.connects] == [
            (0, 0),
            *[(0x11, 0x5_0000_0007)] * 2,
            (0, 0),
            (0x11, 0x5_0000_0007),
        ]
        await store.close(end_session=False)


@pytest.mark.parametrize("unknown", ["no-such-host.invalid:2181", "a..b:2181"])
async def test_a_host_that_is_not_known_is_named_and_the_others_are_tried(
    open_store: OpenStore,
    zookeeper: SharedEnsemble,
    caplog: pytest.LogCaptureFixture,
    unknown: str,
) -> None:
    alone = await open_store(unknown, connected=False)

    def warnings() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

    # It warns of the first failure and goes on: of the second it warns too.
    await eventually(lambda: sum(unknown in text for text in warnings()) >= 2)
    assert not alone.is_connected
    await alone.close()
    # Shuffled: with one of two unknown, one in two of these meets it first.
    for _ in range(4):
        store = await open_store(f"{unknown},{zookeeper.connect_string}")
        assert store.is_connected


async def test_an_outage_is_survived_as_soon_as_a_server_takes_us(
    store: ZooKeeperStore,
    proxy: Proxy,
) -> None:
    session_id, events = store.session_id, await heard_from(store)
    for _ in range(3):
        proxy.way = Way.REFUSED
        proxy.cut()
        await eventually(lambda: not store.is_connected)
        proxy.way = Way.OPEN
        await store.get("/")
    await until(events, *[SUSPENDED, RECONNECTED] * 3)
    assert store.session_id == session_id


# Watches and listeners.


async def test_every_watch_stands_again_however_many_there_are(
    store: ZooKeeperStore,
    proxy: Proxy,
    observer: ZooKeeperStore,
) -> None:
    # More than one request can carry; and one comes while they are being set.
    roots = [f"/{number:04}" + "x" * 400 for number in range(700)]
    heard: list[Notification] = []
    async with asyncio.TaskGroup() as tasks:
        for root in roots:
            tasks.create_task(store.watch(root, heard.append), name="watch")
    events = await heard_from(store)
    proxy.cut()
    await store.watch("/late", heard.append)
    await until(events, SUSPENDED, RECONNECTED)
    set_watches = 105
    assert proxy.opcodes.count(set_watches) == 3
    for path in (roots[0], roots[-1], "/late"):
        await observer.create(path)
    await store.sync("/")
    assert [event.path for event in heard] == [roots[0], roots[-1], "/late"]


async def test_a_watch_that_was_set_while_there_was_no_connection_stands(
    store: ZooKeeperStore,
    proxy: Proxy,
    observer: ZooKeeperStore,
) -> None:
    proxy.way = Way.REFUSED
    proxy.cut()
    await eventually(lambda: not store.is_connected)
    heard: list[Notification] = []
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(store.watch("/a", heard.append), name="watch")
        await eventually(lambda: store.in_flight)
        assert not watching.done()
        proxy.way = Way.OPEN
    await observer.create("/a")
    await store.sync("/")
    assert [event.path for event in heard] == ["/a"]


async def test_a_watch_that_could_not_be_set_is_not_set_later(
    open_store: OpenStore,
    proxy: Proxy,
    rooted: StoreOptions,
    observer: ZooKeeperStore,
) -> None:
    store = await open_store(proxy.address, replace(rooted, operation_timeout_s=0.3))
    proxy.way = Way.REFUSED
    proxy.cut()
    heard: list[Notification] = []
    assert isinstance(await outcome(store.watch("/a", heard.append)), StoreError)
    proxy.way = Way.OPEN
    await store.wait_connected()
    await observer.create("/a")
    await store.sync("/")
    assert heard == []


async def test_a_listener_that_fails_does_not_affect_the_others(
    store: ZooKeeperStore,
    proxy: Proxy,
    observer: ZooKeeperStore,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(news: object) -> None:
        raise ValueError(f"cannot bear {news}")

    store.listen(fail)
    events, heard = await heard_from(store), list[Notification]()
    await store.watch("/a", fail)
    await store.watch("/a", heard.append)
    await observer.create("/a")
    await store.sync("/")
    assert [event.path for event in heard] == ["/a"]
    assert events == []
    proxy.cut()
    await until(events, SUSPENDED, RECONNECTED)
    await observer.delete("/a")
    await store.sync("/")
    assert [event.change.name for event in heard] == ["CREATED", "DELETED"]
    assert "cannot bear" in caplog.text


# The end.


async def test_refused_credentials_close_the_store_and_say_so(open_store: OpenStore) -> None:
    async def script(peer: Peer) -> None:
        peer.welcome(0x11)
        request = await peer.request()
        auth = 100
        assert (request.xid, request.opcode) == (-4, auth)
        peer.send(reply(request.xid, 0, -115))

    async with FakeZooKeeper.playing(script) as fake:
        options = StoreOptions("", identity=Identity(digests=[b"me:wrong"]))
        store = await open_store(fake.address, options, connected=False)
        events = await heard_from(store)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(outcome(store.get("/a")), name="get")
            with pytest.raises(AuthFailed, match="authentication failed"):
                await store.wait_connected()
        assert isinstance(waiting.result(), AuthFailed)
        assert isinstance(await outcome(store.set("/a", b"")), AuthFailed)
        assert events == [CLOSED]
        assert len(fake.connects) == 1
        assert not store.is_connected
        await store.close()
        assert events == [CLOSED]
        assert len(store._session._tasks) == 0


async def test_a_close_that_the_server_does_not_answer_ends_soon(open_store: OpenStore) -> None:
    async def deaf(peer: Peer) -> None:
        peer.welcome(0x11, 1_000_000)
        await peer.wait_end()

    async with FakeZooKeeper.playing(deaf) as fake:
        store = await open_store(fake.address)
        events = await heard_from(store)
        async with asyncio.timeout(PATIENCE_S):
            await store.close()
        assert events[-1] is CLOSED
        assert len(store._session._tasks) == 0


async def test_an_outage_of_servers_without_a_quorum_is_logged_as_no_leader(
    open_store: OpenStore, proxy: Proxy, rooted: StoreOptions, caplog: pytest.LogCaptureFixture
) -> None:
    is_electing, counts = True, list[int]()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(1 << 16):
            writer.write(chunk)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if is_electing:
            if await reader.read(4) == b"srvr":
                writer.write(b"This ZooKeeper instance is not currently serving requests\n")
        else:
            answers, server = await asyncio.open_connection("127.0.0.1", proxy.port)
            async with asyncio.TaskGroup() as group:
                group.create_task(relay(reader, server), name="requests")
                group.create_task(relay(answers, writer), name="replies")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        options = replace(rooted, on_no_quorum=counts.append)
        store = await open_store(address, options, connected=False)
        reason = "no leader: 1 of 1 are up, and have no quorum"
        await eventually(lambda: reason in caplog.text, deadline_s=60.0)
        assert f"{address} not serving" in caplog.text
        await eventually(lambda: 1 in counts)
        is_electing = False
        await eventually(lambda: store.is_connected)
        assert counts[-1] == 0
        await store.close()


async def test_the_handshake_counts_from_before_the_server_had_the_request(
    open_store: OpenStore,
) -> None:
    clock, had_s = SystemClock(), list[float]()

    async def script(peer: Peer) -> None:
        had_s.append(clock.now_s())
        peer.welcome(peer.connect.session_id or 7)
        await (peer.wait_end() if len(had_s) > 1 else peer.request())

    async with FakeZooKeeper.playing(script) as server:
        store = await open_store(server.address)
        first_s = store.handshake_s
        assert 0 < first_s <= had_s[0]
        with pytest.raises(ConnectionLoss):
            await store._session.call(wire.wire_get("/a"), 60.0)
        await eventually(lambda: len(had_s) > 1)
        await store.wait_connected()
        assert had_s[0] < store.handshake_s <= had_s[1]
        await store.close(end_session=False)
