"""Namespaces of a hundred bundles, a topic in each bundle, and traffic that comes and goes."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Bundle, Namespace, Ring, Topic, ring_hash
from broker_ctl.simulation.model.capacity import Capacity

PER_NAMESPACE: Final = 100
_TENANT: Final = "public"
_DAY_S: Final = 86_400.0
_MSG_RATE: Final = 120.0
_MSG_BYTES: Final = 1_000.0
_LEAST, _SPREAD = 0.25, 1.5
_SWING: Final = 0.3


@dataclass(frozen=True, slots=True)
class Placed:
    """A topic, its bundle at the start, and the number by which its acts are known."""

    topic: Topic
    bundle: Bundle
    key: int


def namespaces(bundles: int) -> list[tuple[Namespace, int]]:
    """All of them, each with its number of bundles."""
    return [
        (Namespace(_TENANT, f"n{number}"), min(PER_NAMESPACE, bundles - start))
        for number, start in enumerate(range(0, bundles, PER_NAMESPACE))
    ]


def place_of(key: int) -> tuple[Namespace, int]:
    """Namespace and hash of a topic."""
    return Namespace(_TENANT, f"n{key >> 32}"), key & 0xFFFFFFFF


def _topics(number: int, ring: Ring) -> Iterator[Placed]:
    """One in each bundle."""
    missing, index = set(ring.bundles), 0
    while missing:
        name = f"persistent://{ring.namespace}/t-{index}"
        position, index = ring_hash(name), index + 1
        bundle = ring.find(position)
        if bundle in missing:
            missing.remove(bundle)
            yield Placed(Topic.parse(name), bundle, (number << 32) | position)


class FleetTraffic:
    """`TrafficSource` of all brokers; each topic has its own rate, and its own noon."""

    has_topics = True

    def __init__(self, bundles: int) -> None:
        self.placed = [
            one
            for number, (namespace, count) in enumerate(namespaces(bundles))
            for one in _topics(number, Ring.even(namespace, count))
        ]
        self._in: dict[Bundle, list[Placed]] = {}
        self._of: dict[Namespace, list[Placed]] = {}
        for one in self.placed:
            self._in[one.bundle] = [one]
            self._of.setdefault(one.bundle.namespace, []).append(one)

    def capacity_of(self, _broker_id: str) -> Capacity:
        """Brokers are alike."""
        return Capacity()

    def _within(self, bundle: Bundle) -> list[Placed]:
        """Its topics; those of a bundle that was split or merged are looked for once."""
        found = self._in.get(bundle)
        if found is None:
            all_of = self._of.get(bundle.namespace, [])
            found = [one for one in all_of if one.topic.ring_hash in bundle.range]
            self._in[bundle] = found
        return found

    def stats(self, bundle: Bundle, t_s: float) -> BundleStats:
        """See `TrafficSource`."""
        rate = sum(_msg_rate(one.key, t_s) for one in self._within(bundle))
        bytes_s, count = rate * _MSG_BYTES, len(self._within(bundle))
        return BundleStats(rate, rate, bytes_s, bytes_s, count, count, count)

    def topic_stats(self, bundle: Bundle, t_s: float) -> Mapping[str, BundleStats]:
        """See `TrafficSource`."""
        return {str(one.topic): self.stats(bundle, t_s) for one in self._within(bundle)}

    def busy_topics(self, bundle: Bundle, _t_s: float) -> Iterable[tuple[str, int]]:
        """All of them."""
        return ((str(one.topic), one.key) for one in self._within(bundle))


def _msg_rate(key: int, t_s: float) -> float:
    share = (key * 2_654_435_761 & 0xFFFF) / 0x10000
    wave = math.sin(2 * math.pi * (t_s / _DAY_S + share))
    return _MSG_RATE * (_LEAST + _SPREAD * share) * (1 + _SWING * wave)
