"""Which bundles stand against an isolation policy, and what would mend that."""

from dataclasses import replace

from broker_ctl.core.cluster.decisions import Reason, Transfer, Unload
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.broker import NO_CONSTRAINTS, Constraints, IsolationPolicy
from broker_ctl.core.planning.plan import plan
from broker_ctl.core.rules.leader_rules import Budgets, PlacementRules
from broker_ctl.core.strategies.placement.pipeline import healing_proposals, misplaced_bundles
from broker_ctl.core.strategies.placement.strategies import LeastLongTermMessageRate
from tests.support.clusters.views import BUNDLES, NAMESPACE, broker, cluster, stats

A, B, C, FREE = BUNDLES[:4]
RULES = PlacementRules()


def view_of(*policies: IsolationPolicy) -> ClusterView:
    """b1 has two bundles, b2 one, b3 none; one has no owner."""
    reports = [
        broker("b1", 0.2, {A: stats(500), B: stats(900)}),
        broker("b2", 0.9, {C: stats(200)}),
        broker("b3", 0.0),
    ]
    return replace(cluster(reports, owners={FREE: None}), constraints=Constraints(policies))


def gold(
    *primary: str, min_available: int = 1, namespaces: str = str(NAMESPACE)
) -> IsolationPolicy:
    return IsolationPolicy("gold", (namespaces,), primary, ("b3",), min_available)


def names(view: ClusterView) -> list[tuple[str, str]]:
    return [(str(one.bundle), one.broker_id) for one in misplaced_bundles(view, RULES)]


def test_without_policies_nothing_is_misplaced() -> None:
    assert names(replace(view_of(), constraints=NO_CONSTRAINTS)) == []


def test_bundles_outside_their_policy_are_misplaced_and_the_heaviest_come_first() -> None:
    view = view_of(gold("b2"))
    assert names(view) == [(str(B), "b1"), (str(A), "b1")]
    (first, _) = misplaced_bundles(view, RULES)
    assert first.why.startswith("is neither primary nor secondary of policy gold")
    assert first.to_row() == {"bundle": str(B), "owner": "b1", "why": first.why}


def test_secondaries_may_serve_only_while_primaries_are_missing() -> None:
    reports = [broker("b1", 0.1), broker("b3", 0.1, {A: stats(1)})]
    view = cluster(reports)
    few = replace(view, constraints=Constraints((gold("b1", min_available=2),)))
    assert names(few) == []
    enough = replace(view, constraints=Constraints((gold("b1"),)))
    assert names(enough) == [(str(A), "b3")]


def test_a_primary_of_another_policy_serves_no_shared_namespace() -> None:
    view = view_of(gold("b2", namespaces="other/ns"))
    assert names(view) == [(str(C), "b2")]


def test_what_moves_already_is_left_alone() -> None:
    view = view_of(gold("b2"))
    splitting = replace(view, splitting=frozenset({B}))
    found = misplaced_bundles(splitting, RULES)
    proposals = healing_proposals(splitting, found)
    assert [proposal.bundle for proposal in proposals] == [A]
    assert proposals[0] == Unload(A, "b1", Reason.ISOLATION, f"b1 {found[1].why}")


def test_a_policy_is_kept_even_where_its_brokers_are_fuller() -> None:
    view = view_of(gold("b2"))
    found = plan(
        view,
        healing_proposals(view, misplaced_bundles(view, RULES)),
        placement=LeastLongTermMessageRate(),
        placement_rules=RULES,
        budgets=Budgets(max_moves_per_broker=9, max_moves=9, namespace_ratio=1.0),
    )
    moves = [each for each in found.decisions if isinstance(each, Transfer)]
    assert {(move.bundle, move.destination, move.reason) for move in moves} == {
        (A, "b2", Reason.ISOLATION),
        (B, "b2", Reason.ISOLATION),
    }
