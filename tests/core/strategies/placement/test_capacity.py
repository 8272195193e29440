"""Limits of brokers: no move brings a broker beyond them."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.cluster.decisions import Assign, Decision, Reason, Transfer, Unload
from broker_ctl.core.cluster.view import BrokerView, ClusterView
from broker_ctl.core.planning.plan import Plan, plan
from broker_ctl.core.rules.leader_rules import Budgets, PlacementRules
from broker_ctl.core.rules.limits import BrokerLimits
from broker_ctl.core.strategies.placement.pipeline import (
    alternative_receivers,
    filter_brokers,
    place,
)
from broker_ctl.core.strategies.placement.strategies import BalancePlacement
from tests.support.clusters.views import BUNDLES, broker, cluster, stats

A, B, C, D = BUNDLES[:4]
WIDE = Budgets(max_moves_per_broker=99, max_moves=99, namespace_ratio=1.0, hourly_load_ratio=99.0)


def rules(table: str) -> PlacementRules:
    return PlacementRules(limits=BrokerLimits.parse(table))


def planned(view: ClusterView, proposals: list[Decision], table: str) -> Plan:
    return plan(
        view,
        proposals,
        placement=BalancePlacement(),
        placement_rules=rules(table),
        budgets=WIDE,
    )


def three() -> ClusterView:
    """b1 is full; 30 topics each at b1 and b2, 10 at b3."""
    return cluster(
        [
            broker("b1", 0.9, {A: stats(10), B: stats(10), C: stats(10)}),
            broker("b2", 0.1, {D: stats(1, topics=30)}),
            broker("b3", 0.2, {BUNDLES[4]: stats(1, topics=10)}),
        ]
    )


def test_a_broker_at_its_limit_receives_nothing() -> None:
    view = three()
    found = alternative_receivers(view, A, "b1", rules("b2 topics=39"))
    assert found.feasible == ("b3",)
    assert found.rejected["b2"].reason is Reason.CAPACITY
    assert found.rejected["b2"].words == "would have 40 topics, its limit is 39 topics"
    assert alternative_receivers(view, A, "b1", rules("b2 topics=40")).feasible == ("b2", "b3")


def test_what_a_report_only_sums_up_counts() -> None:
    view = three()
    full = view.brokers["b3"]
    load = replace(full.load, unlisted=stats(0, topics=100), unlisted_bundles=5)
    view = replace(view, brokers={**view.brokers, "b3": replace(full, load=load)})
    assert alternative_receivers(view, A, "b1", rules(".* topics=60")).feasible == ("b2",)


def test_each_move_counts_against_the_limits_of_the_next_one() -> None:
    moves: list[Decision] = [Unload(each, "b1", Reason.IMBALANCE, "") for each in (A, B, C)]
    found = planned(three(), moves, "b2 topics=40; b3 topics=20")
    assert sorted(each.bundle for each in found.decisions if isinstance(each, Transfer)) == [A, B]
    assert [skip.reason for skip in found.skipped] == [Reason.CAPACITY]


def test_a_drain_waits_at_the_limits() -> None:
    found = planned(three(), [Unload(A, "b1", Reason.DRAIN, "")], "b3 topics=15; .* topics=35")
    assert found.decisions == ()
    assert [skip.reason for skip in found.skipped] == [Reason.CAPACITY]


def test_what_nobody_serves_is_placed_even_if_all_are_at_their_limits() -> None:
    view = cluster([broker("b1", 0.5, {A: stats(1)}), broker("b2", 0.1)], owners={B: None})
    table = "b1 topics=9; b2 usage=5"
    choice = place(view, B, ["b1", "b2"], BalancePlacement(), rules(table))
    assert choice.broker_id == "b2"
    found = planned(view, [Assign(B, "b2", Reason.UNOWNED, "")], table)
    assert [type(each) for each in found.decisions] == [Assign]
    # While one has room, it is the one.
    assert filter_brokers(view, B, ["b1", "b2"], rules("b2 usage=5")).feasible == ("b1",)


def test_a_bundle_stays_possible_where_it_is() -> None:
    assert filter_brokers(three(), A, ["b1"], rules(".* topics=5")).feasible == ("b1",)


@st.composite
def limited(draw: st.DrawFn) -> tuple[ClusterView, str, list[Decision]]:
    """A view, a table of which some brokers are near or beyond their limits, and proposals."""
    dice = np.random.Generator(np.random.PCG64(draw(st.integers(0, 2**32))))
    count = draw(st.integers(2, 5))
    owners = dice.integers(0, count, len(BUNDLES)).tolist()
    lines = [stats(float(dice.choice([1, 5, 20])), int(dice.choice([1, 5, 20]))) for _ in BUNDLES]
    brokers: list[BrokerView] = []
    for number in range(count):
        held = {b: s for b, s, o in zip(BUNDLES, lines, owners, strict=True) if o == number}
        brokers.append(broker(f"b{number}", float(dice.random()), held))
    view = cluster(brokers)
    kinds = ["usage", "mbytes_in", "mbytes_out", "msg_rate", "topics", "sessions"]
    rows = [
        f"b{number} {dice.choice(kinds)}={int(dice.choice([1, 10, 40, 60, 100, 4000]))}"
        for number in range(count - 1)
    ]
    reasons = [Reason.IMBALANCE, Reason.DRAIN, Reason.ADMIN]
    proposals: list[Decision] = [
        Unload(each, f"b{owner}", reasons[int(dice.integers(3))], "")
        for each, owner in zip(BUNDLES, owners, strict=True)
        if dice.random() < 0.6
    ]
    return view, "; ".join(rows), proposals


@given(limited())
def test_no_plan_crosses_a_limit(drawn: tuple[ClusterView, str, list[Decision]]) -> None:
    view, table, proposals = drawn
    limits = BrokerLimits.parse(table)
    for decision in planned(view, proposals, table).decisions:
        assert isinstance(decision, Transfer)
        view = view.after(decision)
        receiver = view.brokers[decision.destination]
        assert limits.of(receiver.broker_id).excess(receiver.held) is None


def test_a_broker_without_unlisted_bundles_holds_what_is_expected() -> None:
    seen = three().brokers["b1"]
    assert seen.held == seen.expected
