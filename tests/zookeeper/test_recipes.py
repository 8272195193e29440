"""Queues, barriers, numbers, parties and shared sets on real servers."""

import asyncio

import pytest

from broker_ctl.errors import AuthorityLost
from broker_ctl.tasks import TaskScope, run_all
from broker_ctl.zookeeper import (
    Barrier,
    Client,
    Counter,
    DoubleBarrier,
    LockingQueue,
    Party,
    Queue,
    SetPartitioner,
)
from tests.support.time.waiting import PATIENCE_S, eventually
from tests.support.zookeeper.ensemble import SharedEnsemble
from tests.zookeeper.conftest import OpenClient
from tests.zookeeper.test_locks import expire

PATH = "/recipes/one"


async def test_items_come_by_priority_and_each_to_one_taker(
    client: Client, open_client: OpenClient
) -> None:
    other = await open_client()
    queue, same = Queue(client, PATH), Queue(other, PATH)
    for item, priority in ((b"late", 200), (b"first", 100), (b"second", 100), (b"urgent", 0)):
        await queue.put(item, priority)
    assert await same.size() == 4
    assert [await same.get() for _ in range(4)] == [b"urgent", b"first", b"second", b"late"]
    with pytest.raises(TimeoutError):
        await queue.get(0.05)
    with pytest.raises(ValueError, match="priority=1000"):
        await queue.put(b"", 1000)
    taken: list[bytes] = []

    async def take(one: Queue) -> None:
        for _ in range(10):
            taken.append(await one.get())  # noqa: PERF401  several tasks append

    async def put() -> None:
        for number in range(20):
            await queue.put(b"%d" % number)

    async with asyncio.timeout(PATIENCE_S):
        await run_all([("a", take(queue)), ("b", take(same)), ("put", put())])
    assert sorted(taken) == sorted(b"%d" % number for number in range(20))


async def test_an_item_is_held_until_it_is_done_or_its_holder_is_gone(
    client: Client, open_client: OpenClient, zookeeper: SharedEnsemble, tasks: TaskScope
) -> None:
    other = await open_client()
    queue, same = LockingQueue(client, PATH), LockingQueue(other, PATH)
    await queue.put(b"one")
    claim = await queue.get()
    assert claim.data == b"one"
    with pytest.raises(TimeoutError):
        await same.get(0.05)
    waiting = tasks.start(same.get(), "wait", is_joined=True)
    await expire(client, zookeeper)
    async with asyncio.timeout(PATIENCE_S):
        second = await waiting
    assert second.data == b"one"
    assert second.held.token > claim.held.token
    with pytest.raises(AuthorityLost):
        await claim.done()
    async with second:
        pass  # given back
    async with await same.get() as third:
        await third.done()
    assert await queue.size() == 0
    assert not len(other.holds)
    assert await client.children(f"{PATH}/taken") == []


async def test_who_is_cancelled_while_it_waits_for_an_item_keeps_none(
    client: Client, tasks: TaskScope
) -> None:
    queue = LockingQueue(client, PATH)
    waiting = tasks.start(queue.get(), "wait", is_joined=True)
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await queue.put(b"one")
    async with asyncio.timeout(PATIENCE_S):
        assert (await queue.get()).data == b"one"


async def test_who_waits_at_a_barrier_goes_on_when_it_is_lifted(
    client: Client, open_client: OpenClient, tasks: TaskScope
) -> None:
    other = await open_client()
    barrier = Barrier(client, PATH)
    await barrier.wait()
    await barrier.create()
    await barrier.create()
    with pytest.raises(TimeoutError):
        await Barrier(other, PATH).wait(0.05)
    waiting = tasks.start(Barrier(other, PATH).wait(), "wait", is_joined=True)
    await barrier.remove()
    await barrier.remove()
    async with asyncio.timeout(PATIENCE_S):
        await waiting


async def test_all_begin_together_and_end_together(open_client: OpenClient) -> None:
    clients = [await open_client() for _ in range(3)]
    entered, left = 0, 0

    async def work(one: Client) -> None:
        nonlocal entered, left
        barrier = DoubleBarrier(one, PATH, 3)
        await barrier.enter()
        entered += 1
        await eventually(lambda: entered == 3)
        left += 1
        await barrier.leave()
        assert left == 3

    async with asyncio.timeout(PATIENCE_S):
        await run_all((f"work {number}", work(one)) for number, one in enumerate(clients))
    with pytest.raises(TimeoutError):
        await DoubleBarrier(clients[0], PATH, 2).enter(0.05)
    await eventually(lambda: _is_empty(clients[0], PATH))


async def _is_empty(client: Client, path: str) -> bool:
    return not await client.children(path)


async def test_no_addition_is_lost(client: Client, open_client: OpenClient) -> None:
    other = await open_client()

    async def add(one: Client) -> None:
        for _ in range(20):
            await Counter(one, PATH).add()

    assert await Counter(client, PATH, start=5).value() == 5
    async with asyncio.timeout(PATIENCE_S):
        await run_all([("a", add(client)), ("b", add(other)), ("c", add(client))])
    await client.sync()
    assert await Counter(client, PATH).value() == 60
    assert await Counter(client, PATH).add(-70) == -10
    await client.set(PATH, b"many")
    with pytest.raises(ValueError, match="has b'many', which is no whole number"):
        await Counter(client, PATH).add()


async def test_a_member_is_there_in_each_of_its_sessions(
    client: Client, open_client: OpenClient, zookeeper: SharedEnsemble
) -> None:
    other = await open_client()
    async with Party(client, PATH, "a") as party:
        async with Party(other, PATH, "b"):
            assert sorted(await party.members()) == ["a", "b"]
        assert await party.members() == ["a"]
        # kazoo 241: what was set up again after a lost session hung.
        before = client.session_id
        await expire(client, zookeeper)
        await eventually(lambda: client.session_id not in {0, before})

        async def is_back() -> bool:
            node = await other.get(f"{PATH}/{party.name}")
            return node is not None and node.stat.ephemeral_owner == client.session_id

        await eventually(is_back)
    assert await party.members() == []


async def test_items_are_shared_and_no_two_members_hold_one(
    open_client: OpenClient, zookeeper: SharedEnsemble
) -> None:
    first, second = await open_client(), await open_client()
    items, given_up = [f"item-{number}" for number in range(5)], list[str]()

    async def released(item: str) -> None:
        # It is still held while its work is stopped.
        one.held[item].check()
        given_up.append(item)

    async with asyncio.timeout(PATIENCE_S), SetPartitioner(first, PATH, items, released) as one:
        await eventually(lambda: sorted(one.held) == items)
        tokens = {item: held.token for item, held in one.held.items()}
        async with SetPartitioner(second, PATH, items) as two:

            def is_shared() -> bool:
                return sorted([*one.held, *two.held]) == items and len(two.held) in {2, 3}

            await eventually(is_shared)
            assert sorted(given_up) == sorted(two.held)
            assert all(held.token > tokens[item] for item, held in two.held.items())
            # A member whose session has ended has its share again in the next.
            lost = tuple(two.held.values())
            await expire(second, zookeeper)
            await eventually(lambda: all(held.lost.is_set() for held in lost))
            await eventually(is_shared)
        await eventually(lambda: sorted(one.held) == items)
    assert await first.children(f"{PATH}/holders") == []
