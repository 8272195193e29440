"""What a topic asks of its elections, against what the settings say for all."""

from collections.abc import Mapping

import pytest

from broker_ctl.codec import encode
from broker_ctl.core.partitions.values import NO_LEADER
from broker_ctl.leader.partitions.rules import ControllerRules
from broker_ctl.store import partition_paths
from tests.support.partition_cluster import (
    PartitionCluster,
    Running,
    partition,
    partition_cluster,
)
from tests.support.virtual_time import in_virtual_time
from tests.support.waiting import eventually

P0 = partition("t", 0)
UNCLEAN = "unclean.leader.election.enable"
MIN_ISR = "min.insync.replicas"
ALLOWED = ControllerRules(is_unclean_allowed=True)


async def configure(cluster: PartitionCluster, config: Mapping[str, str]) -> None:
    path = partition_paths.topic_configuration("t")
    await cluster.operator.create(path, encode({"version": 1, "config": config}))


async def lose_all_in_sync(cluster: PartitionCluster, running: Running) -> None:
    """Broker 1 alone is in sync, and dies; 2 lives, and lacks what 1 had."""
    await cluster.led(P0, 1)
    await cluster.write_isr(P0, 1)
    await eventually(lambda: running.leading.context.states[P0].isr == (1,))
    await cluster.stop_broker(1)


@pytest.mark.parametrize("text", ["false", "False", " FALSE ", "flase"])
@in_virtual_time
async def test_a_topic_that_forbids_unclean_elections_wins_over_the_cluster(text: str) -> None:
    async with partition_cluster(1, 2, rules=ALLOWED) as cluster:
        running = await cluster.lead()
        await cluster.create_topic("t", (1, 2))
        await configure(cluster, {UNCLEAN: text})
        await eventually(lambda: not running.leading.context.rules_of("t").is_unclean_allowed)
        await lose_all_in_sync(cluster, running)
        assert (await cluster.led(P0, NO_LEADER)).isr == (1,)
        assert running.value("unclean_elections") == 0


@pytest.mark.parametrize("text", ["true", " True\n"])
@in_virtual_time
async def test_a_topic_that_allows_unclean_elections_wins_over_the_cluster(text: str) -> None:
    async with partition_cluster(1, 2) as cluster:
        running = await cluster.lead()
        await cluster.create_topic("t", (1, 2))
        await configure(cluster, {UNCLEAN: text})
        await eventually(lambda: running.leading.context.rules_of("t").is_unclean_allowed)
        await lose_all_in_sync(cluster, running)
        assert (await cluster.led(P0, 2)).is_recovering


@in_virtual_time
async def test_where_a_topic_does_not_say_the_cluster_decides() -> None:
    async with partition_cluster(1, 2, rules=ALLOWED) as cluster:
        running = await cluster.lead()
        await configure(cluster, {MIN_ISR: "1"})
        await cluster.create_topic("t", (1, 2))
        await lose_all_in_sync(cluster, running)
        assert (await cluster.led(P0, 2)).is_recovering


@in_virtual_time
async def test_a_configuration_that_is_older_than_its_topic_counts() -> None:
    async with partition_cluster(1, 2, rules=ALLOWED) as cluster:
        running = await cluster.lead()
        await configure(cluster, {UNCLEAN: "false", MIN_ISR: "2"})
        await eventually(lambda: not len(running.leading.queue))
        await cluster.create_topic("t", (1, 2))
        await cluster.led(P0, 1)
        assert running.leading.context.rules_of("t").min_isr == 2
        await lose_all_in_sync(cluster, running)
        await cluster.led(P0, NO_LEADER)
