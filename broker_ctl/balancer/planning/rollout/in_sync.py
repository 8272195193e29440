"""Which replicated partitions wait for a replica to catch up."""

import logging
import math
from collections.abc import Collection
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.errors import CorruptRecord
from broker_ctl.store import partition_paths
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.partitions import decode_state, decode_topic_in_any_form

log = logging.getLogger(__name__)

# Between two reads while replicas lag: there may be thousands of nodes.
_AGAIN_S: Final = 2.0
_MOST_DIGITS: Final = 10


class InSync:
    """Reads the state of all partitions, where there are any."""

    def __init__(self, store: MetadataStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lagging: tuple[str, ...] = ()
        self._read_s = -math.inf

    async def live_ids(self) -> tuple[int, ...]:
        """Ids of the brokers that are registered for replicas.

        Raises:
            StoreError: they could not be read.
        """
        names = await self._store.children(partition_paths.BROKER_IDS)
        return tuple(sorted(int(each) for each in names if _is_id(each)))

    async def lagging(self, expected: Collection[int]) -> tuple[str, ...]:
        """Partitions with a replica on these brokers that is not in the ISR, by a fresh read.

        While there are some, the answer may be two seconds old.

        Raises:
            StoreError: a node could not be read.
        """
        now_s = self._clock.now_s()
        if not self._lagging or now_s - self._read_s >= _AGAIN_S:
            self._read_s, self._lagging = now_s, tuple(map(str, await self._read(expected)))
        return self._lagging

    async def _read(self, expected: Collection[int]) -> list[TopicPartition]:
        names = await self._store.children(partition_paths.TOPICS)
        if not names:
            return []
        # The newest: a state may be read from a server that lags behind.
        await self._store.sync(partition_paths.TOPICS)
        wanted = await self._expected_replicas(names, expected)
        partitions = sorted(wanted)
        states = await self._store.get_many(
            [partition_paths.leader_and_isr(each) for each in partitions]
        )
        found = []
        for partition, node in zip(partitions, states, strict=True):
            try:
                isr = frozenset() if node is None else frozenset(decode_state(node).isr)
            except CorruptRecord as error:
                log.warning("the rollout ignores a partition: %s", error)
                continue
            if not wanted[partition] <= isr:
                found.append(partition)
        return found

    async def _expected_replicas(
        self, names: list[str], expected: Collection[int]
    ) -> dict[TopicPartition, frozenset[int]]:
        found: dict[TopicPartition, frozenset[int]] = {}
        topics = await self._store.get_many([partition_paths.topic(name) for name in names])
        for name, node in zip(names, topics, strict=True):
            if node is None:
                continue
            try:
                partitions = decode_topic_in_any_form(node).partitions
            except CorruptRecord as error:
                log.warning("the rollout ignores a topic: %s", error)
                continue
            for number, of in partitions.items():
                # A reassignment may take long: its new replicas are not waited for.
                replicas = frozenset(of.replicas) - {*of.adding}
                found[TopicPartition(name, number)] = replicas.intersection(expected)
        return found


def _is_id(name: str) -> bool:
    """Whether a registration is a number that a broker can have; anybody may create others."""
    return name.isascii() and name.isdecimal() and len(name) <= _MOST_DIGITS
