from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.model.load import (
    LONG_SAMPLES,
    SHORT_SAMPLES,
    BrokerLoad,
    BundleLoad,
    BundleStats,
    ResourceQuota,
    ResourceUsage,
    SystemUsage,
    TimeAverage,
    UsageWeights,
    max_usage,
    sample_weight,
    size_ratios,
)

rate = st.floats(1, 1e9)
USAGE = SystemUsage(
    cpu=ResourceUsage(30, 100),
    memory=ResourceUsage(900, 1000),
    direct_memory=ResourceUsage(80, 100),
    bandwidth_in=ResourceUsage(50, 100),
    bandwidth_out=ResourceUsage(20, 40),
)


def test_memory_does_not_count_by_default() -> None:
    assert max_usage(USAGE) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (UsageWeights(direct_memory=1.0), 0.8),
        (UsageWeights(memory=1.0), 0.9),
        (UsageWeights(cpu=2.0), 0.6),
        (UsageWeights(bandwidth_in=0, bandwidth_out=0), 0.3),
    ],
)
def test_each_resource_counts_by_its_weight(weights: UsageWeights, expected: float) -> None:
    assert max_usage(USAGE, weights) == pytest.approx(expected)


def test_a_resource_of_unknown_limit_counts_for_nothing() -> None:
    assert max_usage(SystemUsage(bandwidth_in=ResourceUsage(1e9, 0))) == 0


def test_the_first_sample_replaces_the_defaults_of_an_unseen_bundle() -> None:
    unseen = BundleLoad.unseen()
    assert (unseen.short.msg_rate, unseen.long.throughput) == (100.0, 100_000.0)
    seen = unseen.fold(BundleStats(msg_rate_in=7.0, topics=3))
    assert (seen.short.msg_rate, seen.long.msg_rate, seen.short.throughput) == (7.0, 7.0, 0.0)
    assert (seen.short.samples, seen.topics) == (1, 3)


def test_the_mean_is_exact_until_the_window_is_full_and_decays_afterwards() -> None:
    average = TimeAverage(2)
    for value in (10.0, 20.0, 40.0):
        average = average.fold(BundleStats(msg_rate_in=value))
    assert average.samples == 2
    assert average.msg_rate_in == pytest.approx((15.0 + 40.0) / 2)


def test_the_short_average_forgets_sooner_than_the_long_one() -> None:
    load = BundleLoad.unseen()
    for value in [0.0] * 50 + [100.0] * 20:
        load = load.fold(BundleStats(msg_throughput_out=value))
    assert load.short.throughput > 85
    assert load.long.throughput < 30
    assert (load.short.samples, load.long.samples) == (SHORT_SAMPLES, 70)
    assert load.long.max_samples == LONG_SAMPLES


@given(st.lists(rate, min_size=1, max_size=50))
def test_an_average_stays_between_its_samples(samples: list[float]) -> None:
    average = TimeAverage(SHORT_SAMPLES)
    for sample in samples:
        average = average.fold(BundleStats(msg_throughput_in=sample))
    slack = 1e-9 * max(samples)
    assert min(samples) - slack <= average.throughput <= max(samples) + slack


def test_a_broker_is_the_sum_of_its_bundles() -> None:
    one = BundleStats(1, 2, 3, 4, 5, 6, 7, 8)
    load = BrokerLoad("b1", bundles={"x": one, "y": replace(one, topics=1)})
    assert load.total == BundleStats(2, 4, 6, 8, 6, 12, 14, 16)
    assert (load.total.msg_rate, load.total.throughput, load.total.sessions) == (6, 14, 26)
    assert BrokerLoad("empty").total == BundleStats()


def fold_all(reports: list[tuple[float, float]], sample_s: float) -> BundleLoad:
    """Averages of (seconds, msg/s), each report weighed by the time since the one before."""
    load, before_s = BundleLoad.unseen(), None
    for at_s, msg_rate in reports:
        weight = sample_weight(None if before_s is None else at_s - before_s, sample_s)
        load, before_s = load.fold(BundleStats(msg_rate_in=msg_rate), weight), at_s
    return load


def test_regular_reports_average_alike_by_count_and_by_time() -> None:
    reports = [(60.0 * n, float(n % 7)) for n in range(40)]
    by_time, by_count = fold_all(reports, 60.0), fold_all(reports, 0.0)
    assert by_time.short.samples == by_count.short.samples == 10
    assert by_time.long.samples == by_count.long.samples == 40
    assert by_time.short.msg_rate == pytest.approx(by_count.short.msg_rate)
    assert by_time.long.msg_rate == pytest.approx(by_count.long.msg_rate)


@given(
    st.lists(rate, min_size=2, max_size=30),
    st.data(),
)
def test_reports_in_between_change_no_average_by_time(
    rates: list[float], data: st.DataObject
) -> None:
    regular = [(60.0 * n, value) for n, value in enumerate(rates)]
    offsets = st.lists(st.floats(0.1, 59.9), max_size=4, unique=True)
    irregular = regular[:1]
    for at_s, value in regular[1:]:
        early_s = sorted(data.draw(offsets))
        irregular += [(at_s - 60.0 + offset_s, value) for offset_s in early_s] + [(at_s, value)]
    once, often = fold_all(regular, 60.0), fold_all(irregular, 60.0)
    assert often.short.msg_rate == pytest.approx(once.short.msg_rate, rel=1e-6)
    assert often.long.msg_rate == pytest.approx(once.long.msg_rate, rel=1e-6)
    assert often.long.samples == pytest.approx(once.long.samples)


def test_by_count_a_broker_that_reports_often_is_forgotten_in_seconds() -> None:
    # An hour of 100 msg/s and a minute of 0, reported once, or every five seconds (docs:
    # pulsar-report-rules).
    hour = [(60.0 * n, 100.0) for n in range(60)]
    reported_often = hour + [(3540.0 + 5.0 * n, 0.0) for n in range(1, 13)]
    reported_once = [*hour, (3600.0, 0.0)]
    assert fold_all(reported_once, 0.0).short.msg_rate == pytest.approx(90.0)
    assert fold_all(reported_often, 0.0).short.msg_rate < 30.0
    assert fold_all(reported_once, 60.0).short.msg_rate == pytest.approx(90.0)
    assert fold_all(reported_often, 60.0).short.msg_rate == pytest.approx(90.0)


def test_a_report_at_the_same_moment_weighs_nothing() -> None:
    load = BundleLoad.unseen().fold(BundleStats(msg_rate_in=8.0))
    assert load.fold(BundleStats(msg_rate_in=99.0), sample_weight(0.0, 60.0)).short == load.short


def test_a_quota_counts_as_ample_history() -> None:
    load = BundleLoad.of_quota(ResourceQuota(10.0, 20.0, 1000.0, 2000.0))
    assert (load.short.samples, load.long.samples) == (SHORT_SAMPLES, LONG_SAMPLES)
    assert (load.short.msg_rate, load.long.throughput) == (30.0, 3000.0)
    assert load.fold(BundleStats()).short.msg_rate == pytest.approx(27.0)


def test_bundles_without_room_in_a_report_count_in_its_total() -> None:
    line = BundleStats(1, 2, 3, 4, 5, 6, 7, 8)
    load = BrokerLoad(
        "b1", bundles={"x": line}, unlisted=replace(line, topics=1), unlisted_bundles=3
    )
    assert load.total == BundleStats(2, 4, 6, 8, 6, 12, 14, 16)
    assert load.bundle_count == 4


def sizes_of(**limits: tuple[float, float]) -> Mapping[str, float]:
    """Of brokers that use half of their cpu and a tenth of their network, by both limits."""
    usages = {
        broker_id: SystemUsage(
            cpu=ResourceUsage(cpu / 2, cpu), bandwidth_in=ResourceUsage(network / 10, network)
        )
        for broker_id, (cpu, network) in limits.items()
    }
    return size_ratios(usages)


def test_a_broker_is_as_large_as_its_part_of_what_is_scarcest() -> None:
    assert sizes_of(b1=(400, 1), b2=(800, 9), b3=(1200, 2)) == {"b1": 0.5, "b2": 1.0, "b3": 1.5}


def test_brokers_are_of_one_size_where_nothing_says_otherwise() -> None:
    assert sizes_of(b1=(800, 1), b2=(800, 9)) == {"b1": 1.0, "b2": 1.0}
    assert sizes_of(b1=(800, 1), b2=(0, 9)) == {"b1": 1.0, "b2": 1.0}
    idle = {"b1": SystemUsage(cpu=ResourceUsage(0, 100)), "b2": SystemUsage()}
    assert size_ratios(idle) == {"b1": 1.0, "b2": 1.0}
    assert size_ratios({}) == {}


def test_a_resource_without_weight_does_not_change_the_size_of_a_broker() -> None:
    usages = {
        "b1": SystemUsage(memory=ResourceUsage(90, 100), cpu=ResourceUsage(10, 100)),
        "b2": SystemUsage(memory=ResourceUsage(90, 300), cpu=ResourceUsage(10, 100)),
    }
    assert size_ratios(usages) == {"b1": 1.0, "b2": 1.0}
    assert size_ratios(usages, UsageWeights(memory=1.0)) == {"b1": 0.5, "b2": 1.5}


@given(st.lists(st.sampled_from([100.0, 200.0, 400.0]), min_size=1, max_size=6))
def test_the_mean_broker_has_the_size_one(limits: list[float]) -> None:
    sizes = sizes_of(**{f"b{number}": (limit, 1) for number, limit in enumerate(limits)})
    assert sum(sizes.values()) == pytest.approx(len(limits))
