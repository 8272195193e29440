"""Splitting: at one zxid the children stand in the parent's place."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import pytest

from broker_ctl.broker.namespaces.namespaces import RingSnapshot
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.core.rules.leader_rules import SplitRules
from broker_ctl.errors import (
    Ambiguous,
    AuthorityLost,
    BundleMoving,
    DataPlaneUnreachable,
    Fenced,
    HotTopic,
    InvalidName,
    NotOwner,
    SessionExpired,
    SettingsError,
)
from broker_ctl.lab.simulated import SimulatedDataPlane
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import Check, CreateMode, Operation, Result
from broker_ctl.store.records.policies import PoliciesRecord
from tests.support.clusters.brokers import ACT_TICK_S, NAMESPACE, Cluster, MemoryBroker, cluster
from tests.support.time.waiting import eventually

HALVES = "range_equally_divide"
POSITIONS = "specified_positions_divide"
QUIET = Namespace("public", "quiet")
Multi = Callable[[Sequence[Operation]], Awaitable[tuple[Result, ...]]]


async def halve(broker: MemoryBroker, bundle: Bundle) -> tuple[Bundle, ...]:
    return await broker.ownership.split(bundle, HALVES)


async def policies_ring(broker: MemoryBroker) -> tuple[int, ...] | None:
    node = await broker.store.get(paths.policies(NAMESPACE))
    assert node is not None
    return PoliciesRecord.decode(node.path, node.data).boundaries


@in_virtual_time
async def test_ring_children_and_parent_change_at_one_zxid_and_no_hash_has_two_owners() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        parent = built.bundles[0]
        token = await broker.ownership.acquire(parent)
        before = built.ensemble.tree.zxid
        left, right = await halve(broker, parent)
        seen = built.ensemble.observer.owners_at
        (at,) = (zxid for zxid in seen if zxid > before)
        assert set(seen[at]) == {left, right}
        policies = built.ensemble.tree.find(paths.local_policies(NAMESPACE))
        assert policies is not None
        assert policies.stat.mzxid == at
        assert set(broker.owned().values()) == {at}
        assert at > token
        assert await built.ring() == (left, right, *built.bundles[1:])
        await built.settled()


@in_virtual_time
async def test_topics_stay_open_and_are_served_under_the_new_tokens() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        parent = built.bundles[0]
        await broker.ownership.acquire(parent)
        await asyncio.sleep(1.0)
        await halve(broker, parent)
        await asyncio.sleep(1.0)
        verdict = built.verdict(built.positions(parent))
        assert verdict.owners_ok
        assert verdict.unserved_s < ACT_TICK_S / 2


@in_virtual_time
async def test_other_brokers_find_the_children_where_the_parent_was() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        parent = built.bundles[0]
        await one.ownership.acquire(parent)
        await two.ownership.owner_of(parent)
        left, _ = await halve(one, parent)
        found = await two.ownership.owner_of(left)
        assert found is not None
        assert found.urls == one.urls
        assert await two.ownership.owner_of(parent) is None


@in_virtual_time
async def test_the_policies_of_the_configuration_store_follow() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        for bundle in built.bundles:
            await broker.ownership.acquire(bundle)
        async with asyncio.TaskGroup() as group:
            for bundle in built.bundles:
                group.create_task(halve(broker, bundle), name=str(bundle))
        ring = await broker.namespaces.ring(NAMESPACE)
        assert len(ring.bundles) == 8

        async def follows() -> bool:
            return await policies_ring(broker) == ring.boundaries

        await eventually(follows)
        await built.settled()


@in_virtual_time
async def test_a_split_succeeds_though_policies_are_missing_or_do_not_decode() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        for bundle in built.bundles[:2]:
            await broker.ownership.acquire(bundle)
        await broker.store.set(paths.policies(NAMESPACE), b"{")
        assert len(await halve(broker, built.bundles[0])) == 2
        await broker.store.delete(paths.policies(NAMESPACE))
        assert len(await halve(broker, built.bundles[1])) == 2
        await built.settled()


@in_virtual_time
async def test_boundaries_may_be_given_and_a_bundle_without_topics_stays_whole() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        parent = built.bundles[0]
        await broker.ownership.acquire(parent)
        await broker.namespaces.create(QUIET, bundles=1)
        (quiet,) = (await broker.namespaces.ring(QUIET)).bundles
        await broker.ownership.acquire(quiet)
        assert await broker.ownership.split(quiet, "topic_count_equally_divide") == ()
        assert set(broker.owned()) == {parent, quiet}
        three = await broker.ownership.split(parent, HALVES, (0x10000000, 0x20000000))
        assert [child.range.low for child in three] == [0, 0x10000000, 0x20000000]
        await built.settled()


@in_virtual_time
async def test_given_positions_are_used_and_the_bundle_stays_whole_if_none_is_inside() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        parent = built.bundles[0]
        await broker.ownership.acquire(parent)
        await asyncio.sleep(1.0)
        assert await broker.ownership.split(parent, POSITIONS, (0xF0000000,)) == ()
        left, right = await broker.ownership.split(parent, POSITIONS, (0xF0000000, 0x10000000))
        assert left.range.high == right.range.low == 0x10000000
        await built.settled()


@in_virtual_time
async def test_a_split_by_traffic_asks_the_data_plane_and_may_make_more_than_two() -> None:
    # 60 topics or so of 100 msg/s each, and no bundle may have more than 2,000.
    async with cluster() as built:
        (broker,) = built.brokers
        broker.split_rules = SplitRules(max_msg_rate=2_000, max_bandwidth_bytes=0)
        parent = built.bundles[0]
        await broker.ownership.acquire(parent)
        await asyncio.sleep(1.0)
        children = await broker.ownership.split(parent, "flow_or_qps_equally_divide")
        assert len(children) > 2
        stats = await broker.dataplane.statistics()
        assert max(stats[child].msg_rate for child in children) <= 2_000
        assert await broker.ownership.split(children[0], "flow_or_qps_equally_divide") == ()
        await built.settled()


@in_virtual_time
async def test_a_data_plane_that_does_not_report_the_traffic_leaves_the_bundle_whole() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        token = await broker.ownership.acquire(built.bundles[0])
        broker.steering.fail("topic_statistics")
        with pytest.raises(DataPlaneUnreachable):
            await broker.ownership.split(built.bundles[0], "flow_or_qps_equally_divide")
        assert broker.owned() == {built.bundles[0]: token}
        await built.settled()


@in_virtual_time
async def test_a_split_that_is_refused_leaves_the_bundle_as_it_is() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        parent = built.bundles[0]
        with pytest.raises(NotOwner):
            await halve(broker, parent)
        token = await broker.ownership.acquire(parent)
        with pytest.raises(SettingsError):
            await broker.ownership.split(parent, "no such algorithm")
        with pytest.raises(InvalidName):
            await broker.ownership.split(parent, HALVES, (0xF0000000,))
        await broker.store.create("/epoch")
        with pytest.raises(Fenced):
            await broker.ownership.split(parent, HALVES, guards=[Check("/epoch", 7)])
        assert broker.owned() == {parent: token}
        await built.settled()


@in_virtual_time
async def test_a_child_s_node_that_stands_already_stops_the_split() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        parent = built.bundles[0]
        token = await one.ownership.acquire(parent)
        left, _ = parent.cut((0x20000000,))
        await two.store.create(paths.ownership(left), b"{}", CreateMode.EPHEMERAL)
        built.faults.clear()
        with pytest.raises(BundleMoving):
            await halve(one, parent)
        assert one.owned() == {parent: token}


@in_virtual_time
async def test_two_splits_at_once_in_one_namespace_both_succeed() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        await one.ownership.acquire(built.bundles[0])
        await two.ownership.acquire(built.bundles[1])
        async with asyncio.TaskGroup() as group:
            group.create_task(halve(one, built.bundles[0]), name="one")
            group.create_task(halve(two, built.bundles[1]), name="two")
        assert len(await built.ring()) == 6
        await built.settled()


# Answers that do not come.


@in_virtual_time
async def test_a_split_whose_answer_is_lost_is_found_out() -> None:
    for point in range(12):
        async with cluster(seed=point) as built:
            (broker,) = built.brokers
            await broker.ownership.acquire(built.bundles[0])
            broker.steering.arm(point, broker.blink)
            assert len(await halve(broker, built.bundles[0])) == 2
            await built.settled()


class Forgetful:
    """Carries a transaction out, and cannot say so."""

    def __init__(self, built: Cluster, *, is_executed: bool) -> None:
        self._store = built.brokers[0].store
        self._multi = self._store.multi
        self._is_executed = is_executed

    def __enter__(self) -> None:
        self._store.multi = self._lose  # type: ignore[method-assign]  # one lost answer

    def __exit__(self, *_: object) -> None:
        self._store.multi = self._multi  # type: ignore[method-assign]  # as it was

    async def _lose(self, operations: Sequence[Operation]) -> tuple[Result, ...]:
        if self._is_executed:
            await self._multi(operations)
        raise Ambiguous("no answer")


@in_virtual_time
async def test_after_an_ambiguous_split_the_children_show_whether_it_was_done() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        parent = built.bundles[0]
        await broker.ownership.acquire(parent)
        with Forgetful(built, is_executed=True):
            children = await halve(broker, parent)
        assert set(broker.owned()) == set(children)
        await built.settled()
        with Forgetful(built, is_executed=False), pytest.raises(Ambiguous):
            await halve(broker, children[0])
        assert set(broker.owned()) == set(children)
        await built.settled()


@in_virtual_time
async def test_a_split_is_not_answered_by_what_is_about_other_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        parent, other = built.bundles[:2]
        token = await broker.ownership.acquire(parent)
        node = await broker.store.create(paths.ownership(other), b"", CreateMode.EPHEMERAL)

        async def answer(_: Sequence[Operation]) -> tuple[Result, ...]:
            monkeypatch.undo()
            return (node, node)

        monkeypatch.setattr(broker.store, "multi", answer)
        with pytest.raises(Ambiguous):
            await halve(broker, parent)
        assert broker.owned() == {parent: token}


@in_virtual_time
async def test_after_an_ambiguous_split_the_nodes_of_another_broker_prove_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        parent = built.bundles[0]
        token = await one.ownership.acquire(parent)
        multi = one.store.multi

        async def lose(operations: Sequence[Operation]) -> tuple[Result, ...]:
            monkeypatch.setattr(one.store, "multi", multi)
            for child in parent.cut((0x20000000,)):
                await two.store.create(paths.ownership(child), b"", CreateMode.EPHEMERAL)
            raise Ambiguous("no answer")

        monkeypatch.setattr(one.store, "multi", lose)
        with pytest.raises(Ambiguous):
            await halve(one, parent)
        assert one.owned() == {parent: token}


@in_virtual_time
async def test_an_ambiguous_split_that_is_done_behind_its_error_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        parent = built.bundles[0]
        await broker.ownership.acquire(parent)
        multi, sync = broker.store.multi, broker.store.sync
        on_its_way: list[Sequence[Operation]] = []

        async def lose(operations: Sequence[Operation]) -> tuple[Result, ...]:
            on_its_way.append(operations)
            raise Ambiguous("no answer")

        async def arrive_then_sync(path: str) -> None:
            while on_its_way:
                monkeypatch.setattr(broker.store, "multi", multi)
                await multi(on_its_way.pop())
            await sync(path)

        monkeypatch.setattr(broker.store, "multi", lose)
        monkeypatch.setattr(broker.store, "sync", arrive_then_sync)
        children = await halve(broker, parent)
        assert set(broker.owned()) == set(children)
        await built.settled()


@in_virtual_time
async def test_without_authority_nothing_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        parent = built.bundles[0]
        token = await broker.ownership.acquire(parent)

        def lapsed(_epoch: int) -> None:
            raise AuthorityLost("the lease has run out")

        with monkeypatch.context() as patch:
            patch.setattr(broker.watcher, "check_epoch", lapsed)
            with pytest.raises(AuthorityLost, match="has run out"):
                await halve(broker, parent)
        assert broker.owned() == {parent: token}
        assert await built.ring() == built.bundles
        await built.settled()


@in_virtual_time
async def test_a_data_plane_that_does_not_split_loads_the_children() -> None:
    for is_executed in (False, True):
        async with cluster() as built:
            (broker,) = built.brokers
            await broker.ownership.acquire(built.bundles[0])
            broker.steering.fail("split", is_executed=is_executed)
            children = await halve(broker, built.bundles[0])
            assert set(broker.owned()) == set(children)
            await built.settled()


@in_virtual_time
async def test_a_child_that_cannot_be_loaded_is_given_up() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        await broker.ownership.acquire(built.bundles[0])
        broker.steering.fail("split")
        broker.steering.fail("load")
        left, right = await halve(broker, built.bundles[0])
        await eventually(lambda: set(broker.ownership.owned()) == {right})
        await built.settled()
        assert await broker.ownership.acquire(left)


@in_virtual_time
async def test_a_parent_that_is_taken_away_meanwhile_is_not_served_on() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        parent = built.bundles[0]
        await broker.ownership.acquire(parent)
        broker.steering.arm(0, partial(built.ensemble.delete_as_admin, paths.ownership(parent)))
        with pytest.raises(BundleMoving):
            await halve(broker, parent)
        await eventually(lambda: not broker.ownership.owned())
        assert await broker.loaded() == {}


@in_virtual_time
async def test_a_parent_whose_node_is_deleted_before_the_transaction_is_not_split() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        parent = built.bundles[0]
        await broker.ownership.acquire(parent)
        answer = broker.steering.hold("topics")
        splitting = asyncio.get_running_loop().create_task(halve(broker, parent), name="split")
        await asyncio.sleep(0.1)
        built.ensemble.delete_as_admin(paths.ownership(parent))
        await eventually(lambda: broker.ownership.owned()[parent].lock is None)
        answer.set()
        with pytest.raises(BundleMoving):
            await splitting
        await eventually(lambda: not broker.ownership.owned())
        assert await broker.loaded() == {}


@in_virtual_time
async def test_a_split_does_not_replace_a_bundle_that_another_broker_acquired_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        parent = built.bundles[0]
        await one.ownership.acquire(parent)
        standing = one.namespaces.ring_snapshot

        async def late(namespace: Namespace) -> RingSnapshot:
            found = await standing(namespace)
            if namespace == NAMESPACE and parent not in two.owned():
                built.ensemble.delete_as_admin(paths.ownership(parent))
                await two.ownership.acquire(parent)
            return found

        monkeypatch.setattr(one.namespaces, "ring_snapshot", late)
        with pytest.raises(BundleMoving, match="taken away"):
            await halve(one, parent)
        assert await built.ring() == built.bundles
        assert two.owned().keys() == two.nodes().keys() == {parent}


@in_virtual_time
async def test_another_owner_that_a_server_does_not_know_yet_keeps_its_bundle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        parent = built.bundles[0]
        await one.ownership.acquire(parent)
        sync = one.store.sync

        async def catch_up(path: str) -> None:
            monkeypatch.setattr(one.store, "sync", sync)
            built.ensemble.delete_as_admin(paths.ownership(parent))
            await two.ownership.acquire(parent)
            await sync(path)

        monkeypatch.setattr(one.store, "sync", catch_up)
        with pytest.raises(BundleMoving, match="taken away"):
            await halve(one, parent)
        assert two.owned().keys() == two.nodes().keys() == {parent}


@in_virtual_time
async def test_a_child_that_is_taken_away_while_the_data_plane_splits_is_not_served_on() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        left, right = built.bundles[0].cut((0x20000000,))
        await broker.ownership.acquire(built.bundles[0])
        answer = broker.steering.hold("split")
        splitting = broker.tasks.start(halve(broker, built.bundles[0]), "split", is_joined=True)
        await eventually(lambda: set(broker.ownership.owned()) == {left, right})
        built.ensemble.delete_as_admin(paths.ownership(left))
        await eventually(lambda: broker.ownership.owned()[left].lock is None)
        answer.set()
        await splitting
        await eventually(lambda: set(broker.ownership.owned()) == {right})
        await built.settled()


@in_virtual_time
async def test_a_committed_split_whose_answer_is_late_leaves_no_bundle_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        parent = built.bundles[0]
        await broker.ownership.acquire(parent)
        answer = asyncio.Event()
        multi = broker.memory.multi

        async def held_back(operations: Sequence[Operation]) -> tuple[Result, ...]:
            results = await multi(operations)
            await answer.wait()
            return results

        monkeypatch.setattr(broker.memory, "multi", held_back)
        splitting = asyncio.get_running_loop().create_task(halve(broker, parent), name="split")
        await eventually(lambda: len(broker.nodes()) == 2)
        for child in broker.nodes():
            with pytest.raises(BundleMoving):
                await broker.ownership.owner_of(child)
        answer.set()
        assert set(await splitting) == set(broker.owned())
        await built.settled()


@in_virtual_time
async def test_if_the_session_ends_after_the_commit_the_children_are_taken_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        parent = built.bundles[0]
        token = await broker.ownership.acquire(parent)
        held_back = asyncio.Event()
        split = broker.dataplane.split

        async def late(parent: Bundle, children: Mapping[Bundle, int]) -> None:
            await held_back.wait()
            await split(parent, children)

        monkeypatch.setattr(broker.dataplane, "split", late)
        splitting = asyncio.get_running_loop().create_task(halve(broker, parent), name="split")
        await eventually(
            lambda: (
                {one.state for one in broker.ownership.owned().values()} == {BundleState.SPLITTING}
                and len(broker.ownership.owned()) == 2
            ),
            poll_s=0.0001,
        )
        # The data plane still has the parent, under the old token.
        assert await SimulatedDataPlane.loaded(broker.dataplane) == {parent: token}
        broker.expire()
        with pytest.raises(AuthorityLost):
            await splitting
        held_back.set()
        await built.settled()
        assert set(broker.owned()) == set((await built.ring())[:2])
        await asyncio.sleep(1.0)
        assert built.verdict().double_served == 0


@in_virtual_time
async def test_if_the_session_ends_before_the_answer_the_children_are_reacquired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for is_executed in (True, False):
        async with cluster(2) as built:
            broker, other = built.brokers
            parent = built.bundles[0]
            await broker.ownership.acquire(parent)
            multi = broker.memory.multi

            async def die_with_it(
                operations: Sequence[Operation],
                multi: Multi = multi,
                broker: MemoryBroker = broker,
                *,
                is_executed: bool = is_executed,
            ) -> tuple[Result, ...]:
                monkeypatch.setattr(broker.memory, "multi", multi)
                if is_executed:
                    await multi(operations)
                broker.expire()
                raise SessionExpired("no answer, and no session any more")

            monkeypatch.setattr(broker.memory, "multi", die_with_it)
            with pytest.raises(AuthorityLost):
                await halve(broker, parent)
            await built.settled()
            left, right = parent.cut((0x20000000,))
            assert set(broker.owned()) == ({left, right} if is_executed else {parent})
            assert other.owned() == {}


@in_virtual_time
async def test_a_bundle_of_one_hot_topic_is_not_divided_by_its_traffic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        parent = built.bundles[0]
        await broker.ownership.acquire(parent)
        hot, *others = [f"persistent://public/default/topic-{number}" for number in range(5)]
        rates = {hot: BundleStats(msg_throughput_in=95e6)}
        rates |= {name: BundleStats(msg_throughput_in=5e6 / len(others)) for name in others}

        async def statistics(_: SimulatedDataPlane, __: Bundle) -> Mapping[str, BundleStats]:
            return rates

        monkeypatch.setattr(SimulatedDataPlane, "topic_statistics", statistics)
        with pytest.raises(HotTopic, match=f"95% of its traffic is that of {hot}"):
            await broker.ownership.split(parent, "traffic_equally_divide")
        # An operator may still name the place.
        assert len(await halve(broker, parent)) == 2
        await built.settled()
