"""Requests, watches and the session of a client on real servers."""

import asyncio

import pytest

from broker_ctl.errors import ConnectionLoss, OperationTimeout
from broker_ctl.tasks import TaskScope
from broker_ctl.zookeeper import (
    AclEntry,
    AuthFailed,
    BadVersion,
    Change,
    Changes,
    Check,
    ChildrenWatch,
    Client,
    Create,
    CreateMode,
    DataWatch,
    Delete,
    MultiFailed,
    NoAuth,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionEvent,
    SessionState,
    SetData,
    StoreClosed,
    StoreError,
    TreeCache,
    connect,
    server_status,
)
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble
from tests.support.zookeeper.proxy import Proxy, Way
from tests.zookeeper.conftest import OpenClient
from tests.zookeeper.test_locks import expire

# ZooKeeper's number of the request.
REMOVE_WATCHES = 18


async def test_nodes_are_created_read_changed_and_deleted(client: Client) -> None:
    made = await client.create("/a/b", b"one", make_parents=True)
    assert (made.path, made.data, made.stat.version) == ("/a/b", b"one", 0)
    assert await client.get("/a/b") == made
    assert await client.get("/none") is None
    assert await client.exists("/none") is None
    stat = await client.set("/a/b", b"two", 0)
    assert stat.version == 1
    with pytest.raises(BadVersion):
        await client.set("/a/b", b"three", 0)
    with pytest.raises(NodeExists):
        await client.create("/a/b")
    with pytest.raises(NoNode):
        await client.create("/none/b")
    await client.ensure("/a/b/c")
    await client.ensure("/a/b/c")
    assert await client.children("/a") == ["b"]
    with pytest.raises(NotEmpty):
        await client.delete("/a/b")
    await client.delete("/a", recursive=True)
    assert [node for node in await client.get_many(["/a", "/a/b"]) if node] == []
    await client.sync()


async def test_each_mode_makes_its_nodes(client: Client, open_client: OpenClient) -> None:
    numbered = await client.create("/n-", b"", CreateMode.SEQUENTIAL)
    assert numbered.path == "/n-0000000000"
    container = await client.create("/c", b"", CreateMode.CONTAINER)
    assert not container.stat.is_ephemeral
    other = await open_client()
    owned = await other.create("/e", b"", CreateMode.EPHEMERAL)
    assert owned.stat.ephemeral_owner == other.session_id
    await other.close()
    assert await client.exists("/e") is None


async def test_all_operations_of_a_transaction_are_done_or_none(client: Client) -> None:
    await client.ensure("/a")
    done = await client.multi([Create("/b"), SetData("/a", b"1"), Check("/a", 1), Delete("/b")])
    assert len(done) == 4
    with pytest.raises(MultiFailed, match="operation 1 on /none") as failed:
        await client.multi([Create("/c"), Delete("/none")])
    assert isinstance(failed.value.cause, NoNode)
    assert await client.exists("/c") is None


async def test_a_call_ends_by_its_own_limit(open_client: OpenClient, proxy: Proxy) -> None:
    client = await open_client(proxy.address)
    proxy.way = Way.HALF_OPEN
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    with pytest.raises((OperationTimeout, ConnectionLoss), match=r"no answer in 0\.[12]"):
        await client.get("/a", timeout_s=0.2)
    # Another call has the client's limit, which is thirty times as long.
    assert loop.time() - began_s < client.session_timeout_s


async def test_a_node_has_the_list_it_was_created_with(
    zookeeper: SharedEnsemble, chroot: str, client: Client
) -> None:
    mine = AclEntry("auth", "", 31)
    async with connect(
        zookeeper.connect_string, chroot=chroot, digests=["me:secret"], tick_time_s=0.5
    ) as owner:
        await owner.create("/mine", b"x")
        await owner.create("/shared", b"x", acl=[mine, AclEntry("world", "anyone", 1)])
        assert len(await owner.get_acl("/shared")) == 2
        with pytest.raises(NoAuth):
            await client.get("/mine")
        with pytest.raises(NoAuth):
            await client.set("/shared", b"y")
        assert await client.get("/shared") is not None
        await owner.set_acl("/mine", [AclEntry("world", "anyone")])
        assert await client.get("/mine") is not None


async def test_servers_say_how_they_are(zookeeper: SharedEnsemble) -> None:
    found = await server_status(f"{zookeeper.connect_string},127.0.0.1:1", limit_s=5.0)
    up, down = found.values()
    assert up["Mode"] == "standalone"
    assert "Connect call failed" in down["error"]


async def test_members_of_an_ensemble_are_changed_where_its_servers_allow_it(
    client: Client,
) -> None:
    # These do not (reconfigEnabled=false), and say so: the request has arrived as one.
    with pytest.raises(StoreError, match="reconfig"):
        await client.reconfig(joining="server.2=127.0.0.1:1:2;3")


# The session.


async def test_events_tell_of_the_session_in_order(
    open_client: OpenClient, proxy: Proxy, zookeeper: SharedEnsemble
) -> None:
    client = await open_client(proxy.address)
    seen: list[SessionEvent] = []
    client.store.listen(seen.append)
    async with client.events() as events:
        proxy.cut()
        await eventually(lambda: SessionEvent.RECONNECTED in seen)
        first = client.session_id
        await expire(client, zookeeper)
        # kazoo 600: a client whose session has expired never came back.
        await eventually(lambda: client.session_id not in {0, first})
        await client.ensure("/a")
        await client.close()
        heard = [event async for event in events]
    assert heard[:2] == [SessionEvent.SUSPENDED, SessionEvent.RECONNECTED]
    assert heard[-3:] == [SessionEvent.EXPIRED, SessionEvent.CONNECTED, SessionEvent.CLOSED]
    with pytest.raises(StoreClosed):
        await client.get("/a")


async def test_hosts_and_times_that_cannot_work_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match=r"session_timeout_s=4 is too short for tick_time_s=2: at"):
        connect("127.0.0.1:1", session_timeout_s=4.0)
    with pytest.raises(Exception, match="hosts are host:port"):
        connect("127.0.0.1:x")


# Watches.


async def some(changes: Changes, count: int) -> list[tuple[Change, str]]:
    """So many changes."""
    found = list[tuple[Change, str]]()
    async with asyncio.timeout(PATIENCE_S):
        async for change in changes:
            found.append((change.change, change.path))
            if len(found) == count:
                return found
    raise AssertionError(found)


async def test_changes_come_in_order_from_the_beginning_of_the_block(
    client: Client, open_client: OpenClient
) -> None:
    other = await open_client()
    await client.ensure("/a/before")
    async with client.watch("/a", recursive=True) as changes:
        await other.create("/a/b")
        await other.set("/a/b", b"1")
        await other.delete("/a/b")
        assert await some(changes, 3) == [
            (Change.CREATED, "/a/b"),
            (Change.MODIFIED, "/a/b"),
            (Change.DELETED, "/a/b"),
        ]
    async with client.watch("/a") as changes:
        await other.create("/a/c")
        await other.create("/a/c/deep")
        await other.set("/a", b"1")
        assert await some(changes, 2) == [
            (Change.CHILDREN_CHANGED, "/a"),
            (Change.MODIFIED, "/a"),
        ]


@pytest.mark.parametrize("way", ["outage", "expiry"])
async def test_no_change_is_lost_over_a_reconnect_or_an_expiry(
    open_client: OpenClient, client: Client, proxy: Proxy, zookeeper: SharedEnsemble, way: str
) -> None:
    watcher = await open_client(proxy.address)
    for name in ("kept", "gone", "changed", "again"):
        await client.ensure(f"/a/{name}")
    async with watcher.watch("/a", recursive=True) as changes:
        proxy.way = Way.REFUSED
        session_id = watcher.session_id
        proxy.cut()
        await eventually(lambda: watcher.state is not SessionState.CONNECTED)
        if way == "expiry":
            await expire(watcher, zookeeper)
        await client.delete("/a/gone")
        await client.set("/a/changed", b"1")
        await client.set("/a/changed", b"2")
        await client.delete("/a/again")
        await client.ensure("/a/again")
        await client.ensure("/a/new/below")
        proxy.way = Way.OPEN
        found = await some(changes, 6)
        assert sorted(found, key=lambda one: (one[1], one[0].value)) == [
            (Change.CREATED, "/a/again"),
            (Change.DELETED, "/a/again"),
            (Change.MODIFIED, "/a/changed"),
            (Change.DELETED, "/a/gone"),
            (Change.CREATED, "/a/new"),
            (Change.CREATED, "/a/new/below"),
        ]
        # And on the new connection as before.
        await client.delete("/a/kept")
        assert await some(changes, 1) == [(Change.DELETED, "/a/kept")]
    assert (watcher.session_id == session_id) is (way == "outage")


async def test_a_watch_that_nobody_reads_is_dropped_at_the_server(
    open_client: OpenClient, proxy: Proxy
) -> None:
    client = await open_client(proxy.address)
    async with client.watch("/a") as first:
        async with client.watch("/a"):
            await client.ensure("/a")
            assert await some(first, 1) == [(Change.CREATED, "/a")]
        # Another one still reads it.
        await client.sync()
        assert REMOVE_WATCHES not in proxy.opcodes
    await eventually(lambda: REMOVE_WATCHES in proxy.opcodes)
    async with client.watch("/a") as again:
        await client.set("/a", b"1")
        assert await some(again, 1) == [(Change.MODIFIED, "/a")]


async def test_the_newest_state_comes_however_fast_it_changes(
    client: Client, open_client: OpenClient
) -> None:
    other = await open_client()
    async with (
        asyncio.timeout(PATIENCE_S),
        DataWatch(client, "/a") as states,
        ChildrenWatch(client, "/a") as children,
    ):
        assert await anext(states) is None
        assert await anext(children) == []
        await other.create("/a", b"0")
        for number in range(1, 50):
            await other.set("/a", b"%d" % number)
        async for node in states:
            if node is not None and node.data == b"49":
                break
        await other.create("/a/b")
        assert await anext(children) == ["b"]


async def test_a_closed_client_ends_those_who_wait_for_news(
    client: Client, tasks: TaskScope
) -> None:
    async def wait() -> None:
        async with client.watch("/a") as changes:
            async for _ in changes:
                pass

    waiting = tasks.start(wait(), "wait", is_joined=True)
    await client.sync()
    await client.close()
    with pytest.raises(StoreClosed):
        await waiting


async def test_a_copy_of_a_tree_follows_it_over_an_expiry(
    client: Client, open_client: OpenClient, zookeeper: SharedEnsemble
) -> None:
    other = await open_client()
    await other.create("/a/b", b"1", make_parents=True)
    async with TreeCache(client, "/a") as cache:
        assert cache.children("/a") == ["b"]
        await expire(client, zookeeper)
        await other.create("/a/b/c", b"2")
        await other.set("/a/b", b"3")
        await other.create("/a/d")
        await other.delete("/a/d")

        def is_same() -> bool:
            node, deep = cache.get("/a/b"), cache.get("/a/b/c")
            if node is None or node.data != b"3" or deep is None:
                return False
            return sorted(cache.nodes) == ["/a", "/a/b", "/a/b/c"]

        await eventually(is_same)


async def test_refused_credentials_end_the_client_with_their_error(
    zookeeper: SharedEnsemble,
) -> None:
    with pytest.raises(AuthFailed):
        async with connect(zookeeper.connect_string, sasl="nobody:x", tick_time_s=0.5):
            raise AssertionError("it was let in")
