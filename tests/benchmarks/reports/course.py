"""The run from start to end."""

import asyncio
import os
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from broker_ctl.core.machines.lease import LeaseRules
from broker_ctl.core.model.names import Namespace, Ring
from broker_ctl.http_client import HttpClient
from broker_ctl.lab.embedded.daemons import DaemonProcess, Daemons
from broker_ctl.lab.embedded.ensemble import Ensemble
from broker_ctl.lab.embedded.server import TICK_MS
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from broker_ctl.tasks import TaskScope
from tests.benchmarks.lines.progress import report_progress
from tests.benchmarks.reports.brokers import Broker, make_namespaces
from tests.benchmarks.reports.idle import idle_lag_ms
from tests.benchmarks.reports.leader import Pulse, cycles_s, lag_buckets, lag_figures, rss_mb
from tests.benchmarks.reports.transaction_logs import LOG_BYTES, purge
from tests.support.time.waiting import eventually

PER_NAMESPACE: Final = 100
REPORT_S: Final = 5.0
SESSION_MS: Final = 6000
# A load report names every bundle; Pulsar's start scripts set as much.
JUTE_BYTES: Final = 10 << 20
# Writes that a server keeps in memory: each of them is megabytes.
KEPT_WRITES: Final = 50
WARM_CYCLES: Final = 2
BUSY_RATIO: Final = 0.9
QUIET_RATIO: Final = 0.5
SETTINGS: Final = {
    "metadataStoreSessionTimeoutMillis": str(SESSION_MS),
    "zookeeperTickTimeMillis": str(TICK_MS),
    "zookeeperJuteMaxBufferBytes": str(JUTE_BYTES),
    "hostUsageSource": "dataplane",
    "loadBalancerSheddingEnabled": "true",
    "loadBalancerSheddingIntervalMinutes": "0.16",
    "loadBalancerAutoBundleSplitEnabled": "true",
    "loadBalancerSplitIntervalMinutes": "0.16",
    "dryRun": "true",
    "logLevel": "debug",
}


async def run(bundles: int, brokers: int, seconds: float) -> dict[str, Any]:
    """All figures."""
    os.environ["JAVA_TOOL_OPTIONS"] = " ".join(
        (
            f"-Djute.maxbuffer={JUTE_BYTES}",
            f"-Dzookeeper.commitLogCount={KEPT_WRITES}",
            f"-Dzookeeper.snapSizeLimitInKb={LOG_BYTES >> 10}",
        )
    )
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="reports-")))
        ensemble = await stack.enter_async_context(
            Ensemble.of(directory / "zookeeper", 3, heap_mb=1024)
        )
        hosts = ensemble.connect_string
        http = await stack.enter_async_context(HttpClient(timeout_s=20.0, max_body_bytes=1 << 24))
        report_progress("three servers serve")
        store = await _opened(stack, hosts)
        reporting = await _brokers(stack, store, hosts, bundles, brokers)
        report_progress(f"{brokers} brokers own {bundles} bundles")
        scope = await stack.enter_async_context(TaskScope("brokers"))
        scope.start(purge(directory), "purge")
        for number, broker in enumerate(reporting):
            first_s = REPORT_S * number / brokers
            scope.start(broker.report_for_ever(first_s, REPORT_S), f"broker {number}")
        settings = {**SETTINGS, "metadataStoreUrl": f"zk:{hosts}"}
        (daemon,) = (await stack.enter_async_context(Daemons(directory, 1, settings))).all
        await daemon.wait_ready(http)
        report_progress(f"daemon {daemon.pid} is ready")
        await eventually(
            lambda: len(cycles_s(daemon)) >= WARM_CYCLES, deadline_s=240.0, what="cycles", poll_s=1
        )
        return await _measured(http, store, daemon, reporting, seconds)


async def _measured(
    http: HttpClient,
    store: ZooKeeperStore,
    daemon: DaemonProcess,
    brokers: Sequence[Broker],
    seconds: float,
) -> dict[str, Any]:
    rules = LeaseRules(SESSION_MS / 1000, TICK_MS / 1000)
    reports, cycles = sum(broker.reports for broker in brokers), len(cycles_s(daemon))
    before = await lag_buckets(http, daemon)
    pulse = Pulse(store, daemon)
    report_progress(f"measuring for {seconds:g} s")
    async with TaskScope("pulse") as scope:
        scope.start(pulse.watch(), "pulse")
        idle_lag = await idle_lag_ms(seconds)
    after = await lag_buckets(http, daemon)
    took_s = cycles_s(daemon)[cycles:]
    assert took_s, daemon.log_tail()
    assert daemon.pid is not None
    report_progress(f"longest from one heartbeat to the next: {pulse.longest_s:.3f} s")
    return {
        "bundles": sum(broker.bundle_count for broker in brokers),
        "brokers": len(brokers),
        "reports": sum(broker.reports for broker in brokers) - reports,
        "reports_failed": sum(broker.failures for broker in brokers),
        "report_bytes": max(broker.report_bytes for broker in brokers),
        "loop_lag_ms": lag_figures(before, after),
        "idle_loop_lag_ms": idle_lag,
        "heartbeats": pulse.count,
        "heartbeats_late": pulse.late(rules.period_s + rules.margin_s),
        "cycles": len(took_s),
        "cycle_s": {"p50": round(statistics.median(took_s), 2), "max": max(took_s)},
        "rss_mb": round(rss_mb(daemon.pid)),
    }


async def _brokers(
    stack: AsyncExitStack, store: ZooKeeperStore, hosts: str, bundles: int, brokers: int
) -> list[Broker]:
    """With their bundles; the first has too much to do."""
    rings = [
        Ring.even(Namespace("public", f"n{number}"), min(PER_NAMESPACE, bundles - start))
        for number, start in enumerate(range(0, bundles, PER_NAMESPACE))
    ]
    await make_namespaces(store, rings)
    every = [bundle for ring in rings for bundle in ring.bundles]
    made = [
        Broker(
            await _opened(stack, hosts),
            number,
            every[number::brokers],
            QUIET_RATIO if number else BUSY_RATIO,
        )
        for number in range(brokers)
    ]
    async with asyncio.TaskGroup() as group:
        for number, broker in enumerate(made):
            group.create_task(broker.start(), name=f"start {number}")
    return made


async def _opened(stack: AsyncExitStack, hosts: str) -> ZooKeeperStore:
    store = ZooKeeperStore(StoreOptions(hosts=hosts, max_frame_bytes=JUTE_BYTES))
    await store.start()
    stack.push_async_callback(store.close)
    await store.wait_connected()
    return store
