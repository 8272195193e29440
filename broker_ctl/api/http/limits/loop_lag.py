"""The lag of the event loop: how late a timer fires."""

import asyncio
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.instruments.kinds import Histogram

_PERIOD_S: Final = 0.25


class LoopLag:
    """Measures the lag four times a second; heartbeats are late by as much.

    Args:
        limit_s: a lag above it, twice in succession, is high; once may be a garbage collection.
    """

    def __init__(self, clock: Clock, observed: Histogram, limit_s: float) -> None:
        self._clock = clock
        self._observed = observed
        self._limit_s = limit_s
        self._was_above = False
        self.is_high = False

    async def measure(self) -> None:
        """Measure until cancelled."""
        while True:
            due_s = self._clock.now_s() + _PERIOD_S
            await asyncio.sleep(_PERIOD_S)
            lag_s = max(0.0, self._clock.now_s() - due_s)
            self._observed.observe(lag_s)
            is_above = lag_s > self._limit_s
            self.is_high = is_above and self._was_above
            self._was_above = is_above
