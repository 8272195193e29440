"""`balance` as a strategy: what it moves, when, what holds it back, and what it says."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from broker_ctl.core.cluster.decisions import Decision, Reason, Skip, Transfer
from broker_ctl.core.cluster.view import Settled
from broker_ctl.core.model.broker import Constraints
from broker_ctl.core.planning.plan import plan
from broker_ctl.core.rules.leader_rules import MIB, Budgets, PlacementRules, SlowRules
from broker_ctl.core.rules.limits import QuietHours
from broker_ctl.core.strategies.placement.strategies import LeastLongTermMessageRate
from tests.core.strategies.balance.fleets import (
    ALERT,
    CALM,
    POLICY,
    Fleet,
    fleet,
    reporting,
    rules_of,
    shed,
    transfers,
)
from tests.support.clusters.views import BUNDLES, NOW_S, broker, cluster, stats

RULES = rules_of(CALM)
URGENT = rules_of(ALERT)
# 70 %, 30 % and 50 % of three equals; 16 points are the smallest bundle that is enough.
UNEVEN: Mapping[str, Sequence[float]] = {"b1": [300, 210, 160, 30], "b2": [300], "b3": [500]}


def skips(decisions: Sequence[Decision]) -> list[tuple[str, Reason]]:
    return [(each.subject, each.reason) for each in decisions if isinstance(each, Skip)]


def paths(decisions: Sequence[Decision]) -> list[tuple[int, str, str]]:
    """Number of the bundle in the ring, from, to."""
    return [
        (BUNDLES.index(each.bundle), each.source, each.destination) for each in transfers(decisions)
    ]


# What it does.


def test_a_move_has_its_destination_its_loads_the_bound_and_a_reason() -> None:
    (move,) = shed(fleet(UNEVEN), RULES)
    assert isinstance(move, Transfer)
    assert paths([move]) == [(2, "b1", "b2")]
    assert move.reason is Reason.IMBALANCE
    assert move.detail == (
        "1.40 and 0.60 times the mean usage 50.0% before the plan; "
        "even the best placement leaves the fullest broker at 1.00 times the mean"
    )
    assert move.load_vector.throughput_bytes == pytest.approx(160 * MIB)
    assert move.source_before.usage_ratio == pytest.approx(0.7)
    assert move.destination_before.usage_ratio == pytest.approx(0.3)


def test_the_usages_of_a_move_are_right_wherever_the_plan_puts_it() -> None:
    view = fleet({"b1": [100] * 8, "b2": [100] * 4, "b3": [100] * 3})
    proposed = shed(view, RULES)
    made = plan(
        view,
        proposed,
        placement=LeastLongTermMessageRate(),
        placement_rules=PlacementRules(),
        budgets=Budgets(),
    ).decisions
    # 80 %, 40 % and 30 % of three; the plan takes equals along the ring, the planner did not.
    assert paths(proposed) == [(7, "b1", "b3"), (6, "b1", "b2")]
    assert paths(made) == [(6, "b1", "b2"), (7, "b1", "b3")]
    assert [move.detail.split(";")[0] for move in made] == [
        "1.60 and 0.80 times the mean usage 50.0% before the plan",
        "1.60 and 0.60 times the mean usage 50.0% before the plan",
    ]
    before = [
        usage.usage_ratio
        for move in transfers(made)
        for usage in (move.source_before, move.destination_before)
    ]
    assert before == pytest.approx([0.8, 0.4, 0.7, 0.3])


def test_an_even_cluster_is_left_alone_with_a_skip_that_says_how_even_it_is() -> None:
    (skip,) = shed(fleet({"b1": [590], "b2": [500], "b3": [410]}), RULES)
    assert isinstance(skip, Skip)
    assert (skip.subject, skip.reason) == ("cluster", Reason.BELOW_THRESHOLD)
    assert skip.detail == (
        "b1 has 1.18 times the mean usage 50.0% at most, "
        "up to 60.0% is tolerated (loadBalancerPlannerHighPercentage)"
    )


def test_a_load_that_fits_nowhere_is_reported() -> None:
    (skip,) = shed(fleet({"b1": [800], "b2": [200], "b3": [200]}), RULES)
    assert isinstance(skip, Skip)
    assert (skip.subject, skip.reason) == ("b1", Reason.NO_GAIN)
    assert skip.detail.endswith(
        "even the best placement leaves the fullest broker at 2.00 times the mean"
    )


def test_a_broker_that_one_topic_fills_is_stuck_for_its_hot_topic() -> None:
    busy = Fleet.of({"b1": [700, 100], "b2": [200], "b3": [200]})
    bundle = BUNDLES[0]
    busy.lines[bundle] = replace(busy.lines[bundle], topics=1)
    (skip,) = (each for each in shed(busy.view(), RULES) if isinstance(each, Skip))
    assert (skip.subject, skip.reason) == ("b1", Reason.HOT_TOPIC)
    assert f"of {bundle} its one topic has 700.0 MiB/s: splits and moves do not help" in skip.detail


def test_where_nobody_says_how_full_it_is_bytes_are_compared() -> None:
    silent = [
        broker("b1", 0.0, dict(zip(BUNDLES, map(stats, [300, 210, 160, 30]), strict=False))),
        broker("b2", 0.0, {BUNDLES[4]: stats(300)}),
        broker("b3", 0.0, {BUNDLES[5]: stats(500)}),
    ]
    assert paths(shed(cluster(silent), RULES)) == [(2, "b1", "b2")]


def test_brokers_of_several_sizes_are_as_full_as_they_are() -> None:
    """300 of 500 are what 1200 of 2000 are; beside 100 of 1000 both are too full."""
    capacities = {"b1": 500.0, "b2": 2000.0, "b3": 1000.0}
    even = {"b1": [100] * 3, "b2": [200] * 6, "b3": [200] * 3}
    assert transfers(shed(fleet(even, capacities), RULES)) == []
    moves = transfers(shed(fleet({**even, "b3": [100]}, capacities), RULES))
    assert moves
    assert {move.destination for move in moves} == {"b3"}


@pytest.mark.parametrize("count", [0, 1])
def test_between_too_few_nothing_is_evened_out(count: int) -> None:
    brokers = [reporting(f"b{n}", {BUNDLES[n]: stats(900)}) for n in range(count)]
    assert skips(shed(cluster(brokers), URGENT)) == [("cluster", Reason.TOO_FEW_BROKERS)]


def test_without_bundles_nobody_is_too_full() -> None:
    view = cluster([reporting(f"b{n}", {}) for n in range(3)])
    assert skips(shed(view, URGENT)) == [("cluster", Reason.BELOW_THRESHOLD)]


# What holds it back.


def test_quiet_hours_hold_back_what_can_wait_and_not_what_cannot() -> None:
    quiet = QuietHours.parse("00:00-23:00")
    full = shed(fleet({"b1": [200] * 3, "b2": [400], "b3": [400]}), rules_of(ALERT, quiet=quiet))
    assert skips(full) == [("b1", Reason.QUIET_HOURS)]
    assert full[0].detail.endswith("1.29 times the mean")
    severe = fleet({"b1": [200] * 4, "b2": [400], "b3": [300]})
    assert transfers(shed(severe, rules_of(ALERT, quiet=quiet)))
    # 1.21 of the mean alone would wait, but 95 % are more than a broker should have.
    near = {"b1": [190] * 5, "b2": [100] * 7, "b3": [100] * 7}
    assert transfers(shed(fleet(near), rules_of(ALERT, quiet=quiet)))


def test_no_more_moves_within_the_hour_than_the_churn_allows_unless_it_is_urgent() -> None:
    uneven = {"b1": [100] * 8, "b2": [100] * 4, "b3": [100] * 3}
    view = fleet(uneven)
    assert len(transfers(shed(view, RULES))) == 2
    # 1500 MiB/s in all: 150 are allowed.
    decisions = shed(view, rules_of(CALM, churn_ratio=0.1))
    assert len(transfers(decisions)) == 1
    assert [reason for _, reason in skips(decisions)] == [Reason.BUDGET_HOURLY_LOAD]
    lately = [Settled(BUNDLES[15], NOW_S - 3599, 100.0 * MIB)]
    assert transfers(shed(fleet(uneven, settled=lately), rules_of(CALM, churn_ratio=0.1))) == []
    long_ago = [replace(lately[0], at_s=NOW_S - 3600)]
    assert len(transfers(shed(fleet(uneven, settled=long_ago), rules_of(CALM, churn_ratio=0.1))))
    assert len(transfers(shed(view, rules_of(ALERT, churn_ratio=0.1)))) > 1


def test_a_bundle_that_has_just_moved_rests() -> None:
    assert paths(shed(fleet(UNEVEN, unloaded_s={BUNDLES[2]: NOW_S - 1800}), RULES)) == [
        (2, "b1", "b2")
    ]
    rested = shed(fleet(UNEVEN, unloaded_s={BUNDLES[2]: NOW_S - 1799}), RULES)
    assert transfers(rested)
    assert 2 not in [bundle for bundle, _, _ in paths(rested)]


def test_a_bundle_does_not_come_back_to_where_it_has_just_been() -> None:
    """An operator gave all of b1 to b2: there is room for it nowhere else."""
    world = Fleet.of({"b1": [150, 150], "b2": [600], "b3": [300]}, rules=rules_of(CALM, rest_s=0))
    world.look()
    first, second, *_ = world.owners
    world.carry(first, "b2")
    world.carry(second, "b2")
    world.now_s += 60
    assert world.look() == []
    world.now_s += 3599
    assert world.look() == []
    world.now_s += 1
    assert {(move.bundle, move.destination) for move in world.look()} == {
        (first, "b1"),
        (second, "b1"),
    }


def test_a_slow_broker_receives_nothing() -> None:
    """b2 takes a fifth of its cpu for what costs the others a thirtieth."""
    slow = SlowRules(is_enabled=True, min_usage_ratio=0.1, demoted_score=5)
    others = {"b1": [100] * 9, "b3": [100] * 4, "b4": [100] * 4, "b5": [100] * 4}
    world = Fleet.of({**others, "b2": [35]}, rules=rules_of(CALM, slow=slow))
    world.cpu_ratio = {"b1": 0.3, "b2": 0.2, "b3": 0.15, "b4": 0.15, "b5": 0.15}
    for minute in range(1, 7):
        moves = world.look()
        is_demoted = ("b2", Reason.SLOW_BROKER) in skips(world.decisions)
        assert is_demoted == (minute >= 5)
        assert ("b2" in {move.destination for move in moves}) == (not is_demoted)
        assert moves
        world.now_s += 60


def test_a_cluster_without_room_for_the_loss_of_a_broker_is_reported() -> None:
    full = fleet({"b1": [700], "b2": [700], "b3": [700]})
    decisions = shed(full, rules_of(CALM, headroom_ratio=0.85))
    assert skips(decisions) == [
        ("cluster", Reason.HEADROOM),
        ("cluster", Reason.BELOW_THRESHOLD),
    ]
    assert skips(shed(full, rules_of(CALM, headroom_ratio=1.06))) == [
        ("cluster", Reason.BELOW_THRESHOLD)
    ]


def test_a_cluster_without_room_for_the_loss_of_a_failure_domain_is_reported() -> None:
    where = {"b1": "rack-1", "b2": "rack-1", "b3": "rack-2", "b4": "rack-2"}
    half = replace(fleet({name: [500] for name in where}), constraints=Constraints(domain_of=where))
    decisions = shed(half, rules_of(CALM, headroom_ratio=0.85))
    (skip,) = [each for each in decisions if each.reason is Reason.HEADROOM]
    assert "without failure domain rack-1 the usage of the other 2 is" in skip.detail
    assert skips(shed(half, rules_of(CALM, headroom_ratio=1.2))) == [
        ("cluster", Reason.BELOW_THRESHOLD)
    ]


def test_a_broker_that_cannot_be_relieved_does_not_delay_the_others() -> None:
    """b1 is one bundle; b2 is too full as well, and there is room for what it has too much."""
    view = fleet({"b1": [900], "b2": [100] * 7, "b3": [200], "b4": [300]})
    assert {move.source for move in transfers(shed(view, URGENT))} == {"b2"}


# What it remembers.


def test_a_swing_that_comes_back_moves_nothing_and_a_jump_that_stays_does() -> None:
    """Half of what is new counts after one minute, three quarters after two."""
    traffic = {"b1": [250, 150, 100], "b2": [500], "b3": [500]}
    swing = Fleet.of(traffic)
    bundle = next(iter(swing.owners))
    for minute in range(60):
        swing.lines[bundle] = stats(350 if minute in {30, 31} else 250)
        assert swing.cycle() == []
    jump = Fleet.of(traffic)
    acted: list[int] = []
    for minute in range(60):
        jump.lines[bundle] = stats(250 if minute < 30 else 500)
        if jump.cycle():
            acted.append(minute)
    # 375 is less than half above the steady 259; 437 is more than half above 267.
    assert acted == [31]


def test_a_memory_that_was_written_and_read_decides_alike() -> None:
    quiet = QuietHours.parse("")
    slow = SlowRules(is_enabled=True, min_usage_ratio=0.1)
    world = Fleet.of(UNEVEN, rules=rules_of(ALERT, slow=slow, quiet=quiet))
    world.cycle()
    world.carry(next(iter(world.owners)), "b3")
    world.look()
    row: Mapping[str, Any] = json.loads(json.dumps(world.memory.to_row()))
    recalled = POLICY.recall(row)
    assert recalled == world.memory
    world.now_s += 60
    view = world.view()
    once = POLICY.observe(world.memory, view, world.rules)
    again = POLICY.observe(recalled, view, world.rules)
    assert again == once
    assert again.left
    assert POLICY.shed(view, again, world.rules) == POLICY.shed(view, once, world.rules)
