"""Which neighbours are merged, and which are left as they are."""

from dataclasses import replace
from typing import Unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.cluster.decisions import Merge, Reason, Skip, Transfer
from broker_ctl.core.cluster.view import ClusterView, InFlight
from broker_ctl.core.model.counting import Streaks
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.core.planning.plan import plan
from broker_ctl.core.rules.leader_rules import MIB, Budgets, MergeRules, PlacementRules, SplitRules
from broker_ctl.core.strategies.merging import Pair, candidates, observe, split_again
from broker_ctl.core.strategies.placement.strategies import LeastLongTermMessageRate
from broker_ctl.core.strategies.splitting.candidates import candidates as split_candidates
from tests.support.clusters.views import BUNDLES, NAMESPACE, NOW_S, Facts, broker, cluster, stats

A, B, C, D = BUNDLES[:4]
# 16 bundles at once, and no round is let pass.
RULES = MergeRules(hit_count=0, max_per_cycle=16)
IDLE = BundleStats(topics=1)
Decided = Merge | Transfer | Skip


def two(left: BundleStats, right: BundleStats, **facts: Unpack[Facts]) -> ClusterView:
    return cluster([broker("b1", 0.5, {A: left, B: right}), broker("b2", 0.1)], **facts)


def decided(
    view: ClusterView, rules: MergeRules = RULES, hits: Streaks[Pair] | None = None
) -> tuple[Decided, ...]:
    return candidates(view, rules, hits or observe(Streaks(), view, rules))


def skipped(view: ClusterView, rules: MergeRules = RULES) -> Reason:
    (decision,) = decided(view, rules)
    assert isinstance(decision, Skip)
    return decision.reason


def test_two_cold_neighbours_of_one_owner_become_one() -> None:
    (decision,) = decided(two(stats(4, 10, 0), stats(2, 20, 0)))
    assert isinstance(decision, Merge)
    assert (decision.left, decision.right, decision.owner) == (A, B, "b1")
    assert decision.sentence == (
        f"merge {A} and {B.range} of b1: cold: together 6.0% of the nearest split limit"
    )


@pytest.mark.parametrize(
    "warm",
    [
        BundleStats(topics=100),
        BundleStats(topics=1, producers=50, consumers=50),
        BundleStats(1_500, 1_500, topics=1),
        BundleStats(0, 0, 5 * MIB, 5 * MIB, 1),
    ],
)
def test_a_bundle_with_a_tenth_of_any_limit_is_not_cold(warm: BundleStats) -> None:
    assert decided(two(warm, IDLE)) == decided(two(IDLE, warm)) == ()


@pytest.mark.parametrize("before", [stats(90, 1, 0), BundleStats(9_000, 9_000, topics=1)])
def test_a_lull_does_not_make_a_bundle_cold(before: BundleStats) -> None:
    quiet = two(IDLE, IDLE)
    busy = quiet.bundles[A].load.fold(before)
    view = replace(quiet, bundles={**quiet.bundles, A: replace(quiet.bundles[A], load=busy)})
    assert decided(view) == ()


def test_without_any_limit_nothing_is_cold() -> None:
    unlimited = SplitRules(max_topics=0, max_sessions=0, max_msg_rate=0, max_bandwidth_bytes=0)
    assert decided(two(IDLE, IDLE), replace(RULES, limits=unlimited)) == ()


def test_unreported_and_unowned_bundles_are_not_judged() -> None:
    assert decided(two(IDLE, IDLE, owners={A: "b2"})) == ()
    assert decided(two(IDLE, IDLE, owners={B: None})) == ()
    assert decided(cluster([broker("b1", 0.1, {A: IDLE, C: IDLE})])) == ()


# Rounds.


def test_both_must_be_cold_in_enough_rounds_in_a_row() -> None:
    cold, warm, rules = two(IDLE, IDLE), two(IDLE, stats(90)), replace(RULES, hit_count=2)
    hits: Streaks[Pair] = Streaks()
    for view in (cold, cold, warm, cold, cold):
        hits = observe(hits, view, rules)
        assert not any(isinstance(each, Merge) for each in decided(view, rules, hits))
    (skip,) = decided(cold, rules, hits)
    assert isinstance(skip, Skip)
    assert (skip.subject, skip.reason) == (str(NAMESPACE), Reason.HIT_COUNT)
    assert skip.detail.endswith(
        "cold in 2 rounds in a row, until 3 (loadBalancerBundleMergeConditionHitCountThreshold)"
    )
    (merge,) = decided(cold, rules, observe(hits, cold, rules))
    assert isinstance(merge, Merge)


def test_a_round_in_which_one_is_not_reported_does_not_count_at_all() -> None:
    cold, moved = two(IDLE, IDLE), two(IDLE, IDLE, owners={A: "b2"})
    hits = observe(observe(Streaks(), cold, RULES), moved, RULES)
    assert hits.of((A, B)) == 1
    assert observe(hits, cold, RULES).of((A, B)) == 2


# What stands against it.


def test_moving_young_and_pinned_bundles_stay() -> None:
    assert skipped(two(IDLE, IDLE, moves=[InFlight(A, "b1", "b1")])) is Reason.MOVING
    assert skipped(two(IDLE, IDLE, splitting=[B])) is Reason.MOVING
    assert skipped(two(IDLE, IDLE, split_s={B: NOW_S - 3599})) is Reason.COOLING_DOWN
    assert isinstance(decided(two(IDLE, IDLE, split_s={B: NOW_S - 3600}))[0], Merge)
    ring = Ring.even(Namespace("pulsar", "b1:8080"), 8)
    view = cluster([broker("b1", 0.5, dict.fromkeys(ring.bundles[:2], IDLE))], rings=[ring])
    assert skipped(view) is Reason.PINNED


def test_bundles_that_would_soon_be_split_again_are_not_merged() -> None:
    rules = replace(RULES, cold_ratio=0.5, merged_ratio=0.5)
    assert skipped(two(stats(30, 1, 0), stats(20, 1, 0)), rules) is Reason.MERGED_TOO_LARGE
    assert isinstance(decided(two(stats(30, 1, 0), stats(19, 1, 0)), rules)[0], Merge)


def test_a_namespace_keeps_its_least_number_of_bundles() -> None:
    view = cluster([broker("b1", 0.5, dict.fromkeys(BUNDLES, IDLE))])
    decisions = decided(view, replace(RULES, min_bundles=14))
    assert [type(each) for each in decisions] == [Merge, Merge, Skip]
    assert decisions[-1].reason is Reason.MIN_BUNDLES
    assert decisions[-1].detail.endswith(
        "14 bundles, the fewest (loadBalancerNamespaceMinimumBundles), until there are more, "
        "and 10 more cold pairs"
    )


def test_a_cycle_merges_the_coldest_first_up_to_its_limit() -> None:
    lines = {bundle: stats(number / 2, 1, 0) for number, bundle in enumerate(reversed(BUNDLES))}
    decisions = decided(cluster([broker("b1", 0.5, lines)]), replace(RULES, max_per_cycle=2))
    merges = [each.bundles for each in decisions if isinstance(each, Merge)]
    assert merges == [BUNDLES[14:16], BUNDLES[12:14]]
    assert decisions[-1].reason is Reason.CYCLE_LIMIT


# Two owners.


def apart(left_usage: float, right_usage: float, *, is_draining: bool = False) -> ClusterView:
    return cluster(
        [
            broker("b1", left_usage, {A: IDLE, C: stats(500)}),
            broker("b2", right_usage, {B: IDLE, D: stats(400)}, is_draining=is_draining),
            broker("b3", 0.0),
        ]
    )


@pytest.mark.parametrize(
    ("usages", "moved", "to"),
    [((0.5, 0.4), A, "b2"), ((0.4, 0.5), B, "b1"), ((0.4, 0.4), A, "b2")],
)
def test_of_two_owners_the_busier_one_gives(
    usages: tuple[float, float], moved: Bundle, to: str
) -> None:
    (decision,) = decided(apart(*usages))
    assert isinstance(decision, Transfer)
    assert (decision.bundle, decision.destination, decision.reason) == (moved, to, Reason.COLD)


def test_the_move_is_planned_although_it_carries_no_load() -> None:
    view = apart(0.5, 0.4)
    done = plan(
        view,
        decided(view),
        placement=LeastLongTermMessageRate(),
        placement_rules=PlacementRules(),
        budgets=Budgets(),
    )
    assert [type(each) for each in done.decisions] == [Transfer]


def test_nothing_goes_to_a_broker_on_its_way_down() -> None:
    (decision,) = decided(apart(0.5, 0.1, is_draining=True))
    assert isinstance(decision, Transfer)
    assert decision.destination == "b1"
    both = cluster(
        [
            broker("b1", 0.1, {A: IDLE}, is_draining=True),
            broker("b2", 0.1, {B: IDLE}, is_draining=True),
        ]
    )
    assert skipped(both) is Reason.NO_BROKER


# Rules that hold for all.

lines = st.builds(stats, st.floats(0, 30), st.integers(0, 200), st.floats(0, 5_000))


@given(
    st.lists(st.tuples(lines, st.sampled_from(["b1", "b2", "b3"])), min_size=16, max_size=16),
    st.floats(0.01, 0.5),
    st.integers(1, 16),
)
def test_a_plan_of_merges_is_legal_and_calls_for_no_split(
    loads: list[tuple[BundleStats, str]], cold_ratio: float, min_bundles: int
) -> None:
    rules = replace(RULES, cold_ratio=cold_ratio, min_bundles=min_bundles)
    reports = [
        broker(
            name,
            usage,
            {b: line for b, (line, owner) in zip(BUNDLES, loads, strict=True) if owner == name},
        )
        for name, usage in (("b1", 0.5), ("b2", 0.4), ("b3", 0.3))
    ]
    view = cluster(reports)
    proposals = decided(view, rules)
    done = plan(
        view,
        proposals,
        placement=LeastLongTermMessageRate(),
        placement_rules=PlacementRules(),
        budgets=Budgets(),
    )
    merges = [each for each in done.decisions if isinstance(each, Merge)]
    assert [each for each in proposals if isinstance(each, Merge)] == sorted(
        merges, key=proposals.index
    )
    after = view
    for merge in merges:
        after = after.after(merge)
    assert len(after.rings[NAMESPACE].bundles) >= min(min_bundles, 16)
    reported = {
        merge.left.joined(merge.right): sum(
            (one for part in merge.bundles if (one := view.bundles[part].current)), BundleStats()
        )
        for merge in merges
    }
    judged = cluster([broker("b1", 0.5, reported)], rings=[after.rings[NAMESPACE]])
    assert split_candidates(judged, rules.limits) == ()


def test_namespaces_are_judged_one_by_one_and_the_coldest_pair_of_all_comes_first() -> None:
    rings = [Ring.even(Namespace("tenant", f"n{number}"), 8) for number in range(3)]
    lines = {
        bundle: stats(1 + (number + 2 * index) % 3, 1, 0)
        for number, ring in enumerate(rings)
        for index, bundle in enumerate(ring.bundles)
    }
    view = cluster([broker("b1", 0.5, lines)], rings=rings)
    hits = observe(Streaks(), view, RULES)
    found = [one for one in candidates(view, RULES, hits) if isinstance(one, Merge)]
    together = [lines[one.left].throughput + lines[one.right].throughput for one in found]
    assert len(found) >= 3
    assert together == sorted(together)


def test_a_bundle_with_a_large_share_of_a_broker_is_not_cold_however_few_its_bytes() -> None:
    """A small cluster: 4 MiB/s are 2 % of a broker, of 5 % that one bundle may have."""
    view = cluster([broker("b1", 0.5, {A: stats(4), B: stats(4), C: stats(92)}), broker("b2", 0.5)])
    assert len(decided(view)) == 1
    shared = replace(RULES, limits=SplitRules(max_share_ratio=0.1))
    assert decided(view, shared) == ()
    # 0.4 of a limit each; together they are nearly as much as would be split again.
    warm = replace(shared, cold_ratio=0.5)
    (skip,) = decided(view, warm)
    assert (skip.reason, "together 80.0% of" in skip.detail) == (Reason.MERGED_TOO_LARGE, True)


def test_a_merge_that_a_split_would_undo_names_the_limit() -> None:
    key = "loadBalancerNamespaceBundleMaxBandwidthMbytes"
    said = f"the leader would split it again: together they have 120% of {key}"
    assert split_again(two(stats(60), stats(60)), SplitRules(), A, B) == said
    merged = cluster([broker("b1", 0.5, {A: stats(120)}), broker("b2", 0.1)])
    (split,) = split_candidates(merged, SplitRules())
    assert key in split.detail
    assert split_again(two(stats(40), stats(40)), SplitRules(), A, B) == ""
    assert split_again(cluster([broker("b1", 0.5)]), SplitRules(), A, B) == ""
