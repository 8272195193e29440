"""Where the partitions of topics are on the rings of their namespaces (docs: pulsar-binary-lookup).

A partition is a topic of its own, ``NAME-partition-0`` and so on. Its hash says in which bundle it
is, so the number of partitions of each topic is all that has to be known.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.names import RING_HIGH, Namespace, Topic, ring_hash

# Partitions of each topic, by its complete name.
PartitionCounts = Mapping[str, int]
NO_PARTITIONS: Final[PartitionCounts] = {}
# Of one topic, as many as partitioned topics may be created with: a node may hold any number.
MAX_PARTITIONS: Final = 65_536
# Ascending hashes, and the topic of each.
_Ring = tuple[list[int], list[str]]


class TopicPartitions:
    """The partitioned topics of a cluster, by namespace; a value that does not change.

    The hashes of a namespace are computed when they are needed first.

    Args:
        partitions: of each topic with more than one.
        rings: hashes that are known already.
    """

    def __init__(
        self,
        partitions: Mapping[Namespace, PartitionCounts] | None = None,
        rings: Mapping[Namespace, _Ring] | None = None,
    ) -> None:
        self._partitions = partitions or {}
        self._rings = dict(rings or {})

    def replaced(self, topics: Iterable[tuple[Topic, int]]) -> "TopicPartitions":
        """Return the value for these topics; hashes of unchanged namespaces stay."""
        found: dict[Namespace, dict[str, int]] = {}
        for topic, partitions in topics:
            if partitions > 1:
                counted = min(partitions, MAX_PARTITIONS)
                found.setdefault(topic.namespace, {})[str(topic)] = counted
        before = self._partitions
        kept = {
            namespace: ring
            for namespace, ring in tuple(self._rings.items())
            if found.get(namespace) == before.get(namespace)
        }
        return TopicPartitions(found, kept)

    def __bool__(self) -> bool:
        return bool(self._partitions)

    def total(self, namespace: Namespace, topic: str) -> int:
        """Return how many partitions a topic has."""
        return self._partitions.get(namespace, NO_PARTITIONS).get(topic, 0)

    def of(self, bundle: Bundle) -> PartitionCounts:
        """Return the partitions in a bundle, by topic."""
        if bundle.namespace not in self._partitions:
            return NO_PARTITIONS
        hashes, topics = self._ring(bundle.namespace)
        span = bundle.range
        # The last range of a ring has its upper end too.
        end = span.high + (span.high == RING_HIGH)
        low, high = bisect_left(hashes, span.low), bisect_left(hashes, end)
        return Counter(topics[low:high])

    def after(
        self, counts: PartitionCounts, gone: Iterable[Bundle], come: Iterable[Bundle]
    ) -> PartitionCounts:
        """Return a broker's partitions after some bundles have gone, and others have come."""
        if not self._partitions:
            return NO_PARTITIONS
        changed = Counter(counts)
        for bundle in come:
            changed.update(self.of(bundle))
        for bundle in gone:
            changed.subtract(self.of(bundle))
        return {topic: count for topic, count in changed.items() if count > 0}

    def _ring(self, namespace: Namespace) -> _Ring:
        known = self._rings.get(namespace)
        if known is None:
            found = sorted(
                (ring_hash(f"{topic}-partition-{number}"), topic)
                for topic, partitions in self._partitions[namespace].items()
                for number in range(partitions)
            )
            known = [each for each, _ in found], [topic for _, topic in found]
            self._rings[namespace] = known
        return known


NO_TOPIC_PARTITIONS: Final = TopicPartitions()
