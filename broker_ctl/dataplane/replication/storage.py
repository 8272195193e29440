"""Where a simulated broker process keeps its replicas: what it holds, and their records.

Whoever writes here tells nobody of it before it is written: a record that was shown to a follower,
or acknowledged, survives the end of the process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.dataplane.replication.log import Record


class Holding(NamedTuple):
    """A replica that is held: which topic of that name, and the newest leader epoch instructed."""

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
    """All methods raise OSError where the disk refuses; what was written until then stays."""

    def load(self) -> Mapping[TopicPartition, Stored]:
        """All that is held, as of the last write that was complete."""
        ...

    def hold(self, holdings: Sequence[Holding]) -> None:
        """Remember that these are held, each under its newest leader epoch."""
        ...

    def append(self, partition: TopicPartition, records: Sequence[Record]) -> None:
        """Add records at the end of a replica's log."""
        ...

    def truncate(self, partition: TopicPartition, end_offset: int) -> None:
        """Cut off the records from ``end_offset`` on."""
        ...

    def remove(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget replicas and their records."""
        ...

    def close(self) -> None:
        """Give up all resources."""
        ...


class MemoryStorage:
    """Lasts as long as this object: hand the same one to the next process and it has a disk."""

    def __init__(self) -> None:
        self._held: dict[TopicPartition, Stored] = {}

    def load(self) -> Mapping[TopicPartition, Stored]:
        """All that is held; copies, which grow no further."""
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
        """Nothing to give up: the next process loads it."""
