"""Locks: a right stands as long as its very node does, whatever news comes when."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from broker_ctl.coordination.locks import Lock, LockBusy, Locks
from broker_ctl.core.machines.lock import Claim, LockEvent, LockState
from broker_ctl.core.machines.session import SessionAction
from broker_ctl.errors import (
    Ambiguous,
    BadVersion,
    BundleBusy,
    MultiFailed,
    NodeExists,
    OperationTimeout,
    SessionExpired,
)
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store.interface import (
    Change,
    Check,
    Create,
    CreateMode,
    Delete,
    Notification,
    Result,
    Versioned,
)
from tests.support.clusters.sessions import Party, lagging, parties
from tests.support.time.waiting import eventually

ROOT = "/namespace"
PATH = "/namespace/t/ns/0x00000000_0xffffffff"


def broker_of(node: Versioned) -> str | None:
    return node.data.decode()


def state(lock: Lock) -> LockState:
    """Read at each call: the type checker would take it for constant."""
    return lock.state


class Holder:
    """A party with locks, and the losses that they reported."""

    def __init__(self, party: Party) -> None:
        self.party = party
        self.store = party.store
        self.lost: list[Lock] = []
        self.verified_s: list[float] = []
        self.locks = Locks(
            party.store,
            ROOT,
            broker_id=party.broker_id,
            broker_of=broker_of,
            rng=random.Random(0),
            on_verified=self.verified_s.append,
        )
        party.watcher.listen(self.locks.on_session_action)

    async def acquire(self, path: str = PATH, *guards: Check) -> Lock:
        data = self.party.broker_id.encode()
        return await self.locks.acquire(path, data, self.lost.append, guards)

    async def node(self, path: str = PATH) -> Versioned:
        node = await self.store.get(path)
        assert node is not None
        return node

    async def stands(self, path: str = PATH) -> bool:
        return await self.store.exists(path) is not None


@asynccontextmanager
async def holders(
    count: int = 1,
    operation_timeout_s: float = 30.0,
    ensemble: MemoryEnsemble | None = None,
) -> AsyncIterator[list[Holder]]:
    async with parties(count, operation_timeout_s=operation_timeout_s, ensemble=ensemble) as built:
        started = [Holder(party) for party in built]
        for holder in started:
            await holder.locks.start()
        yield started
        for holder in started:
            await holder.locks.close()


@in_virtual_time
async def test_a_lock_is_an_ephemeral_node_and_its_token_the_czxid() -> None:
    async with holders() as (one,):
        lock = await one.acquire()
        node = await one.node()
        assert node.stat.ephemeral_owner == one.store.session_id
        assert lock.token == node.stat.czxid
        assert state(lock) is LockState.HELD


@in_virtual_time
async def test_the_next_owner_has_a_higher_token() -> None:
    async with holders(2) as (one, two):
        first = await one.acquire()
        await one.locks.release(first)
        assert first.state is LockState.RELEASED
        assert (await two.acquire()).token > first.token


@in_virtual_time
async def test_a_second_acquirer_is_refused_with_the_node_of_the_first() -> None:
    async with holders(2) as (one, two):
        await one.acquire()
        with pytest.raises(LockBusy) as met:
            await two.acquire()
        assert met.value.claim is Claim.OTHERS
        assert met.value.node.data == b"b0:8080"


@in_virtual_time
async def test_of_many_acquirers_at_once_one_gets_the_lock() -> None:
    async with holders(5) as all_:
        async with asyncio.TaskGroup() as group:
            tries = [
                group.create_task(outcome(holder), name=f"try {number}")
                for number, holder in enumerate(all_)
            ]
        got = [task.result() for task in tries]
        assert sum(isinstance(one, Lock) for one in got) == 1
        assert sum(isinstance(one, LockBusy) for one in got) == 4


async def outcome(holder: Holder) -> object:
    try:
        return await holder.acquire()
    except LockBusy as busy:
        return busy


@in_virtual_time
async def test_a_persistent_node_is_nobodys_to_take() -> None:
    async with holders() as (one,):
        await one.store.create(PATH, b"b0:8080", make_parents=True)
        with pytest.raises(LockBusy) as met:
            await one.acquire()
        assert met.value.claim is Claim.NOT_EPHEMERAL


@in_virtual_time
async def test_a_node_that_a_lost_call_left_is_replaced_under_a_new_token() -> None:
    async with holders() as (one,):
        left = await one.store.create(PATH, b"whatever", CreateMode.EPHEMERAL, make_parents=True)
        lock = await one.acquire()
        assert lock.token > left.stat.czxid
        assert (await one.node()).data == b"b0:8080"
        await asyncio.sleep(1.0)
        # The late news of the node that was replaced says nothing of the new one.
        assert state(lock) is LockState.HELD
        assert one.lost == []


@in_virtual_time
async def test_a_create_whose_answer_never_came_is_found_again() -> None:
    async with holders(operation_timeout_s=3.0) as (one,):
        await one.store.create(ROOT, make_parents=True)
        task = asyncio.get_running_loop().create_task(one.acquire("/namespace/x"), name="acquire")
        await eventually(lambda: one.party.ensemble.tree.find("/namespace/x"), poll_s=0.0001)
        # Executed; the answer is cut off, and the node cannot be read before the deadline.
        one.store.disconnect()
        await asyncio.sleep(4.0)
        one.store.reconnect()
        lock = await task
        assert lock.token == (await one.node("/namespace/x")).stat.czxid
        assert one.lost == []


@in_virtual_time
async def test_an_acquisition_of_a_session_that_ended_creates_no_node_in_the_next() -> None:
    async with holders() as (one,):
        one.store.disconnect()
        acquiring = asyncio.get_running_loop().create_task(one.acquire(), name="acquire")
        await asyncio.sleep(12.0)
        one.store.reconnect()
        with pytest.raises(SessionExpired):
            await acquiring
        await one.party.watcher.wait_authority()
        assert not await one.stands()


@in_virtual_time
async def test_a_guard_that_fails_leaves_nothing_behind() -> None:
    async with holders() as (one,):
        await one.store.create("/guard")
        await one.store.set("/guard", b"")
        with pytest.raises(MultiFailed) as met:
            await one.acquire(PATH, Check("/guard", 1), Check("/guard", 0))
        assert met.value.index == 1
        assert isinstance(met.value.cause, BadVersion)
        assert not await one.stands()


# An earlier session.


@in_virtual_time
async def test_an_earlier_session_of_this_broker_is_known_and_its_end_can_be_waited_for() -> None:
    async with holders(2) as (one, two):
        await two.store.create(PATH, b"b0:8080", CreateMode.EPHEMERAL, make_parents=True)
        with pytest.raises(LockBusy) as met:
            await one.acquire()
        assert met.value.claim is Claim.MY_EARLIER_SESSION
        loop = asyncio.get_running_loop()
        loop.call_later(3.0, two.party.expire)
        began_s = loop.time()
        assert await one.locks.wait_deleted(met.value.node, 10.0)
        assert loop.time() - began_s == pytest.approx(3.0, abs=0.05)
        assert (await one.acquire()).token > met.value.node.stat.czxid


@in_virtual_time
async def test_a_node_that_outlives_the_limit_is_not_waited_for_any_longer() -> None:
    async with holders(2) as (one, two):
        lock = await two.acquire()
        node = await one.node()
        assert not await one.locks.wait_deleted(node, 2.0)
        await two.locks.release(lock)
        assert one.locks._waiting == {}


@in_virtual_time
async def test_a_cut_over_the_limit_says_nothing_of_the_node() -> None:
    async with holders(2) as (one, two):
        lock, loop = await two.acquire(), asyncio.get_running_loop()
        node = await one.node()
        loop.call_later(1.0, one.store.disconnect)
        loop.call_later(4.0, one.store.reconnect)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(one.locks.wait_deleted(node, 2.0), name="wait")
            await asyncio.sleep(1.5)
            await two.locks.release(lock)
        assert waiting.result()


@in_virtual_time
async def test_a_server_that_lags_says_nothing_of_the_node() -> None:
    async with holders(2, ensemble=lagging(60.0)) as (one, two):
        lock = await two.acquire()
        await one.store.sync(PATH)
        node = await one.node()
        await two.locks.release(lock)
        assert (await one.node()).stat.czxid == node.stat.czxid
        # Before the next heartbeat, whose answer would bring the server up to date.
        assert await one.locks.wait_deleted(node, 0.1)


@in_virtual_time
async def test_new_leaders_of_the_servers_prolong_the_wait_three_times() -> None:
    # Each gives every session a full timeout again.
    async with holders(2) as (one, two):
        await two.acquire()
        node, ensemble, loop = await one.node(), one.party.ensemble, asyncio.get_running_loop()
        began_s = loop.time()
        for number in range(1, 6):
            loop.call_later(1.5 * number, ensemble.change_leader, 0.1)
        assert not await one.locks.wait_deleted(node, 2.0)
        # It is looked at every quarter of a second.
        assert loop.time() - began_s == pytest.approx(3 * 1.5 + 2.0, abs=0.5)


@in_virtual_time
async def test_two_may_wait_for_the_same_node() -> None:
    async with holders(2) as (one, two):
        lock = await two.acquire()
        node = await one.node()
        async with asyncio.TaskGroup() as group:
            short = group.create_task(one.locks.wait_deleted(node, 1.0), name="short")
            long = group.create_task(one.locks.wait_deleted(node, 10.0), name="long")
            await asyncio.sleep(2.1)
            await two.locks.release(lock)
            released_s = asyncio.get_running_loop().time()
        assert (short.result(), long.result()) == (False, True)
        assert asyncio.get_running_loop().time() - released_s < 0.02


# Doubt.


@in_virtual_time
async def test_after_a_reconnect_a_lock_is_verified_and_held() -> None:
    async with holders() as (one,):
        lock = await one.acquire()
        one.store.disconnect()
        assert state(lock) is LockState.SUSPECT
        one.store.reconnect()
        await eventually(lambda: state(lock) is LockState.HELD)
        assert one.lost == []


@in_virtual_time
async def test_a_lock_whose_node_was_deleted_during_an_outage_is_lost_after_it() -> None:
    async with holders(2) as (one, two):
        lock = await one.acquire()
        kept = await one.acquire("/namespace/t/ns/0x0")
        one.store.disconnect()
        await two.store.delete(PATH)
        one.store.reconnect()
        await eventually(lambda: one.lost == [lock])
        assert state(lock) is LockState.LOST
        await eventually(lambda: state(kept) is LockState.HELD)
        assert one.locks.lost == {LockEvent.GONE: 1}
        assert len(one.verified_s) == 1
        assert 0 < one.verified_s[0] < 1


@in_virtual_time
async def test_a_holder_whose_node_another_client_deleted_is_notified_once() -> None:
    async with holders(2) as (one, two):
        lock = await one.acquire()
        await two.store.delete(PATH)
        await two.acquire()
        await eventually(lambda: one.lost == [lock])
        one.party.blink()
        await asyncio.sleep(2.0)
        assert one.lost == [lock]
        assert one.locks.lost == {LockEvent.OTHER: 1}


@in_virtual_time
async def test_a_late_notification_of_an_earlier_node_does_not_touch_the_new_lock() -> None:
    async with holders() as (one,):
        first = await one.acquire()
        await one.locks.release(first)
        second = await one.acquire()
        one.locks._on_notification(Notification(Change.DELETED, PATH, first.token))
        assert state(second) is LockState.VERIFYING
        await eventually(lambda: state(second) is LockState.HELD)
        assert one.lost == []


@in_virtual_time
async def test_another_node_of_the_same_session_does_not_keep_a_lock() -> None:
    """Two nodes of one session at one path differ only in the czxid."""
    async with holders(2) as (one, two):
        lock = await one.acquire()
        async with asyncio.TaskGroup() as group:
            # Nothing is read between the two: a later read finds a node of this session.
            group.create_task(two.store.delete(PATH), name="delete")
            group.create_task(created_again(one), name="create again")
        assert not lock.is_held_by(await one.node())
        await eventually(lambda: state(lock) is LockState.LOST)
        assert one.lost == [lock]
        await one.locks.release(lock)
        assert await one.stands()


@in_virtual_time
async def test_a_release_spares_a_later_node_of_the_same_session() -> None:
    async with holders() as (one,):
        lock = await one.acquire()
        again = Create(PATH, b"b0:8080", CreateMode.EPHEMERAL)
        async with asyncio.TaskGroup() as group:
            group.create_task(one.store.multi([Delete(PATH), again]), name="replace")
            group.create_task(one.locks.release(lock), name="release")
        assert await one.stands()
        assert lock.has_ended


async def created_again(holder: Holder) -> None:
    data = holder.party.broker_id.encode()
    while True:
        try:
            await holder.store.create(PATH, data, CreateMode.EPHEMERAL)
        except NodeExists:
            continue
        return


@in_virtual_time
async def test_the_end_of_a_session_ends_every_lock_without_a_notification_of_each() -> None:
    async with holders() as (one,):
        lock = await one.acquire()
        one.party.expire()
        await eventually(lambda: one.party.watcher.epoch == 2)
        assert state(lock) is LockState.LOST
        assert one.lost == []
        assert one.locks.lost == {LockEvent.SESSION_ENDED: 1}


@in_virtual_time
async def test_a_node_of_a_session_that_has_ended_is_not_adopted() -> None:
    async with holders() as (one,):
        node = await one.store.create("/mine", mode=CreateMode.EPHEMERAL)
        one.party.expire()
        await eventually(lambda: one.party.watcher.epoch == 2)
        with pytest.raises(SessionExpired):
            one.locks.adopt("/mine", node, one.lost.append)


@in_virtual_time
async def test_a_verification_that_fails_is_repeated_until_the_store_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with holders(2) as (one, two):
        lock = await one.acquire()
        failures = iter([OperationTimeout("slow"), OperationTimeout("still slow")])

        async def slow_at_first(_path: str) -> None:
            for failure in failures:
                raise failure

        monkeypatch.setattr(one.store, "sync", slow_at_first)
        await two.store.delete(PATH)
        await eventually(lambda: one.lost == [lock], deadline_s=2.0)


@in_virtual_time
async def test_an_answer_older_than_the_doubt_does_not_settle_it() -> None:
    async with holders(2) as (one, two):
        lock = await one.acquire()
        assert one.locks._stop_watching is not None
        one.locks._stop_watching()
        one.locks._stop_watching = None
        await two.store.delete(PATH)
        one.locks._on_notification(Notification(Change.DELETED, PATH, 1))
        # A read that was answered before the node was deleted is heard of only now.
        one.locks._feed(LockEvent.MINE, lock)
        assert state(lock) is LockState.HELD
        await eventually(lambda: one.lost == [lock])


@in_virtual_time
async def test_hundreds_of_rights_are_verified_in_batches() -> None:
    async with holders() as (one,):
        held = [await one.acquire(f"/namespace/t/ns/{number}") for number in range(300)]
        one.party.blink()
        await eventually(lambda: {state(lock) for lock in held} == {LockState.HELD})


@in_virtual_time
async def test_thousands_of_locks_in_doubt_one_by_one_are_a_few_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with holders(2) as (one, two):
        held = [await one.acquire(f"/namespace/t/ns/{number}") for number in range(300)]
        syncs = 0
        sync = one.store.sync

        async def counted(path: str) -> None:
            nonlocal syncs
            syncs += 1
            await sync(path)

        monkeypatch.setattr(one.store, "sync", counted)
        # As the end of a session does, with one notification for each node.
        await two.store.multi([Delete(lock.path, 0) for lock in held])
        await eventually(lambda: one.lost == held)
        assert syncs < 10


# Release.


@in_virtual_time
async def test_a_release_that_a_guard_refuses_keeps_the_lock() -> None:
    async with holders() as (one,):
        lock = await one.acquire()
        await one.store.create("/epoch")
        await one.store.set("/epoch", b"")
        with pytest.raises(MultiFailed):
            await one.locks.release(lock, [Check("/epoch", 0)])
        await eventually(lambda: state(lock) is LockState.HELD)
        assert await one.stands()
        await one.locks.release(lock, [Check("/epoch", 1)])
        assert not await one.stands()


@in_virtual_time
async def test_a_refused_release_finds_out_that_the_node_was_taken_away_meanwhile() -> None:
    async with holders(2) as (one, two):
        lock = await one.acquire()
        one.locks.begin_release(lock)
        await two.store.delete(PATH)
        await asyncio.sleep(1.0)
        assert one.lost == []
        one.locks.cancel_release(lock)
        await eventually(lambda: one.lost == [lock])


@in_virtual_time
async def test_a_release_deletes_only_the_node_of_its_lock() -> None:
    async with holders(2) as (one, two):
        lock = await one.acquire()
        # Replaced behind the back of the holder, by one with the same version.
        assert one.locks._stop_watching is not None
        one.locks._stop_watching()
        one.locks._stop_watching = None
        await two.store.multi([Delete(PATH), Create(PATH, b"b1:8080", CreateMode.EPHEMERAL)])
        await one.locks.release(lock)
        assert state(lock) is LockState.RELEASED
        assert (await one.node()).data == b"b1:8080"


@in_virtual_time
async def test_a_node_whose_data_another_client_changed_can_be_released() -> None:
    async with holders(2) as (one, two):
        lock = await one.acquire()
        await two.store.set(PATH, b"b0:8080")
        await one.locks.release(lock)
        assert not await one.stands()


@in_virtual_time
async def test_a_node_that_is_changed_between_read_and_delete_can_be_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with holders(2) as (one, two):
        lock = await one.acquire()
        get, changes = one.store.get, iter(["once"])

        async def then_changed(path: str) -> Versioned | None:
            node = await get(path)
            for _ in changes:
                await two.store.set(path, b"b0:8080")
            return node

        monkeypatch.setattr(one.store, "get", then_changed)
        await one.locks.release(lock)
        assert not await one.stands()


@in_virtual_time
async def test_a_lost_lock_has_nothing_left_to_release() -> None:
    async with holders(2) as (one, two):
        lock = await one.acquire()
        await two.store.delete(PATH)
        await eventually(lambda: lock.has_ended)
        await two.acquire()
        await one.locks.release(lock)
        assert (await one.node()).data == b"b1:8080"


@in_virtual_time
async def test_a_release_whose_outcome_is_unknown_counts_as_given_up() -> None:
    async with holders(operation_timeout_s=2.0) as (one,):
        lock = await one.acquire()
        one.store.disconnect()
        with pytest.raises(Exception, match="deadline"):
            await one.locks.release(lock)
        assert state(lock) is LockState.RELEASED
        assert one.locks._held == {}


@in_virtual_time
async def test_notifications_in_any_order_never_break_a_lock() -> None:
    async with holders() as (one,):
        rng = random.Random(1)
        actions = [
            SessionAction.CONNECTION_LOST,
            SessionAction.VERIFY,
            SessionAction.FENCE,
            SessionAction.RECONNECTED,
        ]
        for _ in range(30):
            lock = await one.acquire()
            for _ in range(20):
                if rng.random() < 0.5:
                    one.locks.on_session_action(rng.choice(actions))
                else:
                    one.locks._on_notification(Notification(Change.DELETED, PATH, 1))
                if rng.random() < 0.2:
                    await asyncio.sleep(rng.uniform(0, 0.01))
            await one.locks.release(lock)
        assert one.lost == []


@in_virtual_time
async def test_after_the_end_nothing_is_verified_any_more() -> None:
    async with holders() as (one,):
        await one.acquire()
        await one.locks.close()
        one.locks.on_session_action(SessionAction.VERIFY)
        one.locks.on_session_action(SessionAction.END)
        assert one.lost == []


@in_virtual_time
async def test_a_node_whose_creator_heard_no_answer_is_adopted_once_the_store_answers() -> None:
    async with holders(2, operation_timeout_s=0.5) as (one, two):
        held = await one.acquire()
        await two.acquire(f"{ROOT}/t/ns/0x00000000_0x10000000")
        left = f"{ROOT}/t/ns/0x10000000_0x20000000"
        await one.store.create(left, b"", mode=CreateMode.EPHEMERAL)
        one.party.store.disconnect()
        adopting = asyncio.get_running_loop().create_task(one.locks.adopt_unheld(), name="adopt")
        await asyncio.sleep(2.0)
        assert not adopting.done()
        one.party.store.reconnect()
        (lock,) = await adopting
        assert lock.path == left
        await one.locks.release(lock)
        assert not await one.stands(left)
        assert state(held) is LockState.HELD


@in_virtual_time
async def test_a_node_whose_create_was_on_its_way_over_an_earlier_connection_is_adopted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with holders() as (one,):
        await one.acquire()
        left, sync = f"{ROOT}/t/ns/0x10000000_0x20000000", one.store.sync

        async def arrive_then_sync(path: str) -> None:
            await one.store.create(left, b"", mode=CreateMode.EPHEMERAL)
            await sync(path)

        monkeypatch.setattr(one.store, "sync", arrive_then_sync)
        (lock,) = await one.locks.adopt_unheld()
        assert lock.path == left


@in_virtual_time
async def test_the_judge_of_an_acquisition_is_called_before_each_attempt() -> None:
    async with parties() as (party,):
        holder = Holder(party)
        asked: list[int] = []

        async def judge() -> None:
            asked.append(len(asked))
            if len(asked) > 1:
                raise BundleBusy("it", "another")

        # Its parent is missing, so there is a second attempt.
        with pytest.raises(BundleBusy):
            await holder.locks.acquire(PATH, b"", holder.lost.append, (), judge)
        assert len(asked) == 2
        assert not await holder.stands()


@in_virtual_time
async def test_the_node_of_another_path_is_not_adopted() -> None:
    async with holders() as (one,):
        node = await one.store.create("/other", mode=CreateMode.EPHEMERAL)
        for found in (node, node.stat, None):
            with pytest.raises(Ambiguous, match="/mine"):
                one.locks.adopt("/mine", found, one.lost.append)


@in_virtual_time
async def test_an_answer_about_another_node_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with holders(2) as (one, two):
        await two.acquire()
        node = await one.store.create("/other", mode=CreateMode.EPHEMERAL)

        async def answer(_: object) -> tuple[Result, ...]:
            monkeypatch.undo()
            return (node,)

        monkeypatch.setattr(one.store, "multi", answer)
        with pytest.raises(LockBusy):
            await one.acquire()
