"""From a view to the planner's arrays."""

from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from broker_ctl.core.cluster.view import BrokerView, ClusterView, InFlight
from broker_ctl.core.model.broker import Constraints, IsolationPolicy
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.core.strategies.balance.demands import Demands, Known
from broker_ctl.core.strategies.balance.memory import FormerBroker
from broker_ctl.core.strategies.balance.planner_input import (
    PlannerContext,
    PlannerInput,
    build_input,
)
from tests.core.strategies.balance.fleets import CALM, reporting, sized
from tests.support.clusters.views import BUNDLES, NAMESPACE, NOW_S, RING, Facts, cluster, stats

A, B, C, D = BUNDLES[:4]
OTHER = Ring.even(Namespace("tenant", "other"), 2)
LINES = {A: stats(100), B: stats(200), OTHER.bundles[0]: stats(50)}


def brokers() -> list[BrokerView]:
    return sized([reporting("b1", LINES), reporting("b2", {C: stats(100)}, 500.0)])


def view_of(**facts: Unpack[Facts]) -> ClusterView:
    known: Facts = {"rings": [RING, OTHER], **facts}
    return cluster(brokers(), **known)


def build(view: ClusterView, **around: Any) -> PlannerInput:
    demands = {
        bundle: Known((float(place), 10.0), (0.0, 0.0), 60.0)
        for place, bundle in enumerate(sorted(view.bundles))
    }
    context = PlannerContext(
        Demands((0, 3) if demands else (), demands).steady_of, around.pop("left", {}), 1800.0
    )
    return build_input(view, replace(context, **around), CALM)


def column(planner_input: PlannerInput, values: np.ndarray[Any, Any]) -> dict[Bundle, Any]:
    return dict(zip((each.bundle for each in planner_input.bundles), values.tolist(), strict=True))


def test_brokers_and_bundles_are_numbered_along_their_ids() -> None:
    planner_input = build(view_of())
    problem = planner_input.problem
    assert planner_input.brokers == ("b1", "b2")
    assert [each.bundle for each in planner_input.bundles] == [A, B, C, OTHER.bundles[0]]
    assert problem.owner.tolist() == [0, 0, 1, 0]
    assert problem.demand.tolist() == [[0, 10], [1, 10], [2, 10], [3, 10]]
    assert problem.capacity.tolist() == [[800, 500, 500], [800, 250, 250]]
    assert not problem.base.any()
    assert problem.is_movable.all()
    assert problem.is_receiving.all()
    assert problem.is_counted.all()


def test_a_move_in_flight_counts_as_arrived_and_the_bundle_does_not_move_again() -> None:
    planner_input = build(view_of(moves=[InFlight(A, "b1", "b2")], splitting=[B]))
    assert column(planner_input, planner_input.problem.owner)[A] == 1
    movable = column(planner_input, planner_input.problem.is_movable)
    assert movable == {A: False, B: False, C: True, OTHER.bundles[0]: True}


def test_bundles_at_rest_excluded_unreported_or_out_of_their_ring_stay() -> None:
    rested = {A: NOW_S - 1799, B: NOW_S - 1800}
    planner_input = build(view_of(unloaded_s=rested), excluded=frozenset([OTHER.namespace]))
    movable = column(planner_input, planner_input.problem.is_movable)
    assert movable == {A: False, B: True, C: True, OTHER.bundles[0]: False}
    planner_input = build(view_of(owners={A: "b2"}))
    assert column(planner_input, planner_input.problem.is_movable)[A] is False
    planner_input = build(view_of(rings=[Ring.even(NAMESPACE, 3), OTHER]))
    assert sum(planner_input.problem.is_movable.tolist()) == 1


def test_a_heartbeat_bundle_stays_on_its_broker() -> None:
    heartbeat = Ring.even(Namespace("pulsar", "b1:8080"), 1)
    first = reporting("b1:8080", {heartbeat.bundles[0]: stats(1), A: stats(1)})
    view = cluster([first, reporting("b2:8080", {})], rings=[RING, heartbeat])
    planner_input = build(view)
    movable = column(planner_input, planner_input.problem.is_movable)
    assert movable == {heartbeat.bundles[0]: False, A: True}


def test_bundles_without_a_live_owner_are_left_out() -> None:
    planner_input = build(view_of(owners={A: None, B: "gone"}))
    assert {each.bundle for each in planner_input.bundles} == {C, OTHER.bundles[0]}


def test_draining_silent_and_slow_brokers_receive_nothing() -> None:
    first, second = brokers()
    leaving, silent = replace(first, is_draining=True), replace(second, age_s=1801.0)
    others = reporting("b3", {}), reporting("b4", {})
    view = cluster([leaving, silent, *others], rings=[RING, OTHER])
    problem = build(view, ineligible=frozenset(["b4"])).problem
    assert problem.is_receiving.tolist() == [False, False, True, False]
    assert problem.is_giving.tolist() == [False, False, True, True]
    assert problem.is_counted.tolist() == [False, True, True, True]
    # Where a bundle may live says nothing of who is slow: that is for `is_receiving`.
    assert problem.allowed.tolist() == [[False, False, True, True]]


def test_bundles_of_a_namespace_share_their_row_of_who_may_have_them() -> None:
    gold = IsolationPolicy("gold", ("tenant/other",), ("b2",))
    view = replace(view_of(), constraints=Constraints((gold,)))
    planner_input = build(view)
    rows = column(planner_input, planner_input.problem.kind)
    assert rows[A] == rows[B] == rows[C] != rows[OTHER.bundles[0]]
    assert planner_input.problem.allowed[rows[A]].tolist() == [True, False]
    assert planner_input.problem.allowed[rows[OTHER.bundles[0]]].tolist() == [False, True]


def test_bundles_of_an_anti_affinity_group_are_left_to_placement() -> None:
    view = replace(view_of(), constraints=Constraints(group_of={NAMESPACE: "group"}))
    planner_input = build(view)
    kinds = column(planner_input, planner_input.problem.kind)
    assert not planner_input.problem.allowed[kinds[A]].any()
    assert planner_input.problem.allowed[kinds[OTHER.bundles[0]]].all()


def test_a_bundle_shuns_the_broker_that_it_left() -> None:
    left = {A: FormerBroker("b2", NOW_S - 60), B: FormerBroker("gone", NOW_S - 60)}
    planner_input = build(view_of(), left=left)
    assert column(planner_input, planner_input.problem.avoid) == {
        A: 1,
        B: -1,
        C: -1,
        OTHER.bundles[0]: -1,
    }


def test_a_picture_without_bundles_is_empty() -> None:
    planner_input = build(cluster([reporting("b1", {}), reporting("b2", {})]))
    assert (planner_input.brokers, list(planner_input.bundles)) == (("b1", "b2"), [])
    assert planner_input.problem.demand.shape == (0, planner_input.problem.capacity.shape[1])
    assert planner_input.problem.owner.tolist() == []
