"""Requests and replies that get lost on the way to a real server: each is done exactly once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from broker_ctl.errors import (
    Ambiguous,
    BadVersion,
    MultiFailed,
    NodeExists,
    SessionExpired,
    StoreError,
)
from broker_ctl.store.interface import (
    ANY_VERSION,
    Check,
    Create,
    CreateMode,
    Delete,
    Notification,
    Operation,
    SessionEvent,
    SetData,
    Stat,
    Versioned,
)
from broker_ctl.store.zookeeper.store import ZooKeeperStore
from tests.support.time.waiting import eventually
from tests.support.zookeeper.ensemble import SharedEnsemble
from tests.support.zookeeper.proxy import Loss, Proxy, Way
from tests.support.zookeeper.session_faults import expire_session

CREATE, DELETE, EXISTS, GET, SET, CHILDREN, SYNC, MULTI = 15, 2, 3, 4, 5, 8, 9, 14
MULTI_READ, ADD_WATCH, SET_WATCHES, CLOSE = 22, 106, 105, -11

BOTH = pytest.mark.parametrize("loss", [Loss.REQUEST, Loss.REPLY], ids=lambda loss: loss.name)


@pytest.fixture(autouse=True)
async def what_was_to_be_lost_was_lost(proxy: Proxy) -> AsyncIterator[None]:
    yield
    assert proxy.lost >= 1


@BOTH
async def test_a_created_node_is_the_one_that_was_made(
    store: ZooKeeperStore,
    proxy: Proxy,
    observer: ZooKeeperStore,
    loss: Loss,
) -> None:
    proxy.lose(loss, CREATE)
    created = await store.create("/a", b"1")
    assert created == await observer.get("/a")
    assert proxy.opcodes.count(CREATE) == (1 if loss is Loss.REQUEST else 0)
    with pytest.raises(NodeExists):
        await store.create("/a", b"1")


@BOTH
async def test_an_ephemeral_is_ours_exactly_once(
    store: ZooKeeperStore,
    proxy: Proxy,
    observer: ZooKeeperStore,
    loss: Loss,
) -> None:
    before = store.last_zxid
    proxy.lose(loss, CREATE)
    created = await store.create("/e", b"1", CreateMode.EPHEMERAL)
    assert created == await observer.get("/e")
    assert created.stat.ephemeral_owner == store.session_id
    assert created.stat.czxid > before
    assert await store.ephemerals("/") == ["/e"]


@BOTH
async def test_a_lost_create_of_a_node_of_another_session_fails_with_node_exists(
    store: ZooKeeperStore,
    proxy: Proxy,
    observer: ZooKeeperStore,
    loss: Loss,
) -> None:
    theirs = await observer.create("/e", b"1", CreateMode.EPHEMERAL)
    proxy.lose(loss, CREATE)
    with pytest.raises(NodeExists):
        await store.create("/e", b"1", CreateMode.EPHEMERAL)
    assert await observer.get("/e") == theirs


async def test_the_lost_reply_of_a_sequential_create_is_ambiguous_and_not_sent_again(
    store: ZooKeeperStore,
    proxy: Proxy,
    observer: ZooKeeperStore,
) -> None:
    await observer.create("/q")
    await store.sync("/")
    proxy.lose(Loss.REPLY, CREATE)
    with pytest.raises(Ambiguous) as lost:
        await store.create("/q/n-", b"1", CreateMode.SEQUENTIAL)
    assert lost.value.session_id == store.session_id
    assert lost.value.zxid_before > 0
    # Once, not twice: it was not sent again blindly.
    assert await observer.children("/q") == ["n-0000000000"]


@BOTH
async def test_a_compare_and_set_counts_once(
    store: ZooKeeperStore,
    proxy: Proxy,
    observer: ZooKeeperStore,
    loss: Loss,
) -> None:
    await store.create("/a", b"0")
    proxy.lose(loss, SET)
    stat = await store.set("/a", b"1", 0)
    assert stat == await observer.exists("/a")
    assert stat.version == 1
    with pytest.raises(BadVersion):
        await store.set("/a", b"1", 0)


@BOTH
async def test_a_compare_and_set_on_an_old_version_fails(
    store: ZooKeeperStore,
    proxy: Proxy,
    observer: ZooKeeperStore,
    loss: Loss,
) -> None:
    await store.create("/a", b"0")
    # It has the same data as the write: equal bytes do not make it ours.
    theirs = await observer.set("/a", b"1", 0)
    assert await store.exists("/a") == theirs
    proxy.lose(loss, SET)
    with pytest.raises(BadVersion):
        await store.set("/a", b"1", 0)
    assert await observer.exists("/a") == theirs


@BOTH
async def test_an_unconditional_set_counts_once(
    store: ZooKeeperStore,
    proxy: Proxy,
    observer: ZooKeeperStore,
    loss: Loss,
) -> None:
    await store.create("/a", b"0")
    proxy.lose(loss, SET)
    stat = await store.set("/a", b"1", ANY_VERSION)
    assert stat == await observer.exists("/a")
    assert stat.version == 1


@BOTH
@pytest.mark.parametrize("version", [0, ANY_VERSION])
async def test_a_deleted_node_is_gone(
    store: ZooKeeperStore,
    proxy: Proxy,
    observer: ZooKeeperStore,
    loss: Loss,
    version: int,
) -> None:
    await store.create("/a", b"0")
    proxy.lose(loss, DELETE)
    await store.delete("/a", version)
    assert await observer.exists("/a") is None
    assert proxy.opcodes.count(DELETE) == (1 if loss is Loss.REQUEST else 0)


@BOTH
async def test_a_delete_of_another_version_fails(
    store: ZooKeeperStore,
    proxy: Proxy,
    observer: ZooKeeperStore,
    loss: Loss,
) -> None:
    await store.create("/a", b"0")
    await store.set("/a", b"1")
    proxy.lose(loss, DELETE)
    with pytest.raises(BadVersion):
        await store.delete("/a", 0)
    assert await observer.exists("/a") is not None


@BOTH
async def test_a_transaction_is_done_once_and_answered_in_full(
    store: ZooKeeperStore,
    proxy: Proxy,
    observer: ZooKeeperStore,
    loss: Loss,
) -> None:
    for path in ("/fence", "/epoch", "/mark", "/old"):
        await store.create(path)
    proxy.lose(loss, MULTI)
    checked, epoch, mark, leader, deleted = await store.multi(
        [
            Check("/fence", 0),
            SetData("/epoch", b"me", 0),
            SetData("/mark", b"me", ANY_VERSION),
            Create("/leader", b"me", CreateMode.EPHEMERAL),
            Delete("/old", 0),
        ],
    )
    assert (checked, deleted) == (None, None)
    assert isinstance(epoch, Stat)
    assert isinstance(mark, Stat)
    assert isinstance(leader, Versioned)
    assert epoch == await observer.exists("/epoch")
    assert mark == await observer.exists("/mark")
    assert leader == await observer.get("/leader")
    assert (epoch.version, mark.version) == (1, 1)
    assert epoch.mzxid == mark.mzxid == leader.stat.czxid
    assert await observer.exists("/old") is None
    assert proxy.opcodes.count(MULTI) == (1 if loss is Loss.REQUEST else 0)


@BOTH
async def test_a_transaction_that_fails_names_its_culprit(
    store: ZooKeeperStore,
    proxy: Proxy,
    observer: ZooKeeperStore,
    loss: Loss,
) -> None:
    await store.create("/epoch")
    proxy.lose(loss, MULTI)
    with pytest.raises(MultiFailed) as failure:
        await store.multi([Create("/a"), SetData("/epoch", b"", 7), Create("/b")])
    assert failure.value.index == 1
    assert isinstance(failure.value.cause, BadVersion)
    assert await observer.children("/") == ["epoch"]


@BOTH
async def test_a_transaction_of_a_check_and_a_delete_is_done_once(
    store: ZooKeeperStore,
    proxy: Proxy,
    observer: ZooKeeperStore,
    loss: Loss,
) -> None:
    await store.create("/fence")
    await store.create("/old")
    proxy.lose(loss, MULTI)
    assert await store.multi([Check("/fence", 0), Delete("/old", 0)]) == (None, None)
    assert await observer.children("/") == ["fence"]


async def test_an_applied_transaction_that_was_written_over_is_not_answered_with_their_version(
    store: ZooKeeperStore,
    proxy: Proxy,
    observer: ZooKeeperStore,
) -> None:
    await store.create("/policies", b"0")
    proxy.way = Way.REFUSED  # after the cut, until the other has written
    proxy.lose(Loss.REPLY, MULTI)
    leader = Create("/leader", b"me", CreateMode.EPHEMERAL)
    operations: list[Operation] = [SetData("/policies", b"1", 0), leader]
    async with asyncio.TaskGroup() as tasks:
        multi = tasks.create_task(failure_of(store.multi(operations)), name="multi")
        await eventually(lambda: proxy.lost)
        await observer.set("/policies", b"2", 1)
        proxy.way = Way.OPEN
    assert isinstance(multi.result(), Ambiguous)
    assert sorted(await observer.children("/")) == ["leader", "policies"]


async def failure_of(work: Awaitable[object]) -> StoreError | None:
    try:
        await work
    except StoreError as error:
        return error
    return None


@BOTH
async def test_a_watch_stands_after_its_request_was_lost(
    store: ZooKeeperStore,
    proxy: Proxy,
    observer: ZooKeeperStore,
    loss: Loss,
) -> None:
    heard: list[Notification] = []
    proxy.lose(loss, ADD_WATCH)
    await store.watch("/w", heard.append)
    await observer.create("/w")
    await eventually(lambda: heard)
    await observer.create("/w/x")
    await store.sync("/")
    assert [event.path for event in heard] == ["/w", "/w/x"]


@BOTH
@pytest.mark.parametrize("opcode", [GET, EXISTS, CHILDREN, SYNC, MULTI_READ])
async def test_reads_are_asked_again(
    store: ZooKeeperStore,
    proxy: Proxy,
    loss: Loss,
    opcode: int,
) -> None:
    created = await store.create("/a", b"1")
    reads: dict[int, Callable[[], Awaitable[object]]] = {
        GET: lambda: store.get("/a"),
        EXISTS: lambda: store.exists("/a"),
        CHILDREN: lambda: store.children("/"),
        SYNC: lambda: store.sync("/"),
        MULTI_READ: lambda: store.get_many(["/a", "/b"]),
    }
    answers = {
        GET: created,
        EXISTS: created.stat,
        CHILDREN: ["a"],
        SYNC: None,
        MULTI_READ: [created, None],
    }
    proxy.lose(loss, opcode)
    session_id = store.session_id
    assert await reads[opcode]() == answers[opcode]
    assert store.session_id == session_id


@BOTH
async def test_a_close_that_was_lost_still_closes(
    store: ZooKeeperStore,
    proxy: Proxy,
    observer: ZooKeeperStore,
    loss: Loss,
) -> None:
    await store.create("/e", b"", CreateMode.EPHEMERAL)
    proxy.lose(loss, CLOSE)
    heard: list[SessionEvent] = []
    store.listen(heard.append)
    await store.close()
    assert heard[-1] is SessionEvent.CLOSED
    assert set(heard) <= {SessionEvent.SUSPENDED, SessionEvent.CLOSED}
    await observer.sync("/")
    # A close that the server never saw leaves the session to expire.
    assert (await observer.exists("/e") is None) == (loss is Loss.REPLY)


async def test_a_lost_write_is_resolved_although_the_sync_is_lost_too(
    store: ZooKeeperStore,
    proxy: Proxy,
    observer: ZooKeeperStore,
) -> None:
    await store.create("/a", b"0")
    proxy.lose(Loss.REQUEST, SET)
    async with asyncio.TaskGroup() as tasks:
        setting = tasks.create_task(store.set("/a", b"1", 0), name="set")
        await eventually(lambda: proxy.lost, poll_s=0)
        proxy.lose(Loss.REPLY, SYNC)  # the question is lost as well
    assert setting.result() == await observer.exists("/a")
    assert setting.result().version == 1
    assert proxy.lost == 2


@pytest.mark.parametrize("opcode", [CREATE, SET], ids=["create", "set"])
async def test_what_was_not_done_in_its_session_is_not_done_in_the_next(
    store: ZooKeeperStore,
    proxy: Proxy,
    zookeeper: SharedEnsemble,
    observer: ZooKeeperStore,
    opcode: int,
) -> None:
    await store.create("/p", b"0")
    session_id = store.session_id

    async def write() -> None:
        if opcode == CREATE:
            await store.create("/e", b"1", CreateMode.EPHEMERAL)
        else:
            await store.set("/p", b"1", 0)

    proxy.way = Way.REFUSED
    proxy.lose(Loss.REQUEST, opcode)
    async with asyncio.TaskGroup() as tasks:
        lost = tasks.create_task(failure_of(write()), name="write")
        await eventually(lambda: proxy.lost)
        await expire_session(zookeeper.connect_string, session_id, store.saved_session.password)
        proxy.way = Way.OPEN
    assert isinstance(lost.result(), SessionExpired)
    node = await store.get("/p")
    assert node is not None
    assert (node.data, node.stat.version) == (b"0", 0)
    assert await observer.children("/") == ["p"]
    assert store.session_id not in {0, session_id}
