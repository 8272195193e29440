"""A scenario as a workload: the same numbers that the simulator replays, for a data plane."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import RING_HIGH, Bundle, Namespace
from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.model.scenario import Scenario
from broker_ctl.simulation.scenarios import scenario
from broker_ctl.simulation.traces.trace_files import build_trace_scenario, read_events, read_traffic
from broker_ctl.simulation.workload.workload import name_at

# Where a scenario that is replayed comes from: it is drawn by name, or read from files.


_TRACE_BROKERS: Final = 10


@dataclass(frozen=True, slots=True)
class WorkloadSource:
    """Where a scenario comes from: its name, or files.

    Attributes:
        brokers, seed: None: the usual.
    """

    name: str
    hours: int = 24
    brokers: int | None = None
    seed: int | None = None
    trace: Path | None = None
    events: Path | None = None


# Replays of the same scenario follow each other.
@lru_cache(maxsize=1)
def scenario_of(source: WorkloadSource) -> Scenario:
    """Drawn, or read.

    Raises:
        SettingsError: no such scenario, one too large, or files that cannot be read.
    """
    if source.trace is None:
        return scenario(source.name, brokers=source.brokers, hours=source.hours, seed=source.seed)
    events = read_events(source.events) if source.events is not None else ()
    brokers = _TRACE_BROKERS if source.brokers is None else source.brokers
    return build_trace_scenario(source.name, read_traffic(source.trace), brokers, events)


# A scenario as a workload: the same numbers that the simulator replays, for a data plane.
#
# Topics have names that hash to where the scenario has them. Before the start the first minute
# holds; after the end the scenario begins again.


_MINUTE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Topic:
    """Where it lies, and its part of the traffic of one of the first bundles."""

    position: int
    name: str
    origin: int
    share: float


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """What lies in one bundle.

    Attributes:
        busy: name and place of each topic that has a share.
        origins: the first bundles that its topics come from.
        weights: which part of each of them lies here, in the same order.
    """

    topics: tuple[_Topic, ...]
    busy: tuple[tuple[str, int], ...]
    origins: NDArray[np.int64]
    weights: NDArray[np.float64]


class ScenarioWorkload:
    """See `TrafficSource`. Rates are found bundle by bundle, however many topics there are."""

    def __init__(self, scenario: Scenario) -> None:
        traffic = scenario.traffic
        self._brokers = scenario.brokers
        self._minutes = traffic.minutes
        self._cell_min = traffic.cell_min
        self._rates = (
            traffic.msg_rate_in,
            traffic.msg_rate_out,
            traffic.bytes_in,
            traffic.bytes_out,
        )
        self._topics = _by_namespace(scenario)
        self._held: dict[Bundle, _Held] = {}

    @property
    def has_topics(self) -> bool:
        """Every scenario has some."""
        return bool(self._topics)

    def capacity_of(self, broker_id: str) -> Capacity:
        """As the scenario has it; of a broker that it does not know, that of its first one."""
        known = self._brokers.get(broker_id)
        return next(iter(self._brokers.values())) if known is None else known

    def stats(self, bundle: Bundle, t_s: float) -> BundleStats:
        """The bundle's traffic in that minute; each topic has a producer and a consumer."""
        held = self._in(bundle)
        count = len(held.topics)
        return BundleStats(*self._at(t_s, held), count, count, count)

    def topic_stats(self, bundle: Bundle, t_s: float) -> Mapping[str, BundleStats]:
        """The traffic of each of its topics, by complete name."""
        cell = self._cell(t_s)
        found: dict[str, BundleStats] = {}
        for topic in self._in(bundle).topics:
            four = (float(rates[cell, topic.origin]) * topic.share for rates in self._rates)
            msg_in, msg_out, bytes_in, bytes_out = four
            found[topic.name] = BundleStats(msg_in, msg_out, bytes_in, bytes_out, 1, 1, 1)
        return found

    def busy_topics(self, bundle: Bundle, t_s: float) -> Iterable[tuple[str, int]]:
        """All that have a share, while there are messages."""
        held = self._in(bundle)
        rate_in, rate_out, _, _ = self._at(t_s, held)
        return held.busy if rate_in > 0 or rate_out > 0 else ()

    def _cell(self, t_s: float) -> int:
        return max(0, int(t_s // _MINUTE_S)) % self._minutes // self._cell_min

    def _at(self, t_s: float, held: _Held) -> tuple[float, float, float, float]:
        cell = self._cell(t_s)
        msg_in, msg_out, bytes_in, bytes_out = (
            float(rates[cell, held.origins] @ held.weights) for rates in self._rates
        )
        return msg_in, msg_out, bytes_in, bytes_out

    def _in(self, bundle: Bundle) -> _Held:
        """Bundles come and go; there are never more than have been served."""
        held = self._held.get(bundle)
        if held is None:
            held = self._held[bundle] = self._found(bundle)
        return held

    def _found(self, bundle: Bundle) -> _Held:
        positions, topics = self._topics.get(bundle.namespace, ((), ()))
        low, high = bundle.range.low, bundle.range.high
        last = len(positions) if high == RING_HIGH else bisect_left(positions, high)
        inside = topics[bisect_left(positions, low) : last]
        weights: dict[int, float] = {}
        for topic in inside:
            weights[topic.origin] = weights.get(topic.origin, 0.0) + topic.share
        return _Held(
            inside,
            tuple((topic.name, topic.position) for topic in inside if topic.share > 0),
            np.array(list(weights), dtype=np.int64),
            np.array(list(weights.values()), dtype=np.float64),
        )


def _by_namespace(
    scenario: Scenario,
) -> Mapping[Namespace, tuple[tuple[int, ...], tuple[_Topic, ...]]]:
    """Positions and topics of each ring, by position."""
    traffic = scenario.traffic
    found: dict[Namespace, list[_Topic]] = {}
    for origin, (bundle, shares) in enumerate(zip(traffic.bundles, traffic.topics, strict=True)):
        topics = found.setdefault(bundle.namespace, [])
        for position, share in zip(shares.positions, shares.shares, strict=True):
            # Two topics at the same place still are two.
            stem = f"persistent://{bundle.namespace}/topic-{len(topics)}-"
            topics.append(_Topic(position, name_at(stem, position), origin, share))
    by_place = {
        name: tuple(sorted(topics, key=lambda topic: topic.position))
        for name, topics in found.items()
    }
    return {
        name: (tuple(topic.position for topic in topics), topics)
        for name, topics in by_place.items()
    }
