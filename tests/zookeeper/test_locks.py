"""Locks, semaphores and elections on real servers, with what can go wrong while they are held."""

import asyncio

import pytest

from broker_ctl.errors import AuthorityLost, StoreClosed
from broker_ctl.tasks import TaskScope, run_all
from broker_ctl.zookeeper import (
    Client,
    CreateMode,
    Election,
    Held,
    Lock,
    ReadWriteLock,
    ReentrantLock,
    Semaphore,
    SessionState,
)
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble
from tests.support.zookeeper.proxy import Loss, Proxy, Way
from tests.support.zookeeper.session_faults import expire_session, password_of
from tests.zookeeper.conftest import OpenClient

PATH = "/locks/one"
# ZooKeeper's numbers of requests.
CREATE_2 = 15
DELETE = 2


async def expire(client: Client, zookeeper: SharedEnsemble) -> None:
    """End the session of a client, as its expiry would."""
    session_id = client.session_id
    await expire_session(zookeeper.connect_string, session_id, password_of(session_id))


async def standing(client: Client, count: int) -> None:
    """Return once so many stand in line."""

    async def are_there() -> bool:
        return len(await client.children(PATH)) == count

    await eventually(are_there)


async def test_holders_follow_each_other_in_order_with_growing_tokens(
    tasks: TaskScope,
    open_client: OpenClient,
) -> None:
    first, second = await open_client(), await open_client()
    held = await Lock(first, PATH).acquire()
    waiting = [tasks.start(Lock(second, PATH, "b").acquire(), "another", is_joined=True)]
    await standing(first, 2)
    waiting.append(tasks.start(Lock(first, PATH, "c").acquire(), "another", is_joined=True))
    await standing(first, 3)
    assert await Lock(first, PATH).contenders() == ["", "b", "c"]
    tokens = [held.token]
    for one in waiting:
        assert not one.done()
        await held.release()
        held = await one
        held.check()
        tokens.append(held.token)
    await held.release()
    assert tokens == sorted(set(tokens))
    assert await first.children(PATH) == []


async def test_two_tasks_of_one_client_exclude_each_other_by_one_object(client: Client) -> None:
    lock, inside, tokens = Lock(client, PATH), 0, set[int]()

    async def enter() -> None:
        nonlocal inside
        async with lock as held:
            inside += 1
            assert inside == 1
            await asyncio.sleep(0)
            inside -= 1
            tokens.add(held.token)

    await run_all((f"enter {number}", enter()) for number in range(20))
    assert len(tokens) == 20
    assert not len(client.holds)


async def test_who_gives_up_waiting_leaves_the_line(
    tasks: TaskScope, client: Client, open_client: OpenClient
) -> None:
    other = await open_client()
    async with Lock(client, PATH):
        with pytest.raises(TimeoutError, match=r"/locks/one was not had within 0\.1 s"):
            await Lock(other, PATH).acquire(0.1)
        waiting = tasks.start(Lock(other, PATH).acquire(), "another", is_joined=True)
        await standing(client, 2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await standing(client, 1)


async def test_a_hold_ends_with_its_session_and_the_next_one_waits_in_line_again(
    tasks: TaskScope, client: Client, open_client: OpenClient, zookeeper: SharedEnsemble
) -> None:
    other = await open_client()
    held = await Lock(client, PATH).acquire()
    waiting = tasks.start(Lock(other, PATH).acquire(), "another", is_joined=True)
    await standing(client, 2)
    # Of the one who waits, too: it stands in line again in its next session.
    await expire(other, zookeeper)
    await standing(client, 2)
    await expire(client, zookeeper)
    async with asyncio.timeout(PATIENCE_S):
        await held.lost.wait()
        later = await waiting
    with pytest.raises(AuthorityLost, match="not held any more: the lease of the session is over"):
        held.check()
    assert held.valid_until == 0
    assert later.token > held.token
    later.check()


async def test_work_ends_when_what_it_needs_is_lost(
    tasks: TaskScope, client: Client, zookeeper: SharedEnsemble
) -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with Lock(client, PATH) as held:
        running = tasks.start(held.run(work()), "another", is_joined=True)
        await asyncio.sleep(0)
        await expire(client, zookeeper)
        with pytest.raises(AuthorityLost, match="was lost"):
            await running
        assert ended.is_set()
    async with Lock(client, PATH) as held:
        assert await held.run(asyncio.sleep(0, "done")) == "done"


async def test_a_node_that_an_operator_deletes_is_lost_at_once(
    tasks: TaskScope, client: Client, open_client: OpenClient
) -> None:
    other = await open_client()
    held = await Lock(client, PATH).acquire()
    waiting = tasks.start(Lock(other, PATH).acquire(), "another", is_joined=True)
    await standing(client, 2)
    await other.delete(held.path)
    async with asyncio.timeout(PATIENCE_S):
        await held.lost.wait()
        assert (await waiting).token > held.token


async def test_a_node_that_was_deleted_during_an_outage_is_lost_after_it(
    open_client: OpenClient, client: Client, proxy: Proxy
) -> None:
    holder = await open_client(proxy.address)
    held = await Lock(holder, PATH).acquire()
    proxy.way = Way.REFUSED
    proxy.cut()
    await eventually(lambda: holder.state is SessionState.SUSPENDED)
    await client.delete(held.path)
    proxy.way = Way.OPEN
    async with asyncio.timeout(PATIENCE_S):
        await held.lost.wait()


@pytest.mark.parametrize("opcode", [CREATE_2, DELETE])
@pytest.mark.parametrize("loss", [Loss.REQUEST, Loss.REPLY])
async def test_a_lost_reply_leaves_no_node_behind(
    open_client: OpenClient, client: Client, proxy: Proxy, loss: Loss, opcode: int
) -> None:
    holder = await open_client(proxy.address)
    await client.ensure(PATH)
    lock = Lock(holder, PATH)
    if opcode == CREATE_2:
        proxy.lose(loss, opcode)
    async with asyncio.timeout(PATIENCE_S):
        held = await lock.acquire()
        assert await client.children(PATH) == [held.path.rpartition("/")[2]]
        if opcode == DELETE:
            proxy.lose(loss, opcode)
        await held.release()
    assert await client.children(PATH) == []


async def test_a_lease_that_is_over_ends_a_hold_before_the_session(
    tasks: TaskScope, open_client: OpenClient, client: Client, proxy: Proxy
) -> None:
    holder = await open_client(proxy.address)
    held = await Lock(holder, PATH).acquire()
    waiting = tasks.start(Lock(client, PATH).acquire(), "another", is_joined=True)
    await standing(client, 2)
    proxy.way = Way.REFUSED
    proxy.cut()
    async with asyncio.timeout(PATIENCE_S):
        await held.lost.wait()
        # The servers keep the session for a moment longer: nobody else holds it yet.
        assert not waiting.done()
        later = await waiting
    assert later.token > held.token


async def test_a_task_takes_its_reentrant_lock_again_and_others_wait(
    tasks: TaskScope, client: Client
) -> None:
    lock, order = ReentrantLock(client, PATH), list[str]()

    async def other() -> None:
        async with lock:
            order.append("other")

    async with lock as outer:
        waiting = tasks.start(other(), "another", is_joined=True)
        await standing(client, 2)
        async with lock as inner:
            assert inner is outer
        outer.check()
        order.append("this")
    await waiting
    assert order == ["this", "other"]


async def test_readers_share_and_a_writer_waits_for_all_before_it(
    tasks: TaskScope, client: Client
) -> None:
    lock = ReadWriteLock(client, PATH)
    first, second = await lock.read.acquire(), await lock.read.acquire()
    writing = tasks.start(lock.write.acquire(), "another", is_joined=True)
    await standing(client, 3)
    # A reader that comes after a writer does not overtake it.
    reading = tasks.start(lock.read.acquire(), "another", is_joined=True)
    await standing(client, 4)
    await first.release()
    await second.release()
    written = await writing
    assert not reading.done()
    await written.release()
    await (await reading).release()


async def test_a_semaphore_has_so_many_holders_and_no_more(client: Client) -> None:
    semaphore, inside, most = Semaphore(client, PATH, 3), 0, 0

    async def enter() -> None:
        nonlocal inside, most
        async with semaphore:
            inside += 1
            most = max(most, inside)
            # Until the place is full: no time decides.
            for _ in range(50):
                await asyncio.sleep(0.001)
                if most == 3:
                    break
            inside -= 1

    await run_all((f"enter {number}", enter()) for number in range(12))
    assert most == 3
    with pytest.raises(ValueError, match="most=0: at least 1"):
        Semaphore(client, PATH, 0)


async def test_the_elected_lead_one_after_another_and_are_known(
    tasks: TaskScope, client: Client, open_client: OpenClient
) -> None:
    other, order = await open_client(), list[str]()

    async def lead(held: Held) -> None:
        held.check()
        order.append(str(await Election(client, PATH).leader()))

    first = await Election(client, PATH, "a").acquire()
    running = tasks.start(Election(other, PATH, "b").run(lead), "another", is_joined=True)
    await standing(client, 2)
    assert await Election(client, PATH).contenders() == ["a", "b"]
    assert order == []
    await first.release()
    await running
    assert order == ["b"]
    assert await Election(client, PATH).leader() is None


async def test_nodes_of_curator_and_kazoo_stand_in_the_same_line(
    tasks: TaskScope, client: Client
) -> None:
    await client.ensure(PATH)
    mode = CreateMode.EPHEMERAL_SEQUENTIAL
    kazoo = await client.create(f"{PATH}/0a1b__lock__", b"kazoo", mode)
    waiting = tasks.start(Lock(client, PATH, "ours").acquire(), "another", is_joined=True)
    await standing(client, 2)
    curator = await client.create(f"{PATH}/_c_9f-lock-", b"curator", mode)
    assert await Lock(client, PATH).contenders() == ["kazoo", "ours", "curator"]
    await client.delete(kazoo.path)
    await (await waiting).release()
    assert await client.children(PATH) == [curator.path.rpartition("/")[2]]


async def test_a_closed_client_refuses_and_ends_who_waits(
    tasks: TaskScope, open_client: OpenClient
) -> None:
    client, other = await open_client(), await open_client()
    await Lock(client, PATH).acquire()
    waiting = tasks.start(Lock(other, PATH).acquire(), "another", is_joined=True)
    await standing(client, 2)
    await other.close()
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(StoreClosed):
            await waiting
        with pytest.raises(StoreClosed):
            await Lock(other, PATH).acquire()
