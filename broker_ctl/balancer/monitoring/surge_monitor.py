"""Surges in the load reports of one term (`core.cluster.surges`).

Every report is compared with the earlier ones as it arrives. A new leader has no earlier reports
and recognises surges from its second report of a bundle on.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from broker_ctl.core.cluster.surges import Past, Surge
from broker_ctl.core.cluster.view import Subject
from broker_ctl.core.machines.surge import Event, State
from broker_ctl.core.model.bundle import Bundle
from broker_ctl.core.model.load import BundleStats
from broker_ctl.core.rules.surges import SurgeRules


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
        return any(surge.state is State.RISEN for surge in self._surges.values())

    @property
    def current(self) -> Mapping[Subject, Surge]:
        """The surges that are not over."""
        return dict(self._surges)

    def advance(self, now_s: float) -> None:
        """End the surges that have been followed for long enough."""
        limit_s = self._rules().window_s
        for subject, surge in list(self._surges.items()):
            if now_s - surge.since_s >= limit_s:
                self._apply(subject, surge, Event.LAPSED)

    def record_plan(self, surges: Mapping[Subject, Surge]) -> None:
        """A cycle has planned on a view with these surges."""
        for subject, surge in surges.items():
            # A newer surge of the same subject has not been planned for.
            if self._surges.get(subject) is surge:
                self._apply(subject, surge, Event.PLANNED)

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
                surge.after(Event.GREW)
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

    def _apply(self, subject: Subject, surge: Surge, event: Event) -> None:
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
