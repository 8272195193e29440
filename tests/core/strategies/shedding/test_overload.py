"""The fixed limit of 85 %, and the 5 points for good measure (docs: pulsar-shedders)."""

from dataclasses import replace

import pytest

from broker_ctl.core.cluster.decisions import Decision, Reason
from broker_ctl.core.cluster.view import ClusterView, InFlight
from broker_ctl.core.model.load import BundleLoad
from broker_ctl.core.rules.leader_rules import OverloadRules, SheddingRules
from broker_ctl.core.strategies.shedding.threshold import OverloadShedder
from tests.core.strategies.shedding.worlds import World, moved, skips
from tests.support.clusters.views import BUNDLES, broker, cluster, even_cluster, stats

SHEDDER = OverloadShedder()
RULES = SheddingRules()
A, B, C = BUNDLES[:3]


def shed(view: ClusterView, rules: SheddingRules = RULES) -> tuple[Decision, ...]:
    return SHEDDER.shed(view, SHEDDER.recall(None), rules)


@pytest.mark.parametrize(
    ("usages", "sources"),
    [
        ({"b1": 0.85, "b2": 0.1}, {"b1"}),
        ({"b1": 0.849, "b2": 0.0}, set()),
        ({"b1": 0.9, "b2": 0.95, "b3": 0.2}, {"b1", "b2"}),
    ],
)
def test_brokers_that_have_reached_the_limit_shed(
    usages: dict[str, float], sources: set[str]
) -> None:
    assert {each.source for each in moved(shed(even_cluster(usages, 16)))} == sources


def test_the_excess_and_a_margin_go_heaviest_first() -> None:
    # 5 points above the limit and 5 for good measure of 900 MiB/s are 90: one bundle of 75 is not
    # enough, two are.
    decisions = shed(even_cluster({"b1": 0.9, "b2": 0.1}, 12))
    assert len(decisions) == 2
    assert decisions[0].sentence.endswith(
        "from b1: overloaded: 90.0% is 5.0 points above the limit of 85.0% "
        "(loadBalancerBrokerOverloadedThresholdPercentage); 90.0 MiB/s should go"
    )


def test_the_bytes_to_shed_are_a_part_of_the_current_traffic_though_averages_lag() -> None:
    # As before, but traffic has doubled: by the averages of 37.5 MiB/s three bundles make up 90.
    lines = {bundle: stats(75) for bundle in BUNDLES[:12]}
    halves = {bundle: BundleLoad.unseen().fold(stats(37.5)) for bundle in lines}
    decisions = shed(cluster([broker("b1", 0.9, lines), broker("b2", 0.1)], loads=halves))
    assert len(moved(decisions)) == 3
    assert decisions[0].sentence.endswith("90.0 MiB/s should go")


def test_another_limit_is_obeyed() -> None:
    rules = replace(RULES, overload=OverloadRules(overloaded_ratio=0.5))
    assert moved(shed(even_cluster({"b1": 0.6, "b2": 0.1}, 12), rules))


def test_below_the_limit_it_says_how_far_everybody_is() -> None:
    (skip,) = shed(even_cluster({"b1": 0.84, "b2": 0.0}))
    assert skip.sentence == (
        "skip cluster: below threshold: b1 is highest at 84.0%, until 85.0% "
        "(loadBalancerBrokerOverloadedThresholdPercentage)"
    )


def test_where_all_are_as_full_nothing_goes_round_in_circles() -> None:
    decisions = shed(even_cluster({"b1": 0.9, "b2": 0.9}))
    assert [skip.reason for skip in skips(decisions)] == [Reason.NO_GAIN, Reason.NO_GAIN]


def test_load_that_is_on_its_way_is_not_shed_again() -> None:
    lines = {A: stats(450), B: stats(450)}
    reports = [broker("b1", 0.9, lines), broker("b2", 0.0)]
    (skip,) = shed(cluster(reports, moves=[InFlight(A, "b1", "b2")]))
    assert skip.reason is Reason.BELOW_THRESHOLD


def test_an_overloaded_broker_without_bundles_is_reported() -> None:
    (skip,) = shed(cluster([broker("b1", 0.9), broker("b2", 0.1, {A: stats(1)})]))
    assert skip.sentence == (
        "skip b1: no bundles: until it owns a bundle: its load comes from something else; "
        "90.0% is 5.0 points above the limit of 85.0% "
        "(loadBalancerBrokerOverloadedThresholdPercentage)"
    )


def test_a_sole_bundle_of_one_topic_comes_with_an_advice() -> None:
    lone = cluster([broker("b1", 0.9, {A: stats(900, topics=1)}), broker("b2", 0.1)])
    (skip,) = shed(lone)
    assert skip.reason is Reason.SOLE_BUNDLE
    assert skip.detail.endswith("give its one topic more partitions")


def test_one_topic_that_is_too_much_by_itself_stays_and_the_others_go() -> None:
    lines = {A: stats(800, topics=1), B: stats(60), C: stats(40)}
    view = cluster([broker("b1", 0.9, lines), broker("b2", 0.2, {BUNDLES[3]: stats(200)})])
    decisions = shed(view)
    assert [each.bundle for each in moved(decisions)] == [B, C]
    (advice,) = skips(decisions)
    assert (advice.subject, advice.reason) == (str(A), Reason.HOT_TOPIC)
    assert advice.detail == (
        "its one topic has 800.0 MiB/s, more than the 90.0 MiB/s that should go, and would "
        "overload its receiver, until it is spread: give its one topic more partitions"
    )


def test_several_topics_that_are_too_much_together_are_not_a_hot_topic() -> None:
    lines = {A: stats(800, topics=2), B: stats(60), C: stats(40)}
    view = cluster([broker("b1", 0.9, lines), broker("b2", 0.2, {BUNDLES[3]: stats(200)})])
    assert skips(shed(view)) == []


def test_alone_in_the_cluster_it_sheds_nothing() -> None:
    assert [skip.reason for skip in skips(shed(even_cluster({"b1": 0.9})))] == [
        Reason.TOO_FEW_BROKERS
    ]


def test_in_a_closed_loop_the_overload_ends_and_nothing_moves_any_more() -> None:
    world = World.of(SHEDDER, {"b1": [50] * 19, "b2": [50] * 4, "b3": [50] * 2})
    counts = [len(world.cycle()) for _ in range(10)]
    assert counts[0] > 0
    assert max(world.usage.values()) < 0.85
    assert counts[2:] == [0] * 8
