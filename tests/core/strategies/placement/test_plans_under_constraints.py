from dataclasses import replace

from broker_ctl.core.cluster.decisions import Assign, Decision, Reason, Skip, Transfer, Unload
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.broker import Constraints, IsolationPolicy
from broker_ctl.core.model.load import NO_LOAD
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.planning.plan import Plan, plan
from broker_ctl.core.rules.leader_rules import Budgets, PlacementRules
from broker_ctl.core.strategies.placement.strategies import LeastLongTermMessageRate
from tests.support.clusters.views import BUNDLES, NAMESPACE, broker, cluster, stats

A, B, C, FREE = BUNDLES[:4]
WIDE = Budgets(max_moves_per_broker=99, max_moves=99, namespace_ratio=1.0, hourly_load_ratio=9.0)


def view_of(*primary: str, min_available: int = 1) -> ClusterView:
    """b1 is hot, b2 is cool, b3 is idle; the namespace is for the primaries, then for b3."""
    reports = [
        broker("b1", 0.9, {A: stats(500), B: stats(300)}),
        broker("b2", 0.2, {C: stats(200)}),
        broker("b3", 0.0),
    ]
    policy = IsolationPolicy("gold", (str(NAMESPACE),), primary, ("b3",), min_available)
    return replace(cluster(reports, owners={FREE: None}), constraints=Constraints((policy,)))


def planned(view: ClusterView, proposal: Decision) -> Plan:
    return plan(
        view,
        [proposal],
        placement=LeastLongTermMessageRate(),
        placement_rules=PlacementRules(),
        budgets=WIDE,
    )


def the_skip(result: Plan) -> Skip:
    assert result.decisions == ()
    (skip,) = result.skipped
    return skip


def transfer(bundle: Bundle, destination: str) -> Transfer:
    none = NO_LOAD
    return Transfer(bundle, "b1", destination, Reason.ADMIN, "why", none, none, none)


def test_a_shed_bundle_goes_where_its_isolation_policy_allows() -> None:
    (move,) = planned(view_of("b1", "b2"), Unload(B, "b1", Reason.OVERLOADED, "why")).decisions
    assert isinstance(move, Transfer)
    assert move.destination == "b2"


def test_a_bundle_that_no_other_broker_may_own_is_not_shed() -> None:
    skip = the_skip(planned(view_of("b1"), Unload(B, "b1", Reason.OVERLOADED, "why")))
    assert (skip.subject, skip.reason) == (str(B), Reason.ISOLATION)
    assert skip.detail.startswith("nobody can receive it from b1; ")
    assert "b3 is only secondary of policy gold (1 of at least 1" in skip.detail


def test_the_giver_counts_as_an_available_primary() -> None:
    view = view_of("b1", "b2", min_available=3)
    (move,) = planned(view, Unload(B, "b1", Reason.OVERLOADED, "why")).decisions
    assert isinstance(move, Transfer)
    assert move.destination == "b3"


def test_a_move_to_a_forbidden_broker_is_not_planned() -> None:
    skip = the_skip(planned(view_of("b1", "b2"), transfer(B, "b3")))
    assert skip.reason is Reason.ISOLATION
    assert "b3 is only secondary" in skip.detail


def test_a_bundle_is_not_assigned_to_a_forbidden_broker() -> None:
    view = view_of("b1", "b2")
    skip = the_skip(planned(view, Assign(FREE, "b3", Reason.UNOWNED, "why")))
    assert skip.reason is Reason.ISOLATION
    assert skip.detail.startswith("b3 cannot receive; b3 is only secondary")
    (assign,) = planned(view, Assign(FREE, "b2", Reason.UNOWNED, "why")).decisions
    assert isinstance(assign, Assign)


def test_a_group_that_is_spread_evenly_is_not_shed() -> None:
    view = replace(view_of("b1"), constraints=Constraints(group_of={NAMESPACE: "g"}))
    idle_too = {b: replace(v, served={NAMESPACE: 1}) for b, v in view.brokers.items()}
    skip = the_skip(
        planned(replace(view, brokers=idle_too), Unload(B, "b1", Reason.OVERLOADED, "why"))
    )
    assert skip.reason is Reason.ANTI_AFFINITY
