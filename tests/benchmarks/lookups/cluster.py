"""Three ZooKeeper servers and three daemons, of which one is measured."""

import os
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import BROKER_CTL, DaemonProcess, Daemons
from broker_ctl.lab.embedded.ensemble import Ensemble
from broker_ctl.lab.embedded.server import TICK_MS
from broker_ctl.store.zookeeper.store import ZooKeeperStore
from tests.benchmarks.lines.progress import report_progress
from tests.benchmarks.lookups.cores import pin
from tests.benchmarks.store.tree import direct_store
from tests.support.clusters.tenants import make_tenant
from tests.support.daemon.running_daemons import leader_of
from tests.support.time.waiting import eventually

BROKERS: Final = 3
# Now: while one cluster is measured this process has one core, and a second cluster beside it would
# find no other.
_EVERY_CORE: Final = frozenset(os.sched_getaffinity(0))
SETTINGS: Final = {
    "metadataStoreSessionTimeoutMillis": "6000",
    "zookeeperTickTimeMillis": str(TICK_MS),
    "hostUsageSource": "dataplane",
    # What is not owned stays so, and what is owned stays where it is.
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is measured, and what with.

    Attributes:
        asked: the daemon that is measured; it does not lead.
        others: pids of what serves it and is not measured.
        hosts: addresses of the servers.
        client_token: of those who look up; empty: they need none.
        grants: what the policies of its namespaces say of them.
    """

    http: HttpClient
    store: ZooKeeperStore
    daemons: Sequence[DaemonProcess]
    asked: DaemonProcess
    others: Sequence[int]
    hosts: str
    client_token: str = ""
    grants: Mapping[str, Any] | None = None

    @property
    def http_port(self) -> int:
        """Its port of HTTP."""
        return int(self.asked.broker_id.rpartition(":")[2])

    @property
    def asked_pid(self) -> int:
        """The pid of the daemon that is measured."""
        assert self.asked.pid is not None, self.asked.log_tail()
        return self.asked.pid

    async def make_namespace(self, namespace: str, bundles: int) -> None:
        """Create the namespace with this number of bundles."""
        await make_tenant(self.http, self.asked.url, namespace.partition("/")[0])
        made = await self.http.request(
            "PUT",
            f"{self.asked.url}/admin/v2/namespaces/{namespace}",
            json={"bundles": {"numBundles": bundles}}
            | ({} if self.grants is None else {"auth_policies": self.grants}),
        )
        assert made.status == 204, made.body


@asynccontextmanager
async def running_cluster() -> AsyncIterator[Cluster]:
    """All of them serve; everything ends with the block."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lookup-")))
        ensemble = await stack.enter_async_context(Ensemble.of(directory / "zookeeper", 3))
        report_progress("three servers serve")
        pids = [server.pid for server in ensemble.servers if server.pid is not None]
        yield await _served(stack, directory, ensemble.connect_string, others=pids)


@asynccontextmanager
async def beside(
    cluster: Cluster,
    directory: Path,
    chroot: str,
    settings: Mapping[str, str],
    *,
    token: str | None = None,
    client_token: str = "",
    grants: Mapping[str, Any] | None = None,
    command: Sequence[str] = BROKER_CTL,
) -> AsyncIterator[Cluster]:
    """Another cluster below ``chroot`` of the same servers; ``token`` is of a super user."""
    await cluster.store.create(chroot)
    async with AsyncExitStack() as stack:
        served = await _served(
            stack, directory, cluster.hosts, chroot, settings, token=token, command=command
        )
        yield replace(served, client_token=client_token, grants=grants)


async def _served(
    stack: AsyncExitStack,
    directory: Path,
    hosts: str,
    chroot: str = "",
    more: Mapping[str, str] = MappingProxyType({}),
    *,
    token: str | None = None,
    others: Sequence[int] = (),
    command: Sequence[str] = BROKER_CTL,
) -> Cluster:
    """Start the daemons of a cluster, which end with ``stack``."""
    settings = {**SETTINGS, **more, "metadataStoreUrl": f"zk:{hosts}{chroot}"}
    unstarted = Daemons(directory, BROKERS, settings)
    for daemon in unstarted.all:
        daemon.command = command
    daemons = await stack.enter_async_context(unstarted)
    http = await stack.enter_async_context(
        HttpClient(token=token, timeout_s=20.0, max_body_bytes=1 << 24)
    )
    await daemons.wait_ready(http)
    leader, _ = await eventually(partial(leader_of, http, daemons.all), what="a leader")
    asked = next(daemon for daemon in daemons.all if daemon is not leader)
    served = [daemon.pid for daemon in daemons.all if daemon is not asked]
    pids = [*others, *(pid for pid in served if pid is not None)]
    store = await stack.enter_async_context(direct_store(hosts, chroot))
    report_progress(f"three daemons serve; measured is {asked.broker_id}, pid {asked.pid}")
    return Cluster(http, store, daemons.all, asked, pids, hosts)


@asynccontextmanager
async def on_a_core_of_its_own(cluster: Cluster) -> AsyncIterator[int]:
    """The daemon has the last core for itself; what asks and what serves it, the first one."""
    measured, asking = max(_EVERY_CORE), min(_EVERY_CORE)
    pids = [*cluster.others, os.getpid()]
    pin(cluster.asked_pid, {measured})
    for pid in pids:
        pin(pid, {asking})
    try:
        yield measured
    finally:
        for pid in (*pids, cluster.asked_pid):
            pin(pid, _EVERY_CORE)
