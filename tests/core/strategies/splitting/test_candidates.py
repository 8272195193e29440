from dataclasses import replace
from typing import Unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.cluster.decisions import Reason, Skip, Split
from broker_ctl.core.cluster.view import ClusterView, InFlight
from broker_ctl.core.model.counting import Streaks
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.model.names import Bundle, BundleRange, Namespace, Ring
from broker_ctl.core.rules.leader_rules import MIB, SplitRules
from broker_ctl.core.strategies.splitting.candidates import REMEDY, candidates, observe
from tests.support.clusters.views import (
    BUNDLES,
    NAMESPACE,
    NOW_S,
    RING,
    Facts,
    broker,
    cluster,
    stats,
)

RULES = SplitRules()
A, B, C, D = BUNDLES[:4]
HOT = stats(150)
SHARE = "(loadBalancerNamespaceBundleMaxBrokerPercentage of the mean usage)"


def seen(line: BundleStats, **facts: Unpack[Facts]) -> ClusterView:
    reports = [broker("b1", 0.5, {A: line}), broker("b2", 0.0)]
    return cluster(reports, **facts)


def only(view: ClusterView, rules: SplitRules = RULES) -> Split | Skip:
    (decision,) = candidates(view, rules)
    return decision


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (BundleStats(topics=1001), Reason.TOPICS),
        (BundleStats(topics=2, producers=500, consumers=501), Reason.SESSIONS),
        (BundleStats(15_000, 15_001, topics=2), Reason.MSG_RATE),
        (BundleStats(0, 0, 50 * MIB, 50 * MIB + 1, topics=2), Reason.BANDWIDTH),
        (BundleStats(9e9, 9e9, 9e9, 9e9, 5000, 5000, 5000), Reason.TOPICS),
        (BundleStats(9e9, 9e9, 9e9, 9e9, 5, 5000, 5000), Reason.SESSIONS),
        (BundleStats(9e9, 9e9, 9e9, 9e9, 5), Reason.MSG_RATE),
    ],
)
def test_a_bundle_above_a_limit_is_split_for_the_first_reason_in_order(
    line: BundleStats, reason: Reason
) -> None:
    decision = only(seen(line))
    assert isinstance(decision, Split)
    assert (decision.bundle, decision.owner, decision.reason) == (A, "b1", reason)
    assert decision.boundaries == (A.range.high // 2,)


@pytest.mark.parametrize(
    "line",
    [
        BundleStats(topics=1000, producers=500, consumers=500),
        BundleStats(15_000, 15_000, 50 * MIB, 50 * MIB, 2),
    ],
)
def test_a_bundle_at_its_limits_is_left_alone_without_a_word(line: BundleStats) -> None:
    assert candidates(seen(line), RULES) == ()


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_zero_or_less_does_not_limit(limit: int) -> None:
    line = BundleStats(topics=2, producers=9000)
    assert candidates(seen(line), replace(RULES, max_sessions=limit)) == ()


def test_the_sentence_says_what_and_why() -> None:
    assert only(seen(HOT)).sentence == (
        f"split {A} of b1 at 0x08000000: bandwidth: 150.0 MiB/s, more than 100.0 MiB/s "
        "(loadBalancerNamespaceBundleMaxBandwidthMbytes)"
    )


def test_only_the_owner_can_cut_by_topics() -> None:
    decision = only(seen(HOT), replace(RULES, algorithm="topic_count_equally_divide"))
    assert isinstance(decision, Split)
    assert (decision.algorithm, decision.boundaries) == ("topic_count_equally_divide", ())


def skipped(view: ClusterView, rules: SplitRules = RULES) -> Reason:
    decision = only(view, rules)
    assert isinstance(decision, Skip)
    return decision.reason


def test_a_bundle_of_one_topic_is_not_split_for_ever() -> None:
    decision = only(seen(stats(150, topics=1)))
    assert isinstance(decision, Skip)
    assert decision.reason is Reason.HOT_TOPIC
    assert decision.detail == (
        f"its one topic has 150.0 MiB/s; {REMEDY}; and fewer than 2 topics, until it has more; "
        "it has 150.0 MiB/s, more than 100.0 MiB/s (loadBalancerNamespaceBundleMaxBandwidthMbytes)"
    )


def test_one_topic_with_too_many_consumers_is_not_a_hot_one() -> None:
    line = BundleStats(topics=1, producers=500, consumers=501)
    assert skipped(seen(line)) is Reason.TOO_FEW_TOPICS


def test_a_bundle_whose_owner_has_named_a_hot_topic_is_not_split() -> None:
    view = seen(HOT)
    known = replace(view.bundles[A], hot_topic="97% of its traffic is that of persistent://t/n/x")
    decision = only(replace(view, bundles={**view.bundles, A: known}))
    assert isinstance(decision, Skip)
    assert decision.reason is Reason.HOT_TOPIC
    assert decision.detail.startswith("97% of its traffic is that of persistent://t/n/x; splits")


def test_a_range_that_left_the_ring_is_not_split() -> None:
    assert skipped(seen(HOT, rings=[Ring.even(NAMESPACE, 3)])) is Reason.GONE
    assert skipped(seen(HOT, rings=[])) is Reason.GONE


def test_a_bundle_that_moves_or_is_being_split_is_not_split() -> None:
    assert skipped(seen(HOT, moves=[InFlight(A, "b1", "b2")])) is Reason.MOVING
    assert skipped(seen(HOT, splitting=[A])) is Reason.MOVING


def test_a_child_is_not_split_again_before_it_has_cooled_down() -> None:
    assert skipped(seen(HOT, split_s={A: NOW_S - 59})) is Reason.COOLING_DOWN
    assert isinstance(only(seen(HOT, split_s={A: NOW_S - 60})), Split)


def test_a_single_hash_cannot_be_split() -> None:
    tiny = Bundle(NAMESPACE, BundleRange(0, 1))
    ring = Ring(NAMESPACE, (0, 1, 0xFFFFFFFF), 0)
    assert skipped(cluster([broker("b1", 0.5, {tiny: HOT})], rings=[ring])) is Reason.INDIVISIBLE


def test_a_heartbeat_bundle_is_not_split() -> None:
    ring = Ring.even(Namespace("pulsar", "b1:8080"), 1)
    view = cluster([broker("b1", 0.5, {ring.bundles[0]: HOT})], rings=[ring])
    assert skipped(view) is Reason.PINNED


def test_a_bundle_whose_new_owner_has_not_reported_it_is_not_judged() -> None:
    assert candidates(seen(HOT, owners={A: "b2"}), RULES) == ()


def test_bundles_of_a_namespace_are_limited_and_splits_under_way_count() -> None:
    lines = {A: HOT, B: stats(140)}
    view = cluster([broker("b1", 0.5, lines)], splitting=[C])
    first, second = candidates(view, replace(RULES, max_bundles_per_namespace=18))
    assert isinstance(first, Split)
    assert (second.reason, second.detail) == (
        Reason.MAX_BUNDLES,
        (
            "tenant/ns has 18 bundles, the most (loadBalancerNamespaceMaximumBundles), until some "
            "are merged; it has 140.0 MiB/s, more than 100.0 MiB/s "
            "(loadBalancerNamespaceBundleMaxBandwidthMbytes)"
        ),
    )


def test_a_cycle_splits_the_worst_bundles_first_up_to_its_limit() -> None:
    lines = {A: stats(110), B: stats(120, topics=9000), C: stats(500), D: stats(130)}
    decisions = candidates(cluster([broker("b1", 0.5, lines)]), replace(RULES, max_per_cycle=2))
    assert [d.bundle for d in decisions if isinstance(d, Split)] == [B, C]
    assert [d.reason for d in decisions if isinstance(d, Skip)] == [Reason.CYCLE_LIMIT] * 2


@given(st.lists(st.floats(0, 400), min_size=16, max_size=16), st.integers(10, 30))
def test_splits_never_exceed_a_limit_and_always_fit_the_ring(
    mib: list[float], max_bundles: int
) -> None:
    lines = {bundle: stats(load) for bundle, load in zip(BUNDLES, mib, strict=True)}
    rules = replace(RULES, max_bundles_per_namespace=max_bundles)
    decisions = candidates(cluster([broker("b1", 0.5, lines)]), rules)
    splits = [decision for decision in decisions if isinstance(decision, Split)]
    assert len(splits) <= rules.max_per_cycle
    ring = RING
    for split in splits:
        ring = ring.split(split.bundle, split.boundaries)
    assert len(ring.bundles) <= max(max_bundles, len(RING.bundles))
    reversed_lines = dict(reversed(lines.items()))
    assert candidates(cluster([broker("b1", 0.5, reversed_lines)]), rules) == decisions


# Hit counts.


def test_by_default_one_round_is_enough() -> None:
    view = seen(HOT)
    assert isinstance(candidates(view, RULES, observe(Streaks(), view, RULES))[0], Split)


def test_a_bundle_must_be_above_its_limit_in_more_rounds_in_a_row_than_are_let_pass() -> None:
    # Three, as Pulsar's extensible load manager has it: the fourth round splits.
    hot, quiet, rules = seen(HOT), seen(stats(1)), replace(RULES, hit_count=3)
    hits: Streaks[Bundle] = Streaks()
    for view in (hot, hot, hot, quiet, hot, hot, hot):
        hits = observe(hits, view, rules)
        assert not any(isinstance(one, Split) for one in candidates(view, rules, hits))
    (skip,) = candidates(hot, rules, hits)
    assert (skip.reason, skip.detail) == (
        Reason.HIT_COUNT,
        (
            "above a limit in 3 rounds in a row, until 4 "
            "(loadBalancerNamespaceBundleSplitConditionHitCountThreshold); it has 150.0 MiB/s, "
            "more than 100.0 MiB/s (loadBalancerNamespaceBundleMaxBandwidthMbytes)"
        ),
    )
    assert isinstance(candidates(hot, rules, observe(hits, hot, rules))[0], Split)


def test_a_round_in_which_nobody_reports_it_does_not_count_at_all() -> None:
    hits = observe(Streaks(), seen(HOT), RULES)
    hits = observe(hits, seen(HOT, owners={A: "b2"}), RULES)
    assert hits.of(A) == 1
    assert observe(hits, seen(stats(1)), RULES).of(A) == 0


def test_a_bundle_that_cannot_be_split_is_skipped_for_that_and_not_for_its_hit_count() -> None:
    (skip,) = candidates(seen(stats(150, topics=1)), replace(RULES, hit_count=3), Streaks())
    assert skip.reason is Reason.HOT_TOPIC


def test_every_hot_bundle_of_a_large_cluster_is_found() -> None:
    ring = Ring.even(NAMESPACE, 2000)
    lines = {
        bundle: stats(150 if index % 500 == 0 else 1) for index, bundle in enumerate(ring.bundles)
    }
    view = cluster([broker("b1", 0.5, lines)], rings=[ring])
    hits = observe(Streaks(), view, RULES)
    assert hits.counts == dict.fromkeys(ring.bundles[::500], 1)
    rules = replace(RULES, max_bundles_per_namespace=4000)
    decisions = candidates(view, rules, hits)
    assert {one.bundle for one in decisions if isinstance(one, Split)} == set(ring.bundles[::500])


# Shares of a mean broker.

SHARED = replace(RULES, max_share_ratio=0.1, least_usage_ratio=0.02)


def shares(first: float, second: float, *mib: float) -> ClusterView:
    """Two brokers; the first has bundles of ``mib`` MiB/s each, the second one of 10."""
    lines = {bundle: stats(each) for bundle, each in zip(BUNDLES[1:], mib, strict=False)}
    return cluster([broker("b1", first, lines), broker("b2", second, {A: stats(10)})])


def split(decisions: tuple[Split | Skip, ...]) -> list[Bundle]:
    return [each.bundle for each in decisions if isinstance(each, Split)]


def test_a_bundle_above_a_tenth_of_a_mean_broker_is_halved_by_its_traffic() -> None:
    """Of 60 % and nothing the mean is 30 %; at a seventh of it 12 % are too much, 4 % are not."""
    view = shares(0.6, 0.0, 120, *[40] * 12)
    decision = only(view, replace(SHARED, max_share_ratio=0.14, max_bandwidth_bytes=0))
    assert isinstance(decision, Split)
    assert (decision.bundle, decision.reason) == (B, Reason.BROKER_SHARE)
    assert (decision.algorithm, decision.boundaries) == ("traffic_equally_divide", ())
    assert decision.detail == f"12.0% of a broker's capacity, more than 4.2% {SHARE}"


def test_a_share_at_its_limit_is_left_alone_and_without_a_limit_every_share_is() -> None:
    view = shares(0.5, 0.3, 8, 92)
    at_limit = replace(SHARED, max_share_ratio=0.1, max_bandwidth_bytes=0)
    assert split(candidates(view, at_limit)) == [C, A]
    assert candidates(shares(0.5, 0.0, *[10] * 10), replace(SHARED, max_share_ratio=0.2)) == ()
    assert candidates(view, replace(at_limit, max_share_ratio=0.0)) == ()


def test_where_there_is_hardly_any_load_no_share_is_too_large() -> None:
    """The only bundle of an idle cluster: all that there is, and 2 % of a broker."""
    assert candidates(shares(0.02, 0.0, 5), SHARED) == ()
    assert len(candidates(shares(0.021, 0.0, 5), SHARED)) == 1


def test_a_broker_on_its_way_down_is_not_in_the_mean() -> None:
    lines = {bundle: stats(10) for bundle in BUNDLES[:10]}
    leaving = broker("b2", 0.0, is_draining=True)
    assert candidates(cluster([broker("b1", 0.5, lines), leaving]), SHARED) == ()
    staying = broker("b2", 0.0)
    assert len(candidates(cluster([broker("b1", 0.5, lines), staying]), SHARED)) == 10


def test_a_share_is_one_of_a_mean_broker_wherever_the_bundle_lives() -> None:
    """Half of a broker a fifth as large as the mean one is a tenth of a mean broker."""
    small = replace(broker("b1", 0.5, {A: stats(10)}), size_ratio=0.2)
    large = replace(broker("b2", 0.5, {b: stats(10) for b in BUNDLES[1:11]}), size_ratio=1.8)
    rules = replace(SHARED, max_share_ratio=0.19)
    splits = candidates(cluster([small, large]), rules)
    assert split(splits) == [A]
    assert splits[0].detail == f"10.0% of a broker's capacity, more than 9.5% {SHARE}"


def test_of_several_excesses_the_share_is_the_reason_and_the_worst_one_ranks() -> None:
    view = shares(0.5, 0.3, 30, 200)
    decisions = candidates(view, SHARED)
    assert split(decisions) == [C, A, B]
    assert {each.reason for each in decisions} == {Reason.BROKER_SHARE}


def test_rounds_above_a_share_count_as_any_others() -> None:
    view, rules = shares(0.5, 0.3, 30), replace(SHARED, hit_count=1)
    once = observe(Streaks(), view, rules)
    assert {each.reason for each in candidates(view, rules, once)} == {Reason.HIT_COUNT}
    twice = observe(once, view, rules)
    assert {each.reason for each in candidates(view, rules, twice)} == {Reason.BROKER_SHARE}
