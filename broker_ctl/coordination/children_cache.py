"""A full copy of the children of one node, and how it is brought up to date."""

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

from broker_ctl.errors import CorruptRecord, NewerVersion, StoreClosed, StoreError
from broker_ctl.retry import is_any, retry
from broker_ctl.store.forwarding import set_watch
from broker_ctl.store.interface import (
    MetadataStore,
    Notification,
    RequestClass,
    SessionEvent,
    Versioned,
    requests_as,
)
from broker_ctl.store.paths import name_below
from broker_ctl.tasks import TaskScope

log = logging.getLogger(__name__)

# Shared ``sync`` calls: wait until this broker's server has all that was committed.
#
# A ``sync`` goes through the leader of the servers, and acquiring a thousand bundles at once
# would need as many. One call serves all callers that came before it was sent; callers during the
# call need the next one, since the leader may have answered already.


class SyncBarrier:
    """At most one ``sync`` in flight, and one queued."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._tasks = TaskScope("catching up")
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None
        self._is_closed = False

    async def wait(self, path: str) -> None:
        """Return once this broker's server has all that was committed before the call.

        Raises:
            StoreError: the sync failed.
        """
        if self._is_closed:
            raise StoreClosed("the sync barrier is closed")
        if self._next is None:
            self._next = self._tasks.start(self._sync(path), "sync", is_joined=True)
        await asyncio.shield(self._next)

    async def close(self) -> None:
        """Cancel the calls in progress."""
        self._is_closed = True
        await self._tasks.close()

    async def _sync(self, path: str) -> None:
        async with self._turn:
            # Callers from here on are not covered by this sync.
            self._next = None
            await self._store.sync(path)


# A full copy of the children of one node, with their values.
#
# For small sets that are read often: live brokers, moves, load reports on the leader. One task
# reads each notified change. It reads after the event, so the copy always converges to the newest
# state, even if events were missed (docs: pulsar-caches, pulsar-leader-election; notifications
# are only hints to read again).


T = TypeVar("T")


class PathChildrenCache(Generic[T]):
    """Children of ``root`` by name.

    A child that does not decode, or that a newer release wrote, is left out and counted, so that
    the others stay visible.
    """

    def __init__(
        self,
        store: MetadataStore,
        root: str,
        decode: Callable[[Versioned], T],
        *,
        rng: random.Random,
    ) -> None:
        self._store = store
        self._root = root
        self._decode = decode
        self._rng = rng
        self._values: dict[str, T] = {}
        self._view: Mapping[str, T] = MappingProxyType(self._values)
        self._dirty: set[str] = set()
        self._is_all_dirty = True
        self._wake = asyncio.Event()
        self._synced = asyncio.Event()
        self._listeners: list[Callable[[Collection[str]], None]] = []
        self._stops: list[Callable[[], None]] = []
        self._tasks = TaskScope(f"copy of {root}")
        self.corrupt = 0
        self.version = 0

    async def start(self) -> None:
        """Watch, then read, so that no change in between is missed."""
        self._stops = [
            self._store.listen(self._on_session_event),
            await set_watch(self._store, self._root, self._changed, rng=self._rng),
        ]
        self._wake.set()
        self._tasks.keep(self._keep_up(), "keep up")

    async def close(self) -> None:
        """Stop watching and reading."""
        for stop in self._stops:
            stop()
        self._stops = []
        await self._tasks.close()

    @property
    def values(self) -> Mapping[str, T]:
        """The values by child name; a live view, which may change during any await."""
        return self._view

    def listen(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` when the cache has changed; returns a function that stops it."""
        return self.listen_to_names(lambda _: listener())

    def listen_to_names(self, listener: Callable[[Collection[str]], None]) -> Callable[[], None]:
        """As `listen`, with the names of the children that have changed."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def wait_synced(self) -> None:
        """Return once all notified changes have been read."""
        await self._synced.wait()

    def _changed(self, notification: Notification) -> None:
        name = name_below(self._root, notification.path)
        if name is not None:
            self._mark(name)

    def _on_session_event(self, event: SessionEvent) -> None:
        if event in {SessionEvent.RECONNECTED, SessionEvent.CONNECTED}:
            self._mark(None)

    def _mark(self, name: str | None) -> None:
        if name is None:
            self._is_all_dirty = True
        else:
            self._dirty.add(name)
        self._synced.clear()
        self._wake.set()

    async def _keep_up(self) -> None:
        while True:
            await self._wake.wait()
            # The session may be gone for long; its return marks everything again.
            with requests_as(RequestClass.BULK):
                changed = await retry(
                    self._read_dirty,
                    f"cannot read {self._root}",
                    rng=self._rng,
                    judge=is_any(StoreError),
                    level=logging.DEBUG,
                )
            # While the answers were on their way, more may have been reported.
            if not self._wake.is_set():
                self._synced.set()
            if changed:
                for listener in tuple(self._listeners):
                    listener(changed)

    async def _read_dirty(self) -> Collection[str]:
        self._wake.clear()
        dirty, is_all_dirty = self._dirty, self._is_all_dirty
        self._dirty, self._is_all_dirty = set(), False
        try:
            return await self._read(None if is_all_dirty else sorted(dirty))
        except StoreError:
            self._dirty |= dirty
            self._is_all_dirty |= is_all_dirty
            raise

    async def _read(self, names: list[str] | None) -> Collection[str]:
        """Read these children, or all; returns the names of those that have changed."""
        gone: set[str] = set()
        if names is None:
            names = await self._store.children(self._root)
            gone = self._values.keys() - set(names)
        nodes = await self._store.get_many([f"{self._root}/{name}" for name in names])
        # From here on nothing fails: no change that was taken in goes unreported.
        for name in gone:
            del self._values[name]
            self.version += 1
        changed = [name for name, node in zip(names, nodes, strict=True) if self._take(name, node)]
        return [*sorted(gone), *changed]

    def _take(self, name: str, node: Versioned | None) -> bool:
        """Keep what was read of a child; returns whether that is a change."""
        before = self._values.get(name)
        value = None
        if node is not None:
            try:
                value = self._decode(node)
            except (CorruptRecord, NewerVersion) as error:
                self.corrupt += 1
                log.warning("skipped %s/%s: %s", self._root, name, error)
        if value is None:
            self._values.pop(name, None)
        else:
            self._values[name] = value
        is_changed = value != before
        self.version += is_changed
        return is_changed
