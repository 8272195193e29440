"""A broker of Pulsar and a daemon, on one ZooKeeper server and one core."""

import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import Daemons
from broker_ctl.lab.embedded.server import TICK_MS
from tests.benchmarks.lines.progress import report_progress
from tests.benchmarks.lookups.cores import pin
from tests.support.clusters.tenants import make_tenant
from tests.support.pulsar.cluster import PulsarCluster, pulsar_cluster
from tests.support.pulsar.distribution import distribution
from tests.support.pulsar.files import Java
from tests.support.zookeeper.ensemble import LoopThread

TENANT: Final = "public"
# One processor is all that it has, and all that it is to size its pools and collector for.
_JAVA: Final = Java(heap_mb=768, tuning=("-XX:ActiveProcessorCount=1",))
# Pulsar's defaults, where its tests have it report each second.
_PULSAR: Final = {
    "loadBalancerReportUpdateMinIntervalMillis": "5000",
    "loadBalancerReportUpdateMaxIntervalMinutes": "15",
    "statsUpdateFrequencyInSecs": "60",
}
_OURS: Final = {
    "clusterName": "beside",
    "zookeeperTickTimeMillis": str(TICK_MS),
    "hostUsageSource": "dataplane",
    # What is owned stays where it is, as at the broker.
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerAutoBundleSplitEnabled": "false",
}
_CHROOT: Final = "/broker-ctl-beside"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two.

    Attributes:
        make_namespace: by local name and number of bundles, from any loop.
    """

    name: str
    pid: int
    http_port: int
    binary_port: int
    make_namespace: Callable[[str, int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Sides:
    """Both, and the release of Pulsar."""

    ours: Side
    pulsar: Side
    version: str

    @property
    def both(self) -> Sequence[Side]:
        """In the order of their turns."""
        return (self.ours, self.pulsar)


@contextmanager
def both_sides() -> Iterator[Sides]:
    """Both serve, on a core of their own; everything ends with the block."""
    pulsar = distribution()
    with (
        tempfile.TemporaryDirectory(prefix="lookups-beside-") as name,
        pulsar_cluster(
            Path(name, "pulsar"), pulsar, brokers=1, settings=_PULSAR, java=_JAVA
        ) as cluster,
        LoopThread("daemon") as thread,
    ):
        report_progress(f"a broker of Pulsar {pulsar.version} serves")
        stack = AsyncExitStack()
        try:
            ours = thread.run(_daemon(stack, Path(name, "daemon"), cluster.zookeeper))
            report_progress("a daemon serves")
            sides = Sides(ours, _broker(cluster), pulsar.version)
            with _held_to_one_core([side.pid for side in sides.both]):
                yield sides
        finally:
            thread.run(stack.aclose())


async def _daemon(stack: AsyncExitStack, directory: Path, zookeeper: str) -> Side:
    settings = {**_OURS, "metadataStoreUrl": f"zk:{zookeeper}{_CHROOT}"}
    daemons = await stack.enter_async_context(Daemons(directory, 1, settings))
    async with HttpClient(timeout_s=20.0, max_body_bytes=1 << 20) as http:
        await daemons.wait_ready(http)
        (daemon,) = daemons.all
        await make_tenant(http, daemon.url, TENANT)

    async def make_namespace(local: str, bundles: int) -> None:
        async with HttpClient(timeout_s=20.0, max_body_bytes=1 << 20) as http:
            reply = await http.request(
                "PUT",
                f"{daemon.url}/admin/v2/namespaces/{TENANT}/{local}",
                json={"bundles": {"numBundles": bundles}},
            )
        assert reply.status == 204, reply.body

    assert daemon.pid is not None, daemon.log_tail()
    port = int(daemon.broker_id.rpartition(":")[2])
    return Side("broker_ctl", daemon.pid, port, daemon.lookup_port, make_namespace)


def _broker(cluster: PulsarCluster) -> Side:
    (broker,) = cluster.brokers

    async def make_namespace(local: str, bundles: int) -> None:
        await cluster.make_namespace(f"{TENANT}/{local}", bundles)

    http, binary = (int(url.rpartition(":")[2]) for url in (broker.url, broker.service_url))
    return Side("pulsar", broker.pid, http, binary, make_namespace)


@contextmanager
def _held_to_one_core(pids: Sequence[int]) -> Iterator[None]:
    """These have the last core; this process and all else that it has started, the first one."""
    every = os.sched_getaffinity(0)
    own = psutil.Process()
    for process in (own, *own.children(recursive=True)):
        pin(process.pid, {max(every) if process.pid in pids else min(every)})
    try:
        yield
    finally:
        pin(own.pid, every)
