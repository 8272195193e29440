"""Daemons beside a played Pulsar cluster, each with a session and a port of its own."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from broker_ctl.attach.attached import Attached
from broker_ctl.attach.lifecycle import AttachedDaemon
from broker_ctl.clock import SystemClock
from broker_ctl.daemon.lifecycle.systemd import Notifier, StopSignals
from broker_ctl.daemon.wiring.environment import Environment
from broker_ctl.daemon.wiring.stores import OwnStore
from broker_ctl.instruments.declared import StoreInstruments
from broker_ctl.lab.memory_store.ensemble import MemoryEnsemble
from broker_ctl.lab.memory_store.store import MemoryStore
from broker_ctl.settings.root import Settings
from broker_ctl.settings.sources import load
from tests.support.clusters.foreign_cluster import CLUSTER, ForeignCluster
from tests.support.http.web_server import free_port

# Many cycles in a second; nothing rests.
QUICK = (
    "loadBalancerSheddingIntervalMinutes=0.003",
    "loadBalancerSplitIntervalMinutes=0.003",
    "loadBalancerSheddingGracePeriodMinutes=0",
    "loadBalancerPlannerReturnMinutes=0",
    "loadBalancerMaxLoadMovedPerHourPercentage=1000",
    "loadBalancerAutoBundleSplitEnabled=false",
)


class AttachedEnvironment(Environment):
    """The environment of a process, but for the store."""

    def __init__(self, ensemble: MemoryEnsemble) -> None:
        super().__init__(SystemClock(), random.Random(1))
        self.store = MemoryStore(ensemble, "attached", session_timeout_s=12.0)

    def open_stores(self, _: Settings, __: StoreInstruments) -> tuple[OwnStore, OwnStore]:
        return self.store, self.store


@dataclass
class AttachedRun:
    """A daemon that runs."""

    attached: Attached
    daemon: asyncio.Task[int]
    signals: StopSignals
    store: MemoryStore

    @property
    def is_leading(self) -> bool:
        return self.attached.balancer.is_leading

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.attached.api.port}"


def attached_settings(cluster: ForeignCluster, *overrides: str) -> Settings:
    fixed = (
        "dataPlane=pulsar",
        f"clusterName={CLUSTER}",
        f"pulsarAdminUrl={cluster.urls[0]}",
        f"webServicePort={free_port()}",
        "zookeeperTickTimeMillis=500",
    )
    return load(None, {}, [*fixed, *QUICK, *overrides])


def attached_to(
    cluster: ForeignCluster, *overrides: str, history: Path | None = None
) -> tuple[Attached, MemoryStore]:
    """All parts of a daemon, and the session that it is going to have."""
    around = AttachedEnvironment(cluster.ensemble)
    kept = () if history is None else (f"loadHistoryDirectory={history}",)
    return Attached(attached_settings(cluster, *overrides, *kept), around), around.store


@asynccontextmanager
async def attached_run(
    cluster: ForeignCluster, *overrides: str, history: Path | None = None
) -> AsyncIterator[AttachedRun]:
    """A daemon, stopped at the end unless it has ended by then."""
    attached, store = attached_to(cluster, *overrides, history=history)
    signals = StopSignals()
    daemon = AttachedDaemon(attached, Notifier({}), signals)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(daemon.run(), name="attached daemon")
        yield AttachedRun(attached, task, signals, store)
        signals.ask()
