"""Replicas for new partitions (docs: kafka-procedures).

What counts first is the topic: a broker that is empty does not get all of a new one, which would
make it the hottest at once. Where the topic leaves a choice, the broker with fewest in all goes
first. Pairs are mixed, so that the followers of one broker are many others (KAFKA-1503).
"""

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from broker_ctl.core.model.tie_break import splitmix64
from broker_ctl.errors import InvalidReplicas

Replicas = tuple[int, ...]


def spread(
    count: int,
    replication_factor: int,
    brokers: Collection[int],
    *,
    beside: Iterable[Replicas] = (),
    all_replicas: Mapping[int, int] | None = None,
    all_leaders: Mapping[int, int] | None = None,
) -> list[Replicas]:
    """Replicas for ``count`` partitions of one topic; the first of each is to lead it.

    ``brokers`` may have them, ``beside`` are the replicas of the partitions that the topic has
    already, and ``all_replicas`` and ``all_leaders`` are how many a broker has of all topics.

    Raises:
        InvalidReplicas: a partition wants more replicas than there are brokers, or none.
    """
    _check_factor(replication_factor, brokers)
    known = list(beside)
    members = _Least(brokers, Counter(each for of_one in known for each in of_one), all_replicas)
    leaders = Counter(replicas[0] for replicas in known)
    elsewhere = all_leaders or {}
    found = []
    for _ in range(count):
        replicas = members.take(replication_factor)
        # In turn, so that the same brokers together do not always have the same leader.
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


class _Least:
    """Brokers with fewest: of the topic, then of all; among equals a random one."""

    def __init__(
        self,
        brokers: Collection[int],
        of_topic: Mapping[int, int],
        of_all: Mapping[int, int] | None,
    ) -> None:
        self._of_topic = {broker: of_topic.get(broker, 0) for broker in brokers}
        self._of_all = {broker: (of_all or {}).get(broker, 0) for broker in brokers}
        self._rng = 0
        self._heap: list[tuple[int, int, int, int]] = []
        for broker in sorted(brokers):
            self._push(broker)

    def take(self, count: int) -> list[int]:
        """One more for each of the ``count`` brokers that have fewest."""
        taken = [heapq.heappop(self._heap)[-1] for _ in range(count)]
        for broker in taken:
            self._of_topic[broker] += 1
            self._of_all[broker] += 1
            self._push(broker)
        return taken

    def _push(self, broker: int) -> None:
        self._rng += 1
        tie = splitmix64(self._rng)
        heapq.heappush(self._heap, (self._of_topic[broker], self._of_all[broker], tie, broker))
