"""The controller, event by event: which replica leads, and which brokers know it."""

import pytest

from broker_ctl.controller.state.batch_writer import Changes
from broker_ctl.core.partitions.values import (
    NO_LEADER,
    Assignment,
    LeaderAndIsr,
    PartitionStage,
    TopicAssignment,
    TopicRules,
)
from broker_ctl.errors import OperationTimeout
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, SetData
from broker_ctl.store.paths import CONTROLLER_ELECTION
from broker_ctl.store.records.partitions import (
    encode_failed,
    encode_state,
    encode_topic,
    encode_topic_rules,
)
from tests.support.clusters.partition_cluster import (
    PartitionCluster,
    partition,
    partition_cluster,
    topic_id,
)
from tests.support.time.waiting import eventually

P0, P1 = partition("t", 0), partition("t", 1)
EITHER = pytest.mark.parametrize("has_queues", [False, True], ids=["http", "zkqueue"])


async def hears(cluster: PartitionCluster, broker: int, of: object, leader: int) -> None:
    """Wait until a broker knows who leads the partition."""
    receiver = cluster.receivers[broker]
    await eventually(
        lambda: receiver.leaders().get(of) == leader,  # type: ignore[call-overload]
        what=f"broker {broker} hears that {leader} leads {of}",
    )


# Topics.


@EITHER
@in_virtual_time
async def test_a_new_topic_is_led_by_its_first_live_replica_and_all_replicas_are_notified(
    has_queues: bool,
) -> None:
    async with partition_cluster(1, 2, 3, has_queues=has_queues) as cluster:
        running = await cluster.lead()
        await cluster.create_topic("t", (1, 2, 3), (4, 3, 2))
        first, second = await cluster.led(P0, 1), await cluster.led(P1, 3)
        assert (first.isr, first.leader_epoch, first.version) == ((1, 2, 3), 0, 0)
        assert second.isr == (2, 3)
        await hears(cluster, 2, P0, 1)
        await hears(cluster, 2, P1, 3)
        await hears(cluster, 1, P0, 1)
        assert cluster.receivers[2].replicas[P0].state == first
        assert cluster.receivers[2].replicas[P0].topic_id == topic_id("t")
        assert cluster.receivers[1].leaders() == {P0: 1}
        assert cluster.receivers[1].brokers == {1: "h1:6650", 2: "h2:6650", 3: "h3:6650"}
        new = [row for _, row in running.journal.rows if row.partition == P0]
        assert [(row.before, row.after, row.reason) for row in new] == [
            (PartitionStage.NEW, PartitionStage.ONLINE, "topic created")
        ]


@in_virtual_time
async def test_a_topic_whose_replicas_are_all_dead_waits_for_one_of_them() -> None:
    async with partition_cluster(1) as cluster:
        running = await cluster.lead()
        await cluster.create_topic("t", (7, 8))
        await eventually(lambda: running.value("offline") == 1)
        assert await cluster.state(P0) is None
        await cluster.start_broker(8)
        assert (await cluster.led(P0, 8)).isr == (8,)
        await hears(cluster, 8, P0, 8)
        assert running.value("offline") == 0


@in_virtual_time
async def test_a_topic_that_grows_gets_states_for_the_new_partitions_alone() -> None:
    async with partition_cluster(1, 2) as cluster:
        await cluster.lead()
        await cluster.create_topic("t", (1, 2))
        before = await cluster.led(P0, 1)
        grown = TopicAssignment(topic_id("t"), {0: Assignment((1, 2)), 1: Assignment((2, 1))})
        await cluster.operator.set(paths.topic("t"), encode_topic(grown), 0)
        await cluster.led(P1, 2)
        await hears(cluster, 1, P1, 2)
        assert await cluster.state(P0) == before


@EITHER
@in_virtual_time
async def test_a_topic_node_that_just_vanishes_ends_its_replicas(has_queues: bool) -> None:
    async with partition_cluster(1, 2, has_queues=has_queues) as cluster:
        running = await cluster.lead()
        await cluster.create_topic("t", (1, 2))
        await hears(cluster, 2, P0, 1)
        await cluster.operator.delete(paths.leader_and_isr(P0))
        await cluster.operator.delete(paths.partition(P0))
        await cluster.operator.delete(paths.topic("t"))
        await eventually(lambda: not any(r.replicas for r in cluster.receivers.values()))
        assert running.value("topics") == 0
        assert running.value("partitions") == 0


@in_virtual_time
async def test_a_topic_that_was_recreated_between_two_reads_is_another_topic() -> None:
    async with partition_cluster(1, 2) as cluster:
        running = await cluster.lead()
        await cluster.create_topic("t", (1, 2))
        await hears(cluster, 2, P0, 1)

        async def recreate() -> None:
            # As one event: the controller sees nothing in between.
            await cluster.operator.delete(paths.leader_and_isr(P0))
            await cluster.operator.delete(paths.partition(P0))
            await cluster.operator.delete(paths.topic("t"))
            await cluster.create_topic("t", (2, 1), life=2)

        await running.term.queue.call("recreate", recreate)
        await cluster.led(P0, 2)
        await hears(cluster, 1, P0, 2)
        for receiver in cluster.receivers.values():
            assert receiver.replicas[P0].topic_id == topic_id("t", 2)


@in_virtual_time
async def test_a_broker_that_was_away_drops_the_topic_of_before() -> None:
    async with partition_cluster(1, 2) as cluster:
        await cluster.lead()
        await cluster.create_topic("t", (1, 2))
        await cluster.create_topic("u", (1, 2))
        await hears(cluster, 2, partition("u"), 1)
        await cluster.stop_broker(2)
        for path in (paths.leader_and_isr(P0), paths.partition(P0)):
            await cluster.operator.delete(path)
        await cluster.operator.delete(paths.topic("t"))
        await eventually(lambda: P0 not in cluster.receivers[1].replicas)
        assert P0 in cluster.receivers[2].replicas
        await cluster.start_broker(2)
        await eventually(lambda: P0 not in cluster.receivers[2].replicas)
        assert partition("u") in cluster.receivers[2].replicas


# Brokers.


@EITHER
@in_virtual_time
async def test_a_dead_leader_is_followed_in_the_order_of_assignment(has_queues: bool) -> None:
    async with partition_cluster(1, 2, 3, has_queues=has_queues) as cluster:
        running = await cluster.lead()
        await cluster.create_topic("t", (1, 3, 2), (3, 2, 1))
        await hears(cluster, 2, P1, 3)
        await cluster.stop_broker(1)
        led = await cluster.led(P0, 3)
        assert (led.isr, led.leader_epoch, led.controller_epoch) == ((2, 3), 1, 1)
        await hears(cluster, 2, P0, 3)
        await hears(cluster, 3, P0, 3)

        async def shrunk() -> bool:
            state = await cluster.state(P1)
            return state is not None and (state.leader, state.isr) == (3, (2, 3))

        await eventually(shrunk, what="the dead follower leaves the ISR")
        await eventually(lambda: set(cluster.receivers[2].brokers) == {2, 3})
        assert running.value("under_replicated") == 2
        assert running.value("imbalanced") == 1


@in_virtual_time
async def test_all_brokers_hear_of_a_death_that_concerns_no_partition_of_theirs() -> None:
    async with partition_cluster(1, 2, 3) as cluster:
        await cluster.lead()
        await cluster.stop_broker(3)
        for broker in (1, 2):
            await eventually(lambda: set(cluster.receivers[broker].brokers) == {1, 2})  # noqa: B023


@EITHER
@in_virtual_time
async def test_a_broker_that_bounced_is_failed_over_and_gets_a_full_instruction(
    has_queues: bool,
) -> None:
    async with partition_cluster(1, 2, has_queues=has_queues) as cluster:
        running = await cluster.lead()
        await cluster.create_topic("t", (1, 2))
        await hears(cluster, 2, P0, 1)
        receiver = cluster.receivers[1]

        async def bounce() -> None:
            await cluster.bounce_broker(1)
            receiver.replicas.clear()

        await running.term.queue.call("bounce", bounce)
        assert (await cluster.led(P0, 2)).isr == (2,)
        await hears(cluster, 1, P0, 2)
        assert receiver.instructions[-1].broker_epoch == receiver.epoch
        assert [
            instruction.is_full for instruction in receiver.instructions if P0 in named(instruction)
        ][-1]


def named(instruction: object) -> set[object]:
    return {state.partition for state in instruction.partitions}  # type: ignore[attr-defined]


@in_virtual_time
async def test_where_all_in_sync_are_dead_the_last_isr_is_kept_until_one_returns() -> None:
    async with partition_cluster(1, 2, 3) as cluster:
        running = await cluster.lead()
        await cluster.create_topic("t", (1, 2, 3))
        await cluster.led(P0, 1)
        await cluster.write_isr(P0, 1, 2)
        await cluster.stop_broker(2)

        async def alone() -> bool:
            state = await cluster.state(P0)
            return state is not None and state.isr == (1,)

        await eventually(alone)
        await cluster.stop_broker(1)
        nobody = await cluster.led(P0, NO_LEADER)
        assert nobody.isr == (1,)
        await eventually(lambda: running.value("offline") == 1)
        await cluster.start_broker(2)  # it is not in sync
        await hears(cluster, 2, P0, NO_LEADER)
        assert (await cluster.state(P0)) == nobody
        await cluster.start_broker(1)
        back = await cluster.led(P0, 1)
        assert (back.isr, back.leader_epoch) == ((1,), nobody.leader_epoch + 1)
        assert not back.is_recovering
        assert running.value("unclean_elections") == 0


@in_virtual_time
async def test_out_of_the_isr_only_where_the_topic_allows_it_and_it_is_counted() -> None:
    async with partition_cluster(1, 2) as cluster:
        running = await cluster.lead()
        await cluster.create_topic("t", (1, 2))
        await cluster.led(P0, 1)
        await cluster.write_isr(P0, 1)
        await cluster.stop_broker(1)
        await cluster.led(P0, NO_LEADER)
        rules = encode_topic_rules(TopicRules(is_unclean_allowed=True), {})
        await cluster.operator.create(paths.topic_configuration("t"), rules)
        led = await cluster.led(P0, 2)
        assert led.is_recovering
        assert led.isr == (2,)
        assert running.value("unclean_elections") == 1


@in_virtual_time
async def test_a_replica_that_its_broker_cannot_serve_loses_its_leadership() -> None:
    async with partition_cluster(1, 2) as cluster:
        await cluster.lead()
        await cluster.create_topic("t", (1, 2), (1, 2))
        await cluster.led(P1, 1)
        await cluster.fail(1, encode_failed([P0]))
        assert (await cluster.led(P0, 2)).isr == (2,)
        assert (await cluster.state(P1)).leader == 1  # type: ignore[union-attr]
        await cluster.stop_broker(2)
        await cluster.led(P0, NO_LEADER)
        await cluster.fail(1, encode_failed([]))
        assert (await cluster.state(P0)).isr == (2,)  # type: ignore[union-attr]


@EITHER
@in_virtual_time
async def test_a_broker_that_does_not_acknowledge_leads_only_what_nobody_else_can(
    has_queues: bool,
) -> None:
    async with partition_cluster(1, 2, has_queues=has_queues) as cluster:
        running = await cluster.lead()
        await cluster.create_topic("t", (1, 2), (1,))
        await hears(cluster, 1, P1, 1)
        await hears(cluster, 2, P0, 1)
        cluster.receivers[1].is_deaf = True
        await cluster.create_topic("u", (1, 2))
        await cluster.led(P0, 2)
        assert running.value("silent_brokers") == 1
        assert (await cluster.state(P1)).leader == 1  # type: ignore[union-attr]
        cluster.receivers[1].is_deaf = False
        if has_queues:
            # Its consumer wakes up with the next instruction.
            await cluster.create_topic("v", (1, 2))
        await eventually(lambda: running.value("silent_brokers") == 0)
        await hears(cluster, 1, P0, 2)


# What others write.


@in_virtual_time
async def test_a_new_controller_instructs_every_broker_and_elects_where_a_leader_died() -> None:
    async with partition_cluster(1, 2, 3) as cluster:
        first = await cluster.lead()
        await cluster.create_topic("t", (1, 2, 3), (3, 1, 2))
        await hears(cluster, 2, P1, 3)
        first.task.cancel()
        await eventually(first.task.done)
        await cluster.stop_broker(1)
        for receiver in cluster.receivers.values():
            receiver.replicas.clear()
        second = await cluster.lead()
        assert (await cluster.led(P0, 2)).controller_epoch == 2
        assert (await cluster.state(P1)).isr == (2, 3)  # type: ignore[union-attr]
        await hears(cluster, 3, P0, 2)
        await hears(cluster, 2, P1, 3)
        assert second.value("is_active") == 1
        assert first.value("is_active") == 0
        assert first.controller.admin is None


@in_virtual_time
async def test_a_new_controller_repeats_to_no_broker_what_it_has() -> None:
    async with partition_cluster(1, 2, 3) as cluster:
        first = await cluster.lead()
        await cluster.create_topic("t", (1, 2), (3, 1))
        for broker, of, leader in ((1, P0, 1), (2, P0, 1), (1, P1, 3), (3, P1, 3)):
            await hears(cluster, broker, of, leader)
        first.task.cancel()
        await eventually(first.task.done)
        # A leader changes the ISR by itself, and knows it.
        await cluster.write_isr(P0, 1)
        del cluster.receivers[3].replicas[P1]
        for receiver in cluster.receivers.values():
            receiver.instructions.clear()
        await cluster.lead()
        await hears(cluster, 3, P1, 3)
        for broker in (1, 2):
            receiver = cluster.receivers[broker]
            await eventually(lambda: receiver.instructions)  # noqa: B023
            assert [named(each) for each in receiver.instructions] == [set()]
            assert receiver.instructions[0].spans
            assert set(receiver.brokers) == {1, 2, 3}


@in_virtual_time
async def test_one_bad_node_stops_nobody_else_and_makes_no_replica_a_stray() -> None:
    async with partition_cluster(1, 2) as cluster:
        first = await cluster.lead()
        for name in ("a", "b", "c"):
            await cluster.create_topic(name, (1, 2))
            await hears(cluster, 2, partition(name), 1)
        first.task.cancel()
        await eventually(first.task.done)
        await cluster.operator.set(paths.topic("a"), b"{")
        await cluster.operator.set(paths.leader_and_isr(partition("b")), b"[]")
        second = await cluster.lead()
        await cluster.stop_broker(1)
        await cluster.led(partition("c"), 2)
        await hears(cluster, 2, partition("c"), 2)
        assert set(cluster.receivers[2].replicas) == {partition(name) for name in "abc"}
        skipped = {each.labels["kind"] for each in second.instruments.corrupt_nodes.samples()}
        assert skipped == {"topic", "state"}


@in_virtual_time
async def test_a_newer_epoch_ends_the_leading_at_the_next_write() -> None:
    async with partition_cluster(1) as cluster:
        running = await cluster.lead()
        await cluster.operator.multi([SetData(CONTROLLER_ELECTION.epoch_path, b"2", 1)])
        await cluster.create_topic("t", (1,))
        await eventually(running.task.done)
        assert running.task.exception() is None
        assert await cluster.state(P0) is None
        assert running.controller.admin is None


@in_virtual_time
async def test_a_topic_that_came_with_its_states_is_announced_unchanged() -> None:
    async with partition_cluster(1, 2) as cluster:
        running = await cluster.lead()
        state = LeaderAndIsr(2, 5, (1, 2), 0)
        await cluster.operator.multi(
            [
                Create(
                    paths.topic("t"),
                    encode_topic(TopicAssignment(topic_id("t"), {0: Assignment((1, 2))})),
                ),
                Create(paths.partition(P0)),
                Create(paths.leader_and_isr(P0), encode_state(state)),
            ]
        )
        await hears(cluster, 1, P0, 2)
        await hears(cluster, 2, P0, 2)
        assert cluster.receivers[1].replicas[P0].state.leader_epoch == 5
        assert running.journal.rows == []


@in_virtual_time
async def test_a_state_of_a_newer_controller_ends_the_leading() -> None:
    async with partition_cluster(1, 2) as cluster:
        running = await cluster.lead()
        await cluster.create_topic("t", (1, 2))
        state = await cluster.led(P0, 1)
        path = paths.leader_and_isr(P0)
        await cluster.operator.set(path, encode_state(state._replace(controller_epoch=9)), 0)
        await eventually(running.task.done)
        assert running.task.exception() is None


@in_virtual_time
async def test_a_broker_that_is_leaving_leads_only_what_nobody_else_can() -> None:
    async with partition_cluster(1, 2, 3) as cluster:
        running = await cluster.lead()
        await cluster.create_topic("t", (1, 2, 3), (1, 2))
        await cluster.led(P1, 1)
        running.term.context.leaving.add(2)
        await cluster.stop_broker(1)
        assert (await cluster.led(P0, 3)).isr == (3,)
        assert (await cluster.led(P1, 2)).isr == (2,)


@in_virtual_time
async def test_where_the_store_did_not_answer_the_work_of_the_event_is_done_later() -> None:
    async with partition_cluster(1, 2) as cluster:
        running = await cluster.lead()
        await cluster.create_topic("t", (1, 2), (1, 2))
        await cluster.led(P1, 1)
        state_changer, failures = running.term.state_changer, 0
        change = state_changer.change

        async def fail(*_: object) -> Changes:
            nonlocal failures
            failures += 1
            state_changer.change = change  # type: ignore[method-assign]
            raise OperationTimeout("no answer")

        state_changer.change = fail  # type: ignore[method-assign,assignment]
        await cluster.stop_broker(1)
        await cluster.led(P0, 2)
        await cluster.led(P1, 2)
        assert failures == 1
