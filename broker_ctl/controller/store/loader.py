"""Reads the whole cluster (docs: kafka-procedures, kafka-design-v3)."""

import asyncio
import logging
import random
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final, TypeVar

from broker_ctl.controller.store.fenced_writer import FencedWrites
from broker_ctl.core.model.counting import batched
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.values import (
    UNREADABLE_RULES,
    ControllerRules,
    LiveBroker,
    TopicAssignment,
    TopicPartition,
    TopicRules,
)
from broker_ctl.errors import Ambiguous, CorruptRecord, Fenced, InvalidName, MultiFailed, StoreError
from broker_ctl.instruments.partitions import ControllerInstruments
from broker_ctl.store import paths as partition_paths
from broker_ctl.store.interface import Check, MetadataStore, Operation, SetData, Versioned
from broker_ctl.store.records.partitions import (
    decode_broker,
    decode_failed,
    decode_state,
    decode_topic_in_any_form,
    decode_topic_rules,
    encode_topic,
)

log = logging.getLogger(__name__)

# Many requests with a limited number in flight (docs: kafka-pipelining).


T = TypeVar("T")

# Enough to keep the servers busy, few enough for heartbeats to get through.
IN_FLIGHT: Final = 4
# Nodes read in one batch.
READS: Final = 128
# Partitions of one turn of the loop: a few milliseconds.
_PARTITIONS_A_TURN: Final = 1000

# The node, None if it does not exist, or the error of reading it.
Found = Versioned | StoreError | None


async def pipelined(
    items: Iterable[T], work: Callable[[T], Awaitable[None]], name: str, width: int = IN_FLIGHT
) -> None:
    """Run ``work`` for each item, started in their order; the first error cancels all of it."""
    rest = iter(items)
    workers: list[asyncio.Task[None]] = []
    errors: list[Exception] = []

    async def keep_working() -> None:
        try:
            for item in rest:
                await work(item)
                # Work that completes without waiting must not starve the event loop.
                await asyncio.sleep(0)
        except Exception as error:  # noqa: BLE001  # raised below
            errors.append(error)
            for worker in workers:
                if worker is not asyncio.current_task():
                    worker.cancel()

    # A task group that handles an error loses a concurrent cancellation: so it gets none.
    async with asyncio.TaskGroup() as group:
        workers += [
            group.create_task(keep_working(), name=f"{name} {number}") for number in range(width)
        ]
    if errors:
        raise errors[0]


class Pauses:
    """Lets the loop go on from time to time in work that does not wait."""

    def __init__(self) -> None:
        self._partitions = 0

    async def after(self, partitions: int) -> None:
        """This many partitions were handled since the last call."""
        self._partitions += partitions
        if self._partitions >= _PARTITIONS_A_TURN:
            self._partitions = 0
            await asyncio.sleep(0)


async def read_nodes(store: MetadataStore, paths: Sequence[str]) -> list[Found]:
    """Read a batch of nodes, in order; an unreadable node does not affect the others.

    Raises:
        StoreError: an error that a retry may resolve.
    """
    try:
        return list(await store.get_many(paths))
    except StoreError as error:
        if error.can_retry:
            raise
        if len(paths) == 1:
            return [error]
    # One of them cannot be read: read each by itself.
    return [node for path in paths for node in await read_nodes(store, [path])]


# Reads states of partitions into the context, many at a time.


class StateReader:
    """Reads and decodes states; a node that cannot be read is skipped and counted."""

    def __init__(
        self, store: MetadataStore, context: Context, instruments: ControllerInstruments
    ) -> None:
        self._store = store
        self._context = context
        self._instruments = instruments

    async def refresh(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Read states again; returns the partitions whose state differed from the context.

        Raises:
            Fenced: a newer controller has written one of them.
            StoreError: the store cannot be reached.
        """
        changed: list[TopicPartition] = []

        async def read(batch: list[TopicPartition]) -> None:
            paths = [partition_paths.leader_and_isr(partition) for partition in batch]
            nodes = await read_nodes(self._store, paths)
            for partition, path, node in zip(batch, paths, nodes, strict=True):
                if self._take(partition, path, node):
                    changed.append(partition)

        await pipelined(batched(partitions, READS), read, "states")
        return changed

    def _take(self, partition: TopicPartition, path: str, node: Found) -> bool:
        """Put one node into the context; returns whether it differed."""
        context = self._context
        before = context.states.get(partition)
        context.unreadable.discard(path)
        if node is None:
            context.drop_state(partition)
            return before is not None
        try:
            if isinstance(node, StoreError):
                raise node
            state = decode_state(node)
        except StoreError as error:
            # The known state is outdated, and the new one is unreadable.
            log.warning("skipped the state of %s: %s", partition, error)
            self._instruments.corrupt_nodes.add("state")
            context.unreadable.add(path)
            context.drop_state(partition)
            return before is not None
        if state.controller_epoch > context.epoch:
            raise Fenced(f"{partition} was written at epoch {state.controller_epoch}")
        if state == before:
            return False
        context.put_state(partition, state)
        return True


# Ids for topics whose nodes have none: those of Kafka before 2.8, and nodes written by hand.
#
# Like Kafka's controller (KIP-516), this one assigns an id when it first reads the topic, but
# only if the topic's node has no children. Brokers hold the replicas of a topic that had leaders
# under its former id; under another one they would take them for strays and delete them. An
# operator has to restore that id in the node, or adopt the topic (`TopicAdoption`).


_BITS: Final = 128
# Attempts to read a node that changes meanwhile.
_TRIES: Final = 10


def new_topic_id(rng: random.Random) -> str:
    """Draw an id that no other topic has, in Kafka's form: base64, without its padding.

    As in Kafka, none begins with a dash, which a command would take for an option. Earlier releases
    wrote 32 hexadecimal digits, which are read as they are.
    """
    while True:
        drawn = rng.getrandbits(_BITS).to_bytes(_BITS // 8)
        text = urlsafe_b64encode(drawn).rstrip(b"=").decode("ascii")
        if not text.startswith("-"):
            return text


class TopicIds:
    """Assigns ids in one term."""

    def __init__(
        self, store: MetadataStore, context: Context, writes: FencedWrites, rng: random.Random
    ) -> None:
        self._store = store
        self._context = context
        self._writes = writes
        self._rng = rng

    async def assign(self, name: str, topic: TopicAssignment) -> TopicAssignment | None:
        """Write an id into a topic's node; returns the new node, None if it is gone.

        Raises:
            CorruptRecord: its earlier id is unknown, or the node was damaged meanwhile.
        """
        path = partition_paths.topic(name)
        for _ in range(_TRIES):
            if topic.topic_id:
                return topic
            with_id, check = await self._with_id(name, topic)
            try:
                await self._writes.write(
                    [SetData(path, encode_topic(with_id), topic.version), *check]
                )
            except (MultiFailed, Ambiguous) as error:
                log.info("cannot write an id for topic %s: %s; reading it again", name, error)
            else:
                log.warning("topic %s had no topic_id, and has %s now", name, with_id.topic_id)
                return with_id
            node = await self._store.get(path)
            if node is None:
                return None
            topic = decode_topic_in_any_form(node)
        raise CorruptRecord(f"{path}: no topic_id, and none can be written")

    async def _with_id(
        self, name: str, topic: TopicAssignment
    ) -> tuple[TopicAssignment, list[Operation]]:
        """Build the node to write, and the checks of the transaction."""
        path, version = partition_paths.topic(name), topic.version + 1
        below = await self._store.children(path)
        if not below:
            return TopicAssignment(new_topic_id(self._rng), topic.partitions, version), []
        known = self._context.topics.get(name)
        if known is None:
            raise CorruptRecord(
                f"{path}: no topic_id, though its partitions have been led: `broker-ctl partitions "
                f"adopt {name}` gives it one"
            )
        return (
            TopicAssignment(known.topic_id, topic.partitions, version),
            [Check(f"{path}/{below[0]}")],
        )


# Reads the whole cluster (docs: kafka-procedures, kafka-design-v3).
#
# All reads are pipelined. A node that does not decode is skipped and counted; it does not affect
# the others.


# Nodes that are read at once before the size of any is known, and bytes of those read at once
# afterwards: a reply must stay below jute.maxbuffer, and a connection that is lost by a larger one
# has everything read again.
_FIRST_READS: Final = 4
_BYTES_AT_ONCE: Final = 256 * 1024
# Nodes of this size are decoded in a turn of the loop of their own.
_LARGE_BYTES: Final = 8 * 1024


class Loader:
    """Reads everything that the controller knows of the cluster, except the states."""

    def __init__(
        self,
        store: MetadataStore,
        context: Context,
        rules: Callable[[], ControllerRules],
        instruments: ControllerInstruments,
        ids: TopicIds,
    ) -> None:
        self._store = store
        self._context = context
        self._rules = rules
        self._instruments = instruments
        self._ids = ids

    async def brokers(self) -> dict[int, LiveBroker]:
        """Read the registered brokers."""
        names = await self._store.children(partition_paths.BROKER_IDS)
        paths = [f"{partition_paths.BROKER_IDS}/{name}" for name in names]
        found = await self._decoded("broker", paths, decode_broker)
        return {broker.broker_id: broker for broker in found if broker is not None}

    async def failures(self, brokers: Collection[int]) -> dict[int, frozenset[TopicPartition]]:
        """Read the replicas that these brokers cannot serve, by broker."""
        paths = [partition_paths.failed(broker_id) for broker_id in brokers]
        found = await self._decoded("failures", paths, decode_failed)
        return {
            broker_id: failed or frozenset()
            for broker_id, failed in zip(brokers, found, strict=True)
        }

    async def topic_names(self) -> list[str]:
        """List all topics with a node, sorted."""
        names = await self._store.children(partition_paths.TOPICS)
        return [name for name in names if self._is_topic(name)]

    async def deletions(self) -> list[str]:
        """List the topics whose deletion was requested."""
        children = await self._store.children(partition_paths.DELETIONS)
        names = [name for name in children if self._is_topic(name)]
        # A request that is not accepted is listed too, but cannot be read.
        requested: list[str] = []
        for batch in batched(names, READS):
            paths = [partition_paths.deletion(name) for name in batch]
            requests = await read_nodes(self._store, paths)
            requested += (name for name, request in zip(batch, requests, strict=True) if request)
        return requested

    async def topics(self, names: Sequence[str]) -> dict[str, TopicAssignment | None]:
        """Read topics' nodes; None for a topic that is gone, no entry for an unreadable one.

        A topic without an id gets one.
        """
        unreadable = self._context.unreadable
        paths = [partition_paths.topic(name) for name in names]
        unreadable.difference_update(paths)
        found = await self._decoded("topic", paths, decode_topic_in_any_form, unreadable)
        known = dict(zip(names, found, strict=True))
        await self._assign_ids(known)
        return {
            name: topic
            for (name, topic), path in zip(known.items(), paths, strict=True)
            if path not in unreadable
        }

    async def _assign_ids(self, topics: dict[str, TopicAssignment | None]) -> None:
        """Assign ids to topics without one; a topic that cannot get one counts as unreadable."""

        async def assign(one: tuple[str, TopicAssignment]) -> None:
            name, topic = one
            try:
                topics[name] = await self._ids.assign(name, topic)
            except CorruptRecord as error:
                self._skip("topic", partition_paths.topic(name), error, self._context.unreadable)

        without_id = [
            (name, topic) for name, topic in topics.items() if topic and not topic.topic_id
        ]
        await pipelined(without_id, assign, "topic ids")

    async def configured_topics(self) -> list[str]:
        """List the topics with a configuration of their own."""
        names = await self._store.children(partition_paths.TOPIC_CONFIGURATION)
        return [name for name in names if self._is_topic(name)]

    async def topic_rules(self, names: Iterable[str]) -> dict[str, TopicRules]:
        """Read the configurations of topics that have one, with defaults from the settings."""
        listed = list(names)
        paths = [partition_paths.topic_configuration(name) for name in listed]
        unreadable: set[str] = set()
        found = await self._decoded("rules", paths, decode_topic_rules, unreadable)
        known = [
            UNREADABLE_RULES if path in unreadable else rules
            for path, rules in zip(paths, found, strict=True)
        ]
        return {
            name: self._rules().with_defaults(rules)
            for name, rules in zip(listed, known, strict=True)
            if rules is not None
        }

    def _is_topic(self, name: str) -> bool:
        try:
            partition_paths.topic(name)
        except InvalidName as error:
            log.warning("skipped a topic: %s", error)
            self._instruments.corrupt_nodes.add("topic")
            return False
        return True

    async def _decoded(
        self,
        kind: str,
        paths: Sequence[str],
        decode: Callable[[Versioned], T],
        unreadable: set[str] | None = None,
    ) -> list[T | None]:
        """Decode nodes in order; None for a missing or corrupt one.

        Paths of corrupt nodes are added to ``unreadable``.
        """
        decoded: list[T | None] = []
        largest, reads = 1, _FIRST_READS
        while len(decoded) < len(paths):
            batch = paths[len(decoded) : len(decoded) + reads]
            for path, node in zip(batch, await read_nodes(self._store, batch), strict=True):
                value: T | None = None
                try:
                    if isinstance(node, StoreError):
                        raise node
                    value = None if node is None else decode(node)
                except StoreError as error:
                    self._skip(kind, path, error, unreadable)
                decoded.append(value)
                size = len(node.data) if isinstance(node, Versioned) else 0
                largest = max(largest, size)
                if size > _LARGE_BYTES:
                    await asyncio.sleep(0)
            reads = max(1, min(READS, _BYTES_AT_ONCE // largest))
        return decoded

    def _skip(self, kind: str, path: str, error: StoreError, unreadable: set[str] | None) -> None:
        log.warning("skipped %s: %s", path, error)
        self._instruments.corrupt_nodes.add(kind)
        if unreadable is not None:
            unreadable.add(path)
