"""``broker-ctl brokers monitor``: load reports as they are in ZooKeeper."""

import asyncio
import logging
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from broker_ctl.cli.runtime.output import Output, echo, echo_json_line, output_option, print_table
from broker_ctl.cli.runtime.zookeeper_target import ZooKeeperTarget, zookeeper_options
from broker_ctl.core.model.counting import batched
from broker_ctl.core.model.load import (
    BundleStats,
    SystemUsage,
    UsageWeights,
    max_usage,
    throughput_text,
)
from broker_ctl.core.model.safe_text import printable
from broker_ctl.errors import CorruptRecord, NoAuth, StoreError, TooLarge
from broker_ctl.store import paths
from broker_ctl.store.interface import Aspect, BulkStore, Found, Read, Stat, Versioned
from broker_ctl.store.records.fields import Fields
from broker_ctl.store.records.load import TimeAverageBrokerData
from broker_ctl.store.records.simple import LoadReport, decode_report

if TYPE_CHECKING:
    from broker_ctl.settings.root import Settings
    from broker_ctl.store.interface import SessionEvent
    from broker_ctl.store.zookeeper.store import ZooKeeperStore

# ``broker-ctl brokers monitor``: all load reports, read from ZooKeeper without any daemon.


_CONNECT_S: Final = 10.0
_SESSION_S: Final = 15.0
_READ_S: Final = 10.0
# Reports arrive in bursts: shortest time between two updates.
_SETTLE_S: Final = 0.5
_MAX_IN_FLIGHT: Final = 16
# With a raised jute.maxbuffer, reports may be larger than those of broker-ctl.
_MAX_FRAME_BYTES: Final = 16 * 1024 * 1024

_EXAMPLES: Final = """\b
Examples:
  broker-ctl brokers monitor --zookeeper 127.0.0.1:2181
  broker-ctl brokers monitor --zookeeper zk1,zk2,zk3/pulsar --interval 5
  broker-ctl brokers monitor --zookeeper zk1:2181 --once --output json
  broker-ctl brokers monitor --zookeeper zk1:2281 --zookeeper-tls --zookeeper-sasl-file zk.secret
  broker-ctl brokers monitor --config broker.conf
"""


@dataclass(frozen=True, slots=True)
class MonitorOptions:
    """The options of the command."""

    settings: "Settings"
    interval_s: float
    is_once: bool
    output: Output

    @property
    def source(self) -> str:
        """The ensemble as given, with default ports."""
        return str(self.settings.metadata.store_url).removeprefix("zk:")


@click.command(
    "monitor",
    short_help="Show the load of all brokers, read from ZooKeeper alone.",
    epilog=_EXAMPLES,
)
@zookeeper_options
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(_SETTLE_S, 3600),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Maximum time between two updates; a changed report is shown immediately.",
)
@click.option("--once", "is_once", is_flag=True, help="Show the current state and exit.")
@output_option(text="Json: one object per line and update.")
def command(target: ZooKeeperTarget, *, interval_s: float, is_once: bool, output: str) -> None:
    """Show usage, counts and rates of all brokers until Ctrl-C.

    Needs no daemon, and works for a cluster of Pulsar's own brokers too, with the modular or the
    Simple load manager. Nothing is written. A lost connection is reported on stderr and
    re-established; an unreadable report is listed as skipped, with the reason.

    Exit codes: 0 after Ctrl-C or --once; 1 if ZooKeeper does not answer at the start or, with
    --once, has no load reports; 2 for a wrong option.
    """
    options = MonitorOptions(target.settings(), interval_s, is_once, Output(output))
    with _quiet_session(), suppress(KeyboardInterrupt):
        asyncio.run(_run(options))


@contextmanager
def _quiet_session() -> Iterator[None]:
    """Silence the log of the store: this command reports changes of the session itself."""
    logger = logging.getLogger("broker_ctl.store")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


async def _run(options: MonitorOptions) -> None:
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        work = group.create_task(_watch(options), name="monitor brokers")
        # A cancelled child ends its group quietly, after it has closed the session.
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, work.cancel)


async def _watch(options: MonitorOptions) -> None:

    store = _new_store(options)
    await store.start()
    try:
        await _wait_connected(store, options.source)
        changes = _Changes(store, options.source)
        if not options.is_once:
            await changes.follow()
        reader = ReportReader(store, _READ_S)
        while True:
            await _show_once(reader, options)
            if options.is_once:
                return
            await changes.wait(options.interval_s)
    finally:
        await store.close()


def _new_store(options: MonitorOptions) -> "ZooKeeperStore":
    from broker_ctl.daemon.wiring.keys import identity_of
    from broker_ctl.daemon.wiring.stores import tls_context
    from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore

    settings = options.settings
    url = settings.metadata.store_url
    assert url is not None
    return ZooKeeperStore(
        StoreOptions(
            hosts=",".join(map(str, url.servers)),
            chroot=url.chroot,
            session_timeout_s=_SESSION_S,
            operation_timeout_s=_READ_S,
            max_in_flight=_MAX_IN_FLIGHT,
            max_frame_bytes=_MAX_FRAME_BYTES,
            identity=identity_of(settings),
            tls=tls_context(settings),
        )
    )


async def _wait_connected(store: "ZooKeeperStore", source: str) -> None:
    from broker_ctl.errors import ConnectionLoss

    try:
        async with asyncio.timeout(_CONNECT_S):
            await store.wait_connected()
    except TimeoutError:
        raise ConnectionLoss(
            f"no ZooKeeper server at {source} answered within {_CONNECT_S:g} s: check --zookeeper"
        ) from None


async def _show_once(reader: "ReportReader", options: MonitorOptions) -> None:
    from broker_ctl.errors import SessionExpired, SessionMoved, StoreError

    try:
        reading = await reader.read()
    except StoreError as error:
        is_outage = error.can_retry or isinstance(error, SessionExpired | SessionMoved)
        if options.is_once or not is_outage:
            raise
        echo(f"reports not read, retrying: {error}", err=True)
    else:
        _show(reading, options)


def _show(reading: "MonitorReading", options: MonitorOptions) -> None:
    from broker_ctl.clock import SystemClock
    from broker_ctl.errors import NoNode

    if options.is_once and not reading.path_exists:
        raise NoNode(no_path_text(options.source))
    wall_ms = SystemClock().wall_ms()
    if options.output is Output.JSON:
        echo_json_line(to_row(reading, wall_ms))
        return
    if not options.is_once:
        click.clear()
    show(reading, wall_ms, options.source)


class _Changes:
    """Waits for changed reports; reports a lost connection."""

    def __init__(self, store: "ZooKeeperStore", source: str) -> None:
        self._store = store
        self._source = source
        self._changed = asyncio.Event()

    async def follow(self) -> None:
        """Watch for changes; if that fails, reports are only read at each interval."""
        from broker_ctl.errors import StoreError
        from broker_ctl.store import paths

        self._store.listen(self._session_changed)
        try:
            await self._store.watch(paths.LOAD_REPORTS, lambda _: self._changed.set())
        except StoreError as error:
            echo(f"cannot watch for changes, reading at each interval only: {error}", err=True)

    async def wait(self, interval_s: float) -> None:
        """Wait for a change, at most until the interval is over."""
        await asyncio.sleep(_SETTLE_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(interval_s - _SETTLE_S):
                await self._changed.wait()
        self._changed.clear()

    def _session_changed(self, event: "SessionEvent") -> None:
        from broker_ctl.store.interface import SessionEvent

        if event is SessionEvent.SUSPENDED:
            echo(f"connection to {self._source} lost; reconnecting", err=True)
        elif event in {SessionEvent.RECONNECTED, SessionEvent.CONNECTED}:
            echo(f"reconnected to {self._source}", err=True)
            self._changed.set()


# All load reports of a cluster, read from ZooKeeper.
#
# Reports of broker-ctl, and of Pulsar with the modular or the Simple load manager.


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
class MonitorReading:
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

    async def read(self) -> MonitorReading:
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
        return MonitorReading(tuple(lines), tuple(skipped), path_exists)

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


# Load reports of a cluster as `pulsar-perf monitor-brokers` shows them, and as JSON.


# Pulsar's MAX counts all resources but the heap.
_WEIGHTS: Final = UsageWeights(direct_memory=1.0)
_OVERVIEW: Final = ("broker", "updated", "max %", "topics", "bundles", "msg/s", "throughput")
_USAGE: Final = ("cpu %", "memory %", "direct %", "bw in %", "bw out %", "max %")
_RATE_FIELDS: Final = {
    "in_msg_per_s": "msg_rate_in",
    "out_msg_per_s": "msg_rate_out",
    "in_bytes_per_s": "msg_throughput_in",
    "out_bytes_per_s": "msg_throughput_out",
}
_COUNTS: Final = ("topics", "bundles", "producers", "consumers", "gained", "lost")
_RATES: Final = ("msg/s in", "msg/s out", "total", "bytes in", "bytes out", "total")


def to_row(reading: MonitorReading, wall_ms: int) -> dict[str, Any]:
    """Plain JSON values."""
    return {
        "at_ms": wall_ms,
        "brokers": [_broker_row(line, wall_ms) for line in reading.brokers],
        "skipped": [asdict(one) for one in reading.skipped],
    }


def _broker_row(line: BrokerLine, wall_ms: int) -> dict[str, Any]:
    report, usage = line.report, line.report.usage
    return {
        "broker": line.broker_id,
        "manager": report.manager,
        "age_s": _age_s(line, wall_ms),
        "usage_ratio": usage.ratios | {"max": max_usage(usage, _WEIGHTS)},
        "topics": report.total.topics,
        "bundles": report.bundles,
        "producers": report.total.producers,
        "consumers": report.total.consumers,
        "bundles_gained": report.gained,
        "bundles_lost": report.lost,
        "latest": _latest(report.total),
        "short_term": _term(line.average, "short"),
        "long_term": _term(line.average, "long"),
    }


def _latest(total: BundleStats) -> dict[str, float]:
    return {name: getattr(total, field) for name, field in _RATE_FIELDS.items()}


def _term(average: TimeAverageBrokerData | None, term: str) -> dict[str, float] | None:
    """The averages of one term by the names of `_latest`; None if no leader wrote any."""
    if average is None:
        return None
    return {name: getattr(average, f"{term}_{field}") for name, field in _RATE_FIELDS.items()}


def _age_s(line: BrokerLine, wall_ms: int) -> float | None:
    """Age of a report by the broker's clock and ours; 0 if the broker's is ahead."""
    updated_ms = line.report.updated_ms
    return max(0, wall_ms - updated_ms) / 1000 if updated_ms > 0 else None


def show(reading: MonitorReading, wall_ms: int, source: str) -> None:
    """Print a table of all brokers, a table for each, and the skipped nodes."""
    rows = [_broker_row(line, wall_ms) for line in reading.brokers]
    if rows:
        print_table(f"brokers at {source}: {len(rows)}", _OVERVIEW, map(_overview, rows))
    for row in rows:
        title = f"{row['broker']} ({row['manager']}, {_age(row)})"
        print_table(title, [""] * 7, _details(row))
    if not rows:
        print_table("", ["brokers"], [[_no_reports_text(reading, source)]])
    if reading.skipped:
        skipped = ((one.node, one.reason) for one in reading.skipped)
        print_table(f"skipped: {len(reading.skipped)}", ("node", "why"), skipped)


def _no_reports_text(reading: MonitorReading, source: str) -> str:
    if reading.path_exists:
        return f"no usable load report at {source}"
    return no_path_text(source)


def no_path_text(source: str) -> str:
    """The message if the parent node of reports does not exist."""
    return f"{source} has no {paths.LOAD_REPORTS}; check the chroot"


def _overview(row: dict[str, Any]) -> Iterable[object]:
    msg_in, msg_out, bytes_in, bytes_out = row["latest"].values()
    return (
        row["broker"],
        _age(row),
        row["usage_ratio"]["max"] * 100,
        row["topics"],
        row["bundles"],
        msg_in + msg_out,
        throughput_text(bytes_in + bytes_out),
    )


def _age(row: dict[str, Any]) -> str:
    return "no time" if row["age_s"] is None else f"{row['age_s']:.0f} s ago"


def _details(row: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    yield ("system", *_USAGE)
    yield ("usage", *(ratio * 100 for ratio in row["usage_ratio"].values()))
    yield ("count", *_COUNTS)
    counts = ("topics", "bundles", "producers", "consumers", "bundles_gained", "bundles_lost")
    yield ("now", *(row[name] for name in counts))
    yield ("rates", *_RATES)
    for name in ("latest", "short_term", "long_term"):
        yield (name.removesuffix("_term"), *_rates(row[name]))


def _rates(rates: dict[str, float] | None) -> tuple[object, ...]:
    if rates is None:
        return (None,) * len(_RATES)
    msg_in, msg_out, bytes_in, bytes_out = rates.values()
    throughput = map(throughput_text, (bytes_in, bytes_out, bytes_in + bytes_out))
    return msg_in, msg_out, msg_in + msg_out, *throughput
