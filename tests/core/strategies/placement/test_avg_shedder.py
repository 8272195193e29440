from broker_ctl.core.cluster.decisions import Reason
from broker_ctl.core.cluster.view import ClusterView, InFlight
from broker_ctl.core.rules.leader_rules import PlacementRules
from broker_ctl.core.strategies.placement.strategies import AvgShedderPlacement
from tests.support.clusters.views import BUNDLES, broker, cluster

POLICY = AvgShedderPlacement()
RULES = PlacementRules()
NEW = BUNDLES[0]
IDS = ("b0", "b1", "b2")


def view_of(*moves: InFlight, draw_seed: int = 1) -> ClusterView:
    reports = [broker("b0", 0.9), broker("b1", 0.1), broker("b2", 0.5)]
    return cluster(reports, owners={NEW: None}, moves=moves, draw_seed=draw_seed)


def test_a_bundle_goes_where_it_was_planned_to_go() -> None:
    choice = POLICY.select(view_of(InFlight(NEW, "b1", "b0")), NEW, IDS, RULES)
    assert (choice.broker_id, choice.reason) == ("b0", Reason.RESERVED)


def test_a_plan_for_a_broker_that_is_not_a_candidate_is_forgotten() -> None:
    choice = POLICY.select(view_of(InFlight(NEW, "b1", "b0")), NEW, ("b2",), RULES)
    assert (choice.broker_id, choice.reason) == ("b2", Reason.DRAWN)


def test_without_a_plan_the_lot_decides_blind_to_load() -> None:
    choices = [POLICY.select(view_of(draw_seed=seed), NEW, IDS, RULES) for seed in range(40)]
    assert {choice.broker_id for choice in choices} == set(IDS)
    assert {choice.reason for choice in choices} == {Reason.DRAWN}


def test_equal_seeds_draw_equal_lots() -> None:
    for seed in range(20):
        first = POLICY.select(view_of(draw_seed=seed), NEW, IDS, RULES)
        assert first == POLICY.select(view_of(draw_seed=seed), NEW, IDS[::-1], RULES)


def test_without_candidates_no_broker_is_chosen() -> None:
    assert POLICY.select(view_of(), NEW, (), RULES).broker_id is None
