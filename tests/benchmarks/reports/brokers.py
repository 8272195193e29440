"""Brokers that are sessions and nothing else: registered, owners of bundles, and reporting."""

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from broker_ctl.coordination.bulk_acquire import Deletions
from broker_ctl.coordination.membership.registry import Registry
from broker_ctl.core.model.broker import BrokerUrls
from broker_ctl.core.model.counting import batched
from broker_ctl.core.model.load import BrokerLoad, BundleStats, ResourceUsage, SystemUsage
from broker_ctl.core.model.names import Bundle, Ring
from broker_ctl.errors import NodeExists, StoreError
from broker_ctl.store import paths
from broker_ctl.store.interface import Create, CreateMode
from broker_ctl.store.records.broker_ctl import Registration
from broker_ctl.store.records.load import LocalBrokerData
from broker_ctl.store.records.ownership import NamespaceEphemeralData
from broker_ctl.store.records.policies import LocalPolicies
from broker_ctl.store.zookeeper.store import ZooKeeperStore

TICK_S: Final = 0.5
# Far apart, as those of other machines; no one listens there.
_FIRST_PORT: Final = 20_000
_BATCH: Final = 100
_MEASUREMENTS: Final = 3
_ONE_IN_HOT: Final = 1000
_HOT_MSG_RATE: Final = 40_000.0
_CPU_LIMIT: Final = 800.0


class Broker:
    """A broker that publishes load reports.

    Args:
        cpu_ratio: what it says that it uses.
    """

    def __init__(
        self, store: ZooKeeperStore, number: int, bundles: Sequence[Bundle], cpu_ratio: float
    ) -> None:
        broker_id = f"127.0.0.1:{_FIRST_PORT + number}"
        self._store = store
        self._bundles = bundles
        self._urls = BrokerUrls(broker_id, f"http://{broker_id}", native_url="pulsar://127.0.0.1:1")
        registration = Registration(broker_id, 0, 0, self._urls)
        self._registry = Registry(
            store,
            registration,
            Deletions(store, rng=random.Random(1)),
            TICK_S,
            rng=random.Random(1),
        )
        self._usage = SystemUsage(cpu=ResourceUsage(cpu_ratio * _CPU_LIMIT, _CPU_LIMIT))
        rng = random.Random(number)
        self._measured = [
            {str(bundle): _traffic(rng, index) for index, bundle in enumerate(bundles)}
            for _ in range(_MEASUREMENTS)
        ]
        self._updated_ms = 0
        self.reports = 0
        self.failures = 0
        self.report_bytes = 0

    @property
    def bundle_count(self) -> int:
        """How many it owns and reports."""
        return len(self._bundles)

    async def start(self) -> None:
        """Register, and take what is its own."""
        await self._registry.register(await self._report())
        record = NamespaceEphemeralData(self._urls).encode()
        for some in batched(self._bundles, _BATCH):
            nodes = [
                Create(paths.ownership(bundle), record, CreateMode.EPHEMERAL) for bundle in some
            ]
            await self._store.multi(nodes)

    async def report_for_ever(self, first_s: float, period_s: float) -> None:
        """Write a report every ``period_s``."""
        loop = asyncio.get_running_loop()
        due_s = loop.time() + first_s
        while True:
            await asyncio.sleep(max(0.0, due_s - loop.time()))
            report = await self._report()
            try:
                await self._registry.publish(report)
            except StoreError:
                self.failures += 1
            else:
                self.reports += 1
            due_s += period_s

    async def _report(self) -> bytes:
        self._updated_ms = max(self._updated_ms + 1, time.time_ns() // 1_000_000)
        load = BrokerLoad(
            self._urls.broker_id,
            self._usage,
            self._measured[self.reports % len(self._measured)],
            self._updated_ms,
        )
        payload = await asyncio.to_thread(LocalBrokerData(self._urls, load).encode)
        self.report_bytes = max(self.report_bytes, len(payload))
        return payload


def _traffic(rng: random.Random, index: int) -> BundleStats:
    """Some tens of KB/s; one bundle in a thousand has more messages than a bundle should."""
    rate = _HOT_MSG_RATE if index % _ONE_IN_HOT == 0 else rng.uniform(50, 150)
    bytes_s = rng.uniform(20_000, 80_000)
    return BundleStats(rate / 2, rate / 2, bytes_s, bytes_s, 10, 20, 30)


async def make_namespaces(store: ZooKeeperStore, rings: Sequence[Ring]) -> None:
    """Write the rings, and whatever owner nodes stand below."""
    for some in batched(_parents(rings), _BATCH):
        for path, data in some:
            with suppress(NodeExists):
                await store.create(path, data, make_parents=True)


def _parents(rings: Sequence[Ring]) -> Iterator[tuple[str, bytes]]:
    for ring in rings:
        yield paths.local_policies(ring.namespace), LocalPolicies(ring.boundaries).encode()
        yield paths.ownership_of(ring.namespace), b""
