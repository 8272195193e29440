"""Scores of a replay: its record, by day, and beside the bound that no placement can beat."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.model.scenario import Scenario, TopicShares, Traffic
from broker_ctl.simulation.replay.cluster import (
    MoveCause,
    Moved,
    Replay,
    after_warm_up,
    build_brokers,
    by_minute,
)

# Lower bound of the imbalance (largest over mean usage) for any placement, by minute.
#
# Docs: imbalance-bounds. Indivisible is a topic: bundles can be split until each holds one, and
# no further. Some broker has the largest topic and is at least as full as that makes it; the
# others share what is left, and are as full as can be on the mean where the weakest of them are
# filled first. Whichever broker it is, none is better than the best. Topics do not get other
# positions or more partitions, brokers no other capacities, and nothing is lost in a move.


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


# Scores of a replay (docs: load-history-sources, planner-sources).


_HOUR_MIN: Final = 60
_SETTLED: Final = 1.15
_NEAR_BOUND: Final = 1.05
OVERLOADED_RATIO: Final = 0.85


@dataclass(frozen=True, slots=True)
class Scores:
    """Of one replay.

    Attributes:
        p50, p99, most: of the largest usage over the mean usage of the brokers that are there,
            sampled each minute; the first ten are left out.
        load_moved_pct_per_h: bytes/s that changed hands over bytes/s of all, each at the time of
            its move, for whatever cause; percent an hour.
        moves: bundles that changed hands, for whatever cause.
        back_and_forth: moves back to a broker that the bundle, or what it was made of, had left
            within the hour; none that came of a drain, a death or a refill counts, to or fro.
        settle_min: minutes from the start until the largest usage is within 1.15 of the mean, or
            within 1.05 of the bound where that is more; None: it never is.
        overload_broker_min: minutes of brokers above 85 % of their capacity.
    """

    p50: float
    p99: float
    most: float
    load_moved_pct_per_h: float
    moves: int
    back_and_forth: int
    settle_min: int | None
    overload_broker_min: int

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "p50": self.p50,
            "p99": self.p99,
            "max": self.most,
            "load_moved_pct_per_h": self.load_moved_pct_per_h,
            "moves": self.moves,
            "back_and_forth": self.back_and_forth,
            "settle_min": self.settle_min,
            "overload_broker_min": self.overload_broker_min,
        }


def scores_of(replay: Replay) -> Scores:
    """Judge a replay."""
    ratios = replay.max_over_mean
    sampled = after_warm_up(ratios)
    p50, p99, most = np.percentile(sampled, [50, 99, 100]).tolist()
    limit = max(_SETTLED, _NEAR_BOUND * bound_of(replay.scenario))
    settled: list[int] = np.flatnonzero(ratios <= limit).tolist()
    return Scores(
        p50=p50,
        p99=p99,
        most=most,
        load_moved_pct_per_h=_load_moved_pct_per_h(replay),
        moves=len(replay.moves),
        back_and_forth=back_and_forth(replay.moves),
        settle_min=settled[0] if settled else None,
        overload_broker_min=int(np.count_nonzero(replay.usage > OVERLOADED_RATIO)),
    )


def back_and_forth(moves: Iterable[Moved]) -> int:
    """Moves that undo another one of the last hour; ``moves`` come in their order."""
    lately: deque[Moved] = deque()
    count = 0
    for move in moves:
        if move.cause is not MoveCause.LOAD:
            continue
        while lately and move.minute - lately[0].minute > _HOUR_MIN:
            lately.popleft()
        count += any(
            past.source == move.destination and past.bundle.overlaps(move.bundle) for past in lately
        )
        lately.append(move)
    return count


def _load_moved_pct_per_h(replay: Replay) -> float:
    offered = replay.offered_bytes
    parts = [
        move.bytes_s / offered[move.minute] for move in replay.moves if offered[move.minute] > 0
    ]
    return float(sum(parts)) * 100 * _HOUR_MIN / len(offered)


# Scores of a replay by day: what one day says, the next may not.


_DAY_MIN: Final = 24 * 60
_DAY_HOURS: Final = 24


class DayScores(NamedTuple):
    """Of 24 hours, counted from the start; see `scores.Scores`."""

    p99: float
    load_moved_pct_per_h: float
    overload_broker_min: int


def scores_by_day(replay: Replay) -> Iterator[DayScores]:
    """Yield the scores of each whole day."""
    ratios, offered = replay.max_over_mean, replay.offered_bytes
    for start in range(0, len(ratios) - _DAY_MIN + 1, _DAY_MIN):
        end = start + _DAY_MIN
        sampled = ratios[start:end] if start else after_warm_up(ratios[:end])
        moved = [
            move.bytes_s / offered[move.minute]
            for move in replay.moves
            if start <= move.minute < end and offered[move.minute] > 0
        ]
        yield DayScores(
            p99=float(np.percentile(sampled, 99)),
            load_moved_pct_per_h=float(sum(moved)) * 100 / _DAY_HOURS,
            overload_broker_min=int(np.count_nonzero(replay.usage[start:end] > OVERLOADED_RATIO)),
        )
