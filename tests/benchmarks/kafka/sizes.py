"""How much both systems have to do."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

# Jars, sockets, logs of a broker of Kafka, and some to spare.
_OTHER_FILES: Final = 1000


@dataclass(frozen=True, slots=True)
class Sizes:
    """Counts of partitions, and the rows that are measured.

    Attributes:
        partitions: with three replicas, in topics of 50, all led by one broker.
        moved: of one topic, from one broker to another.
        large: of the topic that is made and deleted.
        large_replicas: of each of its partitions.
        heap_mb: of a broker of Kafka, at most.
        runs: of which the median counts, after one that does not.
        rows: names of those that are measured.
    """

    partitions: int
    moved: int
    large: int
    large_replicas: int
    heap_mb: int
    runs: int
    rows: Collection[str]

    def files_of_a_broker(self, brokers: int) -> int:
        """How many files a broker of Kafka has open: one for each replica, and others.

        At the limit of its process it takes its only log directory for failed, and ends.
        """
        large = -(-self.large * self.large_replicas // brokers)
        return self.partitions + self.moved + large + _OTHER_FILES

    def large_lists(self, ids: Collection[int]) -> list[list[int]]:
        """Replicas of the large topic's partitions, in turn."""
        order = sorted(ids)
        return [(order[turn:] + order[:turn])[: self.large_replicas] for turn in range(len(order))]
