"""The persistent recursive watches of one client: who hears what, and what to set again."""

from collections.abc import Callable, Iterator
from typing import Final

from broker_ctl.store.interface import Notification, NotificationListener
from broker_ctl.store.zookeeper.listeners import tell

# A setWatches2 request must stay well below jute.maxbuffer.
_CHUNK_BYTES: Final = 128 * 1024


class WatchTable:
    """Listeners by root. The server keeps one watch a root, however many listen."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[NotificationListener]] = {}
        # What a path below each root begins with: asked for each of thousands of notifications.
        self._prefixes: dict[str, str] = {}

    def add(self, root: str, listener: NotificationListener) -> Callable[[], None]:
        """Listen below ``root``; returns what ends it."""
        self._listeners.setdefault(root, []).append(listener)
        self._prefixes[root] = root if root == "/" else root + "/"

        def stop() -> None:
            self._listeners[root].remove(listener)
            # The server goes on telling; nobody listens, and no later connection sets it again.
            if not self._listeners[root]:
                del self._listeners[root], self._prefixes[root]

        return stop

    def notify(self, notification: Notification) -> None:
        """Tell every listener whose root is the path or above it, in order of registration."""
        path = notification.path
        for root, prefix in tuple(self._prefixes.items()):
            # A listener that was told before may have ended this one.
            if (path.startswith(prefix) or path == root) and root in self._listeners:
                tell(self._listeners[root], notification)

    def chunks(self) -> Iterator[list[str]]:
        """All roots, in lists that fit into one request each."""
        chunk: list[str] = []
        size = 0
        # While one list is being sent, listeners come and go.
        for root in tuple(self._listeners):
            if chunk and size + len(root) > _CHUNK_BYTES:
                yield chunk
                chunk, size = [], 0
            chunk.append(root)
            size += len(root)
        if chunk:
            yield chunk
