"""Whether this broker's own connection has been quiet long enough to judge others by.

After trouble of one's own the others may seem to be gone although they are not: their absence, or
their silence, is then acted on only after as long as a session of theirs may take to show up again
or to end (reference: pulsar-load-management 12.1, "stable" and "jittery").
"""

import asyncio
from collections.abc import Callable

from broker_ctl.clock import Clock
from broker_ctl.store.interface import MetadataStore, SessionEvent

_TROUBLE = frozenset({SessionEvent.SUSPENDED, SessionEvent.EXPIRED, SessionEvent.RECONNECTED})


class Steadiness:
    """Remembers the last trouble; there was none before the first connection."""

    def __init__(self, store: MetadataStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._trouble_s: float | None = None
        self._stop_listening: Callable[[], None] | None = None

    def start(self) -> None:
        """Begin to listen."""
        self._stop_listening = self._store.listen(self._heard)

    def close(self) -> None:
        """Stop listening."""
        if self._stop_listening is not None:
            self._stop_listening()

    def remaining_s(self) -> float:
        """Until others may be judged, should nothing else happen; 0: now."""
        if self._trouble_s is None:
            return 0.0
        quiet_s = self._clock.now_s() - self._trouble_s
        return max(0.0, self._store.session_timeout_s - quiet_s)

    async def wait_steady(self) -> None:
        """Return once others may be judged."""
        while (remaining_s := self.remaining_s()) > 0:
            await asyncio.sleep(remaining_s)

    def _heard(self, event: SessionEvent) -> None:
        if event in _TROUBLE:
            self._trouble_s = self._clock.now_s()
