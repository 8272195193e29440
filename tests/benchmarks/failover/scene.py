"""Brokers that stay, and one that leads everything and is taken away again and again."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from broker_ctl.clock import Clock, SystemClock
from broker_ctl.errors import HttpError
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess
from broker_ctl.lab.embedded.server import TICK_MS
from broker_ctl.store import paths
from broker_ctl.store.interface import Change, Notification
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.benchmarks.failover.layout import BROKERS, Layout, cluster_layout, lay_topics
from tests.benchmarks.lines.progress import report_progress
from tests.support.replicas.replicated_daemons import ReplicatedDaemons
from tests.support.time.waiting import eventually

SESSION_MS: Final = 6000
_SETTINGS: Final = {
    "metadataStoreSessionTimeoutMillis": str(SESSION_MS),
    "zookeeperTickTimeMillis": str(TICK_MS),
    "dataPlane": "simulated",
    "hostUsageSource": "dataplane",
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
    # Leadership goes back only when the benchmark asks for it: nothing else is measured.
    "autoLeaderRebalanceEnabled": "false",
    "replicaAcknowledgeTimeoutMillis": "60000",
    "brokerShutdownTimeoutMs": "60000",
}
_GAUGES: Final = {
    "partitions": "kafka_controller_kafkacontroller_globalpartitioncount",
    "offline": "kafka_controller_kafkacontroller_offlinepartitionscount",
    "imbalanced": "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
    "short": "kafka_server_replicamanager_underreplicatedpartitions",
    "brokers": "kafka_controller_kafkacontroller_activebrokercount",
}
_POLL_S: Final = 0.5
_MOVED_S: Final = 600.0


@dataclass(slots=True)
class Scene:
    """A running cluster in which the victim leads all partitions, and nothing is missing.

    Attributes:
        store: of the measurement's own.
        gone_s: when the victim's registration went last, by the wall clock.
        window_s: begin and end of what was measured last, by the wall clock.
    """

    layout: Layout
    daemons: ReplicatedDaemons
    store: ZooKeeperStore
    http: HttpClient
    chroot: str
    gone_s: float = 0.0
    window_s: tuple[float, float] = (0.0, 0.0)
    _clock: Clock = field(default_factory=SystemClock)

    def heard(self, notification: Notification) -> None:
        """Of the registrations."""
        is_victim = notification.path == paths.broker(self.layout.victim)
        if is_victim and notification.change is Change.DELETED:
            self.gone_s = self._clock.wall_ms() / 1000

    @property
    def victim(self) -> DaemonProcess:
        return self.daemons.by_id[self.layout.victim]

    async def controller(self) -> DaemonProcess:
        """The daemon that is the controller now."""

        async def found() -> DaemonProcess | None:
            for daemon in self.daemons.running:
                if (await self.gauges(daemon)).get("brokers"):
                    return daemon
            return None

        return await eventually(found, 60.0, "a controller", _POLL_S)

    async def leave_controller(self) -> None:
        """Another broker than the victim is the controller: its death is not that of both."""
        while await self.controller() is self.victim:
            await self.store.delete(paths.CONTROLLER_ELECTION.node_path)
            await self.wait_whole()

    async def gauges(self, daemon: DaemonProcess) -> Mapping[str, float]:
        """A daemon's gauges of all partitions: 0 where it is not the controller."""
        try:
            reply = await self.http.request("GET", f"{daemon.url}/metrics")
        except HttpError:
            return {}
        text = reply.body.decode()
        matches = {
            name: re.search(rf"^{metric}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
            for name, metric in _GAUGES.items()
        }
        return {name: float(match[1]) for name, match in matches.items() if match}

    async def wait_whole(self) -> None:
        """The victim is back, everybody is in sync, and it leads everything again."""
        count = self.layout.partitions
        began_s, asked_s = time.monotonic(), 0.0

        async def is_whole() -> bool:
            nonlocal asked_s
            controller = await self.controller()
            seen = await self.gauges(controller)
            if seen.get("partitions") != count or seen["offline"] or seen["short"]:
                return False
            if seen["imbalanced"] and time.monotonic() - asked_s > 10.0:
                asked_s = time.monotonic()
                await self.daemons.order("POST", "/elections", {"kind": "preferred"}, 1)
            return not seen["imbalanced"]

        await eventually(is_whole, _MOVED_S, "the victim leads all again", _POLL_S)
        report_progress(f"  whole again after {time.monotonic() - began_s:.1f} s")
        await asyncio.sleep(2.0)


@asynccontextmanager
async def scene(
    hosts: str,
    chroot: str,
    directory: Path,
    partitions: int,
    settings: Mapping[str, str],
    *,
    brokers: int = BROKERS,
) -> AsyncIterator[Scene]:
    """A cluster below a chroot of its own; the last broker leads everything."""
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(HttpClient(timeout_s=90.0, max_body_bytes=64 << 20))
        store = ZooKeeperStore(StoreOptions(hosts, chroot))
        await store.start()
        stack.push_async_callback(store.close)
        await store.wait_connected()
        # On one ensemble, each chroot is a cluster with its own name.
        cluster = {
            "clusterName": chroot.removeprefix("/"),
            "metadataStoreUrl": f"zk:{hosts}{chroot}",
        }
        daemons = await stack.enter_async_context(
            ReplicatedDaemons(directory, brokers, {**_SETTINGS, **cluster, **settings}, http)
        )
        layout = cluster_layout(partitions, brokers)
        built = Scene(layout, daemons, store, http, chroot)
        await store.watch(paths.BROKER_IDS, built.heard)
        await eventually(built.controller, 60.0, "a controller")
        began_s = time.monotonic()
        await lay_topics(store, layout)
        await built.wait_whole()
        report_progress(f"  {partitions} partitions made in {time.monotonic() - began_s:.1f} s")
        yield built
