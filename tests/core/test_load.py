from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.load import (
    LONG_SAMPLES,
    SHORT_SAMPLES,
    BrokerLoad,
    BundleLoad,
    BundleStats,
    ResourceUsage,
    SystemUsage,
    TimeAverage,
    UsageWeights,
    max_usage,
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
