"""Partitions moved by a controller, over brokers that catch up.

Docs: kafka-design-v3, kafka-reassignment.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import cast

import pytest

from broker_ctl.controller.admin.operations import ControllerOperations
from broker_ctl.controller.state.batch_writer import CHUNK
from broker_ctl.core.partitions.values import (
    DEFAULT_RULES,
    Assignment,
    ControllerRules,
    TopicAssignment,
    TopicPartition,
)
from broker_ctl.errors import (
    InvalidReplicas,
    MultiFailed,
    NoAuth,
    ReassignmentMissing,
    SessionExpired,
    TopicMissing,
)
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths as partition_paths
from broker_ctl.store.interface import (
    Change,
    Check,
    Delete,
    MetadataStore,
    Notification,
    Operation,
    SetData,
)
from broker_ctl.store.records.partitions import encode_request, encode_topic
from tests.support.clusters.partition_cluster import PartitionCluster, Running, partition
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
from tests.support.zookeeper.faulty_store import TryingStore

P0, P1 = partition("t", 0), partition("t", 1)
EITHER = pytest.mark.parametrize("has_queues", [False, True], ids=["http", "zkqueue"])


async def led_through(cluster: PartitionCluster) -> tuple[Running, TryingStore]:
    """A controller whose store can be interfered with."""
    trying: list[TryingStore] = []

    def wrap(store: MetadataStore) -> MetadataStore:
        trying.append(TryingStore(store))
        return cast("MetadataStore", trying[-1])

    running = await cluster.lead(procedures(), wrap)
    return running, trying[0]


async def create(running: Running, *replicas: tuple[int, ...]) -> None:
    lists = dict(enumerate(replicas))
    await admin_of(running).create_topic("t", lists, DEFAULT_RULES, is_dry_run=False)


def is_the_end(operations: Sequence[Operation]) -> bool:
    """Whether this writes the final assignment, where the states are still what they were."""
    paths = [each.path for each in operations if isinstance(each, Check)]
    return any(path.endswith("/leaderAndISR") for path in paths)


async def is_on(cluster: PartitionCluster, of: TopicPartition, *replicas: int) -> bool:
    topic = await topic_of(cluster, of.topic)
    return topic is not None and topic.partitions[of.partition] == Assignment(replicas)


async def moved(cluster: PartitionCluster, of: TopicPartition, *replicas: int) -> None:
    """Wait until a partition has these replicas, and no other broker holds one."""

    async def is_moved() -> bool:
        return await is_on(cluster, of, *replicas) and holders(cluster, of) == set(replicas)

    await eventually(is_moved, what=f"{of} is on {replicas}")


async def put_request(cluster: PartitionCluster, number: int, *replicas: int) -> str:
    """Write the request of a reassignment as an operator's tool does."""
    path = partition_paths.reassigned(partition("t", number))
    await cluster.operator.create(path, encode_request(replicas), make_parents=True)
    return path


async def gone(cluster: PartitionCluster, path: str) -> None:
    async def is_gone() -> bool:
        return await cluster.operator.exists(path) is None

    await eventually(is_gone, what=f"{path} is gone")


@EITHER
@in_virtual_time
async def test_a_partition_is_moved_and_its_request_goes_with_the_final_assignment(
    has_queues: bool,
) -> None:
    async with catching_up(1, 2, 3, 4, 5, 6, has_queues=has_queues) as (cluster, _):
        running = await cluster.lead(procedures())
        await create(running, (1, 2, 3))
        seen: list[Notification] = []
        await cluster.operator.watch(partition_paths.REASSIGNED, seen.append)
        request = await put_request(cluster, 0, 4, 5, 6)
        await moved(cluster, P0, 4, 5, 6)
        state = await cluster.state(P0)
        assert state is not None
        assert (state.leader, state.isr) == (4, (4, 5, 6))
        node = await cluster.operator.get(partition_paths.topic("t"))
        assert node is not None
        assert node.stat.version == 2, "begun and finished"
        (deleted,) = [each for each in seen if each[:2] == (Change.DELETED, request)]
        assert deleted.zxid == node.stat.mzxid, "one transaction"
        assert cluster.receivers[5].replicas[P0].replicas == (4, 5, 6)
        (stop,) = [
            stop for instruction in cluster.receivers[1].instructions for stop in instruction.stops
        ]
        assert (stop.partition, stop.is_deleted) == (P0, True)
        assert stop.leader_epoch == state.leader_epoch == 2
        assert admin_of(running).reassignments() == []


@in_virtual_time
async def test_a_reassignment_waits_for_its_target_and_names_the_missing_replicas() -> None:
    async with catching_up(1, 2, 3, 4) as (cluster, catching):
        running = await cluster.lead(procedures())
        await create(running, (1, 2))
        catching.lagging = {4}
        reply = await admin_of(running).reassign({P0: (3, 4)}, is_dry_run=False)
        assert reply["partitions"] == [
            {"topic": "t", "partition": 0, "replicas": [3, 4], "before": [1, 2]}
        ]

        def waits_for_four() -> bool:
            rows = admin_of(running).reassignments()
            return [row["missing"] for row in rows] == [[4]]

        await eventually(waits_for_four)
        (row,) = admin_of(running).reassignments()
        assert (row["replicas"], row["isr"]) == ([3, 4], [1, 2, 3])
        assert (row["adding"], row["removing"]) == ([3, 4], [1, 2])
        topic, state = await topic_of(cluster, "t"), await cluster.state(P0)
        assert topic is not None
        assert topic.partitions[0] == Assignment((3, 4, 1, 2), (3, 4), (1, 2))
        assert state is not None
        assert state.leader_epoch == 1, "all are notified once"
        catching.lagging = set()
        await moved(cluster, P0, 3, 4)


@in_virtual_time
async def test_a_cancelled_one_goes_back_and_leaves_nothing() -> None:
    async with catching_up(1, 2, 3, 4) as (cluster, catching):
        running = await cluster.lead(procedures())
        await create(running, (1, 2))
        catching.lagging = {4}
        await admin_of(running).reassign({P0: (3, 4)}, is_dry_run=False)
        await eventually(lambda: holders(cluster, P0) == {1, 2, 3, 4})
        judged = await admin_of(running).cancel_reassignment([], is_dry_run=True)
        assert judged["partitions"] == [
            {"topic": "t", "partition": 0, "replicas": [1, 2], "before": [3, 4]}
        ]
        assert len(admin_of(running).reassignments()) == 1
        await admin_of(running).cancel_reassignment([P0], is_dry_run=False)
        await moved(cluster, P0, 1, 2)
        state = await cluster.state(P0)
        assert state is not None
        assert (state.leader, state.isr) == (1, (1, 2))
        with pytest.raises(ReassignmentMissing, match="t-0 is not being reassigned"):
            await admin_of(running).cancel_reassignment([P0], is_dry_run=False)


@in_virtual_time
async def test_an_override_ends_where_it_says() -> None:
    async with catching_up(1, 2, 3, 4, 5) as (cluster, catching):
        running = await cluster.lead(procedures())
        await create(running, (1, 2))
        catching.lagging = {4}
        await admin_of(running).reassign({P0: (3, 4)}, is_dry_run=False)
        await admin_of(running).reassign({P0: (5, 2)}, is_dry_run=False)
        await moved(cluster, P0, 5, 2)
        state = await cluster.state(P0)
        assert state is not None
        assert state.leader in {2, 5}
        assert state.isr == (2, 5)
        await gone(cluster, partition_paths.reassigned(P0))


@in_virtual_time
async def test_another_order_is_written_and_nothing_is_moved() -> None:
    async with catching_up(1, 2, 3) as (cluster, _):
        running = await cluster.lead(procedures())
        await create(running, (1, 2, 3))
        before = await cluster.state(P0)
        request = await put_request(cluster, 0, 2, 1, 3)
        await moved(cluster, P0, 2, 1, 3)
        await gone(cluster, request)
        assert await cluster.state(P0) == before


@in_virtual_time
async def test_a_partition_that_nobody_ever_led_is_moved_and_led() -> None:
    async with catching_up(1, 2) as (cluster, _):
        await cluster.lead(procedures())
        await cluster.create_topic("t", (7, 8))
        await put_request(cluster, 0, 1, 2)
        await moved(cluster, P0, 1, 2)
        assert (await cluster.led(P0, 1)).isr == (1, 2)


@pytest.mark.parametrize(
    ("target", "error", "said"),
    [
        ((1, 9), InvalidReplicas, "t-0 names 9: no such broker lives, only 1, 2, 3"),
        ((1, 1), InvalidReplicas, "t-0 names 1 more than once"),
        ((), InvalidReplicas, "t-0 names no broker"),
    ],
)
@in_virtual_time
async def test_a_target_that_cannot_be_is_refused_and_none_of_the_others_is_begun(
    target: tuple[int, ...], error: type[Exception], said: str
) -> None:
    async with catching_up(1, 2, 3) as (cluster, _):
        running = await cluster.lead(procedures())
        await create(running, (1, 2), (1, 2))
        with pytest.raises(error, match=said):
            await admin_of(running).reassign({P1: (1, 3), P0: target}, is_dry_run=False)
        with pytest.raises(TopicMissing, match="there is no partition t-7"):
            await admin_of(running).reassign({partition("t", 7): (1,)}, is_dry_run=False)
        assert admin_of(running).reassignments() == []
        assert await cluster.operator.children(partition_paths.REASSIGNED) == []


@in_virtual_time
async def test_a_target_that_could_commit_nothing_is_refused_however_it_is_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rules = ControllerRules(min_isr=2)
    async with catching_up(1, 2, 3, rules=rules) as (cluster, _):
        running = await cluster.lead(procedures())
        await create(running, (1, 2))
        said = "t-0 has 1 replica, fewer than its min ISR of 2: nothing could be committed"
        with pytest.raises(InvalidReplicas, match=said):
            await admin_of(running).reassign({P0: (3,)}, is_dry_run=True)
        request = partition_paths.reassigned(P0)
        await cluster.operator.create(request, encode_request((3,)), make_parents=True)

        async def is_refused() -> bool:
            return await cluster.operator.exists(request) is None

        await eventually(is_refused)
        assert "fewer than its min ISR of 2" in caplog.text
        assert await is_on(cluster, P0, 1, 2)


@in_virtual_time
async def test_nothing_is_left_of_requests_that_were_carried_out() -> None:
    async with catching_up(1, 2, 3) as (cluster, _):
        running = await cluster.lead(procedures())
        await create(running, (1, 2), (1, 2))
        left_over = partition_paths.reassigned(partition("gone", 0))
        await cluster.operator.create(left_over, b"", make_parents=True)
        await cluster.operator.delete(left_over)
        await admin_of(running).reassign({P0: (1, 3), P1: (3, 2)}, is_dry_run=False)

        async def is_empty() -> bool:
            return await cluster.operator.children(partition_paths.REASSIGNED) == []

        await eventually(is_empty, what="no parent of requests")
        assert await is_on(cluster, P0, 1, 3)
        assert await is_on(cluster, P1, 3, 2)


@in_virtual_time
async def test_parents_of_past_requests_go_together_and_are_not_listed() -> None:
    async with catching_up(1, 2) as (cluster, _):
        for number in range(CHUNK + 100):
            past = partition_paths.reassigned(partition(f"past-{number}", 0))
            await cluster.operator.create(past, b"", make_parents=True)
            await cluster.operator.delete(past)
        running, trying = await led_through(cluster)
        await create(running, (1, 2))

        async def is_empty() -> bool:
            return await cluster.operator.children(partition_paths.REASSIGNED) == []

        await eventually(is_empty, what="no parent of requests")
        assert not [path for path in trying.listed if "past-" in path]
        removing = [each for each in trying.transactions if "past-" in each[-1].path]
        assert len(removing) == 2


@in_virtual_time
async def test_a_parent_that_cannot_be_deleted_keeps_no_other_from_it() -> None:
    async with catching_up(1, 2) as (cluster, _):
        parents = [partition_paths.reassigned_topic(name) for name in ("kept", "past-1", "past-2")]
        for parent in parents:
            await cluster.operator.create(f"{parent}/0", b"", make_parents=True)
            await cluster.operator.delete(f"{parent}/0")

        async def refuse(operations: Sequence[Operation]) -> None:
            paths = [each.path for each in operations]
            if parents[0] in paths:
                raise MultiFailed(paths.index(parents[0]), parents[0], NoAuth("its ACL"))

        def wrap(store: MetadataStore) -> MetadataStore:
            trying = TryingStore(store)
            trying.before = refuse
            return cast("MetadataStore", trying)

        await cluster.lead(procedures(), wrap)
        assert await cluster.operator.children(partition_paths.REASSIGNED) == ["kept"]


@in_virtual_time
async def test_a_parent_that_was_made_for_what_comes_next_stays() -> None:
    async with catching_up(1, 2) as (cluster, _):
        running = await cluster.lead(procedures())
        await create(running, (1, 2))
        parent = partition_paths.reassigned_topic("t")
        await cluster.operator.create(parent, make_parents=True)
        term = running.term
        await term.queue.call("look", term.procedures[1].on_requests_changed)
        assert await cluster.operator.exists(parent) is not None
        await cluster.operator.create(partition_paths.reassigned(P0), encode_request((2, 1)))

        async def is_moved() -> bool:
            return await is_on(cluster, P0, 2, 1)

        await eventually(is_moved)


@in_virtual_time
async def test_requests_that_cannot_be_are_taken_away_and_keep_no_other_from_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """KAFKA-9478: a request that was left there kept all later ones from being seen."""
    async with catching_up(1, 2, 3) as (cluster, _):
        running = await cluster.lead(procedures())
        await create(running, (1, 2), (1, 2))
        broken = partition_paths.reassigned(P1)
        foreign = f"{partition_paths.reassigned_topic('t')}/first"
        await cluster.operator.create(broken, b"{", make_parents=True)
        await cluster.operator.create(foreign, b"")
        dead = partition_paths.reassigned(partition("t", 4))
        await cluster.operator.create(dead, encode_request((1,)))
        with caplog.at_level(logging.WARNING):
            await put_request(cluster, 0, 1, 3)
            await moved(cluster, P0, 1, 3)
            await gone(cluster, broken)
            await gone(cluster, dead)
        assert "there is no partition t-4" in caplog.text
        assert await cluster.operator.exists(foreign) is not None
        assert f"ignored {foreign}: " in caplog.text
        await put_request(cluster, 1, 9, 3)
        await gone(cluster, partition_paths.reassigned(P1))
        assert "it names 9: no such broker lives" in caplog.text
        await put_request(cluster, 1, 3, 2)
        await moved(cluster, P1, 3, 2)


@in_virtual_time
async def test_a_target_broker_that_dies_is_waited_for() -> None:
    async with catching_up(1, 2, 3, 4) as (cluster, catching):
        running = await cluster.lead(procedures())
        await create(running, (1, 2))
        catching.lagging = {4}
        await admin_of(running).reassign({P0: (3, 4)}, is_dry_run=False)
        await eventually(lambda: holders(cluster, P0) == {1, 2, 3, 4})
        await cluster.stop_broker(4)
        await cluster.stop_broker(1)
        assert (await cluster.led(P0, 3)).isr == (2, 3)
        catching.lagging = set()
        await cluster.start_broker(4)

        async def is_moved() -> bool:
            return await is_on(cluster, P0, 3, 4)

        await eventually(is_moved)
        assert holders(cluster, P0) == {1, 3, 4}, "1 is down and hears of nothing"
        await cluster.start_broker(1)
        await eventually(lambda: holders(cluster, P0) == {3, 4}, what="the stray is gone")


@in_virtual_time
async def test_a_removed_replica_does_not_come_back_where_nothing_is_written() -> None:
    """KAFKA-1097, 1170: without new records it was in sync again before it was stopped."""
    async with catching_up(1, 2, 3) as (cluster, _):
        running, store = await led_through(cluster)
        await create(running, (1, 2))
        returned: list[int] = []

        async def return_once(operations: Sequence[Operation]) -> None:
            is_last = is_the_end(operations)
            if is_last and not returned:
                state = await cluster.state(P0)
                assert state is not None
                assert state.isr == (1, 3)
                await cluster.write_isr(P0, 1, 2, 3)
                returned.append(2)

        store.before = return_once
        await admin_of(running).reassign({P0: (1, 3)}, is_dry_run=False)
        await moved(cluster, P0, 1, 3)
        assert returned == [2]
        state = await cluster.state(P0)
        assert state is not None
        assert state.isr == (1, 3)


@in_virtual_time
async def test_an_override_in_the_last_moment_is_not_taken_for_what_was_done() -> None:
    async with catching_up(1, 2, 3, 4) as (cluster, _):
        running, store = await led_through(cluster)
        await create(running, (1, 2))
        changed: list[str] = []

        async def override(operations: Sequence[Operation]) -> None:
            if is_the_end(operations) and not changed:
                changed.append(partition_paths.reassigned(P0))
                await cluster.operator.set(changed[0], encode_request((4, 2)))

        store.before = override
        await admin_of(running).reassign({P0: (1, 3)}, is_dry_run=False)
        await moved(cluster, P0, 4, 2)
        await gone(cluster, changed[0])


@in_virtual_time
async def test_a_request_for_what_is_there_already_goes_and_changes_nothing() -> None:
    async with catching_up(1, 2) as (cluster, _):
        running = await cluster.lead(procedures())
        await create(running, (1, 2))
        before = await cluster.state(P0)
        await gone(cluster, await put_request(cluster, 0, 1, 2))
        assert await cluster.state(P0) == before
        assert await is_on(cluster, P0, 1, 2)


@in_virtual_time
async def test_a_request_that_changes_while_it_is_carried_out_is_not_lost() -> None:
    async with catching_up(1, 2, 3) as (cluster, _):
        running, store = await led_through(cluster)
        await create(running, (1, 2))
        path = partition_paths.reassigned(P0)

        async def change(operations: Sequence[Operation]) -> None:
            if any(isinstance(each, Delete) and each.path == path for each in operations):
                store.before = None
                await cluster.operator.set(path, encode_request((3, 1)))

        store.before = change
        await put_request(cluster, 0, 2, 1)
        await moved(cluster, P0, 3, 1)
        await gone(cluster, path)


@in_virtual_time
async def test_a_replica_that_an_operator_assigns_just_before_the_end_is_not_stopped() -> None:
    async with catching_up(1, 2, 3) as (cluster, _):
        running, store = await led_through(cluster)
        await create(running, (1, 2))

        async def assign(operations: Sequence[Operation]) -> None:
            if is_the_end(operations):
                store.before = None
                topic = await topic_of(cluster, "t")
                assert topic is not None
                other = replace(topic, partitions={0: Assignment((1, 2))})
                path = partition_paths.topic("t")
                await cluster.operator.set(path, encode_topic(other))

        store.before = assign
        await put_request(cluster, 0, 1, 3)
        await moved(cluster, P0, 1, 3)


@in_virtual_time
async def test_a_cancelled_one_waits_for_the_only_origin_replica_in_sync() -> None:
    async with catching_up(1, 3) as (cluster, catching):
        running = await cluster.lead(procedures())
        await create(running, (1,))
        catching.lagging = {3}
        await admin_of(running).reassign({P0: (3,)}, is_dry_run=False)
        await eventually(lambda: holders(cluster, P0) == {1, 3})
        await cluster.stop_broker(1)
        await cluster.led(P0, -1)
        await admin_of(running).cancel_reassignment([P0], is_dry_run=False)
        (row,) = admin_of(running).reassignments()
        assert (row["replicas"], row["missing"]) == ([1], [])
        await cluster.start_broker(1)
        await moved(cluster, P0, 1)
        assert (await cluster.led(P0, 1)).isr == (1,)


@in_virtual_time
async def test_an_undone_reassignment_is_announced_to_a_leader_that_knows_only_the_target() -> None:
    async with catching_up(1, 2) as (cluster, _):
        first, store = await led_through(cluster)
        await create(first, (1, 2))
        await eventually(lambda: holders(cluster, P0) == {1, 2})

        async def die(operations: Sequence[Operation]) -> None:
            if is_the_end(operations):
                await eventually(lambda: cluster.receivers[1].replicas[P0].replicas == (1,))
                raise SessionExpired("the controller was killed here")

        store.before = die
        path = await put_request(cluster, 0, 1)
        await eventually(first.task.done)
        await cluster.operator.set(path, encode_request((1, 2)))
        await cluster.lead(procedures())
        await gone(cluster, path)

        async def is_back() -> bool:
            state = await cluster.state(P0)
            return state is not None and state.isr == (1, 2)

        await eventually(is_back)
        replica = cluster.receivers[1].replicas[P0]
        assert (replica.replicas, replica.state.leader_epoch) == ((1, 2), 2), (
            "an epoch is announced once"
        )
        assert await is_on(cluster, P0, 1, 2)


@in_virtual_time
async def test_a_request_for_a_topic_that_is_not_known_yet_is_not_refused() -> None:
    async with catching_up(1, 2, 3) as (cluster, _):
        running = await cluster.lead(procedures())

        async def made_at_once() -> None:
            # The event of the requests waits before that of the topics.
            await put_request(cluster, 7, 1)
            await cluster.create_topic("t", (1, 2))
            await put_request(cluster, 0, 1, 3)

        await running.term.queue.call("made at once", made_at_once)
        await moved(cluster, P0, 1, 3)


@in_virtual_time
async def test_many_partitions_of_a_topic_are_written_together() -> None:
    """KAFKA-6617: the node of the topic was written once for each partition."""
    many = 500
    async with catching_up(1, 2, 3) as (cluster, catching):
        running, store = await led_through(cluster)
        await create(running, *[(1, 2)] * many)
        catching.lagging = {3}
        before = len(store.transactions)
        targets = {partition("t", number): (1, 3) for number in range(many)}
        await admin_of(running).reassign(targets, is_dry_run=False)
        catching.lagging = set()
        await eventually(lambda: not admin_of(running).reassignments(), 60)
        path = partition_paths.topic("t")
        written = [
            operation
            for transaction in store.transactions[before:]
            for operation in transaction
            if isinstance(operation, SetData) and operation.path == path
        ]
        assert len(written) < many / 20
        topic = await topic_of(cluster, "t")
        assert topic is not None
        assert set(topic.partitions.values()) == {Assignment((1, 3))}


# Cut after every transaction.


async def two_partitions(cluster: PartitionCluster, _: ControllerOperations) -> None:
    await cluster.create_topic("t", (1, 2, 3), (2, 3, 1))
    await cluster.led(P0, 1)
    await cluster.led(P1, 2)


async def final_state(cluster: PartitionCluster) -> list[object]:
    """All that there is at the end, except for epochs."""
    found: list[object] = [await topic_of(cluster, "t")]
    for each in (P0, P1):
        state = await cluster.state(each)
        assert state is not None
        found.append((state.leader, state.isr, sorted(holders(cluster, each))))
    topic = found[0]
    assert isinstance(topic, TopicAssignment)
    found[0] = topic.partitions
    return [*found, await cluster.operator.children(partition_paths.reassigned_topic("t"))]


def story(
    ask: Callable[[PartitionCluster, ControllerOperations], Awaitable[object]],
    first: tuple[int, ...],
    second: tuple[int, ...],
    prepare: Callable[[PartitionCluster, ControllerOperations], Awaitable[object]] = two_partitions,
) -> Story:
    """One that ends with both partitions where they are to be."""
    wanted = {P0: first, P1: second}

    async def is_over(cluster: PartitionCluster) -> bool:
        for each, replicas in wanted.items():
            state = await cluster.state(each)
            if state is None or state.isr != tuple(sorted(replicas)):
                return False
            if holders(cluster, each) != set(replicas) or not await is_on(cluster, each, *replicas):
                return False
        return not await cluster.operator.children(partition_paths.reassigned_topic("t"))

    return Story((1, 2, 3, 4, 5, 6), prepare, ask, is_over, final_state)


@in_virtual_time
async def test_a_reassignment_ends_alike_wherever_its_controller_dies() -> None:
    async def ask(_: PartitionCluster, admin: ControllerOperations) -> None:
        await admin.reassign({P0: (4, 5, 6), P1: (2, 4)}, is_dry_run=False)

    assert await ends_alike_wherever_it_is_cut(story(ask, (4, 5, 6), (2, 4))) >= 12


async def stuck(cluster: PartitionCluster, admin: ControllerOperations) -> None:
    """Both partitions move to a broker that dies before it has caught up."""
    await two_partitions(cluster, admin)
    await cluster.start_broker(9)
    await eventually(lambda: any(row["broker"] == 9 for row in admin.overview()["brokers"]))
    await admin.reassign({P0: (4, 9), P1: (2, 9)}, is_dry_run=False)
    await cluster.stop_broker(9)
    cluster.receivers.pop(9)

    async def is_without() -> bool:
        states = [await cluster.state(each) for each in (P0, P1)]
        return all(state is not None and 9 not in state.isr for state in states)

    await eventually(is_without)


@in_virtual_time
async def test_a_cancel_ends_alike_wherever_its_controller_dies() -> None:
    async def ask(_: PartitionCluster, admin: ControllerOperations) -> None:
        await admin.cancel_reassignment([P0, P1], is_dry_run=False)

    cancelled = story(ask, (1, 2, 3), (2, 3, 1), stuck)
    assert await ends_alike_wherever_it_is_cut(cancelled) >= 8


@in_virtual_time
async def test_an_override_ends_alike_wherever_its_controller_dies() -> None:
    async def ask(_: PartitionCluster, admin: ControllerOperations) -> None:
        await admin.reassign({P0: (5, 1), P1: (3, 6)}, is_dry_run=False)

    overridden = story(ask, (5, 1), (3, 6), stuck)
    assert await ends_alike_wherever_it_is_cut(overridden) >= 10
