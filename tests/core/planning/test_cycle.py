"""What a cycle decides, and what is remembered from one to the next."""

from dataclasses import replace

import pytest

from broker_ctl.core.cluster.decisions import Merge, Reason, Split, Transfer
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.planning.decide import CycleMemory, CycleRules, decide, is_cut_short
from broker_ctl.core.rules.leader_rules import MIB, Budgets, MergeRules, SplitRules
from broker_ctl.core.rules.limits import QuietHours
from broker_ctl.core.strategies.placement.strategies import LeastLongTermMessageRate
from broker_ctl.core.strategies.shedding.threshold import ThresholdShedder
from broker_ctl.core.strategies.splitting.candidates import unload_new_bundles
from tests.support.clusters.views import BUNDLES, broker, cluster, even_cluster, stats

SPLITTING = SplitRules(max_bandwidth_bytes=100 * MIB, hit_count=1)
MERGING = MergeRules(min_bundles=2)
RULES = CycleRules(
    LeastLongTermMessageRate(),
    ThresholdShedder(),
    splitting=SPLITTING,
    budgets=Budgets(max_moves_per_broker=9, max_moves=9, namespace_ratio=1.0),
)


def uneven() -> ClusterView:
    return even_cluster({"a": 0.9, "b": 0.1, "c": 0.1}, bundles_each=6)


def with_one_hot() -> tuple[Bundle, ClusterView]:
    hot, *cold = BUNDLES[:4]
    lines = {hot: stats(200.0), **{bundle: stats(1.0) for bundle in cold}}
    return hot, cluster([broker("a", 0.3, lines), broker("b", 0.3)])


def test_splits_come_before_moves_and_both_are_remembered() -> None:
    remembered, plan = decide(CycleMemory(), uneven(), RULES)
    assert {type(decision) for decision in plan.decisions} == {Transfer}
    assert remembered.memory.history == pytest.approx({"a": 0.9, "b": 0.1, "c": 0.1})
    assert remembered.hot.counts != {}


def test_a_bundle_is_split_when_it_was_hot_for_long_enough() -> None:
    hot, view = with_one_hot()
    remembered, first = decide(CycleMemory(), view, RULES)
    _, second = decide(remembered, view, RULES)
    assert first.decisions == ()
    assert [(type(each), each.bundles) for each in second.decisions] == [(Split, (hot,))]


def test_in_quiet_hours_that_hold_splits_what_is_hot_waits_for_their_end() -> None:
    hot, view = with_one_hot()
    remembered, _ = decide(CycleMemory(), view, RULES)
    now = view.taken_at_ms // 60_000 % 1440
    begins, ends = ((now + by) % 1440 for by in (-10, 10))
    held = replace(RULES, whole_hours=QuietHours(((begins, ends),)))
    after, plan = decide(remembered, view, held)
    assert plan.decisions == ()
    (skip,) = [skip for skip in plan.skipped if skip.reason is Reason.QUIET_HOURS]
    assert skip.subject == str(hot)
    assert "UTC is quiet" in skip.detail
    # It was remembered meanwhile, and is due at once.
    later = replace(RULES, whole_hours=QuietHours(((ends, (ends + 1) % 1440),)))
    _, then = decide(after, view, later)
    assert [each.bundles for each in then.decisions] == [(hot,)]


def test_in_quiet_hours_that_hold_splits_nothing_is_merged() -> None:
    lines = {bundle: stats(0.001) for bundle in BUNDLES[:2]}
    view = cluster([broker("a", 0.3, lines), broker("b", 0.3)])
    merging = replace(RULES, splitting=None, merging=MergeRules(min_bundles=1, hit_count=0))
    now = view.taken_at_ms // 60_000 % 1440
    hours = QuietHours((((now - 10) % 1440, (now + 10) % 1440),))
    _, free = decide(CycleMemory(), view, merging)
    assert [type(each) for each in free.decisions] == [Merge]
    _, plan = decide(CycleMemory(), view, replace(merging, whole_hours=hours))
    assert plan.decisions == ()


def test_a_policy_that_is_not_due_keeps_its_memory() -> None:
    _, view = with_one_hot()
    remembered, _ = decide(CycleMemory(), view, RULES)
    after, _ = decide(remembered, view, RULES, is_shed_due=False, is_split_due=False)
    assert after == remembered
    shed, _ = decide(remembered, view, RULES, is_split_due=False)
    assert (shed.hot, shed.policy) == (remembered.hot, RULES.shedding)


def test_another_strategy_begins_with_nothing() -> None:
    remembered, _ = decide(CycleMemory(), uneven(), RULES)
    other = replace(RULES, shedding=ThresholdShedder())
    calm = even_cluster({"a": 0.5, "b": 0.5, "c": 0.5})
    same, _ = decide(remembered, calm, RULES)
    new, _ = decide(remembered, calm, other)
    assert same.memory.history["a"] == pytest.approx(0.9 * 0.9 + 0.1 * 0.5)
    assert new.memory.history["a"] == pytest.approx(0.5)


def test_hits_are_forgotten_while_nothing_is_split_or_merged() -> None:
    _, view = with_one_hot()
    rules = replace(RULES, merging=MERGING)
    remembered, _ = decide(CycleMemory(), view, rules)
    assert remembered.hot.counts
    assert remembered.cold.counts
    assert rules.is_reshaping
    off = replace(rules, splitting=None, merging=None)
    after, _ = decide(remembered, view, off)
    assert (after.hot.counts, after.cold.counts) == ({}, {})
    assert not off.is_reshaping


def test_a_plan_is_cut_short_by_what_is_in_flight_and_by_nothing_else() -> None:
    view = uneven()
    _, free = decide(CycleMemory(), view, RULES)
    assert len(free.decisions) > 1
    assert not is_cut_short(free)
    for tight in (
        replace(RULES.budgets, max_moves=1),
        replace(RULES.budgets, max_moves_per_broker=1),
    ):
        _, cut = decide(CycleMemory(), view, replace(RULES, budgets=tight))
        assert len(cut.decisions) == 1
        assert is_cut_short(cut)
    _, hourly = decide(
        CycleMemory(), view, replace(RULES, budgets=replace(RULES.budgets, hourly_load_ratio=0.1))
    )
    assert len(hourly.decisions) == 1
    assert not is_cut_short(hourly)


def test_parts_that_have_an_owner_are_proposed_for_a_move() -> None:
    owned, free, unknown = BUNDLES[:3]
    view = cluster([broker("a", 0.3, {owned: stats(1.0)})], owners={free: None})
    (proposal,) = unload_new_bundles(view, [unknown, free, owned])
    assert (proposal.bundle, proposal.source, proposal.reason) == (owned, "a", Reason.NEW_PART)
