from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.cluster.decisions import Assign, Reason
from broker_ctl.core.rules.leader_rules import PlacementRules
from broker_ctl.core.strategies.placement.strategies import LeastLongTermMessageRate
from tests.support.clusters.views import BUNDLES, broker, cluster, stats

POLICY = LeastLongTermMessageRate()
RULES = PlacementRules()
A, B, C, NEW = BUNDLES[:4]


def test_the_lowest_message_rate_wins_whatever_the_bytes() -> None:
    view = cluster(
        [
            broker("b1", 0.2, {A: stats(1, msg_rate=900)}),
            broker("b2", 0.7, {B: stats(500, msg_rate=20)}),
            broker("b3", 0.2, {C: stats(1, msg_rate=30)}),
        ],
        owners={NEW: None},
    )
    choice = POLICY.select(view, NEW, ("b1", "b2", "b3"), RULES)
    assert (choice.broker_id, choice.reason) == ("b2", Reason.LEAST_MSG_RATE)
    assert choice.detail == "20 msg/s, the lowest of 3"


def test_an_overloaded_broker_is_passed_over() -> None:
    view = cluster(
        [broker("b1", 0.86, {A: stats(1)}), broker("b2", 0.85, {B: stats(2)})], owners={NEW: None}
    )
    choice = POLICY.select(view, NEW, ("b1", "b2"), RULES)
    assert (choice.broker_id, choice.reason) == ("b2", Reason.LEAST_MSG_RATE)


def test_among_overloaded_brokers_only_lots_decide() -> None:
    reports = [broker("b1", 0.9, {A: stats(1)}), broker("b2", 0.99, {B: stats(2)})]
    drawn = {
        POLICY.select(
            cluster(reports, owners={NEW: None}, draw_seed=seed), NEW, ("b1", "b2"), RULES
        )
        for seed in range(20)
    }
    assert {choice.broker_id for choice in drawn} == {"b1", "b2"}
    assert {choice.reason for choice in drawn} == {Reason.ALL_OVERLOADED}


def test_without_candidates_no_broker_is_chosen() -> None:
    choice = POLICY.select(cluster([], owners={NEW: None}), NEW, (), RULES)
    assert (choice.broker_id, choice.reason) == (None, Reason.NO_BROKER)


def test_a_burst_of_choices_spreads_because_each_one_counts_at_once() -> None:
    view = cluster([broker(f"b{n}", 0.0) for n in range(4)], owners=dict.fromkeys(BUNDLES))
    received = dict.fromkeys(view.brokers, 0)
    for bundle in BUNDLES:
        chosen = POLICY.select(view, bundle, tuple(view.brokers), RULES).broker_id
        assert chosen is not None
        view = view.after(Assign(bundle, chosen, Reason.UNOWNED, ""))
        received[chosen] += 1
    assert received == {"b0": 4, "b1": 4, "b2": 4, "b3": 4}


@given(st.lists(st.floats(0, 1.2), min_size=1, max_size=6), st.integers())
def test_the_order_of_the_candidates_does_not_matter(usages: list[float], seed: int) -> None:
    view = cluster(
        [
            broker(f"b{n}", usage, {BUNDLES[n]: stats(round(usage * 2))})
            for n, usage in enumerate(usages)
        ],
        owners={BUNDLES[-1]: None},
        draw_seed=seed,
    )
    ids = tuple(view.brokers)
    choice = POLICY.select(view, BUNDLES[-1], ids, RULES)
    assert choice == POLICY.select(view, BUNDLES[-1], ids[::-1], RULES)
    assert choice.broker_id in ids
