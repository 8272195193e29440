from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import InFlight
from broker_ctl.core.rules.leader_rules import PlacementRules
from broker_ctl.core.strategies.placement.filters import FilterResult, max_topics
from tests.support.clusters.views import BUNDLES, broker, cluster, stats

A, B, NEW = BUNDLES[:3]


def left(most: int, *moves: InFlight) -> FilterResult:
    reports = [
        broker("b1", 0.1, {A: stats(1, topics=50_001)}),
        broker("b2", 0.9, {B: stats(1, topics=50_000)}),
    ]
    view = cluster(reports, owners={NEW: None}, moves=moves)
    return max_topics(view, NEW, ("b1", "b2"), PlacementRules(max_topics=most))


def test_a_broker_may_have_as_many_topics_as_the_limit() -> None:
    filtered = left(50_000)
    assert filtered.feasible == ("b2",)
    assert filtered.rejected["b1"] == (Reason.TOPICS, "has 50,001 topics, more than 50,000")


def test_where_all_have_more_all_stay() -> None:
    assert left(100) == FilterResult(("b1", "b2"))


def test_topics_of_moves_under_way_count() -> None:
    assert left(50_001, InFlight(B, "b2", "b1")).feasible == ("b2",)
