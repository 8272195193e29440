"""Decoded nodes: one cache for each class of payload."""

import logging
import random
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from broker_ctl.clock import Clock
from broker_ctl.errors import CorruptRecord
from broker_ctl.store.caches.entries import Entry
from broker_ctl.store.caches.rules import CacheRules
from broker_ctl.store.caches.watched import WatchedCache
from broker_ctl.store.interface import MetadataStore, Versioned

log = logging.getLogger(__name__)

T = TypeVar("T")

# Small JSON records take two to three times their bytes once they are decoded, as measured.
_DECODED_RATIO: Final = 3


class Found(NamedTuple, Generic[T]):
    """A value, and the version of the data that it was decoded from."""

    value: T
    version: int


class ValueCache(WatchedCache[T | None]):
    """One kind of payload. Absent nodes are remembered too; values are shared, never changed.

    Attributes:
        corrupt: reads that did not decode.
    """

    def __init__(
        self,
        store: MetadataStore,
        roots: tuple[str, ...],
        decode: Callable[[Versioned], T],
        clock: Clock,
        rules: CacheRules,
        *,
        rng: random.Random,
    ) -> None:
        super().__init__(store, roots, clock, rules, rng=rng)
        self._decode = decode
        self.corrupt = 0

    async def get(self, path: str) -> T | None:
        """The node's value, None where it does not exist.

        Raises:
            CorruptRecord: it does not decode; not remembered, and counted.
        """
        return (await self._find(path)).answer

    async def find(self, path: str) -> Found[T] | None:
        """As `get`, with the version for a write that depends on the value."""
        return _found(await self._find(path))

    async def find_in_store(self, path: str) -> Found[T] | None:
        """As `find`, past the cache: for a caller that knows that the cached value is outdated."""
        return _found(await self._read(path))

    def peek(self, path: str) -> T | None:
        """The cached value, however old: the last one that was known before an event."""
        entry = self._entries.find(path)
        return None if entry is None else entry.answer

    async def _read(self, path: str) -> Entry[T | None]:
        node = await self._store.get(path)
        if node is None:
            return Entry(None, 0)
        try:
            value = self._decode(node)
        except CorruptRecord as error:
            self.corrupt += 1
            log.warning("%s does not decode and is not cached: %s", path, error)
            raise
        size_bytes = _DECODED_RATIO * len(node.data)
        return Entry(value, size_bytes, node.stat.mzxid, node.stat.version)


def _found(entry: Entry[T | None]) -> Found[T] | None:
    return None if entry.answer is None else Found(entry.answer, entry.version)
