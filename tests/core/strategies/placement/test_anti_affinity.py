from collections.abc import Mapping
from dataclasses import replace

from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.broker import Constraints
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.core.rules.leader_rules import PlacementRules
from broker_ctl.core.strategies.placement.filters import FilterResult, anti_affinity
from tests.support.clusters.views import broker, cluster, stats

RINGS = [Ring.even(Namespace("t", f"n{n}"), 2) for n in range(6)]
NEW = RINGS[5].bundles[0]
GROUP = {ring.namespace: "g" for ring in RINGS}


def bundles(*namespaces: int) -> list[Bundle]:
    return [RINGS[n].bundles[0] for n in namespaces]


def view_of(
    served: Mapping[str, list[Bundle]], domains: Mapping[str, str] | None = None
) -> ClusterView:
    reports = [
        broker(broker_id, 0.1, dict.fromkeys(owned, stats(1)))
        for broker_id, owned in served.items()
    ]
    view = cluster(reports, owners={NEW: None}, rings=RINGS)
    return replace(view, constraints=Constraints(domain_of=domains or {}, group_of=GROUP))


def left(view: ClusterView, rules: PlacementRules | None = None) -> FilterResult:
    return anti_affinity(view, NEW, tuple(view.brokers), rules or PlacementRules())


def test_brokers_with_the_fewest_namespaces_of_the_group_stay() -> None:
    filtered = left(view_of({"b1": bundles(0, 1), "b2": bundles(2), "b3": bundles(3)}))
    assert filtered.feasible == ("b2", "b3")
    assert filtered.rejected["b1"] == (
        Reason.ANTI_AFFINITY,
        "serves 2 namespaces of group g, others 1",
    )


def test_brokers_with_none_are_preferred_to_all_others() -> None:
    assert left(view_of({"b1": bundles(0), "b2": []})).feasible == ("b2",)


def test_bundles_of_one_namespace_count_once() -> None:
    both = list(RINGS[0].bundles)
    assert left(view_of({"b1": both, "b2": bundles(1)})).feasible == ("b1", "b2")


def test_a_namespace_in_no_group_or_another_does_not_count() -> None:
    view = view_of({"b1": bundles(0), "b2": bundles(1)})
    others = {RINGS[5].namespace: "g", RINGS[0].namespace: "h"}
    view = replace(view, constraints=Constraints(group_of=others))
    assert left(view).feasible == ("b1", "b2")
    assert left(replace(view, constraints=Constraints())) == FilterResult(("b1", "b2"))


def test_the_failure_domain_with_the_fewest_comes_first() -> None:
    """b3 has as few as b4, but its rack has 2 namespaces of the group, the other 1."""
    domains = {"b1": "r1", "b3": "r1", "b2": "r2", "b4": "r2"}
    served = {"b1": bundles(0, 1), "b2": bundles(2), "b3": [], "b4": []}
    view = view_of(served, domains)
    assert left(view).feasible == ("b3", "b4")
    filtered = left(view, PlacementRules(has_failure_domains=True))
    assert filtered.feasible == ("b4",)
    assert filtered.rejected["b3"].words == (
        "is in failure domain r1 with 2 namespaces of group g, others have 1"
    )


def test_brokers_in_no_domain_share_one() -> None:
    served = {"b1": bundles(0), "b2": [], "b3": bundles(1)}
    filtered = left(view_of(served, {"b3": "r1"}), PlacementRules(has_failure_domains=True))
    assert filtered.feasible == ("b2",)
    assert left(
        view_of({"b1": bundles(0, 2), "b2": [], "b3": bundles(1)}, {"b3": "r1"}),
        PlacementRules(has_failure_domains=True),
    ).feasible == ("b3",)


def test_without_candidates_the_result_is_empty() -> None:
    assert anti_affinity(view_of({}), NEW, (), PlacementRules()) == FilterResult(())
