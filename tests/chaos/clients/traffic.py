"""Clients that look everything up all the time, and an operator who never leaves it alone."""

import asyncio
import random
from collections.abc import Sequence
from typing import Final

from broker_ctl.core.model.names import Bundle, Topic
from broker_ctl.errors import HttpError, StoreError
from broker_ctl.store import paths
from tests.chaos.clients.lookups import Lookups
from tests.chaos.cluster.cluster import Cluster
from tests.chaos.cluster.topics import BUNDLES, NAMESPACE, topics
from tests.support.clusters.tenants import make_tenant

_AGAIN_S: Final = 1.0
_RETRY_S: Final = 0.2
_OPERATORS: Final = 2
_PAUSE_S: Final = 0.3
# Each bundle of the beginning may be split once; then there is one client for each half.
_SLICES: Final = 2 * BUNDLES
_ADMIN: Final = f"/admin/v2/namespaces/{NAMESPACE}"


def one_topic_a_slice() -> Sequence[Topic]:
    by_slice = {topic.ring_hash * _SLICES >> 32: topic for topic in topics()}
    return [by_slice[place] for place in sorted(by_slice)]


class Traffic:
    """Runs until cancelled. Failures are what faults are for: only the observer judges.

    Attributes:
        lookups: what clients met on their way.
    """

    def __init__(self, cluster: Cluster, draw: random.Random) -> None:
        self._cluster = cluster
        self._rng = draw
        self.lookups = Lookups(cluster.http)
        self._splits = 0

    async def make_namespace(self) -> None:
        base = self._cluster.brokers[0].daemon.url
        await make_tenant(self._cluster.http, base, NAMESPACE.tenant)
        url = f"{base}{_ADMIN}"
        body = {"bundles": {"numBundles": BUNDLES}}
        reply = await self._cluster.http.request("PUT", url, json=body, timeout_s=10.0)
        assert reply.status == 204, reply.body

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for topic in one_topic_a_slice():
                group.create_task(self._follow(topic), name=f"look up {topic}")
            for number in range(_OPERATORS):
                group.create_task(self._operate(), name=f"operator {number}")

    async def _follow(self, topic: Topic) -> None:
        while True:
            is_found = await self._look_up(topic)
            await asyncio.sleep(self._rng.uniform(0.8, 1.2) * (_AGAIN_S if is_found else _RETRY_S))

    async def _look_up(self, topic: Topic) -> bool:
        """Whether a broker was found that said; those that do not answer are passed over."""
        brokers = self._cluster.brokers
        for broker in self._rng.sample(brokers, len(brokers)):
            status = await self.lookups.ask(broker.daemon.url, topic)
            if status:
                return status == 200
        return False

    async def _operate(self) -> None:
        """Unload, now and then with a destination, rarely split."""
        while True:
            await asyncio.sleep(self._rng.uniform(0.5, 1.5) * _PAUSE_S)
            bundle = await self._some_bundle()
            if bundle is None:
                continue
            one = f"{_ADMIN}/{bundle.range}"
            chance = self._rng.random()
            if chance < 0.03 and self._is_whole(bundle) and self._splits < BUNDLES // 2:
                self._splits += await self._ask("PUT", f"{one}/split") == 204
            elif chance < 0.25:
                there = self._rng.choice(self._cluster.brokers).id
                await self._ask("PUT", f"{one}/unload?destinationBroker={there}")
            else:
                await self._ask("PUT", f"{one}/unload")
            for topic in one_topic_a_slice():
                if topic.ring_hash in bundle.range:
                    await self._look_up(topic)

    async def _some_bundle(self) -> Bundle | None:
        """One that is owned now."""
        try:
            names = await self._cluster.observer.children(paths.ownership_of(NAMESPACE))
        except StoreError:
            return None
        name = self._rng.choice(sorted(names)) if names else None
        return None if name is None else Bundle.parse(f"{NAMESPACE}/{name}")

    @staticmethod
    def _is_whole(bundle: Bundle) -> bool:
        return bundle.range.high - bundle.range.low > (1 << 32) // _SLICES

    async def _ask(self, method: str, path: str) -> int:
        """The status after all redirects; 0 for no answer of any broker, asked one by one."""
        brokers = self._cluster.brokers
        for broker in self._rng.sample(brokers, len(brokers)):
            try:
                reply = await self._cluster.http.request(
                    method, broker.daemon.url + path, allow_redirects=True
                )
            except HttpError:
                continue
            return reply.status
        return 0
