"""Names of children."""

from typing import Final

from broker_ctl.store.caches.entries import Entry
from broker_ctl.store.caches.watched import WatchedCache
from broker_ctl.store.interface import Change
from broker_ctl.store.path_rules import parent_of

# A string beside its letters, and the reference to it.
_NAME_BYTES: Final = 64


class ChildrenCache(WatchedCache[tuple[str, ...]]):
    """Sorted names; that a node is absent is remembered as no names."""

    _concerns = frozenset({Change.CREATED, Change.DELETED, Change.CHILDREN_CHANGED})

    async def get(self, path: str) -> tuple[str, ...]:
        """Names of the children; none where the node does not exist."""
        return (await self._find(path)).answer

    @staticmethod
    def _affected(path: str) -> tuple[str, ...]:
        # A recursive watch never says that the children of a node changed, but which of them.
        return path, parent_of(path)

    async def _read(self, path: str) -> Entry[tuple[str, ...]]:
        names = tuple(await self._store.children(path))
        return Entry(names, sum(len(name) + _NAME_BYTES for name in names))
