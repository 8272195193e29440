"""Racks of brokers, and the partitions whose replicas are on too few of them (docs: kafka-racks).

Replicas of a partition are on as many racks as there are, as in Kafka's rack-aware assignment.
Racks count once every broker has one: a single labelled broker would otherwise get a replica of
every partition.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from broker_ctl.core.partitions.names import TopicPartition
from broker_ctl.core.partitions.values import Assignment, LiveBroker

# Rack by broker id; brokers that are not listed are in no known rack.
Racks = Mapping[int, str]
NO_RACKS: Final[Racks] = {}


def racks_of(brokers: Iterable[LiveBroker]) -> Racks:
    """Return the rack of each broker; none at all if one of them has none."""
    racks = {broker.broker_id: broker.rack for broker in brokers}
    return racks if all(racks.values()) else NO_RACKS


def racks_used(replicas: Iterable[int], racks: Racks) -> int:
    """Return on how many racks these replicas are; a broker in no known rack counts as one."""
    return len({racks.get(broker, broker) for broker in replicas})


def racks_wanted(replication_factor: int, racks: Racks) -> int:
    """Return on how many racks a partition has to be."""
    return min(replication_factor, len(set(racks.values())))


def is_violated(replicas: Collection[int], racks: Racks) -> bool:
    """Return whether replicas are on fewer racks than they could be."""
    return racks_used(replicas, racks) < racks_wanted(len(replicas), racks)


class RackIndex:
    """The partitions that violate the racks, always up to date.

    Attributes:
        racks: of the registered brokers, by id; empty while one of them has none.
        violated: partitions whose target replicas are on fewer racks than they could be.
    """

    def __init__(self) -> None:
        self.racks: Racks = NO_RACKS
        self.violated: set[TopicPartition] = set()

    def judge(self, partition: TopicPartition, assignment: Assignment) -> None:
        """Judge a partition by the replicas that it has, or is to have."""
        if self.racks and is_violated(assignment.target, self.racks):
            self.violated.add(partition)
        else:
            self.violated.discard(partition)

    def forget(self, partition: TopicPartition) -> None:
        """Remove a partition."""
        self.violated.discard(partition)

    def put_brokers(
        self,
        brokers: Iterable[LiveBroker],
        assignments: Mapping[TopicPartition, Assignment],
        replicas_on: Callable[[int], Collection[TopicPartition]],
    ) -> None:
        """Set all registered brokers; judges the partitions that the change concerns."""
        before, self.racks = self.racks, racks_of(brokers)
        if set(before.values()) != set(self.racks.values()):
            concerned: Iterable[TopicPartition] = assignments
        else:
            changed = [
                broker
                for broker in before.keys() | self.racks.keys()
                if before.get(broker) != self.racks.get(broker)
            ]
            concerned = {each for broker in changed for each in replicas_on(broker)}
        for partition in concerned:
            self.judge(partition, assignments[partition])
