"""How many requests may be in progress, and for how long."""

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from broker_ctl.surface.answers import Refusal

# Pulsar's clients give a lookup up after 30 s. Acts have deadlines of their own, which are
# shorter: this one only ends what hangs. The act itself goes on.
_READ_LIMIT_S: Final = 30.0
_ACT_LIMIT_S: Final = 300.0
_CLIENT_PATHS: Final = ("/lookup/", "/admin/")


class Bound:
    """At most ``limit`` at a time; one more is refused, never queued."""

    def __init__(self, subject: str, limit: int) -> None:
        self._subject = subject
        self.limit = limit
        self.in_flight = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Count one for the length of the block.

        Raises:
            Refusal: 503, there are too many.
        """
        if self.in_flight >= self.limit:
            raise Refusal(503, f"{self.limit} {self._subject} are in progress", kind="Busy")
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1


class Lanes:
    """Two lanes of one width, one for clients and one for everybody else.

    A flood of clients keeps out neither the leader's orders, nor a broker process that asks for
    its authority, nor whoever looks what the matter is.
    """

    def __init__(self, width: int) -> None:
        self.clients = Bound("requests of clients", width)
        self.brokers = Bound("requests", width)
        self.is_closed = False

    @property
    def in_flight(self) -> int:
        """Requests in progress."""
        return self.clients.in_flight + self.brokers.in_flight

    def close(self) -> None:
        """Refuse whatever comes now."""
        self.is_closed = True

    def middleware(self) -> Middleware:
        """Counts requests and ends those that hang."""

        @web.middleware
        async def bound(request: web.Request, handler: Handler) -> web.StreamResponse:
            if self.is_closed:
                raise Refusal(503, "this broker is shutting down", kind="Draining")
            is_client = request.path.startswith(_CLIENT_PATHS)
            limit_s = _READ_LIMIT_S if request.method in {"GET", "HEAD"} else _ACT_LIMIT_S
            with (self.clients if is_client else self.brokers).held():
                return await _within(limit_s, handler(request))

        return bound


async def _within(limit_s: float, answering: Awaitable[web.StreamResponse]) -> web.StreamResponse:
    deadline = asyncio.timeout(limit_s)
    try:
        async with deadline:
            return await answering
    except TimeoutError:
        if not deadline.expired():
            raise
        raise Refusal(503, f"not done within {limit_s:g} s", kind="Timeout") from None
