"""Each bundle that comes to a broker or leaves it is reported once, with cause and token."""

import pytest

from broker_ctl.broker.ownership.held_bundles import OwnershipChange
from broker_ctl.core.history.rows import OwnershipCause
from broker_ctl.errors import Fenced
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import Check
from tests.support.clusters.brokers import MemoryBroker, cluster
from tests.support.time.waiting import eventually

CAUSE = OwnershipCause


def new_changes(broker: MemoryBroker) -> list[OwnershipChange]:
    """The changes that were reported since the last call."""
    changes = list(broker.changes)
    broker.changes.clear()
    return changes


def released(changes: list[OwnershipChange]) -> list[OwnershipCause]:
    return [change.cause for change in changes if not change.is_acquired]


@in_virtual_time
async def test_a_bundle_is_placed_and_unloaded_and_transferred() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        bundle, ownership = built.bundles[0], broker.ownership
        token = await ownership.acquire(bundle)
        await ownership.unload(bundle)
        assert new_changes(broker) == [
            (bundle, True, CAUSE.PLACEMENT, token),
            (bundle, False, CAUSE.UNLOAD, token),
        ]
        token = await ownership.acquire(bundle, cause=CAUSE.TRANSFER)
        await ownership.release(bundle, token, 1.0, ())
        assert new_changes(broker) == [
            (bundle, True, CAUSE.TRANSFER, token),
            (bundle, False, CAUSE.TRANSFER, token),
        ]


@in_virtual_time
async def test_a_bundle_that_stays_served_is_not_reported() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        token = await broker.ownership.acquire(built.bundles[0])
        new_changes(broker)
        with pytest.raises(Fenced):
            await broker.ownership.release(built.bundles[0], token, 1.0, [Check("/epoch", 7)])
        assert broker.owned() == {built.bundles[0]: token}
        assert new_changes(broker) == []


@in_virtual_time
async def test_a_split_and_a_merge_replace_bundles() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        parent = built.bundles[0]
        token = await broker.ownership.acquire(parent)
        new_changes(broker)
        left, right = await broker.ownership.split(parent, "range_equally_divide")
        tokens = broker.owned()
        assert sorted(new_changes(broker), key=lambda change: change.is_acquired) == [
            (parent, False, CAUSE.SPLIT, token),
            (left, True, CAUSE.SPLIT, tokens[left]),
            (right, True, CAUSE.SPLIT, tokens[right]),
        ]
        whole, token = await broker.ownership.merge(left, right)
        assert sorted(new_changes(broker), key=lambda change: change.is_acquired) == [
            (left, False, CAUSE.MERGE, tokens[left]),
            (right, False, CAUSE.MERGE, tokens[right]),
            (whole, True, CAUSE.MERGE, token),
        ]


@in_virtual_time
async def test_after_an_expiry_all_comes_again_under_new_tokens() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        before = {bundle: await broker.ownership.acquire(bundle) for bundle in built.bundles}
        new_changes(broker)
        broker.expire()
        await eventually(lambda: broker.watcher.epoch == 2, deadline_s=30.0)
        await built.settled()
        after = broker.owned()
        assert min(after.values()) > max(before.values())
        changes = new_changes(broker)
        assert {change.bundle: change.token for change in changes} == after
        assert {change[1:3] for change in changes} == {(True, CAUSE.EXPIRY)}


@in_virtual_time
async def test_deleted_nodes_and_drained_bundles_are_reported_with_their_cause() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        for bundle in built.bundles[:2]:
            await broker.ownership.acquire(bundle)
        new_changes(broker)
        built.ensemble.delete_as_admin(paths.ownership(built.bundles[0]))
        await eventually(lambda: len(broker.ownership.owned()) == 1)
        assert released(new_changes(broker)) == [CAUSE.TAKEN_AWAY]
        assert await broker.ownership.drain(5.0) == 0
        assert released(new_changes(broker)) == [CAUSE.DRAIN]


@in_virtual_time
async def test_bundles_of_a_silent_data_plane_are_reported_as_released() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        await broker.ownership.acquire(built.bundles[0])
        new_changes(broker)
        await broker.ownership.release_all()
        assert released(new_changes(broker)) == [CAUSE.DATA_PLANE]
        assert broker.ownership.owned() == {}


@in_virtual_time
async def test_a_bundle_that_was_never_served_is_not_reported() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        broker.steering.fail("load", times=1)
        with pytest.raises(Exception, match="load"):
            await broker.ownership.acquire(built.bundles[0])
        await eventually(lambda: not broker.ownership.owned())
        assert new_changes(broker) == []
