"""Deletion of a topic, replica by replica (docs: kafka-state-machines, kafka-topic-deletion).

Every live broker stops its replica, deletes it and acknowledges. A replica whose broker or disk is
gone does not delay the deletion: it carries the topic's id, so that the controller recognises it as
a stray when it comes back, even if another topic has the name by then.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from broker_ctl.core.partitions.instructions import NO_REPLICA, STORAGE_ERROR, WRONG_TOPIC_ID
from broker_ctl.core.partitions.values import ReplicaStage, TopicPartition, step_replica

# The broker has no replica of this topic: for a deletion that is a success.
_GONE: Final = frozenset({NO_REPLICA, WRONG_TOPIC_ID})
_R: Final = ReplicaStage

Replica = tuple[int, TopicPartition]
# The replicas to stop, by broker.
Stops = dict[int, list[TopicPartition]]


class Deletion:
    """The deletion of one topic.

    Args:
        replicas: brokers of each partition; during a reassignment, of both sets.
    """

    def __init__(self, topic_id: str, replicas: Mapping[TopicPartition, Collection[int]]) -> None:
        self.topic_id = topic_id
        self._stages: dict[Replica, ReplicaStage] = {
            (broker_id, partition): _R.OFFLINE
            for partition, brokers in replicas.items()
            for broker_id in brokers
        }
        self._counts = Counter(self._stages.values())

    @property
    def is_complete(self) -> bool:
        """Return whether all replicas are done, so that the topic's nodes may be deleted."""
        return not (self._counts[_R.OFFLINE] or self._counts[_R.DELETION_STARTED])

    def count(self, stage: ReplicaStage) -> int:
        """Return the number of replicas in a stage."""
        return self._counts[stage]

    def begin(self, live: Collection[int]) -> Stops:
        """Return the stops to send now; does not wait for replicas on brokers that are not live."""
        stops: Stops = {}
        for replica in list(self._stages):
            broker_id, partition = replica
            if broker_id in live:
                self._step(replica, _R.DELETION_STARTED)
                stops.setdefault(broker_id, []).append(partition)
            else:
                self._step(replica, _R.DELETION_INELIGIBLE)
        return stops

    def answered(self, broker_id: int, partition: TopicPartition, reason: str | None) -> bool:
        """Record the result of a stop, with the reason of a failure; return whether to repeat."""
        replica = (broker_id, partition)
        if self._stages.get(replica) is not _R.DELETION_STARTED:
            return False  # late: the broker was given up, or the stop was sent twice
        if reason is None or reason in _GONE:
            self._step(replica, _R.DELETION_SUCCESSFUL)
            return False
        self._step(replica, _R.DELETION_INELIGIBLE)
        if reason == STORAGE_ERROR:
            return False
        self._step(replica, _R.OFFLINE)
        self._step(replica, _R.DELETION_STARTED)
        return True

    def lost(self, brokers: Collection[int]) -> None:
        """Stop waiting for replicas on brokers that are gone or do not acknowledge."""
        for replica, stage in list(self._stages.items()):
            if stage is _R.DELETION_STARTED and replica[0] in brokers:
                self._step(replica, _R.DELETION_INELIGIBLE)

    def _step(self, replica: Replica, to: ReplicaStage) -> None:
        before = self._stages[replica]
        self._stages[replica] = step_replica(before, to, f"{replica[1]} on {replica[0]}")
        self._counts[before] -= 1
        self._counts[to] += 1
