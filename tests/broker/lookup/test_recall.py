"""Lookups that are answered from memory: the answer of `find`, or none."""

import asyncio

import pytest

from broker_ctl.broker.lookup.lookup import Connect, Redirect
from broker_ctl.broker.ownership.held_bundles import OwnedBundle
from broker_ctl.core.machines.ownership import BundleState
from broker_ctl.core.machines.session import SessionState
from broker_ctl.core.model.names import Namespace, Topic
from broker_ctl.errors import BundleReclaimable
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import Check
from broker_ctl.store.records.broker_ctl import MoveNode
from broker_ctl.store.records.ownership import NamespaceEphemeralData
from tests.broker.lookup.test_lookup import Chooser, _put, doors, topic_in
from tests.support.clusters.brokers import NAMESPACE, cluster
from tests.support.time.waiting import eventually


@in_virtual_time
async def test_memory_answers_as_a_lookup_does() -> None:
    async with cluster(2) as built, doors(built) as (one, two):
        own, other = map(topic_in, built.bundles[:2])
        await one.broker.ownership.acquire(built.bundles[0])
        await two.broker.ownership.acquire(built.bundles[1])
        for topic, owner in ((own, one), (other, two)):
            assert one.lookup.recall(topic, authoritative=False) is None
            found = await one.lookup.find(topic)
            assert (
                one.lookup.recall(topic, authoritative=False) == found == Connect(owner.broker.urls)
            )
        statistics = one.lookup.statistics()
        assert (statistics.answers, statistics.failures, statistics.pending) == (4, 0, 0)
        assert len(statistics.recent_s) == 4


@in_virtual_time
async def test_memory_redirects_to_the_leader_as_a_lookup_does() -> None:
    async with cluster(2) as built, doors(built) as (one, two):
        topic = topic_in(built.bundles[0])
        one.cluster.leads = two.broker
        assert one.lookup.recall(topic, authoritative=False) is None
        found = await one.lookup.find(topic)
        assert found == Redirect(two.broker.urls, is_authoritative=False)
        assert one.lookup.recall(topic, authoritative=False) == found
        assert one.lookup.statistics().redirects == 2
        # An authoritative lookup acquires, which takes time.
        assert one.lookup.recall(topic, authoritative=True) is None
        # The answer that was kept ends with this broker's own leadership.
        one.chooser = Chooser(two.broker)
        assert one.lookup.recall(topic, authoritative=False) is None
        one.chooser = None
        assert one.lookup.recall(topic, authoritative=False) == found
        # The leader chooses, which takes time too.
        two.chooser = Chooser(one.broker)
        two.cluster.leads = two.broker
        two.chooser.may_answer.set()
        await two.lookup.find(topic)
        assert two.lookup.recall(topic, authoritative=False) is None
        one.cluster.leads = None
        assert one.lookup.recall(topic, authoritative=False) is None


@in_virtual_time
async def test_memory_redirects_to_nobody_while_the_former_owner_may_return() -> None:
    async with cluster(3) as built, doors(built) as (one, two, three):
        topic, bundle = topic_in(built.bundles[0]), built.bundles[0]
        one.cluster.leads = three.broker
        await two.broker.ownership.acquire(bundle)
        await one.lookup.find(topic)
        two.broker.memory.disconnect()
        two.broker.expire()
        await eventually(lambda: one.lookup.recall(topic, authoritative=False) is None)
        # The second time, memory has its node as absent.
        for _ in range(2):
            with pytest.raises(BundleReclaimable):
                await one.lookup.find(topic)
        assert one.lookup.recall(topic, authoritative=False) is None


@in_virtual_time
async def test_memory_redirects_to_nobody_while_events_may_have_been_missed() -> None:
    async with cluster(2) as built, doors(built) as (one, two):
        topic = topic_in(built.bundles[0])
        one.cluster.leads = two.broker
        await one.lookup.find(topic)
        one.broker.blink()
        await eventually(lambda: one.broker.watcher.state is SessionState.CONNECTED)
        # The second time, memory has its node as absent.
        for _ in range(2):
            with pytest.raises(BundleReclaimable):
                await one.lookup.find(topic)
        assert one.lookup.recall(topic, authoritative=False) is None


@in_virtual_time
async def test_memory_redirects_to_nobody_while_a_bundle_moves() -> None:
    async with cluster(2) as built, doors(built) as (one, two):
        topic, bundle = topic_in(built.bundles[0]), built.bundles[0]
        one.cluster.leads = two.broker
        await one.lookup.find(topic)
        await one.broker.store.create("/epoch")
        move = MoveNode("m1", bundle, 1, "b0:8080", 1, "b1:8080", 0, 0)
        assert one.lookup.recall(topic, authoritative=False) is not None
        version = one.lookup.version
        await one.broker.moves.begin(move, Check("/epoch", 0))
        await eventually(lambda: one.broker.moves.of(bundle))
        assert one.lookup.version > version
        assert one.lookup.recall(topic, authoritative=False) is None


@in_virtual_time
async def test_memory_redirects_to_nobody_while_a_split_or_merge_is_on_its_way() -> None:
    async with cluster(2) as built, doors(built) as (one, two):
        left, right = built.bundles[:2]
        topic = topic_in(left)
        one.cluster.leads = two.broker
        await one.lookup.find(topic)
        assert one.lookup.recall(topic, authoritative=False) is not None
        one.broker.ownership._owned_bundles.add(OwnedBundle(left.joined(right)))
        assert one.lookup.recall(topic, authoritative=False) is None


@in_virtual_time
async def test_memory_has_no_answer_for_what_nobody_owns() -> None:
    async with cluster(1) as built, doors(built) as (one,):
        topic = topic_in(built.bundles[0])
        await one.lookup.bundle_of(topic)
        await one.lookup.peer_cluster_of(topic.namespace)
        assert await one.broker.ownership.owner_of(built.bundles[0]) is None
        assert one.lookup.recall(topic, authoritative=False) is None
        assert (
            one.lookup.recall(
                Topic("persistent", Namespace("no", "such"), "x"), authoritative=False
            )
            is None
        )
        assert one.lookup.statistics().answers == 0


@pytest.mark.parametrize("state", sorted(set(BundleState) - {BundleState.OWNED}))
@in_virtual_time
async def test_a_bundle_in_motion_is_not_recalled(state: BundleState) -> None:
    async with cluster(2) as built, doors(built) as (one, two):
        topic, bundle = topic_in(built.bundles[0]), built.bundles[0]
        one.cluster.leads = two.broker
        # Memory has its node as absent.
        await one.lookup.find(topic)
        held = OwnedBundle(bundle)
        one.broker.ownership._owned_bundles.add(held)
        held.state = state
        assert one.lookup.recall(topic, authoritative=False) is None
        held.state = BundleState.OWNED
        assert one.lookup.recall(topic, authoritative=False) is not None


@in_virtual_time
async def test_an_owner_that_unloads_is_not_recalled() -> None:
    async with cluster(3) as built, doors(built) as (one, two, three):
        topic, bundle = topic_in(built.bundles[0]), built.bundles[0]
        one.cluster.leads = three.broker
        await two.broker.ownership.acquire(bundle)
        await one.lookup.find(topic)
        version = one.lookup.version
        leaves = NamespaceEphemeralData(two.broker.urls, is_disabled=True).encode()
        await one.broker.store.set(paths.ownership(bundle), leaves)
        await eventually(lambda: one.lookup.recall(topic, authoritative=False) is None)
        assert one.lookup.version > version
        # Also once the new contents have been read.
        assert (await one.broker.ownership._dependencies.owners.owner_of(bundle)) is not None
        assert one.lookup.recall(topic, authoritative=False) is None


@in_virtual_time
async def test_a_namespace_of_another_cluster_is_not_recalled() -> None:
    async with cluster(1) as built, doors(built) as (one,):
        topic = topic_in(built.bundles[0])
        await one.broker.ownership.acquire(built.bundles[0])
        await one.lookup.find(topic)
        assert one.lookup.recall(topic, authoritative=False) is not None
        version = one.lookup.version
        await _put(one.broker, paths.policies(NAMESPACE), {"replication_clusters": ["far"]})
        await eventually(lambda: one.lookup.recall(topic, authoritative=False) is None)
        assert one.lookup.version > version


@in_virtual_time
async def test_nothing_is_recalled_while_the_store_is_away() -> None:
    async with cluster(2) as built, doors(built) as (one, two):
        own, other = map(topic_in, built.bundles[:2])
        await one.broker.ownership.acquire(built.bundles[0])
        await two.broker.ownership.acquire(built.bundles[1])
        for topic in (own, other):
            await one.lookup.find(topic)
            assert one.lookup.recall(topic, authoritative=False) is not None
        version = one.lookup.version
        one.broker.memory.disconnect()
        await asyncio.sleep(0)
        assert one.lookup.version > version
        assert [one.lookup.recall(topic, authoritative=False) for topic in (own, other)] == [
            None,
            None,
        ]
        await eventually(lambda: one.broker.watcher.state is SessionState.LOST, deadline_s=60.0)
        assert one.lookup.recall(own, authoritative=False) is None


@in_virtual_time
async def test_without_authority_nothing_is_recalled(monkeypatch: pytest.MonkeyPatch) -> None:
    async with cluster(1) as built, doors(built) as (one,):
        topic = topic_in(built.bundles[0])
        await one.broker.ownership.acquire(built.bundles[0])
        await one.lookup.find(topic)
        # The lease has run out, and nobody has noticed yet: memory is as it was.
        now_s = one.broker.watcher.deadline_s
        monkeypatch.setattr(one.broker.watcher._clock, "now_s", lambda: now_s)
        assert one.lookup.recall(topic, authoritative=False) is None


# The version of what `Connect` is made of.


@in_virtual_time
async def test_a_lookup_by_itself_changes_no_version() -> None:
    async with cluster(2) as built, doors(built) as (one, two):
        topic = topic_in(built.bundles[0])
        await two.broker.ownership.acquire(built.bundles[0])
        await one.lookup.find(topic)
        version = one.lookup.version
        for _ in range(2):
            assert one.lookup.recall(topic, authoritative=False) is not None
            await one.lookup.find(topic)
        assert one.lookup.version == version


@in_virtual_time
async def test_a_version_ends_with_the_ring() -> None:
    async with cluster(2) as built, doors(built) as (one, two):
        topic = topic_in(built.bundles[0])
        await two.broker.ownership.acquire(built.bundles[0])
        await one.lookup.find(topic)
        version, path = one.lookup.version, paths.local_policies(NAMESPACE)
        written = await two.broker.store.get(path)
        assert written is not None
        assert one.lookup.recall_ring(topic) is not None
        await two.broker.store.set(path, written.data)
        await eventually(lambda: one.lookup.recall_ring(topic) is None)
        assert one.lookup.version > version


@in_virtual_time
async def test_a_version_ends_with_each_state_of_an_own_bundle() -> None:
    async with cluster(1) as built, doors(built) as (one,):
        table = one.broker.ownership._owned_bundles
        held = OwnedBundle(built.bundles[0])
        versions = [one.lookup.version]
        table.add(held)
        versions.append(one.lookup.version)
        for state in (BundleState.OWNED, BundleState.RELEASING):
            held.advance(state)
            versions.append(one.lookup.version)
        table.discard(held)
        versions.append(one.lookup.version)
        assert versions == sorted(set(versions))
