"""All load reports of a cluster, read from ZooKeeper.

Reports of broker-ctl, and of Pulsar with the modular or the Simple load manager.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from broker_ctl.core.model.batches import batched
from broker_ctl.core.model.load import BundleStats, SystemUsage
from broker_ctl.core.model.printable import printable
from broker_ctl.errors import CorruptRecord, NoAuth, StoreError, TooLarge
from broker_ctl.store import paths
from broker_ctl.store.interface import Aspect, BulkStore, Found, Read, Stat, Versioned
from broker_ctl.store.records.fields import Fields
from broker_ctl.store.records.load import TimeAverageBrokerData
from broker_ctl.store.records.simple import LoadReport, decode_report

T = TypeVar("T")

# A report has at most 1 MiB with the default jute.maxbuffer.
_AT_ONCE: Final = 16
_MOST_REASON: Final = 200
# Every load report has at least one of these fields.
_MARKS: Final = frozenset({"loadReportType", "underLoaded", "lastStats"})


@dataclass(frozen=True, slots=True)
class ReportSummary:
    """Totals of a report. ``updated_ms`` is 0 if its broker never set it."""

    manager: str
    usage: SystemUsage
    total: BundleStats
    bundles: int
    gained: int
    lost: int
    updated_ms: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """A node that cannot be shown, and why."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class BrokerLine:
    """A broker; ``average`` is None if no leader has written one."""

    broker_id: str
    report: ReportSummary
    average: TimeAverageBrokerData | None


@dataclass(frozen=True, slots=True)
class Reading:
    """All reports at one moment; ``path_exists``: whether the parent node of reports exists."""

    brokers: tuple[BrokerLine, ...]
    skipped: tuple[Skipped, ...]
    path_exists: bool


class ReportReader:
    """Reads only changed reports again; keeps totals, not the rows of bundles."""

    def __init__(self, store: BulkStore, timeout_s: float) -> None:
        self._store = store
        self._timeout_s = timeout_s
        # By path: the mzxid of the node, and its decoded content.
        self._known: dict[str, tuple[int, ReportSummary | TimeAverageBrokerData | Skipped]] = {}

    async def read(self) -> Reading:
        """All reports, with the averages that the leader keeps.

        Raises:
            StoreError: the connection is lost, or listing the reports is not permitted.
        """
        path_exists = await self._store.exists(paths.LOAD_REPORTS) is not None
        names = await self._store.children(paths.LOAD_REPORTS)
        reports = {name: paths.load_report(name) for name in names}
        averages = {name: paths.broker_time_average(name) for name in names}
        await self._refresh([*reports.values(), *averages.values()])
        lines: list[BrokerLine] = []
        for name in names:
            report, average = self._value(reports[name]), self._value(averages[name])
            if isinstance(report, ReportSummary):
                known = average if isinstance(average, TimeAverageBrokerData) else None
                lines.append(BrokerLine(name, report, known))
        skipped = [value for _, value in self._known.values() if isinstance(value, Skipped)]
        skipped.sort(key=lambda one: one.node)
        return Reading(tuple(lines), tuple(skipped), path_exists)

    def _value(self, path: str) -> ReportSummary | TimeAverageBrokerData | Skipped | None:
        return self._known.get(path, (0, None))[1]

    async def _refresh(self, wanted: list[str]) -> None:
        stats = await self._many((Read(path, Aspect.STAT) for path in wanted), Stat)
        for path in set(self._known) - {path for path, stat in stats.items() if stat}:
            del self._known[path]
        zxids = {path: stat.mzxid for path, stat in stats.items() if isinstance(stat, Stat)}
        changed = [path for path, zxid in zxids.items() if self._known.get(path, (0,))[0] != zxid]
        nodes = await self._many((Read(path) for path in changed), Versioned)
        for path, node in nodes.items():
            if isinstance(node, Versioned):
                self._known[path] = node.stat.mzxid, await _decode(node)
            elif node is None:
                self._known.pop(path, None)
            else:
                # Kept with its zxid: each read of a node that is too large costs a connection.
                self._known[path] = zxids[path], node

    async def _many(self, reads: Iterable[Read], kind: type[T]) -> dict[str, T | Skipped | None]:
        """Results by path; a node that may not be read does not affect the others."""
        found: dict[str, T | Skipped | None] = {}
        for some in batched(reads, _AT_ONCE):
            deadline_s = asyncio.get_running_loop().time() + self._timeout_s
            answers = await self._store.read_many(some, deadline_s)
            for read, answer in zip(some, answers, strict=True):
                found[read.path] = _result_of(read.path, answer, kind)
        return found


def _result_of(path: str, answer: Found | StoreError, kind: type[T]) -> T | Skipped | None:
    if isinstance(answer, NoAuth | TooLarge):
        return _skip(path, f"{type(answer).__name__}: {answer}")
    if isinstance(answer, StoreError):
        raise answer
    return answer if isinstance(answer, kind) else None


async def _decode(node: Versioned) -> ReportSummary | TimeAverageBrokerData | Skipped:
    decode: Callable[[Versioned], ReportSummary | TimeAverageBrokerData] = (
        _decode_report if paths.name_below(paths.LOAD_REPORTS, node.path) else _decode_average
    )
    try:
        return await asyncio.to_thread(decode, node)
    except CorruptRecord as error:
        return _skip(node.path, str(error))


def _skip(path: str, reason: str) -> Skipped:
    """A skipped node; the reason is cut, and has no control characters."""
    text = reason.removeprefix(f"{path}: ")[:_MOST_REASON]
    return Skipped(path, printable(text))


def _decode_report(node: Versioned) -> ReportSummary:
    fields = Fields.of(node.path, node.data)
    if not _MARKS & set(fields.values):
        # The extensible manager registers its brokers here, and has their load elsewhere.
        manager = str(fields.values.get("loadManagerClassName", "")).rpartition(".")[2]
        raise CorruptRecord(f"not a load report; written by {manager or 'an unknown load manager'}")
    report = decode_report(node.path, node.data)
    load = report.load
    return ReportSummary(
        manager="simple" if isinstance(report, LoadReport) else "modular",
        usage=load.usage,
        total=load.total,
        bundles=load.bundle_count,
        gained=len(report.gains),
        lost=len(report.losses),
        updated_ms=load.updated_ms,
    )


def _decode_average(node: Versioned) -> TimeAverageBrokerData:
    return TimeAverageBrokerData.decode(node.path, node.data)
