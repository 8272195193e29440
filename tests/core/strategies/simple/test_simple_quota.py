import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_ctl.core.model.load import (
    BrokerLoad,
    BundleStats,
    ResourceQuota,
    ResourceUsage,
    SystemUsage,
)
from broker_ctl.core.strategies.simple import (
    BANDWIDTH_BYTES,
    CPU_PER_MSG,
    MEMORY_MIB,
    MSG_RATE,
    Clamp,
    Factors,
    QuotaBook,
    default_after,
    quota_sum,
    smooth_quota,
    times,
)

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0
OLD = ResourceQuota(100.0, 100.0, 200_000.0, 200_000.0, 50.0)


@pytest.mark.parametrize(
    ("sample", "elapsed_s", "expected"),
    [
        # Up within half an hour, down within a day.
        (200.0, 15 * MINUTE_S, 150.0),
        (200.0, 30 * MINUTE_S, 200.0),
        (200.0, 5 * HOUR_S, 200.0),
        (50.0, 12 * HOUR_S, 75.0),
        (50.0, 2 * DAY_S, 50.0),
        (0.0, DAY_S, 5.0),
        (200.0, -1.0, 100.0),
    ],
)
def test_a_quota_follows_a_rise_soon_and_a_fall_slowly(
    sample: float, elapsed_s: float, expected: float
) -> None:
    assert MSG_RATE.smooth(100.0, sample, elapsed_s) == pytest.approx(expected)


@given(
    st.sampled_from([MSG_RATE, BANDWIDTH_BYTES, MEMORY_MIB, CPU_PER_MSG]),
    st.floats(0, 1e12),
    st.floats(0, 1e12),
    st.floats(0, 1e9),
)
def test_a_quota_never_leaves_its_bounds(
    clamp: Clamp, old: float, sample: float, elapsed_s: float
) -> None:
    assert clamp.low <= clamp.smooth(old, sample, elapsed_s) <= clamp.high


def test_a_bundle_without_traffic_keeps_the_least_and_a_giant_gets_the_most() -> None:
    nothing = smooth_quota(OLD, BundleStats(), Factors(), DAY_S)
    assert nothing == ResourceQuota(5.0, 5.0, 10_000.0, 10_000.0, 2.0)
    giant = BundleStats(1e4, 1e4, 1e9, 1e9, topics=500_000)
    most = smooth_quota(OLD, giant, Factors(), DAY_S)
    assert most == ResourceQuota(1e4, 1e4, 1e6, 1e6, 200.0)


def test_memory_is_guessed_by_groups_of_500_topics_and_sessions() -> None:
    stats = BundleStats(topics=500, producers=250, consumers=250)
    assert smooth_quota(OLD, stats, Factors(memory_per_group_mib=30.0), DAY_S).memory_mib == 60.0


def test_a_quota_that_an_operator_set_stays() -> None:
    fixed = ResourceQuota(1.0, 2.0, 3.0, 4.0, 5.0, is_dynamic=False)
    assert smooth_quota(fixed, BundleStats(1e4), Factors(), DAY_S) is fixed


def test_factors_are_learnt_of_a_busy_cluster_only() -> None:
    usages = [SystemUsage(cpu=ResourceUsage(60.0, 800.0), memory=ResourceUsage(1000.0, 4000.0))]
    assert Factors().learn(BundleStats(1000.0, topics=15_000), usages, DAY_S) == Factors()
    busy = BundleStats(1500.0, topics=20_000)
    learnt = Factors().learn(busy, usages, DAY_S)
    assert learnt.cpu_per_msg == pytest.approx(60.0 / 1500.0)
    assert learnt.memory_per_group_mib == pytest.approx(1000.0 / 40)
    # Beyond its bounds no factor goes: 0.01 to 0.1, and 10 to 50 MiB.
    extreme = [SystemUsage(cpu=ResourceUsage(1e6, 1e6), memory=ResourceUsage(1e9, 1e9))]
    assert Factors().learn(busy, extreme, DAY_S) == Factors(0.1, 50.0)


def test_the_default_quota_is_the_mean_of_more_than_thirty_bundles() -> None:
    total = BundleStats(3100.0, 6200.0, 6.2e6, 3.1e6)
    assert default_after(OLD, total, 30, Factors(), DAY_S) is OLD
    mean = default_after(OLD, total, 31, Factors(), DAY_S)
    assert (mean.msg_rate_in, mean.msg_rate_out) == (100.0, 200.0)
    assert (mean.bandwidth_in_bytes, mean.bandwidth_out_bytes) == (200_000.0, 100_000.0)


def test_a_broker_that_nobody_measured_is_counted_by_its_bundles() -> None:
    book = QuotaBook({"known": OLD}, ResourceQuota(1.0, 2.0, 3.0, 4.0, 5.0))
    assert book.of(BrokerLoad("known")) is OLD
    lines = {"x": BundleStats(), "y": BundleStats()}
    assert book.of(BrokerLoad("new", bundles=lines)) == times(book.default, 2)
    assert quota_sum([book.default, book.default]) == times(book.default, 2)
