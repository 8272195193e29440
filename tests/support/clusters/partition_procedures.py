"""A controller with all its procedures, over brokers whose replicas catch up at once."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

from broker_ctl.codec import encode
from broker_ctl.controller.admin.operations import ControllerOperations
from broker_ctl.controller.controller import BuildAdmin
from broker_ctl.core.partitions.elections import with_isr
from broker_ctl.core.partitions.values import ControllerRules, TopicAssignment, TopicPartition
from broker_ctl.errors import BadVersion, BrokerCtlError, NoNode, SessionExpired
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, MetadataStore, Operation
from broker_ctl.store.records.partitions import decode_topic, encode_state
from tests.support.clusters.partition_cluster import PartitionCluster, Running, partition_cluster
from tests.support.time.waiting import eventually
from tests.support.zookeeper.faulty_store import TryingStore

# No two controllers draw alike.
_SEEDS = itertools.count(1)


def procedures() -> BuildAdmin:
    rng = random.Random(next(_SEEDS))
    return lambda controller, broker_id, _: ControllerOperations(controller, broker_id, rng)


@dataclass
class Catching:
    """Followers catch up, and their leaders take them into the ISR.

    Attributes:
        lagging: brokers that never catch up.
        stubborn: brokers that go on fetching from a former leader: their instructions are late.
        poll_s: between two looks.
    """

    cluster: PartitionCluster
    lagging: set[int] = field(default_factory=set)
    stubborn: set[int] = field(default_factory=set)
    poll_s: float = 0.01

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(self.poll_s)

    async def look(self) -> None:
        """Let every leader add followers that have caught up to the ISR."""
        for broker_id in list(self.cluster.stores):
            for partition in list(self.cluster.receivers[broker_id].replicas):
                await self._write_isr(broker_id, partition)

    async def _write_isr(self, broker_id: int, partition: TopicPartition) -> None:
        """Write the ISR as a broker would that leads by its last instruction."""
        replica = self.cluster.receivers[broker_id].replicas.get(partition)
        if replica is None or replica.state.leader != broker_id:
            return
        state = await self.cluster.state(partition)
        if state is None or state.leader_epoch != replica.state.leader_epoch:
            return
        caught_up = {each for each in replica.replicas if self._follows(each, partition, broker_id)}
        if caught_up <= set(state.isr):
            return
        data = encode_state(with_isr(state, caught_up | set(state.isr)))
        with suppress(BadVersion, NoNode):
            path = paths.leader_and_isr(partition)
            await self.cluster.operator.set(path, data, state.version)

    def _follows(self, broker_id: int, partition: TopicPartition, leader: int) -> bool:
        if broker_id not in self.cluster.stores or broker_id in self.lagging:
            return False
        if broker_id in self.stubborn:
            return True
        replica = self.cluster.receivers[broker_id].replicas.get(partition)
        return replica is not None and replica.state.leader == leader


@asynccontextmanager
async def catching_up(
    *brokers: int, has_queues: bool = False, rules: ControllerRules | None = None
) -> AsyncIterator[tuple[PartitionCluster, Catching]]:
    """A `partition_cluster` in which replicas catch up."""
    async with partition_cluster(*brokers, has_queues=has_queues, rules=rules) as cluster:
        catching = Catching(cluster)
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(catching.run(), name="catching up")
            try:
                yield cluster, catching
            finally:
                task.cancel()


def admin_of(running: Running) -> ControllerOperations:
    admin = running.controller.admin
    assert admin is not None
    return admin


async def topic_of(cluster: PartitionCluster, name: str) -> TopicAssignment | None:
    node = await cluster.operator.get(paths.topic(name))
    return None if node is None else decode_topic(node)


def holders(cluster: PartitionCluster, partition: TopicPartition) -> set[int]:
    """Brokers that hold a replica, alive or not."""
    return {
        broker_id
        for broker_id, receiver in cluster.receivers.items()
        if partition in receiver.replicas
    }


# Controllers that are killed.


class Cut:
    """Kills a controller at its transaction of this number, counted from 0."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.is_done = False

    async def __call__(self, _: Sequence[Operation]) -> None:
        self._left -= 1
        if self._left < 0:
            self.is_done = True
            raise SessionExpired("the controller was killed here")


@dataclass(frozen=True)
class Story:
    """A procedure that a controller carries out in several transactions.

    Attributes:
        brokers: ids of those that are registered at the start.
        prepare: makes what the procedure finds.
        ask: sends the operator's request; sent again to the next controller if the first one died.
        is_over: whether the procedure has ended.
        outcome: what the cluster holds at the end, for comparison.
    """

    brokers: tuple[int, ...]
    prepare: Callable[[PartitionCluster, ControllerOperations], Awaitable[object]]
    ask: Callable[[PartitionCluster, ControllerOperations], Awaitable[object]]
    is_over: Callable[[PartitionCluster], Awaitable[bool]]
    outcome: Callable[[PartitionCluster], Awaitable[Any]]
    has_queues: bool = False


async def ends_alike_wherever_it_is_cut(story: Story) -> int:
    """Kill the controller before and after each of its transactions; how often it was killed."""
    whole, _ = await _end_of(story, None, is_after=False)
    kills = 0
    for is_after in (False, True):
        number = 0
        while True:
            found, was_cut = await _end_of(story, number, is_after=is_after)
            if not was_cut:
                break
            assert found == whole, f"cut {'after' if is_after else 'before'} transaction {number}"
            kills += 1
            number += 1
    return kills


async def _end_of(story: Story, number: int | None, *, is_after: bool) -> tuple[Any, bool]:
    async with catching_up(*story.brokers, has_queues=story.has_queues) as (cluster, _):
        store: list[TryingStore] = []

        def wrap(inner: MetadataStore) -> MetadataStore:
            store.append(TryingStore(inner))
            return cast("MetadataStore", store[-1])

        first = await cluster.lead(procedures(), wrap)
        await story.prepare(cluster, admin_of(first))
        cut = Cut(number) if number is not None else None
        if is_after:
            store[0].after = cut
        else:
            store[0].before = cut
        heard = True
        try:
            await story.ask(cluster, admin_of(first))
        except BrokerCtlError:
            heard = False

        async def is_over() -> bool:
            return first.task.done() or await story.is_over(cluster)

        await eventually(is_over, what="the end, or the controller's")
        second = await cluster.lead(procedures())
        if not heard and not await story.is_over(cluster):
            with suppress(BrokerCtlError):
                await story.ask(cluster, admin_of(second))

        async def at_the_end() -> bool:
            return await story.is_over(cluster)

        await eventually(at_the_end, what="the end, with another controller")
        return await story.outcome(cluster), cut is not None and cut.is_done


async def put_in_kafkas_form(
    cluster: PartitionCluster, node: bytes, states: Mapping[TopicPartition, Any]
) -> None:
    """A topic ``t`` as Kafka leaves it: partitions, and states of those that it led."""
    operations = [
        Create(paths.topic("t"), node),
        Create(paths.kafka_partitions("t")),
    ]
    for each, state in states.items():
        path = paths.kafka_state(each)
        data = state if isinstance(state, bytes) else encode(state)
        operations += [Create(path.rpartition("/")[0]), Create(path, data)]
    await cluster.operator.multi(operations)
