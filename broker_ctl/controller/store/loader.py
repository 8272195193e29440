"""Reads the whole cluster (docs: kafka-procedures, kafka-design-v3).

All reads are pipelined. A node that does not decode is skipped and counted; it does not affect the
others.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, TypeVar

from broker_ctl.controller.store.pipelining import READS, pipelined, read_nodes
from broker_ctl.controller.store.topic_ids import TopicIds
from broker_ctl.core.model.batches import batched
from broker_ctl.core.partitions.context import Context
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.rules import ControllerRules
from broker_ctl.core.partitions.values import (
    UNREADABLE_RULES,
    LiveBroker,
    TopicAssignment,
    TopicRules,
)
from broker_ctl.errors import CorruptRecord, InvalidName, StoreError
from broker_ctl.instruments.partitions import ControllerInstruments
from broker_ctl.store import partition_paths
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.partitions import (
    decode_broker,
    decode_failed,
    decode_topic_in_any_form,
    decode_topic_rules,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

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
