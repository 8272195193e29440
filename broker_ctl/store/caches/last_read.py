"""The last answers of a cache, for readers that go on with them while the store is away.

A cache is empty while its connection is lost, so that no caller acts on a change that was missed.
That is right for ownership, and wrong for operators' configuration: policies change rarely, and
lookups must not wait for the store that holds only policies. What was never read is refused then:
a client that gets an answer asks another broker.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from broker_ctl.errors import ConnectionLoss
from broker_ctl.store.caches.entries import Entry
from broker_ctl.store.caches.values import ValueCache
from broker_ctl.store.interface import MetadataStore, SessionEvent

T = TypeVar("T")

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

    def recall(self, path: str) -> Entry[T | None] | None:
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
