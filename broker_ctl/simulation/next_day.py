"""Compares a plan from the first day's profile with reactive balancing.

Docs: load-history-sources. Both continue from the end of the same first day. The moves of the plan
at the start of the second day are not counted as moved; their minutes count like all others.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from broker_ctl.core.cluster.columns import Floats
from broker_ctl.core.planning.decide import CycleRules
from broker_ctl.core.strategies.balance.profile import (
    HOURS,
    ProfilePlacement,
    ProfileRules,
    profile_placement,
)
from broker_ctl.simulation.model.scenario import ReplayPace, Scenario
from broker_ctl.simulation.replay.cluster import MoveCause
from broker_ctl.simulation.replay.replay import ReplayCourse

_HOUR_MIN: Final = 60
DAY_MIN: Final = HOURS * _HOUR_MIN


@dataclass(frozen=True, slots=True)
class NextDayScores:
    """Of one day.

    Attributes:
        p50, p99, most: of the largest over the mean usage, by minute.
        load_moved_pct_per_h: bytes/s that changed hands over bytes/s of all, in percent an hour;
            only what was moved for balance.
        moves: how many bundles that were.
        forced_pct_per_h: likewise what drains, deaths and refills have moved.
    """

    p50: float
    p99: float
    most: float
    load_moved_pct_per_h: float
    moves: int
    forced_pct_per_h: float

    def to_row(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "p50": self.p50,
            "p99": self.p99,
            "max": self.most,
            "load_moved_pct_per_h": self.load_moved_pct_per_h,
            "moves": self.moves,
            "forced_pct_per_h": self.forced_pct_per_h,
        }


@dataclass(frozen=True, slots=True, eq=False)
class NextDay:
    """The second day, both ways.

    Attributes:
        reactive: of balance alone.
        planned: of balance under the plan.
        placement: the plan.
    """

    reactive: NextDayScores
    planned: NextDayScores
    placement: ProfilePlacement

    @property
    def moved_ratio(self) -> float | None:
        """Load moved under the plan over that without; None: nothing was moved without."""
        alone = self.reactive.load_moved_pct_per_h
        return self.planned.load_moved_pct_per_h / alone if alone > 0 else None


def next_day(
    scenario: Scenario,
    rules: CycleRules,
    pace: ReplayPace,
    profile_rules: ProfileRules | None = None,
) -> NextDay:
    """Play day one once, and day two twice.

    Raises:
        ValueError: the scenario has no second day.
        InvariantBroken: a plan would break a safety sentence: a fault of a strategy.
    """
    minutes = scenario.traffic.minutes
    if minutes <= DAY_MIN:
        raise ValueError(f"scenario {scenario.name}: {minutes} minutes, a second day needs more")
    first = ReplayCourse(scenario, rules, pace)
    sizes = _replay_minutes(first, 0, DAY_MIN)
    planned = first.fork(rules.under_plan)
    placement = plan_day(planned, sizes, profile_rules)
    relocated = len(planned.record.moves)
    _replay_minutes(planned, DAY_MIN, minutes)
    before = len(first.record.moves)
    _replay_minutes(first, DAY_MIN, minutes)
    return NextDay(_scores(first, before), _scores(planned, relocated), placement)


def plan_day(
    course: ReplayCourse, sizes: Floats, rules: ProfileRules | None = None
) -> ProfilePlacement:
    """Place current bundles by the profile of the past day, and move them.

    Args:
        course: at the end of day one.
        sizes: bytes/s that each broker could take on that day, shape (minutes, brokers).
        rules: None: the defaults.
    """
    cluster = course.cluster
    load = profile_of(course)
    present = cluster.present
    numbers = {broker.number: place for place, broker in enumerate(present)}
    owner = np.array([numbers.get(each, -1) for each in cluster.owners.tolist()], np.int32)
    hourly = sizes.reshape(HOURS, -1, len(cluster.brokers)).mean(axis=1).T
    placement = profile_placement(load, owner, hourly[list(numbers)], rules)
    course.relocate(
        {
            cluster.subranges[place].bundle: present[placement.owner[place]].broker_id
            for place in placement.moves
        },
        DAY_MIN,
    )
    return placement


def profile_of(course: ReplayCourse) -> Floats:
    """Mean bytes a second of each bundle of now by hour of day one, shape (bundles, hours)."""
    carried = course.cluster.carried_bytes(0, DAY_MIN)
    hours: Floats = carried.reshape(HOURS, _HOUR_MIN, -1).mean(axis=1).T
    return hours


def _replay_minutes(course: ReplayCourse, start: int, stop: int) -> Floats:
    """Answers with the bytes/s that each broker could take, shape (minutes, brokers)."""
    sizes = np.zeros((stop - start, len(course.cluster.brokers)))
    for minute in range(start, stop):
        course.replay_minute(minute)
        sizes[minute - start] = [
            broker.capacity.bytes_s for broker in course.cluster.brokers.values()
        ]
    return sizes


def _scores(course: ReplayCourse, moves_before: int) -> NextDayScores:
    """Of the second day; earlier moves, and those of the plan itself, are left out."""
    usage = np.array(course.record.usage[DAY_MIN:])
    ratios = np.nanmax(usage, axis=1) / np.nanmean(usage, axis=1)
    p50, p99, most = np.percentile(ratios, [50, 99, 100]).tolist()
    offered = course.record.offered_bytes
    moves = course.record.moves[moves_before:]
    by_load = [
        move.bytes_s / offered[move.minute] for move in moves if move.cause is MoveCause.LOAD
    ]
    forced = [
        move.bytes_s / offered[move.minute] for move in moves if move.cause is not MoveCause.LOAD
    ]
    hours = len(usage) / _HOUR_MIN
    return NextDayScores(
        p50=p50,
        p99=p99,
        most=most,
        load_moved_pct_per_h=sum(by_load) * 100 / hours,
        moves=len(by_load),
        forced_pct_per_h=sum(forced) * 100 / hours,
    )
