"""Those whose batch has not left: how many there may be, and for how long."""

import asyncio
from collections.abc import Iterable
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.errors import ConnectionLoss, SessionExpired, StoreClosed, StoreError, Throttled
from broker_ctl.store.batching.entries import Entry, WriteEntry

# How often they are looked at, as a part of the longest wait.
_LOOKS: Final = 20


class Backpressure:
    """Requests in the order in which they were made, wherever they wait."""

    def __init__(self, most: int, longest_s: float, clock: Clock) -> None:
        self._clock = clock
        self._most = most
        self._longest_s = longest_s
        self._entries: dict[Entry, None] = {}
        self._look: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Entry) -> None:
        """One more.

        Raises:
            Throttled: there are as many as there may be.
            StoreClosed: nothing will be sent any more.
        """
        if len(self._entries) >= self._most:
            raise self._refusal()
        self._entries[entry] = None
        if self._look is None:
            self._look_later()

    def left(self, entries: Iterable[Entry]) -> None:
        """They are on their way."""
        for entry in entries:
            self._entries.pop(entry, None)

    def _refusal(self) -> StoreError:
        if not self._most:
            return StoreClosed("the store is closed")
        return Throttled(f"{self._most} requests wait for the store already")

    def session_lost(self) -> None:
        """Writes that were asked for in its name must not be done in that of the next."""
        writes = [entry for entry in self._entries if isinstance(entry, WriteEntry)]
        for entry in writes:
            entry.fail(SessionExpired("the session was lost before it was sent"))
        self.left(writes)

    def close(self) -> None:
        """None of them will be sent, and nothing else."""
        self._most = 0
        for entry in self._entries:
            entry.fail(self._refusal())
        self._entries.clear()
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._look = loop.call_later(self._longest_s / _LOOKS, self._fail_late)

    def _fail_late(self) -> None:
        self._look = None
        now_s = self._clock.now_s()
        while self._entries:
            entry = next(iter(self._entries))
            if now_s - entry.made_s < self._longest_s:
                self._look_later()
                return
            # It keeps its place in the lane, and is passed over there.
            entry.fail(ConnectionLoss(f"not sent in {self._longest_s:.1f} s"))
            del self._entries[entry]
