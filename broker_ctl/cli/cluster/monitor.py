"""``broker-ctl brokers monitor``: all load reports, read from ZooKeeper without any daemon."""

import asyncio
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from broker_ctl.cli.runtime.formats import Output, output_option
from broker_ctl.cli.runtime.output import echo, echo_json_line
from broker_ctl.cli.runtime.zookeeper_target import ZooKeeperTarget, zookeeper_options

if TYPE_CHECKING:
    from broker_ctl.cli.cluster.monitor_reports import Reading, ReportReader
    from broker_ctl.settings.root import Settings
    from broker_ctl.store.interface import SessionEvent
    from broker_ctl.store.zookeeper.store import ZooKeeperStore

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
    from broker_ctl.cli.cluster.monitor_reports import ReportReader

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
    from broker_ctl.daemon.wiring.security.store_identity import identity_of
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


def _show(reading: "Reading", options: MonitorOptions) -> None:
    from broker_ctl.cli.cluster import monitor_table
    from broker_ctl.clock import SystemClock
    from broker_ctl.errors import NoNode

    if options.is_once and not reading.path_exists:
        raise NoNode(monitor_table.no_path_text(options.source))
    wall_ms = SystemClock().wall_ms()
    if options.output is Output.JSON:
        echo_json_line(monitor_table.to_row(reading, wall_ms))
        return
    if not options.is_once:
        click.clear()
    monitor_table.show(reading, wall_ms, options.source)


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
