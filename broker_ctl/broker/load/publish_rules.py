"""Rules for publishing a load report (docs: pulsar-report-rules, pulsar-simple-manager)."""

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
        min_interval_s: pause between two decisions (loadBalancerReportUpdateMinIntervalMillis).
        max_interval_s: maximum age of a report (loadBalancerReportUpdateMaxIntervalMinutes).
        threshold_percent: change that makes a report due
            (loadBalancerReportUpdateThresholdPercentage).
        weights: weights of the resources, the same as in placement since Pulsar 4.0.
        is_by_resource: the Simple manager's conditions: the change of each resource by itself, and
            no change of traffic.
        host_interval_s: interval of usage measurements (loadBalancerHostUsageCheckIntervalMinutes).
        stats_interval_s: interval of traffic measurements (statsUpdateFrequencyInSecs).
        max_bytes: maximum size of a report (zookeeperJuteMaxBufferBytes, less the overhead). Each
            line counts with its maximum size, so a report comes to about half of this.
        settle_s: delay from a bundle that came or went to the report of it: long enough that a
            batch of bundles makes one report.
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
    """The fields of a report that are compared; ``resources`` in percent of their limits."""

    usage_points: float
    msg_rate: float
    throughput: float
    bundles: frozenset[str]
    resources: tuple[float, ...] = ()

    @classmethod
    def of(
        cls, load: BrokerLoad, weights: UsageWeights, bundles: Iterable[str] | None = None
    ) -> Self:
        """The digest of a report; ``bundles`` also has those that the report does not list."""
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
    """Why ``now`` should be published; None if the report of ``written_s`` is still good.

    Pulsar compares the number of bundles, so that one of twenty may change unreported. Here each
    bundle that came or went makes a report due, since the leader waits for it to confirm a move.
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
