"""Watches of a session, and its ephemeral nodes."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, TypeVar

from broker_ctl import errors
from broker_ctl.store.interface import (
    Aspect,
    BulkStore,
    Notification,
    NotificationListener,
    Read,
    Stat,
)
from broker_ctl.store.path_rules import ROOT

log = logging.getLogger(__name__)

# Lists a session's ephemeral nodes where getEphemerals would exceed the largest reply.


_MOST_READS: Final = 64


async def own_ephemerals(
    store: BulkStore, prefix: str, deadline_s: Callable[[], float]
) -> list[str]:
    """Sorted paths at or below ``prefix``, by looking at every node there.

    ``deadline_s`` says until when a request that is made now must have ended.
    """
    session_id, waiting, found = store.session_id, [prefix], list[str]()
    while waiting:
        reads = [Read(path, Aspect.STAT) for path in waiting[-_MOST_READS:]]
        del waiting[-_MOST_READS:]
        for read, stat in zip(reads, await store.read_many(reads, deadline_s()), strict=True):
            if isinstance(stat, errors.StoreError):
                raise stat
            if not isinstance(stat, Stat):
                continue  # deleted meanwhile
            if stat.ephemeral_owner == session_id:
                found.append(read.path)
            elif stat.children_count:
                parent = read.path.rstrip("/")
                waiting += [f"{parent}/{name}" for name in await store.children(read.path)]
    return sorted(found)


# The persistent recursive watches of one client: their listeners, and the roots to set again.


T = TypeVar("T")

# A setWatches2 request must stay well below jute.maxbuffer.
_CHUNK_BYTES: Final = 128 * 1024


class WatchTable:
    """Listeners by root. The server keeps one watch a root, however many listen."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[NotificationListener]] = {}
        # Position of each root in the order of registration.
        self._turns: dict[str, int] = {}
        self._registered = 0

    def add(self, root: str, listener: NotificationListener) -> Callable[[], None]:
        """Add a listener below ``root``; return a function that removes it."""
        if root not in self._listeners:
            self._listeners[root] = []
            self._registered += 1
            self._turns[root] = self._registered
        self._listeners[root].append(listener)

        def stop() -> None:
            self._listeners[root].remove(listener)
            # The server keeps notifying; no later connection sets the watch again.
            if not self._listeners[root]:
                del self._listeners[root], self._turns[root]

        return stop

    @property
    def roots(self) -> Collection[str]:
        """What is watched, in order of registration; a live view."""
        return self._listeners.keys()

    def notify(self, notification: Notification) -> None:
        """Notify every listener whose root is the path or above it, in order of registration."""
        path, listeners = notification.path, self._listeners
        # Walk up from the path instead of over all roots: thousands of events may come at once.
        roots = [path] if path in listeners else []
        cut = path.rfind("/")
        while cut > 0:
            above = path[:cut]
            if above in listeners:
                roots.append(above)
            cut = path.rfind("/", 0, cut)
        if ROOT in listeners and path != ROOT:
            roots.append(ROOT)
        if len(roots) > 1:
            roots.sort(key=self._turns.__getitem__)
        for root in roots:
            # A listener that was notified earlier may have removed this one.
            if root in listeners:
                notify_listeners(listeners[root], notification)

    def chunks(self) -> Iterator[list[str]]:
        """All roots, in lists that fit into one request each."""
        chunk: list[str] = []
        size = 0
        # Listeners come and go while one list is being sent.
        for root in tuple(self._listeners):
            if chunk and size + len(root) > _CHUNK_BYTES:
                yield chunk
                chunk, size = [], 0
            chunk.append(root)
            size += len(root)
        if chunk:
            yield chunk


def notify_listeners(listeners: Iterable[Callable[[T], None]], news: T) -> None:
    """Call every listener, in order.

    They are called from the task that reconnects and from the socket's reader. An exception of one
    listener must end neither: no task would reconnect, and replies would be lost.
    """
    for listener in tuple(listeners):
        try:
            listener(news)
        except Exception:
            log.exception("listener failed on %s; the other listeners are notified", news)
