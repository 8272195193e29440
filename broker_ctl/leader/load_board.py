"""What the leader knows of the load: the newest report of each broker, averages of each bundle.

A report is folded into the averages once. Pulsar's leader folds all reports again whenever any of
them changes, so that its short average is over seconds in a large cluster and over hours in a
quiet one (reference: pulsar-load-management 3.10).
"""

import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from broker_ctl.clock import Clock
from broker_ctl.coordination.watched_tree import WatchedTree
from broker_ctl.core.bundle import Bundle, BundleRange
from broker_ctl.core.load import BundleLoad, BundleStats, TimeAverage
from broker_ctl.core.names import Namespace
from broker_ctl.core.namespace import Ring
from broker_ctl.errors import InvalidName
from broker_ctl.store import paths
from broker_ctl.store.interface import MetadataStore, Versioned
from broker_ctl.store.records.load import LocalBrokerData

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Report:
    """A broker's report, and when it came in.

    Its age is counted from then, on our own clock: the broker's clock may be off by any amount.
    """

    data: LocalBrokerData
    received_s: float
    lines: Mapping[Bundle, BundleStats]


def _decode(node: Versioned) -> LocalBrokerData:
    return LocalBrokerData.decode(node.path, node.data)


class LoadBoard:
    """Lives as long as one leading."""

    def __init__(self, store: MetadataStore, clock: Clock) -> None:
        self._clock = clock
        self._tree = WatchedTree(store, paths.LOAD_REPORTS, _decode)
        self._reports: dict[str, Report] = {}
        self._loads: dict[Bundle, BundleLoad] = {}
        self._heard_s: dict[Bundle, float] = {}
        self._reporters: dict[Bundle, str] = {}
        self.skipped_lines = 0

    async def start(self) -> None:
        """Begin to follow the reports, and take in those that are there."""
        self._tree.listen(self.fold)
        await self._tree.start()
        await self._tree.wait_synced()
        self.fold()

    async def close(self) -> None:
        """Stop following."""
        await self._tree.close()

    # What is known.

    @property
    def corrupt(self) -> int:
        """Reports that did not decode."""
        return self._tree.corrupt

    @property
    def reports(self) -> Mapping[str, Report]:
        """The newest report of each broker that has one."""
        return self._reports

    @property
    def loads(self) -> Mapping[Bundle, BundleLoad]:
        """Averages of each bundle that was heard of."""
        return self._loads

    def load_of(self, bundle: Bundle) -> BundleLoad:
        """A bundle's averages; Pulsar's defaults for one that nobody has measured."""
        return self._loads.get(bundle) or BundleLoad.unseen()

    def last_reporter(self, bundle: Bundle) -> str | None:
        """Who reported it last, alive or not; None: nobody in this leading."""
        return self._reporters.get(bundle)

    def reporters(self) -> Mapping[Bundle, list[str]]:
        """By bundle, who reports it: more than one while it changes hands."""
        found: dict[Bundle, list[str]] = defaultdict(list)
        for broker_id, report in self._reports.items():
            for bundle in report.lines:
                found[bundle].append(broker_id)
        return found

    # What is heard.

    def seed(self, loads: Mapping[Bundle, BundleLoad]) -> None:
        """Averages that an earlier leader kept; what was measured since is newer."""
        now_s = self._clock.now_s()
        for bundle, load in loads.items():
            if self._loads.setdefault(bundle, load) is load:
                self._heard_s[bundle] = now_s

    def fold(self) -> None:
        """Take in every report that was not taken in yet."""
        present = self._tree.values
        for gone in self._reports.keys() - present.keys():
            del self._reports[gone]
        for broker_id, data in present.items():
            known = self._reports.get(broker_id)
            if known is None or known.data.load.updated_ms != data.load.updated_ms:
                self._take_in(broker_id, data)

    def _take_in(self, broker_id: str, data: LocalBrokerData) -> None:
        now_s = self._clock.now_s()
        lines: dict[Bundle, BundleStats] = {}
        for text, stats in data.load.bundles.items():
            try:
                bundle = Bundle.parse(text)
            except InvalidName as error:
                self.skipped_lines += 1
                log.warning("skipped a line of the report of %s: %s", broker_id, error)
                continue
            lines[bundle] = stats
            self._loads[bundle] = self.load_of(bundle).fold(stats)
            self._heard_s[bundle] = now_s
            self._reporters[bundle] = broker_id
        self._reports[broker_id] = Report(data, now_s, lines)

    def note_owned(self, bundle: Bundle) -> None:
        """Somebody owns it, whoever reports it."""
        self._heard_s[bundle] = self._clock.now_s()

    # What is no more.

    def reconcile(
        self, rings: Mapping[Namespace, Ring | None]
    ) -> Mapping[Bundle, tuple[Bundle, ...]]:
        """Forget what is in no ring; answers with the children of what was split.

        Whoever split a bundle, its children inherit its averages until they are reported. A ring
        is None where the namespace is gone; what is in a namespace that was not looked at stays.
        """
        splits: dict[Bundle, tuple[Bundle, ...]] = {}
        for bundle in list(self._loads):
            if bundle.namespace not in rings:
                continue
            ring = rings[bundle.namespace]
            if ring is not None and bundle in ring:
                continue
            children = () if ring is None else _within(bundle.range, ring)
            self._inherit(bundle, children)
            self._forget(bundle)
            if children:
                splits[bundle] = children
        return splits

    def _inherit(self, parent: Bundle, children: tuple[Bundle, ...]) -> None:
        for child in children:
            if child not in self._loads:
                self._loads[child] = _part(self._loads[parent], _ratio(child.range, parent.range))
                self.note_owned(child)

    def forget_silent(self, limit_s: float) -> None:
        """Forget what nobody owned or reported for ``limit_s``."""
        oldest_s = self._clock.now_s() - limit_s
        silent = [bundle for bundle, heard_s in self._heard_s.items() if heard_s < oldest_s]
        reported = self.reporters() if silent else {}
        for bundle in silent:
            if bundle not in reported:
                self._forget(bundle)

    def _forget(self, bundle: Bundle) -> None:
        self._loads.pop(bundle, None)
        self._heard_s.pop(bundle, None)
        self._reporters.pop(bundle, None)


def _within(whole: BundleRange, ring: Ring) -> tuple[Bundle, ...]:
    """The bundles of a ring that lie inside a range."""
    return tuple(
        bundle
        for bundle in ring.bundles
        if whole.low <= bundle.range.low and bundle.range.high <= whole.high
    )


def _ratio(part: BundleRange, whole: BundleRange) -> float:
    return (part.high - part.low) / (whole.high - whole.low)


def _part(load: BundleLoad, ratio: float) -> BundleLoad:
    """A guess by the share of the hashes; it has no samples, so the first report replaces it."""
    return BundleLoad(
        _scaled(load.short, ratio), _scaled(load.long, ratio), round(load.topics * ratio)
    )


def _scaled(average: TimeAverage, ratio: float) -> TimeAverage:
    return TimeAverage(
        average.max_samples,
        0,
        average.msg_rate_in * ratio,
        average.msg_rate_out * ratio,
        average.msg_throughput_in * ratio,
        average.msg_throughput_out * ratio,
    )
