"""Drains of brokers: what is proposed, what is planned, and how far the drain is."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.cluster.decisions import Reason, Skip, Transfer
from broker_ctl.core.cluster.directives import (
    AuditInfo,
    Drain,
    DrainState,
    drain_progress,
    drain_proposals,
    end_of_drain,
    waits_its_turn,
)
from broker_ctl.core.cluster.view import ClusterView, InFlight
from broker_ctl.core.model.broker import Constraints
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.core.planning.plan import Plan, plan
from broker_ctl.core.rules.leader_rules import Budgets, PlacementRules
from broker_ctl.core.strategies.placement.pipeline import alternative_receivers
from broker_ctl.core.strategies.placement.strategies import LeastLongTermMessageRate
from tests.support.clusters.views import BUNDLES, RING, broker, cluster, stats

A, B, C, D = BUNDLES[:4]
MINUTE_MS = 60_000
HEARTBEAT = Namespace("pulsar", "b1:8080")


def draining() -> ClusterView:
    """A full broker, and an idle one that is to be emptied."""
    reports = [
        broker("b1", 0.07, {A: stats(10), B: stats(40), C: stats(20)}, is_draining=True),
        broker("b2", 0.9, {D: stats(900)}),
    ]
    return cluster(reports)


def planned(view: ClusterView, budgets: Budgets) -> Plan:
    return plan(
        view,
        drain_proposals(view, {"b1"}),
        placement=LeastLongTermMessageRate(),
        placement_rules=PlacementRules(),
        budgets=budgets,
    )


def test_everything_of_a_drained_broker_is_proposed_the_heaviest_first() -> None:
    proposals = drain_proposals(draining(), {"b1"})
    assert [each.bundle for each in proposals] == [B, C, A]
    assert {each.reason for each in proposals} == {Reason.DRAIN}
    assert drain_proposals(draining(), set()) == ()
    assert drain_proposals(draining(), {"b9"}) == ()


def test_bundles_under_way_or_pinned_are_not_proposed() -> None:
    home = Ring.even(HEARTBEAT, 1)
    (own,) = home.bundles
    reports = [
        broker("b1", 0.1, {A: stats(10), B: stats(40), C: stats(20), own: stats(1)}),
        broker("b2", 0.9, {D: stats(900)}),
    ]
    moving, splitting = [InFlight(B, "b1", "b2"), InFlight(D, "b2", "b1")], [C]
    view = cluster(reports, rings=[RING, home], moves=moving, splitting=splitting)
    assert view.bundles[own].is_pinned
    assert [each.bundle for each in drain_proposals(view, {"b1"})] == [A]


def test_a_drain_goes_uphill_and_only_its_turn_is_waited_for() -> None:
    result = planned(draining(), Budgets(max_moves_per_broker=2, hourly_load_ratio=0.0))
    moves = [each for each in result.decisions if isinstance(each, Transfer)]
    assert [(move.bundle, move.destination) for move in moves] == [(B, "b2"), (C, "b2")]
    (skip,) = result.skipped
    assert (skip.subject, skip.reason) == (str(A), Reason.BUDGET_BROKER)
    assert waits_its_turn(skip)


def test_a_drain_that_nobody_can_receive_says_so_and_does_not_wait() -> None:
    alone = cluster([broker("b1", 0.1, {A: stats(10)}, is_draining=True)])
    (skip,) = planned(alone, Budgets()).skipped
    assert skip.reason is Reason.NO_BROKER
    assert not waits_its_turn(skip)
    assert not waits_its_turn(Skip("x", Reason.COOLING_DOWN, ""))


def test_a_drain_moves_also_what_would_have_stayed_for_its_group() -> None:
    other = Ring.even(Namespace("tenant", "other"), 1)
    reports = [
        broker("b1", 0.5, {A: stats(500)}, is_draining=True),
        broker("b2", 0.1, {other.bundles[0]: stats(10)}),
    ]
    groups = Constraints(group_of={RING.namespace: "g", other.namespace: "g"})
    view = replace(cluster(reports, rings=[RING, other]), constraints=groups)
    assert alternative_receivers(view, A, "b1", PlacementRules()).reason is Reason.ANTI_AFFINITY
    (move,) = planned(view, Budgets()).decisions
    assert isinstance(move, Transfer)
    assert move.destination == "b2"


DRAIN = Drain(AuditInfo(0), 10, 1e9)


def test_progress_is_what_is_left_of_what_there_was() -> None:
    seen = drain_progress(
        DRAIN, is_present=True, bundles=4, throughput_bytes=3e8, now_ms=2 * MINUTE_MS
    )
    assert (seen.state, seen.bundles_left, seen.ratio) == (DrainState.DRAINING, 4, 0.6)
    assert seen.moves_per_minute == pytest.approx(3.0)
    assert seen.eta_s == pytest.approx(80.0)


@pytest.mark.parametrize(
    ("is_present", "state"), [(True, DrainState.DRAINED), (False, DrainState.ABSENT)]
)
def test_a_drain_is_over_when_nothing_is_left(is_present: bool, state: DrainState) -> None:
    seen = drain_progress(
        DRAIN, is_present=is_present, bundles=0, throughput_bytes=0.0, now_ms=MINUTE_MS
    )
    assert (seen.state, seen.ratio, seen.eta_s) == (state, 1.0, 0.0)


@pytest.mark.parametrize(
    ("drain", "run", "why"),
    [
        (DRAIN, "second", ""),
        (replace(DRAIN, ends_ms=MINUTE_MS), "first", "its time is over"),
        (replace(DRAIN, ends_ms=MINUTE_MS + 1), "first", ""),
        (replace(DRAIN, ends_ms=1), "first", "its time is over"),
        (replace(DRAIN, ends_after="first"), "first", ""),
        (replace(DRAIN, ends_after="first"), None, ""),
        (replace(DRAIN, ends_after="first"), "second", "the broker has restarted"),
    ],
)
def test_a_drain_ends_at_its_time_or_after_a_restart(
    drain: Drain, run: str | None, why: str
) -> None:
    assert end_of_drain(drain, run, MINUTE_MS) == why


@given(
    begun=st.integers(0, 1000),
    left=st.integers(0, 1000),
    now_ms=st.integers(-(10**6), 10**12),
    is_present=st.booleans(),
)
def test_progress_is_a_share_and_there_is_an_eta_once_something_moved(
    begun: int, left: int, now_ms: int, is_present: bool
) -> None:
    drain = replace(DRAIN, bundles=begun)
    seen = drain_progress(
        drain, is_present=is_present, bundles=left, throughput_bytes=1.0, now_ms=now_ms
    )
    assert 0.0 <= seen.ratio <= 1.0
    assert (seen.ratio == 1.0) == (seen.state is not DrainState.DRAINING)
    has_moved = begun > left and now_ms > 0
    assert (seen.eta_s is not None) == (seen.ratio == 1.0 or has_moved)
    assert seen.eta_s is None or seen.eta_s >= 0
