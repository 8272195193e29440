"""Whether nodes exist."""

from broker_ctl.store.caches.entries import Entry
from broker_ctl.store.caches.watched import WatchedCache
from broker_ctl.store.interface import Change


class ExistenceCache(WatchedCache[bool]):
    """That a node is absent is remembered too."""

    _concerns = frozenset({Change.CREATED, Change.DELETED})

    async def get(self, path: str) -> bool:
        """Whether the node exists."""
        return (await self._find(path)).answer

    async def _read(self, path: str) -> Entry[bool]:
        return Entry(await self._store.exists(path) is not None, 0)
