"""The regret of a day: what the planner moved beside the least that one who knows the day moves.

The day is cut into periods with the mean load of each bundle. In each, no broker may be above our
own 99th percentile of max over mean; a linear program looks for the least load that moves from one
period to the next. It knows the whole day before it begins, it may divide bundles among brokers as
it likes, and it sees no noise within a period: nobody can move as little as that, and the regret is
the most that there is to gain.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import highspy
import numpy as np
from numpy.typing import NDArray

from broker_ctl.core.strategies.balance.problem import Floats, Indices
from broker_ctl.simulation.model.scenario import Scenario
from broker_ctl.simulation.replay.baselines import POLICIES
from broker_ctl.simulation.replay.replay import replay
from broker_ctl.simulation.replay.scores import scores_of
from tests.benchmarks.optimal.solver import Rows, minimised

# Scenarios in which brokers stay what they are all day.
SCENARIOS: Final = ("steady-skew", "diurnal", "flash-crowd", "tenant-onboarding")
PERIOD_MIN: Final = 240
_HOUR_MIN: Final = 60


@dataclass(frozen=True, slots=True, eq=False)
class Day:
    """A day in periods.

    Attributes:
        load: bytes a second, shape (periods, bundles).
        owner: broker of each bundle at the start.
        capacity: of each broker.
    """

    load: Floats
    owner: Indices
    capacity: Floats

    @classmethod
    def of(cls, scenario: Scenario, period_min: int = PERIOD_MIN) -> "Day":
        """A scenario without events."""
        traffic = scenario.traffic
        octets = traffic.bytes_in.astype(np.float64) + traffic.bytes_out
        starts = range(0, traffic.minutes - traffic.minutes % period_min, period_min)
        ids = list(scenario.brokers)
        return cls(
            np.array([octets[start : start + period_min].mean(axis=0) for start in starts]),
            np.array([ids.index(owner) for owner in scenario.owners], np.int32),
            np.array([scenario.brokers[each].bytes_s for each in ids]),
        )


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
    brokers = len(day.capacity)
    cells = periods * bundles * brokers
    share = day.load / day.load.sum(axis=1, keepdims=True)
    # Variables: the part of a bundle on a broker in a period, then what of it has just come.
    place = np.arange(cells, dtype=np.int32).reshape(periods, bundles, brokers)
    rows = _placements(place, share, most_ratio * day.capacity / day.capacity.sum())
    home = np.zeros((bundles, brokers))
    home[np.arange(bundles), day.owner] = 1.0
    for here, was in zip(place[0].ravel().tolist(), home.ravel().tolist(), strict=True):
        _add_arrival(rows, [here, here + cells], was)
    for before, after in pairwise(place):
        for there, here in zip(before.ravel().tolist(), after.ravel().tolist(), strict=True):
            _add_arrival(rows, [here, here + cells, there], 0.0)
    costs = np.concatenate((np.zeros(cells), np.repeat(share.ravel(), brokers)))
    solver = minimised(costs, rows, np.ones(2 * cells))
    solver.setOptionValue("solver", "ipm")
    solver.setOptionValue("run_crossover", "off")
    solver.setOptionValue("time_limit", seconds)
    solver.run()
    is_done = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return float(solver.getInfo().objective_function_value) if is_done else None


def _placements(place: NDArray[np.int32], share: Floats, most: Floats) -> Rows:
    """In each period all of a bundle is somewhere, and no broker has more than its most."""
    rows = Rows()
    for period, parts in zip(place, share, strict=True):
        for cells in period:
            rows.add(cells, np.ones(len(cells)), 1.0, 1.0)
        for cells, limit in zip(period.T, most.tolist(), strict=True):
            rows.add(cells, parts, -highspy.kHighsInf, limit)
    return rows


def _add_arrival(rows: Rows, columns: list[int], most: float) -> None:
    """What has come is at least what is here and was not: ``most`` was, or what is in the third."""
    values = np.array([1.0, -1.0, -1.0][: len(columns)])
    rows.add(np.array(columns, np.int32), values, -highspy.kHighsInf, most)
