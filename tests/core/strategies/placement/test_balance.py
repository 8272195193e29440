"""Placement by `balance`: the broker that is least full with the bundle on it."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.cluster.decisions import Assign, Reason, Transfer
from broker_ctl.core.cluster.view import ClusterView
from broker_ctl.core.rules.leader_rules import PlacementRules
from broker_ctl.core.strategies.placement.strategies import (
    BalancePlacement,
    LeastLongTermMessageRate,
    LeastResourceUsageWithWeight,
    PlacementPolicy,
)
from tests.support.clusters.views import BUNDLES, broker, cluster, stats

POLICY = BalancePlacement()
RULES = PlacementRules()
A, B, C, NEW, NEXT = BUNDLES[:5]


def view_of(*percent: float, draw_seed: int = 1) -> ClusterView:
    reports = [
        broker(f"b{n}", usage / 100, {BUNDLES[n]: stats(10)}) for n, usage in enumerate(percent)
    ]
    return cluster(reports, owners={BUNDLES[-1]: None}, draw_seed=draw_seed)


def drawn(policy: PlacementPolicy, *percent: float) -> set[str | None]:
    views = [view_of(*percent, draw_seed=seed) for seed in range(60)]
    return {
        policy.select(view, BUNDLES[-1], tuple(view.brokers), RULES).broker_id for view in views
    }


def test_the_least_full_receives_where_pulsar_draws_among_all() -> None:
    """The mean is 49.8: nobody is ten points below it, and in Pulsar even 70 may get it."""
    assert drawn(LeastResourceUsageWithWeight(), 40, 40, 40, 40, 69, 70) >= {"b4", "b5"}
    assert drawn(POLICY, 40, 40, 40, 40, 69, 70) == {"b0", "b1", "b2", "b3"}


def test_few_large_messages_do_not_make_a_broker_look_idle() -> None:
    view = cluster(
        [
            broker("b1", 0.9, {A: stats(500, msg_rate=20)}),
            broker("b2", 0.3, {B: stats(100, msg_rate=900)}),
        ],
        owners={NEW: None},
    )
    # Above 85 % even Pulsar passes it over.
    almost = replace(RULES, overloaded_ratio=0.95)
    rate = LeastLongTermMessageRate().select(view, NEW, ("b1", "b2"), almost)
    choice = POLICY.select(view, NEW, ("b1", "b2"), almost)
    assert (rate.broker_id, choice.broker_id) == ("b1", "b2")
    assert choice.reason is Reason.LEAST_USAGE
    assert choice.detail == "30.0% usage with it, the least of 2"


def test_the_usage_afterwards_counts_so_that_a_small_broker_is_spared() -> None:
    """20 % of a mean broker are 40 % of b1, which is half as large, and 13 % of b2."""
    reports = [
        replace(broker("b1", 0.3, {A: stats(30)}), size_ratio=0.5),
        replace(broker("b2", 0.4, {B: stats(120)}), size_ratio=1.5),
        broker("b3", 0.9, {C: stats(180), NEW: stats(40)}),
    ]
    view = cluster(reports, owners={NEW: None})
    choice = POLICY.select(view, NEW, ("b1", "b2"), RULES)
    assert choice.broker_id == "b2"
    assert POLICY.select(view, NEXT, ("b1", "b2"), RULES).broker_id == "b1"


def test_where_nobody_says_how_full_it_is_bytes_decide() -> None:
    view = cluster([broker("b1", 0.0, {A: stats(30)}), broker("b2", 0.0, {B: stats(20)})])
    assert POLICY.select(view, NEW, ("b1", "b2"), RULES).broker_id == "b2"


def test_reserved_bundles_count_so_that_a_batch_is_spread() -> None:
    """A dead broker's bundles, the heaviest first: they end where the least is."""
    lines = {
        bundle: stats(mib) for bundle, mib in zip(BUNDLES[3:11], range(80, 0, -10), strict=True)
    }
    dead = broker("dead", 0.36, lines)
    alive = [broker("b1", 0.2, {A: stats(200)}), broker("b2", 0.25, {B: stats(250)})]
    view = cluster([dead, *alive])
    for bundle in lines:
        chosen = POLICY.select(view, bundle, ("b1", "b2"), RULES).broker_id
        assert chosen is not None
        seen = view.bundles[bundle]
        none = view.brokers[chosen].expected
        view = view.after(
            Transfer(bundle, "dead", chosen, Reason.DRAIN, "", seen.load_vector, none, none)
        )
    usages = [view.brokers[each].expected.usage_ratio for each in ("b1", "b2")]
    assert max(usages) - min(usages) < 0.02


def test_only_candidates_are_chosen_and_none_where_there_are_none() -> None:
    view = view_of(10, 20, 30)
    assert POLICY.select(view, BUNDLES[-1], ("b1", "b2"), RULES).broker_id == "b1"
    nobody = POLICY.select(view, BUNDLES[-1], (), RULES)
    assert (nobody.broker_id, nobody.reason) == (None, Reason.NO_BROKER)


@given(
    st.lists(st.sampled_from([0.0, 0.2, 0.4, 0.8]), min_size=1, max_size=6),
    st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=6, max_size=6),
    st.integers(0, 2**64),
)
def test_no_broker_would_be_less_full_than_the_chosen_one(
    usages: list[float], sizes: list[float], seed: int
) -> None:
    reports = [
        replace(broker(f"b{n}", usage, {BUNDLES[n]: stats(10)}), size_ratio=sizes[n])
        for n, usage in enumerate(usages)
    ]
    view = cluster(reports, owners={NEW: None}, draw_seed=seed)
    names = tuple(view.brokers)
    chosen = POLICY.select(view, BUNDLES[-1], names, RULES).broker_id
    assert chosen is not None
    after = {
        each: view.after(Assign(NEW, each, Reason.UNOWNED, "")).brokers[each].expected.usage_ratio
        for each in names
        if NEW in view.bundles
    }
    placed = POLICY.select(view, NEW, names, RULES).broker_id
    assert placed is not None
    assert after[placed] == min(after.values())
    assert POLICY.select(view, NEW, tuple(reversed(names)), RULES).broker_id == placed
