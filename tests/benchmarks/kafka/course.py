"""The run from start to end: both systems on the same servers, in turn."""

import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from broker_ctl.lab.embedded.ensemble import Ensemble
from broker_ctl.lab.embedded.server import Purpose
from broker_ctl.store.zookeeper.store import StoreOptions, ZooKeeperStore
from broker_ctl.tasks import TaskScope
from tests.benchmarks.failover.scene import scene
from tests.benchmarks.kafka import rows
from tests.benchmarks.kafka.cluster import CHROOT, kafka_brokers, operator
from tests.benchmarks.kafka.cpu import CpuSamples
from tests.benchmarks.kafka.ours import Ours
from tests.benchmarks.kafka.release import Release
from tests.benchmarks.kafka.sizes import Sizes
from tests.benchmarks.kafka.theirs import Theirs
from tests.benchmarks.lines.progress import report_progress

BROKERS: Final = 3
SERVERS: Final = 3
_OURS: Final = "/broker-ctl"


async def run(release: Release, sizes: Sizes, heap_mb: int) -> dict[str, Any]:
    """The object."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafka-beside-")))
        ensemble = await stack.enter_async_context(
            Ensemble.of(
                directory / "zookeeper", SERVERS, heap_mb=heap_mb, purpose=Purpose.SUSTAINED_LOAD
            )
        )
        hosts = ensemble.connect_string
        ports = [server.client_port for server in ensemble.servers]
        for chroot in (CHROOT, _OURS):
            await _create(hosts, chroot)
        report_progress(f"Kafka {release.version} starts")
        brokers = await stack.enter_async_context(
            kafka_brokers(release, directory, hosts, BROKERS, sizes.heap_mb)
        )
        asked = await stack.enter_async_context(operator(release, brokers[1].address))
        store = await _opened(hosts, CHROOT)
        stack.push_async_callback(store.close)
        theirs = Theirs(brokers, asked, store, sizes)
        await theirs.lay()
        report_progress("broker-ctl starts")
        built = await stack.enter_async_context(
            scene(hosts, _OURS, directory / "ours", sizes.partitions, {}, brokers=BROKERS)
        )
        ours = Ours(built, ports, sizes)
        servers = ensemble.servers

        def parts() -> dict[str, list[int]]:
            daemons = [daemon.pid for daemon in built.daemons.running]
            return {
                "servers": [server.pid for server in servers if server.pid is not None],
                "kafka": [broker.pid for broker in brokers.values() if broker.pid is not None],
                "daemons": [pid for pid in daemons if pid is not None],
            }

        samples = CpuSamples(parts)
        sampling = await stack.enter_async_context(TaskScope("cpu samples"))
        sampling.start(samples.run(), "cpu samples")
        # The first round is not counted: servers, brokers and daemons are cold.
        for number in range(sizes.runs + 1):
            report_progress(f"round {number}")
            counts = number > 0
            await rows.run("Kafka", theirs, sizes.rows, _of(samples, "kafka"), counts=counts)
            await rows.run("broker-ctl", ours, sizes.rows, _of(samples, "daemons"), counts=counts)
        return {
            "kafka": release.version,
            "partitions": sizes.partitions,
            "reassigned": sizes.moved,
            "large_topic": sizes.large,
            "large_replicas": sizes.large_replicas,
            "kafka_heap_mb": sizes.heap_mb,
            **rows.side_by_side(ours.seconds, theirs.seconds),
        }


def _of(samples: CpuSamples, system: str) -> rows.CpuWithin:
    """CPU seconds of the brokers of one system, and of the servers that both have."""

    def within(began_s: float, ended_s: float) -> Mapping[str, float]:
        found = samples.within(began_s, ended_s)
        return {"brokers": found.get(system, 0.0), "servers": found.get("servers", 0.0)}

    return within


async def _create(hosts: str, chroot: str) -> None:
    root = await _opened(hosts, "")
    try:
        await root.create(chroot)
    finally:
        await root.close()


async def _opened(hosts: str, chroot: str) -> ZooKeeperStore:
    store = ZooKeeperStore(StoreOptions(hosts, chroot))
    await store.start()
    await store.wait_connected()
    return store
