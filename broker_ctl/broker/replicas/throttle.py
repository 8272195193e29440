"""The throttle of replicas that reassignments add, as this broker has to apply it.

Each broker reads it from the store itself, as Kafka's do: it applies whatever controller is
elected, and a broker that starts later has it too.
"""

import asyncio
import contextlib
import random

from broker_ctl.coordination.replicated.node_cache import NodeCache
from broker_ctl.store import partition_paths
from broker_ctl.store.interface import MetadataStore
from broker_ctl.store.records.partitions import decode_throttle


class ReplicationThrottle:
    """The newest throttle; one that cannot be read leaves the one before in force."""

    def __init__(self, store: MetadataStore, *, rng: random.Random) -> None:
        self._cache = NodeCache(store, partition_paths.BROKER_DEFAULTS, decode_throttle, rng=rng)
        self._changed = asyncio.Event()
        self._cache.listen(self._changed.set)

    async def start(self) -> None:
        """Watch the node; returns once it has been read."""
        await self._cache.start()
        await self._cache.wait_synced()

    async def close(self) -> None:
        """Stop the watch; the last known throttle stays."""
        await self._cache.close()

    async def wait_changed(self, limit_s: float) -> None:
        """Return when it has changed, at the latest after ``limit_s``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._changed.wait()
        self._changed.clear()

    @property
    def rate(self) -> int | None:
        """Bytes a second; None: no limit."""
        return self._cache.values.get(partition_paths.BROKER_DEFAULTS)
