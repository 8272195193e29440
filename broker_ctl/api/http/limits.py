"""How many requests may be in progress, and for how long."""

import asyncio
from collections.abc import Awaitable, Generator
from functools import partial
from types import coroutine
from typing import Any, Final, Self

from aiohttp import web

from broker_ctl.api.http.responses import ApiError

# Pulsar's clients give a lookup up after 30 s. Acts have deadlines of their own, which are
# shorter: this one only ends what hangs. The act itself goes on.
_READ_LIMIT_S: Final = 30.0
_ACT_LIMIT_S: Final = 300.0
_READS: Final = frozenset({"GET", "HEAD"})
_CLIENT_PATHS: Final = ("/lookup/", "/admin/", "/partitions/")


class ConcurrencyLimit:
    """At most ``limit`` at a time; one more is refused, never queued.

    A lookup passes two of them, and takes some 50 us in all: the block is the bound itself.
    """

    def __init__(self, subject: str, limit: int) -> None:
        self._subject = subject
        self.limit = limit
        self.in_flight = 0

    def held(self) -> Self:
        """Count one for the length of the block.

        Raises:
            ApiError: 503, there are too many.
        """
        return self

    def __enter__(self) -> None:
        if self.in_flight >= self.limit:
            raise ApiError(503, f"{self.limit} {self._subject} are in progress", kind="Busy")
        self.in_flight += 1

    def __exit__(self, *_: object) -> None:
        self.in_flight -= 1


class RequestClasses:
    """Two lanes of one width, one for clients and one for everybody else.

    A flood of clients keeps out neither the leader's orders, nor a broker process that asks for
    its authority, nor whoever looks what the matter is.
    """

    def __init__(self, width: int) -> None:
        self.clients = ConcurrencyLimit("requests of clients", width)
        self.brokers = ConcurrencyLimit("requests", width)
        self.is_closed = False

    @property
    def in_flight(self) -> int:
        """Requests in progress."""
        return self.clients.in_flight + self.brokers.in_flight

    def close(self) -> None:
        """Refuse whatever comes now."""
        self.is_closed = True

    def of(self, request: web.Request) -> tuple[ConcurrencyLimit, float]:
        """The lane of a request, and how long it may take, in seconds.

        Raises:
            ApiError: 503, nothing is taken any more.
        """
        if self.is_closed:
            raise ApiError(503, "this broker is shutting down", kind="Draining")
        is_client = request.path.startswith(_CLIENT_PATHS)
        limit_s = _READ_LIMIT_S if request.method in _READS else _ACT_LIMIT_S
        return self.clients if is_client else self.brokers, limit_s


@coroutine
def within(
    limit_s: float, answering: Awaitable[web.StreamResponse]
) -> Generator[Any, Any, web.StreamResponse]:
    """The answer, unless it hangs. Most answers wait for nothing: they are spared the timer.

    Raises:
        ApiError: 503, it is not done in time.
    """
    steps = answering.__await__()
    try:
        first = next(steps)
    except StopIteration as done:
        answer: web.StreamResponse = done.value
        return answer
    return (yield from _timed(limit_s, _Begun(first, steps)).__await__())


class _Begun:
    """The rest of an answer whose first step has been made; ``first`` is what it waits for."""

    def __init__(self, first: Any, steps: Generator[Any, Any, web.StreamResponse]) -> None:
        self._first = first
        self._steps = steps

    def __await__(self) -> Generator[Any, Any, web.StreamResponse]:
        waits_for = self._first
        while True:
            try:
                came = yield waits_for
            except BaseException as error:  # noqa: BLE001  # cancelled while it waits: it shall hear of it
                step = partial(self._steps.throw, error)
            else:
                step = partial(self._steps.send, came)
            try:
                waits_for = step()
            except StopIteration as done:
                answer: web.StreamResponse = done.value
                return answer


async def _timed(limit_s: float, answering: Awaitable[web.StreamResponse]) -> web.StreamResponse:
    deadline = asyncio.timeout(limit_s)
    try:
        async with deadline:
            return await answering
    except TimeoutError:
        if not deadline.expired():
            raise
        raise ApiError(503, f"not done within {limit_s:g} s", kind="Timeout") from None
