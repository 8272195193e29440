"""Batches of changed partitions, and their writes."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from broker_ctl.controller.state.transitions import TransitionRecorder
from broker_ctl.controller.store.fenced_writer import FencedWrites
from broker_ctl.controller.store.loader import StateReader, pipelined, read_nodes
from broker_ctl.controller.transport.messages import RequestsByBroker, Transport, encode_update
from broker_ctl.core.model.counting import batched
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.elections import RefusedElection
from broker_ctl.core.partitions.instructions import ReplicaState
from broker_ctl.core.partitions.values import Assignment, LeaderAndIsr, TopicPartition
from broker_ctl.errors import (
    Ambiguous,
    BadVersion,
    MultiFailed,
    NodeExists,
    NoNode,
    StoreError,
    TooLarge,
)
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, MetadataStore, Operation, SetData
from broker_ctl.store.records.partitions import encode_state

log = logging.getLogger(__name__)

# A batch of new states: the operations to write, and the requests to brokers.
#
# Most of the time of a failover is spent here: plain loops over tuples, and each partition is
# encoded once for all its replicas (docs: kafka-procedures).


class StateBatch:
    """New states that are written in one transaction.

    Attributes:
        partitions, states: the states after the write, versions included.
        operations: the last one of a partition writes its state.
        owners: the partition of each operation.
        requests: updates for the live replicas.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.partitions: list[TopicPartition] = []
        self.states: list[LeaderAndIsr] = []
        self.operations: list[Operation] = []
        self.owners: list[TopicPartition] = []
        self.requests: RequestsByBroker = {}

    def set(self, partition: TopicPartition, assignment: Assignment, elected: LeaderAndIsr) -> None:
        """Add a new state; ``elected`` carries the version that it replaces."""
        leader, leader_epoch, isr, controller_epoch, is_recovering, version = elected
        written = LeaderAndIsr(
            leader, leader_epoch, isr, controller_epoch, is_recovering, version + 1
        )
        path = paths.leader_and_isr(partition)
        self.operations.append(SetData(path, encode_state(elected), version))
        self.owners.append(partition)
        self._add(partition, assignment, written)

    def create(
        self,
        partition: TopicPartition,
        assignment: Assignment,
        first: LeaderAndIsr,
        *,
        has_parent: bool,
    ) -> None:
        """Add the first state of a partition."""
        if not has_parent:
            self.operations.append(Create(paths.partition(partition)))
            self.owners.append(partition)
        path = paths.leader_and_isr(partition)
        self.operations.append(Create(path, encode_state(first)))
        self.owners.append(partition)
        self._add(partition, assignment, first._replace(version=0))

    def _add(self, partition: TopicPartition, assignment: Assignment, state: LeaderAndIsr) -> None:
        self.partitions.append(partition)
        self.states.append(state)
        add_update(self.requests, self._context, partition, assignment, state)


def add_update(
    by_broker: RequestsByBroker,
    context: Context,
    partition: TopicPartition,
    assignment: Assignment,
    state: LeaderAndIsr,
) -> None:
    """Add a partition's update to the requests of its live replicas."""
    named = announced_replicas(context, assignment, state)
    request = encode_update(replica_state(context, partition, state, named))
    brokers = context.brokers
    for replica in named:
        if replica in brokers:
            requests = by_broker.get(replica)
            if requests is None:
                by_broker[replica] = {partition: request}
            else:
                requests[partition] = request


def announced_replicas(
    context: Context, assignment: Assignment, state: LeaderAndIsr
) -> tuple[int, ...]:
    """The replicas that may be in sync, sent to the leader as its replicas.

    A stopping broker is not admitted to an ISR that it is not in (KIP-841): it fetches no more,
    and the leader would wait for it.
    """
    leaving, replicas = context.leaving, assignment.replicas
    if not leaving:
        return replicas
    return tuple([each for each in replicas if each not in leaving or each in state.isr])


def replica_state(
    context: Context, partition: TopicPartition, state: LeaderAndIsr, named: tuple[int, ...]
) -> ReplicaState:
    """What the replicas of a partition are sent."""
    topic = partition[0]
    topic_id, min_isr = context.topics[topic].topic_id, context.rules_of(topic).min_isr
    adding = context.assignments[partition].adding if partition in context.reassigning else ()
    return ReplicaState(partition, topic_id, state, named, min_isr, adding)


# Bulk state changes: built in batches, written in transactions, sent and recorded.
#
# Docs: kafka-elections, kafka-pipelining. Where a leader has changed its ISR meanwhile the state
# is read and decided again. A partition that fails otherwise is reported and does not stop the
# others.


# Partitions in one transaction: about 200 kB with the queue nodes, far below jute.maxbuffer.
CHUNK: Final = 500
# Attempts per partition before it is reported as failed.
_TRIES: Final = 10
# Failures logged one by one; of the rest only the count.
_MAX_LOGGED: Final = 10


@dataclass(slots=True)
class Changes:
    """Result of a bulk change per partition.

    Attributes:
        changed: the new state, written by this controller.
        refused: no change was due by the last state read.
        failed: the state is missing, or could not be read or written.
        with_parent: partitions without a state whose parent node exists.
    """

    changed: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    refused: dict[TopicPartition, RefusedElection] = field(default_factory=dict)
    failed: dict[TopicPartition, StoreError] = field(default_factory=dict)
    with_parent: set[TopicPartition] = field(default_factory=set)

    def update(self, more: "Changes") -> None:
        """Add the results of other partitions."""
        self.changed.update(more.changed)
        self.refused.update(more.refused)
        self.failed.update(more.failed)


# Builds the batch for these partitions; refusals and failures are put into the changes.
BuildBatch = Callable[[Iterable[TopicPartition], Changes], StateBatch]


class BatchWriter:
    """Writes the states of one controller term."""

    def __init__(
        self,
        store: MetadataStore,
        context: Context,
        *,
        writes: FencedWrites,
        reader: StateReader,
        transport: Transport,
        recorder: TransitionRecorder,
    ) -> None:
        self._store = store
        self._context = context
        self._writes = writes
        self._reader = reader
        self._transport = transport
        self._recorder = recorder
        self._changed_by_others: dict[TopicPartition, None] = {}

    async def apply(
        self, partitions: Iterable[TopicPartition], build: BuildBatch, reason: str
    ) -> Changes:
        """Build, write and send batches, many at a time.

        Partitions are written, sent and recorded in the order of their names. ``build`` may be
        called several times for a partition, each time with a newer state.
        """
        changes = Changes()

        async def change(chunk: list[TopicPartition]) -> None:
            left, tries = chunk, _TRIES
            while left and tries:
                batch = build(left, changes)
                try:
                    again = await self._write(batch, changes)
                except TooLarge as error:
                    if len(left) == 1:
                        changes.failed[left[0]] = error
                        return
                    # Long names and many replicas: with ZKQueue each replica adds a request.
                    for half in batched(left, -(-len(left) // 2)):
                        await change(half)
                    return
                # Only attempts without any progress count.
                tries -= len(again) == len(left)
                left = again
            for partition in left:
                changes.failed[partition] = BadVersion(
                    f"{partition} was changed by others in each of {_TRIES} attempts"
                )

        await pipelined(batched(sorted(partitions), CHUNK), change, reason)
        for partition, error in islice(changes.failed.items(), _MAX_LOGGED):
            log.warning("%s: %s is unchanged: %s", reason, partition, error)
        if len(changes.failed) > _MAX_LOGGED:
            log.warning(
                "%s: %d more partitions are unchanged", reason, len(changes.failed) - _MAX_LOGGED
            )
        await self._recorder.write(reason)
        return changes

    async def _write(self, batch: StateBatch, changes: Changes) -> list[TopicPartition]:
        """Write a batch and send it; returns the partitions to be decided again."""
        if not batch.partitions:
            return []
        queued = self._transport.operations(batch.requests)
        try:
            await self._writes.write([*batch.operations, *queued])
        except MultiFailed as error:
            return await self._after_refusal(batch, error, changes)
        except Ambiguous:
            return await self._after_ambiguous(batch, changes)
        self._apply(batch, queued, changes)
        return []

    def _apply(self, batch: StateBatch, queued: Sequence[Operation], changes: Changes) -> None:
        self._transport.on_written(batch.requests, queued)
        context, recorder = self._context, self._recorder
        for partition, state in zip(batch.partitions, batch.states, strict=True):
            recorder.add(partition, context.states.get(partition), state)
            context.put_state(partition, state)
            changes.changed[partition] = state

    async def _after_refusal(
        self, batch: StateBatch, error: MultiFailed, changes: Changes
    ) -> list[TopicPartition]:
        if error.index >= len(batch.owners):
            # A queue node: a deleted parent must not stop elections.
            await self._transport.prepare_retry(batch.requests)
            return batch.partitions
        guilty = batch.owners[error.index]
        match error.cause:
            case NoNode() if guilty not in self._context.states:
                # The topic was deleted: its own event is queued.
                gone = [each for each in batch.partitions if each.topic == guilty.topic]
                changes.failed.update(dict.fromkeys(gone, error.cause))
                return [each for each in batch.partitions if each.topic != guilty.topic]
            case NodeExists() if error.path != paths.leader_and_isr(guilty):
                await self._find_parents(batch.partitions, changes)
                return batch.partitions
            case BadVersion() | NoNode() | NodeExists():
                # Where one has changed, is gone or was initialised by others, more may have been.
                await self._read_again(batch.partitions)
                return self._undecided(batch)
            case _:
                changes.failed[guilty] = error.cause
        return [partition for partition in batch.partitions if partition != guilty]

    def _undecided(self, batch: StateBatch) -> list[TopicPartition]:
        """Partitions of a batch without those that others have initialised since."""
        is_known = self._context.states.__contains__
        return [
            each
            for each, state in zip(batch.partitions, batch.states, strict=True)
            if state.version > 0 or not is_known(each)
        ]

    async def _find_parents(self, partitions: Sequence[TopicPartition], changes: Changes) -> None:
        nodes = await read_nodes(self._store, [paths.partition(p) for p in partitions])
        found = zip(partitions, nodes, strict=True)
        changes.with_parent.update(partition for partition, node in found if node is not None)

    async def _after_ambiguous(self, batch: StateBatch, changes: Changes) -> list[TopicPartition]:
        """The reply was lost and nodes changed since: each node shows whether it was written."""
        states = self._context.states
        before = [states.get(partition) for partition in batch.partitions]
        await self._read_again(batch.partitions)
        done: list[TopicPartition] = []
        for partition, was, state in zip(batch.partitions, before, batch.states, strict=True):
            if states.get(partition) == state:
                self._recorder.add(partition, was, state)
                changes.changed[partition] = state
                done.append(partition)
        # Whether their requests were queued is unknown: they are sent again.
        await self._send_updates(done)
        return [each for each in self._undecided(batch) if each not in changes.changed]

    async def _read_again(self, partitions: Sequence[TopicPartition]) -> None:
        """Read states again; changes made by leaders reach the procedures with a later event."""
        self._changed_by_others.update(dict.fromkeys(await self._reader.refresh(partitions)))

    def take_changed_by_others(self) -> list[TopicPartition]:
        """Partitions that others were found to have changed since the last call.

        Once a write of ours has followed, notifications of their nodes look like our own.
        """
        found, self._changed_by_others = self._changed_by_others, {}
        return list(found)

    async def _send_updates(self, partitions: Iterable[TopicPartition]) -> None:
        context = self._context
        by_broker: RequestsByBroker = {}
        for partition in partitions:
            add_update(
                by_broker,
                context,
                partition,
                context.assignments[partition],
                context.states[partition],
            )
        await self._transport.send(by_broker)
