"""The partitions of each topic on each broker, as the planner's arrays.

Soft: of the receivers that a move may have, those with the fewest partitions of its topics beyond
an even share. Hard: no move brings a broker beyond the cap (loadBalancerTopicPartitionsPerBroker).
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

_Indices = NDArray[np.int32]
_Flags = NDArray[np.bool_]
_NONE: Final = np.zeros(0, np.int32)
# A bundle has at most `MAX_PARTITIONS` of a topic.
_COUNT_BITS: Final = 17
_COUNT_MASK: Final = (1 << _COUNT_BITS) - 1


@dataclass(frozen=True, slots=True, eq=False)
class TopicSpread:
    """Which partitions each bundle has. Topics are numbers here.

    Attributes:
        starts: the entries of bundle ``i`` are those from ``starts[i]`` to ``starts[i + 1]``.
        topics: topic of each entry.
        counts: its partitions in the bundle.
        fair: of each topic, the partitions on a broker that has no more than its share.
        cap: most partitions of a topic on a broker; 0: any number.
    """

    starts: _Indices
    topics: _Indices
    counts: _Indices
    fair: _Indices
    cap: int = 0

    def of(self, bundle: int) -> tuple[_Indices, _Indices]:
        """The topics of a bundle, and its partitions of each."""
        if not len(self.starts):
            return _NONE, _NONE
        entries = slice(self.starts[bundle], self.starts[bundle + 1])
        return self.topics[entries], self.counts[entries]


NO_SPREAD: Final = TopicSpread(_NONE, _NONE, _NONE, _NONE)


def spread_of(rows: list[dict[int, int]], brokers: int, topics: int, cap: int) -> TopicSpread:
    """Arrays of what each bundle has: partitions by topic."""
    if not topics:
        return NO_SPREAD
    lengths = np.fromiter(map(len, rows), np.int32, len(rows))
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    entries = int(starts[-1])
    of_topics = np.fromiter((topic for row in rows for topic in row), np.int32, entries)
    counts = np.fromiter((count for row in rows for count in row.values()), np.int32, entries)
    return TopicSpread(starts, of_topics, counts, _fair(of_topics, counts, topics, brokers), cap)


def _fair(of_topics: _Indices, counts: _Indices, topics: int, brokers: int) -> _Indices:
    sums = np.bincount(of_topics, counts, minlength=topics)
    return np.ceil(sums / max(1, brokers)).astype(np.int32)


@dataclass(slots=True, eq=False)
class SpreadCounts:
    """Partitions of each topic on each broker while moves are being planned.

    Most brokers have no partition of most topics: only the others are kept, as sorted keys of topic
    and broker, and what moves have changed since.
    """

    spread: TopicSpread
    brokers: int
    keys: NDArray[np.int64]
    sums: NDArray[np.int64]
    changed: dict[int, dict[int, int]] = field(default_factory=dict)
    by_topic: tuple[NDArray[np.int64], _Indices, _Indices] | None = None

    @classmethod
    def of(cls, spread: TopicSpread, owner: _Indices, brokers: int) -> "SpreadCounts":
        """The counts of these owners."""
        if not len(spread.topics):
            return cls(spread, brokers, np.zeros(0, np.int64), np.zeros(0, np.int64))
        owners = np.repeat(owner, np.diff(spread.starts))
        keys = spread.topics.astype(np.int64) * brokers + owners
        # Values are sorted several times as fast as their places are found.
        packed = np.sort((keys << _COUNT_BITS) | spread.counts)
        keys, counts = packed >> _COUNT_BITS, packed & _COUNT_MASK
        first = np.concatenate(([True], keys[1:] != keys[:-1]))
        places = np.flatnonzero(first)
        return cls(spread, brokers, keys[places], np.add.reduceat(counts, places, dtype=np.int64))

    def row(self, topic: int) -> NDArray[np.int64]:
        """The partitions of a topic on each broker."""
        found = np.zeros(self.brokers, np.int64)
        low, high = np.searchsorted(self.keys, (topic * self.brokers, (topic + 1) * self.brokers))
        found[self.keys[low:high] - topic * self.brokers] = self.sums[low:high]
        for broker, count in self.changed.get(topic, {}).items():
            found[broker] += count
        return found

    def has_room(self, bundle: int) -> _Flags | None:
        """Which brokers stay within the cap with one more bundle; None: all of them."""
        topics, counts = self.spread.of(bundle)
        if not self.spread.cap or not len(topics):
            return None
        able = np.ones(self.brokers, bool)
        for topic, count in zip(topics.tolist(), counts.tolist(), strict=True):
            able &= self.row(topic) + count <= self.spread.cap
        return able

    def excess_with(self, bundle: int) -> NDArray[np.int64] | None:
        """Partitions beyond an even share on each broker if it got the bundle; None: of none."""
        topics, counts = self.spread.of(bundle)
        if not len(topics):
            return None
        excess = np.zeros(self.brokers, np.int64)
        for topic, count in zip(topics.tolist(), counts.tolist(), strict=True):
            excess += np.maximum(self.row(topic) + count - self.spread.fair[topic], 0)
        return excess

    def may_return(self, back: int, receiver: int, gone: int) -> bool:
        """Whether a broker stays within the cap with ``back`` in the place of ``gone``."""
        if not self.spread.cap:
            return True
        less = dict(zip(*map(list, self.spread.of(gone)), strict=True))
        topics, counts = self.spread.of(back)
        return all(
            self.row(topic)[receiver] + count - less.get(topic, 0) <= self.spread.cap
            for topic, count in zip(topics.tolist(), counts.tolist(), strict=True)
        )

    def move(self, bundle: int, source: int, destination: int) -> None:
        """Carry the partitions of a bundle from one broker to another."""
        topics, counts = self.spread.of(bundle)
        for topic, count in zip(topics.tolist(), counts.tolist(), strict=True):
            changed = self.changed.setdefault(topic, {})
            changed[source] = changed.get(source, 0) - count
            changed[destination] = changed.get(destination, 0) + count

    def holders(self, topic: int) -> tuple[_Indices, _Indices]:
        """The bundles with partitions of a topic, and how many each has."""
        if self.by_topic is None:
            spread, entries = self.spread, len(self.spread.topics)
            packed = np.sort(spread.topics.astype(np.int64) * entries + np.arange(entries))
            topics = packed // entries
            order = packed - topics * entries
            places = np.arange(len(spread.starts) - 1, dtype=np.int32)
            # Unlike an index, `take` lets other threads run.
            found = np.take(np.repeat(places, np.diff(spread.starts)), order)
            self.by_topic = topics, found, np.take(spread.counts, order)
        topics, bundles, counts = self.by_topic
        low, high = np.searchsorted(topics, (topic, topic + 1))
        return bundles[low:high], counts[low:high]

    def violations(self) -> list[tuple[int, int]]:
        """Topic and broker of each count above the cap, before any move, the largest first."""
        if not self.spread.cap:
            return []
        places = np.flatnonzero(self.sums > self.spread.cap)
        places = places[np.argsort(-self.sums[places], kind="stable")]
        return [divmod(int(key), self.brokers) for key in self.keys[places]]
