"""I4, by a client of its own behind proxies: no acknowledged change is lost, none done twice."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from broker_ctl.errors import BadVersion, StoreError
from broker_ctl.store.zookeeper.store import ZooKeeperStore
from tests.chaos.cluster.cluster import Cluster

NUMBER: Final = 0  # among the daemons, for the links
_PATH: Final = "/counter"
_PAUSE_S: Final = 0.1


class Reading(NamedTuple):
    """What was found, where it had to be from ``least`` to ``most``."""

    least: int
    most: int
    found: int


def miscounted(readings: Iterable[Reading]) -> Iterator[str]:
    """I4: what was not as it had to be."""
    for least, most, found in readings:
        if not least <= found <= most:
            yield f"I4: {found} was found where {least} to {most} were acknowledged"


class Counter:
    """The only writer of a number, which grows by one at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.readings: list[Reading] = []
        self.acknowledged = 0
        self._under_way = 0

    async def run(self) -> None:
        """Until cancelled."""
        links = self._cluster.links.connect_string(NUMBER, self._cluster.ensemble.servers)
        store = self._cluster.store(links)
        await store.start()
        try:
            await self._begin(store)
            while True:
                await self._add_one(store)
                await asyncio.sleep(_PAUSE_S)
        finally:
            await store.close()

    async def _begin(self, store: ZooKeeperStore) -> None:
        await self._cluster.observer.create(_PATH, b"0")
        await store.wait_connected()

    async def _add_one(self, store: ZooKeeperStore) -> None:
        before = self.acknowledged
        self._under_way = 1
        try:
            await store.set(_PATH, str(before + 1).encode(), before)
            self.acknowledged = before + 1
        except StoreError as error:
            # Refused, or unknown: the node shows which, once a server answers.
            found = await self._read()
            # A wrong version cannot be: nobody else writes. Any other value is wrong then.
            most = before - 1 if isinstance(error, BadVersion) else before + 1
            self.readings.append(Reading(before, most, found))
            self.acknowledged = found
        self._under_way = 0

    async def _read(self) -> int:
        while True:
            try:
                await self._cluster.observer.sync(_PATH)
                node = await self._cluster.observer.get(_PATH)
            except StoreError:
                await asyncio.sleep(_PAUSE_S)
                continue
            assert node is not None
            number = int(node.data)
            # Each write made one version.
            self.readings.append(Reading(number, number, node.stat.version))
            return number

    async def check(self) -> None:
        """At the end."""
        found = await self._read()
        # What was under way at the end may have been done.
        self.readings.append(Reading(self.acknowledged, self.acknowledged + self._under_way, found))
