"""Answers to requests without a valid authentication (docs: configure-failures)."""

import asyncio
from collections import Counter
from typing import Final

from aiohttp import web

from broker_ctl.api.http import responses
from broker_ctl.errors import TooManyRequests
from broker_ctl.instruments.bounds import BoundInstruments
from broker_ctl.security.client_limits.failure_delays import FailureDelays

# A delayed answer outlives its connection, so connections do not limit their number.
_MAX_DELAYED: Final = 1024
_MAX_DELAYED_OF_ADDRESS: Final = 128
_REASON: Final = "too many requests of this address were not authenticated"


class FailedAuthentications:
    """Delays 401s. Where too many are delayed already, further ones become 429s.

    Attributes:
        refused: how many became 429s so far.
    """

    def __init__(self, delays: FailureDelays) -> None:
        self._delays = delays
        self._delayed: Counter[str] = Counter()
        self.refused = 0

    def show(self, bounds: BoundInstruments) -> None:
        """Show the delayed answers as a bound."""
        bounds.follow(
            "delayed-failures",
            used=self._delayed.total,
            limit=lambda: _MAX_DELAYED,
            refused=lambda: self.refused,
        )

    async def answer(self, origin: str, response: web.StreamResponse) -> web.StreamResponse:
        """The response to a request that was not authenticated, when it may be sent."""
        delay_s = self._delays.record(origin, "http")
        if not delay_s:
            return response
        if (
            self._delayed[origin] >= _MAX_DELAYED_OF_ADDRESS
            or self._delayed.total() >= _MAX_DELAYED
        ):
            self.refused += 1
            return responses.from_error(TooManyRequests(_REASON, delay_s))
        self._delayed[origin] += 1
        try:
            await asyncio.sleep(delay_s)
        finally:
            self._delayed[origin] -= 1
            if not self._delayed[origin]:
                del self._delayed[origin]
        return response
