"""The one door: who owns what, draining, and what was taken away."""

import asyncio
import random

import pytest

from broker_ctl.coordination.directives import Moves
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.errors import (
    AuthorityLost,
    BundleMoving,
    BundleReclaimable,
    CorruptRecord,
    Draining,
)
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import Check, CreateMode
from broker_ctl.store.records.broker_ctl import MoveNode
from broker_ctl.store.records.ownership import NamespaceEphemeralData
from tests.support.clusters.brokers import cluster, urls_of
from tests.support.daemon.instruments import value_of
from tests.support.time.waiting import eventually


@in_virtual_time
async def test_everybody_names_the_same_owner_and_it_knows_itself() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        bundle = built.bundles[0]
        assert await one.ownership.owner_of(bundle) is None
        token = await one.ownership.acquire(bundle)
        mine = await one.ownership.owner_of(bundle)
        theirs = await two.ownership.owner_of(bundle)
        assert mine is not None
        assert theirs is not None
        assert (mine.urls, mine.token, mine.is_self) == (one.urls, token, True)
        assert (theirs.urls, theirs.token, theirs.is_self) == (one.urls, token, False)
        await one.ownership.unload(bundle)
        await eventually(lambda: two.owners.cache.peek(paths.ownership(bundle)) is None)
        assert await two.ownership.owner_of(bundle) is None


@in_virtual_time
async def test_an_own_write_is_seen_at_once() -> None:
    for seed in range(20):
        async with cluster(seed=seed) as built:
            (broker,) = built.brokers
            bundle = built.bundles[0]
            for _ in range(3):
                assert await broker.ownership.owner_of(bundle) is None
                await broker.ownership.acquire(bundle)
                assert await broker.ownership.owner_of(bundle)
                await broker.ownership.unload(bundle)


@in_virtual_time
async def test_an_owner_without_authority_says_nothing() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        await broker.ownership.acquire(built.bundles[0])
        broker.memory.disconnect()
        await eventually(lambda: not broker.has_authority, deadline_s=20.0)
        with pytest.raises(AuthorityLost):
            await broker.ownership.owner_of(built.bundles[0])
        broker.memory.reconnect()


@in_virtual_time
async def test_while_an_expiry_is_made_good_lookups_come_again() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        await broker.ownership.acquire(built.bundles[0])
        answer = broker.steering.hold("renew")
        broker.expire()
        await eventually(lambda: broker.watcher.epoch == 2)
        with pytest.raises(BundleReclaimable):
            await broker.ownership.owner_of(built.bundles[0])
        answer.set()
        await built.settled()


@in_virtual_time
async def test_a_bundle_that_is_being_moved_is_free_for_its_receiver_only() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        await one.store.create("/epoch")
        bundle = built.bundles[0]
        move = MoveNode("m1", bundle, 1, "b0:8080", 1, "b1:8080", 0, 0)
        record = await Moves(one.store, rng=random.Random(1)).begin(move, Check("/epoch", 0))
        await eventually(lambda: two.moves.of(bundle))
        with pytest.raises(BundleMoving, match="being moved to b1:8080"):
            await two.ownership.owner_of(bundle)
        # Its receiver acquires it nevertheless.
        assert await two.ownership.acquire(bundle, [record.guard])


@in_virtual_time
async def test_an_owner_node_that_does_not_decode_is_an_error_of_the_lookup() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        path = paths.ownership(built.bundles[0])
        await broker.store.create(path, b"{", CreateMode.PERSISTENT, make_parents=True)
        with pytest.raises(CorruptRecord):
            await broker.ownership.owner_of(built.bundles[0])
        await broker.store.delete(path)


@in_virtual_time
async def test_a_client_is_not_sent_to_an_owner_that_unloads_the_bundle() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        path = paths.ownership(built.bundles[0])
        for is_disabled in (False, True):
            # As a Pulsar broker writes it.
            data = NamespaceEphemeralData(urls_of(9), is_disabled).encode()
            await broker.store.create(path, data, make_parents=True)
            await eventually(lambda: broker.owners.cache.peek(path) is None)
            if is_disabled:
                with pytest.raises(BundleMoving, match="is being unloaded by b9:8080"):
                    await broker.ownership.owner_of(built.bundles[0])
            else:
                owner = await broker.ownership.owner_of(built.bundles[0])
                assert owner is not None
                assert owner.urls.broker_id == "b9:8080"
            await broker.store.delete(path)


@in_virtual_time
async def test_a_bundle_whose_node_is_deleted_is_fenced_and_can_be_acquired_again() -> None:
    async with cluster(2) as built:
        one, two = built.brokers
        bundle = built.bundles[0]
        await one.ownership.acquire(bundle)
        one.steering.fail("fence", times=3)
        built.ensemble.delete_as_admin(paths.ownership(bundle))
        await eventually(lambda: value_of(one.instruments.lost, cause="taken_away") == 1)
        # Until the fence has arrived, nothing may be loaded that it could hit.
        assert one.ownership.owned()[bundle].state is BundleState.RELEASING
        with pytest.raises(BundleMoving):
            await one.ownership.acquire(bundle)
        await eventually(lambda: not one.ownership.owned())
        assert await one.loaded() == {}
        assert await two.ownership.acquire(bundle)
        await built.settled()


@in_virtual_time
async def test_the_end_of_the_process_fences_nothing() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        await broker.ownership.acquire(built.bundles[0])
        await broker.store.close(end_session=False)
        await eventually(lambda: broker.serving is not None and broker.serving.done())
        assert set(await broker.loaded()) == {built.bundles[0]}
        assert value_of(broker.instruments.lost, cause="taken_away") == 0


@in_virtual_time
async def test_a_broker_that_drains_releases_all_bundles_and_acquires_none() -> None:
    async with cluster(2, bundles=32) as built:
        one, two = built.brokers
        for bundle in built.bundles:
            await one.ownership.acquire(bundle)
        assert await one.ownership.drain(10.0) == 0
        with pytest.raises(Draining):
            await one.ownership.acquire(built.bundles[0])
        for bundle in built.bundles:
            await two.ownership.acquire(bundle)
        await built.settled()


@in_virtual_time
async def test_acts_under_way_when_the_drain_begins_end_without_a_bundle() -> None:
    async with cluster(bundles=4) as built:
        (broker,) = built.brokers
        for bundle in built.bundles[:3]:
            await broker.ownership.acquire(bundle)
        broker.steering.fail("unload")
        broker.steering.fail("fence")
        async with asyncio.TaskGroup() as group:
            group.create_task(broker.ownership.acquire(built.bundles[3]), name="acquire")
            group.create_task(
                broker.ownership.split(built.bundles[0], "range_equally_divide"), name="split"
            )
            await asyncio.sleep(0.001)
            assert await broker.ownership.drain(10.0) == 0
        await built.settled()


@in_virtual_time
async def test_a_drain_ends_at_its_deadline_and_says_what_is_left() -> None:
    async with cluster() as built:
        (broker,) = built.brokers
        for bundle in built.bundles:
            await broker.ownership.acquire(bundle)
        broker.steering.hold("unload")
        began_s = broker.clock.now_s()
        assert await broker.ownership.drain(3.0) == 4
        assert broker.clock.now_s() - began_s == pytest.approx(3.0, abs=0.1)
        broker.steering.hold("unload").set()
