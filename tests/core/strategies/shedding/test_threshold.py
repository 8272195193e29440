"""The figures are those of the field's own documents: PIP-217, PIP-220, the shedder's page."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.cluster.decisions import Decision, Reason, Skip, Unload
from broker_ctl.core.cluster.view import ClusterView, InFlight
from broker_ctl.core.model.load import BundleLoad
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.core.rules.leader_rules import SheddingRules
from broker_ctl.core.strategies.shedding.threshold import ThresholdMemory, ThresholdShedder
from tests.support.clusters.views import (
    BUNDLES,
    NAMESPACE,
    NOW_S,
    Facts,
    broker,
    cluster,
    even_cluster,
    stats,
)

SHEDDER = ThresholdShedder()
RULES = SheddingRules()
LOW_RULES = replace(RULES, min_throughput_bytes=1.0)
LOWER = replace(RULES, is_lower_boundary_enabled=True)
A, B, C, D = BUNDLES[:4]
NOTHING = ThresholdMemory()


def shed(view: ClusterView, rules: SheddingRules = RULES) -> tuple[Decision, ...]:
    memory = SHEDDER.observe(NOTHING, view, rules)
    return SHEDDER.shed(view, memory, rules)


def unloaded(decisions: tuple[Decision, ...]) -> list[str]:
    return [d.source for d in decisions if isinstance(d, Unload)]


def the_skip(decisions: tuple[Decision, ...]) -> Skip:
    (skip,) = decisions
    assert isinstance(skip, Skip)
    return skip


def percent(*values: float) -> Mapping[str, float]:
    return {f"b{number}": value / 100 for number, value in enumerate(values, start=1)}


@pytest.mark.parametrize(
    ("usages", "sources"),
    [
        (percent(90, 10), ["b1"]),
        (percent(12, 2, 1, 1), []),
        (percent(50, 50, 50, 50, 50, 0), []),
        (percent(*[80] * 10, 0), []),
        (percent(*[80] * 9, 84, 0), ["b10"]),
        (percent(40, 40, 40, 40, 69, 70), ["b5", "b6"]),
        (percent(0, 0), []),
        (percent(30, 30, 30), []),
    ],
)
def test_brokers_ten_points_above_the_mean_shed(
    usages: Mapping[str, float], sources: list[str]
) -> None:
    assert sorted(set(unloaded(shed(even_cluster(usages, bundles_each=8))))) == sources


def test_the_first_observation_is_the_average_and_later_ones_count_for_a_tenth() -> None:
    memory = NOTHING
    seen = []
    for usage in (0.9, 0.5, 0.5):
        memory = SHEDDER.observe(memory, even_cluster({"b1": usage, "b2": 0.1}), RULES)
        seen.append(memory.history["b1"])
    assert seen == pytest.approx([0.9, 0.86, 0.824])


def test_the_bytes_to_shed_are_a_part_of_the_current_traffic_though_averages_lag() -> None:
    # 30 points too much and 5 for good measure are 315 of 900 MiB/s; averages know of 450.
    lines = {bundle: stats(75) for bundle in BUNDLES[:12]}
    halves = {bundle: BundleLoad.unseen().fold(stats(37.5)) for bundle in lines}
    view = cluster([broker("b1", 0.9, lines), broker("b2", 0.1)], loads=halves)
    decisions = shed(view)
    assert len(unloaded(decisions)) == 9
    assert decisions[0].sentence.endswith("315.0 MiB/s should go")


def test_towards_an_idle_broker_goes_a_part_of_what_is_carried_now() -> None:
    lines = {A: stats(100), B: stats(100)}
    hot = [broker(f"b{n}", 0.5, lines if n == 1 else {}) for n in range(1, 6)]
    tenths = {bundle: BundleLoad.unseen().fold(stats(10)) for bundle in lines}
    decisions = shed(cluster([*hot, broker("b6", 0.0)], loads=tenths), LOWER)
    assert [each.sentence.rpartition("; ")[2] for each in decisions] == ["10.0 MiB/s should go"]


def test_a_broker_that_left_is_forgotten() -> None:
    memory = SHEDDER.observe(NOTHING, even_cluster({"b1": 0.9, "b2": 0.1}), RULES)
    assert set(SHEDDER.observe(memory, even_cluster({"b1": 0.9}), RULES).history) == {"b1"}


def test_the_memory_survives_a_row_of_json() -> None:
    memory = SHEDDER.observe(NOTHING, even_cluster({"b1": 0.9, "b2": 0.1}), RULES)
    assert SHEDDER.recall(json.loads(json.dumps(memory.to_row()))) == memory
    assert SHEDDER.recall(None) == NOTHING


def test_the_heaviest_bundles_go_until_the_excess_and_a_margin_are_reached() -> None:
    # Mean 50 %, limit 60 %: 30 points too much and 5 for good measure of 900 MiB/s are 315.
    lines = {A: stats(100), B: stats(200), C: stats(250), D: stats(350)}
    view = cluster([broker("b1", 0.9, lines), broker("b2", 0.1)])
    decisions = shed(view)
    assert [d.bundle for d in decisions if isinstance(d, Unload)] == [D]
    assert decisions[0].sentence == (
        f"unload {D} from b1: overloaded: 90.0% is 40.0 points above the mean of 50.0% "
        "(loadBalancerBrokerThresholdShedderPercentage); "
        "315.0 MiB/s should go"
    )
    lighter = cluster(
        [broker("b1", 0.9, {A: stats(300), B: stats(300), C: stats(300)}), broker("b2", 0.1)]
    )
    assert [d.bundle for d in shed(lighter) if isinstance(d, Unload)] == [A, B]


def test_equalised_brokers_are_left_alone_though_their_averages_still_differ() -> None:
    memory = SHEDDER.observe(NOTHING, even_cluster({"b1": 0.9, "b2": 0.1}), RULES)
    equal = even_cluster({"b1": 0.5, "b2": 0.5})
    memory = SHEDDER.observe(memory, equal, RULES)
    assert memory.history == pytest.approx({"b1": 0.86, "b2": 0.14})
    assert the_skip(SHEDDER.shed(equal, memory, RULES)).reason is Reason.BELOW_THRESHOLD


def test_load_that_is_on_its_way_is_not_shed_again() -> None:
    lines = {A: stats(200), B: stats(200), C: stats(200), D: stats(200)}
    reports = [broker("b1", 0.8, lines), broker("b2", 0.0)]
    assert unloaded(shed(cluster(reports))) == ["b1", "b1"]
    moves = [InFlight(A, "b1", "b2"), InFlight(B, "b1", "b2")]
    assert unloaded(shed(cluster(reports, moves=moves))) == []


def test_a_passing_peak_is_not_shed() -> None:
    memory = SHEDDER.observe(NOTHING, even_cluster({"b1": 0.3, "b2": 0.3}), RULES)
    peak = even_cluster({"b1": 0.9, "b2": 0.3})
    memory = SHEDDER.observe(memory, peak, RULES)
    assert the_skip(SHEDDER.shed(peak, memory, RULES)).reason is Reason.BELOW_THRESHOLD


@pytest.mark.parametrize(
    ("usages", "sources"),
    [
        (percent(50, 50, 50, 50, 50, 0), ["b1"]),
        (percent(*[80] * 10, 0), ["b1"]),
        (percent(12, 2, 1, 1), []),
        (percent(30, 30, 25), []),
    ],
)
def test_with_the_lower_boundary_an_idle_broker_is_fed(
    usages: Mapping[str, float], sources: list[str]
) -> None:
    decisions = shed(even_cluster(usages, bundles_each=16), LOWER)
    assert sorted(set(unloaded(decisions))) == sources


def test_an_idle_broker_is_fed_half_the_threshold() -> None:
    # 10 % * 0.5 of 500 MiB/s are 25: one bundle of 50.
    decisions = shed(even_cluster(percent(50, 50, 50, 50, 50, 0), bundles_each=10), LOWER)
    assert [type(d) for d in decisions] == [Unload]
    sentence = decisions[0].sentence
    assert "b6 at 0.0% is 41.7 points below the mean of 41.7% (loadBalancer" in sentence
    assert "; 25.0 MiB/s" in sentence


def test_a_broker_that_is_being_filled_is_not_idle_any_more() -> None:
    rules = replace(LOWER, min_throughput_bytes=1.0)
    lines = {bundle: stats(20) for bundle in BUNDLES[:10]}
    reports = [
        broker("b1", 0.2, lines),
        # Higher, but with nothing to give: its one bundle is all that it has.
        broker("b2", 0.21, {BUNDLES[10]: stats(210)}),
        broker("b3", 0.0),
    ]
    memory = SHEDDER.observe(NOTHING, cluster(reports), rules)
    assert unloaded(SHEDDER.shed(cluster(reports), memory, rules)) == ["b1"]
    moves = [InFlight(bundle, "b1", "b3") for bundle in BUNDLES[:3]]
    filling = cluster(reports, moves=moves)
    assert unloaded(SHEDDER.shed(filling, memory, rules)) == []


def skip_of(view: ClusterView, rules: SheddingRules = RULES) -> tuple[str, Reason]:
    skip = the_skip(shed(view, rules))
    return skip.subject, skip.reason


def two_brokers(**facts: Unpack[Facts]) -> ClusterView:
    lines = {A: stats(400), B: stats(400)}
    return cluster([broker("b1", 0.8, lines), broker("b2", 0.0)], **facts)


def test_a_cluster_of_one_sheds_nothing() -> None:
    assert skip_of(even_cluster({"b1": 0.9})) == ("cluster", Reason.TOO_FEW_BROKERS)


def test_too_little_throughput_is_not_worth_a_disturbance() -> None:
    lines = {A: stats(10), B: stats(10)}
    view = cluster([broker("b1", 0.9, lines), broker("b2", 0.1)])
    assert skip_of(view) == ("b1", Reason.LOW_THROUGHPUT)
    assert unloaded(shed(view, LOW_RULES)) == ["b1"]


def test_a_sole_bundle_is_not_given_up() -> None:
    view = cluster([broker("b1", 0.9, {A: stats(900)}), broker("b2", 0.1)])
    assert skip_of(view) == ("b1", Reason.SOLE_BUNDLE)


def test_pinned_bundles_are_not_given_up() -> None:
    heartbeats = [Ring.even(Namespace("pulsar", f"b{n}:8080"), 1) for n in (1, 2)]
    lines = {ring.bundles[0]: stats(450) for ring in heartbeats}
    view = cluster([broker("b1", 0.9, lines), broker("b2", 0.1)], rings=heartbeats)
    assert skip_of(view) == ("b1", Reason.PINNED)


def test_a_bundle_within_its_grace_period_stays() -> None:
    just_now = {A: NOW_S - 1799, B: NOW_S - 10}
    assert skip_of(two_brokers(unloaded_s=just_now)) == ("b1", Reason.IN_GRACE)
    assert unloaded(shed(two_brokers(unloaded_s={A: NOW_S - 1800, B: NOW_S}))) == ["b1"]


def test_excluded_namespaces_stay() -> None:
    rules = replace(RULES, excluded_namespaces=frozenset([NAMESPACE]))
    assert skip_of(two_brokers(), rules) == ("b1", Reason.EXCLUDED)


def test_a_range_that_left_the_ring_stays() -> None:
    assert skip_of(two_brokers(rings=[Ring.even(NAMESPACE, 3)])) == ("b1", Reason.GONE)


def test_a_bundle_that_is_being_split_stays() -> None:
    assert skip_of(two_brokers(splitting=[A, B])) == ("b1", Reason.MOVING)


def test_bundles_that_the_owner_has_not_reported_stay() -> None:
    reports = [
        broker("b1", 0.1),
        broker("b2", 0.8, {A: stats(400), B: stats(400)}),
        broker("b3", 0.0),
    ]
    view = cluster(reports, owners={A: "b1", B: "b1"})
    assert skip_of(view) == ("b1", Reason.NOT_MEASURED)


def test_a_bundle_that_would_only_carry_the_overload_along_stays_and_lighter_ones_go() -> None:
    lines = {A: stats(650), B: stats(50)}
    view = cluster([broker("b1", 0.7, lines), broker("b2", 0.3, {C: stats(300)})])
    assert [d.bundle for d in shed(view) if isinstance(d, Unload)] == [B]


def test_without_a_receiver_no_broker_sheds() -> None:
    lines = {A: stats(400), B: stats(400)}
    view = cluster([broker("b1", 0.8, lines), broker("b2", 0.0, is_draining=True)])
    drained, few = shed(view)
    assert (drained.reason, few.reason) == (Reason.DRAINING, Reason.TOO_FEW_BROKERS)
    view = cluster([broker("b1", 0.8, lines), broker("b2", 0.0, age_s=3600)])
    stale, few = shed(view)
    assert (stale.reason, few.reason) == (Reason.STALE_REPORT, Reason.TOO_FEW_BROKERS)


def test_the_reason_given_is_the_most_frequent_one() -> None:
    lines = {A: stats(300), B: stats(300), C: stats(300)}
    view = cluster(
        [broker("b1", 0.9, lines), broker("b2", 0.1)],
        unloaded_s={A: NOW_S, B: NOW_S},
        splitting=[C],
    )
    skip = the_skip(shed(view))
    assert skip.reason is Reason.IN_GRACE
    assert "(2 in grace, 1 moving)" in skip.detail


usages_of = st.lists(st.floats(0, 1), min_size=2, max_size=6)


@given(usages_of, usages_of, st.integers())
def test_the_same_view_gives_the_same_decisions_for_any_order_of_reports(
    now: list[float], past: list[float], seed: int
) -> None:
    reports = [
        broker(f"b{n}", usage, {b: stats(usage * 300 + n) for b in BUNDLES[2 * n : 2 * n + 2]})
        for n, usage in enumerate(now)
    ]
    memory = ThresholdMemory({f"b{n}": usage for n, usage in enumerate(past)})
    views = [cluster(order, draw_seed=seed) for order in (reports, reports[::-1])]
    one, other = (SHEDDER.shed(view, memory, LOW_RULES) for view in views)
    assert one == other
    assert one == SHEDDER.shed(views[0], memory, LOW_RULES)
    assert one


@given(usages_of)
def test_only_brokers_above_the_mean_give_and_only_what_they_own(now: list[float]) -> None:
    view = even_cluster({f"b{n}": usage for n, usage in enumerate(now)}, bundles_each=3)
    mean = sum(now) / len(now)
    for decision in shed(view, LOW_RULES):
        if isinstance(decision, Unload):
            source = view.brokers[decision.source]
            assert source.usage_ratio > mean
            assert decision.bundle in source.owned
