import pytest

from broker_ctl.core.cluster.decisions import Assign, Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.core.rules.leader_rules import PlacementRules
from broker_ctl.core.strategies.placement.filters import FilterResult, even_spread
from tests.support.clusters.views import BUNDLES, broker, cluster, stats

ON, OFF = PlacementRules(is_spread_evenly=True), PlacementRules()
A, B, C, NEW, OTHER = BUNDLES[:5]


@pytest.fixture
def view() -> ClusterView:
    reports = [
        broker("b1", 0.1, {A: stats(1), B: stats(1)}),
        broker("b2", 0.9, {C: stats(1)}),
        broker("b3", 0.5, {Ring.even(Namespace("t", "x"), 1).bundles[0]: stats(1)}),
    ]
    return cluster(reports, owners={NEW: None, OTHER: None})


def test_brokers_with_the_fewest_bundles_of_the_namespace_stay(view: ClusterView) -> None:
    filtered = even_spread(view, NEW, ("b1", "b2"), ON)
    assert filtered.feasible == ("b2",)
    assert filtered.rejected["b1"] == (Reason.EVEN_SPREAD, "has 2 bundles of tenant/ns, others 1")
    assert even_spread(view, NEW, ("b1", "b2", "b3"), ON).feasible == ("b3",)


def test_reserved_bundles_count(view: ClusterView) -> None:
    promised = view.after(Assign(NEW, "b3", Reason.UNOWNED, ""))
    assert even_spread(promised, OTHER, ("b1", "b2", "b3"), ON).feasible == ("b2", "b3")


def test_even_spread_is_an_option(view: ClusterView) -> None:
    assert even_spread(view, NEW, ("b1", "b2"), OFF) == FilterResult(("b1", "b2"))


def test_the_system_namespace_is_always_spread() -> None:
    system = Ring.even(Namespace("pulsar", "system"), 2).bundles
    view = cluster([broker("b1", 0.1, {system[0]: stats(1)}), broker("b2", 0.9)])
    assert even_spread(view, system[1], ("b1", "b2"), OFF).feasible == ("b2",)


def test_without_candidates_the_result_is_empty(view: ClusterView) -> None:
    assert even_spread(view, NEW, (), ON) == FilterResult(())
