"""From a configuration file to a running daemon."""

import asyncio
import logging
import os
import random
import signal
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Protocol, cast

import uvloop

from broker_ctl.clock import SystemClock
from broker_ctl.daemon.lifecycle import exits
from broker_ctl.daemon.lifecycle.interpreter import (
    collect_periodically,
    collect_young,
    freeze_garbage,
    switch_often,
)
from broker_ctl.daemon.lifecycle.lifecycle import Daemon
from broker_ctl.daemon.lifecycle.logs import configure_logs
from broker_ctl.daemon.lifecycle.systemd import Notifier, StopSignals
from broker_ctl.daemon.metrics import connect
from broker_ctl.daemon.wiring.broker import Assembly
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.errors import Unsupported
from broker_ctl.products import Product, load
from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import Reading, read
from broker_ctl.settings.startable import ignored_security, require_startable
from broker_ctl.settings.subjects.dataplane import DataPlaneKind
from broker_ctl.tasks import TaskScope, first_of

log = logging.getLogger(__name__)


def run(configuration: Path | None, overrides: Sequence[str]) -> int:
    """Run a daemon until it is stopped; returns the exit code.

    Raises:
        SettingsError, StartError: says what is wrong, and where.
    """
    reading = read(configuration, os.environ, overrides)
    settings = reading.valid_settings()
    require_startable(reading)
    configure_logs(settings.log)
    log.info(
        "broker-ctl %s, pid %d, configuration %s",
        version("broker-ctl"),
        os.getpid(),
        configuration or "without a file",
    )
    _log_findings(reading)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(settings))


def _log_findings(reading: Reading) -> None:
    for entry in reading.unknown:
        log.warning("%s: ignored %s: unknown to broker-ctl and Pulsar", entry.origin, entry.key)
    if ignored := ignored_security(reading):
        log.warning(
            "security settings of Pulsar without effect here: %s; broker-ctl's own are in "
            "docs/reference/settings.md",
            ", ".join(f"{entry.key} ({entry.origin})" for entry in ignored),
        )


async def _run(settings: Settings) -> int:
    signals = StopSignals()
    # For jitter of retries: brokers that fail at once must not retry at once. Not for secrets.
    environment = Environment(SystemClock(), random.SystemRandom())
    daemon = build_daemon(settings, signals, environment)
    signals.install()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, environment.reloader.check_soon)
    freeze_garbage()
    switch_often()
    code = exits.TOO_OLD
    try:
        async with TaskScope("garbage") as scope:
            timeout_s = settings.metadata.session_timeout_s
            scope.keep(collect_periodically(timeout_s, environment.clock), "collect")
            scope.keep(collect_young(environment.clock), "collect young")
            code = await daemon.run()
    except* Unsupported as old:
        log.error("%s", first_of(old))  # noqa: TRY400
    return code


class Runnable(Protocol):
    """A daemon that was built and not started."""

    async def run(self) -> int:
        """Run until stopped; returns the exit code.

        Raises:
            StartError: it cannot start.
        """
        ...


def build_daemon(settings: Settings, signals: StopSignals, environment: Environment) -> Runnable:
    """Build the daemon of a broker, or one beside a Pulsar cluster; does not start it.

    Raises:
        StartError, SettingsError: a file that cannot be read, or a strategy that does not exist.
    """
    notifier = Notifier(os.environ)
    if settings.dataplane.kind is DataPlaneKind.PULSAR:
        attached = load(Product.ATTACHED_DAEMON)
        return cast("Runnable", attached.build_daemon(settings, environment, notifier, signals))
    assembly = Assembly(settings, environment)
    connect(assembly)
    return Daemon(assembly, notifier, signals)
