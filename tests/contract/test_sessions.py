import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import pytest

from broker_ctl.errors import NodeExists, StoreClosed
from broker_ctl.store.interface import CreateMode, MetadataStore, SessionEvent
from tests.contract.backends import Heard
from tests.support.time.waiting import eventually

Expire = Callable[[MetadataStore], Awaitable[None]]
Cut = Callable[[MetadataStore], None]


class OpenStore(Protocol):
    def __call__(
        self,
        session_timeout_s: float = 10.0,
        operation_timeout_s: float = 10.0,
    ) -> Awaitable[MetadataStore]: ...


async def wait_for(heard: Heard, *events: SessionEvent) -> None:
    """Wait until exactly these events have arrived."""
    await eventually(lambda: heard.events == list(events), what=f"{events}, not {heard.events}")


async def test_each_store_has_a_session_of_its_own(
    store: MetadataStore,
    other: MetadataStore,
) -> None:
    assert store.session_id
    assert other.session_id
    assert store.session_id != other.session_id
    assert store.session_timeout_s == 10.0
    assert store.name == "metadata-store"


async def test_ephemeral_nodes_vanish_when_their_store_closes(
    store: MetadataStore,
    other: MetadataStore,
) -> None:
    await store.create("/e", b"", CreateMode.EPHEMERAL)
    await store.create("/p")
    await store.close()
    await other.sync("/")
    assert await other.exists("/e") is None
    assert await other.exists("/p") is not None


async def test_a_session_left_behind_keeps_its_nodes_until_it_expires(
    open_store: OpenStore,
    other: MetadataStore,
) -> None:
    store = await open_store(session_timeout_s=4.0)
    assert store.session_timeout_s == 4.0
    await store.create("/e", b"", CreateMode.EPHEMERAL)
    await store.close(end_session=False)
    await other.sync("/")
    assert await other.exists("/e") is not None

    async def is_gone() -> bool:
        return await other.exists("/e") is None

    await eventually(is_gone)


async def test_a_closed_store_does_nothing_more(store: MetadataStore) -> None:
    heard = Heard()
    store.listen(heard.events.append)
    await store.close()
    await store.close()
    assert heard.events == [SessionEvent.CLOSED]
    with pytest.raises(StoreClosed):
        await store.get("/")
    with pytest.raises(StoreClosed):
        await store.create("/a")
    with pytest.raises(StoreClosed):
        await store.wait_connected()


async def test_an_operation_that_waits_for_a_connection_fails_at_the_close(
    store: MetadataStore,
    cut: Cut,
) -> None:
    cut(store)
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(caught(store.get("/")), name="read")
        await asyncio.sleep(0)
        await store.close()
    # It may have been answered before the close; it may not stay without an answer.
    assert reading.result() in {None, StoreClosed}


async def caught(work: Awaitable[object]) -> type[BaseException] | None:
    try:
        await work
    except StoreClosed as error:
        return type(error)
    return None


async def test_a_cut_suspends_and_the_same_session_returns(
    store: MetadataStore,
    cut: Cut,
) -> None:
    heard = Heard()
    store.listen(heard.events.append)
    session_id = store.session_id
    await store.create("/e", b"", CreateMode.EPHEMERAL)
    cut(store)
    assert await store.exists("/e") is not None
    assert store.session_id == session_id
    assert heard.events == [SessionEvent.SUSPENDED, SessionEvent.RECONNECTED]


async def test_an_expiry_takes_the_nodes_and_brings_a_new_session(
    store: MetadataStore,
    other: MetadataStore,
    expire: Expire,
) -> None:
    heard = Heard()
    ids: list[int] = []
    store.listen(heard.events.append)
    store.listen(lambda _: ids.append(store.session_id))
    old = store.session_id
    await store.create("/e", b"", CreateMode.EPHEMERAL)
    await expire(store)
    await eventually(lambda: SessionEvent.CONNECTED in heard.events)
    await store.wait_connected()
    assert heard.events[-2:] == [SessionEvent.EXPIRED, SessionEvent.CONNECTED]
    # It may return to the old session while the expiry is on its way, never after it.
    assert set(heard.events[:-2]) <= {SessionEvent.SUSPENDED, SessionEvent.RECONNECTED}
    assert heard.events[0] is SessionEvent.SUSPENDED
    assert ids[-2:] == [0, store.session_id]
    assert store.session_id not in {0, old}
    await other.sync("/")
    assert await other.exists("/e") is None
    assert await store.ephemerals("/") == []
    created = await store.create("/e", b"", CreateMode.EPHEMERAL)
    assert created.stat.ephemeral_owner == store.session_id


async def test_a_removed_listener_is_not_notified(store: MetadataStore, cut: Cut) -> None:
    heard, left = Heard(), Heard()
    stop = store.listen(left.events.append)
    store.listen(heard.events.append)
    stop()
    cut(store)
    await wait_for(heard, SessionEvent.SUSPENDED, SessionEvent.RECONNECTED)
    assert left.events == []


async def test_an_operation_during_a_disconnect_is_answered_after_the_reconnect(
    store: MetadataStore,
    cut: Cut,
) -> None:
    cut(store)
    created = await store.create("/a", b"1", CreateMode.EPHEMERAL)
    assert await store.get("/a") == created
    assert created.stat.ephemeral_owner == store.session_id


async def test_writes_cut_on_their_way_are_done_exactly_once(
    store: MetadataStore,
    other: MetadataStore,
    cut: Cut,
) -> None:
    await store.create("/n")
    rounds = 20
    for version in range(rounds):
        async with asyncio.TaskGroup() as tasks:
            write = tasks.create_task(store.set("/n", str(version).encode(), version), name="set")
            for _ in range(version % 5):
                await asyncio.sleep(0)
            cut(store)
        assert write.result().version == version + 1
    await other.sync("/")
    node = await other.get("/n")
    assert node is not None
    assert (node.data, node.stat.version) == (str(rounds - 1).encode(), rounds)


async def test_ephemerals_cut_on_their_way_are_ours_exactly_once(
    store: MetadataStore,
    cut: Cut,
) -> None:
    paths = [f"/e{number}" for number in range(10)]
    for number, path in enumerate(paths):
        async with asyncio.TaskGroup() as tasks:
            work = store.create(path, path.encode(), CreateMode.EPHEMERAL)
            creation = tasks.create_task(work, name="create")
            for _ in range(number % 5):
                await asyncio.sleep(0)
            cut(store)
        assert creation.result().stat.ephemeral_owner == store.session_id
        with pytest.raises(NodeExists):
            await store.create(path)
    assert await store.ephemerals("/") == paths


async def test_replies_come_in_the_order_of_the_requests(store: MetadataStore) -> None:
    await store.create("/a")
    seen: list[tuple[str, int]] = []

    async def write(number: int) -> None:
        stat = await store.set("/a", str(number).encode())
        seen.append(("set", stat.version))

    async def read() -> None:
        stat = await store.exists("/a")
        assert stat is not None
        seen.append(("read", stat.version))

    async with asyncio.TaskGroup() as tasks:
        for number in range(100):
            tasks.create_task(write(number), name="write")
            tasks.create_task(read(), name="read")
    assert seen == [
        entry for version in range(1, 101) for entry in (("set", version), ("read", version))
    ]


async def test_no_older_state_is_seen_after_a_cut(
    store: MetadataStore,
    other: MetadataStore,
    cut: Cut,
) -> None:
    await other.create("/a")
    version, zxid = 0, 0
    for number in range(20):
        await other.set("/a", b"")
        if number % 4 == 0:
            cut(store)
        stat = await store.exists("/a")
        assert stat is not None
        assert stat.version >= version
        assert store.last_zxid >= max(zxid, stat.mzxid)
        version, zxid = stat.version, store.last_zxid
    await store.sync("/a")
    stat = await store.exists("/a")
    assert stat is not None
    assert stat.version == 20


async def test_a_cancelled_request_leaves_the_others_alone(store: MetadataStore) -> None:
    await store.create("/a", b"1")
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(store.get("/a"), name="first")
        second = tasks.create_task(store.get("/a"), name="second")
        await asyncio.sleep(0)
        first.cancel()
    assert second.result() == await store.get("/a")
