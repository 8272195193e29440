"""Scenarios of two or three brokers, replayed and worked out by hand."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.planning.decide import CycleRules
from broker_ctl.core.rules.leader_rules import Budgets, MergeRules, SplitRules
from broker_ctl.core.strategies.placement.strategies import LeastLongTermMessageRate
from broker_ctl.core.strategies.shedding.threshold import OverloadShedder
from broker_ctl.simulation.model.capacity import Capacity
from broker_ctl.simulation.model.scenario import (
    ReplayPace,
    Scenario,
    ScenarioEvent,
    ScenarioEventKind,
    TopicShares,
)
from broker_ctl.simulation.replay.cluster import MoveCause, Moved, Replay
from broker_ctl.simulation.replay.replay import POLICIES, UNLIMITED, replay
from tests.support.pipeline.small_scenarios import MB, STRONG, bundles_of, small

# No strategy acts: all that is to be seen are the events of the brokers.
IDLE = CycleRules(LeastLongTermMessageRate(), budgets=UNLIMITED)
RELIEVING = replace(IDLE, shedding=OverloadShedder())
# 40 + 30 + 20 + 10 MB/s: one broker is full of them.
FULL = (40.0, 30.0, 20.0, 10.0)
ALL_ON_A = ("a", "a", "a", "a")


def usage_of(replayed: Replay) -> list[list[float]]:
    rows: list[list[float]] = np.round(replayed.usage, 4).tolist()
    return rows


def ends(moves: tuple[Moved, ...]) -> list[tuple[int, int, str, str, MoveCause]]:
    """Minute, place on the ring, from, to, cause."""
    places = {bundle: place for place, bundle in enumerate(bundles_of(4))}
    return [(m.minute, places[m.bundle], m.source, m.destination, m.cause) for m in moves]


# The view of the leader, and its age.


def test_the_leader_acts_on_the_load_of_the_minute_before_and_a_move_costs_five_seconds() -> None:
    replayed = replay(small(FULL, ALL_ON_A, minutes=3), RELIEVING)
    # 15 points above 85 %, and 5 more: the heaviest covers it.
    assert ends(replayed.moves) == [(1, 0, "a", "b", MoveCause.LOAD)]
    (move,) = replayed.moves
    assert (move.bytes_s, move.reason) == (40 * MB, Reason.OVERLOADED)
    served = round(0.4 * 55 / 60, 4)
    assert usage_of(replayed) == [[1.0, 0.0], [0.6, served], [0.6, 0.4]]


@pytest.mark.parametrize("delay_min", [0, 1, 2, 4])
def test_reports_that_come_later_make_the_leader_act_later(delay_min: int) -> None:
    pace = ReplayPace(report_delay_min=delay_min)
    replayed = replay(small(FULL, ALL_ON_A), RELIEVING, pace)
    assert [move.minute for move in replayed.moves] == [delay_min]


def test_a_moved_bundle_is_not_shed_again_while_old_reports_arrive() -> None:
    pace = ReplayPace(report_delay_min=3)
    replayed = replay(small(FULL, ALL_ON_A, minutes=12), RELIEVING, pace)
    assert len(replayed.moves) == 1


def test_a_leader_who_knows_of_no_overload_leaves_everything_where_it_is() -> None:
    replayed = replay(small((40.0, 30.0, 20.0, 10.0), ("a", "b", "a", "b")), RELIEVING)
    assert replayed.moves == ()
    assert usage_of(replayed) == [[0.6, 0.4]] * 6
    assert replayed.offered_bytes.tolist() == [100 * MB] * 6


def test_budgets_of_moves_in_flight_hold_in_a_cycle_and_more_cycles_may_follow() -> None:
    # Twenty points should go, and each bundle has 12.5.
    scenario = small((12.5,) * 8, ("a",) * 8, minutes=3, brokers=("a", "b", "c"))
    rules = replace(RELIEVING, budgets=replace(UNLIMITED, max_moves=1))
    slow = replay(scenario, rules)
    assert [move.minute for move in slow.moves] == [1, 2]
    quick = replay(scenario, rules, ReplayPace(cycles_per_minute=12))
    assert [move.minute for move in quick.moves] == [1, 1]
    # The second one waits for five seconds, and is on its way for five more.
    stays, *served = quick.usage[1].tolist()
    assert stays == pytest.approx(0.75 + 0.125 * 5 / 60)
    assert sorted(served) == pytest.approx([0.125 * 50 / 60, 0.125 * 55 / 60])


def test_a_minute_has_as_many_cycles_as_moves_fit_into_it() -> None:
    assert ReplayPace(cycles_per_minute=100).most_cycles == 12
    assert ReplayPace(unload_s=40.0, reconnect_s=40.0, cycles_per_minute=3).most_cycles == 1
    assert ReplayPace(unload_s=0.0, reconnect_s=0.0, cycles_per_minute=3).most_cycles == 3


# Events of brokers.


def test_bundles_of_a_dead_broker_are_unserved_for_a_minute_then_placed_heaviest_first() -> None:
    events = [ScenarioEvent(2, "c", ScenarioEventKind.DOWN)]
    scenario = small(FULL, ("c", "c", "a", "b"), minutes=5, brokers=("a", "b", "c"), events=events)
    replayed = replay(scenario, IDLE)
    # 10 MB/s are less than 20: the heaviest goes to b, and then a has less.
    assert ends(replayed.moves) == [
        (3, 0, "c", "b", MoveCause.DEATH),
        (3, 1, "c", "a", MoveCause.DEATH),
    ]
    back = 57 / 60
    expected = [
        [0.2, 0.1, 0.7],
        [0.2, 0.1, 0.7],
        [0.2, 0.1, np.nan],
        [0.2 + 0.3 * back, 0.1 + 0.4 * back, np.nan],
        [0.5, 0.5, np.nan],
    ]
    assert replayed.usage == pytest.approx(np.array(expected), nan_ok=True, abs=1e-6)
    assert replayed.max_over_mean[2] == pytest.approx(0.2 / 0.15)
    assert replayed.offered_bytes[2] == 100 * MB


def test_a_drained_broker_hands_all_over_in_the_minute_in_which_it_stops() -> None:
    events = [
        ScenarioEvent(2, "b", ScenarioEventKind.DRAIN),
        ScenarioEvent(4, "b", ScenarioEventKind.DOWN),
    ]
    scenario = small(FULL, ("b", "a", "a", "a"), events=events)
    replayed = replay(scenario, IDLE)
    assert ends(replayed.moves) == [(4, 0, "b", "a", MoveCause.DRAIN)]
    served = 0.6 + 0.4 * 55 / 60
    assert replayed.usage[3:, 0] == pytest.approx([0.6, served, 1.0], abs=1e-6)
    assert np.isnan(replayed.usage[4:, 1]).all()


def test_a_draining_broker_receives_nothing() -> None:
    events = [ScenarioEvent(0, "b", ScenarioEventKind.DRAIN)]
    assert replay(small(FULL, ALL_ON_A, events=events), RELIEVING).moves == ()


def test_a_broker_that_comes_is_there_at_once_and_what_goes_to_it_refills_it() -> None:
    events = [ScenarioEvent(3, "b", ScenarioEventKind.UP)]
    scenario = small(FULL, ALL_ON_A, events=events, absent=("b",))
    replayed = replay(scenario, RELIEVING)
    assert np.isnan(replayed.usage[:3, 1]).all()
    assert ends(replayed.moves) == [(3, 0, "a", "b", MoveCause.REFILL)]


def test_a_move_to_a_broker_an_hour_after_it_came_is_not_a_refill() -> None:
    loads = [[30.0, 20.0, 10.0, 10.0]] * 62 + [[60.0, 20.0, 10.0, 10.0]] * 4
    events = [ScenarioEvent(1, "b", ScenarioEventKind.UP)]
    scenario = small(loads, ALL_ON_A, events=events, absent=("b",))
    replayed = replay(scenario, RELIEVING)
    assert {move.cause for move in replayed.moves} == {MoveCause.LOAD}


def test_bundles_of_the_last_broker_wait_until_a_broker_comes_back() -> None:
    events = [
        ScenarioEvent(1, "a", ScenarioEventKind.DOWN),
        ScenarioEvent(4, "a", ScenarioEventKind.UP),
    ]
    replayed = replay(small(FULL, ALL_ON_A, brokers=("a",), events=events), IDLE)
    assert [move.minute for move in replayed.moves] == [4, 4, 4, 4]
    assert replayed.usage[5].tolist() == [pytest.approx(1.0)]


def test_a_broker_of_half_the_capacity_is_twice_as_full_and_its_report_stops_at_full() -> None:
    events = [
        ScenarioEvent(1, "a", ScenarioEventKind.CAPACITY, 0.5),
        ScenarioEvent(3, "a", ScenarioEventKind.CAPACITY, 1.0),
    ]
    scenario = small((60.0, 20.0), ("a", "b"), minutes=4, events=events)
    assert usage_of(replay(scenario, IDLE)) == [[0.6, 0.2], [1.2, 0.2], [1.2, 0.2], [0.6, 0.2]]


def test_usage_is_of_what_a_broker_is_shortest_of() -> None:
    few_messages = Capacity(msg_rate=10_000.0, bytes_s=1000 * MB)
    scenario = small((50.0, 50.0), ("a", "b"), brokers={"a": few_messages, "b": STRONG})
    assert usage_of(replay(scenario, IDLE))[0] == [0.5, 0.5]


# Splits and merges.


def test_a_bundle_above_a_limit_is_split_and_its_topics_are_parted() -> None:
    low, high = bundles_of(2)
    topics = [TopicShares((0x10000000, 0x60000000), (0.75, 0.25)), TopicShares.even(high, 2)]
    rules = replace(IDLE, splitting=SplitRules(max_bandwidth_bytes=50 * MB, is_unloading=False))
    replayed = replay(small((80.0, 10.0), ("a", "b"), topics=topics), rules)
    (first, *_) = replayed.splits
    assert (first.minute, first.before, len(first.after)) == (1, (low,), 2)
    assert usage_of(replayed) == [[0.8, 0.1]] * 6
    # 60 MB/s are above the limit as well, but they are one topic.
    assert len(replayed.splits) == 1


def test_a_part_of_a_split_may_move_within_the_minute() -> None:
    rules = replace(IDLE, splitting=SplitRules(max_bandwidth_bytes=50 * MB))
    replayed = replay(small((80.0, 10.0), ("a", "b"), minutes=4), rules)
    (split,) = replayed.splits
    (move,) = replayed.moves
    assert move.bundle in split.after
    assert (move.minute, move.reason, move.bytes_s) == (1, Reason.NEW_PART, 40 * MB)
    assert usage_of(replayed)[2:] == [[0.4, 0.5], [0.4, 0.5]]


@pytest.mark.parametrize("algorithm", ["topic_count_equally_divide", "flow_or_qps_equally_divide"])
def test_an_algorithm_that_asks_for_topics_gets_them(algorithm: str) -> None:
    # All of them in the lower half: to cut the range in the middle would part nothing.
    topics = [TopicShares((10, 20, 30, 40), (0.25,) * 4), TopicShares((0x90000000,), (1.0,))]
    limits = SplitRules(algorithm, max_bandwidth_bytes=50 * MB, is_unloading=False)
    replayed = replay(
        small((80.0, 10.0), ("a", "b"), topics=topics), replace(IDLE, splitting=limits)
    )
    (split,) = replayed.splits
    assert split.after[0].range.high == {"topic": 25, "flow": 26}[algorithm.partition("_")[0]]
    assert usage_of(replayed)[-1] == [0.8, 0.1]


def test_cold_neighbours_come_together_and_are_merged() -> None:
    merging = MergeRules(hit_count=1, min_bundles=2, cool_down_s=0.0)
    rules = replace(IDLE, merging=merging)
    replayed = replay(small((1.0, 1.0, 50.0, 60.0), ("a", "b", "a", "b"), minutes=8), rules)
    (move,) = replayed.moves
    (merge,) = replayed.merges
    assert move.reason is Reason.COLD
    assert merge.before == bundles_of(4)[:2]
    assert merge.minute > move.minute
    assert usage_of(replayed)[-1] == [0.52, 0.6]


# The same again.


def eventful() -> Scenario:
    """Three brokers, one that comes, one that goes, and traffic that grows and shrinks."""
    draw = np.random.Generator(np.random.PCG64(7))
    loads = draw.lognormal(2.0, 1.0, (40, 24)) * np.linspace(0.5, 1.5, 40)[:, None]
    owners = [("a", "b", "c")[number] for number in draw.integers(0, 3, 24)]
    events = [
        ScenarioEvent(8, "b", ScenarioEventKind.DOWN),
        ScenarioEvent(14, "d", ScenarioEventKind.UP),
        ScenarioEvent(20, "c", ScenarioEventKind.DRAIN),
        ScenarioEvent(24, "c", ScenarioEventKind.DOWN),
        ScenarioEvent(30, "b", ScenarioEventKind.UP),
    ]
    brokers = dict.fromkeys(("a", "b", "c", "d"), STRONG.times(3.0))
    return small(loads.tolist(), owners, brokers=brokers, events=events, absent=("d",))


@pytest.mark.parametrize("name", POLICIES)
def test_the_same_scenario_gives_the_same_replay_to_the_bit(name: str) -> None:
    first, second = (
        replay(eventful(), contestant.rules, contestant.pace)
        for contestant in (POLICIES[name](), POLICIES[name]())
    )
    assert first.usage.tobytes() == second.usage.tobytes()
    assert first.moves == second.moves
    assert first.splits == second.splits


@pytest.mark.parametrize("name", POLICIES)
def test_each_bundle_leaves_the_broker_that_it_came_to(name: str) -> None:
    contestant = POLICIES[name]()
    rules = replace(contestant.rules, splitting=None)
    scenario = eventful()
    moves = replay(scenario, rules, contestant.pace).moves
    traffic = scenario.traffic
    for bundle, owner in zip(traffic.bundles, scenario.owners, strict=True):
        own = [move for move in moves if move.bundle == bundle]
        assert all(one.destination == other.source for one, other in pairwise(own))
        assert [move.source for move in own[:1]] in ([], [owner])


def test_each_minute_is_reported() -> None:
    scenario, minutes = eventful(), Counter[str]()
    replay(scenario, IDLE, on_minute=lambda: minutes.update(["minute"]))
    assert minutes.total() == scenario.traffic.minutes


def test_a_budget_by_the_hour_counts_what_has_arrived() -> None:
    budgets = Budgets(max_moves_per_broker=9, max_moves=9, hourly_load_ratio=0.5, cool_down_s=0.0)
    rules = replace(RELIEVING, budgets=replace(budgets, namespace_ratio=1.0))
    # From minute 3 on the other one is overloaded: 40 of 130 MB/s have moved, 50 more are too many.
    loads = [[40.0, 30.0, 20.0, 10.0]] * 3 + [[40.0, 20.0, 10.0, 5.0]] * 3
    scenario = small(loads, ALL_ON_A, minutes=6)
    assert len(replay(scenario, rules).moves) == 1
