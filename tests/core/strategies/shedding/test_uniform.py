"""Messages before bytes, one broker a cycle (docs: pulsar-shedders)."""

from dataclasses import replace

import pytest

from broker_ctl.core.cluster.decisions import Decision, Reason
from broker_ctl.core.cluster.view import ClusterView, InFlight
from broker_ctl.core.model.load import BundleLoad, BundleStats
from broker_ctl.core.model.names import Bundle
from broker_ctl.core.rules.leader_rules import MIB, DifferenceRules, SheddingRules, UniformRules
from broker_ctl.core.strategies.shedding.threshold import UniformLoadShedder
from tests.core.strategies.shedding.worlds import World, moved, skips
from tests.support.clusters.views import BUNDLES, broker, cluster, stats

SHEDDER = UniformLoadShedder()
RULES = SheddingRules()
A, B, C, D, E = BUNDLES[:5]


def shed(view: ClusterView, rules: SheddingRules = RULES) -> tuple[Decision, ...]:
    return SHEDDER.shed(view, SHEDDER.recall(None), rules)


def pair(one: dict[Bundle, BundleStats], other: dict[Bundle, BundleStats]) -> ClusterView:
    return cluster([broker("b1", 0.6, one), broker("b2", 0.2, other)])


def rated(*rates: float) -> dict[Bundle, BundleStats]:
    return {bundle: stats(1, msg_rate=rate) for bundle, rate in zip(BUNDLES, rates, strict=False)}


def last(rate: float) -> dict[Bundle, BundleStats]:
    return {BUNDLES[-1]: stats(1, msg_rate=rate)}


def test_a_fifth_of_the_difference_goes_without_ever_overshooting() -> None:
    # 12,000 and 4,000 msg/s: 1,600 should go. 7,000 and 3,400 are too much, 1,500 fits, and of the
    # 100 that are left the last one fits to the message.
    decisions = shed(pair(rated(7000, 3400, 1500, 100), last(4000)))
    assert [each.bundle for each in moved(decisions)] == [C, D]
    assert decisions[0].sentence == (
        f"unload {C} from b1: overloaded: b1 has 12,000 msg/s, b2 4,000 msg/s: 200% more; "
        "1,600 msg/s should go"
    )


@pytest.mark.parametrize(("rate", "is_shed"), [(15_000, False), (15_100, True)])
def test_half_as_much_again_is_tolerated(rate: float, is_shed: bool) -> None:
    rules = replace(
        RULES,
        difference=DifferenceRules(min_msg_rate=1),
        uniform=UniformRules(throughput_multiple=0),
    )
    decisions = shed(pair(rated(*[rate / 15] * 15), last(10_000)), rules)
    assert bool(moved(decisions)) == is_shed


def test_less_than_a_thousand_messages_are_not_worth_it_and_bytes_are_not_asked_then() -> None:
    # A rate that differs has the cycle, though the bytes differ a hundredfold.
    lines = {A: stats(500, msg_rate=2000), B: stats(500, msg_rate=2000)}
    (skip,) = shed(pair(lines, {E: stats(10, msg_rate=1000)}))
    assert skip.sentence == (
        "skip b1: low throughput: b1 has 4,000 msg/s, b2 1,000 msg/s: 300% more, but only "
        "600 msg/s should go, less than 1,000 msg/s"
    )


def test_where_messages_are_even_bytes_count() -> None:
    lines = {A: stats(400, msg_rate=500), B: stats(60, msg_rate=500), C: stats(40, msg_rate=0)}
    decisions = shed(pair(lines, {E: stats(100, msg_rate=1000)}))
    assert [each.bundle for each in moved(decisions)] == [B]
    assert "b1 has 500.0 MiB/s, b2 100.0 MiB/s: 5.0 times as much; 80.0 MiB/s" in (
        decisions[0].sentence
    )


def test_four_times_the_bytes_are_tolerated() -> None:
    lines = {A: stats(200, msg_rate=500), B: stats(200, msg_rate=500)}
    (skip,) = shed(pair(lines, {E: stats(100, msg_rate=1000)}))
    assert skip.sentence == (
        "skip cluster: below threshold: b1 has 1,000 msg/s, b2 1,000 msg/s: 0% more, until "
        "50% are (loadBalancerMsgRateDifferenceShedderThreshold); b1 has 400.0 MiB/s, b2 100.0 "
        "MiB/s: 4.0 times as much, until 4 times are "
        "(loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold)"
    )


def test_only_the_highest_broker_gives_in_a_cycle() -> None:
    # Documented behaviour: a hundred brokers take a hundred cycles.
    lines = {A: stats(1, msg_rate=19_000), B: stats(1, msg_rate=1000)}
    others = {C: stats(1, msg_rate=18_000), D: stats(1, msg_rate=1000)}
    view = cluster([broker("b1", 0.6, lines), broker("b2", 0.6, others), broker("b3", 0.1)])
    assert [(each.source, each.bundle) for each in moved(shed(view))] == [("b1", B)]


def test_a_broker_without_traffic_counts_as_one() -> None:
    view = cluster([broker("b1", 0.6, rated(5001, 1000)), broker("b2", 0.0)])
    (unload,) = moved(shed(view))
    assert "b1 has 6,001 msg/s, b2 1 msg/s: 600,000% more; 1,200 msg/s" in unload.sentence


def test_brokers_above_two_gigabytes_are_compared_like_others() -> None:
    gib = 1024.0
    lines = {A: stats(14 * gib, msg_rate=500), B: stats(gib, msg_rate=500)}
    decisions = shed(pair(lines, {E: stats(2.5 * gib, msg_rate=1000)}))
    assert [each.bundle for each in moved(decisions)] == [B]


@pytest.mark.parametrize(("most", "count"), [(None, 4), (1, 1), (4, 4)])
def test_no_more_bundles_go_than_a_cycle_may_take(most: int | None, count: int) -> None:
    rules = replace(RULES, uniform=UniformRules(max_bundles=most))
    view = pair(rated(9000, 500, 400, 300, 200), last(1000))
    assert len(moved(shed(view, rules))) == count


def test_a_cycle_that_may_take_no_bundle_says_so() -> None:
    rules = replace(RULES, uniform=UniformRules(max_bundles=0))
    (skip,) = shed(pair(rated(9000, 500), last(1000)), rules)
    assert skip.reason is Reason.CYCLE_LIMIT


def test_limits_of_zero_are_none() -> None:
    rules = replace(RULES, uniform=UniformRules(msg_rate_percent=0, throughput_multiple=0))
    (skip,) = shed(pair(rated(90_000, 500), last(10)), rules)
    assert skip.reason is Reason.BELOW_THRESHOLD


def test_another_part_of_the_difference_may_go() -> None:
    rules = replace(RULES, difference=DifferenceRules(max_ratio=0.5))
    view = pair(rated(7000, 3400, 1500, 100), last(4000))
    assert [each.bundle for each in moved(shed(view, rules))] == [B, D]


def test_bundles_that_are_all_too_large_stay_with_an_advice() -> None:
    (skip,) = shed(pair(rated(6000, 6000), last(4000)))
    assert skip.sentence == (
        f"skip b1: too large: {A}, the lightest that may go, has 6,000 msg/s, more than the "
        "1,600 msg/s that should go; b1 has 12,000 msg/s, b2 4,000 msg/s: 200% more; until it "
        "is smaller, split it: it has 10 topics"
    )
    hot = {A: stats(1, topics=1, msg_rate=6000), B: stats(1, topics=1, msg_rate=6000)}
    (skip,) = shed(pair(hot, last(4000)))
    assert skip.reason is Reason.HOT_TOPIC
    assert skip.detail.endswith("give its one topic more partitions")


def test_a_sole_bundle_stays() -> None:
    (skip,) = skips(shed(pair(rated(12_000), last(4000))))
    assert (skip.subject, skip.reason) == ("b1", Reason.SOLE_BUNDLE)


def test_brokers_are_compared_by_their_last_reports_whatever_was_before() -> None:
    view = pair(rated(2000, 2000), last(4000))
    busier = BundleLoad.unseen().fold(stats(1, msg_rate=90_000))
    past = {**view.bundles, A: replace(view.bundles[A], load=busier)}
    (skip,) = shed(replace(view, bundles=past))
    assert skip.reason is Reason.BELOW_THRESHOLD


def test_a_bundle_on_its_way_counts_where_it_will_be() -> None:
    lines = rated(5000, 4000, 3000)
    reports = [broker("b1", 0.6, lines), broker("b2", 0.2, last(1000))]
    assert moved(shed(cluster(reports), replace(RULES, difference=DifferenceRules(max_ratio=0.5))))
    (skip,) = shed(cluster(reports, moves=[InFlight(A, "b1", "b2")]))
    assert skip.reason is Reason.BELOW_THRESHOLD


def test_in_a_closed_loop_messages_even_out_and_nothing_moves_any_more() -> None:
    start = {"b1": [20.0] * 30, "b2": [20.0] * 5, "b3": [20.0] * 5, "b4": []}
    world = World.of(SHEDDER, start, RULES)
    before = world.imbalance
    counts = [len(world.cycle()) for _ in range(60)]
    assert before == pytest.approx(3)
    assert world.imbalance < 1.5
    assert counts[-20:] == [0] * 20
    assert skips(world.decisions)[0].reason in {Reason.BELOW_THRESHOLD, Reason.LOW_THROUGHPUT}


def test_figures_are_of_bytes_and_messages() -> None:
    assert RULES.difference == DifferenceRules(0.2, 1000, MIB)
