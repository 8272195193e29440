"""Chooses replicas for new partitions, over racks."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from broker_ctl.core.model.counting import splitmix64
from broker_ctl.core.partitions.values import Assignment, LiveBroker, TopicPartition
from broker_ctl.errors import InvalidReplicas

# Racks of brokers, and the partitions whose replicas are on too few of them (docs: kafka-racks).
#
# Replicas of a partition are on as many racks as there are, as in Kafka's rack-aware assignment.
# Racks count once every broker has one: a single labelled broker would otherwise get a replica of
# every partition.


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


# Chooses replicas for new partitions (docs: kafka-procedures).
#
# Replicas of the same topic count first, then those of all topics: otherwise an empty broker would
# get all partitions of a new topic, and would become the hottest broker. The followers of one
# broker's partitions are distributed over many other brokers (KAFKA-1503). The replicas of a
# partition are on as many racks as there are (docs: kafka-racks).


Replicas = tuple[int, ...]


def spread(
    count: int,
    replication_factor: int,
    brokers: Collection[int],
    *,
    beside: Iterable[Replicas] = (),
    all_replicas: Mapping[int, int] | None = None,
    all_leaders: Mapping[int, int] | None = None,
    racks: Racks = NO_RACKS,
) -> list[Replicas]:
    """Choose replicas for ``count`` partitions of one topic; the first replica is preferred.

    ``brokers`` may receive replicas, ``beside`` are the replicas of the topic's existing
    partitions, and ``all_replicas`` and ``all_leaders`` count a broker's partitions of all topics.
    Brokers without a rack share one.

    Raises:
        InvalidReplicas: a partition has more replicas than there are brokers, or none.
    """
    _check_factor(replication_factor, brokers)
    known = list(beside)
    members = _Least(
        brokers, Counter(each for of_one in known for each in of_one), all_replicas, racks
    )
    leaders = Counter(replicas[0] for replicas in known)
    elsewhere = all_leaders or {}
    found = []
    for _ in range(count):
        replicas = members.take(replication_factor)
        # Rotated, so that a set of brokers does not always have the same leader.
        replicas.sort(key=lambda broker: (leaders[broker], elsewhere.get(broker, 0)))
        leaders[replicas[0]] += 1
        found.append(tuple(replicas))
    return found


def _check_factor(replication_factor: int, brokers: Collection[int]) -> None:
    if replication_factor < 1:
        raise InvalidReplicas(f"{replication_factor} replicas: a partition has at least one")
    if replication_factor > len(brokers):
        raise InvalidReplicas(
            f"{replication_factor} replicas on as many brokers, and {len(brokers)} live:"
            f" {', '.join(map(str, sorted(brokers))) or 'none'}"
        )


_Queue = list[tuple[int, int, int, int]]


class _Least:
    """Brokers by number of partitions: of the topic, then of all; ties are broken at random."""

    def __init__(
        self,
        brokers: Collection[int],
        of_topic: Mapping[int, int],
        of_all: Mapping[int, int] | None,
        racks: Racks,
    ) -> None:
        self._of_topic = {broker: of_topic.get(broker, 0) for broker in brokers}
        self._of_all = {broker: (of_all or {}).get(broker, 0) for broker in brokers}
        self._rack_of = {broker: racks.get(broker, "") for broker in brokers}
        self._rng = 0
        self._queues: defaultdict[str, _Queue] = defaultdict(list)
        for broker in sorted(brokers):
            self._push(broker)

    def take(self, count: int) -> list[int]:
        """Choose the ``count`` brokers with the fewest, and count one more for each.

        A rack gets another one only when all racks with a broker left have as many.
        """
        taken: list[int] = []
        in_rack = Counter[str]()
        for _ in range(count):
            left = [rack for rack, queue in self._queues.items() if queue]
            fewest = min(in_rack[rack] for rack in left)
            queues = [self._queues[rack] for rack in left if in_rack[rack] == fewest]
            broker = heapq.heappop(min(queues, key=lambda queue: queue[0]))[-1]
            in_rack[self._rack_of[broker]] += 1
            taken.append(broker)
        for broker in taken:
            self._of_topic[broker] += 1
            self._of_all[broker] += 1
            self._push(broker)
        return taken

    def _push(self, broker: int) -> None:
        self._rng += 1
        entry = self._of_topic[broker], self._of_all[broker], splitmix64(self._rng), broker
        heapq.heappush(self._queues[self._rack_of[broker]], entry)
