"""HTTP and queues to a broker: order, waiting updates, updates for an earlier session."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import cast

import pytest

from broker_ctl.codec import decode_object
from broker_ctl.controller.transport.messages import (
    BrokerRequests,
    InstructionEncoder,
    StopResponse,
)
from broker_ctl.controller.transport.zk_queue import QueueTransport
from broker_ctl.core.partitions.instructions import Instruction, ReplicaStop
from broker_ctl.core.partitions.values import ControllerRules
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import Delete, MetadataStore, Operation
from tests.support.clusters.partition_cluster import (
    AnyStore,
    PartitionCluster,
    Running,
    partition,
    partition_cluster,
    topic_id,
)
from tests.support.time.waiting import eventually
from tests.support.zookeeper.faulty_store import TryingStore, led_through

P0 = partition("t", 0)


async def queued(cluster: PartitionCluster, broker: int) -> list[Instruction]:
    parent = paths.queue(broker)
    found = []
    for name in await cluster.operator.children(parent):
        node = await cluster.operator.get(f"{parent}/{name}")
        if node is not None:
            found.append(Instruction.parse(decode_object(node.data)))
    return found


def count(running: Running, result: str) -> float:
    samples = running.instruments.instructions.samples()
    return sum(sample.value for sample in samples if sample.labels["result"] == result)


def answered(running: Running) -> list[StopResponse]:
    """Collects the answers to stopped replicas from now on."""
    answers: list[StopResponse] = []
    listen = running.term.inbox.on_stop_responses

    def keep(some: Sequence[StopResponse]) -> None:
        answers.extend(some)
        listen(some)

    running.term.inbox.on_stop_responses = keep  # type: ignore[method-assign,assignment]
    return answers


@in_virtual_time
async def test_while_a_broker_does_not_answer_only_the_newest_of_a_partition_waits() -> None:
    async with partition_cluster(1, 2, 3) as cluster:
        running = await cluster.lead()
        await cluster.create_topic("t", (1, 2, 3))
        receiver = cluster.receivers[3]
        await eventually(lambda: P0 in receiver.replicas)
        receiver.is_deaf = True
        heard = len(receiver.instructions)
        await cluster.stop_broker(1)
        await cluster.led(P0, 2)
        for _ in range(3):
            await cluster.start_broker(1)
            await eventually(lambda: 1 in cluster.receivers[2].brokers)
            await cluster.stop_broker(1)
            await eventually(lambda: 1 not in cluster.receivers[2].brokers)
        receiver.is_deaf = False
        await eventually(lambda: receiver.leaders()[P0] == 2)
        await eventually(lambda: set(receiver.brokers) == {2, 3})
        assert len(receiver.instructions) - heard <= 2
        assert count(running, "failed") > 0


@in_virtual_time
async def test_an_instruction_for_another_life_is_refused_and_not_sent_again() -> None:
    async with partition_cluster(1) as cluster:
        running = await cluster.lead()
        receiver = cluster.receivers[1]
        receiver.epoch += 1
        heard = len(receiver.instructions)
        await cluster.create_topic("t", (1,))
        await cluster.led(P0, 1)
        await eventually(lambda: count(running, "refused") == 1)
        assert len(receiver.instructions) == heard


@in_virtual_time
async def test_a_state_and_the_instruction_that_announces_it_are_one_transaction() -> None:
    async with partition_cluster(1, 2, has_queues=True) as cluster:
        await cluster.lead()
        await cluster.create_topic("t", (1, 2))
        await cluster.led(P0, 1)
        cluster.receivers[2].is_deaf = True
        await cluster.stop_broker(1)
        led = await cluster.led(P0, 2)
        received = [each for each in await queued(cluster, 2) if each.partitions]
        assert [state.state for state in received[0].partitions] == [led]
        node = await cluster.operator.get(paths.leader_and_isr(P0))
        parent = paths.queue(2)
        first = min(await cluster.operator.children(parent))
        node = await cluster.operator.get(f"{parent}/{first}")
        assert node is not None
        assert node is not None
        assert node.stat.mzxid == node.stat.czxid


@in_virtual_time
async def test_queues_are_numbered_by_the_epoch_and_applied_in_order() -> None:
    async with partition_cluster(1, 2, has_queues=True) as cluster:
        first = await cluster.lead()
        await cluster.create_topic("t", (1, 2))
        await eventually(lambda: P0 in cluster.receivers[2].replicas)
        cluster.receivers[2].is_deaf = True
        await cluster.create_topic("u", (1, 2))
        await cluster.create_topic("v", (1, 2))
        await cluster.led(partition("v"), 1)
        names = await cluster.operator.children(paths.queue(2))
        assert names == sorted(names)
        assert {int(name) // 10**10 for name in names} == {1}
        first.task.cancel()
        await eventually(first.task.done)
        await cluster.lead()
        left = await cluster.operator.children(paths.queue(2))
        assert {int(name) // 10**10 for name in left} == {2}
        received = await queued(cluster, 2)
        assert [each.is_full for each in received] == [True]
        assert {state.partition.topic for state in received[0].partitions} == {"t", "u", "v"}


@in_virtual_time
async def test_the_queue_of_a_dead_broker_is_wiped() -> None:
    async with partition_cluster(1, 2, has_queues=True) as cluster:
        await cluster.lead()
        cluster.receivers[2].is_deaf = True
        await cluster.create_topic("t", (1, 2))
        await cluster.led(P0, 1)
        assert await queued(cluster, 2)
        await cluster.stop_broker(2)

        async def is_empty() -> bool:
            return not await queued(cluster, 2)

        await eventually(is_empty)


@in_virtual_time
async def test_a_queue_that_grows_too_long_becomes_one_instruction_with_everything() -> None:
    rules = ControllerRules(max_queued=4, acknowledge_s=1000.0)
    async with partition_cluster(1, 2, has_queues=True, rules=rules) as cluster:
        await cluster.lead()
        cluster.receivers[2].is_deaf = True
        for number in range(12):
            await cluster.create_topic(f"t{number}", (1, 2))
            await cluster.led(partition(f"t{number}"), 1)

        async def is_short() -> bool:
            waiting = await queued(cluster, 2)
            return len(waiting) <= 5 and waiting[0].is_full

        await eventually(is_short)
        cluster.receivers[2].is_deaf = False
        await cluster.create_topic("last", (1, 2))
        await eventually(lambda: len(cluster.receivers[2].replicas) == 13)


@pytest.mark.parametrize("has_queues", [False, True], ids=["http", "zkqueue"])
@in_virtual_time
async def test_ends_are_answered_also_for_a_broker_that_dies_before_it_could(
    has_queues: bool,
) -> None:
    async with partition_cluster(1, 2, has_queues=has_queues) as cluster:
        running = await cluster.lead()
        await cluster.create_topic("t", (1, 2))
        await eventually(lambda: P0 in cluster.receivers[2].replicas)
        answers = answered(running)
        cluster.receivers[2].is_deaf = True
        for path in (paths.leader_and_isr(P0), paths.partition(P0)):
            await cluster.operator.delete(path)
        await cluster.operator.delete(paths.topic("t"))
        await eventually(lambda: len(answers) == 1)
        await cluster.stop_broker(2)
        await eventually(lambda: len(answers) == 2)
        assert {answer.broker_id: answer.reason for answer in answers} == {
            1: None,
            2: "broker_gone",
        }


@in_virtual_time
async def test_an_instruction_that_is_applied_before_we_hear_that_it_was_written() -> None:
    def wrap(store: AnyStore) -> MetadataStore:
        trying = TryingStore(store)

        async def wait_applied(_: Sequence[Operation]) -> None:
            async def is_applied() -> bool:
                return not await queued(cluster, 2)

            await eventually(is_applied)

        trying.after = wait_applied
        return cast("MetadataStore", trying)

    rules = ControllerRules(acknowledge_s=1000.0)
    async with partition_cluster(1, 2, has_queues=True, rules=rules) as cluster:
        running = await cluster.lead(wrap=wrap)
        answers = answered(running)
        await cluster.create_topic("t", (1, 2))
        await eventually(lambda: P0 in cluster.receivers[2].replicas)
        stop = ReplicaStop(P0, topic_id("t"), 0, is_deleted=False)
        await running.term.queue.call(
            "stop", lambda: running.term.state_changer.stop_replicas({2: [stop]})
        )
        await eventually(lambda: bool(answers))
        assert answers == [StopResponse(2, stop, None)]


@in_virtual_time
async def test_a_fault_while_sending_does_not_leave_a_broker_untold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with partition_cluster(1, 2) as cluster:
        await cluster.lead()
        await eventually(lambda: bool(cluster.receivers[2].instructions))

        def slip(*_: object) -> Iterator[tuple[BrokerRequests, bytes]]:
            monkeypatch.undo()
            raise ZeroDivisionError

        monkeypatch.setattr(InstructionEncoder, "encode", slip)
        await cluster.create_topic("t", (1, 2))
        for receiver in cluster.receivers.values():
            await eventually(partial(receiver.replicas.get, P0))


@in_virtual_time
async def test_the_ends_of_more_replicas_than_one_instruction_holds_are_all_answered() -> None:
    async with partition_cluster(1, 2) as cluster:
        running = await cluster.lead()
        await eventually(lambda: bool(cluster.receivers[2].instructions))
        answers = answered(running)
        heard = len(cluster.receivers[2].instructions)
        stops = [
            ReplicaStop(partition("t", n), topic_id("t"), 0, is_deleted=True) for n in range(3000)
        ]
        await running.term.queue.call(
            "stop", lambda: running.term.state_changer.stop_replicas({2: stops})
        )
        await eventually(lambda: len(answers) == 3000)
        assert len(cluster.receivers[2].instructions) - heard > 1
        assert {answer.stop for answer in answers} == set(stops)


@in_virtual_time
async def test_transactions_that_write_no_state_are_not_remembered_for_ever() -> None:
    async with partition_cluster(1, 2, has_queues=True) as cluster:
        running = await cluster.lead()
        await cluster.create_topic("t", (1, 2))
        await eventually(lambda: P0 in cluster.receivers[2].replicas)
        term = running.term
        await eventually(lambda: not term.watches._own)
        heard = len(cluster.receivers[2].instructions)
        for _ in range(5):
            await term.queue.call("announce", term.state_changer.send_live_brokers)
        await eventually(lambda: len(cluster.receivers[2].instructions) == heard + 5)
        assert not term.watches._own


@in_virtual_time
async def test_an_instruction_applied_while_its_queue_is_wiped_is_forgotten() -> None:
    taken: list[str] = []
    rules = ControllerRules(max_queued=4, acknowledge_s=1000.0)
    async with partition_cluster(1, 2, has_queues=True, rules=rules) as cluster:
        running, store = await led_through(cluster)

        async def apply_first(operations: Sequence[Operation]) -> None:
            """The broker is quicker than the controller that wipes: its node is gone already."""
            for operation in operations:
                if isinstance(operation, Delete) and not taken:
                    taken.append(operation.path)
                    await cluster.operator.delete(operation.path)

        store.before = apply_first
        cluster.receivers[2].is_deaf = True
        for number in range(6):
            await cluster.create_topic(f"t{number}", (1, 2))
            await cluster.led(partition(f"t{number}"), 1)
        await eventually(lambda: bool(taken), what="a queue that is wiped")
        cluster.receivers[2].is_deaf = False
        await cluster.create_topic("last", (1, 2))
        await eventually(lambda: len(cluster.receivers[2].replicas) == 7)
        transport = cast("QueueTransport", running.term.state_changer._transport)
        await eventually(lambda: not transport._queues[2].pending)
        assert not transport._queues[2].early_acks
