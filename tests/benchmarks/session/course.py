"""The run from start to end: each part by itself, on the same servers."""

import os
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from broker_ctl.embedded.config import TICK_MS
from broker_ctl.embedded.daemons import Daemons
from broker_ctl.embedded.ensemble import Ensemble
from broker_ctl.http_client import HttpClient
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from tests.benchmarks.progress import report_progress
from tests.benchmarks.session.expiry import measure_expiry, scene
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


async def run(bundles: int, kills: int, failovers: int) -> dict[str, Any]:
    """All figures."""
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
        async with Daemons(directory, BROKERS, _settings(hosts, BROKERS_CHROOT)) as daemons:
            await daemons.wait_ready(http)
            store = await _opened(stack, hosts, BROKERS_CHROOT)
            async with scene(http, daemons.all, bundles) as built:
                expiry = await measure_expiry(hosts.partition(",")[0], store=store, built=built)
                serial_s = await measure_serial(hosts, BROKERS_CHROOT, bundles, JUTE_BYTES)
                report_progress(f"one by one: {serial_s:.2f} s")
        followers, leaders = await measure_reconnects(ensemble, kills)
        settings = _settings(hosts, FAILOVER_CHROOT)
        failover = await measure_failover(directory / "failover", settings, http, failovers)
    return {
        **expiry,
        "follower_kill_reconnect_ms": followers,
        "leader_kill_reconnect_ms": leaders,
        "leader_failover_s": failover,
        "serial_baseline_s": round(serial_s, 3),
    }


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
