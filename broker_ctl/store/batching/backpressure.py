"""Back-pressure: how many requests may wait for a batch, and for how long."""

import asyncio
from collections.abc import Iterable
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.errors import ConnectionLoss, SessionExpired, StoreClosed, StoreError, Throttled
from broker_ctl.store.batching.entries import Entry, WriteEntry

# Checks for late requests per longest wait.
_CHECKS_PER_WAIT: Final = 20


class Backpressure:
    """All waiting requests, of any lane, oldest first."""

    def __init__(self, most: int, max_wait_s: float, clock: Clock) -> None:
        self._clock = clock
        self._max_requests = most
        self._max_wait_s = max_wait_s
        self._entries: dict[Entry, None] = {}
        self._check_timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Entry) -> None:
        """Add a request.

        Raises:
            Throttled: as many as allowed wait already.
            StoreClosed: the store is closed and sends nothing more.
        """
        self.check_room()
        self._entries[entry] = None
        if self._check_timer is None:
            self._schedule_check()

    def check_room(self) -> None:
        """Raise as `add` if no request may be added."""
        if len(self._entries) >= self._max_requests:
            raise self._refusal()

    def remove(self, entries: Iterable[Entry]) -> None:
        """Remove requests whose batch is sent."""
        for entry in entries:
            self._entries.pop(entry, None)

    def _refusal(self) -> StoreError:
        if not self._max_requests:
            return StoreClosed("the store is closed")
        return Throttled(f"{self._max_requests} requests wait for the store already")

    def fail_writes(self) -> None:
        """Fail all writes: a write of a lost session must not be done by the next session."""
        writes = [entry for entry in self._entries if isinstance(entry, WriteEntry)]
        for entry in writes:
            entry.fail(SessionExpired("the session was lost before it was sent"))
        self.remove(writes)

    def close(self) -> None:
        """Fail all waiting requests, and every later one."""
        self._max_requests = 0
        for entry in self._entries:
            entry.fail(self._refusal())
        self._entries.clear()
        if self._check_timer is not None:
            self._check_timer.cancel()
            self._check_timer = None

    def _schedule_check(self) -> None:
        loop = asyncio.get_running_loop()
        self._check_timer = loop.call_later(self._max_wait_s / _CHECKS_PER_WAIT, self._fail_late)

    def _fail_late(self) -> None:
        self._check_timer = None
        now_s = self._clock.now_s()
        while self._entries:
            entry = next(iter(self._entries))
            if now_s - entry.made_s < self._max_wait_s:
                self._schedule_check()
                return
            # The entry stays in its lane's queue, which skips it.
            entry.fail(ConnectionLoss(f"not sent in {self._max_wait_s:.1f} s"))
            del self._entries[entry]
