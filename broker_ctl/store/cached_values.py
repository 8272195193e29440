"""Decoded nodes, and their change: read, change, write back (docs: pulsar-caches)."""

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, Generic, NamedTuple, TypeVar

from broker_ctl.clock import Clock
from broker_ctl.errors import (
    BadVersion,
    ConnectionLoss,
    CorruptRecord,
    NodeExists,
    NoNode,
    StoreError,
)
from broker_ctl.retry import Backoff
from broker_ctl.store.interface import MetadataStore, SessionEvent, Stat, Versioned
from broker_ctl.store.watched_cache import CacheEntry, CacheRules, UpdateRules, WatchedCache

log = logging.getLogger(__name__)

# Decoded nodes: one cache for each class of payload.


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

    async def _read(self, path: str) -> CacheEntry[T | None]:
        node = await self._store.get(path)
        if node is None:
            return CacheEntry(None, 0)
        try:
            value = self._decode(node)
        except CorruptRecord as error:
            self.corrupt += 1
            log.warning("%s does not decode and is not cached: %s", path, error)
            raise
        size_bytes = _DECODED_RATIO * len(node.data)
        return CacheEntry(value, size_bytes, node.stat.mzxid, node.stat.version)


def _found(entry: CacheEntry[T | None]) -> Found[T] | None:
    return None if entry.answer is None else Found(entry.answer, entry.version)


# Read, change, write back; retry where another writer was quicker (docs: pulsar-caches).


class Updates(Generic[T]):
    """Changes to values of one kind, each based on the newest version.

    A change is called once for each attempt: it is pure, quick and cannot await. What it raises
    ends the call. A write whose outcome is unknown (`Ambiguous`) is not made again.
    """

    def __init__(
        self,
        store: MetadataStore,
        cache: ValueCache[T],
        encode: Callable[[T], bytes],
        *,
        clock: Clock,
        rng: random.Random,
        rules: UpdateRules,
    ) -> None:
        self._store = store
        self._cache = cache
        self._encode = encode
        self._clock = clock
        self._rng = rng
        self._rules = rules

    async def read_modify_update(self, path: str, change: Callable[[T], T]) -> Stat:
        """Replace a value by the result of ``change``.

        Raises:
            NoNode: the node does not exist.
            BadVersion: other writers were quicker until the time was over; nothing was written.
            CorruptRecord: the payload does not decode.
        """

        async def attempt(found: Found[T] | None) -> Stat:
            if found is None:
                raise NoNode(path)
            data = self._encode(change(found.value))
            return await self._store.set(path, data, found.version)

        return await self._until_first(path, attempt, (BadVersion,))

    async def read_modify_update_or_create(
        self, path: str, change: Callable[[T | None], T]
    ) -> Stat:
        """As `read_modify_update`; an absent node is made of what ``change`` makes of None."""

        async def attempt(found: Found[T] | None) -> Stat:
            data = self._encode(change(None if found is None else found.value))
            if found is None:
                return (await self._store.create(path, data, make_parents=True)).stat
            return await self._store.set(path, data, found.version)

        # A deletion that was quicker is a lost race, too.
        return await self._until_first(path, attempt, (BadVersion, NodeExists, NoNode))

    async def _until_first(
        self,
        path: str,
        attempt: Callable[[Found[T] | None], Awaitable[Stat]],
        lost: tuple[type[StoreError], ...],
    ) -> Stat:
        """Attempt until no other was quicker, or the time is over."""
        began_s, attempts = self._clock.now_s(), 1
        backoff = Backoff(self._rules.first_s, 2.0, self._rules.most_s)
        found = await self._cache.find(path)
        while True:
            try:
                with self._cache.writing(path):
                    return await attempt(found)
            except lost as error:
                took_s = self._clock.now_s() - began_s
                left_s = self._rules.stop_s - took_s
                if left_s <= 0:
                    raise BadVersion(
                        f"{path}: others were quicker {attempts} times in {took_s:.1f} s"
                    ) from error
            # Full jitter: writers that collided once do not collide again at the same moment.
            await asyncio.sleep(min(backoff.delay_s(attempts, self._rng), left_s))
            attempts += 1
            # Read past the cache: the event of the quicker write may still be on its way.
            found = await self._cache.find_in_store(path)


# The last answers of a cache, for readers that go on with them while the store is away.
#
# A cache is empty while its connection is lost, so that no caller acts on a change that was
# missed. That is right for ownership, and wrong for operators' configuration: policies change
# rarely, and lookups must not wait for the store that holds only policies. What was never read is
# refused then: a client that gets an answer asks another broker.


_NEVER: Final = object()


class LastRead(Generic[T]):
    """A cache, and its last answers for the time in which its store cannot be read."""

    def __init__(self, cache: ValueCache[T], store: MetadataStore, most: int) -> None:
        self.cache = cache
        self._store = store
        self._most = most
        self._last: OrderedDict[str, T | None] = OrderedDict()
        self._is_away = False
        self._stop_listening: Callable[[], None] | None = None

    async def start(self) -> None:
        """Follow the store, and the connection to it."""
        self._stop_listening = self._store.listen(self._on_session_event)
        await self.cache.start()

    async def close(self) -> None:
        """Stop following."""
        if self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None
        await self.cache.close()

    async def get(self, path: str) -> T | None:
        """As `ValueCache.get`; while the store is away, the last answer.

        Raises:
            ConnectionLoss: the store is away, and there is no last answer.
        """
        if self._is_away:
            if path not in self._last:
                raise ConnectionLoss(f"ZooKeeper is away, and {path} was not read before")
            return self._last[path]
        found = await self.cache.get(path)
        self._keep(path, found)
        return found

    @property
    def is_away(self) -> bool:
        """Whether the connection to the store is lost."""
        return self._is_away

    def recall(self, path: str) -> CacheEntry[T | None] | None:
        """As `ValueCache.recall`; None while the store is away."""
        entry = None if self._is_away else self.cache.recall(path)
        # Most lookups come here several times, and nearly always the last answer is kept already.
        if entry is not None and self._last.get(path, _NEVER) is not entry.answer:
            self._keep(path, entry.answer)
        return entry

    def _keep(self, path: str, found: T | None) -> None:
        self._last[path] = found
        self._last.move_to_end(path)
        if len(self._last) > self._most:
            self._last.popitem(last=False)

    def _on_session_event(self, event: SessionEvent) -> None:
        self._is_away = event not in {SessionEvent.RECONNECTED, SessionEvent.CONNECTED}
