"""Lower bound of the imbalance (largest over mean usage) for any placement, by minute.

Docs: imbalance-bounds. Indivisible is a topic: bundles can be split until each
holds one, and no further. Some broker has the largest topic and is at least as full as that makes
it; the others share what is left, and are as full as can be on the mean where the weakest of them
are filled first. Whichever broker it is, none is better than the best. Topics do not get other
positions or more partitions, brokers no other capacities, and nothing is lost in a move.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.model.scenario import Scenario, TopicShares, Traffic
from broker_ctl.simulation.replay.brokers import build_brokers, by_minute
from broker_ctl.simulation.replay.record import Floats, after_warm_up


def bound_of(scenario: Scenario) -> float:
    """The 99th percentile over the minutes that scores are taken of; at least 1."""
    return float(np.percentile(after_warm_up(bounds_by_minute(scenario)), 99))


def bounds_by_minute(scenario: Scenario) -> Floats:
    """Of each minute, shape (minutes,); 1 where nobody is there or nothing is sent."""
    largest = np.array([_largest(topics) for topics in scenario.traffic.topics])
    bounds = np.ones(scenario.traffic.minutes)
    for start, stop, capacities in _stretches(scenario):
        if capacities:
            cell = scenario.traffic.cell_min
            first = start // cell
            found = _bounds(scenario.traffic, first, (stop - 1) // cell + 1, capacities, largest)
            bounds[start:stop] = np.repeat(found, cell)[start - first * cell :][: stop - start]
    return bounds


def _largest(topics: TopicShares) -> float:
    """Part of its bundle; what is in no topic cannot be parted."""
    return max(topics.shares, default=1.0)


def _stretches(scenario: Scenario) -> Iterator[tuple[int, int, list[Capacity]]]:
    """From which minute to which the same brokers are there, and what they can take."""
    brokers = {broker.broker_id: broker for broker in build_brokers(scenario)}
    minutes, events = scenario.traffic.minutes, by_minute(scenario.events)
    starts = sorted({0, *(minute for minute in events if minute < minutes)})
    for start, stop in zip(starts, [*starts[1:], minutes], strict=True):
        for event in events.get(start, ()):
            brokers[event.broker_id] = brokers[event.broker_id].after(event)
        yield start, stop, [broker.capacity for broker in brokers.values() if broker.is_up]


def _bounds(
    traffic: Traffic, start: int, stop: int, capacities: Sequence[Capacity], largest: Floats
) -> Floats:
    """Of some cells. Loads are shares of a broker that has the most of each resource."""
    most_rate = max(each.msg_rate for each in capacities)
    most_bytes = max(each.bytes_s for each in capacities)
    span = slice(start, stop)
    rates = traffic.msg_rate_in[span].astype(np.float64) + traffic.msg_rate_out[span]
    octets = traffic.bytes_in[span].astype(np.float64) + traffic.bytes_out[span]
    loads: Floats = np.maximum(rates / most_rate, octets / most_bytes)
    fair: Floats = np.maximum(
        rates.sum(axis=1) / sum(each.msg_rate for each in capacities),
        octets.sum(axis=1) / sum(each.bytes_s for each in capacities),
    )
    demand = _Demand(loads.sum(axis=1), (loads * largest).max(axis=1), fair)
    sizes = sorted(_Size.of(each, most_rate, most_bytes) for each in capacities)
    homes = dict(zip(sizes, range(len(sizes)), strict=True)).values()
    least: Floats = np.min([_lower_bound(demand, sizes, home) for home in homes], axis=0)
    return np.maximum(least, 1.0)


class _Demand(NamedTuple):
    """By minute: all that is sent, the largest topic, and how full that makes all at best."""

    total: Floats
    topic: Floats
    fair: Floats


class _Size(NamedTuple):
    """A broker in its weaker and in its stronger resource; 1.0: nobody has more of it."""

    low: float
    high: float

    @classmethod
    def of(cls, capacity: Capacity, most_rate: float, most_bytes: float) -> "_Size":
        ratios = capacity.msg_rate / most_rate, capacity.bytes_s / most_bytes
        return cls(min(ratios), max(ratios))


def _lower_bound(demand: _Demand, sizes: Sequence[_Size], home: int) -> Floats:
    """Where broker ``home`` has the largest topic; the smallest come first."""
    fullest = np.maximum(demand.fair, demand.topic / sizes[home].high)
    scale: Floats = np.divide(1.0, fullest, out=np.zeros_like(fullest), where=fullest > 0)
    held = demand.topic * scale * (sizes[home].low / sizes[home].high)
    left = demand.total * scale - held
    # In brokers that are as full as the fullest.
    filled = held / sizes[home].low
    for number, size in enumerate(sizes):
        room = size.low - held if number == home else np.full_like(held, size.low)
        taken = np.minimum(left, room)
        filled += taken / size.low
        left -= taken
    bound: Floats = np.divide(len(sizes), filled, out=np.ones_like(filled), where=filled > 0)
    return bound
