from dataclasses import replace

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.broker import Constraints, IsolationPolicy
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.core.rules.leader_rules import PlacementRules
from broker_ctl.core.strategies.placement.pipeline import alternative_receivers, has_alternative
from tests.support.clusters.views import broker, cluster, stats

RULES = PlacementRules()
RINGS = [Ring.even(Namespace("t", f"n{n}"), 1) for n in range(6)]
N0, N1, N2, N3, N4, N5 = (ring.bundles[0] for ring in RINGS)
GROUP = Constraints(group_of={ring.namespace: "g" for ring in RINGS})


def view_of(constraints: Constraints, **served: int) -> ClusterView:
    """Each broker has the given number of namespaces; b1 has the first."""
    supply = iter((N0, N1, N2, N3, N4, N5))
    reports = [
        broker(broker_id, 0.5, {next(supply): stats(1) for _ in range(count)})
        for broker_id, count in served.items()
    ]
    return replace(cluster(reports, rings=RINGS), constraints=constraints)


def test_without_constraints_every_other_receiver_may_have_it() -> None:
    view = view_of(Constraints(), b1=1, b2=1, b3=0)
    assert alternative_receivers(view, N0, "b1", RULES).feasible == ("b2", "b3")
    assert has_alternative(view, N0, "b1", RULES)


def test_a_bundle_whose_policy_leaves_only_its_broker_stays() -> None:
    only = IsolationPolicy("gold", ("t/.*",), ("b1",))
    view = view_of(Constraints((only,)), b1=1, b2=0)
    found = alternative_receivers(view, N0, "b1", RULES)
    assert (found.feasible, found.reason) == ((), Reason.ISOLATION)
    assert not has_alternative(view, N0, "b1", RULES)


def test_a_sole_broker_has_nobody_to_give_to() -> None:
    found = alternative_receivers(view_of(Constraints(), b1=1), N0, "b1", RULES)
    assert (found.feasible, found.reason) == ((), Reason.NO_BROKER)


def test_a_group_that_is_spread_evenly_stays_as_it_is() -> None:
    found = alternative_receivers(view_of(GROUP, b1=1, b2=1, b3=1), N0, "b1", RULES)
    assert (found.feasible, found.reason) == ((), Reason.ANTI_AFFINITY)
    assert found.rejected["b2"].words == "serves 1 namespaces of group g, as b1 does"


def test_a_member_may_go_where_there_is_none_of_its_group() -> None:
    assert alternative_receivers(view_of(GROUP, b1=1, b2=1, b3=0), N0, "b1", RULES).feasible == (
        "b3",
    )


def test_a_member_may_go_where_there_are_fewer_than_at_its_broker() -> None:
    assert alternative_receivers(view_of(GROUP, b1=2, b2=1, b3=3), N0, "b1", RULES).feasible == (
        "b2",
    )


def test_a_member_may_leave_as_few_where_others_have_more() -> None:
    """Pulsar's rule: only where all have equally many nothing moves."""
    assert alternative_receivers(view_of(GROUP, b1=1, b2=1, b3=2), N0, "b1", RULES).feasible == (
        "b2",
    )


def test_a_draining_broker_is_not_an_alternative_receiver() -> None:
    view = view_of(Constraints(), b1=1, b2=1)
    draining = replace(view.brokers["b2"], is_draining=True)
    view = replace(view, brokers={**view.brokers, "b2": draining})
    assert not has_alternative(view, N0, "b1", RULES)
