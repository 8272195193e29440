"""Replicas that are held here and are not this broker's any more.

Docs: kafka-topic-deletion; KAFKA-14616. Removing one removes records. So nobody's word is enough:
the node of the topic is read, behind all that was committed so far, and where it cannot be read the
replica stays.
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
    """Tells them by what the store says of their topics."""

    def __init__(self, store: MetadataStore, broker_id: int) -> None:
        self._store = store
        self._broker_id = broker_id

    async def find_outdated(self, held: Iterable[HeldReplica]) -> list[HeldReplica]:
        """Those of a topic that had the same name before the one that has it now.

        Raises:
            StoreError: it cannot be told.
        """
        replicas = list(held)
        topics = await self._topics(replicas)
        return [replica for replica in replicas if _is_outdated(replica, topics)]

    async def find_unassigned(self, held: Iterable[HeldReplica]) -> list[HeldReplica]:
        """Those too whose topic is gone, or has its partition elsewhere.

        Raises:
            StoreError: it cannot be told.
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
        """Which of them are not this broker's any more, or of a topic that is to be deleted.

        Raises:
            StoreError: it cannot be told.
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
        """By name, None where there is none; those that cannot be read are missing."""
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
                log.warning("replicas of %s stay: %s", name, error)
        return topics


def _is_outdated(replica: HeldReplica, topics: Mapping[str, TopicAssignment | None]) -> bool:
    topic = topics.get(replica.partition.topic)
    return topic is not None and topic.topic_id != replica.topic_id
