"""Runs ``broker-ctl attach``: reads the cluster, shows plans, disables its own balancer."""

import asyncio
import logging
import os
import random
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from broker_ctl.attach.admin import disable_balancing, restore_balancing
from broker_ctl.attach.attached import Attached, admin_of
from broker_ctl.attach.cluster_balancer import AUTO_SPLIT, AUTO_UNLOAD, SHEDDING
from broker_ctl.attach.lifecycle import AttachedDaemon, observing
from broker_ctl.attach.metadata_source import describe_migration, outdated_row
from broker_ctl.attach.reader import ClusterReader
from broker_ctl.cli.balancing import print_plan
from broker_ctl.cli.plan_state import PlanState
from broker_ctl.cli.runtime.output import echo, echo_json_line, escape_values, print_table
from broker_ctl.cli.runtime.zookeeper_target import ZooKeeperTarget, require_servers
from broker_ctl.clock import SystemClock
from broker_ctl.coordination.membership.cluster import bound_leader, find_clusters
from broker_ctl.core.cluster.imbalance import imbalance_text
from broker_ctl.daemon.lifecycle.logs import configure_logs
from broker_ctl.daemon.lifecycle.systemd import Notifier, StopSignals
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.daemon.wiring.stores import StoreCredentials, open_store
from broker_ctl.errors import (
    BrokerCtlError,
    ConnectionLoss,
    NoAuth,
    NoLeader,
    PeerError,
    SettingsError,
    StartError,
)
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.lab.embedded.ports import port_of, reserve_port
from broker_ctl.peer_http import PeerAddresses
from broker_ctl.security.rotation.reloader import Reloader
from broker_ctl.settings.addresses import StoreUrl
from broker_ctl.settings.conditions import BY_ADMIN_API, CONSOLE
from broker_ctl.settings.root import Settings
from broker_ctl.settings.schema import DEFAULT_ORIGIN
from broker_ctl.settings.startable import start_problems
from broker_ctl.store import paths
from broker_ctl.store.in_process.store import InProcessStore
from broker_ctl.store.zookeeper.store import ZooKeeperStore

# ``--disable-cluster-balancer``: the cluster's own balancer is off while attach runs.


_KEYS: Final = (SHEDDING, AUTO_SPLIT, AUTO_UNLOAD)


def confirm_disabling() -> None:
    """Ask for confirmation before anything starts.

    Raises:
        click.Abort: the operator declined, or stdin is closed.
    """
    click.confirm(
        f"Those of {', '.join(_KEYS)} that are true will be set to false in the whole cluster, "
        "and restored when this command ends. Continue?",
        abort=True,
        err=True,
    )


@asynccontextmanager
async def balancer_disabled(attached: Attached) -> AsyncIterator[None]:
    """Disable the dynamic settings of the cluster's balancer, and restore them at the end.

    Raises:
        PeerRefused, PeerUnreachable: a setting could not be changed.
    """
    findings = await attached.admin.cluster_balancer()
    for one in findings:
        if one.key not in _KEYS or not one.is_dynamic:
            echo(f"cannot be disabled at run time: {one}; {one.command}", err=True)
    changes = await disable_balancing(attached.admin, [one for one in findings if one.key in _KEYS])
    for change in changes:
        sentence = f"{change.key}={change.changed_to} until this command ends; if it is killed: "
        echo(sentence + change.command, err=True)
    try:
        yield
    finally:
        remaining = changes
        try:
            remaining = await restore_balancing(attached.admin, changes)
        finally:
            # Also if restoring takes too long and is cancelled.
            for change in remaining:
                echo(f"{change.key} was not restored: {change.command}", err=True)


# `broker-ctl attach` without ZooKeeper: which cluster it is, and who holds the state.


# Registered for the configuration store by the tools of old Pulsar releases; not a cluster.
_NO_CLUSTERS: Final = frozenset({"global"})
# A state that is free is acquired in less.
_LOOK_S: Final = 2.0


async def name_of_cluster(settings: Settings) -> str:
    """The name of the cluster in the settings, or else by the admin API.

    Raises:
        StartError: no broker answers, or there are several clusters.
    """
    http, admin = admin_of(settings, dict, PeerAddresses(), Reloader())
    try:
        names = await ClusterReader(admin, "").clusters()
    except PeerError as error:
        raise StartError(f"no cluster at {settings.text('pulsarAdminUrl')}: {error}") from error
    finally:
        await http.close()
    return select_cluster(settings, names, settings.text("pulsarAdminUrl"))


def select_cluster(settings: Settings, found: Iterable[str], where: str) -> str:
    """The cluster in the settings, or else the only one found.

    Raises:
        StartError: there are several.
    """
    if settings.origin("clusterName") != DEFAULT_ORIGIN:
        return settings.broker.cluster_name
    names = sorted({*found} - _NO_CLUSTERS)
    if len(names) != 1:
        known = ", ".join(names) or "none"
        raise StartError(f"{where} has {known}: select a cluster with --cluster")
    return names[0]


async def show_waiting(attached: Attached, is_started: asyncio.Event) -> None:
    """Say what the start waits for, as long as it does."""
    store, said = attached.foundation.store, ""
    while isinstance(store, InProcessStore) and not is_started.is_set():
        await asyncio.sleep(_LOOK_S)
        if store.waiting_for not in {"", said}:
            said = store.waiting_for
            echo(said, err=True)


# Snapshots that `broker-ctl attach` shows, as plain JSON values.


async def take_snapshot(attached: "Attached", *, is_verbose: bool = False) -> dict[str, Any]:
    """The cluster, the plan, and what blocks it.

    ``plan`` is None while another process leads or no plan can be made; ``note`` has the reason.
    ``cluster_balancer`` is None if the cluster's settings cannot be read; ``untold`` has the error.
    ``stuck`` has bundles that the extensible load manager does not hand on. ``metadata_outdated``
    is None while the cluster is read as it is now, ``console_url`` where no console is served.
    """
    findings, error = await _findings(attached)
    base = attached.foundation
    held_back = await attached.cluster_balancer.blocked_reason()
    return {
        "at_ms": base.clock.wall_ms(),
        "cluster": base.settings.broker.cluster_name,
        "url": base.urls.web_url,
        "console_url": f"{base.urls.web_url}/ui/" if CONSOLE.holds(base.settings) else None,
        "acts": base.settings.pulsar.acts,
        "held_back": held_back,
        "metadata_outdated": outdated_row(attached.source.outdated),
        "stuck": attached.source.stuck(),
        "cluster_balancer": findings,
        **await _overview(attached, is_verbose=is_verbose),
        **({"untold": error} if error else {}),
    }


async def _overview(attached: "Attached", *, is_verbose: bool) -> Mapping[str, Any]:
    controller, leader = attached.balancer, attached.election.leader
    try:
        plan = await controller.operations.plan(is_verbose=is_verbose)
        return {**controller.overview(), "plan": plan, "note": ""}
    except NoLeader:
        if leader is None or leader.broker_id == attached.foundation.urls.broker_id:
            note = "waiting for the first reports"
        else:
            found = bound_leader(attached.election, attached.foundation.addresses)
            url = "" if found is None else found[1]
            note = (
                f"{leader.broker_id} already balances this cluster; this process stands by: "
                f"broker-ctl status --cluster --url {url or 'URL'}"
            )
    except BrokerCtlError as error:
        note = str(error)
    return {"brokers": [], "plan": None, "note": note}


async def _findings(attached: "Attached") -> tuple[list[dict[str, Any]] | None, str]:
    try:
        found = await attached.cluster_balancer.findings()
    except PeerError as error:
        return None, str(error)
    rows = [
        {
            "key": one.key,
            "value": one.value,
            "why": one.why,
            "dynamic": one.is_dynamic,
            "command": one.command,
        }
        for one in found
    ]
    return rows, ""


# Views of `broker-ctl attach`: a live table, lines without a terminal, or JSON.


_BAR: Final = 24
_MIB: Final = 1024 * 1024
_MAX_PLANNED: Final = 8
_MAX_ACTIONS: Final = 6
_MAX_BUNDLES: Final = 8
# Without a terminal, an unchanged state is printed again at this interval.
_REPEAT_MS: Final = 60_000
_BROKERS: Final = ("broker", "usage", "msg/s", "MiB/s", "bundles", "report")
_BUNDLES: Final = ("bundle", "owner", "msg/s", "MiB/s", "topics")
_BLOCKER_COLUMNS: Final = ("setting", "now", "effect", "command to disable it")

Snapshot = Mapping[str, Any]


class View:
    """Prints snapshots; this class as one JSON object per line."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """There is nothing to restore."""

    def show(self, snapshot: Snapshot) -> None:
        """Print a snapshot."""
        echo_json_line(snapshot)

    def once(self, snapshot: Snapshot) -> None:
        """Print the only snapshot."""
        self.show(snapshot)


def view_for(*, is_json: bool, is_live: bool) -> View:
    """The view for the options and the terminal."""
    if is_json:
        return View()
    return LiveView() if is_live else LineView()


class LineView(View):
    """Prints changes as lines, if stdout is not a terminal."""

    def __init__(self) -> None:
        self._printed_ms = 0
        self._key: tuple[object, ...] = ()
        self._last_outcome: tuple[int, str] = (0, "")

    def show(self, snapshot: Snapshot) -> None:
        """Print what has changed."""
        at = datetime.fromtimestamp(snapshot["at_ms"] / 1000, UTC).strftime("%H:%M:%S")
        for line in self._new_lines(snapshot):
            echo(f"{at} {line}")

    def once(self, snapshot: Snapshot) -> None:
        """Print all tables."""
        echo(_title(snapshot))
        print_table("", _BROKERS, map(_broker_cells, snapshot["brokers"]))
        print_table(_heaviest(snapshot), _BUNDLES, _bundle_rows(snapshot))
        print_plan(snapshot["plan"])
        if snapshot["cluster_balancer"]:
            print_table(
                "blockers", _BLOCKER_COLUMNS, map(_blocker_cells, snapshot["cluster_balancer"])
            )
        for line in _stuck_lines(snapshot):
            echo(line, err=True)
        if snapshot["metadata_outdated"]:
            echo(f"held back: {snapshot['held_back']}", err=True)
        if "untold" in snapshot:
            echo(
                f"the state of the cluster's own balancer is unknown: {snapshot['untold']}",
                err=True,
            )

    def _new_lines(self, snapshot: Snapshot) -> Iterator[str]:
        """Figures change constantly: they are printed with other changes, and once a minute."""
        if not self._printed_ms and snapshot["console_url"]:
            yield f"console: {snapshot['console_url']}"
        plan = snapshot["plan"]
        outdated = snapshot["metadata_outdated"]
        stuck = [row["bundle"] for row in snapshot["stuck"]]
        key = (snapshot["note"], outdated, *stuck, *_actions_of(plan))
        if key != self._key or snapshot["at_ms"] - self._printed_ms >= _REPEAT_MS:
            self._key, self._printed_ms = key, snapshot["at_ms"]
            yield snapshot["note"] or _title(snapshot)
            yield from _stuck_lines(snapshot)
            if plan is not None:
                yield _plan_line(plan)
                if (plan["decisions"] or outdated) and snapshot["held_back"]:
                    yield f"held back: {snapshot['held_back']}"
                yield from (f"  {row['sentence']}" for row in plan["decisions"][:_MAX_PLANNED])
        if plan is not None:
            yield from self._outcomes(snapshot["decisions"])

    def _outcomes(self, decisions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """Decisions carried out since the last snapshot, oldest first."""
        actions = [row for row in decisions if row["result"] in {"done", "failed"}]
        keys = [(row["at_ms"], row["sentence"]) for row in actions]
        news = actions[: keys.index(self._last_outcome)] if self._last_outcome in keys else actions
        if actions:
            self._last_outcome = keys[0]
        for row in reversed(news):
            why = f": {row['outcome']}" if row["outcome"] else ""
            yield f"{row['result']} in {row['took_s']:.2f} s{why}: {row['sentence']}"


def _stuck_lines(snapshot: Snapshot) -> Iterator[str]:
    for row in snapshot["stuck"]:
        yield (
            f"{row['bundle']} has had no owner for {row['for_s']:.0f} s, since "
            f"{row['last_owner']} gave it up: see the state channel of the load manager"
        )


class LiveView(View):
    """Redraws itself in place."""

    def __init__(self, console: Console | None = None) -> None:
        self._live = Live(console=console or Console(), auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the last table on the screen."""
        self._live.stop()

    def show(self, snapshot: Snapshot) -> None:
        """Redraw the table."""
        self._live.update(Group(*_render(escape_values(snapshot))), refresh=True)


def _render(snapshot: Snapshot) -> Iterator[Table | Text]:
    if snapshot["note"]:
        yield Text(snapshot["note"], style="bold")
    if snapshot["plan"] is not None:
        yield Text(_title(snapshot))
        yield _broker_table(snapshot)
        yield _table(_heaviest(snapshot), _BUNDLES, _bundle_rows(snapshot))
        yield Text(_plan_line(snapshot["plan"]))
        if snapshot["plan"]["decisions"]:
            yield _plan_table(snapshot["plan"])
    if snapshot["held_back"]:
        outdated = snapshot["metadata_outdated"]
        reason = snapshot["held_back"] if outdated else snapshot["held_back"].partition(":")[0]
        yield Text(f"held back: {reason}", style="red" if outdated else "yellow")
    for line in _stuck_lines(snapshot):
        yield Text(line, style="red")
    if snapshot["cluster_balancer"]:
        yield _table(
            "the cluster's own balancer",
            _BLOCKER_COLUMNS,
            map(_blocker_cells, snapshot["cluster_balancer"]),
        )
    if "untold" in snapshot:
        yield Text(
            f"the state of the cluster's own balancer is unknown: {snapshot['untold']}", style="red"
        )
    if snapshot["plan"] is not None:
        actions = [row for row in snapshot["decisions"] if row["result"] in {"done", "failed"}]
        rows = [(row["result"], f"{row['sentence']} {row['outcome']}") for row in actions]
        if rows:
            yield _table("latest actions", ("", ""), rows[:_MAX_ACTIONS])
    console = f"   console: {snapshot['console_url']}" if snapshot["console_url"] else ""
    yield Text(
        f"broker-ctl status --cluster --url {snapshot['url']}{console}   Ctrl-C stops it",
        style="dim",
    )


def _broker_table(snapshot: Snapshot) -> Table:
    table = Table()
    for name in ("broker", "usage", "", "msg/s", "MiB/s", "bundles", "report"):
        table.add_column(name, justify="left" if name in {"broker", "usage"} else "right")
    for broker in snapshot["brokers"]:
        name, usage, *others = _broker_cells(broker)
        bar = "█" * round(min(float(broker["usage_ratio"]), 1.0) * _BAR)
        table.add_row(name, bar, usage, *others)
    return table


def _plan_table(plan: Mapping[str, Any]) -> Table:
    rows = [(row["sentence"],) for row in plan["decisions"][:_MAX_PLANNED]]
    if (more := len(plan["decisions"]) - len(rows)) > 0:
        rows.append((f"and {more} more",))
    return _table("", ("",), rows)


def _table(title: str, columns: Sequence[str], rows: Any) -> Table:
    table = Table(title=title or None, title_justify="left", show_header=any(columns))
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        # Text: rich would take a value in brackets for markup.
        table.add_row(*map(Text, row))
    return table


# Text.


def _title(snapshot: Snapshot) -> str:
    return (
        f"cluster {snapshot['cluster']}: {len(snapshot['brokers'])} brokers, "
        f"{snapshot['bundle_count']} bundles with load data; max over mean usage "
        f"{imbalance_text(snapshot['usage_imbalance'])}, throughput "
        f"{imbalance_text(snapshot['throughput_imbalance'])}{_misplaced(snapshot)}"
    )


def _misplaced(snapshot: Snapshot) -> str:
    if not (count := snapshot["misplaced_bundles"]):
        return ""
    return (
        f"; {count} bundles are on brokers that isolation policies do not allow: broker-ctl plan "
        "--heal-policies"
    )


def _actions_of(plan: Mapping[str, Any] | None) -> list[tuple[object, ...]]:
    """The decisions of a plan without their figures."""
    names = ("kind", "bundle", "source", "destination")
    decisions = () if plan is None else plan["decisions"]
    return [tuple(row.get(name) for name in names) for row in decisions]


def _plan_line(plan: Mapping[str, Any]) -> str:
    if not plan["decisions"]:
        return "no changes planned"
    usage, throughput = (
        f"{imbalance_text(plan[f'{of}_imbalance_before'])} -> "
        f"{imbalance_text(plan[f'{of}_imbalance_after'])}"
        for of in ("usage", "throughput")
    )
    return (
        f"planned: {len(plan['decisions'])} actions, {plan['moves']} of them moves; max over mean "
        f"usage {usage}, throughput {throughput}"
    )


def _broker_cells(broker: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        broker["broker"],
        f"{broker['usage_ratio']:.1%}",
        f"{broker['msg_per_s']:,.0f}",
        f"{broker['throughput_bytes_per_s'] / _MIB:,.1f}",
        str(broker["bundles"]),
        f"{broker['age_s']:.0f} s ago",
    )


def _heaviest(snapshot: Snapshot) -> str:
    shown = len(snapshot["bundles"][:_MAX_BUNDLES])
    return f"the heaviest {shown} of {snapshot['bundle_count']} bundles"


def _bundle_rows(snapshot: Snapshot) -> list[tuple[str, ...]]:
    return [
        (
            row["bundle"],
            row["owner"] or "none",
            f"{row['msg_per_s']:,.0f}",
            f"{row['throughput_bytes_per_s'] / _MIB:,.2f}",
            str(row["topics"]),
        )
        for row in snapshot["bundles"][:_MAX_BUNDLES]
    ]


def _blocker_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    return row["key"], row["value"], row["why"], row["command"]


# Run `broker-ctl attach`: settings from options, the daemon, and the view.


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
