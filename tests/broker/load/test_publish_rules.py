import math
from dataclasses import replace

import pytest

from broker_ctl.broker.load.reporter import ReportDigest, ReportReason, ReportRules, report_reason
from broker_ctl.core.model.load import (
    BrokerLoad,
    BundleStats,
    ResourceUsage,
    SystemUsage,
    UsageWeights,
)

RULES = ReportRules(max_interval_s=900.0, threshold_percent=10.0)
WRITTEN = ReportDigest(50.0, 1000.0, 1e6, frozenset({"x/y/1", "x/y/2"}))


def essence(
    usage: float = 50.0, rate: float = 1000.0, bytes_s: float = 1e6, bundles: str = "12"
) -> ReportDigest:
    return ReportDigest(usage, rate, bytes_s, frozenset(f"x/y/{name}" for name in bundles))


@pytest.mark.parametrize(
    ("now", "age_s", "expected"),
    [
        (essence(), 0.0, None),
        (essence(), 900.0, None),
        (essence(), 900.1, ReportReason.AGE),
        # Points of usage, not percent of it.
        (essence(usage=60.0), 0.0, None),
        (essence(usage=60.1), 0.0, ReportReason.USAGE),
        (essence(usage=39.9), 0.0, ReportReason.USAGE),
        (essence(rate=1100.0), 0.0, None),
        (essence(rate=1101.0), 0.0, ReportReason.RATE),
        (essence(rate=899.0), 0.0, ReportReason.RATE),
        (essence(rate=0.0), 0.0, ReportReason.RATE),
        (essence(bytes_s=1.2e6), 0.0, ReportReason.THROUGHPUT),
        # One of two, as one of twenty: Pulsar waits for a change of 10 %.
        (essence(bundles="1"), 0.0, ReportReason.BUNDLES),
        (essence(bundles="123"), 0.0, ReportReason.BUNDLES),
        # As many, but others: Pulsar only counts.
        (essence(bundles="13"), 0.0, ReportReason.BUNDLES),
    ],
)
def test_when_a_report_is_due(
    now: ReportDigest, age_s: float, expected: ReportReason | None
) -> None:
    assert report_reason(WRITTEN, 1000.0, now, 1000.0 + age_s, RULES) == expected


def test_the_first_report_of_a_session_is_always_due() -> None:
    assert report_reason(None, 0.0, essence(), 0.0, RULES) == ReportReason.FIRST


@pytest.mark.parametrize(("rate", "expected"), [(0.0, None), (0.001, ReportReason.RATE)])
def test_from_nothing_every_change_is_infinite(rate: float, expected: ReportReason | None) -> None:
    idle = essence(rate=0.0)
    assert report_reason(idle, 0.0, essence(rate=rate), 0.0, RULES) == expected


def test_the_essence_weighs_resources_and_adds_up_bundles() -> None:
    usage = SystemUsage(cpu=ResourceUsage(50.0, 100.0), memory=ResourceUsage(90.0, 100.0))
    load = BrokerLoad(
        "b", usage, {"t/n/1": BundleStats(1.0, 2.0, 3.0, 4.0), "t/n/2": BundleStats(1.0)}
    )
    assert ReportDigest.of(load, UsageWeights()) == ReportDigest(
        50.0, 4.0, 7.0, frozenset({"t/n/1", "t/n/2"}), (50.0, 90.0, 0.0, 0.0, 0.0)
    )
    assert ReportDigest.of(load, UsageWeights(), ["t/n/1", "t/n/3"]).bundles == {"t/n/1", "t/n/3"}
    weighted = ReportDigest.of(load, UsageWeights(memory=1.0))
    assert math.isclose(weighted.usage_points, 90.0)


@pytest.mark.parametrize(
    ("now", "age_s", "expected"),
    [
        # The fullest resource is the same; another one is not.
        ((50.0, 20.0, 0.0, 0.0, 40.0), 0.0, None),
        ((50.0, 20.1, 0.0, 0.0, 30.0), 0.0, ReportReason.USAGE),
        ((50.0, 10.0, 0.0, 0.0, 19.9), 0.0, ReportReason.USAGE),
        ((50.0, 10.0, 0.0, 0.0, 30.0), 900.1, ReportReason.AGE),
    ],
)
def test_the_simple_manager_looks_at_each_resource_and_at_no_traffic(
    now: tuple[float, ...], age_s: float, expected: ReportReason | None
) -> None:
    rules = replace(RULES, is_by_resource=True)
    written = replace(WRITTEN, resources=(50.0, 10.0, 0.0, 0.0, 30.0))
    busier = replace(written, msg_rate=9e9, throughput=9e9, resources=now)
    assert report_reason(written, 0.0, busier, age_s, rules) == expected
    assert (
        report_reason(written, 0.0, replace(busier, bundles=frozenset()), 0.0, rules)
        == ReportReason.BUNDLES
    )
