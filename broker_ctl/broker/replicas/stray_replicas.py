"""Stray replicas: replicas on this broker that are not assigned to it any more.

Docs: kafka-topic-deletion; KAFKA-14616. Removing a replica deletes records, so an instruction alone
is not enough: the topic's node is read after a sync, and the replica stays if the node cannot be
read.
"""

import logging
from collections.abc import Iterable, Mapping

from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.values import TopicAssignment
from broker_ctl.dataplane.webhook.replicas import HeldReplica
from broker_ctl.errors import CorruptRecord
from broker_ctl.store import partition_paths
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.partitions import decode_topic

log = logging.getLogger(__name__)


class StrayReplicas:
    """Finds stray replicas by the topics' nodes in the store."""

    def __init__(self, store: MetadataStore, broker_id: int) -> None:
        self._store = store
        self._broker_id = broker_id

    async def find_outdated(self, held: Iterable[HeldReplica]) -> list[HeldReplica]:
        """Find the replicas of deleted topics whose names were reused.

        Raises:
            StoreError: the topics cannot be read.
        """
        replicas = list(held)
        topics = await self._topics(replicas)
        return [replica for replica in replicas if _is_outdated(replica, topics)]

    async def find_unassigned(self, held: Iterable[HeldReplica]) -> list[HeldReplica]:
        """Find the replicas of deleted topics, and those assigned to other brokers.

        Raises:
            StoreError: the topics cannot be read.
        """
        replicas = list(held)
        topics = await self._topics(replicas)
        found = [replica for replica in replicas if not self._is_assigned(replica, topics)]
        if len(found) < len(replicas):
            log.warning(
                "%d replicas stay: the store assigns them to this broker",
                len(replicas) - len(found),
            )
        return found

    async def find_deletable(self, held: Iterable[HeldReplica]) -> set[TopicPartition]:
        """Find partitions not assigned to this broker, and those of topics being deleted.

        Raises:
            StoreError: the topics cannot be read.
        """
        replicas = list(held)
        topics = await self._topics(replicas)
        names = [name for name, topic in topics.items() if topic is not None]
        requests = await self._store.get_many([partition_paths.deletion(name) for name in names])
        deleted = {
            name for name, request in zip(names, requests, strict=True) if request is not None
        }
        return {
            replica.partition
            for replica in replicas
            if replica.partition.topic in deleted or not self._is_assigned(replica, topics)
        }

    def _is_assigned(
        self, replica: HeldReplica, topics: Mapping[str, TopicAssignment | None]
    ) -> bool:
        topic, number = replica.partition
        if topic not in topics or _is_outdated(replica, topics):
            return topic not in topics
        known = topics[topic]
        assignment = None if known is None else known.partitions.get(number)
        return assignment is not None and self._broker_id in assignment.replicas

    async def _topics(
        self, replicas: Iterable[HeldReplica]
    ) -> Mapping[str, TopicAssignment | None]:
        """Assignments by topic; None for a deleted topic, no entry for an unreadable one."""
        names = sorted({replica.partition.topic for replica in replicas})
        if not names:
            return {}
        await self._store.sync(partition_paths.TOPICS)
        nodes = await self._store.get_many([partition_paths.topic(name) for name in names])
        topics: dict[str, TopicAssignment | None] = {}
        for name, node in zip(names, nodes, strict=True):
            try:
                topics[name] = None if node is None else decode_topic(node)
            except CorruptRecord as error:
                log.warning("cannot read topic %s: %s; its replicas stay", name, error)
        return topics


def _is_outdated(replica: HeldReplica, topics: Mapping[str, TopicAssignment | None]) -> bool:
    topic = topics.get(replica.partition.topic)
    return topic is not None and topic.topic_id != replica.topic_id
