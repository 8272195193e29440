"""Writes of others between the reads and the writes of the controller.

Docs: kafka-design-v3, kafka-fencing, kafka-elections.
"""

from collections.abc import Sequence
from typing import cast

import pytest

from broker_ctl.controller.state import batch_writer
from broker_ctl.core.partitions.values import LeaderAndIsr
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.lab.time import in_virtual_time
from broker_ctl.store import paths
from broker_ctl.store.interface import Check, MetadataStore, Operation, SetData
from tests.support.clusters.partition_cluster import (
    AnyStore,
    PartitionCluster,
    Running,
    partition,
    partition_cluster,
)
from tests.support.time.waiting import eventually
from tests.support.zookeeper.faulty_store import Gate, TryingStore, lose_reply

P0 = partition("t", 0)
MANY = 30


async def led_through(cluster: PartitionCluster) -> tuple[Running, TryingStore]:
    """A controller whose store can be interfered with."""
    trying: list[TryingStore] = []

    def wrap(store: AnyStore) -> MetadataStore:
        trying.append(TryingStore(store))
        return cast("MetadataStore", trying[-1])

    running = await cluster.lead(wrap=wrap)
    return running, trying[0]


async def all_states(cluster: PartitionCluster) -> list[LeaderAndIsr]:
    found = [await cluster.state(partition("t", number)) for number in range(MANY)]
    return [state for state in found if state is not None]


@in_virtual_time
async def test_an_isr_that_shrank_between_read_and_write_is_decided_on_again() -> None:
    async with partition_cluster(1, 2, 3) as cluster:
        _, store = await led_through(cluster)
        await cluster.create_topic("t", (1, 2, 3), (1, 2, 3))
        await cluster.led(P0, 1)

        async def shrink(_: Sequence[Operation]) -> None:
            store.before = None
            await cluster.write_isr(P0, 1, 3)

        store.before = shrink
        await cluster.stop_broker(1)
        led = await cluster.led(P0, 3)
        assert led.isr == (3,)
        assert (await cluster.led(partition("t", 1), 2)).isr == (2, 3)


@pytest.mark.parametrize("has_queues", [False, True], ids=["http", "zkqueue"])
@in_virtual_time
async def test_an_election_whose_reply_is_lost_is_done_once_and_announced(has_queues: bool) -> None:
    async with partition_cluster(1, 2, 3, has_queues=has_queues) as cluster:
        running, store = await led_through(cluster)
        await cluster.create_topic("t", (1, 2, 3))
        await cluster.led(P0, 1)

        async def lose(operations: Sequence[Operation]) -> None:
            if any(isinstance(operation, SetData) for operation in operations):
                store.after = None
                await lose_reply(operations)

        store.after = lose
        await cluster.stop_broker(1)
        led = await cluster.led(P0, 2)
        await eventually(lambda: cluster.receivers[3].leaders().get(P0) == 2)
        assert (led.leader_epoch, led.version) == (1, 1)
        assert running.term.context.states[P0] == led


@in_virtual_time
async def test_a_controller_that_was_paused_in_a_batch_changes_nothing_when_it_wakes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_writer, "CHUNK", 5)
    async with partition_cluster(1, 2, 3) as cluster:
        first, store = await led_through(cluster)
        await cluster.create_topic("t", *[(1, 2, 3)] * MANY)
        await eventually(lambda: len(first.term.context.states) == MANY)
        gate = store.before = Gate(free=2)
        await cluster.stop_broker(1)
        await eventually(lambda: gate.held)
        second = await cluster.lead()
        for number in range(MANY):
            await cluster.led(partition("t", number), 2)
        before = await all_states(cluster)
        assert {state.controller_epoch for state in before} == {1, 2}
        gate.opened.set()
        await eventually(first.task.done)
        assert await all_states(cluster) == before
        assert second.value("is_active") == 1
        assert first.controller.admin is None
        # Nor does any broker obey it any more.
        epochs = {
            instruction.controller_epoch for instruction in cluster.receivers[2].instructions[-2:]
        }
        assert epochs == {2}


@in_virtual_time
async def test_every_transaction_of_the_controller_checks_its_epoch() -> None:
    async with partition_cluster(1, 2, has_queues=True) as cluster:
        _, store = await led_through(cluster)
        await cluster.create_topic("t", (1, 2))
        await cluster.led(P0, 1)
        await cluster.stop_broker(1)
        await cluster.led(P0, 2)
        assert len(store.transactions) >= 4
        for operations in store.transactions:
            assert operations[0] == Check("/controller_epoch", 1)


@in_virtual_time
async def test_one_partition_whose_node_is_gone_does_not_keep_the_others_from_a_leader() -> None:
    async with partition_cluster(1, 2) as cluster:
        running, store = await led_through(cluster)
        await cluster.create_topic("t", *[(1, 2)] * MANY)
        await eventually(lambda: len(running.term.context.states) == MANY)

        async def delete(_: Sequence[Operation]) -> None:
            store.before = None
            await cluster.operator.delete(paths.leader_and_isr(P0))

        store.before = delete
        await cluster.stop_broker(1)
        for number in range(1, MANY):
            await cluster.led(partition("t", number), 2)


@in_virtual_time
async def test_its_own_writes_come_back_and_cost_no_read_and_those_of_leaders_are_read() -> None:
    async with partition_cluster(1, 2) as cluster:
        running, store = await led_through(cluster)
        await cluster.create_topic("t", *[(1, 2)] * MANY)
        await eventually(lambda: len(running.term.context.states) == MANY)
        await eventually(lambda: len(running.term.queue) == 0)
        store.reads.clear()
        await cluster.stop_broker(2)
        await eventually(lambda: running.value("under_replicated") == MANY)
        await eventually(lambda: len(running.term.queue) == 0)
        states = {paths.leader_and_isr(partition("t", n)) for n in range(MANY)}
        assert states.isdisjoint(store.reads)
        before = await cluster.state(P0)
        assert before is not None
        await cluster.write_isr(P0, 1, 2)
        await eventually(lambda: running.term.context.states[P0].isr == (1, 2))
        assert states.intersection(store.reads) == {paths.leader_and_isr(P0)}


@in_virtual_time
async def test_changes_during_a_lost_connection_are_found_after_it() -> None:
    async with partition_cluster(1, 2) as cluster:
        running, _ = await led_through(cluster)
        await cluster.create_topic("t", (1, 2))
        await cluster.led(P0, 1)
        running.leadership.suspend()
        assert isinstance(running.store, MemoryStore)
        running.store.disconnect()
        await cluster.create_topic("u", (2, 1))
        await cluster.write_isr(P0, 1)
        await cluster.stop_broker(2)
        running.store.reconnect()
        running.leadership.resume()
        await eventually(lambda: running.term.context.states[P0].isr == (1,))
        assert (await cluster.led(partition("u"), 1)).isr == (1,)


@pytest.mark.slow
@in_virtual_time
async def test_the_watches_do_not_grow_with_the_partitions() -> None:
    async with partition_cluster(1, 2, 3) as cluster:
        first = await cluster.lead()
        few = first.value("watches")
        for number in range(100):
            await cluster.create_topic(f"t{number}", *[(1, 2, 3)] * 1000)
        await eventually(lambda: first.value("partitions") == 100_000, deadline_s=3600.0)
        await eventually(lambda: first.value("offline") == 0, deadline_s=3600.0)
        assert first.value("watches") == few == 7


@in_virtual_time
async def test_a_partition_whose_parent_is_there_already_is_initialised_with_its_like() -> None:
    async with partition_cluster(1, 2) as cluster:
        await cluster.create_topic("t", *[(1, 2)] * MANY)
        for number in range(3, 27, 2):
            await cluster.operator.create(paths.partition(partition("t", number)))
        running = await cluster.lead()
        await eventually(lambda: running.value("offline") == 0)
        assert len(await all_states(cluster)) == MANY


@in_virtual_time
async def test_writes_too_large_for_one_transaction_are_made_in_several() -> None:
    name = "n" * 240
    async with partition_cluster(*range(1, 22), has_queues=True) as cluster:
        running = await cluster.lead()
        await cluster.create_topic(name, *[tuple(range(1, 22))] * 200)
        await eventually(lambda: running.value("offline") == 0)
        receivers = cluster.receivers.values()
        await eventually(lambda: all(len(receiver.replicas) == 200 for receiver in receivers))
