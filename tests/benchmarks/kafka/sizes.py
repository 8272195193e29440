"""How much both systems have to do."""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Counts of partitions, and the rows that are measured.

    Attributes:
        partitions: with three replicas, in topics of 50, all led by one broker.
        moved: of one topic, from one broker to another.
        large: of the topic that is made and deleted.
        runs: of which the median counts, after one that does not.
        rows: names of those that are measured.
    """

    partitions: int
    moved: int
    large: int
    runs: int
    rows: Collection[str]
