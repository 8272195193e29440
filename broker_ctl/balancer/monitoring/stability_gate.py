"""Whether this broker's own connection has been stable long enough to judge other brokers.

After a disturbance of the own connection, live brokers may seem to be gone: the leader acts on
their absence or silence only after one session timeout, within which their sessions reappear or end
(docs: pulsar-extensible; "stable" and "jittery").
"""

import asyncio
from collections.abc import Callable
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.store.interface import MetadataStore, SessionEvent

_CONNECTED: Final = frozenset({SessionEvent.CONNECTED, SessionEvent.RECONNECTED})


class StabilityGate:
    """Tracks the last loss of the connection."""

    def __init__(self, store: MetadataStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._is_connected = True
        self._trouble_s: float | None = None
        self._stop_listening: Callable[[], None] | None = None

    def start(self) -> None:
        """Start to listen."""
        self._stop_listening = self._store.listen(self._on_session_event)

    def close(self) -> None:
        """Stop listening."""
        if self._stop_listening is not None:
            self._stop_listening()

    def remaining_s(self) -> float:
        """Seconds until other brokers may be judged; 0: now."""
        if not self._is_connected:
            return self._store.session_timeout_s
        if self._trouble_s is None:
            return 0.0
        quiet_s = self._clock.now_s() - self._trouble_s
        return max(0.0, self._store.session_timeout_s - quiet_s)

    async def wait_stable(self) -> None:
        """Return once other brokers may be judged."""
        while True:
            remaining_s = self.remaining_s()
            if remaining_s <= 0:
                return
            # The connection may be lost again during the sleep.
            await asyncio.sleep(remaining_s)

    def _on_session_event(self, event: SessionEvent) -> None:
        is_connected = event in _CONNECTED
        if not (is_connected and self._is_connected):
            self._trouble_s = self._clock.now_s()
        self._is_connected = is_connected
