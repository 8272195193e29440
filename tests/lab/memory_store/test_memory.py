"""What the contract suite cannot steer on a real server: cuts at a chosen step, the reaper."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable

import pytest

from broker_ctl.errors import (
    Ambiguous,
    BadVersion,
    ConnectionLoss,
    NodeExists,
    OperationTimeout,
    SessionExpired,
    StoreClosed,
    StoreError,
)
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.store.interface import Create, CreateMode, SessionEvent, SetData
from tests.support.time.waiting import eventually


class Valve:
    """A network that lets everything through, or a given number of messages and no more."""

    def __init__(self) -> None:
        self._left = -1
        self._changed = asyncio.Condition()

    async def pass_one(self) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._left != 0)
            self._left -= 1

    async def let_through(self, count: int) -> None:
        async with self._changed:
            self._left = count
            self._changed.notify_all()

    @property
    def is_shut(self) -> bool:
        return self._left == 0

    async def open(self) -> None:
        await self.let_through(-1)


class Rig:
    """A store whose network has a valve, and another one that never has trouble."""

    def __init__(self) -> None:
        self.ensemble = MemoryEnsemble()
        self.valve = Valve()
        self.store = MemoryStore(
            self.ensemble,
            session_timeout_s=0.1,
            transit=self.valve.pass_one,
        )
        self.other = MemoryStore(self.ensemble)
        self.events: list[SessionEvent] = []
        self.store.listen(self.events.append)

    async def wait_for(self, event: SessionEvent) -> None:
        await eventually(lambda: event in self.events, what=f"{event} in {self.events}")

    async def stop_after(self, count: int, work: Awaitable[object]) -> "asyncio.Task[object]":
        """Start ``work`` and wait until ``count`` messages got through; the next one is held."""
        await self.valve.let_through(count)
        task = asyncio.get_running_loop().create_task(outcome(work), name="held")
        if count:
            await eventually(lambda: self.valve.is_shut)
        else:
            await asyncio.sleep(0)
        return task

    async def cut(self) -> None:
        """Lose what is under way, and connect again over a network that works."""
        self.store.disconnect()
        await self.valve.open()
        self.store.reconnect()

    async def lose_session(self) -> None:
        """Lose what is under way, and the session with it."""
        self.store.disconnect()
        await eventually(lambda: self.store.session_id not in self.ensemble.session_ids)
        await self.valve.open()
        self.store.reconnect()


async def outcome(work: Awaitable[object]) -> object:
    """The answer, or the error."""
    try:
        return await work
    except StoreError as error:
        return error


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    for store in (rig.store, rig.other):
        await store.start()
        await store.wait_connected()
    rig.events.clear()
    yield rig
    await rig.valve.open()
    await rig.store.close()
    await rig.other.close()


async def test_a_write_cut_before_it_was_executed_is_sent_again(rig: Rig) -> None:
    creation = await rig.stop_after(0, rig.store.create("/a", b"1"))
    assert await rig.other.exists("/a") is None
    await rig.cut()
    assert await creation == await rig.other.get("/a")
    assert rig.events == [SessionEvent.SUSPENDED, SessionEvent.RECONNECTED]


async def test_a_write_whose_reply_was_cut_is_not_done_twice(rig: Rig) -> None:
    await rig.other.create("/a")
    await rig.store.sync("/")
    change = await rig.stop_after(1, rig.store.set("/a", b"1"))
    assert await rig.other.exists("/a") is not None
    await rig.cut()
    stat = await rig.other.exists("/a")
    assert await change == stat
    assert stat is not None
    assert stat.version == 1


async def test_a_lost_write_that_another_one_has_overwritten_is_ambiguous(rig: Rig) -> None:
    await rig.other.create("/a")
    await rig.store.sync("/")
    session_id, zxid = rig.store.session_id, rig.store.last_zxid
    change = await rig.stop_after(
        1,
        rig.store.multi([Create("/b"), SetData("/a", b"1")]),
    )
    await rig.other.set("/a", b"2")
    await rig.cut()
    error = await change
    assert isinstance(error, Ambiguous)
    assert error.session_id == session_id
    assert error.zxid_before == zxid > 0


@pytest.mark.parametrize("messages", [0, 1], ids=["request", "reply"])
async def test_a_lost_create_of_a_sequential_node_is_ambiguous_and_not_repeated(
    rig: Rig, messages: int
) -> None:
    create = rig.store.create("/n-", b"1", CreateMode.SEQUENTIAL)
    creation = await rig.stop_after(messages, create)
    await rig.cut()
    assert isinstance(await creation, Ambiguous)
    assert len(await rig.other.children("/")) == messages


async def test_a_lost_create_returns_the_equal_node_that_another_store_created_meanwhile(
    rig: Rig,
) -> None:
    creation = await rig.stop_after(0, rig.store.create("/parent"))
    made = await rig.other.create("/parent")
    await rig.cut()
    assert await creation == made


async def test_a_lost_create_of_an_ephemeral_fails_where_another_store_created_it_meanwhile(
    rig: Rig,
) -> None:
    creation = await rig.stop_after(0, rig.store.create("/e", b"1", CreateMode.EPHEMERAL))
    await rig.other.create("/e", b"1", CreateMode.EPHEMERAL)
    await rig.cut()
    assert isinstance(await creation, NodeExists)


async def test_a_refusal_whose_reply_was_cut_is_asked_for_again(rig: Rig) -> None:
    await rig.other.create("/a")
    await rig.store.sync("/")
    change = await rig.stop_after(1, rig.store.set("/a", b"1", 1))
    await rig.other.set("/a", b"2")
    await rig.cut()
    stat = await rig.other.exists("/a")
    assert await change == stat


async def test_a_read_whose_reply_was_cut_shows_the_state_after_the_cut(rig: Rig) -> None:
    await rig.other.create("/a", b"1")
    reading = await rig.stop_after(1, rig.store.get("/a"))
    await rig.other.set("/a", b"2")
    await rig.cut()
    assert await reading == await rig.other.get("/a")


@pytest.mark.parametrize("is_sent", [False, True], ids=["not sent", "sent"])
async def test_operations_that_wait_for_a_connection_keep_their_order(
    rig: Rig, is_sent: bool
) -> None:
    if is_sent:
        await rig.valve.let_through(0)
    else:
        rig.store.disconnect()
    async with asyncio.TaskGroup() as tasks:
        creation = tasks.create_task(rig.store.create("/a"), name="create")
        change = tasks.create_task(rig.store.set("/a", b"1", 0), name="set")
        reading = tasks.create_task(rig.store.get("/a"), name="get")
        await asyncio.sleep(0)
        await rig.cut()
    assert creation.result().stat.version == 0
    assert change.result().version == 1
    node = reading.result()
    assert node is not None
    assert node.stat.version == 1


async def test_an_event_does_not_overtake_the_reply_of_an_earlier_read(rig: Rig) -> None:
    heard: list[object] = []
    await rig.store.watch("/a", heard.append)
    reading = await rig.stop_after(1, rig.store.exists("/a"))
    await rig.other.create("/a")
    assert heard == []
    await rig.valve.let_through(1)
    assert await reading is None
    assert heard == []
    await rig.valve.open()
    await eventually(lambda: heard)


@pytest.fixture
async def impatient(rig: Rig) -> AsyncIterator[MemoryStore]:
    """A store that waits for no answer longer than a moment, over the network with the valve."""
    store = MemoryStore(rig.ensemble, operation_timeout_s=0.1, transit=rig.valve.pass_one)
    await store.start()
    await store.wait_connected()
    yield store
    await rig.valve.open()
    await store.close()


async def test_an_operation_that_was_never_sent_ends_as_connection_loss(
    rig: Rig,
    impatient: MemoryStore,
) -> None:
    impatient.disconnect()
    assert isinstance(await outcome(impatient.get("/")), ConnectionLoss)
    assert isinstance(await outcome(impatient.create("/a")), ConnectionLoss)
    assert len(impatient._session.line._waiting) == 0
    impatient.reconnect()
    await impatient.sync("/")
    assert await rig.other.exists("/a") is None


async def test_an_operation_without_an_answer_ends_at_its_deadline(
    rig: Rig,
    impatient: MemoryStore,
) -> None:
    await rig.valve.let_through(0)
    assert isinstance(await outcome(impatient.get("/")), OperationTimeout)
    assert isinstance(await outcome(impatient.create("/a", make_parents=True)), Ambiguous)
    # Nobody waits for it any more, but it is on its way and will arrive.
    await rig.valve.open()
    await impatient.sync("/")
    assert await rig.other.exists("/a") is not None


async def test_a_session_expires_its_timeout_after_the_cut_and_not_before(rig: Rig) -> None:
    loop = asyncio.get_running_loop()
    old = rig.store.session_id
    await rig.store.create("/e", b"", CreateMode.EPHEMERAL)
    gone_s: list[float] = []
    await rig.other.watch("/e", lambda _: gone_s.append(loop.time()))
    cut_s = loop.time()
    rig.store.disconnect()
    await eventually(lambda: gone_s)
    assert gone_s[0] - cut_s >= rig.store.session_timeout_s
    assert rig.events == [SessionEvent.SUSPENDED]
    rig.store.reconnect()
    await rig.wait_for(SessionEvent.CONNECTED)
    assert rig.events == [SessionEvent.SUSPENDED, SessionEvent.EXPIRED, SessionEvent.CONNECTED]
    assert rig.store.session_id != old


async def test_a_session_that_returns_in_time_lives_on(rig: Rig) -> None:
    loop = asyncio.get_running_loop()
    await rig.store.create("/e", b"", CreateMode.EPHEMERAL)
    await rig.cut()
    await rig.store.wait_connected()
    end_s = loop.time() + 2 * rig.store.session_timeout_s
    await eventually(lambda: loop.time() > end_s)
    assert rig.events == [SessionEvent.SUSPENDED, SessionEvent.RECONNECTED]
    assert await rig.store.ephemerals("/") == ["/e"]


async def test_writes_that_were_not_sent_die_with_the_session_and_reads_do_not(rig: Rig) -> None:
    rig.store.disconnect()
    async with asyncio.TaskGroup() as tasks:
        change = tasks.create_task(outcome(rig.store.create("/a")), name="create")
        reading = tasks.create_task(outcome(rig.store.exists("/a")), name="exists")
        await asyncio.sleep(0)
        await rig.lose_session()
    assert isinstance(change.result(), SessionExpired)
    assert reading.result() is None
    assert await rig.other.exists("/a") is None


@pytest.mark.parametrize("messages", [0, 1], ids=["not executed", "executed"])
async def test_an_ephemeral_is_never_made_for_the_next_session(rig: Rig, messages: int) -> None:
    creation = await rig.stop_after(messages, rig.store.create("/e", b"", CreateMode.EPHEMERAL))
    await rig.lose_session()
    assert isinstance(await creation, SessionExpired)
    await rig.store.sync("/")
    assert await rig.store.exists("/e") is None


@pytest.mark.parametrize("messages", [0, 1], ids=["not executed", "executed"])
async def test_a_persistent_write_is_found_out_in_the_next_session(
    rig: Rig,
    messages: int,
) -> None:
    await rig.other.create("/a")
    await rig.store.sync("/")
    change = await rig.stop_after(messages, rig.store.set("/a", b"1", 0))
    await rig.lose_session()
    stat = await rig.other.exists("/a")
    assert stat is not None
    assert stat.version == messages
    if messages:
        assert await change == stat
    else:
        # It was asked for in the name of a session that is gone.
        assert isinstance(await change, SessionExpired)


async def test_a_write_to_a_node_that_was_never_seen_cannot_be_found_out(rig: Rig) -> None:
    await rig.other.create("/a")
    change = await rig.stop_after(0, rig.store.set("/a", b"1"))
    await rig.cut()
    assert isinstance(await change, Ambiguous)


async def test_a_connection_that_takes_the_session_over_ends_the_other(rig: Rig) -> None:
    heir = MemoryStore(rig.ensemble, resumed=rig.store.saved_session)
    events: list[SessionEvent] = []
    heir.listen(events.append)
    await rig.store.create("/e", b"", CreateMode.EPHEMERAL)
    await rig.store.close(end_session=False)
    await heir.start()
    await heir.wait_connected()
    assert events == [SessionEvent.RECONNECTED]
    assert await heir.ephemerals("/") == ["/e"]
    await heir.close()
    assert await rig.other.exists("/e") is None


async def test_operations_that_wait_fail_at_the_close(rig: Rig) -> None:
    rig.store.disconnect()
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(outcome(rig.store.get("/")), name="get")
        waiting = tasks.create_task(outcome(rig.store.wait_connected()), name="wait")
        await asyncio.sleep(0)
        await rig.store.close()
    assert isinstance(reading.result(), StoreClosed)
    assert isinstance(waiting.result(), StoreClosed)
    assert rig.events == [SessionEvent.SUSPENDED, SessionEvent.CLOSED]


async def test_session_ids_use_all_64_bits(rig: Rig) -> None:
    stores = [MemoryStore(rig.ensemble) for _ in range(3)]
    for store in stores:
        await store.start()
        await store.wait_connected()
    assert min(store.session_id for store in stores) < -(1 << 32)
    assert max(store.session_id for store in stores) > 1 << 32
    for store in stores:
        await store.create(f"/{store.session_id}", b"", CreateMode.EPHEMERAL)
        await store.close()
    assert await rig.other.children("/") == []


async def test_the_reaper_takes_containers_that_emptied(rig: Rig) -> None:
    await rig.other.create("/used/x", make_parents=True)
    await rig.other.create("/full/x", make_parents=True)
    await rig.other.create("/fresh", b"", CreateMode.CONTAINER)
    await rig.other.create("/plain")
    await rig.other.create("/plain/x")
    for path in ("/used/x", "/plain/x"):
        await rig.other.delete(path)
    rig.ensemble.reap()
    assert await rig.other.children("/") == ["fresh", "full", "plain"]


async def test_the_reaper_deletes_nodes_whose_time_to_live_is_over(rig: Rig) -> None:
    await rig.other.create("/short", b"", CreateMode.TTL, ttl_ms=1)
    await rig.other.create("/long", b"", CreateMode.TTL, ttl_ms=60_000)
    await rig.other.create("/parent", b"", CreateMode.TTL, ttl_ms=1)
    await rig.other.create("/parent/x")

    async def is_reaped() -> bool:
        rig.ensemble.reap()
        return await rig.other.exists("/short") is None

    await eventually(is_reaped)
    assert await rig.other.children("/") == ["long", "parent"]


async def test_a_container_that_was_created_again_as_a_plain_node_is_not_reaped(rig: Rig) -> None:
    await rig.other.create("/a/x", make_parents=True)
    await rig.other.delete("/a/x")
    await rig.other.delete("/a")
    await rig.other.create("/a")
    await rig.other.create("/a/x")
    await rig.other.delete("/a/x")
    rig.ensemble.reap()
    assert await rig.other.exists("/a") is not None


class Counters:
    """Stores that count up one node, each over a network with random delays and cuts."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self.ensemble = MemoryEnsemble()
        self.stores = [MemoryStore(self.ensemble, transit=self._transit) for _ in range(3)]
        self.acknowledged: list[int] = []

    async def _transit(self) -> None:
        for _ in range(self._rng.randrange(4)):
            await asyncio.sleep(0)

    async def count(self, store: MemoryStore) -> None:
        for number in range(20):
            node = await store.get("/n")
            assert node is not None
            try:
                # Signed: a store recognises its own write after a lost reply.
                signed = f"{self.stores.index(store)} {number}".encode()
                stat = await store.set("/n", signed, node.stat.version)
            except (BadVersion, Ambiguous):
                # Another store wrote meanwhile: a write of this one before that is not counted.
                continue
            assert stat.version == node.stat.version + 1
            self.acknowledged.append(stat.version)

    async def trouble(self) -> None:
        while True:
            for _ in range(self._rng.randrange(40)):
                await asyncio.sleep(0)
            store = self._rng.choice(self.stores)
            store.disconnect()
            store.reconnect()
            await asyncio.sleep(0)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            trouble = tasks.create_task(self.trouble(), name="trouble")
            async with asyncio.TaskGroup() as counters:
                for store in self.stores:
                    counters.create_task(self.count(store), name="count")
            trouble.cancel()


@pytest.mark.parametrize("seed", range(20))
async def test_no_acknowledged_increment_is_lost_or_done_twice(seed: int) -> None:
    counters = Counters(seed)
    for store in counters.stores:
        await store.start()
    await counters.stores[0].create("/n")
    await counters.run()
    acknowledged = counters.acknowledged
    assert len(acknowledged) == len(set(acknowledged)) > 10
    stat = await counters.stores[0].exists("/n")
    assert stat is not None
    assert stat.version >= max(acknowledged)
    for store in counters.stores:
        await store.close()
    assert counters.ensemble.session_ids == frozenset()
