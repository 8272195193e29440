"""Storage of a simulated broker process: the replicas that it holds, and their records.

A record is written here before it is sent to a follower or acknowledged, so that it survives the
end of the process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.dataplane.replication.log import Record


class Holding(NamedTuple):
    """A replica on disk: its topic id, and the newest leader epoch that was instructed."""

    partition: TopicPartition
    topic_id: str
    leader_epoch: int


@dataclass(slots=True)
class Stored:
    """A replica as it was found at the start."""

    topic_id: str
    leader_epoch: int
    records: list[Record] = field(default_factory=list)


class ReplicaStorage(Protocol):
    """All methods raise OSError if the disk refuses; earlier writes stay."""

    def load(self) -> Mapping[TopicPartition, Stored]:
        """All replicas, as of the last complete write."""
        ...

    def hold(self, holdings: Sequence[Holding]) -> None:
        """Record that these replicas are held, each under its newest leader epoch."""
        ...

    def append(self, partition: TopicPartition, records: Sequence[Record]) -> None:
        """Add records at the end of a replica's log."""
        ...

    def truncate(self, partition: TopicPartition, end_offset: int) -> None:
        """Cut off the records from ``end_offset`` on."""
        ...

    def remove(self, partitions: Sequence[TopicPartition]) -> None:
        """Remove replicas and their records."""
        ...

    def close(self) -> None:
        """Give up all resources."""
        ...


class MemoryStorage:
    """Storage in memory; pass the same object to the next process to simulate a disk."""

    def __init__(self) -> None:
        self._held: dict[TopicPartition, Stored] = {}

    def load(self) -> Mapping[TopicPartition, Stored]:
        """All replicas, as copies that do not change."""
        return {
            partition: Stored(stored.topic_id, stored.leader_epoch, list(stored.records))
            for partition, stored in self._held.items()
        }

    def hold(self, holdings: Sequence[Holding]) -> None:
        """Remember."""
        for partition, topic_id, leader_epoch in holdings:
            stored = self._held.get(partition)
            if stored is None:
                self._held[partition] = Stored(topic_id, leader_epoch)
            else:
                stored.topic_id, stored.leader_epoch = topic_id, leader_epoch

    def append(self, partition: TopicPartition, records: Sequence[Record]) -> None:
        """Add records."""
        self._held[partition].records.extend(records)

    def truncate(self, partition: TopicPartition, end_offset: int) -> None:
        """Cut off records."""
        del self._held[partition].records[end_offset:]

    def remove(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget replicas."""
        for partition in partitions:
            self._held.pop(partition, None)

    def close(self) -> None:
        """Do nothing: the next process loads it."""
