"""Executes decisions about partitions, in bulk.

Docs: kafka-elections, kafka-pipelining, kafka-design-v3.

    decide -> multi[check epoch; states by version; queue nodes] -> context -> requests -> journal

Decisions are made on what is remembered, and compared and set by the version of each node: where a
leader has changed its ISR meanwhile the state is read again, and decided on again. A partition that
fails otherwise is reported, and never stops the others. All of it belongs to one term and is
called by one task: the consumer of the controller's events.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice

from broker_ctl.controller.state.batch_writer import (
    CHUNK,
    BatchWriter,
    Changes,
    StateBatch,
    add_update,
    announced_replicas,
    replica_state,
)
from broker_ctl.controller.store.fenced_writer import FencedWrites
from broker_ctl.controller.store.kafka_states import KafkaStates
from broker_ctl.controller.store.loader import StateReader, pipelined
from broker_ctl.controller.transport.messages import (
    FullRequests,
    PartitionUpdate,
    RequestsByBroker,
    SharedUpdates,
    Transport,
    empty_requests,
    encode_comparable,
)
from broker_ctl.core.model.counting import batched
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.elections import Election, RefusedElection, initial
from broker_ctl.core.partitions.instructions import ReplicaStop
from broker_ctl.core.partitions.values import (
    Assignment,
    LeaderAndIsr,
    TopicAssignment,
    TopicPartition,
)
from broker_ctl.errors import (
    Ambiguous,
    BadVersion,
    MultiFailed,
    NoNode,
    TopicMissing,
)
from broker_ctl.store import paths
from broker_ctl.store.interface import Check, MetadataStore, Operation, Result, SetData
from broker_ctl.store.records.partitions import decode_topic, encode_topic

log = logging.getLogger(__name__)

# The new state of a partition, or why it keeps its current one.
Decide = Callable[[TopicPartition, Assignment, LeaderAndIsr], Election]
DecideTopic = Callable[[TopicAssignment], TopicAssignment | None]


class StateChanger:
    """Writes states and topics, and sends requests about them, for one controller term.

    Each method raises an error for which `ends_term` is true once another controller was elected;
    only the event loop may catch it.
    """

    def __init__(
        self,
        store: MetadataStore,
        context: Context,
        *,
        writes: FencedWrites,
        reader: StateReader,
        transport: Transport,
        batches: BatchWriter,
        kafka_states: KafkaStates,
    ) -> None:
        self._store = store
        self._context = context
        self._writes = writes
        self._reader = reader
        self._transport = transport
        self._batches = batches
        self._kafka_states = kafka_states

    # States.

    async def change(
        self, partitions: Iterable[TopicPartition], decide: Decide, reason: str
    ) -> Changes:
        """Decide on the state of each, write it, and send it to its live replicas.

        ``decide`` may be called several times for a partition, each time with a newer state; the
        states that it returns carry ``context.epoch``. ``reason`` goes to the journal.
        """
        context = self._context

        def build(chunk: Iterable[TopicPartition], changes: Changes) -> StateBatch:
            batch = StateBatch(context)
            assignments, states = context.assignments, context.states
            for partition in chunk:
                assignment, state = assignments.get(partition), states.get(partition)
                if assignment is None or state is None:
                    changes.failed[partition] = NoNode(f"{partition} has no state")
                    continue
                elected = decide(partition, assignment, state)
                if isinstance(elected, RefusedElection):
                    changes.refused[partition] = elected
                else:
                    batch.set(partition, assignment, elected)
            return batch

        return await self._batches.apply(partitions, build, reason)

    async def initialise(self, partitions: Iterable[TopicPartition], reason: str) -> Changes:
        """Write the first state of partitions that have none, once a replica is live.

        Partitions that Kafka led keep their state from its layout; see `KafkaStates`.
        """
        context = self._context
        wanted = [each for each in partitions if each not in context.states]
        unknown = await self._kafka_states.take_over(wanted)
        await self.send_updates(each for each in wanted if each in context.states)

        def build(chunk: Iterable[TopicPartition], changes: Changes) -> StateBatch:
            batch = StateBatch(context)
            for partition in chunk:
                assignment = context.assignments.get(partition)
                if assignment is None or partition in context.states:
                    continue
                if partition in unknown:
                    changes.failed[partition] = unknown[partition]
                    continue
                first = initial(assignment, context.live_for(partition), context.epoch)
                if isinstance(first, RefusedElection):
                    changes.refused[partition] = first
                    continue
                batch.create(
                    partition, assignment, first, has_parent=partition in changes.with_parent
                )
            return batch

        return await self._batches.apply(wanted, build, reason)

    async def refresh(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Read states again; returns the partitions whose state differed."""
        return await self._reader.refresh(partitions)

    def take_changed_by_others(self) -> list[TopicPartition]:
        """See `BatchWriter.take_changed_by_others`."""
        return self._batches.take_changed_by_others()

    # Topics and other nodes.

    async def change_topic(
        self, name: str, decide: DecideTopic, extra: Sequence[Operation] = ()
    ) -> TopicAssignment | None:
        """Write a topic's node in one transaction with ``extra``; returns the new node.

        ``decide`` is called again with the newer node if another client has changed it; None leaves
        it, without ``extra``. A topic that is deleted and created again may have the same version,
        but none of the nodes that the controller creates below it: the transaction checks one of
        these.

        Raises:
            TopicMissing: the node does not exist, or belongs to another topic now.
            MultiFailed: one of ``extra`` was refused; the index is relative to ``extra``.
        """
        path = paths.topic(name)
        topic = self._context.topics.get(name) or await self._read_topic(name)
        same = self._same_topic(name)
        while True:
            wanted = decide(topic)
            if wanted is None:
                return None
            written = TopicAssignment(wanted.topic_id, wanted.partitions, topic.version + 1)
            own = [SetData(path, encode_topic(wanted), topic.version), *same]
            try:
                await self.write([*own, *extra])
            except Ambiguous:
                topic = await self._read_topic(name)
                if topic == written:
                    return topic
            except MultiFailed as error:
                if error.index >= len(own):
                    raise MultiFailed(error.index - len(own), error.path, error.cause) from None
                if error.index == 0 and not isinstance(error.cause, BadVersion):
                    raise TopicMissing(f"{name}: {error.cause}") from None
                topic = await self._read_topic(name)
                if error.index > 0:
                    same = []  # still the same topic: the checked node was deleted separately
            else:
                self._context.put_topic(name, written)
                return written

    def _same_topic(self, name: str) -> list[Operation]:
        states = self._context.states
        known = (each for each in self._context.partitions_of(name) if each in states)
        return [Check(paths.partition(each)) for each in islice(known, 1)]

    async def _read_topic(self, name: str) -> TopicAssignment:
        node = await self._store.get(paths.topic(name))
        if node is None:
            raise TopicMissing(f"there is no topic {name}")
        topic, known = decode_topic(node), self._context.topics.get(name)
        if known is not None and known.topic_id != topic.topic_id:
            raise TopicMissing(f"{name} is another topic now")
        self._context.put_topic(name, topic)
        return topic

    async def write(self, operations: Sequence[Operation]) -> tuple[Result, ...]:
        """Write any other transaction of the controller: all or none, at its epoch.

        Raises:
            MultiFailed, Ambiguous: as `MetadataStore.multi`.
        """
        return await self._writes.write(operations)

    # Requests without a change.

    async def stop_replicas(self, stops: Mapping[int, Sequence[ReplicaStop]]) -> None:
        """Have brokers stop replicas; live brokers answer by `Procedure.on_stop_responses`."""
        live = self._context.brokers
        by_broker: RequestsByBroker = {
            broker_id: {stop.partition: stop for stop in of_one}
            for broker_id, of_one in stops.items()
            if broker_id in live
        }
        await self._transport.send(by_broker)

    async def send_updates(self, partitions: Iterable[TopicPartition]) -> None:
        """Send the known states of these partitions to their replicas again."""
        context = self._context
        for chunk in batched(partitions, CHUNK):
            by_broker: RequestsByBroker = {}
            for partition in chunk:
                assignment, state = (
                    context.assignments.get(partition),
                    context.states.get(partition),
                )
                if assignment is not None and state is not None:
                    add_update(by_broker, context, partition, assignment, state)
            await self._transport.send(by_broker)
            await asyncio.sleep(0)

    async def send_full(self, brokers: Iterable[int]) -> None:
        """Send brokers all their replicas; anything else that they hold is a stray.

        While some nodes cannot be read, nothing is declared a stray.
        """
        context = self._context
        updates: dict[TopicPartition, PartitionUpdate] = {}
        batches = [(each, await self._updates_for(each, updates)) for each in brokers]
        if context.unreadable and batches:
            log.warning("stray replicas are kept: %d nodes cannot be read", len(context.unreadable))

        async def send(one: tuple[int, FullRequests]) -> None:
            broker_id, requests = one
            if context.unreadable:
                await self._transport.send({broker_id: {**requests}})
            else:
                await self._transport.send_full(broker_id, requests)

        await pipelined(batches, send, "full instructions")

    async def _updates_for(
        self, broker_id: int, updates: dict[TopicPartition, PartitionUpdate]
    ) -> FullRequests:
        """The updates of a broker's replicas; ``updates`` has those encoded so far."""
        context = self._context
        replicas: list[TopicPartition] = []
        for chunk in batched(list(context.replicas_on(broker_id)), CHUNK):
            for partition in chunk:
                state = context.states.get(partition)
                if state is None:
                    continue  # it is sent once it has one
                named = announced_replicas(context, context.assignments[partition], state)
                if broker_id not in named:
                    continue  # it was stopped
                if partition not in updates:
                    replica = replica_state(context, partition, state, named)
                    updates[partition] = encode_comparable(replica)
                replicas.append(partition)
            await asyncio.sleep(0)
        return SharedUpdates(replicas, updates)

    async def send_live_brokers(self) -> None:
        """Send the live brokers to all brokers."""
        await self._transport.send(empty_requests(self._context.brokers))
