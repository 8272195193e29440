"""Lag of the event loop: a blocked loop shows here before a lease is lost."""

import asyncio
from typing import Final

from broker_ctl.clock import Clock
from broker_ctl.instruments.kinds import Histogram

_PERIOD_S: Final = 0.25


async def measure_lag(clock: Clock, lag: Histogram) -> None:
    """Observe the lag every 0.25 s until cancelled."""
    while True:
        due_s = clock.now_s() + _PERIOD_S
        await asyncio.sleep(_PERIOD_S)
        lag.observe(max(0.0, clock.now_s() - due_s))
