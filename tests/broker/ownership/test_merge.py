"""Merging: at one zxid one bundle stands in the place of two."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from broker_ctl.core.model.names import Bundle, Namespace
from broker_ctl.errors import (
    Ambiguous,
    AuthorityLost,
    BundleGone,
    BundleMoving,
    Fenced,
    InvalidName,
    NotOwner,
    SessionExpired,
)
from broker_ctl.lab.simulated import SimulatedDataPlane
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import Check, CreateMode, Operation, Result
from broker_ctl.store.records.policies import PoliciesRecord
from tests.support.clusters.brokers import ACT_TICK_S, NAMESPACE, Cluster, MemoryBroker, cluster
from tests.support.time.waiting import eventually

Multi = Callable[[Sequence[Operation]], Awaitable[tuple[Result, ...]]]


async def owning_two(built: Cluster) -> tuple[MemoryBroker, Bundle, Bundle]:
    """The first broker, and the two neighbours that it owns."""
    broker, (left, right) = built.brokers[0], built.bundles[:2]
    await broker.ownership.acquire(left)
    await broker.ownership.acquire(right)
    return broker, left, right


@in_virtual_time
async def test_ring_parent_and_children_change_at_one_zxid_and_no_hash_has_two_owners() -> None:
    async with cluster() as built:
        broker, left, right = await owning_two(built)
        before = built.ensemble.tree.zxid
        locks = [held.lock for held in broker.ownership.owned().values()]
        whole, token = await broker.ownership.merge(left, right)
        seen = built.ensemble.observer.owners_at
        (at,) = (zxid for zxid in seen if zxid > before)
        assert set(seen[at]) == {whole}
        policies = built.ensemble.tree.find(paths.local_policies(NAMESPACE))
        assert policies is not None
        assert policies.stat.mzxid == at == token
        assert broker.owned() == {whole: at}
        assert all(lock is not None and lock.has_ended for lock in locks)
        assert await built.ring() == (whole, *built.bundles[2:])
        await built.settled()


@in_virtual_time
async def test_topics_stay_open_and_are_served_under_the_new_token() -> None:
    async with cluster() as built:
        broker, left, right = await owning_two(built)
        await asyncio.sleep(1.0)
        names = {*await broker.dataplane.topics(left), *await broker.dataplane.topics(right)}
        whole, _ = await broker.ownership.merge(left, right)
        assert set(await broker.dataplane.topics(whole)) == names
        await asyncio.sleep(1.0)
        verdict = built.verdict(built.positions(left, right))
        assert verdict.owners_ok
        assert verdict.unserved_s < ACT_TICK_S / 2


@in_virtual_time
async def test_other_brokers_find_the_whole_where_the_parts_were() -> None:
    async with cluster(2) as built:
        one, left, right = await owning_two(built)
        two = built.brokers[1]
        await two.ownership.owner_of(left)
        whole, _ = await one.ownership.merge(left, right)
        found = await two.ownership.owner_of(whole)
        assert found is not None
        assert found.urls == one.urls
        assert await two.ownership.owner_of(left) is None
        with pytest.raises(BundleGone):
            await two.ownership.acquire(right)


@in_virtual_time
async def test_the_policies_of_the_configuration_store_follow() -> None:
    async with cluster() as built:
        broker, left, right = await owning_two(built)
        await broker.ownership.merge(left, right)
        ring = await broker.namespaces.ring(NAMESPACE)

        async def follows() -> bool:
            node = await broker.store.get(paths.policies(NAMESPACE))
            assert node is not None
            return PoliciesRecord.decode(node.path, node.data).boundaries == ring.boundaries

        await eventually(follows)


@in_virtual_time
async def test_split_bundles_may_be_merged_again_and_the_tokens_grow() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        parent = built.bundles[0]
        token = await broker.ownership.acquire(parent)
        left, right = await broker.ownership.split(parent, "range_equally_divide")
        between = broker.owned()[left]
        assert (await broker.ownership.merge(left, right))[0] == parent
        assert token < between < broker.owned()[parent]
        await built.settled()


@in_virtual_time
async def test_an_order_that_is_repeated_is_answered_as_the_first_time() -> None:
    async with cluster() as built:
        broker, left, right = await owning_two(built)
        first = await broker.ownership.merge(left, right)
        assert await broker.ownership.merge(left, right) == first


@in_virtual_time
async def test_a_merge_that_is_refused_leaves_the_bundles_as_they_are() -> None:
    async with cluster() as built:
        broker, left, right = await owning_two(built)
        before = broker.owned()
        far, last = built.bundles[2:]
        with pytest.raises(NotOwner):
            await broker.ownership.merge(right, far)
        with pytest.raises(InvalidName, match="does not begin where"):
            await broker.ownership.merge(right, left)
        with pytest.raises(InvalidName, match="does not begin where"):
            await broker.ownership.merge(left, last)
        elsewhere = Bundle(Namespace("public", "quiet"), right.range)
        with pytest.raises(InvalidName, match="does not begin where"):
            await broker.ownership.merge(left, elsewhere)
        await broker.store.create("/epoch")
        with pytest.raises(Fenced):
            await broker.ownership.merge(left, right, guards=[Check("/epoch", 7)])
        assert broker.owned() == before
        await built.settled()


@in_virtual_time
async def test_neighbours_of_different_owners_are_not_merged() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        left, right = built.bundles[:2]
        await one.ownership.acquire(left)
        await two.ownership.acquire(right)
        with pytest.raises(NotOwner):
            await one.ownership.merge(left, right)
        await built.settled()


@in_virtual_time
async def test_a_node_of_the_whole_that_stands_already_stops_the_merge() -> None:
    async with cluster(2) as built:
        one, left, right = await owning_two(built)
        whole = left.joined(right)
        await built.brokers[1].store.create(paths.ownership(whole), b"{}", CreateMode.EPHEMERAL)
        built.faults.clear()
        before = one.owned()
        with pytest.raises(BundleMoving, match=r"operation 2 .* NodeExists"):
            await one.ownership.merge(left, right)
        assert one.owned() == before


@in_virtual_time
async def test_a_split_of_another_owner_in_between_does_not_stop_it() -> None:
    async with cluster(2) as built:
        one, left, right = await owning_two(built)
        two = built.brokers[1]
        await two.ownership.acquire(built.bundles[2])
        async with asyncio.TaskGroup() as group:
            group.create_task(one.ownership.merge(left, right), name="merge")
            split = two.ownership.split(built.bundles[2], "range_equally_divide")
            group.create_task(split, name="split")
        assert len(await built.ring()) == 4
        await built.settled()


@in_virtual_time
async def test_one_of_two_that_is_split_meanwhile_is_not_merged() -> None:
    async with cluster() as built:
        broker, left, right = await owning_two(built)
        answer = broker.steering.hold("topics")
        splitting = broker.tasks.start(
            broker.ownership.split(left, "range_equally_divide"), "split", is_joined=True
        )
        await asyncio.sleep(0.1)
        with pytest.raises(BundleMoving, match="splitting"):
            await broker.ownership.merge(left, right)
        answer.set()
        assert len(await splitting) == 2
        await built.settled()


# Answers that do not come.


@in_virtual_time
async def test_a_merge_whose_answer_is_lost_is_found_out() -> None:
    for point in range(12):
        async with cluster(seed=point) as built:
            broker, left, right = await owning_two(built)
            broker.steering.arm(point, broker.blink)
            whole, _ = await broker.ownership.merge(left, right)
            assert set(broker.owned()) == {whole}
            await built.settled()


@pytest.mark.parametrize("is_executed", [True, False])
@in_virtual_time
async def test_after_an_ambiguous_merge_the_ring_decides_what_is_owned(
    monkeypatch: pytest.MonkeyPatch, *, is_executed: bool
) -> None:
    async with cluster() as built:
        broker, left, right = await owning_two(built)
        multi = broker.memory.multi

        async def lose(operations: Sequence[Operation]) -> tuple[Result, ...]:
            monkeypatch.setattr(broker.memory, "multi", multi)
            if is_executed:
                await multi(operations)
            raise Ambiguous("no answer")

        monkeypatch.setattr(broker.memory, "multi", lose)
        if is_executed:
            whole, _ = await broker.ownership.merge(left, right)
            assert set(broker.owned()) == {whole}
        else:
            with pytest.raises(Ambiguous):
                await broker.ownership.merge(left, right)
            assert set(broker.owned()) == {left, right}
        await built.settled()


@pytest.mark.parametrize("is_executed", [True, False])
@in_virtual_time
async def test_a_data_plane_that_does_not_merge_loads_the_whole(*, is_executed: bool) -> None:
    async with cluster() as built:
        broker, left, right = await owning_two(built)
        broker.steering.fail("merge", is_executed=is_executed)
        whole, _ = await broker.ownership.merge(left, right)
        assert set(broker.owned()) == {whole}
        await built.settled()


@in_virtual_time
async def test_a_whole_that_cannot_be_loaded_is_given_up() -> None:
    async with cluster() as built:
        broker, left, right = await owning_two(built)
        broker.steering.fail("merge")
        broker.steering.fail("load")
        whole, _ = await broker.ownership.merge(left, right)
        await eventually(lambda: not broker.ownership.owned())
        await built.settled()
        assert await broker.ownership.acquire(whole)


@pytest.mark.parametrize("number", [0, 1])
@in_virtual_time
async def test_if_one_is_taken_away_meanwhile_the_other_is_served_on(number: int) -> None:
    async with cluster() as built:
        broker, *both = await owning_two(built)
        path = paths.ownership(both[number])
        broker.steering.arm(0, lambda: built.ensemble.delete_as_admin(path))
        with pytest.raises(BundleMoving):
            await broker.ownership.merge(both[0], both[1])
        kept = both[1 - number]
        await eventually(lambda: set(broker.ownership.owned()) == {kept})
        await built.settled()
        assert set(broker.owned()) == {kept}


@in_virtual_time
async def test_a_whole_that_is_taken_away_while_the_data_plane_merges_is_not_served_on() -> None:
    async with cluster() as built:
        broker, left, right = await owning_two(built)
        answer = broker.steering.hold("merge")
        merging = broker.tasks.start(broker.ownership.merge(left, right), "merge", is_joined=True)
        whole = left.joined(right)
        await eventually(lambda: set(broker.ownership.owned()) == {whole})
        built.ensemble.delete_as_admin(paths.ownership(whole))
        await eventually(lambda: broker.ownership.owned()[whole].lock is None)
        answer.set()
        await merging
        await eventually(lambda: not broker.ownership.owned())
        await built.settled()


@in_virtual_time
async def test_a_committed_merge_whose_answer_is_late_leaves_no_bundle_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with cluster() as built:
        broker, left, right = await owning_two(built)
        answer = asyncio.Event()
        multi = broker.memory.multi

        async def held_back(operations: Sequence[Operation]) -> tuple[Result, ...]:
            results = await multi(operations)
            await answer.wait()
            return results

        monkeypatch.setattr(broker.memory, "multi", held_back)
        merging = broker.tasks.start(broker.ownership.merge(left, right), "merge", is_joined=True)
        whole = left.joined(right)
        await eventually(lambda: set(broker.nodes()) == {whole})
        for bundle in (whole, left, right):
            with pytest.raises(BundleMoving):
                await broker.ownership.owner_of(bundle)
        answer.set()
        assert (await merging)[0] == whole
        await built.settled()


@in_virtual_time
async def test_if_the_session_ends_after_the_commit_the_whole_is_taken_again() -> None:
    async with cluster() as built:
        broker, left, right = await owning_two(built)
        answer = broker.steering.hold("merge")
        merging = broker.tasks.start(broker.ownership.merge(left, right), "merge", is_joined=True)
        whole = left.joined(right)
        await eventually(lambda: set(broker.ownership.owned()) == {whole})
        broker.expire()
        with pytest.raises(AuthorityLost):
            await merging
        answer.set()
        await built.settled()
        assert set(broker.owned()) == {whole}
        await asyncio.sleep(1.0)
        assert built.verdict().double_served == 0


@pytest.mark.parametrize("is_executed", [True, False])
@in_virtual_time
async def test_if_the_session_ends_before_the_answer_the_ring_decides_what_is_reacquired(
    monkeypatch: pytest.MonkeyPatch, *, is_executed: bool
) -> None:
    async with cluster(2) as built:
        broker, left, right = await owning_two(built)
        multi = broker.memory.multi

        async def die_with_it(operations: Sequence[Operation]) -> tuple[Result, ...]:
            monkeypatch.setattr(broker.memory, "multi", multi)
            if is_executed:
                await multi(operations)
            broker.expire()
            raise SessionExpired("no answer, and no session any more")

        monkeypatch.setattr(broker.memory, "multi", die_with_it)
        with pytest.raises(AuthorityLost):
            await broker.ownership.merge(left, right)
        await built.settled()
        assert set(broker.owned()) == ({left.joined(right)} if is_executed else {left, right})
        assert built.brokers[1].owned() == {}
        assert set(await SimulatedDataPlane.loaded(broker.dataplane)) == set(broker.owned())
