"""The standard deviation, the hits and the swaps (docs: pulsar-shedders; figures of PIP-220)."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import pytest

from broker_ctl.core.cluster.decisions import Decision, Reason, Transfer, Unload
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.broker import Constraints, IsolationPolicy
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.rules.leader_rules import MIB, SheddingRules, TransferRules
from broker_ctl.core.strategies.shedding.avg import exchange
from broker_ctl.core.strategies.shedding.policy import Spread
from broker_ctl.core.strategies.shedding.transfer import TransferMemory, TransferShedder
from tests.core.strategies.shedding.worlds import CYCLE_S, World, moved, skips
from tests.support.clusters.views import (
    BUNDLES,
    NAMESPACE,
    NOW_S,
    broker,
    cluster,
    even_cluster,
    stats,
)

SHEDDER = TransferShedder()
RULES = SheddingRules()
A, B, C, D, E, F = BUNDLES[:6]
ENOUGH: Final = 4


def transfer_rules(**changes: Any) -> SheddingRules:
    return replace(RULES, transfer=replace(RULES.transfer, **changes))


def watched(
    view: ClusterView, cycles: int = ENOUGH, rules: SheddingRules = RULES
) -> tuple[TransferMemory, tuple[Decision, ...]]:
    """Cycle after cycle on the same reports; the memory and what the last one decides."""
    memory = SHEDDER.recall(None)
    decisions: tuple[Decision, ...] = ()
    for number in range(cycles):
        now = replace(view, taken_at_s=view.taken_at_s + number * CYCLE_S)
        memory = SHEDDER.observe(memory, now, rules)
        decisions = SHEDDER.shed(now, memory, rules)
    return memory, decisions


def percent(*values: float, bundles_each: int = 8) -> ClusterView:
    usages = {f"b{n}": value / 100 for n, value in enumerate(values, start=1)}
    return even_cluster(usages, bundles_each)


def pairs(decisions: tuple[Decision, ...]) -> set[tuple[str, str]]:
    """Who gives to whom; what comes back in a swap is left out."""
    return {
        (each.source, each.destination)
        for each in decisions
        if isinstance(each, Transfer) and "in exchange" not in each.detail
    }


@pytest.mark.parametrize(
    ("usages", "expected"),
    [
        # The blind spots of ThresholdShedder.
        ((50, 50, 50, 50, 50, 0), {("b5", "b6")}),
        ((12, 2, 1, 1), {("b1", "b3")}),
        # Deviation 40 points.
        ((90, 10), {("b1", "b2")}),
        # Deviation 25 points is tolerated, and 10 % is more than an eighth of the mean.
        ((60, 10), set()),
        ((30, 30, 30), set()),
        ((0, 0), set()),
        # Overloaded: above 85 %, and 25 points above the mean of 60.
        ((90, 50, 50, 50), {("b1", "b2")}),
        ((84, 50, 50, 50), set()),
        ((90, 70, 70, 70), set()),
    ],
)
def test_the_fullest_give_to_the_emptiest(
    usages: tuple[float, ...], expected: set[tuple[str, str]]
) -> None:
    assert pairs(watched(percent(*usages))[1]) == expected


def test_three_uneven_cycles_do_not_count() -> None:
    view = percent(90, 10)
    for cycles in (1, 2, 3):
        memory, decisions = watched(view, cycles)
        assert memory.hits == cycles
        assert [skip.reason for skip in skips(decisions)] == [Reason.HIT_COUNT]
    assert skips(decisions)[0].detail == (
        "usage deviates by 40.0% from its mean of 50.0%, 25.0% are tolerated: 3 cycles, until "
        "more than 3 (loadBalancerSheddingConditionHitCountThreshold)"
    )
    memory, decisions = watched(view, 4)
    assert moved(decisions)
    assert (memory.hits, memory.is_due) == (0, True)
    assert not moved(watched(view, 5)[1])


def test_an_even_cycle_starts_the_count_again() -> None:
    memory = watched(percent(90, 10), 3)[0]
    even = replace(percent(50, 50), taken_at_s=NOW_S + 3600)
    memory = SHEDDER.observe(memory, even, RULES)
    assert memory.hits == 0
    assert skips(SHEDDER.shed(even, memory, RULES))[0].reason is Reason.BELOW_THRESHOLD


def test_hits_without_a_result_are_not_spent() -> None:
    lines = {A: stats(900)}
    memory, decisions = watched(cluster([broker("b1", 0.9, lines), broker("b2", 0.1)]), 6)
    assert memory.hits == 6
    assert [skip.reason for skip in skips(decisions)] == [Reason.SOLE_BUNDLE]


def test_a_minute_counts_for_as_much_as_twelve_reports() -> None:
    memory = SHEDDER.observe(SHEDDER.recall(None), percent(90, 10), RULES)
    later = replace(percent(50, 50), taken_at_s=NOW_S + CYCLE_S)
    memory = SHEDDER.observe(memory, later, RULES)
    assert memory.history == pytest.approx({"b1": 0.5 + 0.4 * 0.9**12, "b2": 0.5 - 0.4 * 0.9**12})
    # A clock that went back folds nothing, and breaks nothing.
    before = replace(percent(0, 0), taken_at_s=NOW_S)
    assert SHEDDER.observe(memory, before, RULES).history == memory.history


def test_after_an_unload_the_cluster_is_left_in_peace() -> None:
    lines = {bundle: stats(100) for bundle in BUNDLES[:9]}
    reports = [broker("b1", 0.9, lines), broker("b2", 0.1, {BUNDLES[9]: stats(100)})]
    view = cluster(reports, unloaded_s={BUNDLES[9]: NOW_S - 179})
    memory = SHEDDER.observe(TransferMemory(hits=7), view, RULES)
    assert memory.hits == 7
    (skip,) = SHEDDER.shed(view, memory, RULES)
    assert skip.sentence == (
        "skip cluster: cooling down: a bundle was unloaded 179 s ago, reports settle within 180 s "
        "(loadBalanceSheddingDelayInSeconds), for 1 min more"
    )
    later = cluster(reports, unloaded_s={BUNDLES[9]: NOW_S - 180})
    assert moved(SHEDDER.shed(later, SHEDDER.observe(memory, later, RULES), RULES))


def test_while_an_owner_has_not_reported_nothing_is_judged() -> None:
    lines = {bundle: stats(100) for bundle in BUNDLES[:9]}
    reports = [broker("b1", 0.9, lines), broker("b2", 0.0)]
    (skip,) = watched(cluster(reports, owners={BUNDLES[10]: "b9"}))[1]
    assert (skip.reason, skip.detail) == (
        Reason.NO_LOAD_DATA,
        "until 1 owners have reported, b9 among them",
    )


def test_no_more_brokers_give_than_a_cycle_may_take() -> None:
    view = percent(90, 90, 90, 90, 5, 5, 5, 5)
    found = pairs(watched(view)[1])
    assert len(found) == len({destination for _, destination in found}) == 3
    assert len(pairs(watched(view, rules=transfer_rules(max_brokers=1))[1])) == 1


def test_transfers_stop_as_soon_as_usage_is_even() -> None:
    # After 90 and 0 have become 45 each, 60 and 40 are even enough.
    assert pairs(watched(percent(90, 60, 40, 0))[1]) == {("b1", "b4")}


@pytest.mark.parametrize(
    ("usage", "traffic", "reason"),
    [
        # An eighth of the mean of 34 % are 4 %, an eighth of 80 MiB/s are 10.
        ((0.5, 0.5, 0.03), (80, 80, 80), Reason.UNDERLOADED_RECEIVER),
        ((0.5, 0.4, 0.3), (80, 80, 9), Reason.UNDERLOADED_RECEIVER),
        ((0.5, 0.4, 0.3), (80, 80, 10), None),
        # Above 85 %, but not 25 points above the mean; 25 points above it, but not above 85 %.
        ((0.9, 0.7, 0.7), (80, 80, 80), None),
        ((0.8, 0.4, 0.4), (80, 80, 80), None),
        ((0.9, 0.5, 0.5), (80, 80, 80), Reason.OVERLOADED),
    ],
)
def test_a_transfer_has_the_reason_that_triggers_it(
    usage: tuple[float, ...], traffic: tuple[float, ...], reason: Reason | None
) -> None:
    names = ("hot", "warm", "cool")
    spread = Spread(dict(zip(names, usage, strict=True)), dict(zip(names, traffic, strict=True)))
    trigger = spread.trigger("hot", "cool", RULES)
    assert (trigger and trigger[0]) == reason


def lines_of(*mib: float, start: int = 0) -> dict[Bundle, BundleStats]:
    return {bundle: stats(size) for bundle, size in zip(BUNDLES[start:], mib, strict=False)}


def two(hot: dict[Bundle, BundleStats], cool: dict[Bundle, BundleStats]) -> ClusterView:
    """A thousand MiB/s are a full broker."""

    def usage(lines: dict[Bundle, BundleStats]) -> float:
        return sum(line.throughput for line in lines.values()) / MIB / 1000

    return cluster([broker("b1", usage(hot), hot), broker("b2", usage(cool), cool)])


def test_the_lightest_of_the_heaviest_go_until_half_the_difference_has_gone() -> None:
    # 90 % and 10 %: 400 MiB/s should go; 50, 60, 100 and 150 do, 240 more would be too much.
    view = two(lines_of(50, 60, 100, 150, 240, 300), lines_of(100, start=8))
    decisions = watched(view)[1]
    assert [each.bundle for each in moved(decisions)] == [A, B, C, D]
    assert all(isinstance(each, Transfer) and each.destination == "b2" for each in decisions)


def test_only_the_heaviest_few_are_looked_at() -> None:
    view = two(lines_of(50, 60, 100, 150, 240, 300), lines_of(100, start=8))
    decisions = watched(view, rules=transfer_rules(top_bundles=3))[1]
    assert [each.bundle for each in moved(decisions)] == [D, E]
    few = watched(view, rules=transfer_rules(top_bundles=1))[1]
    assert [skip.reason for skip in skips(few)] == [Reason.SOLE_BUNDLE]
    assert len(moved(watched(view, rules=transfer_rules(top_bundles=0))[1])) == 4


def test_a_broker_keeps_one_of_them() -> None:
    # 400 MiB/s should go, and both of the two that are looked at would fit.
    view = two(lines_of(*[90] * 10), lines_of(100, start=10))
    rules = transfer_rules(top_bundles=2)
    assert len(moved(watched(view, rules=rules)[1])) == 1


def test_a_bundle_that_is_too_much_by_itself_is_swapped() -> None:
    # 60 % and 10 %, and 250 MiB/s should go: 300 do, 50 come back, and both have 350.
    view = two(lines_of(300, 300), lines_of(50, 50, start=8))
    rules = transfer_rules(target_std=0.2)
    decisions = watched(view, rules=rules)[1]
    assert [(each.bundle, each.source) for each in moved(decisions)] == [
        (A, "b1"),
        (BUNDLES[8], "b2"),
    ]
    assert decisions[1].sentence.endswith("in exchange for what b1 gives")


def test_bundles_that_come_back_are_subtracted_from_those_that_went() -> None:
    view = two(lines_of(300, 300), lines_of(50, 50, start=8))
    hot, cool = view.brokers["b1"], view.brokers["b2"]
    found = exchange(view, hot, cool, RULES, wanted_bytes=250 * MIB, detail="x")
    assert found.net_bytes == pytest.approx(250 * MIB)
    assert found.net_usage == pytest.approx(0.25)


def test_a_bundle_comes_back_once_in_a_cycle() -> None:
    # 450 MiB/s should go: four of 100, and a fifth for five of 10; another five would not do.
    view = percent(100, 10, bundles_each=10)
    moves = moved(watched(view)[1])
    assert [each.source for each in moves] == ["b1"] * 5 + ["b2"] * 5
    assert len({each.bundle for each in moves}) == 10


def test_a_swap_that_gains_too_little_is_left() -> None:
    # 240 back for 300 would leave 76 % of the hot broker's load.
    view = two(lines_of(300, 300, 300), lines_of(240, 240, start=8))
    found = exchange(
        view, view.brokers["b1"], view.brokers["b2"], RULES, wanted_bytes=210 * MIB, detail="x"
    )
    assert found.given == ()
    assert found.skipped[0].reason is Reason.TOO_LARGE


def test_a_swap_asks_nothing_of_bundles_that_must_stay() -> None:
    hot, cool = lines_of(300, 300), lines_of(50, 50, start=8)
    reports = [broker("b1", 0.6, hot), broker("b2", 0.1, cool)]
    view = cluster(reports, splitting=[BUNDLES[8]], unloaded_s={BUNDLES[9]: NOW_S - 200})
    found = exchange(
        view, view.brokers["b1"], view.brokers["b2"], RULES, wanted_bytes=250 * MIB, detail="x"
    )
    assert (found.given, found.returned) == ((), ())


def test_without_transfers_the_placement_chooses_and_nothing_is_swapped() -> None:
    rules = transfer_rules(is_transfer_enabled=False)
    view = two(lines_of(50, 60, 100, 150, 240, 300), lines_of(100, start=8))
    decisions = watched(view, rules=rules)[1]
    assert [each.bundle for each in decisions if isinstance(each, Unload)] == [A, B, C, D]
    assert len(decisions) == 4
    swap = two(lines_of(300, 300), lines_of(50, 50, start=8))
    rules = replace(rules, transfer=replace(rules.transfer, target_std=0.2))
    assert not moved(watched(swap, rules=rules)[1])


@pytest.mark.parametrize(
    "constraints",
    [
        Constraints(group_of={NAMESPACE: "group"}),
        Constraints(isolation=(IsolationPolicy("p", ("tenant/.*",), ("b.*",)),)),
    ],
)
def test_bundles_under_policies_stay_unless_allowed(constraints: Constraints) -> None:
    view = replace(percent(90, 10), constraints=constraints)
    (skip,) = watched(view)[1]
    assert (skip.reason, skip.detail.partition(";")[0]) == (
        Reason.EXCLUDED,
        "policies say where its 8 bundles with traffic may live",
    )
    assert moved(watched(view, rules=transfer_rules(is_constrained_moved=True))[1])


def test_a_broker_without_traffic_has_nothing_to_give() -> None:
    lines = {A: stats(0), B: stats(0)}
    (skip,) = watched(cluster([broker("b1", 0.9, lines), broker("b2", 0.1)]))[1]
    assert skip.reason is Reason.LOW_THROUGHPUT


def test_the_memory_survives_a_row_of_json() -> None:
    for cycles in (0, 2, 4):
        memory = watched(percent(90, 10), cycles)[0]
        assert SHEDDER.recall(json.loads(json.dumps(memory.to_row()))) == memory


def test_its_figures_are_pulsars() -> None:
    rules = TransferRules()
    assert (rules.target_std, rules.hits, rules.max_brokers) == (0.25, 3, 3)
    assert (rules.delay_s, rules.top_bundles) == (180, 10)


def test_in_a_closed_loop_usage_evens_out_and_nothing_moves_any_more() -> None:
    start = {"b1": [50.0] * 18, "b2": [50.0] * 16, "b3": [50.0] * 2, "b4": []}
    world = World.of(SHEDDER, start, transfer_rules(target_std=0.1))
    before = world.imbalance
    counts = [len(world.cycle()) for _ in range(60)]
    assert counts[:3] == [0, 0, 0]
    assert counts[3] > 0
    # For three minutes after each unload, and for as many hits, there is no other.
    rounds = [number for number, count in enumerate(counts) if count]
    assert all(later - sooner >= 4 for sooner, later in pairwise(rounds))
    assert counts[-40:] == [0] * 40
    assert world.imbalance < before * 0.7
    assert skips(world.decisions)[0].reason is Reason.BELOW_THRESHOLD
