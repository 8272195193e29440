"""Pairs, hits and planned receivers; figures of the strategy's author (docs: pulsar-shedders)."""

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from broker_ctl.core.cluster.decisions import Decision, Reason, Transfer
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.rules.leader_rules import DifferenceRules, SheddingRules
from broker_ctl.core.strategies.shedding.avg import AvgMemory, AvgShedder
from tests.core.strategies.shedding.worlds import World, moved, skips
from tests.support.clusters.views import BUNDLES, broker, cluster, even_cluster, stats

SHEDDER = AvgShedder()
RULES = SheddingRules()
HALF = replace(RULES, difference=DifferenceRules(max_ratio=0.5))
A, B, C, D, E = BUNDLES[:5]


def watched(
    *usages: Mapping[str, float], memory: AvgMemory | None = None
) -> tuple[AvgMemory, tuple[Decision, ...]]:
    """Cycle after cycle; the memory and what the last one decides."""
    known = memory or SHEDDER.recall(None)
    decisions: tuple[Decision, ...] = ()
    for usage in usages:
        view = even_cluster(usage, bundles_each=16)
        known = SHEDDER.observe(known, view, HALF)
        decisions = SHEDDER.shed(view, known, HALF)
    return known, decisions


def fired(view: ClusterView, rules: SheddingRules = HALF) -> tuple[Decision, ...]:
    memory = SHEDDER.recall(None)
    for _ in range(rules.avg.high_hits):
        memory = SHEDDER.observe(memory, view, rules)
    return SHEDDER.shed(view, memory, rules)


def test_a_gap_of_24_points_is_acted_on_in_the_eighth_cycle() -> None:
    usages = {"b1": 0.63, "b2": 0.385}
    _, seventh = watched(*[usages] * 7)
    (skip,) = seventh
    assert skip.sentence == (
        "skip b1: hit count: b1 at 63.0% and b2 at 38.5% are 24.5 points apart: 7 of 8 cycles at "
        "15 points (loadBalancerAvgShedderHitCountLowThreshold), 0 of 2 at 40 "
        "(loadBalancerAvgShedderHitCountHighThreshold), until one of them is reached"
    )
    _, eighth = watched(*[usages] * 8)
    assert {(each.source, getattr(each, "destination", None)) for each in moved(eighth)} == {
        ("b1", "b2")
    }


def test_a_gap_of_40_points_is_acted_on_in_the_second_cycle() -> None:
    usages = {"b1": 0.6, "b2": 0.2}
    assert not moved(watched(usages)[1])
    assert moved(watched(usages, usages)[1])


def test_hits_are_spent_by_firing() -> None:
    memory, decisions = watched(*[{"b1": 0.63, "b2": 0.385}] * 9)
    assert not moved(decisions)
    assert memory == AvgMemory({"b1": 1, "b2": 1})


def test_below_15_points_both_counts_start_again() -> None:
    wide, narrow = {"b1": 0.63, "b2": 0.385}, {"b1": 0.5, "b2": 0.351}
    memory, decisions = watched(*[wide] * 7, narrow)
    assert memory == AvgMemory()
    assert skips(decisions)[0].sentence == (
        "skip cluster: below threshold: b1 at 50.0% and b2 at 35.1% are 14.9 points apart, "
        "until 15 are (loadBalancerAvgShedderLowThreshold)"
    )
    assert not moved(watched(*[wide] * 7, narrow, wide)[1])


def test_15_points_are_enough_though_fractions_say_less() -> None:
    memory, _ = watched({"b1": 0.55, "b2": 0.4})
    assert memory.low_hits == {"b1": 1, "b2": 1}


def test_below_40_points_the_high_hits_start_again() -> None:
    high, low = {"b1": 0.6, "b2": 0.2}, {"b1": 0.5, "b2": 0.2}
    memory, decisions = watched(high, low, high)
    assert not moved(decisions)
    assert (memory.low_hits["b1"], memory.high_hits["b1"]) == (3, 1)


def test_a_broker_that_stays_hottest_is_acted_on_with_any_partner() -> None:
    one, other = {"b1": 0.6, "b2": 0.1, "b3": 0.3}, {"b1": 0.6, "b2": 0.3, "b3": 0.1}
    _, decisions = watched(one, other)
    assert {each.source for each in moved(decisions)} == {"b1"}


def test_low_hits_are_counted_per_broker_too() -> None:
    one, other = {"b1": 0.6, "b2": 0.3, "b3": 0.4}, {"b1": 0.6, "b2": 0.4, "b3": 0.3}
    usages = [one, other] * 4
    assert not moved(watched(*usages[:7])[1])
    assert {each.source for each in moved(watched(*usages)[1])} == {"b1"}


def test_the_hottest_is_paired_with_the_coolest_and_the_middle_with_nobody() -> None:
    usages = {"b1": 0.9, "b2": 0.1, "b3": 0.8, "b4": 0.3, "b5": 0.5}
    _, decisions = watched(usages, usages)
    pairs = {(each.source, each.destination) for each in decisions if isinstance(each, Transfer)}
    assert pairs == {("b1", "b2"), ("b3", "b4")}


def test_five_at_50_and_an_idle_one_are_evened_out() -> None:
    # What ThresholdShedder never sees.
    usages = {f"b{n}": 0.5 for n in range(1, 6)} | {"b6": 0.0}
    _, decisions = watched(usages, usages)
    assert {each.destination for each in decisions if isinstance(each, Transfer)} == {"b6"}


def test_12_2_1_and_1_percent_are_left_alone() -> None:
    usages = {"b1": 0.12, "b2": 0.02, "b3": 0.01, "b4": 0.01}
    assert not moved(watched(*[usages] * 20)[1])


def test_a_passing_peak_is_not_shed() -> None:
    calm, peak = {"b1": 0.45, "b2": 0.4}, {"b1": 0.865, "b2": 0.4}
    assert not moved(watched(calm, peak, calm, peak)[1])


def test_half_of_the_difference_in_messages_goes_to_the_partner() -> None:
    # 9,000 and 1,000 msg/s: 4,000 should go. 5,000 is too much, 3,000 and 900 fit, 100 too.
    lines = {A: stats(50), B: stats(30), C: stats(9), D: stats(1)}
    view = cluster([broker("b1", 0.9, lines), broker("b2", 0.1, {E: stats(10)})])
    decisions = fired(view)
    assert [each.bundle for each in moved(decisions)] == [B, C, D]
    assert all(isinstance(each, Transfer) and each.destination == "b2" for each in decisions)
    assert decisions[0].sentence.endswith(
        "b1 at 90.0% and b2 at 10.0% are 80.0 points apart; 4,000 msg/s should go"
    )


def test_where_messages_are_few_bytes_are_evened_out() -> None:
    lines = {A: stats(400, msg_rate=100), B: stats(100, msg_rate=100)}
    view = cluster([broker("b1", 0.5, lines), broker("b2", 0.1, {E: stats(100, msg_rate=100)})])
    decisions = fired(view)
    assert [each.bundle for each in moved(decisions)] == [B]
    assert "200.0 MiB/s should go" in decisions[0].sentence


def test_too_little_of_both_is_not_worth_it() -> None:
    lines = {A: stats(0.5), B: stats(0.5)}
    (skip,) = fired(cluster([broker("b1", 0.5, lines), broker("b2", 0.1)]))
    assert skip.reason is Reason.LOW_THROUGHPUT
    assert skip.detail.endswith(
        "but only 50 msg/s (at most 1,000 msg/s) and 512.0 KiB/s (at most 1.0 MiB/s) should go"
    )


def test_a_strong_broker_with_more_traffic_at_less_usage_gets_nothing() -> None:
    lines, strong = {A: stats(150), B: stats(150)}, {C: stats(500), D: stats(400)}
    view = cluster([broker("b1", 0.7, lines), broker("b2", 0.2, strong)])
    assert [skip.reason for skip in skips(fired(view))] == [Reason.LOW_THROUGHPUT]


def test_one_giant_topic_cannot_move_and_the_advice_says_what_helps() -> None:
    lines = {A: stats(800, topics=1), B: stats(790, topics=1)}
    view = cluster([broker("b1", 0.9, lines), broker("b2", 0.1, {E: stats(100)})])
    (skip,) = skips(fired(view))
    assert (skip.subject, skip.reason) == ("b1", Reason.HOT_TOPIC)
    assert "the lightest that may go, has 79,000 msg/s, more than the 74,500 msg/s" in skip.detail
    assert skip.detail.endswith("give its one topic more partitions")


@pytest.mark.parametrize("draining", [True, False])
def test_draining_and_silent_brokers_are_in_no_pair(draining: bool) -> None:
    lines = {A: stats(100), B: stats(100)}
    odd = broker("b2", 0.0, is_draining=draining, age_s=0.0 if draining else 9999.0)
    decisions = fired(cluster([broker("b1", 0.9, lines), odd, broker("b3", 0.85, {E: stats(1)})]))
    reason = Reason.DRAINING if draining else Reason.STALE_REPORT
    assert [skip.reason for skip in skips(decisions)] == [reason, Reason.BELOW_THRESHOLD]


def test_the_memory_survives_a_row_of_json() -> None:
    memory, _ = watched(*[{"b1": 0.9, "b2": 0.1, "b3": 0.5, "b4": 0.3}] * 2)
    assert memory.firing == (("b1", "b2"),)
    assert memory.low_hits == {"b3": 2, "b4": 2}
    assert SHEDDER.recall(json.loads(json.dumps(memory.to_row()))) == memory


def test_in_a_closed_loop_one_round_is_enough() -> None:
    start = {"b1": [20.0] * 40, "b2": [20.0] * 20, "b3": [20.0] * 19, "b4": [20.0] * 2}
    world = World.of(SHEDDER, start, HALF)
    before = world.imbalance
    counts = [len(world.cycle()) for _ in range(40)]
    assert sum(count > 0 for count in counts) == 1
    assert world.imbalance < before / 1.5
    assert max(world.usage.values()) - min(world.usage.values()) < 0.15 + 1e-9
