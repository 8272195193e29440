"""Workloads: which topics there are, and their traffic over time."""

import random
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol, Self

from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import RING_HIGH, Bundle, Namespace, Topic, ring_hash
from broker_ctl.errors import SettingsError
from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.model.curves import Curve, TopicRates, Wave
from broker_ctl.simulation.traces.trace import read_trace

# Topics by their place on the ring: names that hash to a wanted position.
#
# CRC-32 is linear: changing one bit of a text changes the same bits of its hash, whatever the
# other letters are. So the hash of a name is led to where it should be by choosing the bits of
# its last letters, and nothing has to be tried.


# The three lowest bits of the letters 0 to 7 are free; that many letters reach every hash.
_DIGITS: Final = 12
_BITS: Final = 3 * _DIGITS


def name_at(stem: str, position: int) -> str:
    """``stem`` and some digits, which together hash to ``position``.

    Raises:
        ValueError: no position on the ring.
    """
    if not 0 <= position < 1 << 32:
        raise ValueError(f"position {position}: 0 to 2^32 - 1")
    left = ring_hash(_name(stem, 0)) ^ position
    flipped = 0
    for top, (change, bits) in _BASIS.items():
        if left >> top & 1:
            left ^= change
            flipped ^= bits
    return _name(stem, flipped)


def _name(stem: str, bits: int) -> str:
    return f"{stem}{bits:0{_DIGITS}o}"


def _basis() -> dict[int, tuple[int, int]]:
    """By the highest bit of a change of the hash: the change, and the bits that make it."""
    zero = zlib.crc32(_name("", 0).encode())
    basis: dict[int, tuple[int, int]] = {}
    for number in range(_BITS):
        bits = 1 << number
        change = zlib.crc32(_name("", bits).encode()) ^ zero
        for top in sorted(basis, reverse=True):
            if change >> top & 1:
                change ^= basis[top][0]
                bits ^= basis[top][1]
        if change:
            basis[change.bit_length() - 1] = change, bits
    # In this order no later element changes a bit that an earlier one has settled.
    return {top: basis[top] for top in sorted(basis, reverse=True)}


_BASIS: Final = _basis()


# Traffic as a data plane serves it: asked for bundle by bundle, at any moment.


class TrafficSource(Protocol):
    """Topics with their traffic over time; seconds are those of the workload itself."""

    @property
    def has_topics(self) -> bool:
        """Whether there is anything to serve."""
        ...

    def capacity_of(self, broker_id: str) -> Capacity:
        """What a broker can take, if nobody says otherwise."""
        ...

    def stats(self, bundle: Bundle, t_s: float) -> BundleStats:
        """A bundle's traffic ``t_s`` seconds after the start."""
        ...

    def topic_stats(self, bundle: Bundle, t_s: float) -> Mapping[str, BundleStats]:
        """The traffic of each of its topics, by complete name."""
        ...

    def busy_topics(self, bundle: Bundle, t_s: float) -> Iterable[tuple[str, int]]:
        """Topics with traffic: complete name, and place on the ring."""
        ...


# Workloads: which topics there are, and their traffic over time.
#
# A workload is a plain value. The simulated data plane serves it, the simulator replays policies
# against it, and both see the same numbers for the same name and seed.


_NAMESPACE: Final = "persistent://public/default"
_TOPICS: Final = 240
_HOT_TOPICS: Final = 8
# Eight of these exceed the split threshold of 30,000 msg/s, and four of them do not.
_HOT_RATE: Final = 2_400.0
_HOT_MESSAGE_BYTES: Final = 1_024
_MEDIAN_RATE: Final = 20.0
# Spread of request rates over 53 production clusters (docs: load-history-sources).
_LOG_SIGMA: Final = 1.2
_AMPLITUDE: Final = 0.1
_PERIOD_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class TopicLoad:
    """One topic of a workload: complete name, place on the ring, traffic over time."""

    name: str
    position: int
    curve: Curve

    @classmethod
    def of(cls, name: str, curve: Curve) -> Self:
        """A topic by its complete name."""
        return cls(name, ring_hash(name), curve)


@dataclass(frozen=True)
class Workload:
    """Topics with their traffic."""

    name: str
    topics: tuple[TopicLoad, ...]

    @classmethod
    def named(cls, name: str, seed: int) -> Self:
        """One of `NAMES`; equal seeds give equal workloads.

        Raises:
            SettingsError: there is no workload of that name.
        """
        build = _BUILDERS.get(name)
        if build is None:
            raise SettingsError(f"workload {name!r}: one of {', '.join(NAMES)}")
        return cls(name, build(random.Random(seed)))  # noqa: S311  a workload is not a secret

    def topics_in(self, bundle: Bundle) -> tuple[TopicLoad, ...]:
        """The topics of a bundle, by their place on the ring."""
        positions, topics = self._index.get(bundle.namespace, ((), ()))
        low, high = bundle.range.low, bundle.range.high
        first = bisect_left(positions, low)
        # The last range of a ring is closed (docs: pulsar-hash).
        last = len(positions) if high == RING_HIGH else bisect_left(positions, high)
        return topics[first:last]

    @property
    def has_topics(self) -> bool:
        """Whether there is anything to serve."""
        return bool(self.topics)

    def capacity_of(self, broker_id: str) -> Capacity:
        """The usual one, of any broker."""
        del broker_id
        return Capacity()

    def stats(self, bundle: Bundle, t_s: float) -> BundleStats:
        """The bundle's traffic ``t_s`` seconds after the start."""
        return sum((topic.curve.at(t_s).stats for topic in self.topics_in(bundle)), BundleStats())

    def topic_stats(self, bundle: Bundle, t_s: float) -> Mapping[str, BundleStats]:
        """The traffic of each of its topics, by complete name."""
        return {topic.name: topic.curve.at(t_s).stats for topic in self.topics_in(bundle)}

    def busy_topics(self, bundle: Bundle, t_s: float) -> Iterator[tuple[str, int]]:
        """Name and position of topics with traffic."""
        for topic in self.topics_in(bundle):
            if topic.curve.at(t_s).is_any:
                yield topic.name, topic.position

    def positions_with_traffic(self, t_s: float) -> frozenset[int]:
        """Positions on the ring with traffic ``t_s`` seconds after the start."""
        return frozenset(topic.position for topic in self.topics if topic.curve.at(t_s).is_any)

    @cached_property
    def _index(self) -> Mapping[Namespace, tuple[tuple[int, ...], tuple[TopicLoad, ...]]]:
        by_namespace: dict[Namespace, list[TopicLoad]] = {}
        for topic in sorted(self.topics, key=lambda topic: topic.position):
            by_namespace.setdefault(Topic.parse(topic.name).namespace, []).append(topic)
        return {
            namespace: (tuple(topic.position for topic in topics), tuple(topics))
            for namespace, topics in by_namespace.items()
        }


def workload_of(text: str, seed: int, brokers: int | None = None) -> TrafficSource:
    """A workload by its name, a scenario by its name, or a trace file by its path.

    Args:
        text: which.
        seed: of the workload's draws; 0: a scenario's own.
        brokers: that share a scenario, or a trace of bundles; as many as it usually has.

    Raises:
        SettingsError: neither a name nor a file, or a malformed trace.
    """
    if text in NAMES:
        return Workload.named(text, seed)
    # Not at the top: they need numpy, and a daemon that plays no scenario does without.
    from broker_ctl.simulation import scenarios as catalogue
    from broker_ctl.simulation.traces.trace_files import (
        build_trace_scenario,
        is_of_bundles,
        read_traffic,
    )
    from broker_ctl.simulation.workload.scenario_workload import ScenarioWorkload

    if text in catalogue.NAMES:
        return ScenarioWorkload(catalogue.scenario(text, brokers=brokers, seed=seed or None))
    path = Path(text)
    if not path.is_file():
        names = ", ".join((*NAMES, *catalogue.NAMES))
        raise SettingsError(f"workload {text!r}: {names} or the path of a trace file")
    if is_of_bundles(path):
        count = catalogue.BROKERS if brokers is None else brokers
        return ScenarioWorkload(build_trace_scenario(text, read_traffic(path), count))
    curves = read_trace(path)
    return Workload(text, tuple(TopicLoad.of(name, curve) for name, curve in curves.items()))


def _skewed(rng: random.Random) -> tuple[TopicLoad, ...]:
    """Log-normal rates, and hot topics in one quarter of the ring.

    With four bundles one of them exceeds the split threshold, and its broker is overloaded. The
    hot topics lie evenly in their quarter, so that splitting it helps.
    """
    quarter = rng.randrange(4)
    hot = [
        TopicLoad.of(
            _name_in_slice(f"hot-{i}", quarter * _HOT_TOPICS + i, 4 * _HOT_TOPICS),
            _wave(_HOT_RATE, _HOT_RATE, _HOT_MESSAGE_BYTES, rng),
        )
        for i in range(_HOT_TOPICS)
    ]
    return (*hot, *(_log_normal_topic(i, rng) for i in range(_HOT_TOPICS, _TOPICS)))


def _steady(_: random.Random) -> tuple[TopicLoad, ...]:
    """Equal rates that do not change."""
    curve = Wave(TopicRates(50.0, 50.0, 51_200.0, 51_200.0, 1, 1))
    return tuple(TopicLoad.of(f"{_NAMESPACE}/topic-{i:03}", curve) for i in range(_TOPICS))


def _quiet(_: random.Random) -> tuple[TopicLoad, ...]:
    """The topics are there, and nobody uses them."""
    curve = Wave(TopicRates())
    return tuple(TopicLoad.of(f"{_NAMESPACE}/topic-{i:03}", curve) for i in range(_TOPICS))


def _log_normal_topic(index: int, rng: random.Random) -> TopicLoad:
    rate = _MEDIAN_RATE * rng.lognormvariate(0, _LOG_SIGMA)
    subscriptions = rng.choice((1, 1, 2))
    message_bytes = rng.choice((256, 512, 1_024, 2_048))
    curve = _wave(rate, rate * subscriptions, message_bytes, rng)
    return TopicLoad.of(f"{_NAMESPACE}/topic-{index:03}", curve)


def _wave(rate_in: float, rate_out: float, message_bytes: int, rng: random.Random) -> Wave:
    traffic = TopicRates(
        rate_in,
        rate_out,
        rate_in * message_bytes,
        rate_out * message_bytes,
        rng.randint(1, 3),
        rng.randint(1, 4),
    )
    return Wave(traffic, _AMPLITUDE, _PERIOD_S, rng.uniform(0, _PERIOD_S))


def _name_in_slice(stem: str, index: int, slices: int) -> str:
    """The first ``stem-N`` that hashes into slice ``index`` of ``slices`` equal ones."""
    width = (RING_HIGH + 1) // slices
    attempt = 0
    while ring_hash(name := f"{_NAMESPACE}/{stem}-{attempt}") // width != index:
        attempt += 1
    return name


_BUILDERS: Final[Mapping[str, Callable[[random.Random], tuple[TopicLoad, ...]]]] = MappingProxyType(
    {"skewed": _skewed, "steady": _steady, "quiet": _quiet}
)
NAMES: Final = tuple(_BUILDERS)
