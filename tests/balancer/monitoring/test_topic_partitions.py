"""The leader reads how many partitions topics have, and follows changes."""

from collections.abc import AsyncIterator

import pytest

from broker_ctl.core.model.broker import NO_CONSTRAINTS, Constraints
from broker_ctl.core.model.names import Topic
from broker_ctl.store import paths
from broker_ctl.store.records.policies import PartitionedTopic
from tests.support.clusters.leader_cluster import LeaderCluster, running_cluster
from tests.support.time.waiting import eventually

A = "a:8080"


@pytest.fixture
async def cluster() -> AsyncIterator[LeaderCluster]:
    async with running_cluster(A) as running:
        yield running


async def test_the_view_knows_the_partitions_of_topics_and_follows_them(
    cluster: LeaderCluster,
) -> None:
    ring = await cluster.create_namespace(4)
    topic = Topic("persistent", ring.namespace, "orders")
    store, path = cluster.brokers[A].store, paths.partitioned_topic(topic)
    for bundle in ring.bundles:
        await cluster.brokers[A].acquire(bundle)
    await store.create(path, PartitionedTopic(12).encode(), make_parents=True)
    # What Pulsar's V1 names leave there is not a topic, and what does not decode is left out.
    await store.create(f"{paths.PARTITIONED_TOPICS}/t/c/ns/persistent/x", b"{}", make_parents=True)
    await store.create(paths.partitioned_topic(Topic("persistent", ring.namespace, "torn")), b"[")
    async with cluster.term(A) as term:
        await cluster.synced(term)

        async def seen() -> dict[str, int]:
            view = await term.snapshot_builder.build()
            topics = view.constraints.topics
            listed = sum(sum(topics.of(bundle).values()) for bundle in ring.bundles)
            assert listed == sum(view.brokers[A].partitions.values())
            return dict(view.brokers[A].partitions)

        await eventually(lambda: term.topics is not None and term.topics.is_changed)
        assert await seen() == {str(topic): 12}
        same = term.dependencies.constraints()
        assert term.dependencies.constraints() is same
        await store.set(path, PartitionedTopic(20).encode())
        await eventually(lambda: term.topics is not None and term.topics.is_changed)
        assert await seen() == {str(topic): 20}
        cluster.constraints = Constraints(domain_of={A: "rack-1"})
        assert term.dependencies.constraints().domain_of == {A: "rack-1"}
        assert term.dependencies.constraints().topics is not NO_CONSTRAINTS.topics
        await store.delete(path)
        await eventually(lambda: term.topics is not None and term.topics.is_changed)
        assert await seen() == {}


async def test_without_partitioned_topics_the_constraints_are_what_operators_have_set(
    cluster: LeaderCluster,
) -> None:
    async with cluster.term(A) as term:
        await cluster.synced(term)
        assert (await term.snapshot_builder.build()).constraints is cluster.constraints
