"""Carries out what is decided about partitions, in bulk.

Docs: kafka-elections, kafka-pipelining, kafka-design-v3.

    decide -> multi[check epoch; states by version; queue nodes] -> context -> letters -> journal

Decisions are made on what is remembered, and compared and set by the version of each node: where a
leader has changed its ISR meanwhile the state is read again, and decided on again. A partition that
fails otherwise is reported, and never stops the others. All of it belongs to one leading and is
called by one task: the consumer of the controller's events.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice

from broker_ctl.controller.state.batch_writer import CHUNK, BatchWriter, Changes
from broker_ctl.controller.state.state_batch import StateBatch, address, letter_of, named_in_letter
from broker_ctl.controller.store.fenced_writer import FencedWrites
from broker_ctl.controller.store.kafka_states import KafkaStates
from broker_ctl.controller.store.pipelining import pipelined
from broker_ctl.controller.store.state_reader import StateReader
from broker_ctl.controller.transport.messages import Lot, Mail, Transport, announcement
from broker_ctl.core.model.steps import batched
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.elections import Election, Refused, initial
from broker_ctl.core.partitions.instructions import ReplicaStop
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.values import Assignment, LeaderAndIsr, TopicAssignment
from broker_ctl.errors import (
    Ambiguous,
    BadVersion,
    MultiFailed,
    NoNode,
    TopicMissing,
)
from broker_ctl.store import partition_paths
from broker_ctl.store.interface import Check, MetadataStore, Operation, Result, SetData
from broker_ctl.store.records.partitions import decode_topic, encode_topic

log = logging.getLogger(__name__)

# The new state of a partition, or why it keeps the one that it has.
Decide = Callable[[TopicPartition, Assignment, LeaderAndIsr], Election]
DecideTopic = Callable[[TopicAssignment], TopicAssignment | None]


class StateChanger:
    """The hands of the controller.

    Any method raises what `ends_leading` knows once another controller was elected; then nothing
    is to be caught but by the loop of events.
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
        """Decide on the state of each, write it, and tell all its replicas that live.

        ``decide`` may be asked several times for a partition, each time about a newer state; it
        must not await. The states that it gives carry ``context.epoch``. ``reason`` goes to the
        journal.
        """
        context = self._context

        def draft(chunk: Iterable[TopicPartition], changes: Changes) -> StateBatch:
            made = StateBatch(context)
            assignments, states = context.assignments, context.states
            for partition in chunk:
                assignment, state = assignments.get(partition), states.get(partition)
                if assignment is None or state is None:
                    changes.failed[partition] = NoNode(f"{partition} has no state")
                    continue
                elected = decide(partition, assignment, state)
                if isinstance(elected, Refused):
                    changes.refused[partition] = elected
                else:
                    made.set(partition, assignment, elected)
            return made

        return await self._batches.carry_out(partitions, draft, reason)

    async def initialise(self, partitions: Iterable[TopicPartition], reason: str) -> Changes:
        """Write the first state of partitions that have none; where nobody lives, later.

        Those that Kafka led keep the state that they have in its layout; see `KafkaStates`.
        """
        context = self._context
        wanted = [each for each in partitions if each not in context.states]
        unknown = await self._kafka_states.take_over(wanted)
        await self.tell(each for each in wanted if each in context.states)

        def draft(chunk: Iterable[TopicPartition], changes: Changes) -> StateBatch:
            made = StateBatch(context)
            for partition in chunk:
                assignment = context.assignments.get(partition)
                if assignment is None or partition in context.states:
                    continue
                if partition in unknown:
                    changes.failed[partition] = unknown[partition]
                    continue
                first = initial(assignment, context.live_for(partition), context.epoch)
                if isinstance(first, Refused):
                    changes.refused[partition] = first
                    continue
                made.create(
                    partition, assignment, first, has_parent=partition in changes.with_parent
                )
            return made

        return await self._batches.carry_out(wanted, draft, reason)

    async def refresh(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Read states again; those that were not what was remembered."""
        return await self._reader.refresh(partitions)

    def take_found(self) -> list[TopicPartition]:
        """See `BatchWriter.take_found`."""
        return self._batches.take_found()

    # Topics, and whatever else is written.

    async def change_topic(
        self, name: str, decide: DecideTopic, extra: Sequence[Operation] = ()
    ) -> TopicAssignment | None:
        """Write a topic's node, in one transaction with ``extra``; the node as it stands then.

        ``decide`` is asked again about a newer node where somebody else has changed it. None:
        leave it, and do not do ``extra`` either. A topic that somebody deletes and makes anew may
        have the version of the one before, but none of the nodes that the controller makes below:
        one of these is looked for in the same transaction.

        Raises:
            TopicMissing: there is no such node, or it is another topic by now.
            MultiFailed: one of ``extra`` was refused; the index counts these.
        """
        path = partition_paths.topic(name)
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
                    same = []  # the same topic, whatever became of that node
            else:
                self._context.put_topic(name, written)
                return written

    def _same_topic(self, name: str) -> list[Operation]:
        states = self._context.states
        known = (each for each in self._context.partitions_of(name) if each in states)
        return [Check(partition_paths.partition(each)) for each in islice(known, 1)]

    async def _read_topic(self, name: str) -> TopicAssignment:
        node = await self._store.get(partition_paths.topic(name))
        if node is None:
            raise TopicMissing(f"there is no topic {name}")
        topic, known = decode_topic(node), self._context.topics.get(name)
        if known is not None and known.topic_id != topic.topic_id:
            raise TopicMissing(f"{name} is another topic by now")
        self._context.put_topic(name, topic)
        return topic

    async def write(self, operations: Sequence[Operation]) -> tuple[Result, ...]:
        """Any other transaction of the controller: all or none, at our epoch.

        Raises:
            MultiFailed, Ambiguous: as `MetadataStore.multi`.
        """
        return await self._writes.write(operations)

    # Letters without a change.

    async def stop(self, stops: Mapping[int, Sequence[ReplicaStop]]) -> None:
        """Tell brokers to end replicas; those that live answer by `Procedure.stops_answered`."""
        live = self._context.brokers
        mail: Mail = {
            broker_id: {stop.partition: stop for stop in of_one}
            for broker_id, of_one in stops.items()
            if broker_id in live
        }
        await self._transport.post(mail)

    async def tell(self, partitions: Iterable[TopicPartition]) -> None:
        """Tell the replicas of these partitions again what is known."""
        context = self._context
        for chunk in batched(partitions, CHUNK):
            mail: Mail = {}
            for partition in chunk:
                assignment, state = (
                    context.assignments.get(partition),
                    context.states.get(partition),
                )
                if assignment is not None and state is not None:
                    address(mail, context, partition, assignment, state)
            await self._transport.post(mail)
            await asyncio.sleep(0)

    async def send_full(self, brokers: Iterable[int]) -> None:
        """Tell brokers of every replica that they have; whatever else they hold is a stray.

        But for what cannot be read nobody can say so: then nothing is called a stray.
        """
        context = self._context
        letters: Lot = {}
        lots = [(broker_id, await self._lot_of(broker_id, letters)) for broker_id in brokers]
        if context.unreadable and lots:
            log.warning("strays stay: %d nodes cannot be read", len(context.unreadable))

        async def post(lot: tuple[int, Lot]) -> None:
            if context.unreadable:
                await self._transport.post(dict([lot]))
            else:
                await self._transport.post_full(*lot)

        await pipelined(lots, post, "full instructions")

    async def _lot_of(self, broker_id: int, letters: Lot) -> Lot:
        """A letter for each replica of a broker; ``letters`` are those that were written so far."""
        context = self._context
        lot: Lot = {}
        for chunk in batched(list(context.replicas_on(broker_id)), CHUNK):
            for partition in chunk:
                state = context.states.get(partition)
                if state is None:
                    continue  # it is told when it has one
                named = named_in_letter(context, context.assignments[partition], state)
                if broker_id not in named:
                    continue  # it was told to stop
                letter = letters.get(partition)
                if letter is None:
                    letter = letters[partition] = letter_of(context, partition, state, named)
                lot[partition] = letter
            await asyncio.sleep(0)
        return lot

    async def announce(self) -> None:
        """Tell all brokers who lives."""
        await self._transport.post(announcement(self._context.brokers))
