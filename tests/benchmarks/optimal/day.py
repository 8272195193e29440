"""The regret of a day: what the planner moved beside the least that one who knows the day moves.

The day is cut into periods with the mean load of each bundle, and wherever a broker comes, goes
or changes. In each, no broker may be above our own 99th percentile of max over mean; a linear
program looks for the least load that moves from one period to the next. It knows the whole day
before it begins, it may divide bundles among brokers as it likes, and it sees no noise within a
period: nobody can move as little as that, and the regret is the most that there is to gain.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import highspy
import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.core.strategies.balance.problem import Indices
from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.model.scenario import Scenario
from broker_ctl.simulation.replay.cluster import build_brokers, by_minute
from broker_ctl.simulation.replay.replay import POLICIES, replay
from broker_ctl.simulation.replay.scores import scores_of
from tests.benchmarks.optimal.solver import Rows, minimised

PERIOD_MIN: Final = 240
_HOUR_MIN: Final = 60
_NO_CAPACITY: Final = Capacity(0.0, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Day:
    """A day in periods.

    Attributes:
        load: of the resource that is fuller, shape (periods, bundles).
        owner: broker of each bundle at the start.
        capacity: of that resource, shape (periods, brokers); 0: it is not there.
        weight: bytes a second, shape (periods, bundles).
    """

    load: Floats
    owner: Indices
    capacity: Floats
    weight: Floats

    @classmethod
    def of(cls, scenario: Scenario, period_min: int = PERIOD_MIN) -> "Day":
        """A scenario; periods end with its events, too."""
        traffic, ids = scenario.traffic, list(scenario.brokers)
        octets = traffic.bytes_in.astype(np.float64) + traffic.bytes_out
        messages = traffic.msg_rate_in.astype(np.float64) + traffic.msg_rate_out
        load, capacity, weight = [], [], []
        for period in _periods(scenario, period_min):
            span = slice(period.start, period.stop)
            by_bytes, by_messages = octets[span].mean(axis=0), messages[span].mean(axis=0)
            most_bytes = np.array([each.bytes_s for each in period.capacities])
            most_messages = np.array([each.msg_rate for each in period.capacities])
            fuller = by_bytes.sum() / most_bytes.sum() >= by_messages.sum() / most_messages.sum()
            load.append(by_bytes if fuller else by_messages)
            capacity.append(most_bytes if fuller else most_messages)
            weight.append(by_bytes)
        owner = np.array([ids.index(owner) for owner in scenario.owners], np.int32)
        return cls(np.array(load), owner, np.array(capacity), np.array(weight))


class _Period(NamedTuple):
    """From a minute to another one; what each broker can take: nothing where it is not there."""

    start: int
    stop: int
    capacities: list[Capacity]


def _periods(scenario: Scenario, period_min: int) -> Iterator[_Period]:
    minutes, events = scenario.traffic.minutes, by_minute(scenario.events)
    brokers = {broker.broker_id: broker for broker in build_brokers(scenario)}
    changes = (minute for minute in events if minute < minutes)
    starts = sorted({0, *range(0, minutes, period_min), *changes})
    for start, stop in zip(starts, [*starts[1:], minutes], strict=True):
        for event in events.get(start, ()):
            brokers[event.broker_id] = brokers[event.broker_id].after(event)
        able = [brokers[each] for each in scenario.brokers]
        yield _Period(start, stop, [each.capacity if each.is_up else _NO_CAPACITY for each in able])


def regret_of(scenario: Scenario, seconds: float) -> dict[str, Any]:
    """Our moved load and p99, and the least moved load that keeps the same p99."""
    ours = POLICIES["balance"]()
    scores = scores_of(replay(scenario, ours.rules, ours.pace))
    hours = scenario.traffic.minutes / _HOUR_MIN
    least = least_of(Day.of(scenario), scores.p99, seconds)
    least_pct_per_h = None if least is None else least * 100 / hours
    return {
        "p99": scores.p99,
        "load_moved_pct_per_h": scores.load_moved_pct_per_h,
        "least_pct_per_h": least_pct_per_h,
        "regret_pct_per_h": None
        if least_pct_per_h is None
        else scores.load_moved_pct_per_h - least_pct_per_h,
    }


def least_of(day: Day, most_ratio: float, seconds: float) -> float | None:
    """The least sum of the parts of all load that move; None: not found in time."""
    periods, bundles = day.load.shape
    brokers = day.capacity.shape[1]
    cells = periods * bundles * brokers
    # Variables: the part of a bundle on a broker in a period, what of it has just come, and how
    # full each broker is in each period.
    place = np.arange(cells, dtype=np.int32).reshape(periods, bundles, brokers)
    usage = np.arange(periods * brokers, dtype=np.int32).reshape(periods, brokers) + 2 * cells
    rows = Rows()
    for period in range(periods):
        _add_placements(rows, place[period])
        demand = day.load[period], day.capacity[period]
        _add_limits(rows, place[period], usage[period], demand, most_ratio)
    _add_arrivals(rows, place, day.owner)
    share = day.weight / day.weight.sum(axis=1, keepdims=True)
    arrivals = np.repeat(share.ravel(), brokers)
    costs = np.concatenate((np.zeros(cells), arrivals, np.zeros(usage.size)))
    is_there = np.broadcast_to(day.capacity[:, np.newaxis, :] > 0, place.shape)
    upper = np.concatenate((is_there.ravel(), np.ones(cells), np.full(usage.size, np.inf)))
    solver = minimised(costs, rows, upper.astype(np.float64))
    solver.setOptionValue("solver", "ipm")
    solver.setOptionValue("run_crossover", "off")
    solver.setOptionValue("time_limit", seconds)
    solver.run()
    is_done = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return float(solver.getInfo().objective_function_value) if is_done else None


def _add_placements(rows: Rows, place: Indices) -> None:
    """All of a bundle is somewhere."""
    rows.add_many(place, np.ones(1), 1.0, np.ones(len(place)))


def _add_limits(
    rows: Rows, place: Indices, usage: Indices, demand: tuple[Floats, Floats], most_ratio: float
) -> None:
    """No broker is fuller than the mean of those that are there allows."""
    load, capacity = demand
    able = np.flatnonzero(capacity > 0)
    # In mean brokers: a solver has tolerances.
    mean = load.sum() / capacity.sum()
    for broker in able.tolist():
        parts = np.append(load / capacity[broker] / mean, -1.0)
        rows.add(np.append(place[:, broker], usage[broker]).astype(np.int32), parts, 0.0, 0.0)
    for broker in able.tolist():
        above = np.where(able == broker, 1.0, 0.0) - most_ratio / len(able)
        rows.add(usage[able], above, -highspy.kHighsInf, 0.0)


def _add_arrivals(rows: Rows, place: NDArray[np.int32], owner: Indices) -> None:
    """What has come is at least what is here and was not before."""
    home = np.zeros(place.shape[1:])
    home[np.arange(len(owner)), owner] = 1.0
    here, come = place.reshape(len(place), -1), place.reshape(len(place), -1) + place.size
    first = np.stack((here[0], come[0]), axis=1)
    rows.add_many(first, np.array([1.0, -1.0]), -highspy.kHighsInf, home.ravel())
    for period in range(1, len(place)):
        columns = np.stack((here[period], come[period], here[period - 1]), axis=1)
        nothing = np.zeros(len(columns))
        rows.add_many(columns, np.array([1.0, -1.0, -1.0]), -highspy.kHighsInf, nothing)
