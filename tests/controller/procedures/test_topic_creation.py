"""Topics that operators create and grow (docs: kafka-procedures)."""

import asyncio
from base64 import urlsafe_b64decode
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import replace

import pytest

from broker_ctl.controller.admin.operations import ControllerOperations
from broker_ctl.core.partitions.values import (
    DEFAULT_RULES,
    Assignment,
    ControllerRules,
    TopicAssignment,
    TopicRules,
)
from broker_ctl.errors import (
    InvalidName,
    InvalidReplicas,
    OrderConflict,
    TopicExists,
    TopicMissing,
)
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import Operation
from broker_ctl.store.records.partitions import (
    decode_configuration,
    decode_topic_rules,
    encode_topic,
    encode_topic_rules,
)
from tests.support.clusters.partition_cluster import (
    PartitionCluster,
    Running,
    partition,
    partition_cluster,
    topic_id,
)
from tests.support.clusters.partition_procedures import (
    Story,
    admin_of,
    catching_up,
    ends_alike_wherever_it_is_cut,
    holders,
    procedures,
    topic_of,
)
from tests.support.time.waiting import eventually
from tests.support.zookeeper.faulty_store import led_through

P0, P1 = partition("t", 0), partition("t", 1)


@in_virtual_time
async def test_a_new_topic_has_its_configuration_and_a_leader_when_the_reply_comes() -> None:
    async with catching_up(1, 2, 3) as (cluster, _):
        running = await cluster.lead(procedures())
        admin = admin_of(running)
        rules = TopicRules(is_unclean_allowed=True, min_isr=2)
        replicas = {0: (2, 1), 1: (3, 1)}
        reply = await admin.create_topic("t", replicas, rules, is_dry_run=False)
        assert reply == {
            "topic": "t",
            "partitions": [
                {"topic": "t", "partition": 0, "replicas": [2, 1]},
                {"topic": "t", "partition": 1, "replicas": [3, 1]},
            ],
        }
        state = await cluster.state(P0)
        assert state is not None
        assert (state.leader, state.isr) == (2, (1, 2))
        assert (await cluster.state(P1)) is not None
        topic = await topic_of(cluster, "t")
        assert topic is not None
        assert topic.partitions == {0: Assignment((2, 1)), 1: Assignment((3, 1))}
        # As Kafka writes the 16 bytes of its ids.
        assert len(urlsafe_b64decode(f"{topic.topic_id}==")) == 16
        node = await cluster.operator.get(paths.topic_configuration("t"))
        assert node is not None
        assert decode_topic_rules(node) == rules
        made = await cluster.operator.exists(paths.topic("t"))
        assert made is not None
        assert made.czxid == node.stat.czxid, "one transaction"
        await eventually(lambda: holders(cluster, P0) == {1, 2})
        assert cluster.receivers[1].replicas[P0].min_isr == 2
        other = await admin.create_topic("u", {0: (1,)}, DEFAULT_RULES, is_dry_run=False)
        assert other["topic"] == "u"
        second = await topic_of(cluster, "u")
        assert second is not None
        assert second.topic_id != topic.topic_id


@in_virtual_time
async def test_settings_apply_to_a_new_topic_without_a_configuration_at_once() -> None:
    rules = ControllerRules(min_isr=2)
    async with catching_up(1, 2, rules=rules) as (cluster, _):
        admin = admin_of(await cluster.lead(procedures()))
        await admin.create_topic("t", {0: (1, 2)}, DEFAULT_RULES, is_dry_run=False)
        assert admin.describe("t")["min_isr"] == 2
        await eventually(lambda: holders(cluster, P0) == {1, 2})
        assert cluster.receivers[1].instructions[-1].partitions[0].min_isr == 2


@in_virtual_time
async def test_other_keys_that_were_configured_for_the_name_before_are_kept() -> None:
    async with catching_up(1) as (cluster, _):
        admin = admin_of(await cluster.lead(procedures()))
        path = paths.topic_configuration("t")
        before = encode_topic_rules(TopicRules(min_isr=3), {"retention.ms": "1"})
        await cluster.operator.create(path, before)
        rules = TopicRules(is_unclean_allowed=True)
        await admin.create_topic("t", {0: (1,)}, rules, is_dry_run=False)
        node = await cluster.operator.get(path)
        assert node is not None
        assert decode_configuration(node) == {
            "retention.ms": "1",
            "unclean.leader.election.enable": "true",
        }


@pytest.mark.parametrize(
    ("topic", "replicas", "error", "said"),
    [
        ("a/b", {0: (1,)}, InvalidName, "a replicated topic is"),
        ("old", {0: (1,)}, TopicExists, "there is a topic old already"),
        ("t", {}, InvalidReplicas, "t: partitions are numbered from 0 on, without a gap"),
        ("t", {0: (1,), 2: (1,)}, InvalidReplicas, "without a gap"),
        ("t", {0: (1, 9)}, InvalidReplicas, "t-0 names 9: no such broker lives, only 1, 2"),
        ("t", {0: (1, 1)}, InvalidReplicas, "t-0 names 1 more than once"),
        ("t", {0: ()}, InvalidReplicas, "t-0 names no broker"),
    ],
)
@pytest.mark.parametrize("is_dry_run", [True, False])
@in_virtual_time
async def test_a_topic_that_cannot_be_is_refused_in_a_dry_run_alike(
    topic: str,
    replicas: dict[int, tuple[int, ...]],
    error: type[Exception],
    said: str,
    is_dry_run: bool,
) -> None:
    async with catching_up(1, 2) as (cluster, _):
        admin = admin_of(await cluster.lead(procedures()))
        await admin.create_topic("old", {0: (1,)}, DEFAULT_RULES, is_dry_run=False)
        with pytest.raises(error, match=said):
            await admin.create_topic(topic, replicas, DEFAULT_RULES, is_dry_run=is_dry_run)
        assert await cluster.operator.children(paths.TOPICS) == ["old"]


@pytest.mark.parametrize(
    ("min_isr", "cluster_min_isr"), [(3, 1), (0, 3)], ids=["its own", "the cluster's"]
)
@pytest.mark.parametrize("is_dry_run", [True, False])
@in_virtual_time
async def test_a_topic_that_could_never_commit_is_refused(
    min_isr: int, cluster_min_isr: int, is_dry_run: bool
) -> None:
    rules = ControllerRules(min_isr=cluster_min_isr)
    async with catching_up(1, 2, 3, rules=rules) as (cluster, _):
        admin = admin_of(await cluster.lead(procedures()))
        own = TopicRules(min_isr=min_isr)
        with pytest.raises(InvalidReplicas, match="t-1 has 2 replicas, fewer than its min ISR of"):
            await admin.create_topic("t", {0: (1, 2, 3), 1: (1, 2)}, own, is_dry_run=is_dry_run)
        assert await cluster.operator.children(paths.TOPICS) == []
        await admin.create_topic("t", {0: (1, 2, 3)}, own, is_dry_run=is_dry_run)
        if not is_dry_run:
            with pytest.raises(InvalidReplicas, match="fewer than its min ISR of 3"):
                await admin.grow_topic("t", 2, {1: (1, 2)}, is_dry_run=True)


async def while_it_waits(
    running: Running, act: Awaitable[object], other: Awaitable[object]
) -> None:
    """Another client writes after a request was judged, and before its turn."""
    begun, free = asyncio.Event(), asyncio.Event()

    async def take_long() -> None:
        begun.set()
        await free.wait()

    async def wait(for_it: Awaitable[object]) -> None:
        await for_it

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(running.term.queue.call("slow", take_long), name="slow")
        await begun.wait()
        asked = tasks.create_task(wait(act), name="act")
        await eventually(lambda: len(running.term.queue) == 1)
        await other
        free.set()
        await asyncio.wait([asked])


@in_virtual_time
async def test_creation_of_a_topic_that_another_client_creates_first_is_refused() -> None:
    async with catching_up(1, 2) as (cluster, _):
        running = await cluster.lead(procedures())
        admin = admin_of(running)
        create = admin.create_topic("t", {0: (1,)}, DEFAULT_RULES, is_dry_run=False)
        with pytest.raises(ExceptionGroup) as caught:
            await while_it_waits(running, create, cluster.create_topic("t", (2,)))
        assert caught.group_contains(TopicExists, match="there is a topic t already")
        assert (await cluster.led(P0, 2)).isr == (2,)


@in_virtual_time
async def test_a_topic_that_another_client_grows_first_is_not_overwritten() -> None:
    async with catching_up(1, 2) as (cluster, _):
        running = await cluster.lead(procedures())
        admin = admin_of(running)
        await admin.create_topic("t", {0: (1,)}, DEFAULT_RULES, is_dry_run=False)
        topic = await topic_of(cluster, "t")
        assert topic is not None
        grown = replace(topic, partitions={**topic.partitions, 1: Assignment((2,))})
        write = cluster.operator.set(paths.topic("t"), encode_topic(grown))
        grow = admin.grow_topic("t", 2, {1: (1,)}, is_dry_run=False)
        with pytest.raises(ExceptionGroup) as caught:
            await while_it_waits(running, grow, write)
        assert caught.group_contains(InvalidReplicas, match="t has grown meanwhile")
        assert (await cluster.led(P1, 2)).isr == (2,)


async def delete_below(cluster: PartitionCluster, *, with_topic: bool) -> None:
    """Delete the nodes as a tool does that does not go through the controller."""
    for path in (paths.leader_and_isr(P0), paths.partition(P0)):
        await cluster.operator.delete(path)
    if with_topic:
        await cluster.operator.delete(paths.topic("t"))


@in_virtual_time
async def test_a_topic_that_was_recreated_meanwhile_is_not_overwritten() -> None:
    """Its node has the same version as the one before."""
    async with catching_up(1, 2) as (cluster, _):
        running, store = await led_through(cluster, build_admin=procedures())
        admin = admin_of(running)
        await admin.create_topic("t", {0: (1,)}, DEFAULT_RULES, is_dry_run=False)

        async def recreate(_: Sequence[Operation]) -> None:
            store.before = None
            await delete_below(cluster, with_topic=True)
            await cluster.create_topic("t", (2,), life=2)

        store.before = recreate
        with pytest.raises(TopicMissing, match="t is another topic now"):
            await admin.grow_topic("t", 2, {1: (1,)}, is_dry_run=False)
        assert (await cluster.led(P0, 2)).isr == (2,)
        made = await topic_of(cluster, "t")
        assert made is not None
        assert (made.topic_id, set(made.partitions)) == (topic_id("t", 2), {0})


@in_virtual_time
async def test_a_topic_whose_state_was_deleted_meanwhile_still_grows() -> None:
    async with catching_up(1, 2) as (cluster, _):
        running, store = await led_through(cluster, build_admin=procedures())
        admin = admin_of(running)
        await admin.create_topic("t", {0: (1,)}, DEFAULT_RULES, is_dry_run=False)

        async def take_away(_: Sequence[Operation]) -> None:
            store.before = None
            await delete_below(cluster, with_topic=False)

        store.before = take_away
        await admin.grow_topic("t", 2, {1: (2,)}, is_dry_run=False)
        await cluster.led(P1, 2)


@in_virtual_time
async def test_parent_nodes_are_created_with_the_first_topic() -> None:
    async with catching_up(1) as (cluster, _):
        for path in (paths.TOPIC_CONFIGURATION, "/config", paths.TOPICS):
            await cluster.operator.delete(path)
        admin = admin_of(await cluster.lead(procedures()))
        await admin.create_topic("t", {0: (1,)}, DEFAULT_RULES, is_dry_run=False)
        assert (await cluster.led(P0, 1)).isr == (1,)


@in_virtual_time
async def test_a_dry_run_writes_nothing() -> None:
    async with catching_up(1, 2) as (cluster, _):
        admin = admin_of(await cluster.lead(procedures()))
        await admin.create_topic("t", {0: (1, 2)}, DEFAULT_RULES, is_dry_run=False)
        await cluster.operator.exists("/")
        zxid = cluster.operator.last_zxid
        reply = await admin.create_topic("u", {0: (1, 2)}, DEFAULT_RULES, is_dry_run=True)
        assert reply["partitions"] == [{"topic": "u", "partition": 0, "replicas": [1, 2]}]
        grown = await admin.grow_topic("t", 2, {}, is_dry_run=True)
        assert [row["partition"] for row in grown["partitions"]] == [1]
        assert await cluster.operator.children(paths.TOPICS) == ["t"]
        assert cluster.operator.last_zxid == zxid


@in_virtual_time
async def test_new_partitions_are_spread_over_the_brokers_that_stay() -> None:
    async with catching_up(1, 2, 3, 4) as (cluster, _):
        running = await cluster.lead(procedures())
        admin = admin_of(running)
        found = admin.spread(8, 2)
        assert sorted(found) == list(range(8))
        assert set(Counter(each for of in found.values() for each in of).values()) == {4}
        running.term.context.leaving.add(4)
        assert {each for of in admin.spread(8, 2).values() for each in of} == {1, 2, 3}
        with pytest.raises(InvalidReplicas, match="4 replicas on as many brokers, and 3 live"):
            admin.spread(1, 4)


@in_virtual_time
async def test_a_topic_grows_where_it_has_least_and_what_is_given_stays_as_it_is() -> None:
    async with catching_up(1, 2, 3, 4) as (cluster, _):
        admin = admin_of(await cluster.lead(procedures()))
        await admin.create_topic("t", {0: (1, 2), 1: (2, 1)}, DEFAULT_RULES, is_dry_run=False)
        reply = await admin.grow_topic("t", 4, {3: (3, 1)}, is_dry_run=False)
        rows = {row["partition"]: row["replicas"] for row in reply["partitions"]}
        assert rows[3] == [3, 1]
        assert set(rows[2]) == {3, 4}
        topic = await topic_of(cluster, "t")
        assert topic is not None
        assert topic.partitions[3] == Assignment((3, 1))
        assert len(topic.partitions) == 4
        state = await cluster.state(partition("t", 3))
        assert state is not None
        assert (state.leader, state.isr) == (3, (1, 3))
        await eventually(lambda: holders(cluster, partition("t", 3)) == {1, 3})


@pytest.mark.parametrize(
    ("topic", "partitions", "given", "error", "said"),
    [
        ("u", 3, {}, TopicMissing, "there is no topic u"),
        ("t", 2, {}, InvalidReplicas, "t has 2 partitions already"),
        ("t", 1, {}, InvalidReplicas, "t has 2 partitions already"),
        ("t", 3, {1: (1,)}, InvalidReplicas, r"replicas are given for \[1\]"),
        ("t", 3, {7: (1,)}, InvalidReplicas, "the new partitions are 2 to 2"),
        ("t", 3, {2: (9,)}, InvalidReplicas, "t-2 names 9"),
    ],
)
@in_virtual_time
async def test_a_growth_that_cannot_be_is_refused(
    topic: str,
    partitions: int,
    given: dict[int, tuple[int, ...]],
    error: type[Exception],
    said: str,
) -> None:
    async with catching_up(1, 2) as (cluster, _):
        admin = admin_of(await cluster.lead(procedures()))
        await admin.create_topic("t", {0: (1,), 1: (2,)}, DEFAULT_RULES, is_dry_run=False)
        with pytest.raises(error, match=said):
            await admin.grow_topic(topic, partitions, given, is_dry_run=False)


@in_virtual_time
async def test_a_creation_and_a_growth_end_alike_wherever_their_controller_dies() -> None:
    async def prepare(cluster: PartitionCluster, admin: ControllerOperations) -> None:
        await admin.create_topic("old", {0: (1, 2)}, DEFAULT_RULES, is_dry_run=False)

    async def ask(_: PartitionCluster, admin: ControllerOperations) -> None:
        if not any(row["topic"] == "t" for row in admin.topics()):
            lists = {0: (1, 2), 1: (2, 3)}
            await admin.create_topic("t", lists, DEFAULT_RULES, is_dry_run=False)
        await admin.grow_topic("old", 2, {1: (3, 1)}, is_dry_run=False)

    grown = (P0, P1, partition("old", 0), partition("old", 1))

    async def is_over(cluster: PartitionCluster) -> bool:
        states = [await cluster.state(each) for each in grown]
        return None not in states and holders(cluster, grown[3]) == {1, 3}

    async def final_state(cluster: PartitionCluster) -> list[object]:
        found: list[object] = []
        for each in grown:
            topic, state = await topic_of(cluster, each.topic), await cluster.state(each)
            assert topic is not None
            assert state is not None
            found.append((topic.partitions, state.leader, state.isr, holders(cluster, each)))
        return [*found, await cluster.operator.children("/config/topics")]

    story = Story((1, 2, 3), prepare, ask, is_over, final_state)
    assert await ends_alike_wherever_it_is_cut(story) >= 6


@in_virtual_time
async def test_no_topic_is_made_whose_name_no_server_could_list_with_all_others() -> None:
    async with partition_cluster(1) as cluster:
        running = await cluster.lead(procedures())
        context = running.term.context
        for number in range(3776):
            context.put_topic(f"{number:0240d}", TopicAssignment("", {}))
        admin = admin_of(running)
        # 3776 names of 244 bytes leave 256 of 900 KiB: for one more, and not for two.
        await admin.create_topic("t" * 249, {0: (1,)}, DEFAULT_RULES, is_dry_run=False)
        with pytest.raises(OrderConflict, match="topic 3778, more names than ZooKeeper lists"):
            await admin.create_topic("u", {0: (1,)}, DEFAULT_RULES, is_dry_run=True)
