from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.cluster.decisions import Assign, Reason
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.rules.leader_rules import PlacementRules
from broker_ctl.core.strategies.placement.strategies import LeastResourceUsageWithWeight
from tests.support.clusters.views import BUNDLES, broker, cluster, stats

POLICY = LeastResourceUsageWithWeight()
RULES = PlacementRules()
NEW = BUNDLES[-1]


def view_of(*percent: float, draw_seed: int = 1) -> ClusterView:
    reports = [
        broker(f"b{n}", usage / 100, {BUNDLES[n]: stats(10)}) for n, usage in enumerate(percent)
    ]
    return cluster(reports, owners={NEW: None}, draw_seed=draw_seed)


def drawn(*percent: float) -> set[str | None]:
    views = [view_of(*percent, draw_seed=seed) for seed in range(60)]
    return {POLICY.select(view, NEW, tuple(view.brokers), RULES).broker_id for view in views}


def test_only_brokers_ten_points_below_the_mean_are_drawn() -> None:
    """The mean of 20, 30, 70, 80 is 50."""
    assert drawn(20, 30, 70, 80) == {"b0", "b1"}
    view = view_of(20, 90, 90, 90)
    choice = POLICY.select(view, NEW, tuple(view.brokers), RULES)
    assert (choice.broker_id, choice.reason) == ("b0", Reason.LEAST_USAGE)
    assert choice.detail == "20.0% usage, the mean is 72.5%, one of 1 far enough below"


def test_exactly_ten_points_are_enough() -> None:
    assert drawn(25, 50) == {"b0"}
    half = replace(RULES, usage_difference_ratio=0.125)
    view = view_of(25, 50)
    assert POLICY.select(view, NEW, ("b0", "b1"), half).reason is Reason.LEAST_USAGE
    more = replace(RULES, usage_difference_ratio=0.13)
    assert POLICY.select(view, NEW, ("b0", "b1"), more).reason is Reason.DRAWN


def test_the_blind_spot_where_nobody_is_far_enough_below_all_are_drawn() -> None:
    """Of 40, 40, 40, 40, 69, 70 the mean is 49.8: as in Pulsar even the hottest may get it."""
    view = view_of(40, 40, 40, 40, 69, 70)
    choice = POLICY.select(view, NEW, tuple(view.brokers), RULES)
    assert choice.reason is Reason.DRAWN
    assert choice.detail.endswith("the mean is 49.8%; none of 6 is 10% below, drawn by lot")
    assert drawn(40, 40, 40, 40, 69, 70) == {"b0", "b1", "b2", "b3", "b4", "b5"}


def test_reserved_bundles_count_so_that_a_burst_does_not_pile_up() -> None:
    view = view_of(10, 60, 60)
    heavy = replace(view.bundles[NEW], load_vector=view.bundles[BUNDLES[1]].load_vector)
    view = replace(view, bundles={**view.bundles, NEW: heavy})
    assert POLICY.select(view, NEW, tuple(view.brokers), RULES).broker_id == "b0"
    promised = view.after(Assign(NEW, "b0", Reason.UNOWNED, ""))
    assert promised.brokers["b0"].expected.usage_ratio == pytest.approx(0.7)
    choice = POLICY.select(promised, BUNDLES[-2], tuple(view.brokers), RULES)
    assert choice.reason is Reason.DRAWN


def test_without_candidates_no_broker_is_chosen() -> None:
    assert POLICY.select(view_of(), NEW, (), RULES).broker_id is None


@given(st.lists(st.floats(0, 120), min_size=1, max_size=8), st.integers())
def test_one_of_the_candidates_is_chosen_whatever_their_order(
    percent: list[float], seed: int
) -> None:
    view = view_of(*percent, draw_seed=seed)
    ids = tuple(view.brokers)
    choice = POLICY.select(view, NEW, ids, RULES)
    assert choice.broker_id in ids
    assert choice.broker_id == POLICY.select(view, NEW, ids[::-1], RULES).broker_id
