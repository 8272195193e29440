from dataclasses import replace

import pytest

from broker_ctl.core.cluster.decisions import Decision, Reason, Skip, Unload
from broker_ctl.core.cluster.view import BrokerView, ClusterView
from broker_ctl.core.model.load import BundleStats, ResourceUsage, SystemUsage, max_usage
from broker_ctl.core.model.names import Bundle, Namespace, Ring
from broker_ctl.core.rules.leader_rules import SheddingRules, SimpleRules
from broker_ctl.core.strategies.simple import SimpleShedder, is_overloaded, is_underloaded
from tests.support.clusters.views import BUNDLES, NOW_S, RING, broker, cluster, stats

SHEDDER = SimpleShedder()
RULES = SheddingRules()
A, B, C, D = BUNDLES[:4]


def usage(
    cpu: float = 10, bandwidth_in: float = 10, bandwidth_out: float = 10, direct: float = 10
) -> SystemUsage:
    return SystemUsage(
        cpu=ResourceUsage(cpu, 100),
        memory=ResourceUsage(99, 100),
        direct_memory=ResourceUsage(direct, 100),
        bandwidth_in=ResourceUsage(bandwidth_in, 100),
        bandwidth_out=ResourceUsage(bandwidth_out, 100),
    )


def using(view: BrokerView, used: SystemUsage) -> BrokerView:
    return replace(view, load=replace(view.load, usage=used), usage_ratio=max_usage(used))


def shed(view: ClusterView, rules: SheddingRules = RULES) -> tuple[Decision, ...]:
    memory = SHEDDER.observe(SHEDDER.recall(None), view, rules)
    assert memory.to_row() == {}
    return SHEDDER.shed(view, memory, rules)


def hot_and_cool(
    hot: SystemUsage,
    lines: dict[Bundle, BundleStats],
    cool: SystemUsage | None = None,
) -> ClusterView:
    return cluster(
        [
            using(broker("hot", 0, lines), hot),
            using(broker("cool", 0, {D: stats(1)}), cool or usage()),
        ]
    )


@pytest.mark.parametrize(
    ("hot", "expected", "detail"),
    [
        (usage(cpu=90), A, "CPU at 90.0 %, limit 85 %"),
        (usage(bandwidth_in=90), B, "incoming bandwidth at 90.0 %, limit 85 %"),
        (usage(bandwidth_out=90), C, "outgoing bandwidth at 90.0 %, limit 85 %"),
        (usage(direct=90), B, "direct memory at 90.0 %, limit 85 %"),
        # Two are too much: the fuller one decides.
        (usage(cpu=90, bandwidth_out=95), C, "outgoing bandwidth at 95.0 %, limit 85 %"),
    ],
)
def test_the_fullest_resource_says_which_bundle_is_first(
    hot: SystemUsage, expected: Bundle, detail: str
) -> None:
    lines = {
        A: BundleStats(msg_rate_in=900, msg_throughput_in=10, msg_throughput_out=10),
        B: BundleStats(10, 10, 900, 10, topics=5, producers=5),
        C: BundleStats(10, 10, 10, 900, topics=1),
    }
    said = f"{detail} (loadBalancerBrokerOverloadedThresholdPercentage)"
    assert shed(hot_and_cool(hot, lines)) == (Unload(expected, "hot", Reason.OVERLOADED, said),)


def test_one_bundle_goes_in_a_cycle_however_full_the_broker_is() -> None:
    lines = {A: stats(5), B: stats(4), C: stats(3)}
    assert len(shed(hot_and_cool(usage(cpu=100), lines))) == 1


@pytest.mark.parametrize("hot", [usage(cpu=85), usage(cpu=84)])
def test_up_to_the_threshold_nothing_goes_whatever_the_heap_holds(hot: SystemUsage) -> None:
    (skip,) = shed(hot_and_cool(hot, {A: stats(5), B: stats(4)}))
    assert isinstance(skip, Skip)
    assert skip.reason is Reason.BELOW_THRESHOLD
    assert skip.detail.startswith("hot is highest, CPU at")


@pytest.mark.parametrize(
    ("cool", "is_shed"),
    [
        (usage(64, 64, 64, 64), True),
        (usage(cpu=65), False),
        (usage(bandwidth_in=65), False),
        (usage(bandwidth_out=65), False),
        (usage(direct=65), False),
    ],
)
def test_another_broker_must_be_comfortable_in_all_four_resources(
    cool: SystemUsage, is_shed: bool
) -> None:
    (decision,) = shed(hot_and_cool(usage(cpu=90), {A: stats(5), B: stats(4)}, cool))
    assert isinstance(decision, Unload) is is_shed
    assert is_shed or decision.reason is Reason.NO_BROKER


def test_a_sole_bundle_stays_and_is_reported() -> None:
    (skip,) = shed(hot_and_cool(usage(cpu=90), {A: stats(5)}))
    assert isinstance(skip, Skip)
    assert skip.reason is Reason.SOLE_BUNDLE


def test_a_broker_with_nothing_to_give_says_so() -> None:
    (skip,) = shed(hot_and_cool(usage(cpu=90), {}))
    assert skip.reason is Reason.NO_BUNDLES


def test_a_bundle_in_its_grace_period_is_passed_over() -> None:
    reports = [
        using(broker("hot", 0, {A: stats(5), B: stats(4)}), usage(cpu=90)),
        using(broker("cool", 0, {D: stats(1)}), usage()),
    ]
    (first,) = shed(cluster(reports, unloaded_s={A: NOW_S - 1799}))
    assert isinstance(first, Unload)
    assert first.bundle == B
    (second,) = shed(cluster(reports, unloaded_s={A: NOW_S - 1801}))
    assert isinstance(second, Unload)
    assert second.bundle == A
    (neither,) = shed(cluster(reports, unloaded_s={A: NOW_S - 1, B: NOW_S - 1}))
    assert neither.reason is Reason.IN_GRACE


def test_a_bundle_that_left_since_the_report_counts_as_shed() -> None:
    reports = [
        using(broker("hot", 0, {A: stats(5), B: stats(5), C: stats(5)}), usage(cpu=90)),
        using(broker("cool", 0, {D: stats(1)}), usage()),
    ]
    (skip,) = shed(cluster(reports, owners={A: "cool"}))
    assert skip.reason is Reason.BELOW_THRESHOLD


def test_heartbeat_bundles_do_not_count() -> None:
    pinned = Ring.even(Namespace("pulsar", "hot:8080"), 1)
    lines = {A: stats(5), pinned.bundles[0]: stats(50)}
    view = cluster(
        [
            using(broker("hot", 0, lines), usage(cpu=90)),
            using(broker("cool", 0, {D: stats(1)}), usage()),
        ],
        rings=[RING, pinned],
    )
    (skip,) = shed(view)
    assert skip.reason is Reason.SOLE_BUNDLE


def test_one_broker_has_nobody_to_give_to() -> None:
    (skip,) = shed(cluster([using(broker("hot", 0, {A: stats(5), B: stats(1)}), usage(cpu=99))]))
    assert skip.reason is Reason.TOO_FEW_BROKERS


def test_a_report_is_overloaded_or_underloaded_by_its_usage() -> None:
    rules = SimpleRules()
    assert not is_overloaded(usage(cpu=85), rules)
    assert is_overloaded(usage(bandwidth_out=85.1), rules)
    assert is_underloaded(usage(49, 49, 49, 49), rules)
    assert not is_underloaded(usage(direct=50), rules)
