"""A cache of the store's answers, which watches invalidate; what it remembers, and its bounds.

A cache of the store's answers, which watches invalidate.

What is answered
    An entry is served until an event, a write through this cache, its age or the bounds remove it.
    Callers that miss while a read is under way share that read.

What makes it right (docs: pulsar-caches)
    A read is valid while it is in the table of reads. An event, a write through this cache and the
    loss of the connection remove it from the table. From then on no caller joins it and its answer
    is not cached, so a caller that asks after an event gets neither an older entry nor the answer
    of a read that began before the event (Pulsar #25246). The store notifies an event before the
    reply of any read that shows the change, for writes of this client too: two caches of the same
    store need not notify each other of their writes.

While the connection is gone
    Nothing is cached and every caller reads, which means that it waits: events that are missed then
    are not replayed, and an answer from before the outage would send clients to an owner that may
    have lost the bundle long ago. Every RECONNECTED and CONNECTED follows a SUSPENDED, which has
    emptied the cache: no listener, not even one that is notified before the cache, can find an
    answer from before the outage in it (I6).
"""

import asyncio
import contextlib
import logging
import random
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Generic, Self, TypeVar

from broker_ctl.clock import Clock
from broker_ctl.errors import StoreError
from broker_ctl.store.forwarding import set_watch
from broker_ctl.store.interface import (
    Change,
    MetadataStore,
    Notification,
    RequestClass,
    SessionEvent,
    requests_as,
)
from broker_ctl.store.path_rules import ROOT, is_at_or_below
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

# Rules of the caches, and of the writes through them, as values.


@dataclass(frozen=True, slots=True)
class CacheRules:
    """How long an answer is valid, and how much is cached (docs: pulsar-caches).

    Attributes:
        refresh_s: an answer of this age is still served, and refreshed in the background.
        expiry_s: an answer of this age is not served any more.
        most_bytes: bound on the estimated size of all entries of one cache.
        most_entries: bound on their number.
    """

    refresh_s: float = 150.0
    expiry_s: float = 300.0
    most_bytes: int = 64 * 1024 * 1024
    most_entries: int = 100_000

    @classmethod
    def expiring(cls, expiry_s: float) -> Self:
        """Refresh at half of the expiry time, which is the ratio of Pulsar's caches."""
        return cls(refresh_s=expiry_s / 2, expiry_s=expiry_s)


@dataclass(frozen=True, slots=True)
class UpdateRules:
    """How often a write that lost a race is retried (docs: pulsar-caches).

    Attributes:
        first_s: longest pause after the first attempt; it doubles with each further one.
        most_s: longest pause of all.
        stop_s: no attempt begins later than this after the first.
    """

    first_s: float = 0.005
    most_s: float = 3.0
    stop_s: float = 30.0


# A table of answers, bounded in number and in bytes; it evicts the least recently used first.


T = TypeVar("T")

# An entry in the table and its path beside the path's letters, as measured with tracemalloc.
_OVERHEAD_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class CacheEntry(Generic[T]):
    """One answer of the store.

    Attributes:
        answer: shared by all callers, so never modified.
        payload_bytes: estimated size of the answer in memory.
        mzxid: of the node that was read; 0 if it is absent, or if its Stat is not known.
        version: of that node's data; -1 if it is absent, or if its Stat is not known.
        read_at_s: when the read began, on the cache's clock: the answer is not newer than that.
    """

    answer: T
    payload_bytes: int
    mzxid: int = 0
    version: int = -1
    read_at_s: float = 0.0


class Entries(Generic[T]):
    """Entries by path, in the order of their last use.

    Attributes:
        find: the entry of a path, or None, without counting as a use.
        touch: count a use of the entry of a path, which is there.
    """

    def __init__(self, most_entries: int, most_bytes: int) -> None:
        self._most_entries = most_entries
        self._most_bytes = most_bytes
        self._by_path: OrderedDict[str, CacheEntry[T]] = OrderedDict()
        # Each lookup calls them several times: methods of our own would take as long again.
        self.find: Final[Callable[[str], CacheEntry[T] | None]] = self._by_path.get
        self.touch: Final[Callable[[str], None]] = self._by_path.move_to_end
        self.size_bytes = 0
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._by_path)

    def put(self, path: str, entry: CacheEntry[T]) -> None:
        """Store an entry, and evict others until the bounds hold."""
        self.drop(path)
        size_bytes = _size_bytes(path, entry)
        if size_bytes > self._most_bytes:
            # It would evict everything else first, and still not fit.
            self.evictions += 1
            return
        self._by_path[path] = entry
        self.size_bytes += size_bytes
        while self.size_bytes > self._most_bytes or len(self._by_path) > self._most_entries:
            self.drop(next(iter(self._by_path)))
            self.evictions += 1

    def drop(self, path: str) -> None:
        """Remove the entry of ``path``, if there is one."""
        entry = self._by_path.pop(path, None)
        if entry is not None:
            self.size_bytes -= _size_bytes(path, entry)

    def clear(self) -> None:
        """Remove all entries."""
        self._by_path.clear()
        self.size_bytes = 0


def _size_bytes(path: str, entry: CacheEntry[T]) -> int:
    return _OVERHEAD_BYTES + len(path) + entry.payload_bytes


class _AbandonedError(Exception):
    """The task that read the node was cancelled."""


class WatchedCache(ABC, Generic[T]):
    """Answers to one question about the nodes at and below ``roots``.

    Attributes:
        hits, misses: calls that were answered from memory, and those that were not.
        loads, load_failures: reads of the store, and the failed ones among them.
        refreshes: background reads, for entries that were used after their refresh age.
        version: grows whenever an answer that was given before may not hold any more; that it was
            evicted, or that a newer read found the same, is no reason.
    """

    def __init__(
        self,
        store: MetadataStore,
        roots: tuple[str, ...],
        clock: Clock,
        rules: CacheRules,
        *,
        rng: random.Random,
    ) -> None:
        self._store = store
        self._roots = _narrow(roots)
        self._clock = clock
        self._rules = rules
        self._rng = rng
        self._entries: Entries[T] = Entries(rules.most_entries, rules.most_bytes)
        self._reads: dict[str, asyncio.Future[CacheEntry[T]]] = {}
        self._is_watching = False
        self._is_connected = True
        self._stops: list[Callable[[], None]] = []
        self._tasks = TaskScope(f"cache of {' '.join(roots)}")
        self.hits = 0
        self.misses = 0
        self.loads = 0
        self.load_failures = 0
        self.refreshes = 0
        self.invalidations = 0
        self.version = 0

    @abstractmethod
    async def _read(self, path: str) -> CacheEntry[T]:
        """Ask the store; the answer need not be dated."""

    async def start(self) -> None:
        """Begin to watch; until then every call reads."""
        self._stops.append(self._store.listen(self._on_session_event))
        for root in self._roots:
            self._stops.append(
                await set_watch(self._store, root, self._on_notification, rng=self._rng)
            )
        # The connection may be lost again. Reads under way began before the watches were set.
        self._forget_all()
        self._is_watching = True

    async def close(self) -> None:
        """Stop watching; from now on every call reads."""
        for stop in self._stops:
            stop()
        self._stops = []
        self._is_watching = False
        self._forget_all()
        await self._tasks.close()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        """Estimated size of all entries."""
        return self._entries.size_bytes

    @property
    def evictions(self) -> int:
        """Entries that were evicted to keep the bounds."""
        return self._entries.evictions

    def forget(self, path: str) -> None:
        """Read ``path`` again the next time."""
        self.version += 1
        self._entries.drop(path)
        self._reads.pop(path, None)

    @contextlib.contextmanager
    def writing(self, path: str) -> Iterator[None]:
        """Wrap a write through this cache: later calls read again, even if the write failed.

        The event of the watch has the same effect, but only where the watch is set and the reply of
        the write is not lost.
        """
        try:
            yield
        finally:
            self.forget(path)

    # Answers.

    async def _find(self, path: str) -> CacheEntry[T]:
        """The entry, or the answer of the store.

        Raises:
            ValueError: no root is above ``path``, so no watch would report its changes.
        """
        while (entry := self.recall(path)) is None:
            self.misses += 1
            reading = self._reads.get(path)
            if reading is None:
                return await self._load(path, self._begin(path))
            with contextlib.suppress(_AbandonedError):
                # It began after the last event on this path, so its answer is new enough.
                return await asyncio.shield(reading)
        return entry

    def recall(self, path: str) -> CacheEntry[T] | None:
        """The entry, if a caller need not wait for it; None: it has to be read."""
        entry = self._entries.find(path)
        if entry is None:
            return None
        age_s = self._clock.now_s() - entry.read_at_s
        if age_s >= self._rules.expiry_s:
            # The old entry stays until the new one arrives: an event handler may still `peek` at
            # it.
            return None
        if age_s >= self._rules.refresh_s and path not in self._reads:
            self._refresh(path)
        self.hits += 1
        self._entries.touch(path)
        return entry

    def is_current(self, path: str, entry: CacheEntry[T] | None) -> bool:
        """Whether `recall` would still return this entry, and would not refresh it."""
        if entry is None or self._entries.find(path) is not entry:
            return False
        if self._clock.now_s() - entry.read_at_s >= self._rules.refresh_s:
            return False
        self.hits += 1
        self._entries.touch(path)
        return True

    def _refresh(self, path: str) -> None:
        self.refreshes += 1
        reading = self._begin(path)
        with requests_as(RequestClass.BULK):
            task = self._tasks.start(self._reload(path, reading), f"refresh {path}")
        # A task that is cancelled before its first step would leave the callers that joined it
        # waiting.
        task.add_done_callback(lambda _: _abandon(reading))

    async def _reload(self, path: str, reading: "asyncio.Future[CacheEntry[T]]") -> None:
        try:
            await self._load(path, reading)
        except StoreError as error:
            # The entry stays until it expires; its next use refreshes it again.
            log.debug(
                "cannot refresh %s: %s; serving the cached value until it expires", path, error
            )

    # Reads.

    def _begin(self, path: str) -> "asyncio.Future[CacheEntry[T]]":
        if not any(is_at_or_below(root, path) for root in self._roots):
            raise ValueError(f"{path} is not below {' or '.join(self._roots)}")
        reading: asyncio.Future[CacheEntry[T]] = asyncio.get_running_loop().create_future()
        # Callers that joined may be gone when the answer comes; then no caller retrieves an error.
        reading.add_done_callback(lambda done: done.exception())
        self._reads[path] = reading
        self.loads += 1
        return reading

    async def _load(self, path: str, reading: "asyncio.Future[CacheEntry[T]]") -> CacheEntry[T]:
        began_s = self._clock.now_s()
        try:
            entry = replace(await self._read(path), read_at_s=began_s)
            # An event may have removed the read from the table since it began.
            is_newest = self._reads.get(path) is reading
            if is_newest and self._is_watching and self._is_connected:
                entry = self._remember(path, entry)
        except asyncio.CancelledError:
            # A caller that joined was not cancelled itself, and reads again.
            _abandon(reading)
            raise
        except BaseException as error:
            self.load_failures += 1
            reading.set_exception(error)
            raise
        else:
            reading.set_result(entry)
            return entry
        finally:
            if self._reads.get(path) is reading:
                del self._reads[path]

    def _remember(self, path: str, entry: CacheEntry[T]) -> CacheEntry[T]:
        held = self._entries.find(path)
        if held is not None and 0 < entry.mzxid < held.mzxid:
            # The answer is of a server that lags behind the one that was asked before.
            return held
        if held is not None and held.answer != entry.answer:
            self.version += 1
        self._entries.put(path, entry)
        return entry

    # Notifications and session events of the store.

    def _on_notification(self, notification: Notification) -> None:
        if notification.change is not Change.CHILDREN_CHANGED:
            self.forget(notification.path)

    def _on_session_event(self, event: SessionEvent) -> None:
        self._is_connected = event in {SessionEvent.RECONNECTED, SessionEvent.CONNECTED}
        self.invalidations += 1
        self._forget_all()

    def _forget_all(self) -> None:
        self.version += 1
        self._entries.clear()
        self._reads.clear()


def _abandon(reading: "asyncio.Future[CacheEntry[T]]") -> None:
    if not reading.done():
        reading.set_exception(_AbandonedError())


def _narrow(roots: tuple[str, ...]) -> tuple[str, ...]:
    if ROOT in roots:
        # A watch on the root reports every ledger and cursor: millions of events (Pulsar #17620).
        raise ValueError("a cache watches the subtrees that it is used for, never the whole tree")
    return roots
