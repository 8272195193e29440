"""The load as the leader knows it: each broker's newest report, averages, and surges."""

import asyncio
import logging
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Final, NamedTuple

from broker_ctl.balancer.context.bundle_history import ReceivedReport
from broker_ctl.balancer.monitoring.simple_manager import SimpleManager
from broker_ctl.clock import Clock
from broker_ctl.coordination.children_cache import PathChildrenCache
from broker_ctl.core.cluster.surges import Past, Surge
from broker_ctl.core.cluster.view import Subject
from broker_ctl.core.machines.surge import SurgeEvent, SurgeState
from broker_ctl.core.model.counting import batched
from broker_ctl.core.model.load import BundleLoad, BundleStats, ResourceQuota, sample_weight
from broker_ctl.core.model.names import Bundle, BundleRange, Namespace, Ring
from broker_ctl.core.rules.leader_rules import NO_SURGES, SurgeRules
from broker_ctl.errors import CorruptRecord, InvalidName, NewerVersion
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.simple import BrokerReport, decode_report
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

# Surges in the load reports of one term (`core.cluster.surges`).
#
# Every report is compared with the earlier ones as it arrives. A new leader has no earlier reports
# and recognises surges from its second report of a bundle on.


class _Traffic(NamedTuple):
    """Of a bundle, a tenant or all; ``lines`` of reports."""

    bytes_s: float = 0.0
    msg_s: float = 0.0
    lines: int = 0

    def plus(self, other: "_Traffic") -> "_Traffic":
        return _Traffic(
            self.bytes_s + other.bytes_s, self.msg_s + other.msg_s, self.lines + other.lines
        )

    def minus(self, other: "_Traffic") -> "_Traffic":
        return _Traffic(
            self.bytes_s - other.bytes_s, self.msg_s - other.msg_s, self.lines - other.lines
        )

    def reaches(self, least: "_Traffic") -> bool:
        return self.bytes_s >= least.bytes_s > 0 or self.msg_s >= least.msg_s > 0


_NONE: Final = _Traffic()


class _Reading(NamedTuple):
    """When a report is read, and by what it is judged."""

    now_s: float
    rules: SurgeRules
    least: _Traffic


class SurgeMonitor:
    """Surges of the bundles and tenants that brokers report.

    Args:
        rules: called for each report, because the rules may change at run time.
    """

    def __init__(self, rules: Callable[[], SurgeRules]) -> None:
        self._rules = rules
        self._pasts: dict[Subject, Past] = {}
        self._surges: dict[Subject, Surge] = {}
        self._listeners: list[Callable[[], None]] = []
        # By broker and tenant, and sums of them.
        self._reported: dict[str, Mapping[str, _Traffic]] = {}
        self._tenants: dict[str, _Traffic] = {}
        self._total = _NONE

    def listen(self, on_surge: Callable[[], None]) -> Callable[[], None]:
        """Call back for every report that shows a surge; returns a function that stops it."""
        self._listeners.append(on_surge)
        return lambda: self._listeners.remove(on_surge)

    @property
    def has_risen(self) -> bool:
        """Whether there is a surge that no plan has considered."""
        return any(surge.state is SurgeState.RISEN for surge in self._surges.values())

    @property
    def current(self) -> Mapping[Subject, Surge]:
        """The surges that are not over."""
        return dict(self._surges)

    def advance(self, now_s: float) -> None:
        """End the surges that have been followed for long enough."""
        limit_s = self._rules().window_s
        for subject, surge in list(self._surges.items()):
            if now_s - surge.since_s >= limit_s:
                self._apply(subject, surge, SurgeEvent.LAPSED)

    def record_plan(self, surges: Mapping[Subject, Surge]) -> None:
        """A cycle has planned on a view with these surges."""
        for subject, surge in surges.items():
            # A newer surge of the same subject has not been planned for.
            if self._surges.get(subject) is surge:
                self._apply(subject, surge, SurgeEvent.PLANNED)

    def report(self, broker_id: str, now_s: float) -> "ReportReading":
        """Begin to read a report of a broker."""
        rules = self._rules()
        share = rules.least_ratio / max(1, len(self._reported))
        least = _Traffic(self._total.bytes_s * share, self._total.msg_s * share)
        return ReportReading(self, broker_id, _Reading(now_s, rules, least))

    def forget_broker(self, broker_id: str) -> None:
        """The broker is gone; its bundles will be reported by others."""
        self.replace(broker_id, {})

    def forget(self, bundle: Bundle) -> None:
        """The bundle is gone."""
        self._pasts.pop(bundle, None)
        self._surges.pop(bundle, None)

    # For `ReportReading`.

    def read(self, subject: Subject, traffic: _Traffic, reading: _Reading) -> bool:
        """Take one more reading; returns whether it shows a surge."""
        value, known = traffic.bytes_s, self._pasts.get(subject)
        if known is None:
            self._pasts[subject] = Past.of(value, reading.now_s)
            return False
        past, surge = known.at(reading.now_s, reading.rules), self._surges.get(subject)
        if traffic.reaches(reading.least) and past.has_surged(value, reading.rules):
            if surge is not None:
                surge.after(SurgeEvent.GREW)
            self._surges[subject] = Surge(past.lowest, value, reading.now_s)
            self._pasts[subject] = past.after_surge(value)
            return True
        self._pasts[subject] = past.after(value)
        event = None if surge is None else surge.event_of(value)
        if surge is not None and event is not None:
            self._apply(subject, surge, event)
        return False

    def replace(self, broker_id: str, tenants: Mapping[str, _Traffic]) -> Mapping[str, _Traffic]:
        """Take what a broker carries of each tenant; returns what all carry of these tenants."""
        before = self._reported.pop(broker_id, {})
        for tenant in before.keys() | tenants.keys():
            change = tenants.get(tenant, _NONE).minus(before.get(tenant, _NONE))
            self._total = self._total.plus(change)
            self._tenants[tenant] = self._tenants.get(tenant, _NONE).plus(change)
            if not self._tenants[tenant].lines:
                for known in (self._tenants, self._pasts, self._surges):
                    known.pop(tenant, None)
        if tenants:
            self._reported[broker_id] = tenants
        return {tenant: self._tenants[tenant] for tenant in tenants}

    def announce(self) -> None:
        """A report has shown a surge."""
        for on_surge in tuple(self._listeners):
            on_surge()

    def _apply(self, subject: Subject, surge: Surge, event: SurgeEvent) -> None:
        later = surge.after(event)
        if later is None:
            del self._surges[subject]
        else:
            self._surges[subject] = later


class ReportReading:
    """One report while it is read; its lines may come in batches."""

    def __init__(self, monitor: SurgeMonitor, broker_id: str, reading: _Reading) -> None:
        self._monitor = monitor
        self._broker_id = broker_id
        self._reading = reading
        self._tenants: dict[str, _Traffic] = {}
        self._has_surge = False

    def add(self, bundle: Bundle, stats: BundleStats) -> None:
        """Read one line."""
        if not self._reading.rules.is_enabled or bundle.namespace.is_pinned:
            return
        traffic = _Traffic(stats.throughput, stats.msg_rate, 1)
        tenant = bundle.namespace.tenant
        self._tenants[tenant] = self._tenants.get(tenant, _NONE).plus(traffic)
        self._has_surge |= self._monitor.read(bundle, traffic, self._reading)

    def close(self) -> None:
        """The last line was read: judge the tenants, and announce the surges."""
        totals = self._monitor.replace(self._broker_id, self._tenants)
        for tenant, traffic in totals.items():
            self._has_surge |= self._monitor.read(tenant, traffic, self._reading)
        if self._has_surge:
            self._monitor.announce()


# The load as the leader knows it: each broker's newest report, and averages of each bundle.
#
# A report is folded into the averages once. Pulsar's leader folds all reports again whenever one
# of them changes, so its short average covers seconds in a large cluster and hours in a quiet one
# (docs: pulsar-report-rules). `core.load.sample_weight` determines the weight of a report.
#
# A report may have thousands of lines: a thread decodes it, and its lines are folded a few at a
# time.


_AT_ONCE: Final = 100


def _undecoded(node: Versioned) -> tuple[str, bytes, int]:
    return node.path, node.data, node.stat.czxid


class LoadMonitor:
    """Lives for one term.

    Attributes:
        guessed: bundles that started with Pulsar's defaults and whose quota has not been read yet.
        surges: what has grown many times from one report to another.

    Args:
        sample_s: time that counts as one sample of the averages. 0: each report is one sample, as
            in Pulsar.
        simple: learns from each report if the Simple manager's rules are in use.
        surge_rules: when growth is a surge.
    """

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        *,
        sample_s: Callable[[], float] = lambda: 0.0,
        simple: SimpleManager | None = None,
        surge_rules: Callable[[], SurgeRules] = lambda: NO_SURGES,
        rng: random.Random,
    ) -> None:
        self._clock = clock
        self.surges = SurgeMonitor(surge_rules)
        self._sample_s = sample_s
        self.simple = simple
        self._tree = PathChildrenCache(store, paths.LOAD_REPORTS, _undecoded, rng=rng)
        self._tasks = TaskScope("load board")
        self._changed = asyncio.Event()
        self._dirty: set[str] = set()
        self._corrupt = 0
        self._reports: dict[str, ReceivedReport] = {}
        # Reports repeat the same names: each name is parsed once.
        self._names: dict[str, dict[str, Bundle]] = {}
        self._loads: dict[Bundle, BundleLoad] = {}
        self._heard_s: dict[Bundle, float] = {}
        self._folded_s: dict[Bundle, float] = {}
        self.guessed: dict[Bundle, None] = {}
        self._reporters: dict[Bundle, str] = {}

    async def start(self) -> None:
        """Watch the reports, and fold the existing ones."""
        if self.simple is not None:
            await self.simple.start()
        self._tree.listen_to_names(self._dirty.update)
        self._tree.listen(self._changed.set)
        await self._tree.start()
        await self._tree.wait_synced()
        await self._fold()
        self._tasks.keep(self._keep_up(), "fold")

    async def close(self) -> None:
        """Stop all watches, even if cancelled a second time."""
        async with AsyncExitStack() as ends:
            if self.simple is not None:
                ends.push_async_callback(self.simple.close)
            ends.push_async_callback(self._tasks.close)
            ends.push_async_callback(self._tree.close)

    # Knowledge.

    @property
    def corrupt(self) -> int:
        """Number of reports that did not decode, and of lines that name no bundle."""
        return self._tree.corrupt + self._corrupt

    @property
    def reports(self) -> Mapping[str, ReceivedReport]:
        """The newest report of each broker that has one."""
        return self._reports

    @property
    def loads(self) -> Mapping[Bundle, BundleLoad]:
        """Averages of each known bundle."""
        return self._loads

    def load_of(self, bundle: Bundle) -> BundleLoad:
        """A bundle's averages; Pulsar's defaults for one without measurements."""
        return self._loads.get(bundle) or BundleLoad.unseen()

    def last_reporter(self, bundle: Bundle) -> str | None:
        """The broker that reported it last, alive or not; None without a report in this term."""
        return self._reporters.get(bundle)

    def reporters(self) -> Mapping[Bundle, list[str]]:
        """The reporting brokers by bundle: several while a bundle is being moved."""
        found: dict[Bundle, list[str]] = defaultdict(list)
        for broker_id, report in self._reports.items():
            for bundle in report.lines:
                found[bundle].append(broker_id)
        return found

    # Input.

    def seed(self, loads: Mapping[Bundle, BundleLoad]) -> None:
        """Continue from the averages that an earlier leader stored.

        Reports that arrived before count on top of them (docs: pulsar-load-data).
        """
        now_s = self._clock.now_s()
        for bundle, load in loads.items():
            if bundle in self.guessed:
                self._restart_average(bundle, load)
            elif self._loads.setdefault(bundle, load) is load:
                self._heard_s[bundle] = now_s
        for bundle in loads:
            self.guessed.pop(bundle, None)

    def initial_load(
        self, looked_for: Iterable[Bundle], quotas: Mapping[Bundle, ResourceQuota]
    ) -> None:
        """Set quotas of bundles without averages, in place of the defaults."""
        for bundle, quota in quotas.items():
            if bundle in self.guessed:
                self._restart_average(bundle, BundleLoad.of_quota(quota))
        if self.simple is not None:
            self.simple.initial_load(quotas)
        for bundle in looked_for:
            self.guessed.pop(bundle, None)

    def _restart_average(self, bundle: Bundle, load: BundleLoad) -> None:
        report = self._reports.get(self._reporters[bundle])
        line = None if report is None else report.lines.get(bundle)
        self._loads[bundle] = load if line is None else load.fold(line)

    async def _keep_up(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._fold()

    async def _fold(self) -> None:
        """Fold every new report."""
        changed = sorted(self._dirty)
        self._dirty.clear()
        present = {broker_id: self._tree.values.get(broker_id) for broker_id in changed}
        # First: a broker that has gone is none of those whose reports are folded in turn.
        for broker_id in [broker_id for broker_id in changed if present[broker_id] is None]:
            self._reports.pop(broker_id, None)
            self._names.pop(broker_id, None)
            self.surges.forget_broker(broker_id)
        for broker_id, node in present.items():
            if node is None:
                continue
            try:
                path, payload, czxid = node
                data = await asyncio.to_thread(decode_report, path, payload)
            except (CorruptRecord, NewerVersion) as error:
                self._corrupt += 1
                self._reports.pop(broker_id, None)
                log.warning("skipped a load report: %s", error)
                continue
            known = self._reports.get(broker_id)
            updated = czxid, data.load.updated_ms
            if known is None or (known.czxid, known.data.load.updated_ms) != updated:
                await self._add_report(broker_id, data, czxid)

    async def _add_report(self, broker_id: str, data: BrokerReport, czxid: int) -> None:
        now_s = self._clock.now_s()
        lines: dict[Bundle, BundleStats] = {}
        names: dict[str, Bundle] = {}
        known, sample_s = self._names.get(broker_id, {}), self._sample_s()
        surges = self.surges.report(broker_id, now_s)
        for some in batched(data.load.bundles.items(), _AT_ONCE):
            for text, stats in some:
                try:
                    bundle = known.get(text) or Bundle.parse(text)
                except InvalidName as error:
                    self._corrupt += 1
                    log.warning("skipped a line of the report of %s: %s", broker_id, error)
                    continue
                names[text] = bundle
                lines[bundle] = stats
                self._reporters[bundle] = broker_id
                self._fold_line(bundle, stats, now_s, sample_s)
                surges.add(bundle, stats)
            await asyncio.sleep(0)
        self._names[broker_id] = names
        report = self._reports[broker_id] = ReceivedReport(data, now_s, lines, czxid)
        surges.close()
        if self.simple is not None:
            await self.simple.add_report(report)

    def _fold_line(self, bundle: Bundle, stats: BundleStats, now_s: float, sample_s: float) -> None:
        folded_s = self._folded_s.get(bundle)
        elapsed_s = None if folded_s is None else now_s - folded_s
        load = self._loads.get(bundle)
        if load is None:
            self.guessed[bundle] = None
            load = BundleLoad.unseen()
        self._loads[bundle] = load.fold(stats, sample_weight(elapsed_s, sample_s))
        self._heard_s[bundle] = self._folded_s[bundle] = now_s

    def record_owner(self, bundle: Bundle) -> None:
        """Keep a bundle that has an owner node, reported or not."""
        self._heard_s[bundle] = self._clock.now_s()

    # Removal.

    def reconcile(
        self, rings: Mapping[Namespace, Ring | None]
    ) -> Mapping[Bundle, tuple[Bundle, ...]]:
        """Remove bundles that are in no ring; returns the children of those that were split.

        Children inherit the averages of their parent until they are reported, whichever broker
        split it. A ring is None if the namespace is gone; bundles of namespaces without an entry
        stay.
        """
        splits: dict[Bundle, tuple[Bundle, ...]] = {}
        for bundle in list(self._loads):
            if bundle.namespace not in rings:
                continue
            ring = rings[bundle.namespace]
            if ring is not None and bundle in ring:
                continue
            children = () if ring is None else _within(bundle.range, ring)
            for child in children:
                if child not in self._loads:
                    ratio = _ratio(child.range, bundle.range)
                    self._loads[child] = self._loads[bundle].part(ratio)
                    self.record_owner(child)
            self._forget(bundle)
            if children:
                splits[bundle] = children
        return splits

    def forget_unresponsive(self, limit_s: float) -> None:
        """Remove bundles that were neither owned nor reported for ``limit_s`` seconds."""
        if self.simple is not None:
            self.simple.keep_only(self._reports, self._loads)
        oldest_s = self._clock.now_s() - limit_s
        silent = [bundle for bundle, heard_s in self._heard_s.items() if heard_s < oldest_s]
        reported = self.reporters() if silent else {}
        for bundle in silent:
            if bundle not in reported:
                self._forget(bundle)

    def _forget(self, bundle: Bundle) -> None:
        self._loads.pop(bundle, None)
        self._heard_s.pop(bundle, None)
        self._folded_s.pop(bundle, None)
        self._reporters.pop(bundle, None)
        self.guessed.pop(bundle, None)
        self.surges.forget(bundle)


def _within(whole: BundleRange, ring: Ring) -> tuple[Bundle, ...]:
    """The bundles of a ring that lie inside a range."""
    return tuple(
        bundle
        for bundle in ring.bundles
        if whole.low <= bundle.range.low and bundle.range.high <= whole.high
    )


def _ratio(part: BundleRange, whole: BundleRange) -> float:
    return (part.high - part.low) / (whole.high - whole.low)
