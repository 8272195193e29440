"""When a load report is worth a write (docs: pulsar-report-rules, pulsar-simple-manager)."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from broker_ctl.core.model.load import BrokerLoad, UsageWeights, max_usage


class ReportReason(StrEnum):
    """Why a report is written; a label of the counter."""

    FIRST = "first"
    BUNDLES = "bundles"
    AGE = "age"
    USAGE = "usage"
    RATE = "rate"
    THROUGHPUT = "throughput"


@dataclass(frozen=True, slots=True)
class ReportRules:
    """When to measure and when to write.

    Attributes:
        min_interval_s: pause between two judgements (loadBalancerReportUpdateMinIntervalMillis).
        max_interval_s: a report is never older (loadBalancerReportUpdateMaxIntervalMinutes).
        threshold_percent: change that is worth a write
            (loadBalancerReportUpdateThresholdPercentage).
        weights: of the resources, as everywhere since Pulsar 4.0.
        is_by_resource: the Simple manager's conditions: a change of any resource by itself, and no
            change of traffic.
        host_interval_s: how often usage is measured (loadBalancerHostUsageCheckIntervalMinutes).
        stats_interval_s: how often traffic is asked for (statsUpdateFrequencyInSecs).
        max_bytes: a report is never larger; what is reckoned is the most that a line can take,
            so that it comes to about half (zookeeperJuteMaxBufferBytes, less what surrounds it).
        settle_s: from a bundle that came or went to the report that says so: long enough that a
            batch of them makes one report.
    """

    min_interval_s: float = 5.0
    max_interval_s: float = 15 * 60.0
    threshold_percent: float = 10.0
    weights: UsageWeights = field(default_factory=UsageWeights)
    is_by_resource: bool = False
    host_interval_s: float = 60.0
    stats_interval_s: float = 60.0
    settle_s: float = 0.5
    max_bytes: int = 1_000_000


@dataclass(frozen=True, slots=True)
class ReportDigest:
    """What of a report is compared with the next one; ``resources`` in percent of their limits."""

    usage_points: float
    msg_rate: float
    throughput: float
    bundles: frozenset[str]
    resources: tuple[float, ...] = ()

    @classmethod
    def of(
        cls, load: BrokerLoad, weights: UsageWeights, bundles: Iterable[str] | None = None
    ) -> Self:
        """The essence of a report; ``bundles`` are all of them where not all are listed."""
        total = load.total
        return cls(
            max_usage(load.usage, weights) * 100,
            total.msg_rate,
            total.throughput,
            frozenset(load.bundles if bundles is None else bundles),
            tuple(resource.percent for resource in load.usage.resources),
        )


def report_reason(
    written: ReportDigest | None,
    written_s: float,
    now: ReportDigest,
    now_s: float,
    rules: ReportRules,
) -> ReportReason | None:
    """Why ``now`` should be written; None: the report of ``written_s`` is still good.

    Pulsar counts the bundles and lets one of twenty go unreported; here any bundle that came or
    went is worth a report, since the leader waits for it to confirm a move.
    """
    if written is None:
        return ReportReason.FIRST
    reasons = (
        (ReportReason.BUNDLES, now.bundles != written.bundles),
        (ReportReason.AGE, now_s - written_s > rules.max_interval_s),
        *_changes(written, now, rules),
    )
    return next((reason for reason, stands in reasons if stands), None)


def _changes(
    written: ReportDigest, now: ReportDigest, rules: ReportRules
) -> Iterable[tuple[ReportReason, bool]]:
    if rules.is_by_resource:
        pairs = zip(written.resources, now.resources, strict=True)
        is_changed = any(abs(new - old) > rules.threshold_percent for old, new in pairs)
        return ((ReportReason.USAGE, is_changed),)
    return (
        (
            ReportReason.USAGE,
            abs(now.usage_points - written.usage_points) > rules.threshold_percent,
        ),
        (
            ReportReason.RATE,
            _change_percent(written.msg_rate, now.msg_rate) > rules.threshold_percent,
        ),
        (
            ReportReason.THROUGHPUT,
            _change_percent(written.throughput, now.throughput) > rules.threshold_percent,
        ),
    )


def _change_percent(old: float, new: float) -> float:
    if old == new:
        return 0.0
    return math.inf if old == 0 else abs(new - old) / old * 100
