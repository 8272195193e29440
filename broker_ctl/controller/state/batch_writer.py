"""New states in bulk: drafted, written in one transaction after another, and seen to.

Docs: kafka-elections, kafka-pipelining. Where a leader has changed its ISR meanwhile the state is
read again, and decided on again. A partition that fails otherwise is reported, and never stops the
others.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from broker_ctl.controller.state.state_batch import StateBatch, address
from broker_ctl.controller.state.transition_recorder import Record
from broker_ctl.controller.store.fenced_writer import FencedWrites
from broker_ctl.controller.store.pipelining import pipelined, read_nodes
from broker_ctl.controller.store.state_reader import StateReader
from broker_ctl.controller.transport.messages import Mail, Transport
from broker_ctl.core.model.steps import batched
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.elections import Refused
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.values import LeaderAndIsr
from broker_ctl.errors import (
    Ambiguous,
    BadVersion,
    MultiFailed,
    NodeExists,
    NoNode,
    StoreError,
    TooLarge,
)
from broker_ctl.store import partition_paths
from broker_ctl.store.interface import MetadataStore, Operation

log = logging.getLogger(__name__)

# Partitions in one transaction: about 40 kB with the queue nodes, far below jute.maxbuffer.
CHUNK: Final = 200
# How often a partition is decided on anew before it is given up for this time.
_TRIES: Final = 10
# Of many that fail for one reason a few tell it.
_SHOWN: Final = 10


@dataclass(slots=True)
class Changes:
    """What became of each partition that was to be changed.

    Attributes:
        changed: the state that stands now, written by us.
        refused: nothing was to be done, by the last look at its state.
        failed: it could not be read or written, or has no state.
        with_parent: partitions without a state whose parent node is there all the same.
    """

    changed: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    refused: dict[TopicPartition, Refused] = field(default_factory=dict)
    failed: dict[TopicPartition, StoreError] = field(default_factory=dict)
    with_parent: set[TopicPartition] = field(default_factory=set)

    def update(self, more: "Changes") -> None:
        """Add what became of other partitions."""
        self.changed.update(more.changed)
        self.refused.update(more.refused)
        self.failed.update(more.failed)


# Drafts what is to be done about these; what is not to be done is put into the changes.
MakeDraft = Callable[[Iterable[TopicPartition], Changes], StateBatch]


class BatchWriter:
    """Writes the states of one leading."""

    def __init__(
        self,
        store: MetadataStore,
        context: Context,
        *,
        writes: FencedWrites,
        reader: StateReader,
        transport: Transport,
        record: Record,
    ) -> None:
        self._store = store
        self._context = context
        self._writes = writes
        self._reader = reader
        self._transport = transport
        self._record = record
        self._found: dict[TopicPartition, None] = {}

    async def carry_out(
        self, partitions: Iterable[TopicPartition], draft: MakeDraft, reason: str
    ) -> Changes:
        """Draft, write and tell, many at a time; what became of each.

        They are written, told and recorded in the order of their names. ``draft`` may be asked
        several times for a partition, each time about a newer state.
        """
        changes = Changes()

        async def change(chunk: list[TopicPartition]) -> None:
            left, tries = chunk, _TRIES
            while left and tries:
                made = draft(left, changes)
                try:
                    again = await self._write(made, changes)
                except TooLarge as error:
                    if len(left) == 1:
                        changes.failed[left[0]] = error
                        return
                    # Long names and many replicas: in ZKQueue each of them has a letter.
                    for half in batched(left, -(-len(left) // 2)):
                        await change(half)
                    return
                # However many of them fail for themselves, the others have their tries.
                tries -= len(again) == len(left)
                left = again
            for partition in left:
                changes.failed[partition] = BadVersion(f"{partition} changes all the time")

        await pipelined(batched(sorted(partitions), CHUNK), change, reason)
        for partition, error in islice(changes.failed.items(), _SHOWN):
            log.warning("%s: %s stays as it is: %s", reason, partition, error)
        if len(changes.failed) > _SHOWN:
            log.warning("%s: so do %d more", reason, len(changes.failed) - _SHOWN)
        await self._record.write(reason)
        return changes

    async def _write(self, made: StateBatch, changes: Changes) -> list[TopicPartition]:
        """Write a draft, and tell; the partitions that are to be decided on again."""
        if not made.partitions:
            return []
        queued = self._transport.operations(made.mail)
        try:
            await self._writes.write([*made.operations, *queued])
        except MultiFailed as error:
            return await self._after_refusal(made, error, changes)
        except Ambiguous:
            return await self._after_doubt(made, changes)
        self._settle(made, queued, changes)
        return []

    def _settle(self, made: StateBatch, queued: Sequence[Operation], changes: Changes) -> None:
        self._transport.written(made.mail, queued)
        context, record = self._context, self._record
        for partition, state in zip(made.partitions, made.states, strict=True):
            record.note(partition, context.states.get(partition), state)
            context.put_state(partition, state)
            changes.changed[partition] = state

    async def _after_refusal(
        self, made: StateBatch, error: MultiFailed, changes: Changes
    ) -> list[TopicPartition]:
        if error.index >= len(made.owners):
            # A node of the queue: whoever took its parent away must not stop elections.
            await self._transport.prepare(made.mail)
            return made.partitions
        guilty = made.owners[error.index]
        match error.cause:
            case NoNode() if guilty not in self._context.states:
                # There is no such topic any more: its own event waits.
                gone = [each for each in made.partitions if each.topic == guilty.topic]
                changes.failed.update(dict.fromkeys(gone, error.cause))
                return [each for each in made.partitions if each.topic != guilty.topic]
            case NodeExists() if error.path != partition_paths.leader_and_isr(guilty):
                await self._find_parents(made.partitions, changes)
                return made.partitions
            case BadVersion() | NoNode() | NodeExists():
                # Where one has changed, is gone, or was initialised before us, others will, too.
                await self._read_again(made.partitions)
                return self._to_be_drafted(made)
            case _:
                changes.failed[guilty] = error.cause
        return [partition for partition in made.partitions if partition != guilty]

    def _to_be_drafted(self, made: StateBatch) -> list[TopicPartition]:
        """All of a draft but what has been initialised since, which stands as it is."""
        is_known = self._context.states.__contains__
        return [
            each
            for each, state in zip(made.partitions, made.states, strict=True)
            if state.version > 0 or not is_known(each)
        ]

    async def _find_parents(self, partitions: Sequence[TopicPartition], changes: Changes) -> None:
        nodes = await read_nodes(self._store, [partition_paths.partition(p) for p in partitions])
        found = zip(partitions, nodes, strict=True)
        changes.with_parent.update(partition for partition, node in found if node is not None)

    async def _after_doubt(self, made: StateBatch, changes: Changes) -> list[TopicPartition]:
        """The reply was lost, and the nodes have changed since: each tells of itself."""
        states = self._context.states
        before = [states.get(partition) for partition in made.partitions]
        await self._read_again(made.partitions)
        done: list[TopicPartition] = []
        for partition, was, state in zip(made.partitions, before, made.states, strict=True):
            if states.get(partition) == state:
                self._record.note(partition, was, state)
                changes.changed[partition] = state
                done.append(partition)
        # Whether their letters are among what the queue holds is not known: they go again.
        await self._tell(done)
        return [each for each in self._to_be_drafted(made) if each not in changes.changed]

    async def _read_again(self, partitions: Sequence[TopicPartition]) -> None:
        """The states as they stand now; whose leader wrote is told to the procedures later."""
        self._found.update(dict.fromkeys(await self._reader.refresh(partitions)))

    def take_found(self) -> list[TopicPartition]:
        """Partitions that others were found to have changed since this was asked last.

        Once a write of ours has followed, their notifications tell of nobody else.
        """
        found, self._found = self._found, {}
        return list(found)

    async def _tell(self, partitions: Iterable[TopicPartition]) -> None:
        context = self._context
        mail: Mail = {}
        for partition in partitions:
            address(
                mail,
                context,
                partition,
                context.assignments[partition],
                context.states[partition],
            )
        await self._transport.post(mail)
