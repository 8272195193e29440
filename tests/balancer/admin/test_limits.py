"""The leader shows which brokers are beyond limits and caps, and whether all are."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from broker_ctl.balancer.admin.views import overview
from broker_ctl.balancer.planning.term import LeaderTerm
from broker_ctl.balancer.statistics import is_full, topic_spread_violations
from broker_ctl.core.model.names import Topic
from broker_ctl.core.rules.limits import BrokerLimits
from broker_ctl.store import paths
from broker_ctl.store.records.policies import PartitionedTopic
from tests.support.clusters.leader_cluster import LeaderCluster, running_cluster
from tests.support.time.waiting import eventually

A, B = "a:8080", "b:8080"


@pytest.fixture
async def cluster() -> AsyncIterator[LeaderCluster]:
    async with running_cluster(A, B) as running:
        yield running


@pytest.fixture
async def term(cluster: LeaderCluster) -> AsyncIterator[LeaderTerm]:
    """A owns three bundles with all partitions of a topic but those in the fourth, B that one."""
    ring = await cluster.create_namespace(4)
    for index, broker_id in enumerate((A, A, A, B)):
        await cluster.brokers[broker_id].acquire(ring.bundles[index])
    path = paths.partitioned_topic(Topic("persistent", ring.namespace, "orders"))
    await cluster.brokers[A].store.create(path, PartitionedTopic(40).encode(), make_parents=True)
    async with cluster.term(A) as running:
        await cluster.synced(running)
        await eventually(lambda: running.topics is not None and running.topics.is_changed)
        await running.snapshot_builder.build()
        yield running


def limit(cluster: LeaderCluster, table: str, topic_cap: int = 0) -> None:
    limits = BrokerLimits.parse(table)
    placement = replace(cluster.rules.placement_rules, limits=limits, topic_cap=topic_cap)
    cluster.rules = replace(cluster.rules, placement_rules=placement)


async def test_brokers_beyond_limits_are_listed_and_a_full_cluster_says_so(
    cluster: LeaderCluster, term: LeaderTerm
) -> None:
    shown = overview(term, {})
    assert (shown["over_limits"], shown["is_full"], is_full(term)) == ([], False, False)
    limit(cluster, f"{A} usage=0")
    shown = overview(term, {})
    (row,) = shown["over_limits"]
    assert (row["broker"], row["reason"], shown["is_full"]) == (A, "capacity", False)
    assert row["detail"].endswith("usage, its limit is 0.0% usage")
    limit(cluster, ".* usage=0")
    shown = overview(term, {})
    assert [row["broker"] for row in shown["over_limits"]] == [A, B]
    assert (shown["is_full"], is_full(term)) == (True, True)


async def test_topics_above_the_cap_are_listed_and_counted(
    cluster: LeaderCluster, term: LeaderTerm
) -> None:
    assert topic_spread_violations(term) == 0
    limit(cluster, "", topic_cap=20)
    (row,) = overview(term, {})["over_limits"]
    assert (row["broker"], row["reason"]) == (A, "topic_spread")
    assert row["detail"].endswith("orders, at most 20 (loadBalancerTopicPartitionsPerBroker)")
    assert topic_spread_violations(term) == 1
