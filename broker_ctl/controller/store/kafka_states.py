"""Takes over the states of partitions from Kafka's own layout, for elections to continue.

Kafka's controller keeps the state of a partition at another path than broker-ctl, and only that
node has the ISR. A partition is not initialised as a new one while its state exists there:
otherwise a replica that lacks records could be elected.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from broker_ctl.controller.store.fenced_writer import FencedWrites
from broker_ctl.controller.store.loader import READS, Found, StateReader, pipelined, read_nodes
from broker_ctl.core.model.counting import batched
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.values import NO_LEADER, Assignment, LeaderAndIsr, TopicPartition
from broker_ctl.errors import Ambiguous, CorruptRecord, MultiFailed, StoreError
from broker_ctl.instruments.partitions import ControllerInstruments
from broker_ctl.store import paths as partition_paths
from broker_ctl.store.interface import Check, Create, MetadataStore, Operation, Versioned
from broker_ctl.store.records.partitions import decode_state, encode_state

log = logging.getLogger(__name__)

# The effective state of a partition: broker-ctl's if both exist, because it is the later one.
OURS: Final = "broker-ctl"
KAFKAS: Final = "kafka"
NOBODYS: Final = "none"
# Attempts to read a state that changes meanwhile.
_TRIES: Final = 10


class Led(NamedTuple):
    """The former state of a partition.

    Attributes:
        has_parent: whether the parent of broker-ctl's state exists.
        fault: why Kafka's state cannot be taken over; empty if it can.
    """

    whose: str
    state: LeaderAndIsr | None
    has_parent: bool
    fault: str = ""


async def read_led(
    store: MetadataStore, assignments: Mapping[TopicPartition, Assignment]
) -> dict[TopicPartition, Led]:
    """Read the former states of these partitions, in their order."""
    led: dict[TopicPartition, Led] = {}

    async def nodes(paths: Iterable[str]) -> list[Found]:
        return await read_nodes(store, list(paths))

    async def read(batch: list[TopicPartition]) -> None:
        own = await nodes(map(partition_paths.leader_and_isr, batch))
        parents = await nodes(map(partition_paths.partition, batch))
        kafkas = await nodes(map(partition_paths.kafka_state, batch))
        for each, *found in zip(batch, own, parents, kafkas, strict=True):
            led[each] = _led(assignments[each], *found)

    await pipelined(batched(assignments, READS), read, "states of Kafka's")
    return {each: led[each] for each in assignments}


def take_over_operations(of: TopicPartition, led: Led, controller_epoch: int) -> list[Operation]:
    """Write Kafka's state of a partition as ours, if it is unchanged since it was read."""
    if led.state is None:
        return []
    operations: list[Operation] = [Check(partition_paths.kafka_state(of), led.state.version)]
    if not led.has_parent:
        operations.append(Create(partition_paths.partition(of)))
    written = encode_state(led.state._replace(controller_epoch=controller_epoch))
    return [*operations, Create(partition_paths.leader_and_isr(of), written)]


class KafkaStates:
    """Takes over states in Kafka's layout, in one term."""

    def __init__(
        self,
        store: MetadataStore,
        context: Context,
        *,
        writes: FencedWrites,
        reader: StateReader,
        instruments: ControllerInstruments,
    ) -> None:
        self._store = store
        self._context = context
        self._writes = writes
        self._reader = reader
        self._instruments = instruments

    async def take_over(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, StoreError]:
        """Take over the states of partitions that Kafka led and broker-ctl does not know yet.

        They are put into the context. Returns the partitions whose state cannot be taken over, with
        the reason: they get no leader, and their replicas are not treated as strays.
        """
        context, failed = self._context, dict[TopicPartition, StoreError]()
        if context.unreadable:
            context.unreadable.difference_update(map(partition_paths.kafka_state, partitions))
        left = await self._in_kafkas_layout(partitions)
        for _ in range(_TRIES):
            if not left:
                break
            found = await read_led(self._store, {each: context.assignments[each] for each in left})
            failed |= {each: CorruptRecord(led.fault) for each, led in found.items() if led.fault}
            found = {each: led for each, led in found.items() if led.whose == KAFKAS}
            left = [each for each in found if each not in failed]
            await self._write({each: found[each] for each in left})
            left = [each for each in left if each not in context.states]
        changing = CorruptRecord("its state in Kafka's layout changes each time that it is read")
        failed |= dict.fromkeys(left, changing)
        for each in failed:
            self._instruments.corrupt_nodes.add("state")
            context.unreadable.add(partition_paths.kafka_state(each))
        return failed

    async def _in_kafkas_layout(
        self, partitions: Collection[TopicPartition]
    ) -> list[TopicPartition]:
        """Partitions without a state whose topics have partitions in Kafka's layout."""
        context = self._context
        wanted = [p for p in partitions if p in context.assignments and p not in context.states]
        topics = dict.fromkeys(each.topic for each in wanted)
        having: set[str] = set()

        async def look(names: list[str]) -> None:
            paths = [partition_paths.kafka_partitions(name) for name in names]
            nodes = await read_nodes(self._store, paths)
            having.update(name for name, node in zip(names, nodes, strict=True) if node)

        await pipelined(batched(topics, READS), look, "topics in Kafka's layout")
        return [each for each in wanted if each.topic in having]

    async def _write(self, led: Mapping[TopicPartition, Led]) -> None:
        """Write the states that can be taken over, and read all of them into the context."""
        for batch in batched(led, READS):
            operations = [
                operation
                for each in batch
                for operation in take_over_operations(each, led[each], self._context.epoch)
            ]
            try:
                await self._writes.write(operations)
            except (MultiFailed, Ambiguous) as error:
                log.info("cannot take over states of Kafka's layout: %s; reading them again", error)
        for each in await self._reader.refresh(led):
            log.warning("%s: took over its state from Kafka's layout", each)


def _led(assignment: Assignment, own: Found, parent: Found, kafkas: Found) -> Led:
    """The former state of a partition, from its nodes."""
    has_parent = parent is not None
    if own is not None:
        return Led(OURS, _state_in(own), has_parent)
    if kafkas is None:
        return Led(NOBODYS, None, has_parent)
    state = _state_in(kafkas)
    fault = "it cannot be read" if state is None else _fault_of(state, assignment)
    if state is None or fault:
        path = kafkas.path if isinstance(kafkas, Versioned) else kafkas
        fault = f"{path}: {fault}: the ISR is unknown; repair it first"
        return Led(KAFKAS, None, has_parent, fault)
    return Led(KAFKAS, state._replace(isr=tuple(sorted(state.isr))), has_parent)


def _state_in(node: Versioned | StoreError) -> LeaderAndIsr | None:
    try:
        return None if isinstance(node, StoreError) else decode_state(node)
    except CorruptRecord:
        return None


def _fault_of(state: LeaderAndIsr, assignment: Assignment) -> str:
    """The fault of a state written by another program; empty if there is none."""
    if not state.isr or not set(state.isr) <= set(assignment.replicas):
        return f"its ISR {list(state.isr)} is not of its replicas {list(assignment.replicas)}"
    if state.leader != NO_LEADER and state.leader not in state.isr:
        return f"its leader {state.leader} is not in its ISR {list(state.isr)}"
    return "" if state.leader_epoch >= 0 else f"its leader epoch is {state.leader_epoch}"
