"""Leaders of replicated partitions, for clients that route by partition.

Every broker answers from caches that watches keep current. The first request starts the watches, so
a broker without such clients gets no events when ten thousand partitions change leaders. Until the
watches are set, answers come from the store.

Answers of two brokers may differ in age: a client keeps the one with the highest leader epoch, and
a leader refuses requests with a stale epoch (KIP-320).
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeVar

from broker_ctl.clock import Clock
from broker_ctl.core.model.counting import batched
from broker_ctl.core.partitions.values import (
    LeaderAndIsr,
    LiveBroker,
    TopicAssignment,
    TopicPartition,
    validate_topic,
)
from broker_ctl.errors import CorruptRecord, StoreError, TopicMissing
from broker_ctl.store import paths
from broker_ctl.store.cached_values import ValueCache
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.partitions import decode_broker, decode_state, decode_topic
from broker_ctl.store.watched_cache import CacheRules, WatchedCache
from broker_ctl.tasks import TaskScope

T = TypeVar("T")

# Partitions of one topic that are read in one batch of the store; other tasks run between batches.
_AT_ONCE: Final = 200


class LedPartition(NamedTuple):
    """The leader and replicas of one partition.

    Attributes:
        topic_id: distinguishes the topic from an earlier one of the same name.
        replicas: broker ids, the preferred one first.
        state: None if the partition has no state yet, or if its node cannot be read.
        leader: None if the partition has no leader, or its leader is not registered.
    """

    partition: TopicPartition
    topic_id: str
    replicas: tuple[int, ...]
    state: LeaderAndIsr | None
    leader: LiveBroker | None


class PartitionLeaders:
    """Answers from assignments, states and registrations, each cached on first use.

    Attributes:
        caches: the caches by the kind of value.
    """

    def __init__(
        self, store: MetadataStore, clock: Clock, cache_rules: CacheRules, *, rng: random.Random
    ) -> None:
        topics, brokers = (paths.TOPICS,), (paths.BROKER_IDS,)
        self._topics: ValueCache[TopicAssignment] = ValueCache(
            store, topics, decode_topic, clock, cache_rules, rng=rng
        )
        self._states: ValueCache[LeaderAndIsr] = ValueCache(
            store, topics, decode_state, clock, cache_rules, rng=rng
        )
        self._brokers: ValueCache[LiveBroker] = ValueCache(
            store, brokers, decode_broker, clock, cache_rules, rng=rng
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
        """Number of nodes that were read and did not decode."""
        return self._topics.corrupt + self._states.corrupt + self._brokers.corrupt

    async def close(self) -> None:
        """Stop the watches; later answers come from the store."""
        self._may_begin = False
        await self._tasks.close()
        for cache in self.caches.values():
            await cache.close()

    async def find(self, topic: str, partition: int) -> LedPartition:
        """Find the leader of one partition.

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
        """Find the leaders of all partitions of a topic, by number; raises as `find`."""
        assignment = await self._assignment(topic)
        found: list[LedPartition] = []
        for numbers in batched(sorted(assignment.partitions), _AT_ONCE):
            # The state may change between two batches, so each partition is described by itself.
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
        # One of the errors says why; the other reads were cancelled or failed for the same reason.
        raise failed.exceptions[0]

    async def _assignment(self, topic: str) -> TopicAssignment:
        path = paths.topic(validate_topic(topic))
        self._start_caches()
        found = await self._topics.get(path)
        if found is None:
            raise TopicMissing(f"there is no replicated topic {topic}")
        return found

    async def _describe(
        self, assignment: TopicAssignment, partition: TopicPartition
    ) -> LedPartition:
        state = await _get_or_none(self._states, paths.leader_and_isr(partition))
        leader = None
        if state is not None and state.leader >= 0:
            leader = await _get_or_none(self._brokers, paths.broker(state.leader))
        replicas = assignment.partitions[partition.partition].replicas
        return LedPartition(partition, assignment.topic_id, replicas, state, leader)

    def _start_caches(self) -> None:
        if not self._may_begin:
            return
        self._may_begin = False
        for name, cache in self.caches.items():
            self._tasks.start(cache.start(), f"follow {name}")


async def _get_or_none(cache: ValueCache[T], path: str) -> T | None:
    """The cached value; None also for a node that does not decode, which the cache counts and logs.

    One corrupt node must not hide the rest of its topic from clients.
    """
    try:
        return await cache.get(path)
    except CorruptRecord:
        return None
