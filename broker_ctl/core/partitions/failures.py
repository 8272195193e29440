"""Failed replicas, which their brokers cannot serve, by broker and by partition.

Docs: kafka-event-queue.
"""

from typing import Final

from broker_ctl.core.partitions.names import TopicPartition

NOBODY: Final[frozenset[int]] = frozenset()


class Failures:
    """The newest reports of the brokers."""

    def __init__(self) -> None:
        self._by_broker: dict[int, frozenset[TopicPartition]] = {}
        self._by_partition: dict[TopicPartition, frozenset[int]] = {}

    def put(self, broker_id: int, failed: frozenset[TopicPartition]) -> None:
        """Record the replicas that a broker reports as failed."""
        before = self._by_broker.pop(broker_id, frozenset())
        if failed:
            self._by_broker[broker_id] = failed
        for partition in before - failed:
            left = self._by_partition[partition] - {broker_id}
            if left:
                self._by_partition[partition] = left
            else:
                del self._by_partition[partition]
        for partition in failed - before:
            self._by_partition[partition] = self.of(partition) | {broker_id}

    def on(self, broker_id: int) -> frozenset[TopicPartition]:
        """Return the replicas that the broker reports as failed."""
        return self._by_broker.get(broker_id, frozenset())

    def of(self, partition: TopicPartition) -> frozenset[int]:
        """Return the brokers that cannot serve their replica of the partition."""
        return self._by_partition.get(partition, NOBODY)
