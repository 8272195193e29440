"""What a run is made of: servers of two stores, three daemons with their brokers, all links."""

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker_ctl.cli.demo_cluster import SETTINGS
from broker_ctl.errors import HttpError, StoreError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded import guard as outlive_guard
from broker_ctl.lab.embedded.daemons import DaemonProcess
from broker_ctl.lab.embedded.ensemble import Ensemble
from broker_ctl.lab.embedded.ports import port_of, reserve_port
from broker_ctl.lab.embedded.server import TICK_MS, Extras, Role, ZooKeeperServer
from broker_ctl.store import paths
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.chaos.cluster.configuration import Configuration
from tests.chaos.cluster.links import Links
from tests.chaos.cluster.scoped import Scoped
from tests.chaos.judges.acts import Guard, SharedLog
from tests.chaos.judges.held_loops import Hold
from tests.chaos.judges.history import Archive
from tests.support.time.waiting import eventually

DAEMONS: Final = 3
# A server without a leader serves clients that only read.
SERVERS: Final = Extras(java_options=("-Dreadonlymode.enabled=true",))
SESSION_S: Final = 4.0
TICK_S: Final = TICK_MS / 1000
RECLAIM_GRACE_S: Final = 2.0
WATCHDOG_S: Final = 2 * SESSION_S
# I12: the session of a loop that the watchdog gave up ends in this time; the servers may be slow.
EXPIRY_S: Final = SESSION_S + 2 * TICK_S + 2.0
# I6: the longest time after the last fault until all is served again.
RECOVERY_S: Final = SESSION_S + TICK_S + RECLAIM_GRACE_S + 2.0
_START_S: Final = 60.0
# The daemon of this tree.
DAEMON: Final = (sys.executable, "-m", "tests.chaos.cluster.holdable_daemon")
_SECRET: Final = "the-secret-of-broker-and-daemon"
_ROOT: Final = Path(__file__).parents[3]
_AUTHORITY: Final = {Guard.LEASE: "lease", Guard.TOKENS: "storage", Guard.NONE: "storage"}


def now_s() -> float:
    """On the clock that all processes of this machine share."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Death:
    """A daemon was killed with its sessions open.

    ``heard_s``: until when servers may have got what it had said. A server counts that as contact
    when it arrives, and the kernel of a host sends on for a process that is dead.
    """

    broker_id: str
    at_s: float
    heard_s: float


class Broker:
    """A daemon, and the broker process that it controls."""

    def __init__(self, number: int, daemon: DaemonProcess, command: Sequence[str]) -> None:
        self.number = number
        self.daemon = daemon
        self._command = command
        self._process: asyncio.subprocess.Process | None = None

    @property
    def id(self) -> str:
        return self.daemon.broker_id

    @property
    def replica_address(self) -> str:
        """Where its replicas are fetched."""
        return f"{self.id.rpartition(':')[0]}:{self.daemon.service_port}"

    @property
    def is_whole(self) -> bool:
        """Whether both processes run."""
        serves = self._process is not None and self._process.returncode is None
        return serves and self.daemon.is_running

    async def start_process(self) -> None:
        with self.daemon.files.log.with_suffix(".broker.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, outlive_guard.__file__, str(os.getpid()), *self._command,
                cwd=_ROOT, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    async def kill_process(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


class Cluster(Scoped):
    """All processes of one phase. A scope: whatever it started is ended.

    ``more`` are settings of single daemons, by number; ``command`` is what daemons begin as.
    """

    def __init__(
        self,
        directory: Path,
        guard: Guard,
        more: Mapping[int, Mapping[str, str]] | None = None,
        command: Sequence[str] = DAEMON,
    ) -> None:
        super().__init__()
        self._command = command
        self._directory = directory
        self._guard = guard
        self._more = more or {}
        self.chroot = f"/{guard}"
        self.links = Links()
        self.log = SharedLog(guard)
        self.ensemble = Ensemble.of(
            directory / "zookeeper",
            servers=3,
            heap_mb=128,
            fsync=True,
            seen_by=self.links.seen_by,
            extras=SERVERS,
        )
        self.configuration = Configuration(directory / "configuration")
        self.http = HttpClient(timeout_s=2.0, max_body_bytes=8 << 20)
        self.brokers: list[Broker] = []
        self.deaths: list[Death] = []
        self.holds: list[Hold] = []

    async def _start(self) -> None:
        enter = self._scope.enter_async_context
        await enter(self.links)
        await enter(self.log)
        await enter(self.ensemble)
        await enter(self.configuration)
        zookeeper = self._directory / "zookeeper"
        numbers = [server.id for server in self.ensemble.servers]
        self.archive = Archive(
            self._directory / "logs", {n: zookeeper / f"server-{n}" / "data" for n in numbers}
        )
        await enter(self.http)
        self.observer = self.store(self.ensemble.connect_string)
        await self.observer.start()
        self._scope.push_async_callback(self.observer.close)
        secret = self._directory / "secret"
        secret.write_text(_SECRET)
        secret.chmod(0o600)
        await self._show_log()
        for number in range(1, DAEMONS + 1):
            broker = self._broker(number)
            self.brokers.append(broker)
            self._scope.push_async_callback(self._end, broker)
            await broker.start_process()
            await broker.daemon.start()
        for broker in self.brokers:
            await broker.daemon.wait_ready(self.http, _START_S)

    def store(self, hosts: str) -> ZooKeeperStore:
        """A client of the checker's own."""
        options = StoreOptions(hosts, self.chroot, operation_timeout_s=10.0, session_timeout_s=10.0)
        return ZooKeeperStore(options, random.Random(0))

    def _broker(self, number: int) -> Broker:
        held = self._scope.enter_context(reserve_port())
        settings = {
            **SETTINGS,
            "metadataStoreUrl": (
                f"zk:{self.links.connect_string(number, self.ensemble.servers)}{self.chroot}"
            ),
            "configurationMetadataStoreUrl": self.configuration.url(number),
            "metadataStoreSessionTimeoutMillis": str(round(SESSION_S * 1000)),
            "loopWatchdogSeconds": str(round(WATCHDOG_S)),
            "brokerReclaimGraceMillis": str(round(RECLAIM_GRACE_S * 1000)),
            "ownershipAuthority": _AUTHORITY[self._guard],
            "brokerId": str(number),
            "replicaAcknowledgeTimeoutMillis": "2000",
            "replicaPollMillis": "200",
            # Short, so that a follower leaves the ISR while a fault lasts.
            "replicaLagTimeMaxMillis": "1500",
            "leaderImbalanceCheckIntervalSeconds": "10",
            "dataPlane": "webhook",
            "dataPlaneUrl": f"http://127.0.0.1:{port_of(held)}",
            "dataPlaneSecretFile": str(self._directory / "secret"),
            "dataPlaneFailureTimeoutMillis": "1500",
            "dataPlaneRequestTimeoutMillis": "1000",
            "hostUsageSource": "host",
            "loadBalancerSheddingEnabled": "false",
            "loadBalancerAutoBundleSplitEnabled": "false",
            **self._more.get(number, {}),
        }
        daemon = self._daemon(number, settings)
        command = [
            *self._command_at(number), sys.executable, "-m", "tests.chaos.cluster.broker_process",
            "--port", str(port_of(held)), "--log-port", str(self.log.port),
            "--secret-file", str(self._directory / "secret"),
            "--authority-url", f"{daemon.url}/dataplane/v1/authority",
            "--broker", daemon.broker_id, "--guard", self._guard,
            "--number", str(number), "--replica-port", str(daemon.service_port),
            "--replica-logs", str(self._directory / f"replicas-{number}"),
        ]  # fmt: skip
        return Broker(number, daemon, command)

    # What is otherwise where each process has a host of its own.

    async def _show_log(self) -> None:
        """Broker processes find the log where the checker does."""

    def _command_at(self, _number: int) -> Sequence[str]:
        """What goes before a command that is to run where a daemon is."""
        return ()

    def _daemon(self, number: int, settings: Mapping[str, str]) -> DaemonProcess:
        return DaemonProcess(self._directory, number, settings, self._command)

    async def heal(self) -> None:
        """Let everything pass."""
        await self.links.heal_all()

    async def _end(self, broker: Broker) -> None:
        broker.daemon.signal(signal.SIGCONT)
        if broker.daemon.is_running:
            await broker.daemon.stop()
        await broker.kill_process()
        broker.daemon.release_ports()

    async def stop_daemons(self) -> None:
        """All at once, as an operator would; each hands its bundles over."""
        async with asyncio.TaskGroup() as group:
            for broker in self.brokers:
                if broker.daemon.is_running:
                    group.create_task(broker.daemon.stop(), name=f"stop {broker.id}")

    # What the checker sees.

    async def leader(self) -> ZooKeeperServer | None:
        """The one server that leads, once it has a follower."""
        roles = [(server, await server.role()) for server in self.ensemble.servers]
        leaders = [server for server, role in roles if role is Role.LEADER]
        has_follower = any(role is Role.FOLLOWER for _, role in roles)
        return leaders[0] if len(leaders) == 1 and has_follower else None

    async def session_of(self, broker: Broker) -> int:
        """The session that a broker is registered in; 0 where it is not."""
        try:
            stat = await self.observer.exists(paths.registration(broker.id))
        except StoreError:
            return 0
        return 0 if stat is None else stat.ephemeral_owner

    async def is_ready(self, broker: Broker) -> bool:
        try:
            reply = await self.http.request("GET", f"{broker.daemon.url}/readyz")
        except HttpError:
            return False
        return reply.status == 200

    async def is_settled(self) -> bool:
        """Who runs is registered and ready, and who does not is gone."""
        for broker in self.brokers:
            session = await self.session_of(broker)
            if bool(session) != broker.is_whole:
                return False
            if broker.is_whole and not await self.is_ready(broker):
                return False
        return True

    async def start_server(self, server: ZooKeeperServer) -> None:
        """One that was killed."""
        self.archive.keep()
        await server.start()

    async def kill_daemon(self, broker: Broker) -> None:
        at_s = now_s()
        self.deaths.append(Death(broker.id, at_s, at_s))
        await broker.daemon.kill()

    def record_hold(self, broker: Broker, session: int, begin_ms: int, end_ms: int) -> None:
        """The event loop of a daemon did not run; ``session``: before that."""
        self.holds.append(Hold(broker.id, session, begin_ms, end_ms))

    async def wait_quorum(self) -> None:
        """The ensemble has a leader and all links pass: from here on recovery is measured."""
        await self.heal()
        await eventually(self.leader, _START_S, "a leader", poll_s=0.05)
