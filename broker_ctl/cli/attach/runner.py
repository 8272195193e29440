"""Run `broker-ctl attach`: settings from options, the daemon, and the view."""

import asyncio
import logging
import os
import random
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from broker_ctl.balancer.attached.metadata_source import describe_migration
from broker_ctl.cli.attach.disable_balancer import balancer_disabled, confirm_disabling
from broker_ctl.cli.attach.plan_state import PlanState
from broker_ctl.cli.attach.read_by_admin import name_of_cluster, select_cluster, show_waiting
from broker_ctl.cli.attach.snapshot import take_snapshot
from broker_ctl.cli.attach.views import View, view_for
from broker_ctl.cli.runtime.zookeeper_target import ZooKeeperTarget, require_servers
from broker_ctl.clock import SystemClock
from broker_ctl.coordination.membership.other_clusters import find_clusters
from broker_ctl.daemon.lifecycle.attached import Attached
from broker_ctl.daemon.lifecycle.attached_lifecycle import AttachedDaemon, observing
from broker_ctl.daemon.lifecycle.logs import configure_logs
from broker_ctl.daemon.lifecycle.systemd import Notifier, StopSignals
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.daemon.wiring.stores import StoreCredentials, open_store
from broker_ctl.embedded.ports import port_of, reserve_port
from broker_ctl.errors import ConnectionLoss, NoAuth, SettingsError, StartError
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.settings.addresses import StoreUrl
from broker_ctl.settings.conditions import BY_ADMIN_API
from broker_ctl.settings.root import Settings
from broker_ctl.settings.schema import DEFAULT_ORIGIN
from broker_ctl.settings.startable import start_problems
from broker_ctl.store import paths
from broker_ctl.store.zookeeper.store import ZooKeeperStore

_CONNECT_S: Final = 10
_FIRST_S: Final = 30.0
_PERIOD_S: Final = 2.0
# Children of a node that an error names.
_SHOWN: Final = 10
# Planning a large cluster takes long: this share of the time at most goes into it.
_PLANNING_RATIO: Final = 0.1
_POLL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class AttachOptions:
    """The options of the command line."""

    target: ZooKeeperTarget
    admin: tuple[str, ...]
    state: str | None = None
    token_file: Path | None = None
    cluster: str | None = None
    acts: bool = False
    disables_balancer: bool = False
    is_confirmed: bool = False
    is_once: bool = False
    limit_s: float | None = None
    history: Path | None = None
    web_port: int | None = None
    overrides: tuple[str, ...] = ()
    is_json: bool = False


def attach(options: AttachOptions) -> PlanState:
    """Run until stopped; with ``is_once``, return what the plan is like.

    Raises:
        SettingsError, StartError, ConnectionLoss: a setting is wrong, or there is no such cluster.
    """
    if options.disables_balancer and not options.is_confirmed:
        confirm_disabling()
    with ExitStack() as scopes:
        port = options.web_port
        if port is None:
            reserved = scopes.enter_context(reserve_port())
            port = port_of(reserved)
        return asyncio.run(_run(options, port))


async def _run(options: AttachOptions, port: int) -> PlanState:
    asked = settings_of(options, port)
    find = name_of_cluster if BY_ADMIN_API.holds(asked) else _find_cluster
    settings = settings_of(options, port, await find(asked))
    with _configure_logging(settings):
        environment = Environment(SystemClock(), random.SystemRandom(), is_observer=options.is_once)
        attached = Attached(settings, environment)
        if options.is_once:
            return await _show_once(options, attached)
        await _run_daemon(options, attached)
        return PlanState.EMPTY


def settings_of(options: AttachOptions, port: int, cluster: str | None = None) -> Settings:
    """The settings of the daemon; ``--set`` overrides the other options.

    Args:
        options: of the command line.
        port: for metrics and the other commands.
        cluster: its name, once it is known.

    Raises:
        SettingsError: an option or a ``--set`` is invalid, or a secret would cross a network.
        click.UsageError: no ZooKeeper servers are named.
    """
    entries = {
        "dataPlane": "pulsar",
        "clusterName": cluster or options.cluster,
        "webServicePort": str(port),
        "pulsarAdminUrl": ",".join(options.admin),
        "pulsarStateUrl": options.state,
        "pulsarTokenFile": str(options.token_file or ""),
        "pulsarAct": str(options.acts).lower(),
        "loadHistoryDirectory": str(options.history or ""),
    }
    given = [f"{key}={value}" for key, value in entries.items() if value]
    reading = options.target.read(*given, *options.overrides)
    problems = [str(problem) for problem in reading.problems]
    problems += [f"{entry.origin}: {entry.key} is not a setting" for entry in reading.unknown]
    if not problems and not BY_ADMIN_API.holds(reading.settings):
        require_servers(reading.settings)
    problems += [str(problem) for problem in start_problems(reading)]
    if problems:
        raise SettingsError("\n".join(problems))
    return reading.settings


@contextmanager
def _configure_logging(settings: Settings) -> Iterator[None]:
    """Log only if logLevel is set: the view shows what happens."""
    if settings.origin("logLevel") != DEFAULT_ORIGIN:
        configure_logs(settings.log)
        yield
        return
    logger = logging.getLogger("broker_ctl")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


async def _find_cluster(settings: Settings) -> str:
    """The name of the cluster in the settings, or else in the store.

    Raises:
        StartError: no Pulsar broker is registered, there are several clusters, or this identity may
            not read the nodes.
        ConnectionLoss: no server answers.
    """
    url = settings.metadata.store_url
    assert url is not None
    where = str(url).removeprefix("zk:")
    limited = settings.with_values({"metadataStoreOperationTimeoutSeconds": _CONNECT_S}, {})
    store = open_store(
        limited,
        url,
        "metadata-store",
        random.SystemRandom(),
        instruments=StoreInstruments(),
        credentials=StoreCredentials.now(limited),
    )
    await store.start()
    try:
        async with asyncio.timeout(_CONNECT_S):
            await store.wait_connected()
        names = await store.children(paths.CLUSTERS)
        brokers = await store.children(paths.LOAD_REPORTS)
        found = "" if brokers else await _describe_store(store, url)
    except TimeoutError:
        raise ConnectionLoss(
            f"no ZooKeeper server at {where} answered within {_CONNECT_S:g} s: check --zookeeper "
            "and --zookeeper-tls"
        ) from None
    except NoAuth as error:
        raise StartError(
            f"ZooKeeper at {where} lets other identities only read {error}: name one with "
            "--zookeeper-sasl-file, --zookeeper-tls-cert or --zookeeper-digest-file"
        ) from error
    finally:
        await store.close()
    if not brokers:
        raise StartError(f"no broker is registered at {where} in {paths.LOAD_REPORTS}: {found}")
    return select_cluster(settings, names, paths.CLUSTERS)


async def _describe_store(store: ZooKeeperStore, url: StoreUrl) -> str:
    """What the store has, which reveals a migration to another store, or a wrong chroot."""
    if why := await describe_migration(store):
        return why
    here = url.chroot or "/"
    tree = store.whole_tree()
    await tree.start()
    try:
        async with asyncio.timeout(_CONNECT_S):
            is_there = await tree.exists(here) is not None
            inside = await tree.children(here)
            others = await find_clusters(tree)
    finally:
        await tree.close()
    has = f"{here} has {', '.join(inside[:_SHOWN]) or 'nothing'}" if is_there else f"no {here}"
    return f"{has}; clusters on the same servers: {'; '.join(map(str, others)) or 'none'}"


# One plan.


async def _show_once(options: AttachOptions, attached: Attached) -> PlanState:
    view = view_for(is_json=options.is_json, is_live=False)
    async with observing(attached):
        snapshot = await _first_snapshot(attached)
        view.once(snapshot)
    return PlanState.of(snapshot)


async def _first_snapshot(attached: Attached) -> dict[str, Any]:
    """The first snapshot with a plan.

    Raises:
        StartError: there is no plan within half a minute.
    """
    note = ""
    with suppress(TimeoutError):
        async with asyncio.timeout(_FIRST_S):
            while True:
                snapshot = await take_snapshot(attached, is_verbose=True)
                if snapshot["plan"] is not None and snapshot["brokers"]:
                    return snapshot
                note = snapshot["note"] or "no broker has reported its load"
                await asyncio.sleep(_POLL_S)
    raise StartError(f"no plan could be made within {_FIRST_S:g} s: {note}")


# Until stopped.


async def _run_daemon(options: AttachOptions, attached: Attached) -> None:
    signals = StopSignals()
    signals.install()
    is_started = asyncio.Event()

    @asynccontextmanager
    async def around() -> AsyncIterator[None]:
        async with AsyncExitStack() as scopes:
            if options.disables_balancer:
                await scopes.enter_async_context(balancer_disabled(attached))
            # The table comes after the messages about the settings.
            is_started.set()
            yield

    daemon = AttachedDaemon(attached, Notifier(os.environ), signals, around)
    view = view_for(is_json=options.is_json, is_live=sys.stdout.isatty())
    async with asyncio.TaskGroup() as group:
        running = group.create_task(daemon.run(), name="daemon")
        waiting = group.create_task(show_waiting(attached, is_started), name="waiting")
        watching = group.create_task(_show_snapshots(attached, view, is_started), name="view")
        if options.limit_s is not None:
            group.create_task(_stop_after(options.limit_s, signals, running), name="limit")
        await asyncio.wait([running])
        waiting.cancel()
        watching.cancel()


async def _show_snapshots(attached: Attached, view: View, is_started: asyncio.Event) -> None:
    clock = attached.foundation.clock
    await is_started.wait()
    with view:
        while True:
            began_s = clock.now_s()
            view.show(await take_snapshot(attached))
            took_s = clock.now_s() - began_s
            await asyncio.sleep(max(_PERIOD_S, took_s / _PLANNING_RATIO))


async def _stop_after(limit_s: float, signals: StopSignals, running: "asyncio.Task[int]") -> None:
    await asyncio.wait([running], timeout=limit_s)
    signals.ask()
