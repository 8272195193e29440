"""The configuration of a topic wins over the settings for all topics in its elections."""

from collections.abc import Mapping, Sequence

import pytest

from broker_ctl.codec import encode
from broker_ctl.controller.admin.operations import ControllerOperations
from broker_ctl.core.partitions.values import MIN_ISR, NO_LEADER, UNCLEAN, ControllerRules
from broker_ctl.errors import InvalidReplicas, OrderConflict, TopicMissing
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import Operation
from broker_ctl.store.records.partitions import decode_configuration
from tests.support.clusters.partition_cluster import (
    PartitionCluster,
    Running,
    partition,
    partition_cluster,
)
from tests.support.clusters.partition_procedures import admin_of, procedures
from tests.support.time.waiting import eventually
from tests.support.zookeeper.faulty_store import led_through, lose_reply

P0 = partition("t", 0)
ALLOWED = ControllerRules(is_unclean_allowed=True)


async def configure(cluster: PartitionCluster, config: Mapping[str, str]) -> None:
    path = paths.topic_configuration("t")
    await cluster.operator.create(path, encode({"version": 1, "config": config}))


async def lose_all_in_sync(cluster: PartitionCluster, running: Running) -> None:
    """Broker 1 alone is in sync, and dies; 2 lives, and lacks what 1 had."""
    await cluster.led(P0, 1)
    await cluster.write_isr(P0, 1)
    await eventually(lambda: running.term.context.states[P0].isr == (1,))
    await cluster.stop_broker(1)


@pytest.mark.parametrize("text", ["false", "False", " FALSE ", "flase"])
@in_virtual_time
async def test_a_topic_that_forbids_unclean_elections_wins_over_the_cluster(text: str) -> None:
    async with partition_cluster(1, 2, rules=ALLOWED) as cluster:
        running = await cluster.lead()
        await cluster.create_topic("t", (1, 2))
        await configure(cluster, {UNCLEAN: text})
        await eventually(lambda: not running.term.context.rules_of("t").is_unclean_allowed)
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
        await eventually(lambda: running.term.context.rules_of("t").is_unclean_allowed)
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
        await eventually(lambda: not len(running.term.queue))
        await cluster.create_topic("t", (1, 2))
        await cluster.led(P0, 1)
        assert running.term.context.rules_of("t").min_isr == 2
        await lose_all_in_sync(cluster, running)
        await cluster.led(P0, NO_LEADER)


# Changed after the topic was made.


async def configured(cluster: PartitionCluster) -> Mapping[str, str]:
    node = await cluster.operator.get(paths.topic_configuration("t"))
    return {} if node is None else decode_configuration(node)


async def made(cluster: PartitionCluster) -> tuple[Running, ControllerOperations]:
    running = await cluster.lead(procedures())
    await cluster.create_topic("t", (1, 2))
    await cluster.led(P0, 1)
    return running, admin_of(running)


@in_virtual_time
async def test_altered_rules_of_a_topic_apply_at_once_and_its_leaders_are_notified() -> None:
    async with partition_cluster(1, 2) as cluster:
        _, admin = await made(cluster)
        changes = {MIN_ISR: "2", UNCLEAN: "true"}
        dry = await admin.alter_topic("t", changes, is_dry_run=True)
        assert await configured(cluster) == {}
        assert await admin.alter_topic("t", changes, is_dry_run=False) == dry
        assert (dry["before"], dry["after"]) == (
            {"min_isr": 1, "unclean": False},
            {"min_isr": 2, "unclean": True},
        )
        assert await configured(cluster) == changes
        await eventually(lambda: cluster.receivers[1].replicas[P0].min_isr == 2)
        assert (admin.describe("t")["min_isr"], admin.describe("t")["unclean"]) == (2, True)
        await admin.alter_topic("t", {MIN_ISR: None}, is_dry_run=False)
        assert await configured(cluster) == {UNCLEAN: "true"}
        await eventually(lambda: cluster.receivers[1].replicas[P0].min_isr == 1)


@in_virtual_time
async def test_an_offline_partition_is_led_once_its_topic_allows_unclean_elections() -> None:
    async with partition_cluster(1, 2) as cluster:
        running, admin = await made(cluster)
        await lose_all_in_sync(cluster, running)
        await cluster.led(P0, NO_LEADER)
        await admin.alter_topic("t", {UNCLEAN: "true"}, is_dry_run=False)
        assert (await cluster.led(P0, 2)).is_recovering


@in_virtual_time
async def test_a_dry_run_counts_the_partitions_that_would_be_below_their_min_isr() -> None:
    async with partition_cluster(1, 2) as cluster:
        running, admin = await made(cluster)
        await cluster.stop_broker(2)
        await eventually(lambda: running.term.context.states[P0].isr == (1,))
        dry = await admin.alter_topic("t", {MIN_ISR: "2"}, is_dry_run=True)
        assert dry["under_min_isr"] == 1


@pytest.mark.parametrize("is_dry_run", [True, False])
@in_virtual_time
async def test_invalid_changes_of_topic_rules_are_refused(is_dry_run: bool) -> None:
    async with partition_cluster(1, 2) as cluster:
        _, admin = await made(cluster)
        with pytest.raises(InvalidReplicas, match="t-0 has 2 replicas, fewer than its min ISR of"):
            await admin.alter_topic("t", {MIN_ISR: "3"}, is_dry_run=is_dry_run)
        with pytest.raises(TopicMissing, match="there is no topic u"):
            await admin.alter_topic("u", {MIN_ISR: "1"}, is_dry_run=is_dry_run)
        await configure(cluster, {UNCLEAN: "flase"})
        with pytest.raises(OrderConflict, match="neither true nor false: change that too"):
            await admin.alter_topic("t", {MIN_ISR: "2"}, is_dry_run=is_dry_run)
        await admin.alter_topic("t", {MIN_ISR: "2", UNCLEAN: None}, is_dry_run=is_dry_run)
        assert (await configured(cluster) == {MIN_ISR: "2"}) is not is_dry_run


@in_virtual_time
async def test_configuration_that_another_client_writes_meanwhile_is_kept() -> None:
    async with partition_cluster(1, 2) as cluster:
        running, store = await led_through(cluster, build_admin=procedures())
        await cluster.create_topic("t", (1, 2))
        await cluster.led(P0, 1)

        async def configure_first(operations: Sequence[Operation]) -> None:
            if any(operation.path.startswith("/config/topics/") for operation in operations):
                store.before = None
                await configure(cluster, {"retention.ms": "1"})

        store.before = configure_first
        await admin_of(running).alter_topic("t", {MIN_ISR: "2"}, is_dry_run=False)
        assert await configured(cluster) == {"retention.ms": "1", MIN_ISR: "2"}


@in_virtual_time
async def test_a_change_whose_reply_is_lost_is_made_once() -> None:
    async with partition_cluster(1, 2) as cluster:
        running, store = await led_through(cluster, build_admin=procedures())
        await cluster.create_topic("t", (1, 2))
        await cluster.led(P0, 1)

        async def lose(operations: Sequence[Operation]) -> None:
            if any(operation.path.startswith("/config/topics/") for operation in operations):
                store.after = None
                await lose_reply(operations)

        store.after = lose
        await admin_of(running).alter_topic("t", {MIN_ISR: "2"}, is_dry_run=False)
        node = await cluster.operator.get(paths.topic_configuration("t"))
        assert node is not None
        assert (node.stat.version, await configured(cluster)) == (0, {MIN_ISR: "2"})


@in_virtual_time
async def test_a_topic_that_goes_meanwhile_leaves_no_configuration_behind() -> None:
    async with partition_cluster(1, 2) as cluster:
        running, store = await led_through(cluster, build_admin=procedures())
        await cluster.create_topic("t", (1, 2))
        await cluster.led(P0, 1)

        async def take_away(operations: Sequence[Operation]) -> None:
            if any(operation.path.startswith("/config/topics/") for operation in operations):
                store.before = None
                below = (paths.leader_and_isr(P0), paths.partition(P0))
                for path in (*below, paths.topic("t")):
                    await cluster.operator.delete(path)

        store.before = take_away
        with pytest.raises(TopicMissing, match="there is no topic t any more"):
            await admin_of(running).alter_topic("t", {MIN_ISR: "2"}, is_dry_run=False)
        assert await configured(cluster) == {}
