from dataclasses import replace
from typing import Unpack

import pytest

from broker_ctl.core.cluster.decisions import Reason, Transfer
from broker_ctl.core.cluster.view import ClusterView, InFlight, Settled
from broker_ctl.core.planning.plan import Ledger
from broker_ctl.core.rules.leader_rules import MIB, Budgets
from tests.support.clusters.views import BUNDLES, NOW_S, Facts, broker, cluster, stats

A, B, C, D = BUNDLES[:4]
BUDGETS = Budgets()


def seen(**facts: Unpack[Facts]) -> ClusterView:
    reports = [broker("b1", 0.6, {bundle: stats(100) for bundle in BUNDLES[:8]}), broker("b2", 0.1)]
    return cluster(reports, **facts)


def refused(
    view: ClusterView, budgets: Budgets = BUDGETS, why: Reason = Reason.OVERLOADED
) -> Reason | None:
    refusal = Ledger.of(view, budgets).refusal(view, D, "b1", why)
    return refusal[0] if refusal else None


def test_with_nothing_in_flight_a_move_is_allowed() -> None:
    assert refused(seen()) is None


def test_moves_in_flight_fill_the_budget_of_the_cluster() -> None:
    moves = [InFlight(A, "x", "y"), InFlight(B, "x", "y")]
    assert refused(seen(moves=moves), replace(BUDGETS, max_moves=2)) is Reason.BUDGET_CLUSTER
    assert refused(seen(moves=moves), replace(BUDGETS, max_moves=3)) is None


@pytest.mark.parametrize(
    "moves",
    [
        [InFlight(A, "b1", "b2"), InFlight(B, "b1", "b3")],
        [InFlight(A, "b1", "b2"), InFlight(B, "b3", "b1")],
    ],
)
def test_both_ends_of_a_move_count_for_their_broker(moves: list[InFlight]) -> None:
    assert refused(seen(moves=moves)) is Reason.BUDGET_BROKER
    assert refused(seen(moves=moves[:1])) is None


def test_only_a_part_of_a_namespace_moves_at_once_and_at_least_one_bundle() -> None:
    moves = [InFlight(A, "x", "y"), InFlight(B, "x", "y")]
    wide = replace(BUDGETS, namespace_ratio=2 / 16)
    assert refused(seen(moves=moves), wide) is Reason.BUDGET_NAMESPACE
    assert refused(seen(moves=moves[:1]), wide) is None
    assert refused(seen(), replace(BUDGETS, namespace_ratio=0)) is None


def test_a_bundle_cools_down_after_a_move() -> None:
    assert refused(seen(unloaded_s={D: NOW_S - 1799})) is Reason.COOLING_DOWN
    assert refused(seen(unloaded_s={D: NOW_S - 1800})) is None


def test_load_moved_within_the_hour_counts_whether_settled_or_in_flight() -> None:
    half = replace(BUDGETS, hourly_load_ratio=0.5)
    past = [Settled(C, NOW_S - 3599, 250 * MIB)]
    flying = [InFlight(A, "x", "y")]
    assert refused(seen(settled=past), half) is None
    assert refused(seen(settled=past, moves=flying), half) is Reason.BUDGET_HOURLY_LOAD
    long_ago = [Settled(C, NOW_S - 3600, 250 * MIB)]
    assert refused(seen(settled=long_ago, moves=flying), half) is None


def test_the_first_move_of_an_hour_is_allowed_whatever_it_weighs() -> None:
    assert refused(seen(), replace(BUDGETS, hourly_load_ratio=0.01)) is None


def test_a_planned_move_counts_like_one_in_flight() -> None:
    view = seen()
    load = view.brokers["b1"].expected
    moved = view.bundles[A].load_vector
    move = Transfer(A, "b1", "b2", Reason.OVERLOADED, "", moved, load, load)
    planned = Ledger.of(view, BUDGETS).after(move)
    flying = seen(moves=[InFlight(A, "b1", "b2")])
    assert planned.per_broker == Ledger.of(flying, BUDGETS).per_broker
    assert planned.per_namespace == Ledger.of(flying, BUDGETS).per_namespace
    assert planned.moves == 1
    assert planned.moved_bytes == pytest.approx(100 * MIB)


def test_a_drain_is_bound_by_the_moves_in_flight_alone() -> None:
    budgets = replace(BUDGETS, namespace_ratio=1 / 16, hourly_load_ratio=0.0)
    settled = [Settled(C, NOW_S - 10, 250 * MIB)]
    moves = [InFlight(A, "b1", "b2")]
    view = seen(moves=moves, settled=settled, unloaded_s={D: NOW_S - 1})
    assert refused(view, budgets) is not None
    assert refused(view, budgets, Reason.DRAIN) is None
    assert refused(view, replace(budgets, max_moves=1), Reason.DRAIN) is Reason.BUDGET_CLUSTER
    full = replace(budgets, max_moves_per_broker=1)
    assert refused(view, full, Reason.DRAIN) is Reason.BUDGET_BROKER
