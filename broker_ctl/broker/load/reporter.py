"""The load report of this broker, the rules of its publication, and the loop that publishes it."""

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Self

from broker_ctl.broker.load.host_usage import UsageSource
from broker_ctl.clock import Clock
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.load import BrokerLoad, BundleStats, SystemUsage, UsageWeights, max_usage
from broker_ctl.core.model.names import Bundle
from broker_ctl.dataplane.bundles.interface import DataPlane
from broker_ctl.errors import DataPlaneError, StoreError
from broker_ctl.store.records.load import LocalBrokerData, line_bytes
from broker_ctl.store.records.simple import BrokerReport

log = logging.getLogger(__name__)

# Rules for publishing a load report (docs: pulsar-report-rules, pulsar-simple-manager).


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


# The traffic of a report: bundles that are listed, and those that only count in the totals.
#
# A server closes a connection that sends more than jute.maxbuffer. If a broker has more bundles
# than fit into a report, it lists the heaviest, which matter most for decisions.


@dataclass(frozen=True, slots=True)
class ReportedTraffic:
    """Traffic from one answer of the data plane.

    Attributes:
        bundles: all bundles, by their text.
        listed: the lines of the report.
        unlisted: sum over the bundles that are not listed.
    """

    bundles: frozenset[str] = frozenset()
    listed: Mapping[str, BundleStats] = field(default_factory=dict)
    unlisted: BundleStats = field(default_factory=BundleStats)

    @property
    def unlisted_bundles(self) -> int:
        """Number of bundles that are not listed."""
        return len(self.bundles) - len(self.listed)


def traffic_of(statistics: Mapping[Bundle, BundleStats], room_bytes: int) -> ReportedTraffic:
    """Choose the bundles that fit into ``room_bytes``."""
    ranked = sorted(
        (-line.throughput, -line.msg_rate, str(bundle), line) for bundle, line in statistics.items()
    )
    listed: dict[str, BundleStats] = {}
    rest: list[BundleStats] = []
    for _, _, name, line in ranked:
        room_bytes -= line_bytes(name)
        # The list ends at the first bundle that does not fit, even if lighter ones would.
        if room_bytes >= 0:
            listed[name] = line
        else:
            rest.append(line)
    names = frozenset(name for _, _, name, _ in ranked)
    return ReportedTraffic(names, dict(sorted(listed.items())), BundleStats.total_of(rest))


def names_within(names: Collection[str], room_bytes: int) -> tuple[str, ...]:
    """Names in sorted order, as many as fit."""
    kept: list[str] = []
    for name in sorted(names):
        room_bytes -= len(name.encode()) + 3
        if room_bytes < 0:
            break
        kept.append(name)
    return tuple(kept)


# The load report of this broker, and the loop that publishes it.
#
# Usage and traffic are measured at their own intervals, and soon after a bundle came or went;
# `publish_rules.py` decides whether to publish, and `traffic.py` which bundles fit. A report is
# written as a whole, from one measurement.


# Bytes for everything except the lines of bundles: addresses, listeners, totals.
_HEAD_BYTES: Final = 8192
# Maximum share of a report for the names of bundles that came, and likewise for those that went.
_NAMES_RATIO: Final = 1 / 16


@dataclass(frozen=True, slots=True)
class ReportStatistics:
    """Totals of load reports since the start.

    Attributes:
        written: reports published, by reason.
        refused: reports that the store refused; each is retried.
        unmeasured: measurements without an answer from the data plane.
        unlisted: bundles that do not fit into the report: the lightest ones.
        report: the current report, whether published or not.
    """

    written: Mapping[ReportReason, int]
    refused: int
    unmeasured: int
    unlisted: int
    report: BrokerReport


# Builds the published record from addresses, load, gains and losses.
ReportForm = Callable[[BrokerUrls, BrokerLoad, tuple[str, ...], tuple[str, ...]], BrokerReport]


class LoadReporter:
    """One per process; `first` and `run` are called once per session.

    Args:
        dataplane: reports the traffic. In the report, a bundle belongs to this broker while the
            data plane has it loaded.
        usage: measures the resource usage.
        registry: publishes the reports.
        clock: for decisions and timestamps.
        rules: called in each round, because the rules may change at run time.
        urls: addresses of this broker.
        version: of this process; reported if the data plane has none.
        form: builds the record of a load and the bundles that came and went: Pulsar's load managers
            write different records.
    """

    def __init__(
        self,
        *,
        dataplane: DataPlane,
        usage: UsageSource,
        registry: Registry,
        clock: Clock,
        rules: Callable[[], ReportRules],
        urls: BrokerUrls,
        version: str,
        form: ReportForm = LocalBrokerData,
    ) -> None:
        self._dataplane = dataplane
        self._usage = usage
        self._registry = registry
        self._clock = clock
        self._rules = rules
        self._form = form
        self._version = version
        load = BrokerLoad(urls.broker_id, started_ms=clock.wall_ms(), version=version)
        self._report = form(urls, load, (), ())
        self._traffic = ReportedTraffic()
        self._measured_usage_s: float | None = None
        self._measured_traffic_s: float | None = None
        self._gains: set[str] = set()
        self._losses: set[str] = set()
        self._written: ReportDigest | None = None
        self._written_s = 0.0
        self._changed = asyncio.Event()
        self._counts: Counter[ReportReason] = Counter()
        self._refused = 0
        self._unmeasured = 0

    def current(self) -> BrokerReport:
        """The report that would be published now."""
        return self._report

    def statistics(self) -> ReportStatistics:
        """The counts, for metrics."""
        return ReportStatistics(
            dict(self._counts),
            self._refused,
            self._unmeasured,
            self._traffic.unlisted_bundles,
            self._report,
        )

    def bundles_changed(self) -> None:
        """A bundle came or went: measure soon, not only at the next interval.

        Pulsar reports such a change only along with others, so that its leader works for minutes
        with a stale list of bundles (docs: pulsar-report-rules).
        """
        self._changed.set()

    async def first(self) -> bytes:
        """The report for this broker's registration. The one after it is always published."""
        await self._measure_usage()
        await self._measure_traffic()
        self._gains, self._losses = set(), set()
        self._written = None
        return await asyncio.to_thread(self._report.encode)

    async def run(self) -> None:
        """Measure, judge and publish until cancelled."""
        while True:
            is_changed = await self._wait(self._rules())
            await self._measure(is_changed=is_changed)
            await asyncio.sleep(0)  # each step takes a while with many bundles
            await self._publish_if_due()

    async def _wait(self, rules: ReportRules) -> bool:
        """Wait for the next round; returns True if a bundle came or went."""
        try:
            async with asyncio.timeout(rules.min_interval_s):
                await self._changed.wait()
        except TimeoutError:
            return False
        await asyncio.sleep(min(rules.settle_s, rules.min_interval_s))
        # Changes from here on are part of this round or of the next.
        self._changed.clear()
        return True

    async def _measure(self, *, is_changed: bool) -> None:
        rules, now_s = self._rules(), self._clock.now_s()
        if self._is_old(self._measured_usage_s, now_s, rules.host_interval_s):
            await self._measure_usage()
        if is_changed or self._is_old(self._measured_traffic_s, now_s, rules.stats_interval_s):
            await self._measure_traffic()

    @staticmethod
    def _is_old(measured_s: float | None, now_s: float, interval_s: float) -> bool:
        return measured_s is None or now_s - measured_s >= interval_s

    async def _measure_usage(self) -> None:
        try:
            usage = await self._usage.measure()
        except DataPlaneError as error:
            self._note_unmeasured("usage", error)
            return
        self._measured_usage_s = self._clock.now_s()
        self._update(usage, self._traffic)

    async def _measure_traffic(self) -> None:
        try:
            statistics = await self._dataplane.statistics()
        except DataPlaneError as error:
            self._note_unmeasured("traffic", error)
            return
        self._measured_traffic_s = self._clock.now_s()
        room_bytes = self._rules().max_bytes - _HEAD_BYTES - 2 * self._names_bytes
        traffic = await asyncio.to_thread(traffic_of, statistics, room_bytes)
        if (unlisted := traffic.unlisted_bundles) != self._traffic.unlisted_bundles:
            log.info(
                "%d of %d bundles do not fit into the load report", unlisted, len(traffic.bundles)
            )
        self._gains |= traffic.bundles - self._traffic.bundles
        self._losses |= self._traffic.bundles - traffic.bundles
        self._traffic = traffic
        self._update(self._report.load.usage, traffic)

    @property
    def _names_bytes(self) -> int:
        return round(self._rules().max_bytes * _NAMES_RATIO)

    def _note_unmeasured(self, what: str, error: DataPlaneError) -> None:
        # The last measurement stays in the report; its age shows the leader that it is stale.
        self._unmeasured += 1
        log.info("%s was not measured: %s; the last value stays", what, error)

    def _update(self, usage: SystemUsage, traffic: ReportedTraffic) -> None:
        # The leader ignores a second report with the same time, so the time must increase even if
        # the wall clock does not.
        updated_ms = max(self._clock.wall_ms(), self._report.load.updated_ms + 1)
        load = replace(
            self._report.load,
            usage=usage,
            bundles=traffic.listed,
            updated_ms=updated_ms,
            version=self._dataplane.declared.version or self._version,
            unlisted=traffic.unlisted,
            unlisted_bundles=traffic.unlisted_bundles,
        )
        gains, losses = (
            names_within(names, self._names_bytes) for names in (self._gains, self._losses)
        )
        self._report = self._form(self._report.urls, load, gains, losses)

    async def _publish_if_due(self) -> None:
        rules, now_s = self._rules(), self._clock.now_s()
        essence = ReportDigest.of(self._report.load, rules.weights, self._traffic.bundles)
        reason = report_reason(self._written, self._written_s, essence, now_s, rules)
        if reason is None or not self._registry.is_registered:
            return
        if reason is ReportReason.AGE:
            self._update(self._report.load.usage, self._traffic)
        try:
            await self._registry.publish(await asyncio.to_thread(self._report.encode))
        except StoreError as error:
            # Uncertain whether it was written: the next round publishes it again if it is due.
            self._refused += 1
            log.info("the load report was not written: %s; retrying", error)
            return
        self._written, self._written_s = essence, now_s
        self._gains, self._losses = set(), set()
        self._counts[reason] += 1
        log.debug("load report written: %s", reason)
