"""Taking bundles: one gets it, under a ring that is the newest, and serves before it answers."""

import asyncio
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

import pytest

from broker_ctl.broker.namespaces.namespaces import RingSnapshot
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.machines.session import SessionState
from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.errors import (
    Ambiguous,
    AuthorityLost,
    BundleBusy,
    BundleGone,
    BundleMoving,
    BundleReclaimable,
    DataPlaneUnreachable,
    Draining,
    Fenced,
    NamespaceMissing,
)
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import Check, CreateMode, Operation, Result
from broker_ctl.store.records.ownership import NamespaceEphemeralData
from tests.support.clusters.brokers import GRACE_S, MemoryBroker, cluster, urls_of
from tests.support.time.waiting import eventually


async def outcome(broker: MemoryBroker, bundle: Bundle) -> object:
    try:
        return await broker.ownership.acquire(bundle)
    except BundleBusy as busy:
        return busy


@in_virtual_time
async def test_of_many_brokers_one_acquires_a_bundle_and_the_others_learn_its_owner() -> None:
    for seed in range(10):
        async with cluster(4, seed=seed) as built:
            async with asyncio.TaskGroup() as group:
                tries = [
                    group.create_task(outcome(broker, built.bundles[0]), name=broker.broker_id)
                    for broker in built.brokers
                ]
            got = [task.result() for task in tries]
            (winner,) = (one for one in built.brokers if one.owned())
            assert got[built.brokers.index(winner)] == winner.owned()[built.bundles[0]]
            busy = [one for one in got if isinstance(one, BundleBusy)]
            assert [one.owner for one in busy] == [winner.broker_id] * 3
            await built.settled()


@in_virtual_time
async def test_the_owner_node_names_the_broker_and_its_czxid_is_the_token() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        token = await broker.ownership.acquire(built.bundles[0])
        node = await broker.store.get(paths.ownership(built.bundles[0]))
        assert node is not None
        assert node.stat.czxid == token
        assert node.stat.ephemeral_owner == broker.store.session_id
        assert NamespaceEphemeralData.decode(node.path, node.data).urls == broker.urls
        assert await broker.loaded() == {built.bundles[0]: token}


@in_virtual_time
async def test_calls_for_one_bundle_join_and_what_is_owned_is_answered_at_once() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        async with asyncio.TaskGroup() as group:
            calls = [
                group.create_task(broker.ownership.acquire(built.bundles[0]), name=f"{number}")
                for number in range(5)
            ]
        (token,) = {call.result() for call in calls}
        passed = broker.steering.passed
        assert await broker.ownership.acquire(built.bundles[0]) == token
        assert broker.steering.passed == passed, "nothing was asked of anybody"


@in_virtual_time
async def test_a_guard_that_fences_one_acquisition_does_not_fail_another_without_it() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        await broker.store.create("/epoch")
        async with asyncio.TaskGroup() as group:
            stale = group.create_task(
                refused(broker, built.bundles[0], Check("/epoch", 7)), name="order"
            )
            lookup = group.create_task(broker.ownership.acquire(built.bundles[0]), name="lookup")
        assert stale.result() == "Fenced"
        assert lookup.result() == broker.owned()[built.bundles[0]]


class LosesOneAnswer:
    """Of the next transaction; before it is noticed another leader is elected."""

    def __init__(self, broker: MemoryBroker, *, is_executed: bool) -> None:
        self._store = broker.store
        self._multi = broker.store.multi
        self._is_executed = is_executed
        self._store.multi = self._lose  # type: ignore[method-assign]  # one lost answer

    async def _lose(self, operations: Sequence[Operation]) -> tuple[Result, ...]:
        self._store.multi = self._multi  # type: ignore[method-assign]  # as it was
        if self._is_executed:
            await self._multi(operations)
        await self._store.set("/epoch", b"")
        raise Ambiguous("no answer")


@pytest.mark.parametrize("is_executed", [True, False])
@in_virtual_time
async def test_a_node_whose_answer_was_lost_goes_where_the_next_attempt_is_refused(
    *, is_executed: bool
) -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        bundle = built.bundles[0]
        await one.store.create("/epoch")
        await two.ownership.acquire(built.bundles[1])
        LosesOneAnswer(one, is_executed=is_executed)
        assert await refused(one, bundle, Check("/epoch", 0)) == "Fenced"
        # Until it is known whose node stands there, nobody here makes another.
        with pytest.raises(BundleMoving):
            await one.ownership.acquire(bundle)
        await eventually(one.is_consistent)
        assert await two.ownership.acquire(bundle)
        await built.settled()


@in_virtual_time
async def test_a_bundle_that_never_was_owned_is_not_reacquired_when_the_session_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster(2) as built:
        broker, other = built.brokers
        await other.ownership.acquire(built.bundles[1])
        bundle, owned_bundles = built.bundles[0], broker.ownership._owned_bundles
        start = owned_bundles.start
        ended: list[asyncio.Task[None]] = []

        def start_as_the_session_ends(work: Coroutine[Any, Any, Any], name: str) -> Any:
            if name == f"look for the node of {bundle}":
                # Before the act takes its first step.
                end = asyncio.get_running_loop().create_task(owned_bundles.interrupt(), name="end")
                ended.append(end)
            return start(work, name)

        await broker.store.create("/epoch")
        LosesOneAnswer(broker, is_executed=True)
        monkeypatch.setattr(owned_bundles, "start", start_as_the_session_ends)
        assert await refused(broker, bundle, Check("/epoch", 0)) == "Fenced"
        (end,) = ended
        await end
        assert broker.ownership.owned() == {}
        broker.expire()
        await eventually(broker.is_consistent)


async def refused(broker: MemoryBroker, bundle: Bundle, guard: Check) -> str:
    try:
        await broker.ownership.acquire(bundle, [guard])
    except Fenced as error:
        return type(error).__name__
    return "acquired"


@in_virtual_time
async def test_a_stale_ring_never_takes_a_parent_again() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        parent = built.bundles[0]
        await one.ownership.acquire(parent)
        # The other one knows the ring from before the split, and hears of nothing since.
        await two.namespaces.ring(parent.namespace)
        for stop in two.namespaces.cache._stops:
            stop()
        two.namespaces.cache._stops = []
        left, right = await one.ownership.split(parent, "range_equally_divide")
        await one.ownership.unload(left)
        await one.ownership.unload(right)
        with pytest.raises(BundleGone):
            await two.ownership.acquire(parent)
        assert built.faults == []
        assert await two.ownership.acquire(left)


@in_virtual_time
async def test_a_range_that_is_not_in_the_ring_is_not_acquired() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        with pytest.raises(BundleGone):
            await broker.ownership.acquire(Bundle.parse("public/default/0x00000000_0x10000000"))
        with pytest.raises(NamespaceMissing):
            await broker.ownership.acquire(Bundle.parse("public/other/0x00000000_0xffffffff"))
        assert broker.ownership.owned() == {}


@in_virtual_time
async def test_a_bundle_that_one_data_plane_does_not_load_is_free_for_another_broker() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        one.steering.fail("load")
        with pytest.raises(DataPlaneUnreachable):
            await one.ownership.acquire(built.bundles[0])
        await built.settled()
        assert await two.ownership.acquire(built.bundles[0])


@in_virtual_time
async def test_a_load_whose_answer_is_lost_is_fenced_for_certain_before_the_node_goes() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        one.steering.fail("load", is_executed=True)
        one.steering.fail("fence", times=5)
        with pytest.raises(DataPlaneUnreachable):
            await one.ownership.acquire(built.bundles[0])
        await asyncio.sleep(1.0)
        # It may be serving: nobody else may, and it is not loaded again under the fence.
        assert await one.loaded() != {}
        with pytest.raises(BundleBusy):
            await two.ownership.acquire(built.bundles[0])
        with pytest.raises(BundleMoving):
            await one.ownership.acquire(built.bundles[0])
        await eventually(one.is_consistent)
        assert await one.loaded() == {}
        assert await two.ownership.acquire(built.bundles[0])
        await asyncio.sleep(1.0)
        assert built.verdict().double_served == 0


@in_virtual_time
async def test_a_bundle_whose_node_is_deleted_while_it_is_loaded_is_not_served() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        bundle = built.bundles[0]
        answer = broker.steering.hold("load")
        taking = asyncio.get_running_loop().create_task(
            broker.ownership.acquire(bundle), name="acquire"
        )
        await eventually(broker.loaded)
        built.ensemble.delete_as_admin(paths.ownership(bundle))
        await eventually(lambda: broker.ownership.owned()[bundle].lock is None)
        answer.set()
        with pytest.raises(BundleMoving, match="taken away"):
            await taking
        await built.settled()
        assert await broker.loaded() == {}


@in_virtual_time
async def test_a_bundle_whose_load_outlasts_the_lease_is_given_up() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        bundle = built.bundles[0]
        answer = broker.steering.hold("load")
        taking = asyncio.get_running_loop().create_task(
            broker.ownership.acquire(bundle), name="acquire"
        )
        await eventually(broker.loaded)
        broker.memory.disconnect()
        await eventually(lambda: broker.watcher.state is SessionState.LOST, deadline_s=30.0)
        answer.set()
        with pytest.raises(AuthorityLost):
            await taking
        broker.memory.reconnect()
        await built.settled()
        assert broker.owned() == {}
        assert await broker.loaded() == {}


@in_virtual_time
async def test_while_the_node_of_a_release_still_has_to_go_it_is_not_taken_again() -> None:
    async with cluster(operation_timeout_s=2.0) as built:
        (broker,) = built.brokers
        bundle = built.bundles[0]
        first = await broker.ownership.acquire(bundle)
        broker.memory.disconnect()
        with pytest.raises(Exception, match="deadline"):
            await broker.ownership.unload(bundle)
        assert len(broker.deletions) == 1
        with pytest.raises(BundleMoving, match="still to be deleted"):
            await broker.ownership.acquire(bundle)
        broker.memory.reconnect()
        await eventually(lambda: len(broker.deletions) == 0)
        assert await broker.ownership.acquire(bundle) > first
        await built.settled()


@in_virtual_time
async def test_the_deletion_of_a_node_of_an_earlier_run_is_waited_for() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        path = paths.ownership(built.bundles[0])
        data = NamespaceEphemeralData(one.urls).encode()
        await two.store.create(path, data, CreateMode.EPHEMERAL, make_parents=True)
        asyncio.get_running_loop().call_later(5.0, lambda: built.ensemble.delete_as_admin(path))
        began_s = one.clock.now_s()
        await one.ownership.acquire(built.bundles[0])
        assert one.clock.now_s() - began_s == pytest.approx(5.0, abs=0.3)


@in_virtual_time
async def test_a_node_of_an_earlier_session_that_outlives_the_wait_is_not_stolen() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        path = paths.ownership(built.bundles[0])
        data = NamespaceEphemeralData(one.urls).encode()
        await two.store.create(path, data, CreateMode.EPHEMERAL, make_parents=True)
        with pytest.raises(BundleMoving, match="earlier session"):
            await one.ownership.acquire(built.bundles[0])
        assert await two.store.get(path)


@in_virtual_time
async def test_a_node_that_nobody_can_read_or_that_is_there_for_ever_is_busy() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        await two.store.create(
            paths.ownership(built.bundles[0]), b"{", CreateMode.EPHEMERAL, make_parents=True
        )
        with pytest.raises(BundleBusy, match="unreadable"):
            await one.ownership.acquire(built.bundles[0])
        data = NamespaceEphemeralData(urls_of(9)).encode()
        await two.store.create(paths.ownership(built.bundles[1]), data, make_parents=True)
        with pytest.raises(BundleBusy) as met:
            await one.ownership.acquire(built.bundles[1])
        assert met.value.owner == "b9:8080"


@in_virtual_time
async def test_a_broker_that_drains_or_has_no_authority_acquires_nothing() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        broker.memory.disconnect()
        await eventually(lambda: not broker.has_authority, deadline_s=20.0)
        with pytest.raises(AuthorityLost):
            await broker.ownership.acquire(built.bundles[0])
        broker.memory.reconnect()
        await broker.wait_ready()
        broker.ownership.is_draining = True
        with pytest.raises(Draining):
            await broker.ownership.acquire(built.bundles[0])


@in_virtual_time
async def test_the_end_of_the_session_ends_an_acquisition_with_authority_lost() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        taking = asyncio.get_running_loop().create_task(
            broker.ownership.acquire(built.bundles[0]), name="acquire"
        )
        await eventually(broker.nodes, poll_s=0.0001)
        broker.expire()
        with pytest.raises(AuthorityLost):
            await taking
        assert BundleState.OWNED not in {one.state for one in broker.ownership.owned().values()}


# The grace of an owner whose session ended (I7).


@in_virtual_time
async def test_an_outage_shorter_than_the_grace_does_not_end_the_grace_of_an_owner() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        bundle = built.bundles[0]
        await one.ownership.acquire(bundle)
        owner = await two.ownership.owner_of(bundle)
        assert owner is not None
        two.cut(1.0)
        await asyncio.sleep(0.2)
        one.cut(1.5)
        one.expire()
        await asyncio.sleep(1.2)
        with pytest.raises(BundleReclaimable):
            await two.ownership.acquire(bundle)
        await eventually(lambda: one.owned().keys() == {bundle}, deadline_s=20.0)
        await built.settled()


@in_virtual_time
async def test_an_owner_that_expired_while_the_ring_was_read_has_its_grace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        bundle = built.bundles[0]
        standing = two.namespaces.ring_snapshot

        async def late(namespace: Namespace) -> RingSnapshot:
            found = await standing(namespace)
            await one.ownership.acquire(bundle)
            one.expire()
            one.cut(1.0)
            await asyncio.sleep(0.1)
            return found

        monkeypatch.setattr(two.namespaces, "ring_snapshot", late)
        with pytest.raises(BundleReclaimable):
            await two.ownership.acquire(bundle)
        await eventually(lambda: one.owned().keys() == {bundle}, deadline_s=20.0)
        await built.settled()


@in_virtual_time
async def test_a_broker_at_a_lagging_server_acquires_a_bundle_only_after_its_release() -> None:
    async with cluster(2, lag_s=0.5) as built:
        one, two = built.brokers
        bundle = built.bundles[0]
        await one.ownership.acquire(bundle)
        await asyncio.sleep(1.0)
        owner = await two.ownership.owner_of(bundle)
        assert owner is not None
        await one.ownership.unload(bundle)
        # A broker that had the owner named to it learns of the release at once.
        assert await two.ownership.acquire(bundle) > owner.token
        await built.settled()


@in_virtual_time
async def test_an_act_of_a_session_that_has_ended_creates_no_node_in_the_next() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        bundle, acquirer = built.bundles[0], broker.ownership._acts.acquirer
        epoch = broker.watcher.epoch
        broker.expire()
        await eventually(lambda: broker.ready_epoch == epoch + 1, deadline_s=60.0)
        await asyncio.sleep(GRACE_S)
        with pytest.raises(AuthorityLost, match=f"session {epoch} has ended"):
            await acquirer.lock(bundle, (), partial(acquirer._judge, bundle, epoch))
        assert built.ensemble.observer.owners() == {}
