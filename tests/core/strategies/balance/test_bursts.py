"""Bursts that come back every hour are recognised, and placements are even during them too."""

from dataclasses import replace

import numpy as np
import pytest

from broker_ctl.core.rules.leader_rules import MIB, Band, BurstRules
from broker_ctl.core.strategies.balance.bursts import (
    SLOT_S,
    SLOTS,
    Course,
    courses_of_row,
    courses_to_row,
    followed,
    planned_for,
    shape_of,
)
from broker_ctl.core.strategies.balance.demands import Demands, Known
from broker_ctl.core.strategies.balance.planner import relieve
from broker_ctl.core.strategies.balance.problem import BalanceProblem
from tests.core.strategies.balance.fleets import ALERT, Fleet, rules_of
from tests.support.clusters.views import BUNDLES, NOW_S, broker, cluster, stats

RULES = BurstRules()
A, B = BUNDLES[:2]


def course_of(loads: list[float], start: int = 0, readings: int = 5) -> Course:
    """After these loads, one a slot from the slot ``start`` on."""
    course: Course | None = None
    for slot, load in enumerate(loads, start):
        for _ in range(readings):
            course = Course(slot, load, 1) if course is None else course.after(slot, load)
    assert course is not None
    return course


def hours(count: int, *bursts: int, high: float = 4.0) -> list[float]:
    """Hours of the load 1, with bursts in some slots, and the first slot of the next one."""
    return [high if slot % SLOTS in bursts else 1.0 for slot in range(count * SLOTS + 1)]


def bursting(course: Course) -> list[int]:
    shape = shape_of(course, RULES)
    return [] if shape is None else np.flatnonzero(shape > 1.0).tolist()


def test_a_burst_is_recognised_within_three_repetitions() -> None:
    assert bursting(course_of(hours(1, 0))) == []
    assert bursting(course_of(hours(2, 0))) == [0]
    # Followed since the first burst, it is known before the third one is over.
    loads = hours(3, 2)
    slots = range(2, len(loads))
    known = [slot for slot in slots if bursting(course_of(loads[2 : slot + 1], 2))]
    assert known[0] == 2 + 2 * SLOTS


@pytest.mark.parametrize("start", [0, 1, 7, 11, 123])
def test_the_slots_of_the_hour_are_those_of_the_clock(start: int) -> None:
    loads = [4.0 if slot % SLOTS == 5 else 1.0 for slot in range(start, start + 2 * SLOTS + 1)]
    assert bursting(course_of(loads, start)) == [5]


def test_the_shape_has_the_mean_of_the_hour() -> None:
    shape = shape_of(course_of(hours(3, 0, 6)), RULES)
    assert shape is not None
    assert shape.mean() == pytest.approx(1.0)
    assert shape[0] / shape[1] == pytest.approx(4.0)


@pytest.mark.parametrize(
    "loads",
    [
        pytest.param(hours(2), id="even"),
        pytest.param(hours(2, 0, high=1.4), id="too small"),
        pytest.param(hours(1, 0)[:-1] + hours(1, 5), id="at other minutes"),
        pytest.param([4.0] * SLOTS + [1.0] * (SLOTS + 1), id="a lasting change"),
        pytest.param([0.0] * (2 * SLOTS + 1), id="nothing at all"),
    ],
)
def test_what_does_not_come_back_is_not_a_burst(loads: list[float]) -> None:
    assert shape_of(course_of(loads), RULES) is None


def test_a_slot_without_a_reading_starts_the_course_again() -> None:
    course = course_of(hours(2, 0)).after(2 * SLOTS + 2, 1.0)
    assert course == Course(2 * SLOTS + 2, 1.0, 1)


def test_only_bundles_that_change_lately_are_followed() -> None:
    view = cluster([broker("b1", 0.5, {A: stats(100), B: stats(50)})])
    known = {A: Known((1.0,), (1.0,), 60.0, swings=1.0), B: Known((1.0,), (1.0,), 60.0)}
    demands = Demands((), known, NOW_S)
    found = followed({}, view, demands, RULES)
    assert list(found) == [A]
    assert found[A].slot == NOW_S // SLOT_S
    later = replace(view, taken_at_s=NOW_S + SLOT_S)
    assert len(followed(found, later, demands, RULES)[A].means) == 1
    assert followed(found, later, demands, replace(RULES, is_enabled=False)) == {}
    assert courses_of_row(courses_to_row(found)) == found


def problem(owners: list[int]) -> BalanceProblem:
    """Bundles of one unit each on two brokers of ten."""
    return BalanceProblem.plain(
        np.ones((len(owners), 1)), np.full((2, 1), 10.0), np.array(owners, np.int32)
    )


def test_brokers_are_made_even_for_the_bursts_as_well() -> None:
    """Both bundles that burst are with the first broker; the averages are even all the time."""
    bundles = BUNDLES[:6]
    demands = Demands((), {each: Known((1.0,), (1.0,), 60.0) for each in bundles}, 0.0)
    courses = dict.fromkeys(bundles[:2], course_of(hours(2, 0)))
    given = problem([0, 0, 0, 1, 1, 1])
    band = Band(high=1.08, low=1.04, least=0.0)
    assert relieve(given, band).moves == ()
    planned = planned_for(given, bundles, demands, courses, RULES)
    assert planned.note == "bursts of 2 bundles in 5 minutes of every hour count"
    # Now, in the burst, and between the bursts, when these bundles have less than their mean.
    now, burst, between = planned.problem.demand.T
    assert now.tolist() == [1.0] * 6
    assert burst.tolist() == pytest.approx([3.2, 3.2, 1, 1, 1, 1])
    assert between.tolist() == pytest.approx([0.8, 0.8, 1, 1, 1, 1])
    moves = relieve(planned.problem, band).moves
    # One that bursts is exchanged for one that does not.
    assert [(move.source, move.destination) for move in moves] == [(0, 1), (1, 0)]
    assert [move.bundle < 2 for move in moves] == [True, False]


def test_small_bursts_and_none_leave_the_problem_as_it_is() -> None:
    bundles = BUNDLES[:6]
    demands = Demands((), {each: Known((1.0,), (1.0,), 60.0) for each in bundles}, 0.0)
    given = problem([0, 0, 0, 1, 1, 1])
    assert planned_for(given, bundles, demands, {}, RULES).problem is given
    courses = {bundles[0]: course_of(hours(2, 0))}
    large = replace(RULES, least_ratio=0.9)
    planned = planned_for(given, bundles, demands, courses, large)
    assert (planned.problem is given, planned.note) == (True, "")


def moves_by_hour(rules: BurstRules, count: int) -> tuple[list[int], set[str]]:
    """Moves of a fleet in each hour, and what they say; jobs run at minute 0, 20 and 40."""
    rng = np.random.default_rng(7)
    sizes = rng.lognormal(3.0, 0.5, 48)
    busy = Fleet.of({f"b{broker}": sizes[broker::4].tolist() for broker in range(4)})
    band = Band(high=1.08, low=1.04)
    busy.rules = rules_of(ALERT, bursts=rules, band=band, severe_ratio=1.14)
    starts = rng.choice([-1, -1, 0, 20, 40], len(sizes))
    usual = {bundle: line.throughput / MIB for bundle, line in busy.lines.items()}
    said: set[str] = set()
    found = []
    for minute in range(count * 60):
        for (bundle, mib), start in zip(usual.items(), starts, strict=True):
            times = 4.0 if start >= 0 and 0 <= minute % 60 - start < 5 else 1.0
            busy.lines[bundle] = stats(mib * times)
        moves = busy.cycle()
        said |= {move.detail.rsplit("; ", 1)[-1] for move in moves}
        found.append(len(moves))
    return [sum(found[hour * 60 : hour * 60 + 60]) for hour in range(count)], said


def test_jobs_of_the_hour_are_planned_for_by_the_strategy() -> None:
    without, _ = moves_by_hour(replace(RULES, is_enabled=False), 3)
    planned, said = moves_by_hour(RULES, 3)
    assert planned[:2] == without[:2]
    assert planned[2] < without[2]
    assert "bursts of 29 bundles in 30 minutes of every hour count" in said
