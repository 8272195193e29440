"""A second day under the plan of the first one, on a cluster that can be followed by hand."""

from dataclasses import replace

import numpy as np
import pytest

from broker_ctl.core.planning.decide import CycleRules
from broker_ctl.core.strategies.balance.profile import ProfileRules
from broker_ctl.simulation.model.scenario import ReplayPace, Scenario
from broker_ctl.simulation.next_day import DAY_MIN, next_day, plan_day, profile_of
from broker_ctl.simulation.replay.replay import POLICIES, ReplayCourse
from tests.support.pipeline.small_scenarios import MB, small

NIGHT_MIN = DAY_MIN // 2
HOURS = 37
# Four bundles are busy in the first half of the day, four in the second.
HALVES = np.array([[9.0] * 4 + [3.0] * 4, [3.0] * 4 + [9.0] * 4])


def two_halves() -> Scenario:
    """Those that are busy at the same time share a broker."""
    minutes = np.arange(HOURS * 60) % DAY_MIN >= NIGHT_MIN
    owners = ("a",) * 4 + ("b",) * 4
    return small(HALVES[minutes.astype(int)].tolist(), owners)


def whole(rules: CycleRules) -> CycleRules:
    """Bundles as large as these are not split."""
    return replace(rules, splitting=None)


def test_a_profile_has_each_bundle_by_hour_as_it_is_at_the_end_of_the_day() -> None:
    ours = POLICIES["avg"]()
    course = ReplayCourse(two_halves(), ours.rules, ours.pace)
    place = course.cluster.place_of(two_halves().traffic.bundles[0])
    course.cluster.split(place or 0, (0x10000000,))
    profile = profile_of(course)
    assert profile.shape == (9, 24)
    # Two of its four topics lie in each half.
    assert profile[0] == pytest.approx([4.5 * MB] * 12 + [1.5 * MB] * 12)
    assert profile[1] == pytest.approx(profile[0])
    assert profile[8] == pytest.approx([3 * MB] * 12 + [9 * MB] * 12)


def test_a_plan_is_applied_in_one_minute_and_leaves_the_other_course_alone() -> None:
    ours = POLICIES["balance"]()
    rules = replace(whole(ours.rules), shedding=None)
    course = ReplayCourse(two_halves(), rules, ours.pace)
    for minute in range(3):
        course.replay_minute(minute)
    other = course.fork(rules.under_plan)
    sizes = np.full((DAY_MIN, 2), 100 * MB)
    placed = plan_day(other, sizes, ProfileRules(kept=0.0))
    assert placed.before.max() == pytest.approx(1.5)
    assert placed.after.max() == pytest.approx(1.0)
    assert np.bincount(other.cluster.owners[:4]).tolist() == [2, 2]
    assert len(other.record.moves) - len(course.record.moves) == len(placed.moves) == 4
    assert course.cluster.owners.tolist() == [0] * 4 + [1] * 4


@pytest.mark.slow
def test_under_a_plan_nothing_has_to_move_where_balance_alone_moves_twice_a_day() -> None:
    ours = POLICIES["balance"]()
    day = next_day(two_halves(), whole(ours.rules), ReplayPace())
    assert day.planned.moves == 0
    assert day.planned.most == pytest.approx(1.0, abs=0.01)
    assert day.reactive.moves > 0
    assert day.moved_ratio == 0.0
    assert day.planned.p99 <= day.reactive.p99


def test_a_scenario_of_one_day_has_no_second_one() -> None:
    ours = POLICIES["balance"]()
    with pytest.raises(ValueError, match="a second day needs more"):
        next_day(small([1.0, 1.0], ("a", "b")), ours.rules, ours.pace)
