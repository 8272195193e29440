"""A bounded line of news between a listener of the store and a task that iterates."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, Self, TypeVar

from broker_ctl.store.interface import MetadataStore, SessionEvent

_T = TypeVar("_T")

_MOST_EVENTS: Final = 1_000


class Inbox(Generic[_T]):
    """What has come, in order; where it has grown too long, nothing of it and that it has.

    Attributes:
        has_overflowed: something was dropped since this was last set to false.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._items: deque[_T] = deque()
        self._wake = asyncio.Event()
        self.has_overflowed = False

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: _T) -> None:
        """Append one; called by listeners, so it never waits."""
        if len(self._items) >= self._most:
            self._items.clear()
            self.has_overflowed = True
        self._items.append(item)
        self._wake.set()

    def clear(self) -> None:
        """Drop all."""
        self._items.clear()

    def take(self) -> _T:
        """The oldest, which there must be."""
        return self._items.popleft()

    def wake(self) -> None:
        """End `wait` without an item."""
        self._wake.set()

    async def wait(self) -> None:
        """Return once there is an item, or after `wake`."""
        while not self._items and not self._wake.is_set():
            await self._wake.wait()
        self._wake.clear()


class SessionEvents:
    """Events of the session, from the ``async with`` on, in the order in which they happened.

    The iteration ends after CLOSED. Who does not read 1,000 events in a row loses them: what
    counts then is `Client.state`.
    """

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._inbox: Inbox[SessionEvent] = Inbox(_MOST_EVENTS)
        self._stop: Callable[[], None] | None = None
        self._is_over = False

    async def __aenter__(self) -> Self:
        self._stop = self._store.listen(self._inbox.put)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._stop is not None:
            self._stop()
            self._stop = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionEvent:
        if self._is_over:
            raise StopAsyncIteration
        while not len(self._inbox):
            await self._inbox.wait()
        event = self._inbox.take()
        self._is_over = event is SessionEvent.CLOSED
        return event
