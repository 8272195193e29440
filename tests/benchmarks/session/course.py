"""The run from start to end: each part by itself, on the same servers."""

import os
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import Daemons
from broker_ctl.lab.embedded.ensemble import Ensemble
from broker_ctl.lab.embedded.server import TICK_MS
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.benchmarks.lines.progress import report_progress
from tests.benchmarks.session.expiry import Expiries, measure_expiries, scene
from tests.benchmarks.session.failover import measure_failover
from tests.benchmarks.session.reconnects import measure_reconnects
from tests.benchmarks.session.serial import measure_serial

BROKERS: Final = 3
BROKERS_CHROOT: Final = "/brokers"
FAILOVER_CHROOT: Final = "/failover"
SESSION_MS: Final = 6000
# A load report names every bundle; Pulsar's start scripts set as much.
JUTE_BYTES: Final = 10 << 20
SETTINGS: Final = {
    "metadataStoreSessionTimeoutMillis": str(SESSION_MS),
    "zookeeperTickTimeMillis": str(TICK_MS),
    "zookeeperJuteMaxBufferBytes": str(JUTE_BYTES),
    "hostUsageSource": "dataplane",
    "loadBalancerSheddingEnabled": "false",
    # A report of all bundles is large, and is not measured here.
    "loadBalancerReportUpdateMinIntervalMillis": "30000",
    "loadBalancerAutoBundleSplitEnabled": "false",
}


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured; the defaults take less than ten minutes."""

    bundles: int = 10_000
    expiries: int = 5
    kills: int = 6
    failovers: int = 3
    is_serial: bool = True


async def run(extent: Extent) -> dict[str, Any]:
    """All figures; those whose count is 0 are left out."""
    found: dict[str, Any] = {}
    os.environ["JAVA_TOOL_OPTIONS"] = f"-Djute.maxbuffer={JUTE_BYTES}"
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="session-")))
        ensemble = await stack.enter_async_context(
            Ensemble.of(directory / "zookeeper", 3, heap_mb=512)
        )
        hosts = ensemble.connect_string
        http = await stack.enter_async_context(HttpClient(timeout_s=20.0, max_body_bytes=1 << 24))
        report_progress("three servers serve")
        root = await _opened(stack, hosts, "")
        for chroot in (BROKERS_CHROOT, FAILOVER_CHROOT):
            await root.create(chroot)
        settings = _settings(hosts, BROKERS_CHROOT)
        if extent.expiries:
            async with Daemons(directory, BROKERS, settings) as daemons:
                await daemons.wait_ready(http)
                found |= await _expiries(stack, http, daemons, hosts, extent)
        if extent.kills:
            followers, leaders = await measure_reconnects(ensemble, extent.kills)
            found["follower_kill_reconnect_ms"] = followers
            found["leader_kill_reconnect_ms"] = leaders
        if extent.failovers:
            settings = _settings(hosts, FAILOVER_CHROOT)
            found["leader_failover_s"] = await measure_failover(
                directory / "failover", settings, http, extent.failovers
            )
    return found


async def _expiries(
    stack: AsyncExitStack, http: HttpClient, daemons: Daemons, hosts: str, extent: Extent
) -> dict[str, Any]:
    store = await _opened(stack, hosts, BROKERS_CHROOT)
    async with scene(http, daemons.all, extent.bundles) as built:
        wanted = Expiries(hosts.partition(",")[0], BROKERS_CHROOT, extent.expiries)
        found = await measure_expiries(wanted, store=store, built=built)
        if extent.is_serial:
            serial_s = await measure_serial(hosts, BROKERS_CHROOT, extent.bundles, JUTE_BYTES)
            report_progress(f"one by one: {serial_s:.2f} s")
            found["serial_baseline_s"] = round(serial_s, 3)
    return found


def _settings(hosts: str, chroot: str) -> dict[str, str]:
    """Of daemons below a chroot; on one ensemble, each chroot is a cluster with its own name."""
    name = chroot.removeprefix("/")
    return {**SETTINGS, "clusterName": name, "metadataStoreUrl": f"zk:{hosts}{chroot}"}


async def _opened(stack: AsyncExitStack, hosts: str, chroot: str) -> ZooKeeperStore:
    store = ZooKeeperStore(StoreOptions(hosts=hosts, chroot=chroot, max_frame_bytes=JUTE_BYTES))
    await store.start()
    stack.push_async_callback(store.close)
    await store.wait_connected()
    return store
