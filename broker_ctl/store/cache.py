"""Decoded nodes below one root, kept right by a watch.

A read that was started before an event never overwrites what came after: an event takes the read
out of the table, and only a read that is still in the table stores its answer. Nothing is trusted
while the connection is gone, because events that are missed then are not replayed.
Reference: metadata-store 2.2 to 2.4.
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from broker_ctl.errors import CorruptRecord
from broker_ctl.store.interface import MetadataStore, Notification, SessionEvent, Versioned

log = logging.getLogger(__name__)

T = TypeVar("T")

_MAX_ENTRIES: Final = 100_000


class _AbandonedError(Exception):
    """Whoever read the node was cancelled."""


class ValueCache(Generic[T]):
    """One kind of payload. Absent nodes are remembered too; values are shared, never changed."""

    def __init__(
        self,
        store: MetadataStore,
        root: str,
        decode: Callable[[Versioned], T],
        max_entries: int = _MAX_ENTRIES,
    ) -> None:
        self._store = store
        self._root = root
        self._decode = decode
        self._max_entries = max_entries
        self._entries: OrderedDict[str, T | None] = OrderedDict()
        self._loading: dict[str, asyncio.Future[T | None]] = {}
        self._is_trusted = False
        self._stops: list[Callable[[], None]] = []
        self.hits = 0
        self.misses = 0
        self.corrupt = 0

    async def start(self) -> None:
        """Begin to watch; until then every `get` reads."""
        self._stops.append(self._store.listen(self._session_changed))
        self._stops.append(await self._store.watch(self._root, self._changed))
        self._drop_all(is_trusted=True)

    def close(self) -> None:
        """Stop watching."""
        for stop in self._stops:
            stop()
        self._stops = []
        self._drop_all(is_trusted=False)

    def __len__(self) -> int:
        return len(self._entries)

    async def get(self, path: str) -> T | None:
        """The node's value, None where it does not exist.

        Raises:
            CorruptRecord: it does not decode; not remembered, and counted.
        """
        while path not in self._entries:
            self.misses += 1
            loading = self._loading.get(path)
            if loading is None:
                return await self._load(path)
            with contextlib.suppress(_AbandonedError):
                # Started after the last event on this path, so its answer is new enough.
                return await asyncio.shield(loading)
        self.hits += 1
        self._entries.move_to_end(path)
        return self._entries[path]

    async def _load(self, path: str) -> T | None:
        future: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()
        # Whoever joins may be gone when the answer comes; it is nobody's error then.
        future.add_done_callback(lambda done: done.exception())
        self._loading[path] = future
        try:
            node = await self._store.get(path)
            value = None if node is None else self._decode(node)
        except BaseException as error:
            if isinstance(error, CorruptRecord):
                self.corrupt += 1
                log.warning("skipped %s: %s", path, error)
            # Who joined was not cancelled, and reads for himself.
            is_cancelled = isinstance(error, asyncio.CancelledError)
            future.set_exception(_AbandonedError() if is_cancelled else error)
            raise
        else:
            future.set_result(value)
            if self._is_trusted and self._loading.get(path) is future:
                self._remember(path, value)
            return value
        finally:
            if self._loading.get(path) is future:
                del self._loading[path]

    def _remember(self, path: str, value: T | None) -> None:
        self._entries[path] = value
        if len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)

    def forget(self, path: str) -> None:
        """Read the node again the next time, as after an own write to it."""
        self._entries.pop(path, None)
        self._loading.pop(path, None)

    def peek(self, path: str) -> T | None:
        """What is remembered, without reading."""
        return self._entries.get(path)

    def _changed(self, notification: Notification) -> None:
        self.forget(notification.path)

    def _session_changed(self, event: SessionEvent) -> None:
        is_connected = event in {SessionEvent.RECONNECTED, SessionEvent.CONNECTED}
        self._drop_all(is_trusted=is_connected)

    def _drop_all(self, *, is_trusted: bool) -> None:
        self._entries.clear()
        self._loading.clear()
        self._is_trusted = is_trusted
