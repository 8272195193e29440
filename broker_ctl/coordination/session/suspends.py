"""How long the machine was suspended, and what that says of the newest handshake."""

import asyncio
from typing import Final

from broker_ctl.clock import Clock

# Maximum time between sending a handshake and its answer, by the loop's clock.
_HANDSHAKE_LIMIT_S: Final = 2.0


class SuspendMeter:
    """Compares the clock that counts suspends with the loop's, which does not."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._before_s = 0.0

    def mark(self) -> None:
        """Count from now on."""
        self._before_s = self._total_s()

    def handshake_s(self) -> float:
        """The earliest time at which the handshake that was just answered can have been sent.

        Its limit does not run while the machine is suspended, but the servers count on: whatever
        was slept since the mark, which is older than the handshake, may have come after the
        sending.
        """
        slept_s = max(0.0, self._total_s() - self._before_s)
        return self._clock.now_s() - _HANDSHAKE_LIMIT_S - slept_s

    def _total_s(self) -> float:
        return self._clock.now_s() - asyncio.get_running_loop().time()
