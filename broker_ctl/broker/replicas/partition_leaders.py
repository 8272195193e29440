"""Where replicated partitions are led, for clients that route by it.

Every broker answers, from caches that watches keep right. They are set with the first question: a
broker that nobody asks hears nothing of ten thousand partitions that change their leaders at once.
Until they stand the store itself is asked.

What is told may be older than what another broker tells: a client keeps the answer with the
highest leader epoch, and the leader refuses requests that carry a stale one (KIP-320).
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar

from broker_ctl.clock import Clock
from broker_ctl.core.model.batches import batched
from broker_ctl.core.partitions.names import TopicPartition, validate_topic
from broker_ctl.core.partitions.values import LeaderAndIsr, LiveBroker, TopicAssignment
from broker_ctl.errors import CorruptRecord, StoreError, TopicMissing
from broker_ctl.store import partition_paths
from broker_ctl.store.caches.rules import CacheRules
from broker_ctl.store.caches.values import ValueCache
from broker_ctl.store.caches.watched import WatchedCache
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.partitions import decode_broker, decode_state, decode_topic
from broker_ctl.tasks import TaskScope

T = TypeVar("T")

# Partitions of one topic that are asked for together: they travel in one batch of the store, and
# everybody else has a turn between two.
_AT_ONCE: Final = 200


class LedPartition(NamedTuple):
    """Where a partition is led.

    Attributes:
        topic_id: tells the topic from one that had its name before.
        replicas: broker ids, the preferred one first.
        state: None where the partition has none yet, or where it cannot be read.
        leader: None while there is none, or none that is registered.
    """

    partition: TopicPartition
    topic_id: str
    replicas: tuple[int, ...]
    state: LeaderAndIsr | None
    leader: LiveBroker | None


class PartitionLeaders:
    """Answers from assignments, states and registrations, as far as they were asked for.

    Attributes:
        caches: by what they hold.
    """

    def __init__(self, store: MetadataStore, clock: Clock, cache_rules: CacheRules) -> None:
        topics, brokers = (partition_paths.TOPICS,), (partition_paths.BROKER_IDS,)
        self._topics: ValueCache[TopicAssignment] = ValueCache(
            store, topics, decode_topic, clock, cache_rules
        )
        self._states: ValueCache[LeaderAndIsr] = ValueCache(
            store, topics, decode_state, clock, cache_rules
        )
        self._brokers: ValueCache[LiveBroker] = ValueCache(
            store, brokers, decode_broker, clock, cache_rules
        )
        self.caches: Mapping[str, WatchedCache[Any]] = {
            "partition-assignments": self._topics,
            "partition-states": self._states,
            "partition-brokers": self._brokers,
        }
        self._tasks = TaskScope("partition leaders")
        self._may_begin = True

    @property
    def corrupt(self) -> int:
        """Nodes that did not decode when they were asked for."""
        return self._topics.corrupt + self._states.corrupt + self._brokers.corrupt

    async def close(self) -> None:
        """Stop following; whoever asks from now on is answered from the store."""
        self._may_begin = False
        await self._tasks.close()
        for cache in self.caches.values():
            await cache.close()

    async def find(self, topic: str, partition: int) -> LedPartition:
        """Where one partition is led.

        Raises:
            InvalidName: no replicated topic may have this name.
            TopicMissing: there is no such topic, or it has no such partition.
            CorruptRecord: the assignment cannot be read.
        """
        assignment = await self._assignment(topic)
        if partition not in assignment.partitions:
            count = len(assignment.partitions)
            raise TopicMissing(f"{topic} has no partition {partition}: it has {count} partitions")
        return await self._describe(assignment, TopicPartition(topic, partition))

    async def of_topic(self, topic: str) -> list[LedPartition]:
        """Where all partitions of a topic are led, by number; raises as `find`."""
        assignment = await self._assignment(topic)
        found: list[LedPartition] = []
        for numbers in batched(sorted(assignment.partitions), _AT_ONCE):
            # Between two batches anything may change: each partition is told as it is by itself.
            found += await self._describe_all(
                assignment, [TopicPartition(topic, n) for n in numbers]
            )
        return found

    async def _describe_all(
        self, assignment: TopicAssignment, partitions: list[TopicPartition]
    ) -> list[LedPartition]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(
                        self._describe(assignment, partition), name=f"leader {partition}"
                    )
                    for partition in partitions
                ]
        except* StoreError as errors:
            failed = errors
        else:
            return [task.result() for task in tasks]
        # One of them says why; the others were cancelled, or failed for the same reason.
        raise failed.exceptions[0]

    async def _assignment(self, topic: str) -> TopicAssignment:
        path = partition_paths.topic(validate_topic(topic))
        self._start_caches()
        found = await self._topics.get(path)
        if found is None:
            raise TopicMissing(f"there is no replicated topic {topic}")
        return found

    async def _describe(
        self, assignment: TopicAssignment, partition: TopicPartition
    ) -> LedPartition:
        state = await _get_or_none(self._states, partition_paths.leader_and_isr(partition))
        leader = None
        if state is not None and state.leader >= 0:
            leader = await _get_or_none(self._brokers, partition_paths.broker(state.leader))
        replicas = assignment.partitions[partition.partition].replicas
        return LedPartition(partition, assignment.topic_id, replicas, state, leader)

    def _start_caches(self) -> None:
        if not self._may_begin:
            return
        self._may_begin = False
        for name, cache in self.caches.items():
            self._tasks.start(cache.start(), f"follow {name}")


async def _get_or_none(cache: ValueCache[T], path: str) -> T | None:
    """What stands there; None too where it does not decode, which the cache has told and counted.

    One spoilt node must not take the rest of its topic from clients.
    """
    try:
        return await cache.get(path)
    except CorruptRecord:
        return None
